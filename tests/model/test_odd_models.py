"""Models as people have them: wrapped, remembering, looking at the whole graph, with a row for every node."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.model.target import Target
from reference import TwoLayerGCN

NODES, FEATURES, CLASSES = 30, 4, 3
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


def ring():
    """A connected graph whose nodes are up to 15 hops apart."""
    source = torch.arange(NODES)
    edges = torch.cat([torch.stack([source, (source + 1) % NODES]), torch.stack([(source + 1) % NODES, source])], dim=1)
    return torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0)).double(), edges


def seeded(make):
    torch.manual_seed(0)
    return make().double().eval()


def explainer_of(model, algorithm=None, **config):
    return Explainer(model, algorithm or gf.Saliency(), "model", {**CONFIG, **config}, "attributes", "object")


class LooksAtAll(nn.Module):
    """What a virtual node, or a norm over all nodes, does between two layers."""

    calls = 0

    def __init__(self, norm=None):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES)
        self.norm = norm

    def forward(self, x, edge_index, edge_weight=None):
        LooksAtAll.calls += 1  # not the instance's, which would be another model after a call by the user
        x = self.first(x, edge_index, edge_weight)
        x = x + x.mean(dim=0) if self.norm is None else self.norm(x)
        return self.second(x.tanh(), edge_index, edge_weight)


@pytest.mark.parametrize(
    "norm",
    [None, pyg.GraphNorm(6), pyg.PairNorm(), pyg.InstanceNorm(6), pyg.LayerNorm(6)],
    ids=lambda n: type(n).__name__,
)
def test_a_model_that_looks_at_a_connected_graph_as_a_whole(norm):
    (x, edges), model = ring(), seeded(lambda: LooksAtAll(norm))
    found = list(gf.explain_nodes(explainer_of(model), x, edges, [3, 20], progress=False))
    for node, explanation in zip((3, 20), found, strict=True):
        tracked = x.clone().requires_grad_()
        out = model(tracked, edges)[node]
        (expected,) = torch.autograd.grad(out.max(), tracked)
        torch.testing.assert_close(explanation.node_mask, expected, rtol=1e-7, atol=1e-9)
        assert (explanation.node_mask != 0).any(dim=1).all()
    before = model.calls
    Target(model, x, edges, 7)
    assert model.calls - before < 5  # that it looks at all is known by now


def test_a_reach_that_covers_a_small_graph_is_not_taken_for_a_look_at_all():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = pyg.GCNConv(FEATURES, FEATURES)

        def forward(self, x, edge_index, edge_weight=None):
            for _ in range(3):
                x = self.layer(x, edge_index, edge_weight).tanh()
            return x

    x, path = ring()[0][:5], torch.tensor([[0, 1, 2, 3, 1, 2, 3, 4], [1, 2, 3, 4, 0, 1, 2, 3]])
    model = seeded(Again)
    for node in (2, 0):  # three hops cover all nodes from the first, and not from the second
        with pytest.raises(gf.ModelError, match=r"Pass num_hops=[23]$"):
            Target(model, x, path, node)


class RowForEveryNode(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Parameter(torch.randn(NODES, FEATURES)), pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        return self.layer(x * self.table, edge_index, edge_weight)


def test_a_parameter_for_every_node():
    (x, edges), model = ring(), seeded(RowForEveryNode)
    target = Target(model, x, edges, 4, label=1)
    assert target.value == pytest.approx(model(x, edges)[4, 1].item(), abs=1e-12)
    assert target.computation_graph.num_nodes == NODES


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


@pytest.mark.parametrize("wrap", [Wrapped, nn.DataParallel, torch.compile], ids=["kwargs", "parallel", "compiled"])
def test_a_wrapped_model_takes_weights_as_it_did(wrap):
    (x, edges), model = ring(), seeded(lambda: TwoLayerGCN(FEATURES))
    weight = torch.linspace(0.5, 1.5, edges.size(1)).double()
    plain = Target(model, x, edges, 4, label=1, edge_weight=weight)
    wrapped = wrap(model) if wrap is not torch.compile else torch.compile(model, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Target(wrapped, x, edges, 4, label=1, edge_weight=weight)
        assert found.route == "weight"
        for a, b in zip(found.gradient(), plain.gradient(), strict=True):
            torch.testing.assert_close(a, b)


def test_a_wrapped_model_without_weights_loses_edges():
    (x, edges), model = ring(), seeded(lambda: Wrapped(pyg.GAT(FEATURES, 5, 2, CLASSES)))
    assert Target(model, x, edges, 4).route == "removal"


class Remembers(nn.Module):
    """Keeps what it computed, as models do that someone looks into."""

    def __init__(self):
        super().__init__()
        self.layer, self.hidden = pyg.GATConv(FEATURES, CLASSES), None
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x, edge_index):
        self.hidden = self.layer(x, edge_index)
        self.last = self.hidden.mean().view(1)
        self.extra = self.hidden * 2
        return self.hidden


def test_a_model_that_remembers_is_left_as_it_was():
    (x, edges), model = ring(), seeded(Remembers)
    algorithm = gf.KEC("U(A,0.5)", num_samples=10)
    explainer = Explainer(model, algorithm, "phenomenon", CONFIG, "attributes", "object")
    explainer(x, edges, index=3, target=torch.zeros(NODES, dtype=torch.long))
    assert model.hidden is None
    assert not hasattr(model, "extra")
    assert model.last.tolist() == [0.0]
    copy.deepcopy(model)


class WithoutWeights(nn.Module):
    """Weights of 1 are not the same to it as none."""

    def __init__(self):
        super().__init__()
        self.layer = pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        out = self.layer(x, edge_index, edge_weight)
        return out if edge_weight is None else 2 * out


def test_none_is_not_ones():
    (x, edges), model = ring(), seeded(WithoutWeights)
    target = Target(model, x, edges, 4, label=0)
    assert target.route == "removal"
    assert target.value == pytest.approx(model(x, edges)[4, 0].item(), abs=1e-12)


class DropsEdges(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = pyg.SAGEConv(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.layer(x, edge_index[:, edge_index[0] != 2])


class Relational(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = pyg.RGCNConv(FEATURES, CLASSES, 2)

    def forward(self, x, edge_index, edge_type):
        return self.layer(x, edge_index, edge_type)


def test_messages_that_are_not_one_for_each_edge():
    x, edges = ring()
    kinds = torch.arange(edges.size(1)) % 2
    for make, more in ((DropsEdges, {}), (Relational, {"edge_type": kinds})):
        target = Target(seeded(make), x, edges, 3, **more)
        part = target.computation_graph
        if make is DropsEdges:  # RGCNConv has the messages of one relation after those of another.
            with pytest.raises(gf.UnsupportedError, match=r"one message for each edge .*let forward take edge_weight"):
                target.evaluate(weight=gf.UniformEdges(0.5).sample(part, 3).weight)
            with pytest.raises(gf.UnsupportedError, match="one message for each edge"):
                target.gradient()
        # Edges can be removed all the same.
        sample = gf.BernoulliEdges(0.5).sample(part, 6)
        for value, eps in zip(target.evaluate(weight=sample.weight), sample.edges, strict=True):
            keep = torch.ones(edges.size(1), dtype=torch.bool)
            keep[part.edge_id[(eps > 0) & (part.edge_id >= 0)]] = False
            out = target.model(x, edges[:, keep], **{name: given[keep] for name, given in more.items()})
            assert float(value) == pytest.approx(out[3, target.label].item(), abs=1e-12)


class AttributeAsWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 5), pyg.GCNConv(5, CLASSES)

    def forward(self, x, edge_index, edge_attr=None):
        return self.second(self.first(x, edge_index, edge_attr).tanh(), edge_index, edge_attr)


def test_an_attribute_that_is_a_weight_keeps_the_self_loops():
    (x, edges), model = ring(), seeded(AttributeAsWeight)
    weight = torch.linspace(0.5, 1.5, edges.size(1)).double()
    target = Target(model, x, edges, 4, label=0, edge_attr=weight)
    assert target.adds_loops
    assert target.value == pytest.approx(model(x, edges, weight)[4, 0].item(), abs=1e-12)
    assert target.gradient()[1][target.computation_graph.is_loop].abs().max() > 0


class OwnNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None, mode=1.0, level=1.0, num_hops=1.0):
        return self.layer(x, edge_index, edge_weight) * mode * level * num_hops


def test_arguments_of_the_model_with_names_of_ours():
    (x, edges), model = ring(), seeded(OwnNames)
    found = explainer_of(model)(x, edges, index=3, mode=2.0, level=3.0)
    plain = explainer_of(model)(x, edges, index=3)
    torch.testing.assert_close(found.node_mask, 6 * plain.node_mask)
    with pytest.raises(gf.UnsupportedError, match="'num_hops' has the name of a field"):
        explainer_of(model)(x, edges, index=3, num_hops=5)
    assert Target(model, x, edges, 3, 0, inputs={"num_hops": 5.0}).value == pytest.approx(
        5 * model(x, edges)[3, 0].item()
    )


def test_the_largest_of_neighbours_hides_the_others_without_a_warning():
    source = torch.arange(1, 51)
    edges = torch.cat([torch.stack([source, torch.zeros_like(source)]), torch.tensor([[51], [1]])], dim=1)
    for seed in range(10):
        torch.manual_seed(seed)
        Target(pyg.GraphSAGE(FEATURES, 5, 2, CLASSES, aggr="max"), torch.randn(52, FEATURES), edges, 0)


@pytest.mark.parametrize(
    "kind", [gf.KEC("U(A,0.5)", num_samples=20), gf.GNNExplainer(epochs=2), gf.PGExplainer(epochs=1)]
)
def test_an_explanation_can_be_pickled(kind):
    (x, edges), model = ring(), seeded(lambda: TwoLayerGCN(FEATURES))
    explainer = explainer_of(model, kind)
    explanation = explainer(x, edges, index=3)
    again = pickle.loads(pickle.dumps(explanation))
    assert gf.general_unfaithfulness(explainer, again, "U(A,0.5)", num_samples=20) == gf.general_unfaithfulness(
        explainer, explanation, "U(A,0.5)", num_samples=20
    )


def test_scores_of_self_loops_that_were_edited_count():
    (x, edges), model = ring(), seeded(lambda: TwoLayerGCN(FEATURES))
    explainer = explainer_of(model)
    explanation = explainer(x, edges, index=3)
    before = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=20)
    explanation.self_loop_score = explanation.self_loop_score * 100
    assert gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=20).value > 2 * before.value


def test_targets_as_they_come():
    (x, edges), model = ring(), seeded(lambda: pyg.GCN(FEATURES, 5, 2, 1))
    settings = {"mode": "binary_classification"}
    expected = Target(model, x, edges, 3, 1, **settings).value
    for label in (torch.ones(NODES).bool(), torch.ones(NODES), [1] * NODES, True, 1.0):
        assert Target(model, x, edges, 3, label, **settings).value == expected
    two = seeded(lambda: pyg.GCN(FEATURES, 5, 2, 2))
    with pytest.raises(gf.UnsupportedError, match="one number a row"):
        Target(two, x, edges, 3, torch.ones(2 * NODES), **settings)


def test_a_level_that_does_not_fit_the_output():
    (x, edges), model = ring(), seeded(lambda: TwoLayerGCN(FEATURES))
    with pytest.raises(gf.UnsupportedError, match=f"edge_label_index=.*got {NODES} rows"):
        Target(model, x, edges, 1, level="edge")


def test_without_a_batch_a_row_at_graph_level_is_of_the_whole_graph():
    (x, edges), model = ring(), seeded(lambda: TwoLayerGCN(FEATURES))
    target = Target(model, x, edges, 1, 0, level="graph")
    assert target.computation_graph.num_nodes == NODES
    assert target.value == pytest.approx(float(model(x, edges)[1, 0].detach()), rel=1e-5)


def test_a_wide_model_without_biases_is_refused():
    model = TwoLayerGCN(FEATURES, hidden=512)
    for layer in model.convs:
        layer.bias = None
    source = torch.arange(1, 5001)
    edges = torch.stack([source, torch.zeros_like(source)])
    with pytest.raises(gf.MemoryLimitError, match="needs more than max_memory"):
        Target(model, torch.randn(5001, FEATURES), edges, 0, max_memory="30 MB")


def test_one_model_in_several_threads():
    (x, edges), model = ring(), seeded(lambda: pyg.GAT(FEATURES, 5, 2, CLASSES))

    def explain(node):
        return explainer_of(model)(x, edges, index=node).edge_mask

    expected = [explain(node) for node in range(8)]
    algorithm = gf.Saliency()
    explainer_of(model, algorithm)
    labels = model(x, edges).argmax(dim=1)

    def directly(node):
        return algorithm(model, x, edges, target=labels, index=node).edge_mask

    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for found, right in zip(pool.map(directly, range(8)), expected, strict=True):
                assert torch.equal(found, right)
