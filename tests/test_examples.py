"""The scripts whose tables stand in the documentation run, and have a finite number for every method or family."""

from __future__ import annotations

import math
import re
import runpy
import sys
from pathlib import Path

import pytest

from conftest import needs_data

ROOT = Path(__file__).parent.parent
IG = ["IG (zero)", "IG (random)", "IG (full)"]
GNN = ["GNNExplainer", "GNNExplainer (soft)"]
FAMILIES = ["GCN", "GAT + edge_attr", "PNA"]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script of the repository as a user would, and return what it prints."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", [script, "--quick", *arguments])
        runpy.run_path(str(ROOT / script), run_name="__main__")
        return capsys.readouterr().out

    return run


def rows_of(text):
    """The rows of the first Markdown table, by their first cell; there must be as many cells as in the head."""
    lines = [line.strip("| ").split(" | ") for line in re.search(r"(^\|.*\n)+", text, flags=re.M).group().splitlines()]
    head, _, *rows = lines
    assert all(len(row) == len(head) for row in rows)
    return {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in rows}


def numbers(rows):
    """Every number of the cells, error bars left out."""
    cells = [cell for row in rows.values() for cell in row.values()]
    found = [float(cell.split(" ± ")[0].removesuffix(" %")) for cell in cells if re.match(r"[-+\d]|nan|inf", cell)]
    assert all(math.isfinite(float(error)) for cell in cells for error in cell.split(" ± ")[1:])
    return found


def test_graph_classification(run):
    rows = rows_of(run("examples/graph_classification.py"))
    assert list(rows) == ["KEC", "KEC auto", "Linear", "Saliency", *IG, *GNN, "PGExplainer"]
    assert len(numbers(rows)) == 3 * len(rows)
    assert all(map(math.isfinite, numbers(rows)))
    assert float(rows["Saliency"]["AUC of the motif"].split()[0]) > 0.8


def test_forecast(run):
    rows = rows_of(run("examples/forecast.py"))
    assert list(rows) == ["KEC", "KEC auto", "Linear", "Saliency", *IG]
    assert len(numbers(rows)) == 5 * len(rows)
    assert all(map(math.isfinite, numbers(rows)))
    assert float(rows["Saliency"]["correlation with the law"]) > 0.8


@needs_data
def test_link_prediction(run):
    printed = run("examples/link_prediction.py")
    rows = rows_of(printed)
    assert list(rows) == ["KEC", "KEC, 1000 samples", "Saliency", *IG, *GNN]
    assert len(numbers(rows)) == 3 * len(rows)
    assert all(map(math.isfinite, numbers(rows)))
    strongest = [abs(float(score)) for score in re.findall(r"^\| \d+ -> \d+ \| (\S+) \|$", printed, flags=re.M)]
    assert strongest == sorted(strongest, reverse=True)
    assert len(strongest) == 5


@needs_data
def test_families(run):
    printed = run("benchmarks/families.py", *(word for name in FAMILIES for word in ("--family", name)))
    rows = rows_of(printed)
    assert list(rows) == FAMILIES
    assert [row["route"] for row in rows.values()] == ["weight, weight", "mask, removal", "mask, removal"]
    assert len(numbers(rows)) == 9 * len(rows)
    assert all(map(math.isfinite, numbers(rows)))
    # A verdict says what the table says.
    verdict = r"^- (.+), ([UB]\(.*?\)): (KEC.*?) \(.*?\) is worse than (.*)$"
    for name, near, method, rivals in re.findall(verdict, printed, flags=re.M):
        value = float(rows[name][f"{near}: {method}"].split()[0])
        if "Saliency" in rivals:
            assert value >= float(rows[name][f"{near}: Saliency"].split()[0])
        if "no change" in rivals:
            assert value >= 1


@needs_data
def test_first(run):
    rows = rows_of(run("benchmarks/first.py"))
    assert [name.split(", ")[0] for name in rows] == ["GCN"] * 5 + ["GAT"] * 5
    assert all(0 < float(cell) < math.inf for row in rows.values() for cell in row.values())


@pytest.mark.parametrize("page", ["families", "tasks"])
def test_documents_name_scripts_that_are_there(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    scripts = re.findall(r"^python (\S+\.py)", text, flags=re.M)
    assert scripts
    for script in scripts:
        assert (ROOT / script).is_file(), script
