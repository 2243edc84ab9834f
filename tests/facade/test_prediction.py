"""One prediction in one line: what is explained, what the model is, and what goes wrong before any work."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT, GCN, GCNConv, global_mean_pool

import graphfaith as gf
from graphfaith.explanation.scores import explained_nodes
from graphfaith.model.inference import find_task
from graphfaith.model.target import Target

RING = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])
FEW = {"samples": 30, "test_samples": 20}


class Pairs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 4)

    def forward(self, x, edge_index, edge_weight=None, edge_label_index=None):
        h = self.conv(x, edge_index, edge_weight)
        source, sink = edge_index if edge_label_index is None else edge_label_index
        return (h[source] * h[sink]).sum(dim=-1)


class Pooled(torch.nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.conv = GCNConv(3, classes)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        return global_mean_pool(self.conv(x, edge_index, edge_weight), batch)


class Squashed(torch.nn.Module):
    def __init__(self, squash, classes=3):
        super().__init__()
        self.conv, self.squash = GCNConv(3, classes), squash

    def forward(self, x, edge_index, edge_weight=None):
        return self.squash(self.conv(x, edge_index, edge_weight))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture
def data():
    return Data(x=torch.randn(8, 3), edge_index=RING)


def test_a_node_is_explained_and_scored_on_other_samples(data):
    model = GCN(3, 4, num_layers=2, out_channels=3)
    explanation = gf.explain(model, data, 5, **FEW)
    assert explanation.method == "AnchoredKEC"
    assert int(explanation.index) == 5
    score = explanation.unfaithfulness
    assert (score.num_samples, score.seed, score.neighborhood) == (20, 1, "U(A,0.5)")
    explainer = gf.explainer_for(model, data, samples=30)
    again = explainer(data.x, data.edge_index, index=5)
    assert torch.equal(again.edge_mask, explanation.edge_mask)
    assert gf.general_unfaithfulness(explainer, again, "U(A,0.5)", num_samples=20, seed=1) == score


def test_the_explainer_behind_it_is_pygs(data):
    explainer = gf.explainer_for(GAT(3, 4, 2, out_channels=2), data, method="kec", neighborhood="B(A,0.5)", num_hops=3)
    assert type(explainer) is Explainer
    assert repr(explainer.algorithm) == "KEC(neighborhood='B(A,0.5)', num_hops=3)"


def test_names_of_the_data_are_those_of_the_explanation(data):
    data.node_names = [f"tank {i}" for i in range(8)]
    explanation = gf.explain(GCN(3, 4, 2, out_channels=3), data, 1, method="saliency", test_samples=5)
    assert explanation.top_edges(1)[0].names[0].startswith("tank")


def test_weights_of_the_data_are_given_to_the_model(data):
    data.edge_weight = torch.rand(8)
    model = GCN(3, 4, 2, out_channels=3)
    explanation = gf.explain(model, data, 1, method="saliency", test_samples=5)
    own = Target(model, data.x, RING, 1, edge_weight=data.edge_weight)
    assert torch.equal(explanation.difference_model.phi_a, own.gradient()[1])


@pytest.mark.parametrize("edge", [(3, 4), 3, [3, 4], torch.tensor([3, 4]), np.array([3, 4]), np.int64(3)], ids=str)
def test_an_edge_by_its_ends_or_its_place(data, edge):
    data.edge_label = torch.ones(8)
    explanation = gf.explain(Pairs(), data, edge=edge, method="saliency", test_samples=5)
    assert explanation._model_config.task_level.value == "edge"
    assert explained_nodes(explanation).tolist() == [3, 4]


def test_a_pair_that_is_no_edge_is_judged_by_a_model_that_takes_pairs(data):
    explanation = gf.explain(
        Pairs(), data, edge=(1, 6), method="saliency", mode="binary_classification", test_samples=5
    )
    assert explanation.edge_label_index.tolist() == [[1], [6]]
    assert data.get("edge_label_index") is None  # the user's data stays as it was


def test_a_graph_alone_and_in_a_batch(data):
    alone = gf.explain(Pooled(), data, graph=0, method="saliency", test_samples=5)
    assert alone._model_config.task_level.value == "graph"
    twice = Data(
        x=torch.cat([data.x, torch.randn(8, 3)]),
        edge_index=torch.cat([RING, RING + 8], dim=1),
        batch=torch.arange(2).repeat_interleave(8),
    )
    second = gf.explain(Pooled(), twice, graph=1, method="saliency", test_samples=5)
    assert float(second.edge_mask[:8].abs().max()) == 0.0
    assert float(second.edge_mask[8:].abs().max()) > 0.0


def test_a_regression_is_told_by_its_labels(data):
    data.y = torch.randn(8)
    explanation = gf.explain(Squashed(torch.nn.Identity(), 1), data, 2, method="saliency", test_samples=5)
    assert explanation._model_config.mode.value == "regression"


KINDS = {
    "three logits": (torch.nn.Identity(), 3, torch.randint(0, 3, (8,)), ("multiclass_classification", "raw")),
    "three probabilities": (torch.nn.Softmax(dim=-1), 3, None, ("multiclass_classification", "probs")),
    "three log-probabilities": (torch.nn.LogSoftmax(dim=-1), 3, None, ("multiclass_classification", "log_probs")),
    "three real labels a node": (torch.nn.Identity(), 3, torch.randn(8, 3), ("regression", "raw")),
    "one logit": (torch.nn.Identity(), 1, torch.tensor([0, 1] * 4), ("binary_classification", "raw")),
    "one probability": (torch.nn.Sigmoid(), 1, torch.tensor([0.0, 1.0] * 4), ("binary_classification", "probs")),
    "one real label": (torch.nn.Identity(), 1, torch.linspace(0, 3, 8), ("regression", "raw")),
    "missing labels": (torch.nn.Identity(), 1, torch.tensor([0, 1, -1, 1] * 2), ("binary_classification", "raw")),
    "missing real labels": (torch.nn.Identity(), 1, torch.tensor([0.5, float("nan")] * 4), ("regression", "raw")),
    "labels of something else": (torch.nn.Identity(), 3, torch.randn(1, 3), ("multiclass_classification", "raw")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_of_model_is_found_out(data, kind):
    squash, width, labels, expected = KINDS[kind]
    if labels is not None:
        data.y = labels
    task = find_task(Squashed(squash, width), data)
    assert (task.mode, task.return_type) == expected


def test_what_is_said_is_not_looked_for(data):
    class Fails(torch.nn.Module):
        def forward(self, x, edge_index):
            raise AssertionError("the model ran")

    assert find_task(Fails(), data, mode="regression").mode == "regression"
    assert find_task(Fails(), data, "graph", "multiclass_classification", "probs").level == "graph"


def test_one_number_without_labels_has_to_be_said(data):
    model = Squashed(torch.nn.Identity(), 1)
    with pytest.raises(gf.InputError, match='say mode="binary_classification" or mode="regression"'):
        gf.explain(model, data, 1)
    assert gf.explain(model, data, 1, mode="regression", method="saliency", test_samples=5).index == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "node=, edge= or graph="),
        ({"node": 1, "graph": 0}, "node=, edge= or graph="),
        ({"node": 9}, "node 9 is out of range"),
        ({"node": 1, "method": "magic"}, "unknown method 'magic'"),
        ({"node": 1, "neighborhood": "U(A)"}, "cannot read the neighbourhood"),
        ({"node": 1, "samples": 0}, "num_samples must be"),
        ({"node": 1, "method": "kec", "samples": "auto"}, "at least 1 for KEC, which cannot choose"),
        ({"node": 1, "test_samples": 0}, "test_samples must be"),
        ({"node": 1, "seed": -2}, "seed must be"),
        ({"node": 1, "seed": "x"}, "seed must be"),
        ({"node": 1, "edges": "both"}, "edges must be one of"),
        ({"node": 1, "mode": "guess"}, "mode must be one of"),
        ({"node": [1, 2]}, r"node= takes one whole number .got \[1, 2\]."),
        ({"node": (3, 4)}, "node= takes one whole number"),
        ({"graph": [0, 1]}, "graph= takes one whole number"),
        ({"node": 1.5}, "node= takes one whole number"),
        ({"node": True}, "node= takes one whole number"),
        ({"node": 1, "method": ["kec"]}, "unknown method"),
        ({"edge": (1.5, 2)}, "node 1.5 is out of range"),
        ({"edge": (1, 60)}, "node 60 is out of range"),
        ({"edge": ("a", "b")}, "node 'a' is out of range"),
        ({"edge": (1, 2, 3)}, "a pair"),
        ({"edge": (0, 5)}, "not among the pairs of the graph"),
    ],
)
def test_mistakes_are_typed_and_said_before_any_work(data, arguments, message, monkeypatch):
    monkeypatch.setattr("graphfaith.facade.subject.Subject.explain", lambda *_, **__: pytest.fail("work has begun"))
    if "node" in arguments and arguments["node"] == 9:
        monkeypatch.undo()
    with pytest.raises(gf.InputError, match=message):
        gf.explain(GCN(3, 4, 2, out_channels=3), data, **arguments)


def test_an_empty_graph_of_several_types_is_refused():
    with pytest.raises(gf.InputError, match="x of every node type"):
        gf.explain(GCN(3, 4, 2, out_channels=3), HeteroData(), 1)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        ("GCN", Data(), "model must be a torch.nn.Module .got str."),
        (None, None, "data must be a torch_geometric.data.Data .got NoneType."),
        (None, Data(edge_index=RING), "data needs the tensor 'x' .got NoneType."),
        (None, Data(x=torch.ones(8, 3)), "data needs the tensor 'edge_index'"),
        (None, Data(x=np.ones((8, 3)), edge_index=RING), "data needs the tensor 'x' .got ndarray."),
        (None, Data(x=torch.ones(8, 3), edge_index=RING.T), "edge_index must be a tensor of shape"),
        (None, Data(x=torch.ones(4, 3), edge_index=RING), "edge_index names node 7"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_model_and_a_graph_are_asked_for_by_name(model, data, message):
    model = GCN(3, 4, 2, out_channels=3) if model is None else model
    for call in (
        lambda: gf.explain(model, data, 1),
        lambda: gf.compare(model, data, [1]),
        lambda: gf.explainer_for(model, data),
    ):
        with pytest.raises(gf.InputError, match=message):
            call()


def test_several_labels_of_0_and_1_have_to_be_said(data):
    data.y = torch.randint(0, 2, (8, 3))
    with pytest.raises(gf.InputError, match="one class at a time"):
        gf.explain(GCN(3, 4, 2, out_channels=3), data, 1)


def test_a_graph_of_numpys_precision_is_converted(data):
    data.x = data.x.double()
    explanation = gf.explain(GCN(3, 4, 2, out_channels=3), data, 1, method="saliency", test_samples=5)
    assert explanation.x.dtype == torch.float32
    assert data.x.dtype == torch.float64


class Stateful(torch.nn.Module):
    """Keeps what it has computed, and counts: as many models do."""

    forwards = 0

    def __init__(self):
        super().__init__()
        self.conv, self.code, self.calls = GCNConv(3, 3), None, 0

    def forward(self, x, edge_index, edge_weight=None):
        Stateful.forwards += 1
        self.calls += 1
        self.code = self.conv(x, edge_index, edge_weight)
        return self.code


@pytest.mark.parametrize("by_pyg", [False, True])
def test_a_model_that_keeps_something_is_found_out_about_once(data, by_pyg):
    model, counts = Stateful().eval(), []
    explainer = gf.explainer_for(model, data, method="saliency")
    for node in range(5):
        before = Stateful.forwards
        if by_pyg:
            explainer(data.x, data.edge_index, index=node)
        else:
            gf.explain(model, data, node, method="saliency", test_samples=5)
        counts.append(Stateful.forwards - before)
    assert max(counts[2:]) < min(10, counts[0])


def test_the_mode_of_every_layer_is_restored_also_after_an_error(data):
    class Breaks(Stateful):
        def forward(self, x, edge_index, edge_weight=None):
            if self.calls == 5:
                raise ZeroDivisionError("of the user's")
            return super().forward(x, edge_index, edge_weight)

    model = Stateful().train()
    model.conv.eval()
    gf.explain(model, data, 1, method="saliency", test_samples=5)
    assert (model.training, model.conv.training) == (True, False)
    broken = Breaks().train()
    broken.calls = 3  # the second run from now on fails
    with pytest.raises(gf.ModelError, match="ZeroDivisionError: of the user's"):
        gf.explain(broken, data, 1, method="saliency", test_samples=5)
    assert broken.training


class TestRemoval:
    """The text R(A,5) means edges as a person counts them: both entries of an edge that goes both ways."""

    BOTH = torch.cat([RING, RING.flip(0)], dim=1)

    def make(self, edge_index=BOTH):
        torch.manual_seed(0)
        return GCN(3, 4, 2, out_channels=2), Data(x=torch.rand(8, 3), edge_index=edge_index)

    @pytest.mark.parametrize("near", ["R(A,5)", "R(A,5,paired)"])
    def test_both_entries_are_removed_together_in_an_undirected_graph(self, near):
        explanation = gf.explain(*self.make(), 0, neighborhood=near, **FEW)
        assert explanation.neighborhood == explanation.unfaithfulness.neighborhood == "R(A,5,paired)"
        ends = {tuple(pair): i for i, pair in enumerate(self.BOTH.T.tolist())}
        mask = explanation.edge_mask.tolist()
        scores = [(mask[place], mask[ends[sink, source]]) for (source, sink), place in ends.items()]
        seen = [(one, other) for one, other in scores if one and other]  # At the rim one entry may be out of reach.
        assert len(seen) >= 6
        assert all(one == other for one, other in seen)

    def test_each_entry_is_an_edge_in_a_directed_graph_or_if_asked_for_as_an_object(self):
        assert gf.explain(*self.make(RING), 0, neighborhood="R(A,5)", **FEW).neighborhood == "R(A,5)"
        assert gf.explain(*self.make(), 0, neighborhood=gf.RemovedEdges(5), **FEW).neighborhood == "R(A,5)"

    @pytest.mark.parametrize("near", ["B(A,0.5)", "U(A,0.5)"])
    def test_the_neighbourhoods_of_the_paper_stay(self, near):
        assert gf.explain(*self.make(), 0, neighborhood=near, **FEW).neighborhood == near

    def test_it_is_so_in_products_in_also_and_in_comparisons(self):
        both = gf.explain(*self.make(), 0, neighborhood="B(X,0.5)xR(A,2)", **FEW)
        assert both.neighborhood == "B(X,0.5)xR(A,2,paired)"
        more = gf.explain(*self.make(), 0, neighborhood="B(X,0.5)", also="R(A,2)", **FEW)
        assert [one.neighborhood for one in more.measurements] == ["R(A,2,paired)", "B(X,0.5)"]
        rows = gf.compare(*self.make(), [0], methods="saliency", neighborhoods=["R(A,2)", "R(A,2,paired)"], **FEW)
        assert [row.neighborhood for row in rows] == ["R(A,2,paired)"]
        assert (
            gf.explainer_for(*self.make(), neighborhood="R(A,2)").algorithm.settings["neighborhood"] == "R(A,2,paired)"
        )
