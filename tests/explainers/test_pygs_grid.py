"""The grid of PyG's own tests of heterogeneous explanations, for every method of graphfaith.

PyG crosses masks, levels of the task, what the model returns, what is explained (the model's class or a given one) and
the rows of the output, on a small graph of papers and authors with a model of ``to_hetero`` and one of ``HeteroConv``.
Its models return a row for each paper whatever the level is said to be. A few cases of every kind run by default.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch_geometric.explain import Explainer, HeteroExplanation
from torch_geometric.nn import GCNConv, HeteroConv, SAGEConv, to_hetero

import graphfaith as gf
from typed_toys import as_data

SIZES = {"paper": (8, 16), "author": (10, 8)}
TYPES = (("paper", "to", "paper"), ("paper", "to", "author"), ("author", "to", "paper"))
CLASSES = 7
METHODS = {
    "anchored-kec": lambda near: gf.AnchoredKEC(near, num_samples=20),
    "kec": lambda near: gf.KEC(near, num_samples=20),
    "linear": lambda near: gf.Linear(near, num_samples=20),
    "saliency": lambda _: gf.Saliency(),
    "ig": lambda _: gf.IntegratedGradients(steps=3),
    "gnnexplainer": lambda _: gf.GNNExplainer(epochs=2),
    "pgexplainer": lambda _: gf.PGExplainer(epochs=2),
}
LEARN_MASKS = ("gnnexplainer", "pgexplainer")
MASKS = [pair for pair in product(("object", "common_attributes", "attributes", None), ("object", None)) if any(pair)]
AXES = {
    "method": tuple(METHODS),
    "layers": ("to_hetero", "HeteroConv"),
    "level": ("node", "graph", "graph, pooled"),
    "returns": ("raw", "probs", "log_probs"),
    "kind": ("model", "phenomenon"),
    "index": (None, 2, (0, 1, 2)),
}
_FINISH = {"raw": torch.nn.Identity(), "probs": torch.nn.Softmax(-1), "log_probs": torch.nn.LogSoftmax(-1)}


def graph():
    generator = torch.Generator().manual_seed(12)
    x = {name: torch.randn(size, generator=generator) for name, size in SIZES.items()}
    edges = {}
    for kind in TYPES:
        ends = torch.stack([torch.randint(0, SIZES[end][0], (10,), generator=generator) for end in kind[::2]])
        edges[kind] = torch.unique(ends[:, (ends[0] != ends[1]) | (kind[0] != kind[2])], dim=1)
    return x, edges


class Plain(torch.nn.Module):
    """Two layers, which to_hetero multiplies by the types of edges."""

    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 8)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Papers(torch.nn.Module):
    """Classes of papers, or of the graph if it is ``pooled``."""

    def __init__(self, layers, returns, *, pooled=False):
        super().__init__()
        if layers == "to_hetero":
            self.inner = to_hetero(Plain(), (list(SIZES), list(TYPES)))
        else:
            self.inner = HeteroConv({k: GCNConv(-1, 8) if k[0] == k[2] else SAGEConv((-1, -1), 8) for k in TYPES})
        self.out, self.finish, self.pooled = torch.nn.Linear(8, CLASSES), _FINISH[returns], pooled

    def forward(self, x_dict, edge_index_dict):
        papers = self.inner(x_dict, edge_index_dict)["paper"]
        return self.finish(self.out(papers.mean(dim=0, keepdim=True) if self.pooled else papers))


def make(layers, returns="raw", *, pooled=False):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = Papers(layers, returns, pooled=pooled).eval()
        with torch.no_grad():
            model(*graph())  # Layers find their widths out.
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def explainer_of(model, method, masks=("attributes", "object"), kind="model", level="node", returns="raw", **more):
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": returns}
    near = "U(A,0.5)" if masks[1] else "U(X,0.2r)"  # Linear knows nothing of what does not move.
    options = {"node_mask_type": masks[0], "edge_mask_type": masks[1], "model_config": config, **more}
    return Explainer(model, METHODS[method](near), explanation_type=kind, **options)


def check(explanation, masks, method, ends):
    """Check what PyG's tests check, the masks of every type; scores of graphfaith's own methods have signs."""
    assert isinstance(explanation, HeteroExplanation)
    assert explanation.validate(raise_on_error=True)
    found = []
    for name, (count, width) in SIZES.items():
        mask, kind = explanation[name].get("node_mask"), masks[0]
        rows, columns = 1 if kind == "common_attributes" else count, 1 if kind == "object" else width
        assert mask is None if kind is None else mask.shape == (rows, columns)
        found += [] if kind is None else [mask]
    for kind in TYPES:
        mask = explanation[kind].get("edge_mask")
        assert mask is None if masks[1] is None else mask.shape == ends[kind].shape[1:]
        found += [] if masks[1] is None else [mask]
    assert all(bool(torch.isfinite(mask).all()) for mask in found)
    assert any(bool(mask.any()) for mask in found)
    if method in LEARN_MASKS:
        assert all(bool(((mask >= 0) & (mask <= 1)).all()) for mask in found)


def cases():
    """Every case with all masks, and some with a few masks, which are the default run."""
    found = []
    for place, case in enumerate(product(*AXES.values())):
        if case[2] == "graph, pooled" and case[5] is not None:
            continue  # A graph that is pooled is one row.
        found.append(pytest.param(*case, MASKS, marks=pytest.mark.nightly))
        if place % 13 == 0:
            found.append(pytest.param(*case, [MASKS[(place + k) % len(MASKS)] for k in (0, 3)]))
    return found


def test_the_default_run_has_every_value_of_every_axis_by_each_method():
    short = [one.values for one in cases() if not one.marks]
    for axis, values in enumerate(list(AXES.values())[1:], start=1):
        for method in METHODS:
            assert {case[axis] for case in short if case[0] == method} == set(values), (method, axis)
    for method in METHODS:
        assert len({masks for case in short if case[0] == method for masks in case[-1]}) > 4


@pytest.mark.parametrize((*AXES, "chosen"), cases())
def test_pygs_grid(method, layers, level, returns, kind, index, chosen):
    x, ends = graph()
    model = make(layers, returns, pooled=level == "graph, pooled")
    with torch.no_grad():
        out = model(x, ends)
    rows = None if index is None else torch.tensor(index).view(-1)
    given = {} if kind == "model" else {"target": (out.argmax(dim=-1) + 1) % CLASSES}  # not the model's own answer
    for masks in chosen:
        source = explainer_of(model, method, masks, kind, level.partition(",")[0], returns)
        if method == "pgexplainer" and level == "node" and index != 2:
            with pytest.raises(gf.UnsupportedError, match="one node at a time"):
                source(x, ends, index=rows, **given)  # PyG's PGExplainer takes one node, too.
            continue
        explanation = source(x, ends, index=index if index == 2 else rows, **given)
        check(explanation, masks, method, ends)
        assert torch.equal(explanation.target, given.get("target", out.argmax(dim=-1)))
        assert index is None if rows is None else torch.equal(explanation.index.view(-1), rows)


@pytest.mark.parametrize("layers", AXES["layers"])
@pytest.mark.parametrize("index", [2, (0, 1, 2), None], ids=str)
def test_rows_of_papers_at_graph_level_are_those_at_node_level(layers, index):
    """What PyG's fixtures do: a row is a number of the output, whatever the level calls it."""
    x, ends = graph()
    rows = None if index is None else torch.tensor(index).view(-1)
    for method in ("saliency", "anchored-kec"):
        found = []
        for level in ("node", "graph"):
            source = explainer_of(make(layers), method, level=level)
            explanation = source(x, ends, index=rows)
            found.append((explanation, gf.general_unfaithfulness(source, explanation, "B(A,0.5)", num_samples=30)))
        (own, right), (explanation, number) = found
        assert number.delta_zero == pytest.approx(right.delta_zero, rel=1e-4)
        if method == "saliency":
            for kind in TYPES:
                torch.testing.assert_close(explanation[kind].edge_mask, own[kind].edge_mask, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_links_are_refused_in_one_line(method):
    x, ends = graph()
    with pytest.raises(gf.UnsupportedError, match=r"PGExplainer has no argument|links of heterogeneous graphs"):
        explainer_of(make("HeteroConv"), method, level="edge")(x, ends, index=2)


@pytest.mark.parametrize("kind", ["hard", "topk", "topk_hard"])
@pytest.mark.parametrize("method", METHODS)
def test_thresholds_keep_the_largest_scores_of_each_type(method, kind):
    x, ends = graph()
    model = make("HeteroConv")
    for masks in (("attributes", "object"), ("object", "object")):
        whole = explainer_of(model, method, masks)(x, ends, index=2)
        for place, value in enumerate((0.2, 0.5, 0.8) if kind == "hard" else (1, 5, 10)):
            explanation = whole.threshold(kind, value)
            if masks[0] == "attributes" and not place:
                asked = explainer_of(model, method, masks, threshold_config=(kind, value))(x, ends, index=2)
                assert all(torch.equal(asked[one].edge_mask, explanation[one].edge_mask) for one in TYPES)
            compared = 0
            for name in ("node_mask", "edge_mask"):
                before, after = whole.collect(name, True), explanation.collect(name, True)
                assert set(after) == set(before)
                for key, mask in after.items():
                    own = before[key].flatten()
                    compared += 1
                    if kind == "hard":
                        assert torch.equal(mask.flatten(), (own > value).float())
                        continue
                    kept, wanted = mask.flatten() != 0, min(value, own.numel())
                    assert int(kept.sum()) <= wanted
                    if kind == "topk":
                        assert torch.equal(mask.flatten()[kept], own[kept])
                    else:
                        assert set(mask.unique().tolist()) <= {0.0, 1.0}
                        assert int(kept.sum()) == wanted
                    left = own[~kept & (own != 0)] if kind == "topk" else own[~kept]
                    if len(left) and bool(kept.any()):
                        assert float(left.max()) <= float(own[kept].min())
            assert compared == len(SIZES) + len(TYPES)
            assert "not measured" in repr(explanation)


def test_a_measured_explanation_has_no_number_once_it_is_thresholded():
    x, ends = graph()
    source = explainer_of(make("HeteroConv"), "kec")
    explanation = source(x, ends, index=2)
    gf.general_unfaithfulness(source, explanation, "U(A,0.5)", num_samples=20)
    assert repr(explanation).count("not measured") == 1  # of features, which stay still
    assert repr(explanation.threshold("topk", 2)).count("not measured") == 2


def test_gf_explain_takes_pygs_graph_at_both_levels():
    data = as_data(*graph())
    for pooled, level in ((False, "node"), (True, "graph")):
        model, asked = make("to_hetero", pooled=pooled), {"graph": 0} if pooled else {}
        explanation = gf.explain(model, data, *(() if pooled else (2,)), method="saliency", test_samples=20, **asked)
        assert explanation["paper"].node_mask.shape == SIZES["paper"], level
