"""A proof that is left for later, and what is remembered of a model: neither changes an answer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.model.target import Target
from reference import TwoLayerGCN

NODES, FEATURES, CLASSES, FLAG = 30, 4, 3, 7.0
ODD = 20  # the node that has the flag
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
LABELS = torch.ones(NODES, dtype=torch.long)


def ring(flagged=True):
    at = torch.arange(NODES)
    edges = torch.cat([torch.stack([at, (at + 1) % NODES]), torch.stack([(at + 1) % NODES, at])], dim=1)
    x = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0)).double()
    if flagged:
        x[ODD, 0] = FLAG
    return x, edges


def seeded(make, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double().eval()


def explain(model, x, edges, node, algorithm=None):
    explainer = Explainer(
        model, algorithm or gf.KEC("U(A,0.5)", num_samples=30), "phenomenon", CONFIG, "attributes", "object"
    )
    return explainer(x, edges, target=LABELS, index=node)


def assert_equal(found, right):
    for name in ("node_mask", "edge_mask", "self_loop_score", "target", "index"):
        assert torch.equal(found[name], right[name]), name
    assert found.get("in_sample_error") == right.get("in_sample_error")
    assert found.scores_digest == right.scores_digest


class LooksAtAllOnce(nn.Module):
    """At nodes with a flag the output of some classes depends on all features there are."""

    def __init__(self, classes=(0, 1, 2)):
        super().__init__()
        self.inner = TwoLayerGCN(FEATURES)
        self.classes = torch.zeros(CLASSES).double().index_fill(0, torch.tensor(classes), 1.0)

    def forward(self, x, edge_index, edge_weight=None):
        flagged = (x[..., :1] == FLAG).to(x.dtype)
        everything = x.mean(dim=(-2, -1), keepdim=True)
        return self.inner(x, edge_index, edge_weight) + flagged * everything * self.classes


class FurtherOnce(nn.Module):
    """At nodes with a flag messages go three hops, and two elsewhere."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, FEATURES), pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        flagged = (x[..., :1] == FLAG).to(x.dtype)
        once = self.first(x, edge_index, edge_weight)
        far = self.second(self.first(once, edge_index, edge_weight), edge_index, edge_weight)
        return self.second(once, edge_index, edge_weight) + flagged * far


def test_a_look_at_the_whole_graph_is_found_at_whichever_node_it_is():
    (x, edges), model = ring(), seeded(LooksAtAllOnce)
    right = explain(model, x, edges, ODD)
    assert right.difference_model.graph.num_nodes == NODES
    other = seeded(LooksAtAllOnce)
    assert explain(other, x.clone(), edges, 3).difference_model.graph.num_nodes < NODES
    x = x.clone()
    other = seeded(LooksAtAllOnce)
    explain(other, x, edges, 3)
    assert_equal(explain(other, x, edges, ODD), right)


def test_anchored_kec_too_finds_a_look_at_the_whole_graph():
    def algorithm():
        return gf.AnchoredKEC("U(A,0.5)", num_samples=60, reading="slope")

    (x, edges), model = ring(), seeded(LooksAtAllOnce)
    right = explain(model, x, edges, ODD, algorithm())
    x, other = x.clone(), seeded(LooksAtAllOnce)
    assert explain(other, x, edges, 3, algorithm()).difference_model.graph.num_nodes < NODES
    assert_equal(explain(other, x, edges, ODD, algorithm()), right)


@pytest.mark.parametrize(
    ("algorithm", "count"),
    [(gf.KEC("U(A,0.5)", num_samples=30), 1), (gf.AnchoredKEC("U(A,0.5)", num_samples=60, reading="slope"), 1)],
    ids=["KEC", "AnchoredKEC"],
)
def test_the_part_is_compared_where_f_is_evaluated(algorithm, count):
    (x, edges), model = ring(flagged=False), seeded(lambda: TwoLayerGCN(FEATURES))
    explain(model, x, edges, 3, algorithm)
    called, forward = [], TwoLayerGCN.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TwoLayerGCN, "forward", lambda *given, **named: called.append(1) or forward(*given, **named))
        explain(model, x, edges, 3, algorithm)  # The class has changed, and with it the model.
        called.clear()
        explain(model, x, edges, 9, algorithm)
    assert len(called) == count


@pytest.mark.parametrize(
    "algorithm",
    [
        gf.KEC("U(A,0.5)", num_samples=30),
        gf.AnchoredKEC("U(A,0.5)", num_samples=60, reading="slope"),
        gf.Linear("B(A,0.5)", num_samples=30),
        gf.Saliency(),
    ],
)
def test_a_reach_that_is_too_short_is_found_at_whichever_node_it_is(algorithm):
    said = []
    for before in ([], [3], [3, 9, 4]):
        (x, edges), model = ring(), seeded(FurtherOnce)
        for node in before:
            explain(model, x, edges, node, algorithm)
        with pytest.raises(gf.ModelError, match=f"go further than 2 hops.*node {ODD} .*Pass num_hops=3$") as error:
            explain(model, x, edges, ODD, algorithm)
        said.append(str(error.value))
    assert len(set(said)) == 1


@pytest.mark.parametrize("near", ["U(A,0.5)", "U(X,0.2r)", "U(X,0.2r)xU(A,0.2)"])
def test_features_that_move_are_no_excuse(near):
    (x, edges), model = ring(), seeded(FurtherOnce)
    explain(model, x, edges, 3, gf.KEC(near, num_samples=20))
    with pytest.raises(gf.ModelError, match=r"Pass num_hops=3$"):
        explain(model, x, edges, ODD, gf.KEC(near, num_samples=20))


def test_a_class_that_is_not_explained_and_looks_at_the_whole_graph():
    found = []
    for before in ([], [3]):
        (x, edges), model = ring(), seeded(lambda: LooksAtAllOnce((0,)))
        for node in before:
            explain(model, x, edges, node)
        found.append(explain(model, x, edges, ODD))
    first, later = found
    torch.testing.assert_close(first.edge_mask, later.edge_mask, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(first.node_mask, later.node_mask, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TwoLayerGCN(FEATURES),
        lambda: pyg.GCN(FEATURES, 6, 2, CLASSES),
        lambda: pyg.GAT(FEATURES, 6, 2, CLASSES),
        lambda: pyg.GraphSAGE(FEATURES, 6, 2, CLASSES),
    ],
    ids=["own", "GCN", "GAT", "SAGE"],
)
@pytest.mark.parametrize(
    "algorithm",
    [
        gf.KEC("U(A,0.5)", num_samples=30),
        gf.KEC("U(X,0.2r)", num_samples=30),
        gf.Linear("U(A,0.5)", num_samples=30),
        gf.Saliency(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_node_is_explained_alike_whether_it_is_the_first_or_not(make, algorithm, dtype):
    x, edges = ring(flagged=False)
    x, model = x.to(dtype), seeded(make).to(dtype)
    again, copied = x.clone(), copy.deepcopy(model)
    first = explain(model, x, edges, 7, algorithm)
    for node in (3, 20):
        explain(copied, again, edges, node, algorithm)
    later = explain(copied, again, edges, 7, algorithm)
    assert_equal(later, first)
    assert_equal(explain(model, x, edges, 7, algorithm), first)


def in_place(model, other):
    with torch.no_grad():
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs)


def behind_the_back(model, other):
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        mine.data.copy_(theirs.data)


def by_another_tensor(model, other):
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        mine.data = theirs.data.clone()


def loaded(model, other):
    model.load_state_dict(other.state_dict())


@pytest.mark.parametrize("change", [in_place, behind_the_back, by_another_tensor, loaded])
@pytest.mark.parametrize("algorithm", [gf.KEC("U(A,0.5)", num_samples=30), gf.Saliency()], ids=["KEC", "Saliency"])
@pytest.mark.parametrize("kind", ["phenomenon", "model"])
def test_a_model_whose_weights_have_changed_is_another(change, algorithm, kind):
    (x, edges), model = ring(flagged=False), seeded(lambda: TwoLayerGCN(FEATURES))
    other = seeded(lambda: TwoLayerGCN(FEATURES), seed=5)
    target = {"target": LABELS} if kind == "phenomenon" else {}

    def explained(model, x, node):
        return Explainer(model, algorithm, kind, CONFIG, "attributes", "object")(x, edges, index=node, **target)

    explained(model, x, 3), explained(model, x, 7)
    change(model, other)
    for node in (7, 3, 11):
        right = explained(copy.deepcopy(other), x.clone(), node)
        assert_equal(explained(model, x, node), right)
    labels = model(x, edges).argmax(dim=1)
    assert [Target(model, x, edges, node).label for node in range(NODES)] == labels.tolist()


@pytest.mark.parametrize("change", [in_place, behind_the_back, loaded])
def test_nodes_explained_together_by_a_model_whose_weights_have_changed(change):
    (x, edges), model = ring(flagged=False), seeded(lambda: TwoLayerGCN(FEATURES))
    other = seeded(lambda: TwoLayerGCN(FEATURES), seed=5)

    def explained(model, x):
        explainer = Explainer(model, gf.KEC("U(A,0.5)", num_samples=30), "model", CONFIG, "attributes", "object")
        return list(gf.explain_nodes(explainer, x, edges, progress=False, together=True))

    explained(model, x)
    change(model, other)
    for mine, right in zip(explained(model, x), explained(copy.deepcopy(other), x.clone()), strict=True):
        assert_equal(mine, right)


def test_features_and_edges_that_have_changed_are_others():
    (x, edges), model = ring(flagged=False), seeded(lambda: TwoLayerGCN(FEATURES))
    edges = edges.clone()
    explain(model, x, edges, 3), explain(model, x, edges, 7)
    x[8] += 1
    edges[0, 0] = 9
    assert_equal(explain(model, x, edges, 7), explain(copy.deepcopy(model), x.clone(), edges.clone(), 7))


class Twice(torch.nn.Module):
    """One layer, used twice: it looks like one hop, and with equal features one hop gives the same output."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.SAGEConv(FEATURES, FEATURES)

    def forward(self, x, edge_index):
        return self.conv(self.conv(x, edge_index).tanh(), edge_index)


def test_a_reach_that_is_too_short_is_found_with_equal_features_too():
    torch.manual_seed(0)
    edges = torch.stack([torch.arange(1, 12), torch.arange(11)])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    x = torch.ones(12, FEATURES)
    with pytest.raises(gf.ModelError, match=r"go further than 1 hops.*Pass num_hops=2$"):
        Target(Twice(), x, edges, 5, 1)
    assert Target(Twice(), x, edges, 5, 1, num_hops=2).num_hops == 2
