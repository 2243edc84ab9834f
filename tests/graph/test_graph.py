import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphfaith import InputError
from graphfaith.graph import graph as graph_module
from graphfaith.graph.graph import Graph

RING = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(graph_module, "_RECENT", {})


def features(value=0.5, at=None, dtype=torch.float32):
    x = torch.linspace(0, 1, 12, dtype=dtype).view(4, 3).clone()
    if at is not None:
        x[at] = value
    return x


def weights(value=1.0, at=0, dtype=torch.float32):
    w = torch.ones(4, dtype=dtype)
    w[at] = value
    return w


@st.composite
def multigraphs(draw):
    """Draw the number of nodes and the edges of a directed graph.

    It may have parallel edges, isolated nodes, and at most one self-loop at each node.
    """
    n = draw(st.integers(1, 7))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    edges, looped = [], set()
    for source, sink in pairs:
        if source != sink or source not in looped:
            edges.append((source, sink))
            looped |= {source} if source == sink else set()
    return n, edges


def tensor_of(edges):
    return torch.tensor(edges, dtype=torch.long).view(-1, 2).T.contiguous()


# Invalid graphs that are refused

MALFORMED = {
    "x is missing": ((None, RING, None), r"x must be a tensor.*NoneType"),
    "x is an array": ((np.ones((4, 3)), RING, None), r"x must be a tensor.*ndarray"),
    "x is one number": ((torch.ones(()), RING, None), r"x must be.*\[nodes, features\].*\[\]"),
    "x is sparse": ((torch.ones(4, 3).to_sparse(), RING, None), r"x must be dense.*to_dense"),
    "x is short": ((torch.ones(4, 3, dtype=torch.bfloat16), RING, None), r"x must hold real.*bfloat16"),
    "x is complex": ((torch.ones(4, 3, dtype=torch.complex64), RING, None), r"x must hold real.*complex64"),
    "no nodes": ((torch.ones(0, 3), NO_EDGES, None), r"empty.*\[0, 3\]"),
    "no features": ((torch.ones(4, 0), RING, None), r"empty.*\[4, 0\]"),
    "NaN in x": ((features(np.nan, (2, 1)), RING, None), r"x\[2, 1\] is nan"),
    "Inf in x": ((features(np.inf, (3, 0)), RING, None), r"x\[3, 0\] is inf"),
    "-Inf in x": ((features(-np.inf, (0, 2)), RING, None), r"x\[0, 2\] is -inf"),
    "edges are missing": ((features(), None, None), r"edge_index must be a tensor.*NoneType"),
    "edges are a list": ((features(), [[0], [1]], None), r"edge_index must be a tensor.*list"),
    "edges are flat": ((features(), torch.tensor([0, 1]), None), r"edge_index must be.*\[2, edges\].*\[2\]"),
    "edges are transposed": ((features(), RING.T, None), r"edge_index must be.*\[4, 2\]"),
    "edges are an adjacency": ((features(), torch.eye(4), None), r"edge_index must be.*\[4, 4\]"),
    "edges are real numbers": ((features(), RING.float(), None), r"edge_index must hold int64.*float32"),
    "edges are int32": ((features(), RING.int(), None), r"edge_index must hold int64.*int32"),
    "node too large": ((features(), torch.tensor([[0, 7], [1, 2]]), None), r"names node 7,.*0 to 3"),
    "node just too large": ((features(), torch.tensor([[0], [4]]), None), r"names node 4,.*0 to 3"),
    "node negative": ((features(), torch.tensor([[0, -2], [1, 2]]), None), r"names node -2,.*0 to 3"),
    "weights are a list": ((features(), RING, [1.0] * 4), r"edge_weight must have one.*4 edges.*list"),
    "too few weights": ((features(), RING, torch.ones(3)), r"edge_weight must have one.*4 edges.*\[3\]"),
    "weights are a column": ((features(), RING, torch.ones(4, 1)), r"edge_weight must have.*\[4, 1\]"),
    "one weight": ((features(), RING, torch.tensor(1.0)), r"edge_weight must have.*\[\]"),
    "weights are whole": ((features(), RING, torch.ones(4, dtype=torch.long)), r"edge_weight must hold real.*int64"),
    "NaN weight": ((features(), RING, weights(np.nan, 2)), r"edge_weight\[2\] is nan"),
    "Inf weight": ((features(), RING, weights(np.inf, 1)), r"edge_weight\[1\] is inf"),
    "-Inf weight": ((features(), RING, weights(-np.inf, 3)), r"edge_weight\[3\] is -inf"),
    "negative weight": ((features(), RING, weights(-0.25, 3)), r"edge 3 has weight -0\.25"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_input_is_named(case):
    arguments, message = MALFORMED[case]
    for make in (Graph, Graph.of):
        with pytest.raises(InputError, match=message):
            make(*arguments)


def test_opposite_infinities_are_found():
    x = features(np.inf, (1, 1))
    x[1, 2] = -np.inf
    with pytest.raises(InputError, match=r"x\[1, 1\] is inf"):
        Graph(x, RING)


def test_loops_are_counted():
    edges = torch.tensor([[1, 1, 3, 0, 3, 3], [1, 1, 3, 1, 3, 3]])
    with pytest.raises(InputError, match=r"node 1 has 2 self-loops|node 3 has 3 self-loops"):
        Graph(torch.ones(4, 1), edges)


def test_duplicate_loop_of_one_node_is_named():
    with pytest.raises(InputError, match=r"node 2 has 2 self-loops"):
        Graph(torch.ones(4, 1), torch.tensor([[2, 0, 2, 3], [2, 1, 2, 3]]))


# Valid graphs that are accepted


def test_finite_numbers_whose_sum_overflows():
    x = torch.full((4, 3), 3e38)
    assert Graph(x, RING, torch.full((4,), 3e38)).feature_range == 0


def test_zero_weights_and_parallel_edges():
    edges = torch.tensor([[0, 0, 2, 2], [1, 1, 2, 1]])
    graph = Graph(torch.ones(3, 1), edges, torch.zeros(4))
    assert graph.in_edges(np.array([1])).tolist() == [0, 1, 3]


def test_no_edges():
    graph = Graph(torch.ones(3, 2), NO_EDGES, torch.empty(0))
    assert graph.num_edges == 0
    assert graph.in_edges(np.arange(3)).tolist() == []
    assert graph.loop_edge.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_precisions(dtype):
    graph = Graph(features(dtype=dtype), RING, weights(dtype=dtype))
    assert graph.feature_range == pytest.approx(1.0, abs=1e-2)


def test_sizes_and_range():
    x = torch.tensor([[1.0, -2.5], [0.0, 4.0], [2.0, 0.0]])
    graph = Graph(x, torch.tensor([[0], [1]]))
    assert (graph.num_nodes, graph.num_features, graph.num_edges) == (3, 2, 1)
    assert graph.feature_range == 6.5


def test_tensors_that_record_gradients():
    torch.set_warn_always(True)
    try:
        x = features().requires_grad_()
        graph = Graph(x, RING, weights(0.5).requires_grad_())
        assert graph.feature_range == 1.0
        with pytest.raises(InputError, match="edge 0 has weight -1"):
            Graph(x, RING, weights(-1.0).requires_grad_())
        with pytest.raises(InputError, match=r"x\[0, 0\] is nan"):
            Graph(features(np.nan, (0, 0)).requires_grad_(), RING)
    finally:
        torch.set_warn_always(False)


def test_tensors_made_in_inference_mode():
    with torch.inference_mode():
        x = features()
    assert Graph.of(x, RING).num_nodes == 4


def test_a_view_that_is_not_contiguous():
    pairs = torch.tensor([[0, 1], [1, 2], [2, 2], [3, 1]])
    graph = Graph(torch.ones(3, 4).T, pairs.T)
    assert graph.in_edges(np.array([1])).tolist() == [0, 3]
    assert graph.loop_edge.tolist() == [-1, -1, 2, -1]


def test_the_users_tensors_are_left_alone():
    x, edges, w = features(), RING.clone(), weights(0.5)
    before = [t._version for t in (x, edges, w)]
    Graph.of(x, edges, w).in_edges(np.arange(4))
    assert [t._version for t in (x, edges, w)] == before
    assert torch.equal(edges, RING)


# The index


@given(multigraphs(), st.sampled_from(["source_to_target", "target_to_source"]), st.data())
def test_in_edges_by_brute_force(made, flow, data):
    n, edges = made
    graph = Graph(torch.ones(n, 1), tensor_of(edges), flow=flow)
    nodes = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
    ends = edges if flow == "source_to_target" else [(b, a) for a, b in edges]
    expected = [i for node in nodes for i, (a, b) in enumerate(ends) if b == node and a != b]
    assert graph.in_edges(np.array(nodes, dtype=np.int64)).tolist() == expected
    loops = {a: i for i, (a, b) in enumerate(edges) if a == b}
    assert graph.loop_edge.tolist() == [loops.get(node, -1) for node in range(n)]
    assert list(zip(graph.source.tolist(), graph.sink.tolist(), strict=True)) == ends


def test_flow_is_kept_apart():
    x = features()
    forward, backward = Graph.of(x, RING), Graph.of(x, RING, flow="target_to_source")
    assert forward is not backward
    assert forward.in_edges(np.array([1])).tolist() == [0]
    assert backward.in_edges(np.array([1])).tolist() == [1]


# The cache of graphs


def test_the_same_tensors_give_the_same_graph():
    x, w = features(), weights()
    graph = Graph.of(x, RING, w)
    assert Graph.of(x, RING, w) is graph
    assert Graph.of(x, RING) is not graph
    assert Graph.of(x.clone(), RING, w) is not graph
    assert Graph.of(x, RING.clone(), w) is not graph
    assert Graph.of(x, RING, w.clone()) is not graph
    assert Graph.of(x, RING, w) is graph
    assert graph.x is x
    assert graph.edge_index is RING
    assert graph.edge_weight is w


def test_a_write_is_noticed():
    x, edges, w = features(), RING.clone(), weights()
    Graph.of(x, edges, w)
    x[1, 0] = np.nan
    with pytest.raises(InputError, match=r"x\[1, 0\] is nan"):
        Graph.of(x, edges, w)
    x[1, 0] = 10.0
    assert Graph.of(x, edges, w).feature_range == 10.0
    w[2] = -1
    with pytest.raises(InputError, match="edge 2 has weight -1"):
        Graph.of(x, edges, w)
    w[2] = 1
    edges[1, 0] = 9
    with pytest.raises(InputError, match="names node 9"):
        Graph.of(x, edges, w)
    edges[1, 0] = 3
    assert Graph.of(x, edges, w).in_edges(np.array([3])).tolist() == [0, 2]


def test_a_refused_graph_is_refused_again():
    x = features(np.nan, (0, 0))
    for _ in range(3):
        with pytest.raises(InputError, match="nan"):
            Graph.of(x, RING)


def test_tensors_are_freed():
    x, edges, w = features(), RING.clone(), weights()
    graph = Graph.of(x, edges, w)
    alive = [weakref.ref(t) for t in (x, edges, w)]
    del x, edges, w
    gc.collect()
    assert [ref() for ref in alive] == [None, None, None]
    for name in ("x", "edge_index", "edge_weight"):
        with pytest.raises(InputError, match="gone"):
            getattr(graph, name)


def test_a_tensor_in_the_place_of_a_freed_one_is_another():
    for value in range(50):
        x = torch.full((4, 1), float(value))
        x[0] = 0
        assert Graph.of(x, RING).feature_range == value
        del x


def test_only_the_last_graphs_are_remembered():
    all_features = [features() for _ in range(30)]
    for x in all_features:
        Graph.of(x, RING)
    assert len(graph_module._RECENT) <= graph_module._REMEMBERED
    last = Graph.of(all_features[-1], RING)
    assert Graph.of(all_features[-1], RING) is last
    assert Graph.of(all_features[0], RING).x is all_features[0]


def test_the_graph_that_was_not_used_for_longest_is_forgotten():
    all_features = [features() for _ in range(graph_module._REMEMBERED + 1)]
    graphs = [Graph.of(x, RING) for x in all_features[:-1]]
    assert (
        Graph.of(all_features[0], RING) is graphs[0]
    )  # It is used again, so the second graph is the next to be forgotten.
    last = Graph.of(all_features[-1], RING)
    assert list(graph_module._RECENT.values()) == [*graphs[2:], graphs[0], last]
    assert Graph.of(all_features[0], RING) is graphs[0]
    remembered = zip(all_features[2:], [*graphs[2:], last], strict=True)
    assert all(Graph.of(x, RING) is graph for x, graph in remembered)
    assert Graph.of(all_features[1], RING) is not graphs[1]
    assert len(graph_module._RECENT) == graph_module._REMEMBERED


def test_a_graph_that_is_used_all_the_time_stays():
    often = features()
    first = Graph.of(often, RING)
    others = [features() for _ in range(5 * graph_module._REMEMBERED)]
    for x in others:
        Graph.of(x, RING)
        assert Graph.of(often, RING) is first


def test_graphs_can_be_asked_for_from_many_threads(monkeypatch):
    monkeypatch.setattr(graph_module, "_REMEMBERED", 3)
    all_features = [torch.full((4, 1), float(value)) for value in range(8)]
    for x in all_features:
        x[0] = 0
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def ask(place):
            return [
                Graph.of(all_features[(place * 7 + i) % 8], RING).feature_range == (place * 7 + i) % 8
                for i in range(200)
            ]

        with ThreadPoolExecutor(8) as pool:
            assert all(all(right) for right in pool.map(ask, range(16)))
    finally:
        sys.setswitchinterval(before)
    assert len(graph_module._RECENT) <= 3


def test_a_precision_numpy_lacks_is_refused():
    edges = torch.tensor([[0], [1]])
    with pytest.raises(InputError, match="bfloat16"):
        Graph(torch.ones(2, 2, dtype=torch.bfloat16), edges)
    with pytest.raises(InputError, match="bfloat16"):
        Graph(torch.ones(2, 2), edges, torch.ones(1, dtype=torch.bfloat16))


# Code that treats large graphs differently


@given(multigraphs())
def test_edges_are_sorted_alike_when_a_key_is_too_long(made):
    n, edges = made
    nodes = np.arange(n)
    graph = Graph(torch.ones(n, 1), tensor_of(edges))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "_KEY_BITS", 0)
        other = Graph(torch.ones(n, 1), tensor_of(edges))
        assert other.in_edges(nodes).tolist() == graph.in_edges(nodes).tolist()
        one, two = (some.find_part(np.unique(nodes), 1, 1, out_degrees=True) for some in (other, graph))
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_the_index_is_small_and_its_answers_are_not():
    graph = Graph(features(), RING)
    assert {part.dtype for part in graph._in} == {np.dtype(np.int32)}
    assert graph.in_edges(np.array([1])).dtype == graph.in_edges(np.array([1, 2])).dtype == np.int64


@pytest.mark.parametrize("where", [(0, 1), (2, 0), (3, 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_wrong_feature_is_found_in_any_chunk(monkeypatch, where, value):
    monkeypatch.setattr(graph_module, "_ROWS", 2)
    x = features(value, where)
    with pytest.raises(InputError, match=rf"x\[{where[0]}, {where[1]}\] is {value:g}"):
        Graph(x, RING)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_ends_of_edges(flow):
    pairs = torch.tensor([[0, 1], [1, 2], [2, 2], [3, 1]])
    ends = Graph(torch.ones(4, 1), pairs.T, flow=flow).ends(np.array([3, 0]))
    assert ends.tolist() == ([[3, 0], [1, 1]] if flow == "source_to_target" else [[1, 1], [3, 0]])
