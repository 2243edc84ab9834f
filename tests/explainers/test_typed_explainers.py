"""Explanations of heterogeneous graphs: layers and mask types, by every method, as PyG's HeteroExplanation."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.explain import Explainer, HeteroExplanation
from torch_geometric.explain import algorithm as pyg
from torch_geometric.nn import FastRGCNConv, RGCNConv

import graphfaith as gf
from typed_toys import CONFIG, SIZES, TYPES, Weighted, as_data, graph, make

METHODS = {
    "anchored-kec": lambda near: gf.AnchoredKEC(near, num_samples=100),
    "kec": lambda near: gf.KEC(near, num_samples=40),
    "linear": lambda near: gf.Linear(near, num_samples=40),
    "saliency": lambda _: gf.Saliency(),
    "ig": lambda _: gf.IntegratedGradients(steps=5),
    "gnnexplainer": lambda _: gf.GNNExplainer(epochs=3),
    "pgexplainer": lambda _: gf.PGExplainer(epochs=2),
}
SIGNED = ("anchored-kec", "kec", "linear", "saliency", "ig")
LAYERS = ("sage", "gat", "gcn and sage", "weighted", "hgt", "han", "to_hetero")
UNMASKABLE = {"hgt": "HGTConv", "han": "HANConv"}  # one layer for all edge types
NODE = 5


def explainer(model, method, near="U(A,0.5)", nodes="attributes", edges="object", **config):
    algorithm = METHODS[method](near) if isinstance(method, str) else method
    kind = config.pop("kind", "model")
    options = {"node_mask_type": nodes, "edge_mask_type": edges, "model_config": {**CONFIG, **config}}
    return Explainer(model, algorithm=algorithm, explanation_type=kind, **options)


def columns_of(kind, name):
    return SIZES[name][1] if kind != "object" else 1


@pytest.mark.parametrize(
    ("nodes", "edges"), [("attributes", "object"), ("object", None), ("common_attributes", "object"), (None, "object")]
)
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    "method", ["saliency", *(pytest.param(name, marks=pytest.mark.nightly) for name in METHODS if name != "saliency")]
)
def test_masks_of_every_kind_for_every_layer(method, layers, nodes, edges):
    x, ends = graph()
    source = explainer(make(layers), method, nodes=nodes, edges=edges)
    if layers in UNMASKABLE and method not in SIGNED and edges is not None:
        with pytest.raises(gf.UnsupportedError, match=rf"cannot mask {UNMASKABLE[layers]}.*use HeteroConv"):
            source(x, ends, index=NODE)
        return
    explanation = source(x, ends, index=NODE)
    assert isinstance(explanation, HeteroExplanation)
    assert explanation.validate_masks()
    for name, (count, _) in SIZES.items():
        mask = explanation[name].get("node_mask")
        rows = 1 if nodes == "common_attributes" else count
        assert mask is None if nodes is None else mask.shape == (rows, columns_of(nodes, name))
        assert torch.equal(explanation[name].x, x[name])
    scored = [explanation[kind].get("edge_mask") for kind in TYPES]
    assert all(
        mask is None if edges is None else mask.shape == ends[kind].shape[1:]
        for kind, mask in zip(TYPES, scored, strict=True)
    )
    if edges is not None and method in SIGNED:
        assert min(float(mask.min()) for mask in scored) < 0 < max(float(mask.max()) for mask in scored)


@pytest.mark.parametrize("method", ["gnnexplainer", "pgexplainer"])
@pytest.mark.parametrize("layers", UNMASKABLE)
def test_layers_that_pyg_cannot_mask_are_named(layers, method):
    source = explainer(make(layers), method)
    words = rf"cannot mask {UNMASKABLE[layers]}, one layer for all edge types: use HeteroConv, or a method without"
    with pytest.raises(gf.UnsupportedError, match=words):
        source(*graph(), index=NODE)
    assert not source.algorithm.supports(source.model, *graph())


@pytest.mark.parametrize("method", ["anchored-kec", "kec", "linear", "ig"])
def test_han_is_explained_on_the_whole_graph(method):
    """Its attention between types averages over all nodes, so that no message is too far away to matter."""
    x, ends = graph()
    source = explainer(make("han"), method, "B(A,0.5)")
    explanation = source(x, ends, index=NODE)
    assert explanation.validate_masks()
    assert any(bool(explanation[kind].edge_mask.any()) for kind in TYPES)
    score = gf.general_unfaithfulness(source, explanation, "B(A,0.5)", num_samples=40)
    assert score.delta_zero > 0
    if method == "anchored-kec":
        assert score.relative < 0.3


@pytest.mark.parametrize("index", [NODE, torch.tensor([NODE, 8])], ids=["one", "two"])
@pytest.mark.parametrize("mode", ["multiclass_classification", "regression"])
@pytest.mark.parametrize(
    ("nodes", "edges"), [("attributes", "object"), ("object", None), ("common_attributes", "object"), (None, "object")]
)
@pytest.mark.parametrize("method", METHODS)
def test_masks_of_every_kind_for_modes_and_indices(method, nodes, edges, mode, index):
    """On one model; all layers by all methods are in the nightly test above, and PyG's grid is in test_pygs_grid.py."""
    x, ends = graph()
    near = "U(A,0.5)" if edges else "U(X,0.2r)"  # Linear knows nothing of what does not move.
    source = explainer(make("sage"), method, near, nodes=nodes, edges=edges, mode=mode)
    if method == "pgexplainer" and isinstance(index, torch.Tensor):
        with pytest.raises(gf.UnsupportedError, match="one node at a time"):
            source(x, ends, index=index)  # PyG's PGExplainer takes "only scalars" as well.
        return
    explanation = source(x, ends, index=index)
    assert isinstance(explanation, HeteroExplanation)
    assert explanation.validate_masks()
    assert torch.equal(torch.as_tensor(explanation.index).view(-1), torch.as_tensor(index).view(-1))
    masks = explanation.collect("node_mask" if edges is None else "edge_mask", True)
    assert set(masks) == set(SIZES if edges is None else TYPES)
    assert any(bool(mask.any()) for mask in masks.values())
    assert all(bool(torch.isfinite(mask).all()) for mask in masks.values())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_scored_and_same_again(method):
    x, ends = graph()
    source = explainer(make("sage"), method)
    explanation, again = source(x, ends, index=NODE), source(x, ends, index=torch.tensor([NODE]))
    for kind in TYPES:
        assert torch.equal(explanation[kind].edge_mask, again[kind].edge_mask)
    score = gf.general_unfaithfulness(source, explanation, "U(A,0.5)", num_samples=60)
    assert score.delta_zero > 0
    assert explanation.unfaithfulness == score
    assert "unexplained" in repr(explanation)
    if method == "anchored-kec":
        assert score.relative < 0.2


def test_phenomenon_and_regression():
    x, ends = graph()
    labels = torch.full((SIZES["paper"][0],), 2)
    asked = explainer(make("sage"), "saliency", kind="phenomenon")(x, ends, target=labels, index=NODE)
    assert gf.Saliency().method == asked.method
    whole = explainer(make("sage"), "saliency", mode="regression")(x, ends, index=NODE)
    assert whole["paper"].node_mask.shape == (14, 4)


def test_whoever_made_it_can_be_scored():
    x, ends = graph()
    source = explainer(make("sage"), pyg.GNNExplainer(epochs=3))
    explanation = source(x, ends, index=NODE)
    assert type(explanation) is HeteroExplanation
    score = gf.general_unfaithfulness(source, explanation, "B(A,0.5)", num_samples=40)
    assert score.relative > 0
    drawn = HeteroExplanation()
    for kind in TYPES:
        drawn[kind].edge_mask = torch.zeros(ends[kind].size(1))
        drawn[kind].edge_index = ends[kind]
    for name, rows in x.items():
        drawn[name].x = rows
    drawn.target, drawn.index = explanation.target, explanation.index
    linear = explainer(make("sage"), "saliency")
    assert gf.general_unfaithfulness(linear, drawn, "B(A,0.5)", num_samples=40).relative == pytest.approx(1.0)


def test_edited_scores_are_scored_as_they_are():
    x, ends = graph()
    source = explainer(make("sage"), "kec")
    explanation = source(x, ends, index=NODE)
    for kind in TYPES:
        explanation[kind].edge_mask = torch.zeros_like(explanation[kind].edge_mask)
    assert gf.general_unfaithfulness(source, explanation, "U(A,0.5)", num_samples=40).relative == pytest.approx(1.0)


def test_weights_by_type_are_arguments_of_the_explainer():
    torch.manual_seed(1)
    model, (x, ends) = Weighted().eval(), graph()
    weights = {kind: torch.rand(pairs.size(1)) + 0.5 for kind, pairs in ends.items()}
    source = explainer(model, "anchored-kec")
    explanation = source(x, ends, index=NODE, edge_weight_dict=weights)
    assert explanation.edge_route == "weight"
    score = gf.general_unfaithfulness(source, explanation, "U(A,0.5)", num_samples=60)
    other = gf.general_unfaithfulness(source, source(x, ends, index=NODE), "U(A,0.5)", num_samples=60)
    assert score.relative < 0.2
    assert score.delta_zero != other.delta_zero


def test_what_if_is_asked_by_type():
    x, ends = graph()
    explanation = gf.explain(make("weighted"), as_data(x, ends), NODE, neighborhood="B(A,0.5)", test_samples=50)
    strongest = explanation.top_edges(1)[0]
    answer = explanation.what_if([strongest[:3]], check=True)
    assert answer.change == pytest.approx(answer.actual, abs=0.3 * abs(answer.actual) + 0.02)
    model = make("weighted")
    kept = {kind: pairs.clone() for kind, pairs in ends.items()}
    kind, source, sink = strongest[:3]
    gone = (kept[kind][0] == source) & (kept[kind][1] == sink)
    kept[kind] = kept[kind][:, ~gone]
    label = int(explanation.target[NODE])
    with torch.no_grad():
        change = model(x, kept)[NODE, label] - model(x, ends)[NODE, label]
    assert answer.actual == pytest.approx(float(change), abs=1e-5)
    with pytest.raises(gf.InputError, match="no edge of type"):
        explanation.what_if([(TYPES[0], 3, 3)])
    set_one = explanation.what_if(set={("paper", NODE, 1): 0.0}, check=True)
    assert set_one.actual is not None


def test_what_a_graph_of_types_lacks_is_named():
    x, ends = graph()
    with pytest.raises(gf.InputError, match="there is no edge_index"):
        gf.explain(make("sage"), as_data(x, {}), NODE)
    lacking = as_data({name: rows for name, rows in x.items() if name != "word"}, ends)
    with pytest.raises(gf.InputError, match="there is no x of word"):
        gf.explain(make("sage"), lacking, NODE)


def test_gf_explain_takes_hetero_data_and_dictionaries_of_outputs():
    x, ends = graph()
    model = make("to_hetero").model
    explanation = gf.explain(model, as_data(x, ends), 2, method="saliency", node_type="word", test_samples=20)
    assert explanation.node_type == "word"
    with pytest.raises(gf.InputError, match="node type"):
        gf.explain(model, as_data(x, ends), 2, node_type="tree")
    source = gf.explainer_for(model, as_data(x, ends), method="kec", node_type="word")
    assert source(x, ends, index=2).node_type == "word"


@pytest.mark.parametrize("method", [gf.Shapley(num_samples=70), gf.SubgraphX(max_nodes=3, num_samples=10, rollouts=2)])
def test_methods_of_one_type_say_the_way_out(method):
    with pytest.raises(gf.UnsupportedError, match="to_homogeneous"):
        explainer(make("sage"), method, nodes=None)(*graph(), index=NODE)


def test_many_nodes_say_the_way_out():
    x, ends = graph()
    for ask in (gf.explain_nodes, gf.explain_all):
        with pytest.raises(gf.GraphfaithError, match="one at a time"):
            list(ask(explainer(make("sage"), "kec"), x, ends))
    with pytest.raises(gf.GraphfaithError, match="to_homogeneous"):
        gf.judge(make("sage"), as_data(x, ends), ["kec"], [1])


def test_a_typed_model_on_one_graph_is_refused():
    with pytest.raises(gf.UnsupportedError, match="x_dict"):
        explainer(make("sage"), "kec")(torch.rand(4, 2), torch.tensor([[0], [1]]), index=0)


class Relational(torch.nn.Module):
    """Two layers of edge types in one graph."""

    def __init__(self, conv):
        super().__init__()
        self.first, self.second = conv(3, 5, 2), conv(5, 3, 2)

    def forward(self, x, edge_index, edge_type):
        return self.second(self.first(x, edge_index, edge_type).tanh(), edge_index, edge_type)


@pytest.mark.parametrize("method", ["gnnexplainer", "pgexplainer"])
def test_pyg_masks_relations_in_one_layer_and_the_way_there_is_said(method):
    torch.manual_seed(0)
    slow = Relational(RGCNConv).eval()  # made first, so that PyG takes its propagate for that of the other class
    fast = Relational(FastRGCNConv).eval()
    fast.load_state_dict(slow.state_dict())
    ends, x, kinds = torch.tensor([[1, 2, 3, 4, 2, 5], [0, 0, 1, 2, 1, 4]]), torch.rand(6, 3), torch.arange(6) % 2
    torch.testing.assert_close(fast(x, ends, kinds), slow(x, ends, kinds))
    nodes = None if method == "pgexplainer" else "attributes"
    explanation = explainer(fast, method, nodes=nodes)(x, ends, index=0, edge_type=kinds)
    assert bool(explanation.edge_mask.any())
    refusing = explainer(slow, method, nodes=nodes)
    with pytest.raises(gf.UnsupportedError, match="use FastRGCNConv, which has the same parameters"):
        refusing(x, ends, index=0, edge_type=kinds)
    assert not refusing.algorithm.supports(slow)
    assert refusing.algorithm.supports(fast)
    if nodes is not None:  # No edge is masked then.
        alone = explainer(slow, method, nodes=nodes, edges=None)(x, ends, index=0, edge_type=kinds)
        assert bool(alone.node_mask.any())


@pytest.mark.parametrize("conv", [RGCNConv, FastRGCNConv])
def test_layers_of_edge_types_in_one_graph(conv):
    torch.manual_seed(0)
    RGCNConv(3, 5, 2)  # Another class's propagate must not be taken for that of FastRGCNConv.
    ends = torch.tensor([[1, 2, 3, 4, 2, 5], [0, 0, 1, 2, 1, 4]])
    x = torch.rand(6, 3).double()  # The target keeps no tensor of its caller alive.
    target = gf.Target(Relational(conv).eval().double(), x, ends, 0, edge_type=torch.arange(6) % 2)
    part, (_, slope) = target.computation_graph, target.gradient()
    assert target.route == "removal"
    for entry in part.felt.nonzero().view(-1).tolist():
        weight = part.weight.clone()
        weight[entry] -= 1e-6
        assert (target.value - float(target.evaluate(weight=weight))) / 1e-6 == pytest.approx(
            float(slope[entry]), abs=1e-5
        )
    kept = torch.tensor([True, False, True, True, True, True])
    gone = part.weight.clone()
    gone[part.edge_id == 1] = 0
    with torch.no_grad():
        alone = target.model(x, ends[:, kept], edge_type=(torch.arange(6) % 2)[kept])
    assert float(target.evaluate(weight=gone)) == pytest.approx(float(alone[0, target.label]), abs=1e-9)
