"""What the tests of pages share: the scripts that print what the pages show."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STRESS = BENCHMARKS.parent / "stress"


def imported_from(folder):
    """The modules that were imported from a folder, by name."""
    return {
        name: one for name, one in sys.modules.items() if Path(getattr(one, "__file__", None) or "").parent == folder
    }


@pytest.fixture
def benchmark_named(monkeypatch):
    """Import scripts of benchmarks/ by name; stress/ has some of the same names, so that neither sees the other's."""
    others = imported_from(STRESS)
    for name in others:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in imported_from(BENCHMARKS):
        del sys.modules[name]
    sys.modules.update(others)
