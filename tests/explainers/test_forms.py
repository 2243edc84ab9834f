"""Features that are no matrix of real numbers: of any shape, [nodes, ...], and ids of categories."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

import graphfaith as gf
from graphfaith.graph.graph import Graph

NODES, STEPS, CHANNELS = 14, 3, 2
NODE = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class Windows(nn.Module):
    """A model of features [nodes, steps, channels]."""

    def __init__(self, conv=GCNConv):
        super().__init__()
        self.read, self.first, self.second = nn.Linear(STEPS * CHANNELS, 4), conv(4, 5), conv(5, 3)

    def embed(self, x):
        assert x.shape[1:] == (STEPS, CHANNELS)
        return self.read(x.flatten(1)).tanh()

    def forward(self, x, edge_index, edge_weight=None):
        more = (edge_weight,) if isinstance(self.first, GCNConv) else ()
        return self.second(self.first(self.embed(x), edge_index, *more).tanh(), edge_index, *more)


class Recurrent(Windows):
    """A model that reads the steps one after the other."""

    def __init__(self):
        super().__init__()
        self.steps = nn.GRU(CHANNELS, 4, batch_first=True)

    def embed(self, x):
        return self.steps(x)[0][:, -1]


class Flattened(nn.Module):
    """The same model, given a matrix."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, edge_weight=None):
        return self.model(x.view(-1, STEPS, CHANNELS), edge_index, edge_weight)


class Categories(nn.Module):
    """A model that looks up its features in embeddings."""

    def __init__(self, conv=GCNConv, pool=False):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(6, 4) for _ in range(3))
        self.first, self.second, self.pool = conv(4, 5), conv(5, 3), pool

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        more = (edge_weight,) if isinstance(self.first, GCNConv) else ()
        x = sum(table(column) for table, column in zip(self.tables, x.unbind(1), strict=True))
        out = self.second(self.first(x, edge_index, *more).tanh(), edge_index, *more)
        return global_mean_pool(out, batch) if self.pool else out


def make(kind, *args):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(*args).double().eval()


@pytest.fixture(scope="module")
def edges():
    drawn = torch.randint(0, NODES, (2, 30), generator=torch.Generator().manual_seed(1))
    return torch.unique(drawn[:, drawn[0] != drawn[1]], dim=1)


@pytest.fixture(scope="module")
def windows(edges):
    generator = torch.Generator().manual_seed(2)
    return Data(x=torch.randn(NODES, STEPS, CHANNELS, generator=generator).double(), edge_index=edges)


@pytest.fixture(scope="module")
def categories(edges):
    return Data(x=torch.randint(0, 6, (NODES, 3), generator=torch.Generator().manual_seed(3)), edge_index=edges)


METHODS = [
    gf.KEC("U(X,0.2r)", num_samples=20),
    gf.AnchoredKEC("U(X,0.2r)xU(A,0.5)", num_samples=100),
    gf.AnchoredKEC("U(A,0.5)", num_samples=100),
    gf.Linear("B(X,0.5)", num_samples=20),
    gf.Saliency(),
    gf.IntegratedGradients(steps=3),
    gf.GNNExplainer(epochs=2),
    gf.Shapley(num_samples=20, of="features"),
]


@pytest.mark.parametrize("conv", [GCNConv, GATConv], ids=lambda conv: conv.__name__)
@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_features_of_any_shape_are_explained_as_those_of_a_matrix(windows, algorithm, conv):
    model = make(Windows, conv)
    near = "U(A,0.5)" if "X" not in str(getattr(algorithm, "neighborhood", "X")) else "U(X,0.2r)"
    found = []
    for one, x in ((model, windows.x), (Flattened(model), windows.x.flatten(1))):
        explainer = Explainer(one, copy.deepcopy(algorithm), "model", NODE, "attributes", "object")
        explanation = explainer(x, windows.edge_index, index=3)
        number = gf.general_unfaithfulness(explainer, explanation, near, num_samples=20, seed=5)
        found.append((explanation, number))
    (explanation, number), (flat, right) = found
    assert explanation.node_mask.shape == windows.x.shape
    torch.testing.assert_close(explanation.node_mask.flatten(1), flat.node_mask, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(explanation.edge_mask, flat.edge_mask, rtol=1e-6, atol=1e-9)
    assert number.relative == pytest.approx(right.relative, rel=1e-6)
    # Its picture has one name for each place, and the same scores.
    assert [tuple(one)[:2] for one in gf.top_features(explanation, 3)] == [
        tuple(one)[:2] for one in gf.top_features(flat, 3)
    ]
    assert gf.top_features(explanation, 1)[0].names[1].count(",") == 1
    assert "</html>" in gf.page([explanation])


@pytest.mark.parametrize("kind", ["object", "common_attributes"])
def test_masks_of_nodes_and_of_columns(windows, kind):
    explainer = Explainer(make(Windows), gf.Saliency(), "model", NODE, kind, "object")
    mask = explainer(windows.x, windows.edge_index, index=3).node_mask
    assert mask.shape == ((NODES, 1) if kind == "object" else (1, STEPS, CHANNELS))
    whole = Explainer(make(Windows), gf.Saliency(), "model", NODE, "attributes", "object")
    products = whole(windows.x, windows.edge_index, index=3).node_mask * windows.x
    expected = products.sum(dim=(1, 2)).view(-1, 1) if kind == "object" else products.sum(dim=0, keepdim=True)
    torch.testing.assert_close(mask, expected)


def test_a_recurrent_model_on_its_computation_graph_and_in_a_file(windows, tmp_path):
    model = make(Recurrent)
    target = gf.Target(model, windows.x, windows.edge_index, 3)
    assert target.computation_graph.num_nodes <= NODES
    samples = (gf.UniformFeatures(0.2) * gf.UniformEdges(0.5)).sample(target.computation_graph, 6)
    with torch.no_grad():
        own = [target(x, weight).item() for x, weight in zip(samples.x, samples.weight, strict=True)]
    torch.testing.assert_close(target.value - target.changes(samples), torch.tensor(own).double())
    explanation = gf.explain(model, windows, 3, neighborhood="U(X,0.2r)", samples=100, test_samples=40)
    gf.save(explanation, tmp_path / "window.safetensors")
    loaded = gf.load(tmp_path / "window.safetensors")
    assert torch.equal(loaded.node_mask, explanation.node_mask)
    assert loaded.difference_model.graph.shape == (STEPS, CHANNELS)
    again = gf.general_unfaithfulness(
        gf.explainer_for(model, windows, neighborhood="U(X,0.2r)"), loaded, "U(X,0.2r)", num_samples=40, seed=1
    )
    assert again.relative == pytest.approx(explanation.unfaithfulness.relative)
    asked = explanation.what_if(set={(3, 2, 1): 0.0}, check=True)
    changed = windows.x.clone()
    changed[3, 2, 1] = 0.0
    label = int(explanation.target[3])
    with torch.no_grad():
        actual = (model(changed, windows.edge_index) - model(windows.x, windows.edge_index))[3, label]
    assert asked.actual == pytest.approx(float(actual))
    assert asked == explanation.what_if(set={(3, 2 * CHANNELS + 1): 0.0}, check=True)
    for place in ((3, STEPS, 1), (3, 2, CHANNELS), (3, 2, -1)):
        with pytest.raises(gf.InputError, match="out of range: a node's features have shape"):
            explanation.what_if(set={place: 0.0})
    many = list(gf.explain_nodes(gf.explainer_for(model, windows, method="kec"), windows.x, windows.edge_index, [3, 4]))
    assert all(one.node_mask.shape == windows.x.shape for one in many)


def test_features_of_one_number_a_node(windows):
    class Single(Windows):
        def embed(self, x):
            return x.view(-1, 1).expand(-1, 4).sin()

    x = windows.x[:, 0, 0].clone()
    explanation = gf.explain(make(Single), Data(x=x, edge_index=windows.edge_index), 3, method="saliency")
    assert explanation.node_mask.shape == x.shape
    assert explanation.unfaithfulness is not None


def replaced(model, data, node, draws, label):
    """Return F on graphs in which the categories at some places are those of the baseline, in a plain loop."""
    baseline = torch.stack([column.mode().values for column in data.x.unbind(1)])  # the smallest of several
    with torch.no_grad():
        return torch.tensor(
            [float(model(torch.where(gone, baseline, data.x), data.edge_index)[node, label]) for gone in draws]
        ).double()


@pytest.mark.parametrize("conv", [GCNConv, GATConv], ids=lambda conv: conv.__name__)
def test_a_category_that_is_removed_is_replaced_by_the_most_frequent_one(categories, conv):
    model = make(Categories, conv)
    target = gf.Target(model, categories.x, categories.edge_index, 3)
    part = target.computation_graph
    samples = gf.BernoulliFeatures(0.5).sample(part, 12)
    gone = torch.zeros(12, NODES, 3, dtype=torch.bool)
    gone[:, part.nodes[: part.num_visible]] = samples.features[:, : part.num_visible] != 0
    expected = target.value - replaced(model, categories, 3, gone, target.label)
    assert bool(expected.any())
    torch.testing.assert_close(target.changes(samples), expected)
    # No feature that has the baseline's category already is drawn.
    baseline = torch.stack([column.mode().values for column in categories.x.unbind(1)])
    assert torch.equal(target.baseline, baseline)
    assert not bool((gone & (categories.x == baseline)).any())


@pytest.mark.parametrize("method", ["anchored-kec", "kec", "linear", "shapley"])
@pytest.mark.parametrize("conv", [GCNConv, GATConv], ids=lambda conv: conv.__name__)
def test_edges_and_replacements_of_categories_are_explained(categories, conv, method, tmp_path):
    model = make(Categories, conv)
    explanation = gf.explain(model, categories, 3, method=method, samples=60, test_samples=40)
    assert explanation.features_scored is False
    assert bool(explanation.edge_mask.any())
    assert explanation.unfaithfulness.relative < 1
    near = "B(X,0.5)"
    if method == "shapley":
        explainer = gf.explainer_for(model, categories).algorithm
        explainer = Explainer(model, gf.Shapley(num_samples=40, of="features"), "model", NODE, "attributes", None)
        explanation = explainer(categories.x, categories.edge_index, index=3)
        assert gf.general_unfaithfulness(explainer, explanation, near, num_samples=40).relative < 0.5
    else:
        explanation = gf.explain(model, categories, 3, method=method, neighborhood=near, samples=100, test_samples=40)
        assert explanation.unfaithfulness.relative < 0.7
    assert explanation.get("features_scored") is None
    best = gf.top_features(explanation, 1)[0]
    baseline = explanation.baseline_categories
    assert categories.x[best.node, best.column] != baseline[best.column]
    assert "</html>" in gf.page([explanation])
    gf.save(explanation, tmp_path / "categories.safetensors")
    assert torch.equal(gf.load(tmp_path / "categories.safetensors").baseline_categories, baseline)


def test_what_if_a_category_were_the_baseline(categories):
    explanation = gf.explain(make(Categories), categories, 3, method="linear", neighborhood="B(X,0.5)", samples=100)
    best = gf.top_features(explanation, 1)[0]
    place, baseline = (best.node, best.column), int(explanation.baseline_categories[best.column])
    answer = explanation.what_if(set={place: baseline}, check=True)
    assert answer.change == pytest.approx(-best.score)
    x = categories.x.clone()
    x[place] = baseline
    model = make(Categories)
    with torch.no_grad():
        before, after = (model(one, categories.edge_index)[3] for one in (categories.x, x))
    label = int(before.argmax())
    assert answer.actual == pytest.approx(float(after[label] - before[label]))
    with pytest.raises(gf.UnsupportedError, match=f"baseline of its column, {baseline}, and not by another one"):
        explanation.what_if(set={place: baseline + 1})


@pytest.mark.parametrize("algorithm", [gf.Saliency(), gf.IntegratedGradients(), gf.GNNExplainer()], ids=str)
def test_methods_of_derivatives_refuse_categories_and_say_what_to_do(categories, algorithm):
    model = make(Categories)
    explainer = Explainer(model, algorithm, "model", NODE, "attributes", "object")
    with pytest.raises(gf.UnsupportedError, match=r"ids of categories, which have none: pass node_mask_type=None"):
        explainer(categories.x, categories.edge_index, index=3)
    assert not algorithm.supports(model, categories.x, categories.edge_index)
    assert algorithm.supports(model, categories.x.double(), categories.edge_index)
    assert not type(algorithm)().supports(model, categories.x, categories.edge_index)  # before it is connected
    edges_alone = Explainer(model, copy.deepcopy(algorithm), "model", NODE, None, "object")
    assert bool(edges_alone(categories.x, categories.edge_index, index=3).edge_mask.any())


def test_categories_do_not_move_by_a_range(categories):
    with pytest.raises(gf.InputError, match=r"U\(X,0\.2r\): x has ids of categories.*use B\(X,0\.5\)"):
        gf.explain(make(Categories), categories, 3, neighborhood="U(X,0.2r)")


def test_a_classifier_of_graphs_whose_atoms_are_categories(categories):
    model = make(Categories, GCNConv, True).float()
    batch = torch.zeros(NODES, dtype=torch.int64)
    data = Data(x=categories.x, edge_index=categories.edge_index, batch=batch)
    explanation = gf.explain(model, data, graph=0, neighborhood="B(X,0.5)", samples=100, test_samples=40)
    assert explanation.node_mask.dtype == torch.float32
    assert explanation.unfaithfulness.relative < 0.7


def test_the_precision_of_a_graph_of_categories_is_that_of_the_model(categories):
    for dtype in (torch.float32, torch.float64):
        target = gf.Target(make(Categories).to(dtype), categories.x, categories.edge_index, 3)
        assert target.computation_graph.weight.dtype == dtype
    with pytest.raises(gf.InputError, match="complex64"):
        Graph.of(torch.zeros(3, 2, dtype=torch.complex64), categories.edge_index[:, :0])
