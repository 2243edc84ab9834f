"""The user's own models on the command line: loaded by name, called with their arguments, explained at every level."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT, GCN

import graphfaith as gf
from graphfaith._base.errors import InputError, ModelError, UnsupportedError
from graphfaith.cli import application, notes
from graphfaith.data.own_model import load_model
from graphfaith.explainers.methods import method_names
from graphfaith.explanation import archive
from graphfaith.model.arguments import arguments_for, convert_precision

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"

MODULE = """
import torch
from torch_geometric.nn import GATConv, GCNConv, GINEConv, global_mean_pool

class Net(torch.nn.Module):
    def __init__(self, convolution=GCNConv, out=3, **options):
        super().__init__()
        torch.manual_seed(0)
        self.conv1, self.conv2 = convolution(4, 8, **options), convolution(8, out, **options)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

class Weighted(Net):
    def forward(self, x, edge_index, edge_weight=None):
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight)

class Attributed(Net):
    def forward(self, x, edge_index, edge_attr):
        return self.conv2(self.conv1(x, edge_index, edge_attr).relu(), edge_index, edge_attr)

class Links(Net):
    def forward(self, x, edge_index, edge_label_index):
        code = super().forward(x, edge_index)
        return (code[edge_label_index[0]] * code[edge_label_index[1]]).sum(dim=-1)

class Pooled(Net):
    def forward(self, x, edge_index, batch=None):
        return global_mean_pool(super().forward(x, edge_index), batch)

class Flat(Pooled):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index).squeeze(0)

class Failing(Net):
    def forward(self, x, edge_index):
        raise IndexError("seven")

node, weighted, links, pooled, flat, failing = Net, Weighted, Links, Pooled, Flat, Failing
double = lambda: Net().double()
attributed = lambda: Attributed(GATConv, edge_dim=2)
regression = lambda: Net(out=1)
twice = lambda: Reused()

class Reused(Net):
    def forward(self, x, edge_index):
        h = self.conv1(x, edge_index).relu()
        return self.conv2(self.conv2(h, edge_index)[:, [0, 1, 2, 0, 1, 2, 0, 1]], edge_index)

def broken(): raise KeyError("conv1.weight")
def leaving(): raise SystemExit(3)
def pair(): return Net(), None
made, number = Net(), 5
"""

NAMES = [f"machine {i}" for i in range(12)]


def make_graph():
    generator = torch.Generator().manual_seed(1)
    ring = torch.arange(12)
    edge_index = torch.stack([torch.cat([ring, ring]), torch.cat([(ring + 1) % 12, (ring + 5) % 12])])
    return {
        "x": torch.rand(12, 4, generator=generator),
        "edge_index": edge_index,
        "edge_weight": torch.rand(24, generator=generator) + 0.5,
        "edge_attr": torch.rand(24, 2, generator=generator),
        "edge_label_index": torch.tensor([[0, 3, 7], [2, 4, 1]]),
        "y": torch.arange(12) % 3,
    }


def output(name, *arguments):
    with torch.no_grad():
        return load_model(name)(*arguments)


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Make a folder with mine.py and graph.pt the current one; modules imported from it are forgotten afterwards."""
    (tmp_path / "mine.py").write_text(MODULE)
    torch.save(Data(**make_graph(), node_names=NAMES), tmp_path / "graph.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def explain(here, monkeypatch, capsys):
    """Return a function that runs ``graphfaith explain`` in that folder and returns exit code, output and errors."""

    def run(model, *arguments, data="graph.pt", command="explain"):
        words = ["graphfaith", command, "--model", model, "--data", data, "--samples", 30, "--test-samples", 30]
        monkeypatch.setattr(sys, "argv", [*map(str, words), *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(notes, "err", Console(stderr=True, width=120))
        with pytest.raises(SystemExit) as stop:
            application.main()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


def row_of(path):
    (row,) = json.loads(path.read_text())
    return row


# The example ------------------------------------------------------------------------------------------------------


def test_the_example_runs_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    first, second = [line.partition("#")[0].split() for line in EXAMPLE.read_text().split('"""')[1].splitlines()[3:5]]
    assert (first[0], second[0]) == ("python", "graphfaith")
    runpy.run_path(str(tmp_path / first[1]), run_name="__main__")
    program = Path(sys.executable).with_name("graphfaith")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    done = subprocess.run([str(program), *second[1:]], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "KEC: graph.pt node 10 (machine 10), class 0" in done.stdout
    assert "graph.pt: 60 nodes" in done.stderr
    assert "given x, edge_index (not y)" in done.stderr
    row = row_of(tmp_path / "graph-10.json")
    assert row["relative"] < 1
    assert row["edges"][0]["names"][1] == "machine 10"
    assert row["features"][0]["names"][1] in ("heat", "noise", "power", "speed", "age")
    assert (tmp_path / "graph-10.png").stat().st_size > 10_000


# Finding the model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("mine", InputError, "cannot read the model 'mine': write module:function"),
        ("mine:", InputError, "write module:function"),
        (":load", InputError, "write module:function"),
        ("mine.py:node", InputError, "as in mymodule:load for the function load in mymodule.py"),
        ("./mine:node", InputError, "write module:function"),
        ("mine:Net()", InputError, "write module:function"),
        ("yours:load", InputError, "there is no module 'yours' in this folder, and none is installed"),
        ("yours.models:load", InputError, "there is no module 'yours'"),
        ("mine.models:load", InputError, "there is no module 'mine.models'"),
        ("mine:laod", InputError, "the module 'mine' has no 'laod'"),
        ("mine:number", InputError, "'mine:number' is a int: give a function that returns the model"),
        ("mine:made", InputError, "'mine:made' is a Net: give a function that returns the model"),
        ("mine:broken", ModelError, "mine:broken() raised KeyError: 'conv1.weight'"),
        ("mine:leaving", ModelError, "mine:leaving() raised SystemExit: 3"),
        ("mine:pair", ModelError, "mine:pair() must return a torch.nn.Module (got tuple)"),
        ("slip:load", ModelError, "importing 'slip' failed: SyntaxError: "),
        ("needy:load", ModelError, "importing 'needy' failed: ModuleNotFoundError: No module named 'not_there'"),
        (
            "model.pt",
            InputError,
            "is a file of weights and was not opened: give a function as module:function that builds the model and",
        ),
    ],
)
def test_a_model_that_cannot_be_made_is_one_line_and_exit_code_2(here, explain, name, error, message):
    (here / "slip.py").write_text("def load(:\n")
    (here / "needy.py").write_text("import not_there\n")
    before = sorted(path.name for path in here.iterdir())
    with pytest.raises(error) as caught:
        load_model(name)
    assert message in str(caught.value)
    code, out, err = explain(name, "--node", 1)
    assert (code, out) == (2, "")
    assert err.strip().splitlines() == [f"error: {caught.value}"]
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_model_in_a_package_of_the_folder(here):
    (here / "lab" / "models").mkdir(parents=True)
    (here / "lab" / "models" / "net.py").write_text(MODULE)
    assert type(load_model("lab.models.net:node")).__name__ == "Net"
    assert type(load_model("mine:double")).__name__ == "Net"


# Calling it -------------------------------------------------------------------------------------------------------


class Renamed(torch.nn.Module):
    def forward(self, nodes, links, pos, *, y=None, size=1):
        return nodes


def test_a_model_is_called_with_what_its_forward_names():
    data = Data(**make_graph(), pos=torch.rand(12, 2))
    assert list(arguments_for(GCN(4, 8, 2), data)) == [
        "edge_weight"
    ]  # GCN has an argument edge_attr but does not read it.
    assert list(arguments_for(GAT(4, 8, 2, edge_dim=2), data)) == [
        "edge_attr"
    ]  # GAT with edge_dim reads edge_attr and not edge_weight.
    assert list(arguments_for(Renamed(), data)) == ["pos", "y"]
    assert arguments_for(Renamed(), data)["pos"] is data.pos
    with pytest.raises(ModelError, match=r"Renamed\.forward needs 'pos', which the graph does not have"):
        arguments_for(Renamed(), Data(**make_graph()))


def test_an_argument_that_pyg_has_for_itself_is_refused():
    class Indexed(torch.nn.Module):
        def forward(self, x, edge_index, index=None):
            return x

    with pytest.raises(UnsupportedError, match=r"Indexed\.forward takes 'index'"):
        arguments_for(Indexed(), Data(**make_graph(), index=torch.arange(12)))


def test_real_numbers_come_in_the_precision_of_the_model():
    data = Data(**make_graph(), node_names=NAMES)
    same = convert_precision(GCN(4, 8, 2).double(), data)
    assert {key for key, value in same.to_dict().items() if getattr(value, "dtype", None) == torch.float64} == {
        "x",
        "edge_weight",
        "edge_attr",
    }
    assert torch.equal(same.x.float(), data.x)
    assert same.node_names == NAMES
    assert data.x.dtype == torch.float32
    assert convert_precision(torch.nn.Identity(), data).x is data.x


@pytest.mark.parametrize("model", ["mine:node", "mine:double"])
def test_a_graph_of_numpys_precision(here, explain, model):
    fields = {key: value.numpy().astype(float) if key == "x" else value.numpy() for key, value in make_graph().items()}
    np.savez(here / "graph.npz", **fields)
    code, _, err = explain(model, "--node", 3, data="graph.npz")
    assert code == 0, err
    assert row_of(here / "graph-3.json")["unfaithfulness"] > 0


# Explaining -------------------------------------------------------------------------------------------------------


def test_a_node_is_explained_as_by_the_library(here, explain):
    code, out, err = explain("mine:weighted", "--node", 3, "--top", 2, "--save", "three.safetensors")
    assert code == 0, err
    assert err.strip() == (
        "graph.pt: 12 nodes, 24 edges, 4 features; the model is given x, edge_index, edge_weight "
        "(not edge_attr, edge_label_index, y)"
    )
    graph, model = make_graph(), load_model("mine:weighted")
    explainer = Explainer(
        model,
        algorithm=gf.AnchoredKEC("U(A,0.5)", num_samples=30),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    expected = explainer(graph["x"], graph["edge_index"], index=3, edge_weight=graph["edge_weight"])
    score = gf.general_unfaithfulness(explainer, expected, "U(A,0.5)", num_samples=30, seed=1)
    row = row_of(here / "graph-3.json")
    assert row["unfaithfulness"] == pytest.approx(score.value)
    assert [edge["score"] for edge in row["edges"]] == [edge.score for edge in expected.top_edges(2)]
    logits = output("mine:weighted", graph["x"], graph["edge_index"], graph["edge_weight"])[3]
    told = {key: row[key] for key in ("dataset", "model", "level", "index", "node", "class", "route", "num_hops")}
    assert told == {
        "dataset": "graph.pt",
        "model": "mine:weighted",
        "level": "node",
        "index": 3,
        "node": 3,
        "class": int(logits.argmax()),
        "route": "weight",
        "num_hops": 2,
    }
    assert row["output"] == pytest.approx(float(logits.max()))
    assert f"KEC: graph.pt node 3 (machine 3), class {int(logits.argmax())}" in out
    assert "an edge is changed by its weight; messages go 2 hops far" in out
    saved = archive.load(here / "three.safetensors")
    assert torch.equal(saved.edge_mask, expected.edge_mask)
    assert saved.node_names == NAMES
    assert saved.unfaithfulness.value == row["unfaithfulness"]


def test_scores_of_methods_are_those_of_the_library(here, explain):
    more = ("--nodes", "0:4:3", "--method", "saliency", "--method", "kec", "--json", "rows.json")
    code, out, err = explain("mine:Weighted", *more, command="score")
    assert code == 0, err
    rows = json.loads((here / "rows.json").read_text())
    data = torch.load("graph.pt", weights_only=False)
    same = gf.compare(load_model("mine:Weighted"), data, [0, 3], methods=["saliency", "kec"], samples=30,
                      test_samples=30, mode="multiclass_classification", return_type="raw")  # fmt: skip
    assert [(row["method"], row["nodes"]) for row in rows] == [("saliency", [0, 3]), ("kec", [0, 3])]
    assert [row["unfaithfulness"] for row in rows] == pytest.approx([row.unfaithfulness for row in same])
    assert "graph.pt, U(A,0.5), 2 nodes" in out
    code, _, err = explain("mine:Weighted", command="score")
    assert code == 2
    assert "--nodes says which rows of your model's output to explain" in err
    code, _, err = explain("mine:Weighted", "--nodes", "0:1000", command="score")
    assert code == 2
    assert "out of range" in err


def test_a_pair_of_nodes(here, explain):
    code, out, err = explain(
        "mine:links", "--level", "edge", "--mode", "binary_classification", "--index", 1,
        "--method", "all", "--neighborhood", "B(A,0.5)",
    )  # fmt: skip
    assert code == 0, err
    assert "note: pgexplainer is left out: PGExplainer explains nodes and graphs" in err
    rows = json.loads((here / "graph-edge-1.json").read_text())
    assert [row["method"] for row in rows] == [name for name in method_names(in_all=True) if name != "pgexplainer"]
    graph = make_graph()
    logit = float(output("mine:links", graph["x"], graph["edge_index"], graph["edge_label_index"])[1])
    for row in rows:
        assert "node" not in row
        assert (row["level"], row["index"], row["class"]) == ("edge", 1, int(logit > 0))
        assert row["output"] == pytest.approx(logit, rel=1e-4)
    assert f"KEC: graph.pt edge 1 (machine 3 -> machine 4), class {int(logit > 0)}" in out
    assert (here / "graph-edge-1.png").stat().st_size > 10_000
    code, _, err = explain(
        "mine:links", "--level", "edge", "--mode", "regression", "--index", 1, "--method", "pgexplainer"
    )
    assert code == 2
    assert "PGExplainer explains nodes and graphs" in err


def test_a_graph_of_a_batch_and_a_single_one(here, explain):
    graph = make_graph()
    edges = graph["edge_index"][
        :, ((graph["edge_index"] < 6).sum(dim=0) != 1)
    ]  # There are no edges between the two halves.
    batch = torch.arange(12) // 6
    torch.save({"x": graph["x"], "edge_index": edges, "batch": batch}, here / "two.pt")
    code, out, err = explain("mine:pooled", "--level", "graph", "--node", 1, "--figure", "two.svg", data="two.pt")
    assert code == 0, err
    row = row_of(here / "two-graph-1.json")
    assert row["class"] == int(output("mine:pooled", graph["x"], edges, batch)[1].argmax())
    assert f"two.pt graph 1, class {row['class']}" in out
    assert {edge["source"] // 6 for edge in row["edges"]} == {1}
    assert (here / "two.svg").stat().st_size > 1000
    logits = output("mine:flat", graph["x"], graph["edge_index"])
    for name in ("pooled", "flat"):  # The second model returns a vector, without a row for its only graph.
        code, out, err = explain(f"mine:{name}", "--level", "graph", "--node", 0, "--json", f"{name}.json")
        assert code == 0, err
        assert f"graph.pt graph 0, class {int(logits.argmax())}" in out
        assert row_of(here / f"{name}.json")["output"] == pytest.approx(float(logits.max()))


def test_a_regression(here, explain):
    code, out, err = explain("mine:regression", "--mode", "regression", "--node", 2)
    assert code == 0, err
    row, graph = row_of(here / "graph-2.json"), make_graph()
    assert row["class"] is None
    assert row["output"] == pytest.approx(float(output("mine:regression", graph["x"], graph["edge_index"])[2]))
    assert f"node 2 (machine 2), output {row['output']:.4g}" in out


def test_attributes_of_edges_and_the_route(here, explain):
    code, out, err = explain("mine:attributed", "--node", 2)
    assert code == 0, err
    assert "the model is given x, edge_index, edge_attr (not" in err
    assert "and removed if these become 0; messages go 2 hops far" in out
    for route in ("weight", "mask"):
        code, _, err = explain("mine:weighted", "--node", 2, "--edges", route, "--json", f"{route}.json")
        assert code == 0, err
        assert row_of(here / f"{route}.json")["route"] == route


def test_the_reach_of_the_model(here, explain):
    code, _, err = explain("mine:twice", "--node", 2)
    assert code == 2
    assert "messages of Reused go further than 2 hops" in err
    assert "num_hops=3" in err
    code, _, err = explain("mine:twice", "--node", 2, "--num-hops", 3)
    assert code == 0, err
    assert row_of(here / "graph-2.json")["num_hops"] == 3
    code, _, err = explain("mine:node", "--node", 2, "--num-hops", 3, "--json", "far.json")
    assert code == 0, err
    assert "note: messages of Net seem to go 2 hops, not 3" in err


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("node", ["--node", 12], "node 12 is out of range: the graph has nodes 0 to 11"),
        ("node", ["--node", -1], "node -1 is out of range"),
        ("links", ["--level", "edge", "--mode", "regression", "--node", 3], "edge 3 is out of range"),
        ("node", ["--node", 1, "--level", "street"], "level must be one of node, edge, graph"),
        ("node", ["--node", 1, "--mode", "guess"], "mode must be one of multiclass_classification"),
        ("node", ["--node", 1, "--return-type", "odds"], "return_type of a multiclass_classification model"),
        ("node", ["--node", 1, "--num-hops", 0], "num_hops must be a whole number of at least 1"),
        ("node", ["--node", 1, "--edges", "some"], "edges must be one of auto, weight, removal, mask"),
        ("node", ["--node", 1, "--edges", "weight"], "Net takes no edge_weight or ignores it"),
        ("node", ["--node", 1, "--max-memory", "much"], "max_memory must be a number of bytes"),
        ("node", ["--node", 1, "--max-memory", "1 KB"], "more than max_memory = 1.0 KB"),
        ("node", ["--node", 1, "--model-seed", 4], "--model-seed is for models that are trained here"),
        ("node", ["--node", 1, "--dataset", "cora"], "--dataset brings its own model"),
        ("failing", ["--node", 1], "the model cannot be run on this graph: IndexError: seven"),
        ("node", ["--node", 1, "--save", "a.pt"], "cannot tell the format from 'a.pt'"),
        ("node", ["--node", 1, "--save", "a.safetensors", "--method", "all"], "--save writes a single explanation"),
    ],
)
def test_what_cannot_be_explained_is_one_line_and_exit_code_2(here, explain, model, arguments, message):
    before = sorted(path.name for path in here.iterdir())
    code, out, err = explain(f"mine:{model}", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(path.name for path in here.iterdir()) == before


def test_constant_features_have_no_neighbourhood_of_features(here, explain):
    torch.save({"x": torch.ones(12, 4), "edge_index": make_graph()["edge_index"]}, here / "ones.pt")
    code, _, err = explain("mine:node", "--node", 1, "--neighborhood", "U(X,0.2r)", data="ones.pt")
    assert code == 2
    assert "the features of ones.pt are constant" in err
    code, _, err = explain("mine:node", "--node", 1, "--neighborhood", "all", "--method", "saliency", data="ones.pt")
    assert code == 0, err
    assert len(json.loads((here / "ones-1.json").read_text())) == 4
    code, _, err = explain("mine:node", "--node", 1, "--neighborhood", "all", "--method", "saliency")
    assert code == 0, err
    assert len(json.loads((here / "graph-1.json").read_text())) == 7


def test_names_are_printed_as_they_are_but_never_obeyed(here, explain):
    names = ["[bold]a[/bold]", "[/]", "\x1b[31mred\x1b[0m", "two\nlines", "x" * 200, *"fghijkl"]
    torch.save({**make_graph(), "node_names": names}, here / "odd.pt")
    code, out, err = explain("mine:node", "--node", 2, "--top", 50, "--method", "kec", data="odd.pt")
    assert code == 0, err
    assert "\x1b" not in out
    for text in ("[bold]a[/bold]", "[/]", "[31mred", "two lines", "x" * 39 + "…"):
        assert text in out
