"""What has to be known before a run begins is asked in a process of its own, because a model may end it."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest
import torch

import graphfaith as gf
from fragile_model import make_graph
from graphfaith._base.errors import RunError
from graphfaith.many.code import digest_of_model
from graphfaith.many.engines import base
from graphfaith.many.looking import Looking, _DiedError
from toy_job import ToyJob, rows_of

pytest.importorskip("pyarrow")
DEAD, FAR = 0, 20  # a node that kills, and one whose computation graph is far from it


@pytest.fixture
def packed(tmp_path):
    gf.pack_graph(make_graph([DEAD]), tmp_path / "packed")
    return gf.ManyJob(tmp_path / "packed", "fragile_model:load_deadly", method="kec", samples=100)


def test_a_model_that_kills_at_one_node_ends_neither_the_run_nor_the_rows_of_others(monkeypatch, packed, tmp_path):
    monkeypatch.setattr(base, "RETRIES", 0)  # Each death costs an import.
    with pytest.warns(UserWarning, match=r"a process that looked at the model died \(exit code 9\); ") as caught:
        summary = gf.explain_many(packed, [FAR, DEAD], tmp_path / "run", block=1, workers=1)
    said = [str(one.message).partition("; ")[2] for one in caught]
    assert said == ["it was looked at in another way", "another node can be explained, so the run goes on"]
    assert (summary.done_now, summary.failed) == (2, 1)
    (good,), (bad,) = rows_of(tmp_path / "run").values()
    assert (good["node"], good["status"], bad["node"], bad["status"]) == (FAR, "ok", DEAD, "failed")
    assert "exit code 9" in bad["error"]
    # The job of the run can be opened, because it does not run the model on the whole graph.
    job = gf.Run(tmp_path / "run").job
    assert (job.whole_graph, job.mode) == (False, "multiclass_classification")
    assert good["edges"] == job.table([FAR]).to_pylist()[0]["edges"]


def test_a_graph_in_memory_has_to_be_packed_if_the_model_kills_on_it(tmp_path):
    torch.save(make_graph([DEAD]), tmp_path / "graph.pt")
    job = gf.ManyJob(tmp_path / "graph.pt", "fragile_model:load_deadly")
    with pytest.raises(gf.ModelError, match=r"the whole graph died \(exit code 9\): pack the graph"):
        gf.explain_many(job, [FAR], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_that_kills_everywhere_is_an_error(tmp_path):
    gf.pack_graph(make_graph(range(40)), tmp_path / "packed")
    job = gf.ManyJob(tmp_path / "packed", "fragile_model:load_deadly")
    with pytest.raises(RunError, match=r"each process that looked at the model died \(exit code 9\)"):
        gf.explain_many(job, [FAR], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    given = gf.ManyJob(job.graph, job.model, mode="multiclass_classification", whole_graph=False)
    with Looking.at(given) as looking, pytest.raises(RunError, match="at each of 3 nodes from the first to the last"):
        looking.check()


def test_a_process_that_dies_is_not_waited_for_because_of_one_that_it_has_started(monkeypatch, tmp_path):
    monkeypatch.setattr("graphfaith.many.engines.process._LAST_WORDS", 0.1)
    monkeypatch.setenv("OUTLIVED", str(tmp_path / "outlived"))
    gf.pack_graph(make_graph(), tmp_path / "packed")
    job = gf.ManyJob(tmp_path / "packed", "fragile_model:load_forking", mode="regression", whole_graph=False)
    with Looking.at(job) as looking, pytest.raises(_DiedError, match="exit code 9"):
        looking._ask("check", 0)
    assert not (tmp_path / "outlived").exists()


def test_what_is_found_out_is_the_same_on_fewer_nodes(tmp_path):
    gf.pack_graph(make_graph(), tmp_path / "packed")
    job = gf.ManyJob(tmp_path / "packed", "fragile_model:load")
    first, *others = (job.settled(("exit code 9",) * died) for died in range(4))
    assert (first.mode, first.return_type, first.whole_graph) == ("multiclass_classification", "raw", True)
    for other in others:
        assert (other.mode, other.return_type, other.whole_graph) == ("multiclass_classification", "raw", False)


MODEL = """
import torch
from torch_geometric.nn import GCN, MessagePassing
import helpers

SLOPE = 1.0

def bend(x):
    return torch.nn.functional.leaky_relu(x, SLOPE)

class Sum(MessagePassing):
    def forward(self, x, edge_index, edge_weight=None):
        return self.propagate(edge_index, x=x)

    def message(self, x_j):
        return 1.0 * x_j

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gcn, self.sum, self.power, self.calls = GCN(3, 4, 2, out_channels=2), Sum(), 2, 0

    def forward(self, x, edge_index, edge_weight=None):
        "The output."
        self.calls += 1
        return helpers.scale(bend(self.gcn(x, edge_index)))  # as it was

def load():
    torch.manual_seed(0)
    return Model()
"""
HELPERS = """
FACTOR = 3.0

def scale(x):
    return FACTOR * x
"""
DIGEST = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import mymodel
from graphfaith.many.code import digest_of_model
model = mymodel.load().eval()
first = digest_of_model(model)
model(torch.rand(2, 3), torch.tensor([[0, 1], [1, 0]]))
print(first)
"""


def digest(folder, model=MODEL, helpers=HELPERS):
    """Return the digest of a model in another process."""
    folder.mkdir()
    (folder / "mymodel.py").write_text(model)
    (folder / "helpers.py").write_text(helpers)
    command = [sys.executable, "-c", DIGEST, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_model_is_known_by_its_code(tmp_path):
    own = digest(tmp_path / "own")
    same = (
        MODEL.replace("# as it was", "# a comment").replace('"The output."', '"It was."').replace("SLOPE", "\nSLOPE", 1)
    )
    assert digest(tmp_path / "same", same) == own
    others = [
        ("bend(self.gcn", "-bend(self.gcn"),  # forward
        ("SLOPE = 1.0", "SLOPE = 0.5"),  # a plain value that a function names
        ("leaky_relu(x, SLOPE)", "leaky_relu(SLOPE * x)"),  # a function that forward names
        ("1.0 * x_j", "2.0 * x_j"),  # a method of a layer
        (
            "self.power, self.calls = GCN(3, 4, 2, out_channels=2), Sum(), 2",
            "self.power, self.calls = GCN(3, 4, 2, out_channels=2), Sum(), 3",
        ),
    ]
    for number, (before, after) in enumerate(others):
        assert before in MODEL
        assert digest(tmp_path / f"other-{number}", MODEL.replace(before, after)) != own, before
    for number, after in enumerate(("FACTOR = 4.0", "FACTOR = 3.0; scale = abs")):
        assert digest(tmp_path / f"helped-{number}", helpers=HELPERS + after) != own, after


def test_a_model_is_the_same_wherever_its_code_lies(tmp_path):
    placed = MODEL.replace("self.calls += 1", "self.calls += len([__file__, __name__]) - 1")
    assert digest(tmp_path / "here", placed) == digest(tmp_path / "elsewhere", placed)


def hold_buffer(layer, value):
    layer.register_buffer("held", torch.tensor(value), persistent=False)


def hold_tensor(layer, value):
    layer.held = torch.tensor(value)


def hold_array(layer, value):
    layer.held = np.array(value)


def hold_privately(layer, value):
    layer._held = value


def hold_decorated(layer, value):
    def scaled(function):
        @functools.wraps(function)
        def inner(x):
            return value * function(x)

        return inner

    layer.held = scaled(torch.relu)


def hold_cached(layer, value):
    @functools.cache
    def held():
        return value

    layer.held = held


@pytest.mark.parametrize("hold", [hold_buffer, hold_tensor, hold_array, hold_privately, hold_decorated, hold_cached])
def test_a_model_is_known_by_what_it_holds(hold):
    class Layer(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            hold(self, value)

    assert digest_of_model(Layer(1.0)) == digest_of_model(Layer(1.0)) != digest_of_model(Layer(2.0))


def test_a_packed_file_that_was_overwritten_is_another_graph(tmp_path):
    gf.pack_graph(make_graph(), tmp_path / "packed")
    job = gf.ManyJob(tmp_path / "packed", "fragile_model:load", method="kec", samples=100)
    gf.explain_many(job, range(4), tmp_path / "run", block=2, workers=1)
    with open(tmp_path / "packed/x.npy", "r+b") as file:
        file.seek(-128, 2)
        file.write(np.ones(16).tobytes())
    (tmp_path / "run/explanations/part-00000001.parquet").unlink()
    with pytest.raises(gf.InputError, match=r"digests\.graph .* there"):
        gf.explain_many(job, range(4), tmp_path / "run", block=2, workers=1)


def test_warnings_of_other_processes_are_said_once_by_the_run(tmp_path):
    with pytest.warns(UserWarning, match="a toy warns") as caught:
        gf.explain_many(ToyJob(6, warns="a toy warns"), "all", tmp_path / "run", block=1, workers=1)
    assert len(caught) == 1
