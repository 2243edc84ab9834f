from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn import (
    GAT,
    ChebConv,
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    MessagePassing,
    SAGEConv,
    SGConv,
)

from graphfaith import InputError, ModelError, Target
from graphfaith.graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.model.layers import find_sender_degrees, message_passing_layers

FEATURES, HIDDEN = 3, 4


@dataclass
class Case:
    num_nodes: int
    edges: list[tuple[int, int]]
    weights: list[float] | None
    node: int
    layers: int
    seed: int

    @property
    def edge_index(self) -> Tensor:
        return torch.tensor(self.edges, dtype=torch.long).view(-1, 2).T.contiguous()

    @property
    def edge_weight(self) -> Tensor | None:
        return None if self.weights is None else torch.tensor(self.weights, dtype=torch.float64)

    @property
    def x(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(self.num_nodes, FEATURES, generator=generator, dtype=torch.float64)

    def distances(self) -> dict[int, int]:
        """Return the number of hops from each node to the explained one, along the messages."""
        hops, queue = {self.node: 0}, deque([self.node])
        while queue:
            sink = queue.popleft()
            for a, b in self.edges:
                if b == sink and a not in hops:
                    hops[a] = hops[sink] + 1
                    queue.append(a)
        return hops


@st.composite
def cases(draw, weighted=None):
    n = draw(st.integers(1, 8))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=18))
    edges, looped = [], set()
    for source, sink in pairs:
        if source != sink or source not in looped:
            edges.append((source, sink))
            looped |= {source} if source == sink else set()
    has_weights = draw(st.booleans()) if weighted is None else weighted
    weights = [draw(st.sampled_from([0.25, 0.5, 1.0, 1.75])) for _ in edges] if has_weights else None
    return Case(n, edges, weights, draw(st.integers(0, n - 1)), draw(st.integers(1, 3)), draw(st.integers(0, 999)))


class WeightedStack(torch.nn.Module):
    def __init__(self, layers: int, seed: int = 0, **options) -> None:
        super().__init__()
        torch.manual_seed(seed)
        sizes = [FEATURES, *[HIDDEN] * layers]
        self.convs = torch.nn.ModuleList(GCNConv(a, b, **options) for a, b in pairwise(sizes))
        for conv in self.convs:
            torch.nn.init.normal_(conv.bias, std=0.1)
        self.double()

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = torch.tanh(conv(x, edge_index, edge_weight))
        return x


class PlainStack(torch.nn.Module):
    def __init__(self, make, layers: int, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        sizes = [FEATURES, *[HIDDEN] * layers]
        self.convs = torch.nn.ModuleList(make(a, b) for a, b in pairwise(sizes))
        self.double()

    def forward(self, x, edge_index):
        for conv in self.convs:
            x = torch.tanh(conv(x, edge_index))
        return x


class Unknown(MessagePassing):
    def message(self, x_j):
        return x_j


def make_gin(a, b):
    return GINConv(torch.nn.Linear(a, b))


UNNORMALISED = {
    "SAGE": SAGEConv,
    "GIN": make_gin,
    "GAT": lambda a, b: GATConv(a, b, heads=2, concat=False),
    "GraphConv": GraphConv,
}


def dense_gcn(model: WeightedStack, x: Tensor, a: Tensor) -> Tensor:
    """Compute the same network by its formula; A[i, j] is the weight of j -> i, with self-loops."""
    degree = a.sum(dim=1)
    scale = torch.where(degree > 0, degree.clamp(min=1e-300).rsqrt(), torch.zeros_like(degree))
    for conv in model.convs:
        x = torch.tanh(scale[:, None] * a * scale @ x @ conv.lin.weight.T + conv.bias)
    return x


def adjacency(size: int, sources, sinks, weights) -> Tensor:
    a = torch.zeros(size, size, dtype=torch.float64)
    return a.index_put((torch.as_tensor(sinks), torch.as_tensor(sources)), weights, accumulate=True)


def whole_adjacency(case: Case) -> Tensor:
    weights = torch.ones(len(case.edges), dtype=torch.float64) if case.weights is None else case.edge_weight
    a = adjacency(case.num_nodes, *case.edge_index, weights)
    looped = {u for u, v in case.edges if u == v}
    for u in set(range(case.num_nodes)) - looped:
        a[u, u] = 1
    return a


def around(case: Case, degrees: bool = True, **options) -> tuple[ComputationGraph, tuple]:
    tensors = (case.x, case.edge_index, case.edge_weight)
    return ComputationGraph.around(Graph(*tensors), case.node, case.layers, degrees=degrees, **options), tensors


# Its fields have the documented values


@given(cases(), st.booleans())
def test_structure(case, degrees):
    part, tensors = around(case, degrees)
    x, _, given_weights = tensors
    distance = case.distances()
    reach = case.layers if degrees else case.layers - 1
    nodes, hop = part.nodes.tolist(), part.hop.tolist()

    assert nodes[0] == case.node
    assert part.seeds.tolist() == [0]
    assert part.e.tolist() == [1.0]
    assert len(set(nodes)) == len(nodes) == part.num_nodes
    assert [distance[u] for u in nodes] == hop
    assert list(zip(hop, nodes, strict=True)) == sorted(zip(hop, nodes, strict=True))
    visible = {u for u, k in distance.items() if k <= case.layers}
    assert set(nodes[: part.num_visible]) == visible
    beyond = degrees and any(k == case.layers + 1 for k in distance.values())
    assert part.num_nodes - part.num_visible == int(beyond)

    plain = part.num_edges - part.num_nodes
    assert part.num_plain == plain
    ids = part.edge_id.tolist()
    assert ids[:plain] == [i for i, (a, b) in enumerate(case.edges) if a != b and distance.get(b, 99) <= reach]
    loops = {a: i for i, (a, b) in enumerate(case.edges) if a == b}
    assert ids[plain:] == [loops.get(u, -1) for u in nodes]
    assert part.is_loop.tolist() == [False] * plain + [True] * len(nodes)

    for place, (source, sink) in enumerate(part.edge_index.T.tolist()):
        if place < plain:
            expected, i = case.edges[ids[place]][0], ids[place]
            assert nodes[sink] == case.edges[i][1]
            assert nodes[source] == expected if expected in visible else source == part.num_nodes - 1
        assert (hop[sink] < case.layers) == part.carries_message[place].item()
    assert part.edge_index[:, plain:].tolist() == [list(range(len(nodes)))] * 2

    felt = [True] * plain + [distance[u] <= reach for u in nodes]
    assert part.felt.tolist() == felt
    assert part.felt.dtype == torch.bool
    expected = [
        given_weights[i].item() if i >= 0 and given_weights is not None and read else 1.0
        for i, read in zip(ids, felt, strict=True)
    ]
    assert part.weight.tolist() == expected
    assert part.weight.dtype == torch.float64
    assert (adjacency(part.num_nodes, *part.edge_index, part.weight).sum(dim=1) > 0).all()  # so A^k 1 is never 0 either
    assert torch.equal(part.x, x[part.nodes])
    assert part.feature_range == float(x.max() - x.min())
    assert part.size == (case.num_nodes, len(case.edges))
    assert part.num_hops == case.layers


@given(cases(), st.booleans(), st.sampled_from([None, 1.0, 2.0]))
def test_implied_loops(case, degrees, loop_weight):
    part, _ = around(case, degrees, loop_weight=loop_weight)
    implied = part.edge_id < 0
    assert (implied <= part.is_loop).all()
    near = part.hop[part.edge_index[1]] <= (case.layers if degrees else case.layers - 1)
    present = ~implied if loop_weight is None else torch.ones_like(implied)
    assert near[~part.is_loop].all()
    assert part.felt.tolist() == (near & present).tolist()
    assert set(part.weight[implied & part.felt].tolist()) <= {loop_weight}
    assert (part.weight[~part.felt] == 1).all()


@pytest.mark.parametrize(
    ("degrees", "loop_weight", "felt", "weight"),
    [
        (True, 2.0, [True, True, False], [2.0, 0.25, 1.0]),
        (True, None, [False, True, False], [1.0, 0.25, 1.0]),
        (False, 2.0, [True, False], [2.0, 1.0]),
        (False, None, [False, False], [1.0, 1.0]),
    ],
)
def test_loops_that_are_read(degrees, loop_weight, felt, weight):
    """On the path 2 -> 1 -> 0 with explicit self-loops of 1 and 2, the self-loop of 2 is out of reach."""
    edges, weights = torch.tensor([[2, 1, 2, 1], [2, 1, 1, 0]]), torch.tensor([0.5, 0.25, 3.0, 4.0])
    x = torch.eye(3)
    part = ComputationGraph.around(Graph(x, edges, weights), 0, 1, degrees=degrees, loop_weight=loop_weight)
    plain = [2, 3] if degrees else [3]
    assert part.edge_id.tolist() == [*plain, -1, 1, 0][: len(plain) + len(felt)]
    assert part.felt.tolist() == [*[True] * len(plain), *felt]
    assert part.weight.tolist() == [*weights[plain].tolist(), *weight]


def test_messages_against_the_arrows():
    x, path = torch.eye(4), torch.tensor([[0, 1, 2], [1, 2, 3]])
    part = ComputationGraph.around(Graph(x, path, flow="target_to_source"), 0, 1, degrees=True)
    assert part.nodes.tolist() == [0, 1, 2]
    assert part.edge_index.tolist() == [[1, 2, 0, 1, 2], [0, 1, 0, 1, 2]]
    assert part.edge_id.tolist() == [0, 1, -1, -1, -1]
    assert part.felt.tolist() == [True, True, True, True, False]


@pytest.mark.parametrize("relabel", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 4, 0, 3, 1, 5], [4, 0, 1, 2, 3, 5]])
def test_one_node_stands_for_all_outermost_ones(relabel):
    star = torch.tensor(relabel)[torch.tensor([[1, 2, 3, 4, 5], [0, 1, 1, 1, 2]])]
    x = torch.eye(6)
    part = ComputationGraph.around(Graph(x, star), relabel[0], 1)
    assert part.nodes.tolist() == [*relabel[:2], min(relabel[2:5])]
    assert part.edge_index.tolist() == [[1, 2, 2, 2, 0, 1, 2], [0, 1, 1, 1, 0, 1, 2]]
    assert part.edge_id.tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert part.felt.tolist() == [True] * 6 + [False]


def test_isolated_node():
    x, edge_index = torch.eye(3), torch.tensor([[0], [1]])
    part = ComputationGraph.around(Graph(x, edge_index), 2, 3)
    assert part.nodes.tolist() == [2]
    assert part.edge_index.tolist() == [[0], [0]]
    assert part.edge_id.tolist() == [-1]
    assert part.felt.tolist() == [True]
    assert part.num_visible == part.num_nodes == part.num_edges == 1
    assert part.num_plain == 0


# The model has the same output on the computation graph


@given(cases())
def test_gcn_on_the_computation_graph(case):
    model = WeightedStack(case.layers, case.seed)
    x, edge_index, edge_weight = case.x, case.edge_index, case.edge_weight
    with torch.no_grad():
        expected = model(x, edge_index, edge_weight)[case.node]
        target = Target(model, x, edge_index, case.node, label=1, edge_weight=edge_weight)
        part = target.computation_graph
        a = adjacency(part.num_nodes, *part.edge_index, part.weight)
        by_formula = dense_gcn(model, part.x, a)[0]
        whole_by_formula = dense_gcn(model, x, whole_adjacency(case))[case.node]
    assert target.route == "weight"
    assert target.value == pytest.approx(expected[1].item(), abs=1e-12)
    torch.testing.assert_close(by_formula, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(whole_by_formula, expected, rtol=0, atol=1e-12)
    assert part.num_hops == case.layers


@given(cases(weighted=False), st.sampled_from(sorted(UNNORMALISED)))
def test_unnormalised_layers_on_the_computation_graph(case, name):
    model = PlainStack(UNNORMALISED[name], case.layers, case.seed)
    x, edge_index = case.x, case.edge_index
    with torch.no_grad():
        expected = model(x, edge_index)[case.node]
    target = Target(model, x, edge_index, case.node, label=2)
    part = target.computation_graph
    assert target.route == "removal"
    assert target.value == pytest.approx(expected[2].item(), abs=1e-12)
    assert part.num_nodes == part.num_visible
    with torch.no_grad():
        felt = part.edge_index[:, (part.edge_id >= 0) & part.felt]
        torch.testing.assert_close(model(part.x, felt)[0], expected, rtol=0, atol=1e-12)


@given(cases())
def test_gcn_without_loops(case):
    model = WeightedStack(case.layers, case.seed, add_self_loops=False)
    x, edge_index, edge_weight = case.x, case.edge_index, case.edge_weight
    target = Target(model, x, edge_index, case.node, label=0, edge_weight=edge_weight)
    with torch.no_grad():
        assert target.value == pytest.approx(model(x, edge_index, edge_weight)[case.node, 0].item(), abs=1e-12)
    part = target.computation_graph
    near = part.hop[part.edge_index[1]] <= case.layers
    assert part.felt.tolist() == ((part.edge_id >= 0) & near).tolist()
    assert (part.weight[~part.felt] == 1).all()


# The computation graph is as small as possible


@given(cases(weighted=True), st.integers(0, 99))
def test_nothing_outside_matters_to_a_gcn(case, seed):
    model = WeightedStack(case.layers, case.seed)
    part, (x, edge_index, edge_weight) = around(case)
    generator = torch.Generator().manual_seed(seed)
    outside = torch.ones(len(case.edges), dtype=torch.bool)
    outside[part.edge_id[(part.edge_id >= 0) & part.felt]] = False
    hidden = torch.ones(case.num_nodes, dtype=torch.bool)
    hidden[part.nodes[: part.num_visible]] = False
    with torch.no_grad():
        expected = model(x, edge_index, edge_weight)[case.node]
        other_weight = torch.where(outside, torch.rand(len(outside), generator=generator).double(), edge_weight)
        other_x = torch.where(hidden[:, None], torch.randn(x.shape, generator=generator).double(), x)
        torch.testing.assert_close(model(other_x, edge_index, other_weight)[case.node], expected, rtol=0, atol=1e-13)


@given(cases(), st.sampled_from(["GCN", "GCN without loops", *sorted(UNNORMALISED)]), st.integers(0, 99))
def test_entries_that_are_not_felt_do_not_matter(case, name, seed):
    if name in UNNORMALISED:
        model, edge_weight = PlainStack(UNNORMALISED[name], case.layers, case.seed), None
    else:
        model, edge_weight = WeightedStack(case.layers, case.seed, add_self_loops=name == "GCN"), case.edge_weight
    target = Target(model, case.x, case.edge_index, case.node, label=1, edge_weight=edge_weight)
    part, generator = target.computation_graph, torch.Generator().manual_seed(seed)
    noise = 3 * torch.rand(part.num_edges, generator=generator, dtype=torch.float64)
    other_x = part.x.clone()
    other_x[part.num_visible :] = torch.randn(other_x[part.num_visible :].shape, generator=generator).double()
    for weight in (noise, torch.zeros_like(noise)):
        value = target(other_x, torch.where(part.felt, part.weight, weight)).item()
        assert value == pytest.approx(target.value, abs=1e-13)
    dx, da = target.gradient(weight=torch.where(part.felt, part.weight, noise))
    assert (dx[part.num_visible :] == 0).all()
    assert (da[~part.felt] == 0).all()


@given(cases(weighted=True))
def test_everything_inside_matters_to_a_gcn(case):
    assume(any(b == case.node and a != b for a, b in case.edges))  # Otherwise the weight of its self-loop cancels.
    model = WeightedStack(case.layers, case.seed)
    x, a = case.x.requires_grad_(), whole_adjacency(case).requires_grad_()
    out = dense_gcn(model, x, a)[case.node] @ torch.tensor([0.3, -0.7, 1.1, 0.9], dtype=torch.float64)
    dx, da = torch.autograd.grad(out, (x, a))
    part, _ = around(case)

    assert set(dx.abs().sum(dim=1).nonzero().view(-1).tolist()) == set(part.nodes[: part.num_visible].tolist())
    entries = {(v, u) for u, v in case.edges} | {(u, u) for u in range(case.num_nodes)}
    felt = {(i, j) for i, j in da.nonzero().tolist() if (i, j) in entries}
    inside = {tuple(reversed(case.edges[i])) for i in part.edge_id[: part.num_plain].tolist()}
    inside |= {(u, u) for u in part.nodes[part.felt[part.is_loop]].tolist()}
    assert inside == felt


@given(cases(weighted=False), st.sampled_from(sorted(UNNORMALISED)), st.integers(0, 99))
def test_nothing_outside_matters_without_degrees(case, name, seed):
    model = PlainStack(UNNORMALISED[name], case.layers, case.seed)
    part, (x, edge_index, _) = around(case, degrees=False)
    edges = part.edge_id[(part.edge_id >= 0) & part.felt].sort().values
    hidden = torch.ones(case.num_nodes, dtype=torch.bool)
    hidden[part.nodes[: part.num_visible]] = False
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).double()
    with torch.no_grad():
        expected = model(x, edge_index)[case.node]
        output = model(torch.where(hidden[:, None], noise, x), edge_index[:, edges])[case.node]
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-13)


@given(cases(weighted=False))
def test_everything_inside_matters_to_gin(case):
    model = PlainStack(make_gin, case.layers, case.seed)
    part, (x, edge_index, _) = around(case, degrees=False)
    x.requires_grad_()
    out = model(x, edge_index)[case.node]
    (dx,) = torch.autograd.grad(out.sum(), x)
    assert set(dx.abs().sum(dim=1).nonzero().view(-1).tolist()) == set(part.nodes.tolist())
    with torch.no_grad():
        felt = set(part.edge_id[(part.edge_id >= 0) & part.felt].tolist())
        for i in range(len(case.edges)):
            rest = torch.arange(len(case.edges)) != i
            output = model(x, edge_index[:, rest])[case.node]
            assert torch.allclose(output, out, rtol=0, atol=1e-12) == (i not in felt)


# Layers that read the degree of the sender


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (GCNConv(2, 2), "in"),
        (GCNConv(2, 2, normalize=False), "none"),
        (SGConv(2, 2), "in"),
        (SAGEConv(2, 2), "none"),
        (make_gin(2, 2), "none"),
        (GATConv(2, 2), "none"),
        (ChebConv(2, 2, 3), "out"),
        (Unknown(), "in"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else str(value),
)
def test_degrees_read(layer, expected):
    assert find_sender_degrees(torch.nn.Sequential(torch.nn.Linear(2, 2), layer)) == expected


def test_one_normalising_layer_is_enough():
    assert find_sender_degrees(torch.nn.ModuleList([SAGEConv(2, 2), GCNConv(2, 2)])) == "in"


def test_layers_are_found_in_order():
    model = GAT(2, 4, num_layers=3, out_channels=2)
    assert message_passing_layers(model) == list(model.convs)


# Invalid arguments


@pytest.mark.parametrize("node", [-1, 4, 100, 1.5])
def test_a_node_out_of_range_is_named(node):
    x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])
    with pytest.raises(InputError, match=rf"node {node} .*0 to 3"):
        ComputationGraph.around(Graph(x, path), node, 1)
    with pytest.raises(InputError, match=rf"node {node} .*0 to 3|index must be .*{node}"):
        Target(WeightedStack(1), x[:, :3].double(), path, node)


@pytest.mark.parametrize("num_hops", [0, -1, 1.5])
def test_num_hops_is_checked(num_hops):
    x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])
    with pytest.raises(InputError, match=rf"num_hops .*{num_hops}"):
        ComputationGraph.around(Graph(x, path), 0, num_hops)
    with pytest.raises(InputError, match=rf"num_hops .*{num_hops}"):
        Target(WeightedStack(1), x[:, :3].double(), path, 0, num_hops=num_hops)


def test_a_node_as_a_number_of_any_kind():
    x, path = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]])
    graph = Graph(x, path)
    for node in (1, np.int64(1), np.int32(1), torch.tensor(1)):
        assert ComputationGraph.around(graph, node, 1).nodes.tolist() == [1, 2, 3]


def test_too_few_hops_are_noticed():
    x, path = torch.linspace(-1, 1, 18).double().view(6, 3), torch.stack([torch.arange(1, 6), torch.arange(5)])
    Target(WeightedStack(3), x, path, 0)
    with pytest.raises(ModelError, match="num_hops"):
        Target(WeightedStack(3), x, path, 0, num_hops=2)


# The search from several nodes, compared with brute force


@given(cases(), st.data(), st.booleans())
def test_walks_from_several_nodes_that_read_degrees_of_any_kind(case, data, out_degrees):
    seeds = data.draw(st.lists(st.integers(0, case.num_nodes - 1), min_size=1, max_size=4))
    tensors = (case.x, case.edge_index, case.edge_weight)
    part = ComputationGraph.around(
        Graph(*tensors), seeds, case.layers, degrees=not out_degrees, out_degrees=out_degrees
    )
    distance = dict.fromkeys(seeds, 0)
    for k in range(case.layers):
        for a, b in case.edges:
            if distance.get(b) == k:
                distance.setdefault(a, k + 1)
    edges = [i for i, (a, b) in enumerate(case.edges) if a != b and (b in distance or (out_degrees and a in distance))]
    assert part.edge_id[: part.num_plain].tolist() == edges
    visible = sorted(distance, key=lambda u: (distance[u], u))
    outside = {u for i in edges for u in case.edges[i]} - set(visible)
    assert part.nodes.tolist() == [*visible, *sorted(outside)[:1]]
    assert part.hop.tolist() == [*(distance[u] for u in visible), *[case.layers + 1] * bool(outside)]
    assert part.seeds.tolist() == list(range(len(set(seeds))))
    assert part.e.tolist() == [seeds.count(u) for u in sorted(set(seeds))]
    place = {u: i for i, u in enumerate(visible)}
    expected = [[place.get(case.edges[i][end], len(visible)) for i in edges] for end in (0, 1)]
    assert part.edge_index[:, : part.num_plain].tolist() == expected


def test_features_that_are_not_contiguous():
    x, path = torch.rand(3, 4).T, torch.tensor([[3, 2, 1], [2, 1, 0]])
    part = ComputationGraph.around(Graph(x, path), 0, 2)
    assert torch.equal(part.x, x[part.nodes])
    assert part.x.stride() == x[part.nodes].stride()  # Equal strides give equally rounded products.


def test_the_users_seeds_are_left_alone():
    x, path, seeds = torch.eye(4), torch.tensor([[3, 2, 1], [2, 1, 0]]), np.array([2])
    graph = Graph(x, path)
    for part in (ComputationGraph.around(graph, seeds, 1), ComputationGraph.whole(graph, seeds, 1)):
        part.nodes.fill_(0)
        part.seeds.fill_(0)
    assert seeds.tolist() == [2]
