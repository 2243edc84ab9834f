"""The example of the README runs as it is printed, with a model that is not ours."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT

import graphfaith as gf
from conftest import needs_data
from graphfaith.testing import CHECKS
from graphfaith_studies.batadal.run import competition_table
from graphfaith_studies.plant.kept import pool_kept
from graphfaith_studies.plant.tables import format_tables, list_tables, markdown
from graphfaith_studies.swat.verdicts import list_own_tables

ROOT = Path(__file__).parent.parent
README, MODELS = (ROOT / "README.md").read_text(), ROOT / "docs" / "models.md"


@pytest.fixture
def names():
    torch.manual_seed(0)
    edge_index = torch.randint(0, 60, (2, 300))
    data = Data(x=torch.rand(60, 5), edge_index=torch.unique(edge_index[:, edge_index[0] != edge_index[1]], dim=1))
    return {"model": GAT(5, 8, num_layers=2, out_channels=3), "data": data}


def test_the_three_lines_and_the_pyg_way_run_with_a_gat_and_agree(names, capsys):
    short, long = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    exec(short, names)
    first = names.pop("explanation")
    exec(long, names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Delta(p) = ")
    assert lines[0] == lines[1]
    assert first.edge_mask.abs().max() > 0
    assert torch.equal(first.edge_mask, names["explanation"].edge_mask)


def test_the_page_on_extending_runs(capsys):
    code = "".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), flags=re.S))
    exec(compile(code, "extending.md", "exec", dont_inherit=True), {"__name__": "extending"})
    out = capsys.readouterr().out
    assert out.startswith("S(A,0.2) SilentNodes(share=0.2)\nCorrelation S(A,0.2)\n")
    assert any("correlation" in line for line in out.splitlines()[2:])


def test_the_page_on_inputs_runs(capsys):
    torch.manual_seed(0)
    code = "".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "inputs.md").read_text(), flags=re.S))
    exec(compile(code, "inputs.md", "exec", dont_inherit=True), {"__name__": "inputs"})
    assert "ScoredAttribute" in capsys.readouterr().out


def test_the_page_on_anchored_kec_runs(capsys):
    torch.manual_seed(0)
    data = Data(x=torch.rand(60, 5), edge_index=torch.randint(0, 60, (2, 300)))
    names = {"model": GAT(5, 8, num_layers=2, out_channels=3), "data": data}
    exec(re.search(r"```python\n(.*?)```", (ROOT / "docs" / "anchored.md").read_text(), flags=re.S).group(1), names)
    estimate, count = capsys.readouterr().out.splitlines()
    assert estimate.startswith("Delta(p) = ")
    assert int(count) in (200, 400, 800, 1600, 3200)


def test_the_page_on_models_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    exec("".join(re.findall(r"```python\n(.*?)```", MODELS.read_text(), flags=re.S)), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Delta(p) = ")
    assert [line.split(" [")[0] for line in lines[1:4]] == ["tensor([0])", "tensor([2])", "tensor([4])"]
    assert lines[4].split() == ["index", "source", "sink", "edge_id", "score", "score_stderr"]
    assert len(lines) > 5
    assert f"suite of {len(CHECKS)} checks" in MODELS.read_text()


def test_the_walk_through_the_plant_runs(capsys):
    torch.manual_seed(0)
    exec("".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "swat.md").read_text(), flags=re.S)), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "(17280, 51) [8, 10]"
    assert int(lines[1].split()[0]) >= 2
    verdicts = {line.split()[0]: line for line in lines[2:]}
    assert "DPIT301" in verdicts  # the attacked tag
    assert all("clears in model" in line and "plant" in line for line in verdicts.values())


def test_the_numbers_of_the_case_study_are_those_of_its_run():
    results = json.loads((ROOT / "docs" / "swat" / "results.json").read_text())
    tables = list_tables(results) + list_own_tables(results)
    assert format_tables(tables) in (ROOT / "docs" / "swat.md").read_text()
    results = json.loads((ROOT / "docs" / "batadal" / "results.json").read_text())
    text = (ROOT / "docs" / "batadal.md").read_text()
    assert markdown(results) in text
    score = ("The competition's score", competition_table(results["seeds"]))
    assert format_tables([score]) in text
    assert results["processor_seconds"] < 2 * 600  # ten minutes on two cores
    assert f"{results['processor_seconds'] / 60:.0f} minutes of processor time" in text


@pytest.mark.parametrize("plant", ["swat", "batadal"])
def test_the_tables_about_causes_can_be_computed_from_the_alarms_that_are_kept(plant):
    results = json.loads((ROOT / "docs" / plant / "results.json").read_text())
    alarms = ROOT / "docs" / plant / "alarms.json"
    assert alarms.stat().st_size < 2_000_000
    assert json.loads(json.dumps(pool_kept(alarms))) == results["causes"]


@pytest.mark.parametrize(
    "page",
    [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_what_a_page_names_is_there(page):
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
        there = page.parent / path
        if there.parent.name == "tutorials":  # A notebook is a page of the site.
            there = there.with_suffix(".ipynb")
        if path not in ("changelog.md", "contributing.md", "security.md"):  # They are in the root.
            assert there.stat().st_size > 100, path
    # The site checks the places within pages that its own pages name; these are read where there is no site.
    for path, place in (
        re.findall(r"\]\((?!http)([^)#]+\.md)#([^)]+)\)", page.read_text()) if page.parent == ROOT else ()
    ):
        heads = re.findall(r"^#+ (.*)$", (page.parent / path).read_text(), flags=re.M)
        assert place in [re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads], place
    for name in re.findall(r"\bgf\.(\w+)", page.read_text()):
        assert hasattr(gf, name), name


@needs_data
def test_the_example_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["silent_edges.py", "0:100:50"])
    runpy.run_path(str(ROOT / "examples" / "silent_edges.py"), run_name="__main__")
    zero = 'p = 0, "nothing changes"'
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["GNNExplainer", "U(A,0.5)", "B(A,0.5)"]
    assert [name for name, *_ in lines[2:]] == ["hard, drop", "hard, keep", "soft, drop", "soft, keep", zero]
    assert all(re.fullmatch(r"[\d.e-]+ ± [\d.e-]+", cell) for _, *cells in lines[2:] for cell in cells)
