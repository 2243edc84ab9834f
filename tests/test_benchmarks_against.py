"""What benchmarks/against.py makes of the times of two states: the table, and which methods are slower."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def against(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("against")


@pytest.fixture
def times(against):
    """The times of the run that docs/speed.md shows."""
    return against.times_in(json.loads((ROOT / "docs" / "runs" / "bench.json").read_text()))


def test_all_times_of_a_run_are_compared(against, times):
    assert {"ba-shapes: kec", "cora: anchored-kec", "cora: kec, whole graph", "cora: Captum saliency"} <= set(times)
    assert all(value > 0 for value in times.values())
    first = {"now": times, "before": {name: 2 * value for name, value in times.items()}}
    busy = {"now": {name: 3 * value for name, value in times.items()}, "before": dict(times)}
    rows = against.rows_of([first, busy])
    assert [row[0] for row in rows] == list(times)
    for name, now, before, *ratios in rows:
        assert (now, before) == (times[name], times[name])
        assert ratios == pytest.approx([1.0, 0.5, 1.75, 3.0])
    del busy["before"]["cora: kec"]
    assert "cora: kec" not in [row[0] for row in against.rows_of([first, busy])]


@pytest.mark.parametrize(("slow", "code"), [("cora: kec", 1), ("cora: Captum saliency", 0), (None, 0)])
def test_a_method_of_ours_that_is_slower_is_named(against, times, slow, code, tmp_path, monkeypatch, capsys):
    now = {**times, **({} if slow is None else {slow: 1.5 * times[slow]})}
    (tmp_path / "kept.json").write_text(json.dumps({"revision": "old", "rounds": [{"now": now, "before": times}] * 2}))
    monkeypatch.setattr(sys, "argv", ["against.py", "--from", str(tmp_path / "kept.json")])
    assert against.main() == code
    out, err = capsys.readouterr()
    assert ("cora: kec" in err) == bool(code)
    assert out.count("| 1.50 | 1.50 to 1.50 |") == int(slow is not None)
    assert out.startswith("| ms an explanation | now | old |")
