"""Many threads on one model: every explanation is the one that a single thread gets, and the model stays as it was."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.explain import GNNExplainer as PyGsGNNExplainer
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import graphfaith as gf
from graphfaith.model.record import evaluating, noted_output

THREADS, NODES = 8, 8
FIELDS = ("node_mask", "edge_mask", "self_loop_score", "prediction", "target")
FAMILIES = {"GCN": GCN, "GAT": GAT, "GIN": GIN, "SAGE": GraphSAGE}
METHODS = {
    "anchored-kec": lambda: gf.AnchoredKEC("U(A,0.5)", num_samples=20),
    "kec": lambda: gf.KEC("B(A,0.3)", num_samples=20),
    "linear": lambda: gf.Linear("U(A,0.5)", num_samples=20),
    "saliency": gf.Saliency,
    "integrated-gradients": lambda: gf.IntegratedGradients(steps=5),
    "gnnexplainer": lambda: gf.GNNExplainer(epochs=5),
    "pgexplainer": lambda: gf.PGExplainer(epochs=2),
    "subgraphx": lambda: gf.SubgraphX(max_nodes=4, num_samples=4, rollouts=1),
}


@pytest.fixture(autouse=True)
def switch_often():
    """Let Python switch between threads far more often than it does, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def data():
    torch.manual_seed(0)
    edges = [(i, j) for i in range(NODES) for j in range(NODES) if i != j]
    return Data(x=torch.rand(NODES, 5), edge_index=torch.tensor(edges).T.contiguous())


def make(family, **options):
    torch.manual_seed(1)
    return FAMILIES[family](5, 8, 2, 6, **options)


def explainer_of(model, algorithm, **options):
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    masks = {"node_mask_type": None if isinstance(algorithm, gf.PGExplainer) else "attributes"}
    return Explainer(
        model, algorithm, explanation_type="model", edge_mask_type="object", model_config=config, **masks, **options
    )


def values_of(explanation):
    return {name: explanation[name].detach() for name in FIELDS if explanation.get(name) is not None}


def in_threads(function, items):
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_plain_explainers_of_pyg_in_threads(family, method, data):
    model = make(family, dropout=0.5).train()
    first = next(model.children())
    first.eval()  # a layer that the user has frozen

    def explain(node):
        return values_of(explainer_of(model, METHODS[method]())(data.x, data.edge_index, index=node))

    alone = [explain(node) for node in range(NODES)]
    for node, together in enumerate(in_threads(explain, range(NODES))):
        assert_same(together, alone[node])
    assert model.training
    assert not first.training


def test_one_explainer_called_and_scored_by_all_threads(data):
    explainer = explainer_of(make("GAT", dropout=0.5).train(), gf.KEC("B(A,0.3)", num_samples=20))

    def measure(node):
        explanation = explainer(data.x, data.edge_index, index=node)
        score = gf.general_unfaithfulness(explainer, explanation, "B(A,0.3)", num_samples=20)
        masked = explainer.get_masked_prediction(data.x, data.edge_index, None, explanation.edge_mask.abs())
        return score.value, explainer.get_prediction(data.x, data.edge_index), masked

    alone = [measure(node) for node in range(NODES)]
    for one, other in zip(in_threads(measure, range(NODES)), alone, strict=True):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])
        assert torch.equal(one[2], other[2])
    assert explainer.model.training


def test_algorithms_of_pyg_wait_for_those_of_graphfaith(data):
    model = make("SAGE", dropout=0.5).eval()
    theirs, ours = explainer_of(model, PyGsGNNExplainer(epochs=2)), explainer_of(model, gf.GNNExplainer(epochs=5))

    def predict(node):
        explainer = theirs if node % 2 else ours
        return explainer(data.x, data.edge_index, index=node).prediction

    expected = ours.get_prediction(data.x, data.edge_index)
    assert all(torch.equal(prediction, expected) for prediction in in_threads(predict, [*range(NODES)] * 2))


def test_the_facade_in_threads(data):
    model = make("GIN", dropout=0.5).train()

    def explain(node):
        explanation = gf.explain(model, data, node, method="gnnexplainer-soft", test_samples=20)
        rows = gf.compare(model, data, [node], methods=["kec", "saliency"], samples=20, test_samples=20)
        return {**values_of(explanation), "rows": torch.tensor([row.unfaithfulness for row in rows])}

    alone = [explain(node) for node in range(2)]
    for node, together in zip([*range(2)] * 4, in_threads(explain, [*range(2)] * 4), strict=True):
        assert_same(together, alone[node])
    assert model.training


class Wrapper(torch.nn.Module):
    """A model around another one, as a user makes one for each request."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, edge_index):
        return self.inner(x, edge_index).log_softmax(dim=-1)


def test_models_that_share_their_layers_take_turns(data):
    inner = make("SAGE")

    def explain(node):
        explainer = explainer_of(Wrapper(inner), gf.GNNExplainer(epochs=5))
        return values_of(explainer(data.x, data.edge_index, index=node))

    alone = [explain(node) for node in range(NODES)]
    for node, together in enumerate(in_threads(explain, range(NODES))):
        assert_same(together, alone[node])


def test_masks_on_several_models_draw_the_numbers_of_their_own_seed(data):
    models = [make("GCN") for _ in range(THREADS)]

    def explain(place):
        explainer = explainer_of(models[place], gf.PGExplainer(epochs=3, seed=5))
        return values_of(explainer(data.x, data.edge_index, index=1))

    expected = explain(0)
    for values in in_threads(explain, [*range(THREADS)] * 2):
        assert_same(values, expected)


class Failing(torch.nn.Module):
    """A model that cannot be run any more when it is asked not to."""

    def __init__(self):
        super().__init__()
        self.conv, self.fails = GCN(5, 8, 2, 6), False

    def forward(self, x, edge_index):
        if self.fails:
            raise KeyError("a mistake of the user")
        return self.conv(x, edge_index)


def test_a_forward_that_raises_leaves_the_modes_of_all_modules(data):
    model = Failing().train()
    model.conv.eval()
    explainer = explainer_of(model, gf.Saliency())
    model.fails = True
    for run in (
        lambda: explainer(data.x, data.edge_index, index=1),
        lambda: explainer.get_prediction(data.x, data.edge_index),
        lambda: gf.explain(model, data, 1),
    ):
        with pytest.raises(gf.ModelError, match="a mistake of the user"):
            run()
        assert model.training
        assert not model.conv.training


class Counting(torch.nn.Module):
    """A model that counts how often it is run."""

    def __init__(self):
        super().__init__()
        self.conv, self.runs = GCN(5, 8, 2, 6), 0

    def forward(self, x, edge_index):
        self.runs += 1
        return self.conv(x, edge_index)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, edges: (x.bfloat16(), edges), "x must hold real numbers.*got torch.bfloat16"),
        (lambda x, edges: (x, edges.float()), "edge_index must hold int64 node ids"),
        (lambda x, edges: (x, edges[0]), r"edge_index must be a tensor of shape \[2, edges\]"),
    ],
    ids=["bfloat16", "real ids", "one end"],
)
def test_a_graph_of_the_wrong_kind_is_refused_before_pyg_runs_the_model(data, change, message):
    model = Counting()
    x, edge_index = change(data.x, data.edge_index)
    for method in METHODS.values():
        with pytest.raises(gf.InputError, match=message):
            explainer_of(model, method())(x, edge_index, index=1)
    with pytest.raises(gf.InputError, match=message):
        explainer_of(model, gf.Saliency())(x=x, edge_index=edge_index, index=1)
    assert model.runs == 0


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_a_model_that_cannot_take_categories_says_what_to_pass(data, kind):
    for method in (gf.KEC("U(A,0.5)", num_samples=20), gf.Saliency()):
        with pytest.raises(gf.GraphfaithError, match=r"x\.float\(\) if they are numbers"):
            explainer_of(Counting(), method)(data.x.to(kind), data.edge_index, index=1)


def test_other_algorithms_may_take_what_they_like(data):
    class Embedding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.conv = torch.nn.Embedding(2, 4), GCN(4, 8, 2, 6)

        def forward(self, x, edge_index):
            return self.conv(self.table(x.view(-1)), edge_index)

    ids = (data.x[:, :1] > 0.5).long()
    algorithm = PyGsGNNExplainer(epochs=2)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(
        Embedding(), algorithm, explanation_type="model", edge_mask_type="object", model_config=config
    )
    assert explainer(ids, data.edge_index, index=1).edge_mask.shape == data.edge_index.shape[1:]


class Counted(torch.nn.Module):
    """A model that notes the features that it is run on."""

    def __init__(self):
        super().__init__()
        self.gnn = make("GCN")

    def forward(self, x, edge_index, edge_weight=None):
        SEEN.append(x)
        return self.gnn(x, edge_index, edge_weight)


SEEN: list[torch.Tensor] = []


def test_the_model_is_run_on_the_graph_once(data):
    explainer = explainer_of(Counted(), gf.KEC("U(A,0.5)", num_samples=20))
    explainer(data.x, data.edge_index, index=2)
    graph = Data(x=data.x.clone(), edge_index=data.edge_index.clone())
    SEEN.clear()
    explainer(graph.x, graph.edge_index, index=2)
    assert sum(x is graph.x for x in SEEN) == 1  # PyG's prediction


def test_a_prediction_is_taken_over_as_a_copy_until_it_is_written_to(data):
    explainer = explainer_of(make("GCN"), gf.KEC("U(A,0.5)", num_samples=20))
    run = explainer.model, data.x, data.edge_index, {}
    with evaluating(explainer.model):
        prediction = explainer.get_prediction(data.x, data.edge_index)
        taken, before = noted_output(*run), prediction.clone()
        assert noted_output(explainer.model, data.x.clone(), data.edge_index, {}) is None
        prediction.zero_()
        assert torch.equal(taken, before)
        assert noted_output(*run) is None
    with evaluating(explainer.model):
        explainer.get_prediction(data.x, data.edge_index)
        data.x.mul_(2)
        assert noted_output(*run) is None
        explainer.get_prediction(data.x, data.edge_index)
    with evaluating(explainer.model):  # The model may have changed in between.
        assert noted_output(*run) is None


def test_a_prediction_with_masks_is_not_taken_for_the_models_own(data):
    explainer = explainer_of(make("GCN"), gf.KEC("U(A,0.5)", num_samples=20))
    with evaluating(explainer.model):
        explainer.get_masked_prediction(data.x, data.edge_index, edge_mask=torch.zeros(data.num_edges))
        assert noted_output(explainer.model, data.x, data.edge_index, {}) is None


@pytest.mark.parametrize("kind", ["model", "phenomenon"])
@pytest.mark.parametrize("way", [gf.explain_all, lambda *given, **named: list(gf.explain_nodes(*given, **named))])
@pytest.mark.parametrize("node", [-1, 9])
def test_an_edge_to_no_node_is_named_whoever_meets_it_first(kind, way, node):
    model, x = GCN(2, 4, num_layers=2, out_channels=3), torch.rand(9, 2)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(model, gf.KEC("U(A,0.5)"), kind, config, "attributes", "object")
    named = {"target": torch.zeros(9, dtype=torch.int64)} if kind == "phenomenon" else {}
    with pytest.raises(gf.InputError, match=f"edge_index names node {node}, but the graph has nodes 0 to 8"):
        way(explainer, x, torch.tensor([[0, node], [1, 2]]), progress=False, **named)
