"""What the tests of pages share: the scripts that print what the pages show."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark_named(monkeypatch):
    """Import scripts of benchmarks/ by name; afterwards they are gone, because stress/ has some of the same names."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == BENCHMARKS:
            del sys.modules[name]
