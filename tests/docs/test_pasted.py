"""What a page shows to be pasted runs as it stands, with a reader's own ``model``, ``data`` and files."""

from __future__ import annotations

import re
import sys
import types
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from conftest import needs_data

DOCS = Path(__file__).parents[2] / "docs"
# Of a page with many nodes or long trainings, a few of each are enough here.
FEWER = {
    "measures": {"range(0, 1000, 50)": "range(0, 40, 20)", "epochs=200": "epochs=5"},
    "many": {'"all"': '"30:50"', "samples=200": "samples=40"},
}
MODULE = """
import torch
from torch_geometric.nn import GCN

def load():
    torch.manual_seed(0)
    return GCN(5, 8, num_layers=2, out_channels=3).eval()
"""


def blocks_of(name):
    """The code of a page, block by block, as short as ``FEWER`` makes it."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(), flags=re.S)
    for long, short in FEWER.get(name, {}).items():
        assert any(long in block for block in blocks), f"{name}.md has no longer {long}"
        blocks = [block.replace(long, short) for block in blocks]
    return blocks


def paste(name, names):
    for block in blocks_of(name):
        exec(compile(block, f"{name}.md", "exec", dont_inherit=True), names)


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """What a reader has: a trained model, a graph with an edge from 3 to 42, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    torch.manual_seed(0)
    edges = torch.cat([torch.tensor([[3], [42]]), torch.randint(0, 60, (2, 150))], 1)
    edges = torch.unique(edges[:, edges[0] != edges[1]], dim=1)
    data = Data(x=torch.rand(60, 5), edge_index=edges)
    torch.save(data, tmp_path / "graph.pt")
    (tmp_path / "mymodule.py").write_text(MODULE)
    torch.manual_seed(0)
    return {"__name__": "pasted", "data": data, "model": GCN(5, 8, num_layers=2, out_channels=3).eval()}


# Where the code of each page runs.
RUN_BY = {
    "tests/docs/test_pasted.py": {"heterogeneous", "index", "many", "measures", "neighborhoods", "readings", "view"},
    "tests/test_readme.py": {"anchored", "extending", "inputs", "models", "swat"},
    "tests/docs/test_site.py": {"counterfactuals", "shapley"},
}


def test_every_page_with_code_has_a_test_that_runs_it():
    with_code = {page.stem for page in DOCS.glob("*.md") if "```python\n" in page.read_text()}
    assert with_code == set.union(*RUN_BY.values())
    for file, pages in RUN_BY.items():
        text = (DOCS.parent / file).read_text()
        for page in pages:
            pastes = rf'paste\("{page}"|{page}\.md|{page.upper()}\.|blocks_of\("{page}"'
            assert re.search(pastes, text), f"{file} pastes nothing of {page}.md"


def test_no_page_of_the_docs_leaves_something_out_of_its_code():
    for page in sorted(DOCS.rglob("*.md")):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S):
            assert not re.search(r"=\s*\.\.\.|^\s*\.\.\.\s*$", block, flags=re.M), f"{page.name}: {block}"


def test_the_page_on_heterogeneous_graphs_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    paste("heterogeneous", {"__name__": "pasted"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("TypedExplanation(")
    assert "TypedEdge" in "".join(lines)
    assert lines[-1].startswith("Delta(p) = ")
    assert (tmp_path / "circle.html").stat().st_size > 1000


def test_the_page_on_many_nodes_runs(reader, tmp_path, monkeypatch, capsys):
    # Neither Spark nor Dask is installed for the tests. What they call is called here as they do it.
    lazily = types.ModuleType("dask")
    lazily.delayed = lambda function: lambda *words: lambda: function(*words)
    lazily.compute = lambda *calls: tuple(call() for call in calls)
    monkeypatch.setitem(sys.modules, "dask", lazily)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paste("many", reader)
    assert reader["table"].column("node").to_pylist() == [3, 42]
    assert [table.num_rows for table in reader["tables"]] == [20, 20]
    batch = pa.record_batch({"node": [3, 42]})
    assert [part.column("node").to_pylist() for part in reader["explain"]([batch])] == [[3, 42]]
    assert (tmp_path / "42.html").stat().st_size > 1000
    assert len(reader["run"]) == 20
    assert reader["records"].index.tolist() == [3, 42]
    assert "20" in capsys.readouterr().out


def test_the_first_page_runs(reader, capsys):
    paste("index", reader)
    assert capsys.readouterr().out.startswith("Delta(p) = ")


def test_the_page_on_looking_at_explanations_runs(reader, tmp_path):
    paste("view", reader)
    assert (tmp_path / "explanation.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "explanation.html").read_text().startswith("<!DOCTYPE html>")


def test_the_page_on_figures_of_merit_runs(reader, tmp_path, capsys):
    paste("measures", reader)
    out = capsys.readouterr().out
    assert "busy" in out
    assert "fidelity+" in out
    assert "Each method less captum-ig" in " ".join(out.split())
    assert (tmp_path / "rows.json").stat().st_size > 100
    assert (tmp_path / "judged.html").stat().st_size > 1000


def test_the_page_on_neighborhoods_runs(reader, capsys):
    paste("neighborhoods", reader)
    assert "the model says" in capsys.readouterr().out


@needs_data
def test_the_page_on_readings_runs_and_prints_what_it_says(capsys):
    paste("readings", {"__name__": "pasted"})
    said = re.search(r"check=True\)\) +# (.*)", blocks_of("readings")[0]).group(1)
    printed = capsys.readouterr().out.strip()
    assert re.sub(r"[\d.]+", "#", printed) == re.sub(r"[\d.]+", "#", said)
    numbers = [[float(text) for text in re.findall(r"-?\d+\.?\d*", line)] for line in (said, printed)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.15)
