"""A job: the rows of a batch run as a pure function of the nodes."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import graphfaith as gf
from fragile_model import FEATURES, NODES, Fragile, make_graph, make_model
from graphfaith import InputError
from graphfaith.data.graph_file import read_graph
from graphfaith.explainers import sweep
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.parts import Parts

pytest.importorskip("pyarrow")
MODELS = "fragile_model"
NUMBERS = ("delta", "stderr", "relative", "relative_stderr")


@pytest.fixture
def job(tmp_path):
    def make(model="load", bad=(), **options):
        path = tmp_path / f"graph-{len(bad)}.pt"
        torch.save(make_graph(bad), path)
        return gf.ManyJob(path, f"{MODELS}:{model}", **{"samples": 40, **options})

    return make


def test_a_row_has_what_the_explanation_of_its_node_has(job):
    made, graph, nodes = job(top_edges=4, top_features=3), make_graph(), [*range(20), 33]
    table = made.table(nodes)
    explainer = gf.explainer_for(make_model(), read_graph(made.graph), samples=40)
    assert table.column("node").to_pylist() == nodes
    assert set(table.column("status").to_pylist()) == {"ok"}
    for row in table.to_pylist():
        alone = explainer(graph["x"], graph["edge_index"], index=row["node"])
        assert row["class"] == int(alone.target[row["node"]])
        assert row["value"] == pytest.approx(float(alone.prediction[row["node"], row["class"]]), rel=1e-9)
        assert row["samples"] == 40
        for of, record in (("", alone.estimate.scores), ("p_", alone.estimate)):
            right = record.value, record.stderr, record.relative, record.relative_stderr
            assert [row[f"{of}{name}"] for name in NUMBERS] == pytest.approx(right, rel=1e-6)
        part = alone.difference_model.graph
        assert row["edges_total"] == int(part.felt.sum())
        top = alone.top_edges(4)
        assert [(e["source"], e["target"]) for e in row["edges"]] == [(e.source, e.sink) for e in top]
        np.testing.assert_allclose([e["score"] for e in row["edges"]], [e.score for e in top], rtol=1e-9)
        stderr = {**dict(zip(zip(*alone.edge_index.tolist(), strict=True), alone.edge_stderr.tolist(), strict=True))}
        for edge in row["edges"]:
            ends = edge["source"], edge["target"]
            right = stderr[ends] if ends in stderr else float(alone.self_loop_stderr[ends[0]])
            assert edge["stderr"] == pytest.approx(right, rel=1e-6)
        columns = (alone.node_mask * graph["x"]).sum(dim=0)
        order = columns.abs().argsort(descending=True)[:3].tolist()
        assert [f["index"] for f in row["features"]] == order
        np.testing.assert_allclose([f["score"] for f in row["features"]], columns[order], rtol=1e-9)
        assert [f["value"] for f in row["features"]] == graph["x"][row["node"], order].tolist()
        assert {f["stderr"] for f in row["features"]} == {None}


def without_times(table):
    return table.drop_columns(["milliseconds"])


def test_a_job_is_sent_to_other_processes_and_its_table_is_the_same_each_time(job):
    made = job()
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert hash(again) == hash(made)
    first = made.table(range(24))
    assert without_times(first).equals(without_times(again.table(np.arange(24))))
    assert first.column("milliseconds").null_count == 0


def test_a_node_that_cannot_be_explained_is_a_row_and_the_others_are_explained(job):
    bad = [7, 30]
    made = job("load_fragile", bad)
    table = made.table(range(NODES))
    assert table.column("node").to_pylist() == list(range(NODES))
    rows = table.to_pylist()
    assert [row["node"] for row in rows if row["status"] == "failed"] == bad
    for row in rows:
        if row["node"] in bad:
            assert row["edges"] is row["features"] is row["delta"] is row["class"] is None
            assert "finite" in row["error"]
        else:
            assert row["error"] is None
            assert row["edges"]
    assert without_times(table).equals(without_times(made.table(range(NODES))))


def test_rows_of_a_regression_have_no_class(job):
    rows = job("load_regression", mode="regression").table([1, 2]).to_pylist()
    assert [row["class"] for row in rows] == [None, None]
    assert all(row["value"] is not None for row in rows)


def test_labels_are_explained_if_that_is_asked_for(job):
    rows = job(target="labels").table([*range(17)]).to_pylist()
    assert [row["class"] for row in rows] == [node % 3 for node in range(17)]
    out = make_model()(make_graph()["x"], make_graph()["edge_index"]).detach()
    values = [float(out[node, node % 3]) for node in range(17)]
    assert [row["value"] for row in rows] == pytest.approx(values, rel=1e-9)
    few = job(target="labels").table([3, 5]).to_pylist()  # which are explained one by one
    assert [row["value"] for row in few] == pytest.approx([values[3], values[5]], rel=1e-9)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"graph": "nowhere"}, "no graph"),
        ({"graph": 3}, "name of a data set"),
        ({"model": "weights.pt"}, "file of weights"),
        ({"model": "mymodule"}, "module:function"),
        ({"model": None}, "model must be given"),
        ({"method": "magic"}, "unknown method"),
        ({"neighborhood": "U(B,1)"}, "U\\(B,1\\)"),
        ({"neighborhood": gf.UniformEdges(0.5)}, "as text"),
        ({"samples": 0}, "num_samples"),
        ({"samples": "auto", "method": "kec"}, "auto"),
        ({"seed": -1}, "seed"),
        ({"top_edges": -1}, "top_edges"),
        ({"top_features": 1.5}, "top_features"),
        ({"target": "truth"}, "predicted, labels"),
        ({"mode": "guess"}, "mode must be"),
        ({"edges": "none"}, "edges"),
        ({"max_memory": "much"}, "much"),
    ],
)
def test_what_is_wrong_is_said_when_a_job_is_made(tmp_path, wrong, said):
    path = tmp_path / "graph.pt"
    torch.save(make_graph(), path)
    with pytest.raises(InputError, match=said):
        gf.ManyJob(**{"graph": path, "model": f"{MODELS}:load", **wrong})


def test_what_only_the_graph_and_the_model_tell_is_said_by_check(job):
    job().check()
    with pytest.raises(InputError, match="regression"):
        job("load_regression", mode="regression", target="labels").check()
    with pytest.raises(InputError, match="no 'nothing'"):
        job("nothing").check()


@pytest.mark.parametrize(
    ("ids", "said"), [([1, 1], "only once"), ([NODES], "out of range"), ([-1], "out of range"), ([0.5], "whole")]
)
def test_ids_are_checked(job, ids, said):
    with pytest.raises(InputError, match=said):
        job().table(ids)


def test_no_ids_are_an_empty_table(job):
    table = job().table([])
    assert table.num_rows == 0
    assert table.schema == job().table([1]).schema == job().schema


def test_a_large_graph_that_is_not_packed_is_copied_by_each_worker_which_is_said(job, monkeypatch):
    monkeypatch.setattr("graphfaith.many.job.LARGE", 1000)
    with pytest.warns(UserWarning, match=r"each worker loads '.*graph-0.pt' as a whole"):
        job().settled()


def test_settings_are_plain_and_digests_tell_graphs_and_models_apart(job):
    import json

    made = job()
    assert gf.ManyJob(**json.loads(json.dumps({**made.settings(), **made.places()}))) == made
    assert set(made.places()) == {"graph", "folder"}
    assert gf.ManyJob("ba-shapes").places() == {}
    same, other = job().digests(), job("load_fragile", [3]).digests()
    assert same == made.digests()
    assert same["graph"] != other["graph"]
    assert same["model"] != other["model"]


def test_a_packed_graph_has_the_rows_of_the_graph_in_memory(job, tmp_path):
    right = job()
    gf.pack_graph(make_graph(), tmp_path / "packed")
    made = gf.ManyJob(tmp_path / "packed", f"{MODELS}:load", samples=40)
    made.check()
    assert made.num_nodes == NODES
    nodes = [*range(20), 33]
    assert without_times(made.table(nodes)).equals(without_times(right.table(nodes)))
    labels = [{"target": "labels", "samples": 40, "model": f"{MODELS}:load"} for _ in range(2)]
    packed, whole = (
        gf.ManyJob(graph, **one) for graph, one in zip((tmp_path / "packed", right.graph), labels, strict=True)
    )
    assert without_times(packed.table(nodes)).equals(without_times(whole.table(nodes)))
    assert made.digests()["model"] == right.digests()["model"]
    gf.pack_graph(make_graph([3]), tmp_path / "other")
    assert made.digests() != gf.ManyJob(tmp_path / "other", f"{MODELS}:load").digests()


def test_what_a_packed_graph_cannot_tell_is_asked_for(tmp_path):
    graph = make_graph()
    gf.pack_graph({**graph, "x": graph["x"].float()}, tmp_path / "packed")
    with pytest.raises(InputError, match="precision"):
        gf.ManyJob(tmp_path / "packed", f"{MODELS}:load").check()
    gf.pack_graph({name: graph[name] for name in ("x", "edge_index")}, tmp_path / "bare")
    with pytest.raises(InputError, match="needs a graph with y"):
        gf.ManyJob(tmp_path / "bare", f"{MODELS}:load", target="labels").check()
    with pytest.raises(gf.UnsupportedError, match="paired"):
        gf.ManyJob(tmp_path / "bare", f"{MODELS}:load", neighborhood="R(A,5)").check()


def test_what_the_machine_is_to_blame_for_is_no_row(job, monkeypatch):
    made, real = job("load_fragile"), Fragile.forward
    for cause, raised in (
        (OSError(5, "Input/output error"), (gf.ModelError, OSError)),
        (MemoryError("no more"), MemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError),
    ):
        made.check()

        def broken(*_, cause=cause, **__):
            raise cause

        monkeypatch.setattr(Fragile, "forward", broken)
        with pytest.raises(raised, match=str(cause.args[-1])):
            made.table(range(4))
        monkeypatch.setattr(Fragile, "forward", real)
    limited = job(max_memory="1 kB")
    assert set(limited.table(range(4)).column("status").to_pylist()) == {"failed"}  # The user has set that limit.


def test_one_node_that_fails_does_not_refuse_the_job(job):
    job("load_fragile", [0]).check()
    with pytest.raises(gf.ModelError, match="finite"):
        job("load_fragile", range(NODES)).check()


def test_a_graph_that_has_changed_is_opened_again(job):
    made = job()
    before = made.digests()
    torch.save(make_graph([3]), made.graph)
    assert made.digests()["graph"] != before["graph"]
    assert made.digests()["model"] == before["model"]


def pack_hub(folder, leaves=20_000):
    """A ring of nodes that all lead to node 0 as well."""
    ring, x = np.arange(1, leaves + 1), np.zeros((leaves + 1, FEATURES))
    x[:, 0], x[1:, 1] = 1.0, np.arange(leaves) % 3
    edges = np.stack([np.r_[ring, ring], np.r_[np.zeros_like(ring), np.roll(ring, 1)]])
    return gf.pack_graph({"x": x, "edge_index": edges}, folder)


def test_a_hub_that_exceeds_max_memory_is_a_row_that_says_so(monkeypatch, tmp_path):
    graph = pack_hub(tmp_path / "packed")
    sizes, make = [], ComputationGraph.of_part.__func__

    def of_part(cls, graph, nodes, *given):
        sizes.append(len(nodes))
        return make(cls, graph, nodes, *given)

    def parts_around(*given, **options):
        parts = Parts.around(*given, **options)
        sizes.extend(np.diff(parts.node_start).tolist())
        return parts

    monkeypatch.setattr(ComputationGraph, "of_part", classmethod(of_part))
    monkeypatch.setattr(sweep, "Parts", SimpleNamespace(around=parts_around))
    made = gf.ManyJob(tmp_path / "packed", f"{MODELS}:load", method="kec", samples=20, max_memory="1 MB")
    made.check()  # node 0 is the hub
    rows = without_times(made.table([5, 0, 7]))
    assert rows.column("status").to_pylist() == ["ok", "failed", "ok"]
    error = rows.column("error").to_pylist()[1]
    assert error.startswith("MemoryLimitError: running the model once at node 0 needs more than max_memory")
    assert "more than 2604 nodes and edges" in error
    for place, node in ((0, 5), (2, 7)):
        assert rows.slice(place, 1).equals(without_times(made.table([node])))
    for nodes in ([0, *range(100, 160)], [*range(100, 160), 0]):
        with pytest.raises(gf.MemoryLimitError, match="at node 0 needs more than max_memory"):
            gf.explain_all(made.open().explainer, graph, nodes=nodes, progress=False)
    found = gf.explain_all(made.open().explainer, graph, nodes=range(100, 160), progress=False)
    assert found.index.tolist() == list(range(100, 160))
    assert max(sizes) < 2604
