"""Edge attributes E: their neighbourhoods, their scores, and what becomes of these."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN, GATConv, GINEConv, global_add_pool

import graphfaith as gf
from graphfaith.explanation.faithfulness import measured_unfaithfulness
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.view.content import page_data
from graphfaith.view.report import print_explanation

NODES, COLUMNS = 12, 3
NODE = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class Gine(nn.Module):
    """Two layers that add edge attributes to messages, for nodes or for graphs."""

    def __init__(self, pool=False):
        super().__init__()
        self.first, self.second = (
            GINEConv(nn.Sequential(nn.Linear(width, 6), nn.Tanh(), nn.Linear(6, 6)), edge_dim=COLUMNS)
            for width in (4, 6)
        )
        self.out, self.pool = nn.Linear(6, 3), pool

    def forward(self, x, edge_index, edge_attr, batch=None):
        x = self.second(self.first(x, edge_index, edge_attr).tanh(), edge_index, edge_attr)
        return self.out(global_add_pool(x, batch) if self.pool else x)


class Attention(nn.Module):
    """Two layers of attention that look at edge attributes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = GATConv(4, 6, edge_dim=COLUMNS), GATConv(6, 3, edge_dim=COLUMNS)

    def forward(self, x, edge_index, edge_attr):
        return self.second(self.first(x, edge_index, edge_attr).tanh(), edge_index, edge_attr)


class Weighted(nn.Module):
    """A sum over edges that has weights, and is linear in their attributes."""

    def __init__(self):
        super().__init__()
        self.of_x, self.of_e = nn.Linear(4, 3), nn.Linear(COLUMNS, 3)

    def forward(self, x, edge_index, edge_attr, edge_weight=None):
        message = self.of_x(x)[edge_index[0]] + self.of_e(edge_attr)
        message = message if edge_weight is None else edge_weight.view(-1, 1) * message
        return self.of_x(x).index_add(0, edge_index[1], message)


def make(kind, *args):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(*args).double().eval()


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(0, NODES, (2, 26), generator=generator)
    edges = torch.unique(drawn[:, drawn[0] != drawn[1]], dim=1)
    x = torch.randn(NODES, 4, generator=generator).double()
    return Data(x=x, edge_index=edges, edge_attr=torch.rand(edges.size(1), COLUMNS, generator=generator).double())


def target_of(model, data, **options):
    return gf.Target(model, data.x, data.edge_index, 3, edge_attr=data.edge_attr, **options)


def test_text_forms_and_products():
    for text in ("U(E,0.2r)", "B(E,0.5)", "U(E,0.2r)xU(A,0.5)", "B(E,0.5)xU(X,0.2r)", "U(E,0.2r)xU(X,0.2r)xB(A,0.5)"):
        assert str(gf.parse_neighborhood(text)) == text
    near = gf.UniformEdges(0.5) * gf.UniformAttributes(0.2) * gf.UniformFeatures(0.1)
    assert str(near) == "U(E,0.2r)xU(X,0.1r)xU(A,0.5)"
    assert near.perturbs_edges
    assert near.perturbs_features
    for wrong in (
        "U(E,0.2r)xB(E,0.5)",
        "U(E,0.2r)xU(X,0.2r)xU(A,0.2)xU(A,0.5)",
        "U(E,0.2r)xU(A,0.2)xU(A,0.5)",
        "B(E,2)",
    ):
        with pytest.raises(gf.InputError):
            gf.parse_neighborhood(wrong)


def test_draws_depend_on_the_edge_in_the_whole_graph_alone(data):
    target = target_of(make(Gine), data)
    part = target.computation_graph
    assert part.num_nodes < NODES  # else nothing is shown
    whole = ComputationGraph.whole(Graph.of(data.x, data.edge_index), 3, 2)
    whole = copy.copy(whole)
    object.__setattr__(whole, "attributes", torch.cat([data.edge_attr, torch.zeros(NODES, COLUMNS)]))
    object.__setattr__(whole, "attribute_range", part.attribute_range)
    assert part.attribute_range == pytest.approx(float(data.edge_attr.max() - data.edge_attr.min()))
    for near in (gf.UniformAttributes(0.2), gf.BernoulliAttributes(0.4)):
        eps, every = (near.sample(graph, 40, seed=5).attributes for graph in (part, whole))
        given = (part.edge_id >= 0).nonzero().view(-1)
        assert torch.equal(eps[:, given], every[:, part.edge_id[given]])
        assert not bool(eps[:, part.edge_id < 0].any())
        again = near.numbered(part, np.array([7, 30]), seed=5).attributes
        assert torch.equal(again, eps[[7, 30]])
    moved = gf.UniformAttributes(0.2).sample(part, 400, seed=5).attributes[:, given]
    assert float(moved.abs().max()) <= 0.2 * part.attribute_range
    assert float(moved.std()) == pytest.approx(0.2 * part.attribute_range / 3**0.5, rel=0.05)


@pytest.mark.parametrize("kind", [Gine, Attention, Weighted], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("near", ["U(E,0.2r)", "B(E,0.5)xB(A,0.5)", "U(E,0.2r)xU(X,0.2r)xU(A,0.5)"])
def test_changes_are_those_of_the_model_with_other_attributes(data, kind, near):
    if near.endswith("U(A,0.5)") and kind is not Weighted:
        near = "U(E,0.2r)xU(X,0.2r)"  # without weights, entries of A are factors of messages, which PyG's masks are
    model = make(kind)
    target = target_of(model, data, num_hops=1 if kind is Weighted else None)
    part = target.computation_graph
    samples = gf.parse_neighborhood(near).sample(part, 6, seed=2)
    given = (part.edge_id >= 0) & part.felt
    expected = []
    for s in range(6):
        x, edge_attr, kept = data.x.clone(), data.edge_attr.clone(), torch.ones(data.num_edges, dtype=torch.bool)
        weight = torch.ones(data.num_edges).double()
        if samples.features is not None:
            x[part.nodes[: part.num_visible]] -= samples.features[s, : part.num_visible]
        edge_attr[part.edge_id[given]] -= samples.attributes[s, given]
        more = {}
        if samples.edges is not None:
            weight[part.edge_id[given]] -= samples.edges[s, given]
            kept = weight != 0
            more = {"edge_weight": weight[kept]} if kind is Weighted else {}
        if kind is Attention and samples.edges is not None:
            return  # a loop that the layer adds has the mean of the attributes that are left, and a factor of its own
        with torch.no_grad():
            out = model(x, data.edge_index[:, kept], edge_attr[kept], **more)
        expected.append(float(out[3, target.label]))
    torch.testing.assert_close(target.value - target.changes(samples), torch.tensor(expected).double())


@pytest.mark.parametrize("kind", [Gine, Attention], ids=lambda kind: kind.__name__)
def test_saliency_and_integrated_gradients(data, kind):
    model = make(kind)
    explainer = Explainer(model, gf.Saliency(), "model", NODE, "attributes", "object")
    explanation = explainer(data.x, data.edge_index, index=3, edge_attr=data.edge_attr)
    label = int(explanation.target[3])

    def slope(scale):
        leaf = (scale * data.edge_attr).requires_grad_()
        return torch.autograd.grad(model(data.x, data.edge_index, leaf)[3, label], leaf)[0]

    torch.testing.assert_close(explanation.edge_attr_score, slope(1.0))
    assert sorted(explanation.available_explanations) == ["edge_mask", "node_mask"]  # PyG knows no mask of attributes.
    integrated = Explainer(model, gf.IntegratedGradients(steps=4), "model", NODE, "attributes", "object")
    found = integrated(data.x, data.edge_index, index=3, edge_attr=data.edge_attr).edge_attr_score
    torch.testing.assert_close(found, sum(slope((i + 0.5) / 4) for i in range(4)) / 4)


@pytest.mark.parametrize("near", ["U(E,0.2r)", "B(E,0.5)"])
@pytest.mark.parametrize("method", ["saliency", "linear", "anchored-kec"])
def test_a_model_that_is_linear_in_its_attributes_is_explained_whole(data, near, method):
    model = make(Weighted)
    explanation = gf.explain(model, data, 3, method=method, neighborhood=near, samples=100, test_samples=40, num_hops=1)
    assert explanation.unfaithfulness.relative < 1e-6
    expected = torch.zeros(data.num_edges, COLUMNS).double()
    expected[data.edge_index[1] == 3] = model.of_e.weight[int(explanation.target[3])].detach()
    torch.testing.assert_close(explanation.edge_attr_score, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pool", [False, True], ids=["node", "graph"])
@pytest.mark.parametrize("near", ["U(E,0.2r)", "B(E,0.5)xB(A,0.5)", "U(E,0.2r)xU(X,0.2r)xU(A,0.2)"])
def test_anchored_kec_leaves_less_than_the_gradient(data, pool, near):
    model = make(Gine, pool)
    what = {"graph": 0} if pool else {"node": 3}
    found = {
        method: gf.explain(model, data, **what, method=method, neighborhood=near, samples=150, test_samples=60)
        for method in ("anchored-kec", "saliency")
    }
    left = {method: explanation.unfaithfulness.relative for method, explanation in found.items()}
    assert left["anchored-kec"] < min(0.3, left["saliency"])
    own = found["anchored-kec"].estimate
    assert own.relative == pytest.approx(left["anchored-kec"], abs=max(0.1, 6 * own.relative_stderr))


def test_kec_says_that_its_walks_do_not_see_attributes(data):
    with pytest.raises(gf.UnsupportedError, match=r"in U\(E,0\.2r\) its p would never change"):
        gf.KEC("U(E,0.2r)")
    explanation = gf.explain(make(Gine), data, 3, method="kec", neighborhood="U(E,0.2r)xU(A,0.5)", samples=40)
    assert explanation.get("edge_attr_score") is None
    assert 0 < explanation.unfaithfulness.relative < 1


def test_scores_in_files_in_print_and_after_an_edit(data, tmp_path, capsys):
    model, near = make(Gine), "U(E,0.2r)xU(A,0.5)"
    explanation = gf.explain(model, data, 3, neighborhood=near, samples=100, test_samples=40)
    gf.save(explanation, tmp_path / "one.safetensors")
    loaded = gf.load(tmp_path / "one.safetensors")
    assert torch.equal(loaded.edge_attr_score, explanation.edge_attr_score)
    explainer = gf.explainer_for(model, data, neighborhood=near)
    again = gf.general_unfaithfulness(explainer, loaded, near, num_samples=40, seed=1)
    assert again.relative == pytest.approx(explanation.unfaithfulness.relative)
    print_explanation(Console(width=120), explanation, "ring", 3)
    assert "strongest edge attributes" in capsys.readouterr().out
    best = gf.top_attributes(explanation, 1)[0]
    assert abs(best.score) == pytest.approx(float(explanation.edge_attr_score.abs().max()))
    strongest = gf.top_attributes(explanation, 1)[0]
    said = f"{strongest.source}→{strongest.sink} column {strongest.column} {strongest.score:+.3g}"
    assert f"Strongest scores of edge attributes: {said}" in page_data([explanation])["panels"][0]["scale"]
    loaded.edge_attr_score = 2 * loaded.edge_attr_score
    assert measured_unfaithfulness(explanation) is not None
    assert measured_unfaithfulness(loaded) is None
    # Scores of others than graphfaith's are a linear p.
    plain = copy.copy(loaded)
    del plain["difference_model"]
    doubled = gf.general_unfaithfulness(explainer, plain, "U(E,0.2r)", num_samples=40, seed=1)
    right = gf.general_unfaithfulness(
        explainer,
        plain,
        "U(E,0.2r)",
        num_samples=40,
        seed=1,
        difference_model=gf.LinearModel(
            explanation.difference_model.graph, phi_e=2 * explanation.difference_model.phi_e
        ),
    )
    assert doubled.relative == pytest.approx(right.relative)


def test_attributes_of_one_number_an_edge(data):
    class Single(Gine):
        def forward(self, x, edge_index, edge_attr, batch=None):
            assert edge_attr.dim() == 1
            return super().forward(x, edge_index, edge_attr.view(-1, 1).expand(-1, COLUMNS), batch)

    single = Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr[:, 0].clone())
    explanation = gf.explain(make(Single), single, 3, neighborhood="U(E,0.2r)", samples=100, test_samples=20)
    assert explanation.edge_attr_score.shape == (data.num_edges, 1)
    assert explanation.unfaithfulness.relative < 0.5


def test_what_cannot_move_is_refused(data):
    plain = Data(x=data.x, edge_index=data.edge_index, edge_attr=torch.ones(data.num_edges, COLUMNS).double())
    with pytest.raises(gf.InputError, match=r"max\(E\) - min\(E\) is 0.*use B\(E,0\.5\)"):
        gf.explain(make(Gine), plain, 3, neighborhood="U(E,0.2r)")
    with pytest.raises(gf.InputError, match="is given no edge_attr of real numbers"):
        gf.explain(GCN(4, 5, 2, out_channels=3).double(), data, 3, neighborhood="U(E,0.2r)")
    explanation = gf.explain(make(Gine), data, 3, method="saliency", test_samples=20)
    with pytest.raises(gf.InputError, match="not of attributes"):
        gf.UniformAttributes(0.2).inside(explanation)


def test_ids_of_bonds_are_given_as_they_are(data):
    """A model may look kinds of bonds up: its edges are explained, and the ids are neither moved nor scored."""

    class Looked(nn.Module):
        def __init__(self):
            super().__init__()
            self.kinds, self.inner = nn.Embedding(4, COLUMNS), Gine()

        def forward(self, x, edge_index, edge_attr):
            return self.inner(x, edge_index, self.kinds(edge_attr))

    model, ids = make(Looked), torch.arange(data.num_edges) % 4
    bonds = Data(x=data.x, edge_index=data.edge_index, edge_attr=ids)
    looked = Data(x=data.x, edge_index=data.edge_index, edge_attr=model.kinds(ids).detach())
    asked = {"neighborhood": "B(A,0.5)", "samples": 100, "test_samples": 50}
    found, same = gf.explain(model, bonds, 3, **asked), gf.explain(model.inner, looked, 3, **asked)
    assert found.unfaithfulness.relative < 0.5
    torch.testing.assert_close(found.prediction, same.prediction)
    assert found.get("edge_attr_score") is None
    for method in ("anchored-kec", "linear", "saliency"):
        with pytest.raises(gf.InputError, match=r"whole numbers, ids of categories, are given as they are"):
            gf.explain(model, bonds, 3, method=method, neighborhood="B(E,0.5)")
    # Rows of their embedding have scores.
    assert gf.explain(model.inner, looked, 3, method="saliency", neighborhood="U(E,0.2r)").edge_attr_score.any()
