"""Graphs in folders of files, against the same graphs in memory."""

from __future__ import annotations

import json
import pickle
from contextlib import ExitStack
from dataclasses import fields

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from graphfaith import DataError, InputError, MemoryLimitError, OutputError, UnsupportedError
from graphfaith.data.edge_lists import ParquetEdges, open_arrays
from graphfaith.graph import packing
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.graph.packed import PackedGraph, open_graph
from graphfaith.graph.packing import ArrayEdges, pack_graph, write_graph
from graphfaith.graph.parts import Parts, Rows
from reference import cases

PATH = torch.tensor([[3, 2, 1], [2, 1, 0]])


def pack(case, folder, **options):
    tensors = {"x": case.x, "edge_index": case.edge_index, "edge_weight": case.edge_weight}
    return pack_graph(tensors, folder, **options)


def assert_equal(one, other):
    for each in fields(ComputationGraph):
        mine, right = getattr(one, each.name), getattr(other, each.name)
        if isinstance(right, torch.Tensor):
            assert mine.dtype == right.dtype, each.name
            assert torch.equal(mine, right), each.name
        else:
            assert mine == right, each.name


@settings(max_examples=20)
@given(
    case=cases,
    hops=st.integers(1, 3),
    flow=st.sampled_from(["source_to_target", "target_to_source"]),
    loop_weight=st.sampled_from([None, 1.0, 2.0]),
    data=st.data(),
)
def test_computation_graphs_are_those_of_the_graph_in_memory(tmp_path_factory, case, hops, flow, loop_weight, data):
    graph = Graph(case.x, case.edge_index, case.edge_weight, flow)
    packed = pack(case, tmp_path_factory.mktemp("packed") / "graph", flow=flow)
    nodes = data.draw(st.lists(st.integers(0, len(case.x) - 1), min_size=1, max_size=4))
    rows = Rows(np.arange(graph.num_edges), np.arange(graph.num_nodes))
    for degrees in ("none", "in", "out"):
        options = {"degrees": degrees == "in", "out_degrees": degrees == "out", "loop_weight": loop_weight}
        found, right = (Parts.around(one, nodes, hops, rows=rows, **options) for one in (packed, graph))
        assert np.array_equal(found.row, right.row)
        assert np.array_equal(found.whole_ends, right.whole_ends)
        for i, node in enumerate(nodes):
            alone = ComputationGraph.around(graph, node, hops, **options)
            assert_equal(ComputationGraph.around(packed, node, hops, **options), alone)
            assert_equal(found.graph(i), alone)
    whole = [ComputationGraph.whole(one, nodes, hops, loop_weight=loop_weight) for one in (packed, graph)]
    assert_equal(*whole)
    assert (packed.lowest, packed.feature_range) == (graph.lowest, graph.feature_range)
    assert (packed.is_weighted, packed.has_every_loop) == (graph.is_weighted, graph.has_every_loop)
    tensors = packed.tensors()
    assert torch.equal(tensors["x"], case.x)
    assert torch.equal(tensors["edge_index"], case.edge_index)
    assert case.edge_weight is None or torch.equal(tensors["edge_weight"], case.edge_weight)


@settings(max_examples=40)
@given(
    keys=st.lists(st.integers(0, 40), max_size=120),
    most=st.integers(1, 30),
    size=st.integers(1, 20),
    ways=st.integers(2, 5),
)
def test_edges_are_sorted_in_pieces_as_at_once(tmp_path_factory, keys, most, size, ways):
    records = np.array(list(zip(keys, range(len(keys)), strict=True)), dtype=[("key", "i4"), ("place", "i8")])
    pieces = [records[first : first + size] for first in range(0, len(records), size)]
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(packing, "_WAYS", ways)
        scratch = stack.enter_context(packing._Scratch(tmp_path_factory.mktemp("scratch")))
        found = list(packing._sort_pieces(pieces, len(records), range(41), most, scratch))
        assert not list(scratch._folder.iterdir()), "a file was left"
    # A piece has more than the memory is for only if all of it is of one node, and then it came like that.
    assert all(len(piece) <= max(most, size) for piece in found)
    right = records[np.argsort(records["key"], kind="stable")]
    assert [tuple(r) for piece in found for r in piece.tolist()] == [tuple(r) for r in right.tolist()]


def test_little_memory_gives_the_same_files(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    ends = torch.unique(torch.randint(0, 300, (2, 4000), generator=generator), dim=1)
    ends = ends[:, torch.randperm(ends.size(1), generator=generator)]
    given = {"x": torch.rand(300, 3), "edge_index": ends, "edge_weight": torch.rand(ends.size(1))}
    at_once = pack_graph(given, tmp_path / "at_once")
    monkeypatch.setattr(packing, "_BYTES", packing._LEAST // 100)
    monkeypatch.setattr(packing, "max", lambda *values: 100 if values[0] == 1024 else max(*values), raising=False)
    in_pieces = pack_graph(given, tmp_path / "in_pieces", max_memory=packing._LEAST)
    assert at_once.num_loops > 0
    assert at_once.about["files"] == in_pieces.about["files"]  # with their digests
    in_pieces.verify()


def test_integers_are_small_and_draws_keep_their_places(tmp_path):
    packed = pack_graph({"x": torch.eye(4), "edge_index": PATH.flip(1), "y": torch.arange(4)}, tmp_path / "path")
    kinds = {name: entry["dtype"] for name, entry in packed.about["files"].items()}
    assert {kinds[name] for name in ("edge", "sink", "start", "out", "out_start")} == {"<i4"}
    assert packed.source.tolist() == [1, 2, 3]
    assert packed.ids(np.array([0, 1, 2, -1])).tolist() == [0, 1, 2, -1]
    assert packed.labels[torch.tensor([3, 1])].tolist() == [3, 1]
    assert packed.about["files"]["x"]["bytes"] == 4096 + 4 * 4 * 4, "rows begin with a page"
    assert np.array_equal(np.load(packed.folder / "x.npy"), np.eye(4))
    assert pickle.loads(pickle.dumps(packed)).num_nodes == 4


def test_the_core_is_compiled_for_one_layout_of_graphs(tmp_path):
    loop = torch.cat((PATH, torch.tensor([[1], [1]])), dim=1)
    for out_degrees in (False, True):
        found = set()
        for i, edges in enumerate((PATH, loop, PATH.flip(1)[:, ::2], PATH[:, :1], PATH[:, :0])):
            tensors = {"x": torch.eye(4), "edge_index": edges}
            packed = pack_graph(tensors, tmp_path / f"{out_degrees}-{i}")
            found |= {numba.typeof(graph.index(out_degrees)) for graph in (Graph(**tensors), packed)}
        assert len(found) == 1, found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.tensor([[0.0], [np.nan], [0.0], [0.0]])}, r"x\[1, 0\] is nan: every entry must be finite"),
        ({"x": torch.ones(4, 1, dtype=torch.int64)}, "real numbers"),
        ({"x": torch.ones(0, 1)}, "the graph is empty"),
        ({"edge_index": torch.tensor([[0, 4], [1, 2]])}, "names node 4, but the graph has nodes 0 to 3"),
        ({"edge_index": torch.tensor([[0, -1], [1, 2]])}, "names node -1"),
        ({"edge_index": torch.tensor([[2, 0, 2], [2, 1, 2]])}, "node 2 has several self-loops"),
        ({"edge_weight": torch.tensor([1.0, -2.0, 1.0])}, "edge 1 has weight -2: weights must be 0 or more"),
        ({"edge_weight": torch.tensor([1.0, np.inf, 1.0])}, r"edge_weight\[1\] is inf"),
        ({"edge_weight": torch.ones(2)}, "one number for each of the 3 edges"),
        ({"edge_weight": torch.ones(3, dtype=torch.int64)}, "edge_weight must hold real numbers"),
        ({"y": torch.ones(3)}, "y must have a row for each of the 4 nodes"),
        ({"edge_index": None}, "has no edge_index"),
        ({"x": [[1.0]]}, "x must be a tensor or an array"),
    ],
)
def test_a_graph_that_is_none_is_refused_and_nothing_is_left(tmp_path, change, words):
    with pytest.raises(InputError, match=words):
        pack_graph({"x": torch.ones(4, 1), "edge_index": PATH} | change, tmp_path / "graph")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "graph").mkdir()
    with pytest.raises(OutputError, match="there is something of that name"):
        pack_graph(Data(x=torch.ones(4, 1), edge_index=PATH), tmp_path / "graph")
    assert not list((tmp_path / "graph").iterdir())


def test_options_are_checked(tmp_path):
    data = Data(x=torch.ones(4, 1), edge_index=PATH)
    with pytest.raises(InputError, match="flow must be"):
        pack_graph(data, tmp_path / "graph", flow="up")
    with pytest.raises(InputError, match="at least 16 MiB"):
        pack_graph(data, tmp_path / "graph", max_memory="1 MB")

    class Short(ArrayEdges):
        num_edges = 4

    with pytest.raises(InputError, match="there are 3 edges, not the 4"):
        write_graph(tmp_path / "graph", np.ones((4, 1)), Short(PATH.numpy()))


def test_a_graph_without_edges(tmp_path):
    packed = pack_graph({"x": torch.ones(3, 2), "edge_index": torch.empty(2, 0, dtype=torch.int64)}, tmp_path / "none")
    part = ComputationGraph.around(packed, 1, 2)
    assert part.nodes.tolist() == [1]
    assert part.num_edges == 1


@pytest.fixture
def packed(tmp_path):
    return pack_graph(
        {"x": torch.eye(4), "edge_index": torch.cat((PATH, torch.tensor([[1], [1]])), dim=1)}, tmp_path / "graph"
    )


def rewrite(packed, change):
    path = packed.folder / "graph.json"
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.update(format="other"), "says 'other'"),
        (lambda a: a.update(num_nodes="4"), "does not say what a graph is made of"),
        (lambda a: a.update(lowest=float("nan")), "does not say what a graph is made of"),
        (lambda a: a["files"].pop("edge"), "lacks 'edge'"),
        (lambda a: a["files"].update({"../x": {}}), "has '../x'"),
        (lambda a: a.update(num_edges=5), "wrong shape"),
        (lambda a: a.update(num_loops=0), r"out\.npy has the wrong shape"),
        (lambda a: a["files"].pop("loop"), "does not say which nodes have self-loops"),
        (lambda a: a["files"]["x"].update(dtype="<f8"), "does not hold what"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(packed, change, words):
    rewrite(packed, change)
    with pytest.raises(DataError, match=words):
        open_graph(packed.folder)


def test_a_damaged_file_is_found(packed):
    path = packed.folder / "edge.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-4])
    with pytest.raises(DataError, match=r"edge\.npy has"):
        PackedGraph(packed.folder)
    path.write_bytes(content[:-16] + (10**6).to_bytes(4, "little") + content[-12:])
    damaged = PackedGraph(packed.folder)
    with pytest.raises(DataError, match=r"edge\.npy is not what was packed"):
        damaged.verify()
    with pytest.raises(DataError, match="a node that there is not"):
        damaged.find_part(np.array([0, 1, 2, 3]), 2, 2)
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        PackedGraph(packed.folder)
    with pytest.raises(DataError, match="there is no such folder"):
        PackedGraph(packed.folder / "other")


def test_another_flow_is_refused(packed):
    with pytest.raises(UnsupportedError, match="pack it with flow='target_to_source'"):
        packed.check_flow("target_to_source")


# Limits -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(case=cases, hops=st.integers(1, 3), each=st.integers(1, 4), out_degrees=st.booleans(), data=st.data())
def test_a_walk_stops_at_its_limit_and_a_thinner_graph_is_walked_alike(
    tmp_path_factory, case, hops, each, out_degrees, data
):
    node = data.draw(st.integers(0, len(case.x) - 1))
    packed = pack(case, tmp_path_factory.mktemp("graph") / "packed")
    depth = hops if out_degrees else hops - 1
    for graph in (Graph(case.x, case.edge_index, case.edge_weight), packed):
        seeds = np.array([node])
        part = graph.find_part(seeds, hops, depth, out_degrees=out_degrees)
        size = len(part.nodes) + len(part.edges)
        same = graph.find_part(seeds, hops, depth, out_degrees=out_degrees, most=size)
        assert all(np.array_equal(a, b) for a, b in zip(part, same, strict=True))
        for most in {0, size // 2, size - 1}:
            with pytest.raises(MemoryLimitError, match=f"more than {most} nodes and edges"):
                graph.find_part(seeds, hops, depth, out_degrees=out_degrees, most=most)
        # The thinner graph, made edge by edge in the order of slots.
        counts: dict[tuple[str, int], int] = {}
        kept = []
        slots = np.flatnonzero(graph.source != graph.sink)
        for slot in slots.tolist():
            ends = ("out", int(graph.source[slot])), ("in", int(graph.sink[slot]))
            for end in ends:
                counts[end] = counts.get(end, 0) + 1
            if all(counts[end] <= each for end in ends):
                kept.append(slot)
        order = np.array(sorted(kept, key=lambda slot: graph.ids(np.array([slot]))[0]), dtype=np.int64)
        ends = torch.from_numpy(np.stack((graph.source[order], graph.sink[order])).astype(np.int64))
        right = Graph(case.x, ends).find_part(seeds, hops, depth, out_degrees=out_degrees)
        thin = graph.find_part(seeds, hops, depth, out_degrees=out_degrees, each=each)
        assert np.array_equal(thin.edges, order[right.edges])
        for name in ("nodes", "hop", "num_inner", "ends", "beyond"):
            assert np.array_equal(getattr(thin, name), getattr(right, name)), name


def test_parts_end_before_one_that_is_too_large(tmp_path):
    star = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 0, 1]])
    graph = pack_graph({"x": torch.ones(5, 1), "edge_index": star}, tmp_path / "star")
    assert len(Parts.around(graph, [2, 3, 0, 4], 1)) == 4
    assert Parts.around(graph, [2, 3, 0, 4], 1, largest=8).nodes.tolist() == [2, 3]
    assert len(Parts.around(graph, [0, 4], 1, largest=8)) == 0


def test_what_is_wrong_with_edges_that_are_read_is_said_as_it_is(tmp_path):
    class Damaged(ArrayEdges):
        def pieces(self, size):
            raise DataError("cannot read the edges")

    with pytest.raises(DataError, match=r"^cannot read the edges$"):
        write_graph(tmp_path / "graph", np.ones((4, 1)), Damaged(PATH.numpy()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["edge_attr", "edge_type", "pos"])
def test_what_a_model_may_read_is_not_dropped_in_silence(tmp_path, name):
    data = Data(x=torch.ones(4, 1), edge_index=PATH, train_mask=torch.ones(4, dtype=torch.bool), class_names=["a"])
    data[name] = torch.ones(PATH.size(1) if name.startswith("edge") else 4)
    with pytest.raises(InputError, match=f"the graph has '{name}', which cannot be packed"):
        pack_graph(data, tmp_path / "graph")
    assert not (tmp_path / "graph").exists()
    assert pack_graph(data, tmp_path / "graph", leave_out=[name]).num_edges == PATH.size(1)
    assert pack_graph(data.to_dict(), tmp_path / "other", leave_out=["all"]).num_nodes == 4


def test_arrays_and_columns_that_a_model_may_read_are_not_dropped_in_silence(tmp_path):
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    np.save(arrays / "x.npy", np.ones((4, 1)))
    np.save(arrays / "edge_index.npy", PATH.numpy())
    np.save(arrays / "edge_attr.npy", np.ones((PATH.size(1), 2)))
    with pytest.raises(InputError, match="has 'edge_attr'"):
        open_arrays(arrays)
    assert open_arrays(arrays, ["edge_attr"])[1].num_edges == PATH.size(1)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"source": PATH[0].tolist(), "target": PATH[1].tolist(), "relation": [0] * PATH.size(1)}
    parquet.write_table(pytest.importorskip("pyarrow").table(table), tmp_path / "edges.parquet")
    with pytest.raises(InputError, match="has 'relation'"):
        ParquetEdges.of(tmp_path / "edges.parquet")
    assert ParquetEdges.of(tmp_path / "edges.parquet", ["relation"]).num_edges == PATH.size(1)


def test_a_graph_that_is_not_to_be_run_as_a_whole_says_so(tmp_path):
    packed = pack_graph({"x": torch.ones(4, 1), "edge_index": PATH}, tmp_path / "graph")
    parted = pickle.loads(pickle.dumps(PackedGraph(tmp_path / "graph", whole=False)))
    assert packed.loaded_bytes < 1000 < parted.loaded_bytes
    assert parted.sample_digests() == packed.sample_digests()
