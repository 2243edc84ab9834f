"""The list of model kinds in a small form: right, or refused for a true reason."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(SCRIPTS))
try:
    model_kinds = importlib.import_module("model_kinds")
finally:
    sys.path.remove(str(SCRIPTS))

# Each kind is tried in one neighbourhood, and neighbours in the list in different ones.
CASES = [
    (kind, model_kinds.NEAR[place % len(model_kinds.NEAR)])
    for place, kind in enumerate(model_kinds.KINDS)
    if kind.toggle is None
]
# In a neighbourhood of features nothing depends on how A is taken.
CASES += [(kind, "B(A,0.5)") for kind in model_kinds.KINDS if kind.toggle is not None]


@pytest.mark.parametrize(("kind", "near"), CASES, ids=[f"{kind.name} in {near}" for kind, near in CASES])
def test_a_kind_is_right_or_refused_for_a_true_reason(kind, near):
    row = model_kinds.try_kind(kind, near, samples=4)
    assert not model_kinds.is_fault(row), model_kinds.as_cells(row)


def test_there_are_kinds_of_every_sort():
    assert len(model_kinds.KINDS) >= 100
    assert len({kind.name for kind in model_kinds.KINDS}) == len(model_kinds.KINDS)
    assert sum(kind.refused is not None for kind in model_kinds.KINDS) < 15


def test_the_script_prints_a_table_and_says_by_its_exit_code_that_nothing_is_wrong(capsys, tmp_path):
    written = tmp_path / "kinds.json"
    assert model_kinds.main(["--kind", "GCN", "--kind", "GCN, cached", "--samples", "3", "--json", str(written)]) == 0
    printed = capsys.readouterr().out
    assert "| GCN | U(A,0.5) | weight |" in printed
    assert printed.endswith("2 kinds, 8 cases: 4 right, 4 refused, 0 faults\n")
    assert '"outcome": "refused"' in written.read_text()


def test_a_wrong_number_is_a_fault(monkeypatch, capsys):
    usual = model_kinds.changes_one_by_one
    monkeypatch.setattr(model_kinds, "changes_one_by_one", lambda *given, **named: usual(*given, **named) + 1e-3)
    assert model_kinds.main(["--kind", "GCN", "--near", "U(A,0.5)", "--samples", "3"]) == 1
    assert "WRONG" in capsys.readouterr().out
