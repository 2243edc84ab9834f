"""F on heterogeneous graphs: the model is given its parts by type, and everything else sees one graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCN, HANConv, HGTConv

import graphfaith as gf
from graphfaith.graph.joint import JointGraph
from graphfaith.model.joint import join
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood
from typed_toys import MAKERS, SIZES, TYPES, Weighted, graph, make

NODE = 5


def target_of(name, node=NODE, dtype=torch.float64, **options):
    model, (x, edges) = make(name, dtype), graph(dtype)
    joint = join(model, x, edges, {}, "node")
    target = Target(joint.model, joint.graph, None, joint.index(node), inputs=joint.arguments, **options)
    return target, model, x, edges


def without(target, x, edges, weight):
    """The graph by type, without the edges whose entry is 0."""
    part, kinds, kept = target.computation_graph, target.graph.kinds, {}
    gone = set(part.edge_id[(weight == 0) & (part.edge_id >= 0)].tolist())
    for place, kind in enumerate(kinds.edge_types):
        ids = range(kinds.edge_start[place], kinds.edge_start[place + 1])
        kept[kind] = edges[kind][:, [i not in gone for i in ids]]
    return x, kept


@pytest.mark.parametrize("name", MAKERS)
def test_the_part_gives_what_the_whole_graph_gives(name):
    target, model, x, edges = target_of(name)
    with torch.no_grad():
        assert abs(target.value - float(model(x, edges)[NODE].max())) < 1e-9


@pytest.mark.parametrize("name", MAKERS)
def test_removed_edges_are_really_gone(name):
    target, model, x, edges = target_of(name)
    samples = as_neighborhood("B(A,0.5)").sample(target.computation_graph, 6)
    changes, label = target.changes(samples), target.label
    with torch.no_grad():
        own = model(x, edges)[NODE, label]
        for change, weight in zip(changes, samples.weight, strict=True):
            assert float(own - model(*without(target, x, edges, weight))[NODE, label]) == pytest.approx(
                float(change), abs=1e-9
            )
    assert changes.abs().max() > 1e-3


@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)", "R(A,3)", "U(X,0.2r)", "U(X,0.5r)xU(A,0.5)"])
@pytest.mark.parametrize("name", MAKERS)
def test_many_graphs_at_once_are_each_by_itself(name, near):
    target, *_ = target_of(name)
    samples = as_neighborhood(near).sample(target.computation_graph, 5)
    x, weight = samples.x, samples.weight
    alone = [
        target.value - float(target.evaluate(None if x is None else x[i], None if weight is None else weight[i]))
        for i in range(len(samples))
    ]
    assert target.changes(samples).tolist() == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize("name", ["sage", "gat", "weighted", "hgt", "han"])
def test_factors_multiply_the_messages_of_their_own_edges(name):
    target, *_ = target_of(name)
    _, slope = target.gradient()
    part, step = target.computation_graph, 1e-6
    for entry in part.felt.nonzero().view(-1)[:6].tolist():
        weight = part.weight.clone()
        weight[entry] -= step
        assert (target.value - float(target.evaluate(weight=weight))) / step == pytest.approx(
            float(slope[entry]), abs=1e-5
        )


@pytest.mark.parametrize("conv", [HGTConv, HANConv])
def test_a_factor_is_that_of_its_own_edge(conv):
    """Where the source has no features, and no layer has a bias, a message is 0 whatever its factor is."""

    class One(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = {name: width for name, (_, width) in SIZES.items()}
            self.conv = conv(widths, 4, (list(SIZES), list(TYPES)), heads=2)

        def forward(self, x_dict, edge_index_dict):
            return self.conv(x_dict, edge_index_dict)["paper"]

    torch.manual_seed(0)
    model, (x, edges) = One().eval().double(), graph(torch.float64)
    for name, parameter in model.named_parameters():
        torch.nn.init.zeros_(parameter) if "bias" in name else torch.nn.init.normal_(parameter)
    for rows in x.values():
        rows[::2] = 0
    joint = join(model, x, edges, {}, "node")
    index = joint.index(None)
    target = Target(joint.model, joint.graph, None, index, inputs=joint.arguments, mode="regression")
    part, (_, slope) = target.computation_graph, target.gradient()
    empty = ~part.x[part.edge_index[0]].any(dim=1)
    assert not slope[empty].any()
    assert slope[~empty & part.felt & (part.node_kind[part.edge_index[1]] == 0)].any()


def test_weights_of_every_type_are_a():
    target, model, x, edges = target_of("weighted")
    assert target.route == "weight"
    weight = torch.rand(target.computation_graph.num_edges, dtype=torch.float64)
    given = {kind: torch.ones(ends.size(1), dtype=torch.float64) for kind, ends in edges.items()}
    kinds, part = target.graph.kinds, target.computation_graph
    for entry in ((part.edge_id >= 0) & part.felt).nonzero().view(-1).tolist():
        kind = int(part.edge_kind[entry])
        given[TYPES[kind]][int(part.edge_id[entry]) - kinds.edge_start[kind]] = weight[entry]
    with torch.no_grad():
        assert float(target.evaluate(weight=weight)) == pytest.approx(
            float(model(x, edges, given)[NODE, target.label]), abs=1e-9
        )


def test_weights_that_only_some_types_read_are_not_a():
    torch.manual_seed(0)
    model, (x, edges) = Weighted(reads=TYPES[:2]).eval(), graph()
    joint = join(model, x, edges, {}, "node")
    assert Target(joint.model, joint.graph, None, joint.index(0), inputs=joint.arguments).route == "removal"


def test_features_move_in_the_range_of_their_type_and_nowhere_else():
    x, edges = graph()
    x["word"] = 100 * x["word"]
    part = join(make("sage"), x, edges, {}, "node")
    target = Target(part.model, part.graph, None, part.index(NODE), inputs=part.arguments)
    graph_of, kinds = target.computation_graph, part.kinds
    eps = as_neighborhood("U(X,0.2r)").sample(graph_of, 400).features
    for kind, name in enumerate(kinds.node_types):
        rows = (graph_of.node_kind == kind) & (torch.arange(graph_of.num_nodes) < graph_of.num_visible)
        most = 0.2 * float(x[name].max() - x[name].min())
        own = eps[:, rows][:, :, kinds.columns(kind)]
        assert 0.9 * most < float(own.abs().max()) <= most * (1 + 1e-6)
        others = torch.ones(eps.size(2), dtype=torch.bool)
        others[kinds.columns(kind)] = False
        assert not eps[:, rows][:, :, others].any()


def test_nodes_beyond_reach_have_one_place_for_each_type():
    target, *_ = target_of("gcn and sage")
    part = target.computation_graph
    beyond = part.node_kind[part.num_visible :]
    assert len(beyond) == len(beyond.unique())
    for entry in range(part.num_plain):
        source, sink = target.graph.kinds.ends(int(part.edge_kind[entry]))
        assert part.node_kind[part.edge_index[:, entry]].tolist() == [source, sink]


def test_rows_of_two_types_with_as_many_nodes_are_told_apart():
    class Both(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.conv, self.name = make("sage").convs[0], name

        def forward(self, x_dict, edge_index_dict):
            return self.conv(x_dict, edge_index_dict)[self.name]

    x, edges = graph()
    x["author"] = torch.randn(len(x["word"]), SIZES["author"][1])
    for name in ("word", "author"):
        assert join(Both(name), x, edges, {}, "node").model.node_type == name


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda x, _: x.update(word=x["word"].long()), "word"),
        (lambda x, _: x.pop("word"), "word"),
        (lambda x, _: x.update(word=x["word"].double()), "one precision"),
        (lambda x, _: x["word"].fill_(float("nan")), "word"),
        (lambda _, edges: edges[TYPES[1]].fill_(99), "99"),
        (lambda _, edges: edges.update({"in": edges[TYPES[1]]}), "source type"),
        (lambda _, edges: edges.update({TYPES[0]: torch.tensor([[0, 0], [0, 0]])}), "self-loops"),
    ],
)
def test_faults_are_named(change, match):
    x, edges = graph()
    change(x, edges)
    with pytest.raises(gf.GraphfaithError, match=match):
        JointGraph(x, edges)


def test_links_are_refused_with_the_way_out():
    with pytest.raises(gf.UnsupportedError, match="to_homogeneous"):
        join(make("sage"), *graph(), {}, "edge")


def test_one_type_is_the_homogeneous_graph():
    torch.manual_seed(0)
    model = GCN(4, 5, 2, out_channels=3).eval()

    class Typed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x_dict, edge_index_dict):
            return self.inner(x_dict["paper"], edge_index_dict[TYPES[0]])

    x, edges = graph()
    x, edges = {"paper": x["paper"]}, {TYPES[0]: edges[TYPES[0]]}
    joint = JointGraph(x, edges)
    assert torch.equal(joint.x, x["paper"])
    assert torch.equal(joint.edge_index, edges[TYPES[0]])
    assert np.array_equal(
        joint.find_part(np.array([3]), 2, 2).nodes,
        gf.Target(model, x["paper"], edges[TYPES[0]], 3).graph.find_part(np.array([3]), 2, 2).nodes,
    )
