"""Every method, through PyG's own Explainer."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric.explain import CaptumExplainer
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import graphfaith as gf
from explaining import METHODS, SIGNED, by_slope, captum_speaks, explain, explainer_of
from graphfaith.model.target import Target
from reference import Case, TwoLayerGCN, make_case


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("node", [None, "attributes", "object", "common_attributes"])
@pytest.mark.parametrize("edge", [None, "object"])
def test_mask_types(name, node, edge):
    if node is None and edge is None:
        return
    case = make_case(seed=11, features=4)
    _, explanation = explain(case, METHODS[name]("U(X,0.2r)xU(A,0.5)"), node=node, edge=edge)
    n, d = case.x.shape
    shapes = {"attributes": (n, d), "object": (n, 1), "common_attributes": (1, d)}
    assert ("node_mask" in explanation) == (node is not None)
    assert ("edge_mask" in explanation) == (edge is not None)
    if node is not None:
        assert explanation.node_mask.shape == shapes[node]
        assert torch.isfinite(explanation.node_mask).all()
        assert explanation.node_mask.abs().sum() > 0 or explanation.features_scored is False
    if edge is not None:
        assert explanation.edge_mask.shape == (case.edge_index.size(1),)
        assert torch.isfinite(explanation.edge_mask).all()
    assert explanation.self_loop_score.shape == (n,)
    assert explanation.validate()


@pytest.mark.parametrize("name", SIGNED)
def test_masks_of_nodes_and_columns_are_derivatives_with_respect_to_masks(name):
    case = make_case(seed=11)
    near = "U(X,0.2r)xU(A,0.5)"
    full, by_node, by_column = (
        explain(case, by_slope(METHODS[name](near)), node=kind)[1].node_mask
        for kind in ("attributes", "object", "common_attributes")
    )
    assert torch.allclose(by_node, (full * case.x).sum(dim=1, keepdim=True))
    assert torch.allclose(by_column, (full * case.x).sum(dim=0, keepdim=True))


@pytest.mark.parametrize("name", METHODS)
def test_model_random_state_and_inputs_are_untouched(name):
    case = make_case(seed=12)
    case.model.train()
    case.model.convs[0].eval()
    # One part in eval mode inside a model in train mode; PyG's Explainer itself forgets that, so call the method.
    algorithm = METHODS[name]()
    explainer_of(case.model, algorithm)
    case.model.train()
    case.model.convs[0].eval()
    for parameter in case.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    next(case.model.parameters()).requires_grad_(False)
    before = copy.deepcopy(case.model.state_dict())
    attributes = [sorted(vars(conv)) for conv in case.model.convs]
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    inputs = [t.clone() for t in (case.x, case.edge_index, case.edge_weight)]
    labels = torch.ones(len(case.x), dtype=torch.long)
    algorithm(case.model, case.x, case.edge_index, target=labels, index=torch.tensor([case.node]), **case.kwargs)
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    assert case.model.training
    assert case.model.convs[1].training
    assert not case.model.convs[0].training
    after = case.model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert [p.requires_grad for p in case.model.parameters()] == [False, True, True, True]
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in case.model.parameters())
    for conv, names in zip(case.model.convs, attributes, strict=True):
        assert sorted(vars(conv)) == names
        assert conv._edge_mask is None
        assert conv.explain is None
        assert "_edge_mask" not in conv._parameters
        assert not conv._forward_hooks
        assert not conv._forward_pre_hooks
    for old, new in zip(inputs, (case.x, case.edge_index, case.edge_weight), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_answer_whatever_the_global_seed(name):
    case = make_case(seed=13, dtype=torch.float32)
    results = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        results.append(explain(case, METHODS[name]())[1])
    assert torch.equal(results[0].edge_mask, results[1].edge_mask)
    assert torch.equal(results[0].node_mask, results[1].node_mask)


@pytest.mark.parametrize("name", METHODS)
def test_isolated_node_and_phenomenon(name):
    case = make_case(seed=14, isolated=True)
    labels = torch.zeros(len(case.x), dtype=torch.long)
    call = explainer_of(case.model, METHODS[name](), kind="phenomenon")
    explanation = call(case.x, case.edge_index, target=labels, index=case.node, **case.kwargs)
    assert torch.isfinite(explanation.edge_mask).all()
    assert explanation.difference_model.graph.num_edges == 1  # its own loop
    score = gf.general_unfaithfulness(call, explanation, "U(A,0.5)")
    assert score.value == pytest.approx(0, abs=1e-20)  # N(A) of a single loop is 1 whatever its weight
    assert score.relative == 0


@pytest.mark.parametrize("name", SIGNED)
def test_scores_outside_the_reach_are_zero_and_signs_appear(name):
    case = make_case(seed=1, nodes=12, edges=18)
    _, explanation = explain(case, METHODS[name]("U(X,0.2r)xU(A,0.5)"))
    graph = explanation.difference_model.graph
    outside = torch.ones(len(case.x), dtype=torch.bool)
    outside[graph.nodes[: graph.num_visible]] = False
    assert (explanation.node_mask[outside] == 0).all()
    unfelt = torch.ones(case.edge_index.size(1), dtype=torch.bool)
    unfelt[graph.edge_id[graph.edge_id >= 0]] = False
    assert (explanation.edge_mask[unfelt] == 0).all()
    assert (explanation.node_mask > 0).any()
    assert (explanation.node_mask < 0).any()


def test_doubling_the_model_doubles_signed_scores():
    case = make_case(seed=16)
    double = copy.deepcopy(case.model)
    with torch.no_grad():
        double.convs[-1].lin.weight *= 2
        double.convs[-1].bias *= 2
    for name in SIGNED:
        once = explain(case, METHODS[name]())[1]
        twice = explain(Case(double, *[getattr(case, f) for f in _REST]), METHODS[name]())[1]
        assert torch.allclose(2 * once.edge_mask, twice.edge_mask, atol=1e-10), name


_REST = ("x", "edge_index", "edge_weight", "node", "label", "layers")


@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.3)", "U(X,0.3r)", "U(X,0.3r)xU(A,0.5)"])
@pytest.mark.parametrize("num_samples", [10, 80])
def test_linear_is_the_pseudo_inverse(text, num_samples):
    case = make_case(seed=17)
    target, near = Target(case.model, case.x, case.edge_index, case.node, 1, **case.kwargs), gf.parse_neighborhood(text)
    graph = target.computation_graph
    p = gf.Linear(near, num_samples=num_samples, seed=2).fit(target)
    sample = near.sample(graph, num_samples, seed=2)
    parts = []
    if sample.features is not None:
        parts.append(sample.features[:, : graph.num_visible].flatten(1).double().numpy())
    if sample.edges is not None:
        parts.append(sample.edges.numpy())
    epsilon, delta = np.concatenate(parts, axis=1), target.changes(sample).numpy()
    expected = np.linalg.pinv(epsilon, rcond=1e-6) @ delta
    found = []
    if sample.features is not None:
        found.append(p.phi_x[: graph.num_visible].flatten().numpy())
    if sample.edges is not None:
        found.append(p.phi_a.numpy())
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-6)
    assert p.in_sample_error == pytest.approx(np.mean((epsilon @ expected - delta) ** 2), rel=1e-5, abs=1e-12)
    if near.perturbs_features:
        assert p.phi_x.abs().max() > 0
    else:
        assert p.phi_x.abs().max() == 0


def test_linear_in_blocks_of_nodes(monkeypatch):
    case = make_case(seed=17)
    target = Target(case.model, case.x, case.edge_index, case.node, 1, **case.kwargs)
    whole = gf.Linear("U(X,0.3r)xU(A,0.5)", num_samples=20).fit(target)
    monkeypatch.setattr("graphfaith.explainers.linear.CHUNK_BYTES", 1)
    parts = gf.Linear("U(X,0.3r)xU(A,0.5)", num_samples=20).fit(target)
    assert torch.allclose(whole.phi_x, parts.phi_x, atol=1e-10)


@captum_speaks
def test_saliency_agrees_with_captum():
    # Captum's masks act on messages, so the comparison is made where that is the route: a GAT.
    torch.manual_seed(0)
    case = make_case(seed=18, weighted=False, loops=False, dtype=torch.float32)
    model = GAT(4, 6, num_layers=2, out_channels=3, heads=2).eval()
    ours = explainer_of(model, gf.Saliency())(case.x, case.edge_index, index=case.node)
    theirs = explainer_of(model, CaptumExplainer("Saliency", abs=False))(case.x, case.edge_index, index=case.node)
    assert ours.edge_route == "removal"
    assert torch.allclose(ours.edge_mask, theirs.edge_mask, atol=1e-6)
    assert torch.allclose(ours.node_mask, theirs.node_mask, atol=1e-6)
    assert ours.edge_mask.abs().max() > 1e-3


@captum_speaks
def test_feature_saliency_of_a_gcn_agrees_with_captum():
    case = make_case(seed=18, weighted=False, loops=False, dtype=torch.float32)
    _, ours = explain(case, gf.Saliency(), edge=None)
    _, theirs = explain(case, CaptumExplainer("Saliency", abs=False), edge=None)
    assert ours.edge_route == "weight"
    assert torch.allclose(ours.node_mask, theirs.node_mask, atol=1e-6)


@pytest.mark.parametrize("baseline", ["zero", "random", "full"])
def test_integrated_gradients_are_complete(baseline):
    case = make_case(seed=19, nodes=10, edges=40)
    target = Target(case.model, case.x, case.edge_index, case.node, 1, **case.kwargs)
    method = gf.IntegratedGradients(steps=200, baseline=baseline)
    p = method.fit(target)
    graph = target.computation_graph
    x0, a0 = method.baselines(target)
    by_x = float((p.phi_x * (graph.x - x0))[: graph.num_visible].sum())
    by_a = float((p.phi_a * (graph.weight - a0)).sum())
    if baseline == "full":
        # At A = 0 N(A) is not continuous, so the line is followed from just above it.
        start = target(1e-9 * graph.x, 1e-9 * graph.weight)
        assert by_x + by_a == pytest.approx(target.value - float(start.detach()), abs=0.005)
    else:
        assert by_x == pytest.approx(target.value - float(target(x=x0).detach()), abs=0.005)
        start = a0 if baseline == "random" else 1e-9 * graph.weight
        assert by_a == pytest.approx(target.value - float(target(weight=start).detach()), abs=0.005)


def test_integrated_gradients_follow_the_midpoints():
    case = make_case(seed=19, nodes=10, edges=40)
    target = Target(case.model, case.x, case.edge_index, case.node, 1, **case.kwargs)
    graph = target.computation_graph
    by_hand = [target.gradient(weight=graph.weight * share)[1] for share in (0.125, 0.375, 0.625, 0.875)]
    assert torch.allclose(gf.IntegratedGradients(steps=4).fit(target).phi_a, sum(by_hand) / 4, atol=1e-12)


def test_integrated_gradients_in_chunks(monkeypatch):
    case = make_case(seed=19)
    target = Target(case.model, case.x, case.edge_index, case.node, 1, **case.kwargs)
    whole = gf.IntegratedGradients(steps=7, baseline="full").fit(target)
    monkeypatch.setattr("graphfaith._base.memory.CHUNK_BYTES", 1)
    parts = gf.IntegratedGradients(steps=7, baseline="full").fit(target)
    assert torch.allclose(whole.phi_x, parts.phi_x, atol=1e-12)
    assert torch.allclose(whole.phi_a, parts.phi_a, atol=1e-12)


def learnt_edges(graph):
    """The edges a mask weighs: PyG leaves self-loops at 1 in layers that add them."""
    return graph.edge_id[(graph.edge_id >= 0) & graph.carries_message & ~graph.is_loop]


@pytest.mark.parametrize("name", ["gnnexplainer", "pgexplainer"])
def test_edges_that_carry_no_message_are_dropped_or_kept(name):
    case = make_case(seed=1, nodes=12, edges=18)
    make = {"gnnexplainer": gf.GNNExplainer, "pgexplainer": gf.PGExplainer}[name]
    for silent, weight in (("drop", 0), ("keep", 1)):
        explanation = explain(case, make(epochs=3, silent=silent))[1]
        p = explanation.difference_model
        quiet = ~p.graph.carries_message & ~p.graph.is_loop
        assert quiet.any()
        if name == "gnnexplainer" or silent == "keep":
            assert (p.edge_mask[quiet] == weight).all()
            assert (explanation.edge_mask[p.graph.edge_id[quiet]] == 0).all()


def test_gnnexplainer_hard_and_soft():
    case = make_case(seed=20, nodes=10, edges=40)
    soft = explain(case, gf.GNNExplainer(epochs=20, seed=1))[1]
    hard = explain(case, gf.GNNExplainer(hard=True, epochs=20, seed=1))[1]
    graph = soft.difference_model.graph
    learnt = learnt_edges(graph)
    assert ((soft.edge_mask[learnt] >= 0.5).double() == hard.edge_mask[learnt]).all()
    assert 0 < soft.edge_mask[learnt].min() < soft.edge_mask[learnt].max() < 1
    assert torch.equal(soft.node_mask, hard.node_mask)
    p = hard.difference_model
    assert (p.edge_mask[graph.is_loop] == 1).all()
    assert (hard.edge_mask[graph.edge_id[graph.is_loop & (graph.edge_id >= 0)]] == 0).all()
    assert (graph.is_loop & (graph.edge_id >= 0)).any()
    assert torch.allclose(p.x[: graph.num_visible], (case.x * hard.node_mask)[graph.nodes[: graph.num_visible]])


def test_pgexplainer_keeps_the_share_it_was_asked_for():
    case = make_case(seed=20, nodes=10, edges=40)
    for keep in (0.135, 0.5, 1.0):
        explanation = explain(case, gf.PGExplainer(epochs=2, keep=keep))[1]
        graph = explanation.difference_model.graph
        given = graph.edge_id[(graph.edge_id >= 0) & ~graph.is_loop]
        assert explanation.edge_mask[given].sum() == np.ceil(keep * len(given))


def test_pgexplainer_trained_on_several_nodes(monkeypatch):
    from torch_geometric.explain.algorithm import PGExplainer

    case = make_case(seed=20, nodes=10, edges=40)
    defaults = copy.deepcopy(PGExplainer.coeffs)
    algorithm = gf.PGExplainer(epochs=3, keep=0.5, edge_size=0.7)
    call = explainer_of(case.model, algorithm)
    labels = case.model(case.x, case.edge_index, case.edge_weight).argmax(dim=1)
    algorithm.train_on(case.model, case.x, case.edge_index, [0, 1, 2], target=labels, **case.kwargs)
    monkeypatch.setattr(algorithm, "_train", None)  # no training when it explains
    explanation = call(case.x, case.edge_index, index=case.node, **case.kwargs)
    assert set(explanation.edge_mask.tolist()) == {0.0, 1.0}
    assert defaults == PGExplainer.coeffs
    with pytest.raises(gf.InputError, match="at least one node"):
        algorithm.train_on(case.model, case.x, case.edge_index, [], target=labels)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("make", [GCN, GAT, GIN, GraphSAGE])
def test_models_of_pyg(name, make):
    torch.manual_seed(1)
    case = make_case(seed=21, weighted=False, dtype=torch.float32)
    model = make(4, 6, num_layers=2, out_channels=3)
    call = explainer_of(model, METHODS[name]())
    explanation = call(case.x, case.edge_index, index=case.node)
    assert explanation.edge_route == ("weight" if make is GCN else "removal")
    assert torch.isfinite(explanation.edge_mask).all()
    assert np.isfinite(gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=20).value)


@pytest.mark.parametrize("name", METHODS)
def test_binary_and_regression(name):
    case = make_case(seed=22)
    model = TwoLayerGCN(4, classes=1).double()
    for config in (
        {"mode": "binary_classification", "task_level": "node", "return_type": "raw"},
        {"mode": "regression", "task_level": "node", "return_type": "raw"},
    ):
        call = explainer_of(model, METHODS[name](), config=config)
        explanation = call(case.x, case.edge_index, index=case.node, **case.kwargs)
        assert np.isfinite(gf.general_unfaithfulness(call, explanation, "U(A,0.5)", num_samples=20).value)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": 99}, "node 99 is out of range: the graph has nodes 0 to 7"),
        ({"index": -1}, "node -1 is out of range"),
        ({"index": torch.tensor([0, 8])}, "node 8 is out of range"),
        ({"index": torch.tensor([], dtype=torch.long)}, "index is empty"),
        ({"index": torch.tensor([[0, 1]])}, "index must be None, a whole number"),
        ({"index": 0.5}, "index must be None, a whole number"),
        ({"x": torch.full((8, 4), float("nan")).double()}, r"x\[0, 0\] is nan"),
        ({"x": torch.full((8, 4), float("inf")).double()}, r"x\[0, 0\] is inf"),
        ({"edge_weight": -1}, "weight -1: weights must be 0 or more"),
        ({"edge_weight": float("inf")}, r"edge_weight\[0\] is inf"),
        ({"edge_weight": "short"}, "edge_weight must have one number for each"),
        ({"edge_index": "float"}, "edge_index must hold int64"),
        ({"edge_index": "far"}, "edge_index names node 8, but the graph has nodes 0 to 7"),
    ],
    ids=str,
)
def test_bad_input_is_named(name, change, message):
    case = make_case(seed=23)
    inputs = {"x": case.x, "edge_index": case.edge_index, "index": case.node, "edge_weight": case.edge_weight}
    if isinstance(change.get("edge_weight"), str):
        change = {"edge_weight": case.edge_weight[:-1]}
    elif "edge_weight" in change:
        change = {"edge_weight": torch.full_like(case.edge_weight, change["edge_weight"])}
    elif "edge_index" in change:
        far = torch.cat([case.edge_index[:, :-1], torch.tensor([[8], [0]])], dim=1)
        wrong = {"float": case.edge_index.double(), "far": far}
        change = {"edge_index": wrong[change["edge_index"]]}
    inputs.update(change)
    algorithm = METHODS[name]()
    explainer_of(case.model, algorithm)
    labels = torch.zeros(len(case.x), dtype=torch.long)
    with pytest.raises((gf.InputError, gf.UnsupportedError), match=message):
        algorithm(case.model, inputs.pop("x"), inputs.pop("edge_index"), target=labels, **inputs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gf.KEC("U(B,0.5)"), r"cannot read the neighbourhood 'U\(B,0.5\)'"),
        (lambda: gf.KEC("U(A,0.5)", num_samples=0), "num_samples must be a whole number of at least 1"),
        (lambda: gf.KEC("U(A,0.5)", threshold=-1), "threshold must be 0 or more"),
        (lambda: gf.KEC("U(A,0.5)", threshold=float("nan")), "threshold must be 0 or more"),
        (lambda: gf.KEC("U(A,0.5)", num_hops=0), "num_hops"),
        (lambda: gf.KEC("U(A,0.5)", seed=-3), "seed"),
        (lambda: gf.KEC("B(A,1.5)"), "sigma must be above 0 and at most 1"),
        (lambda: gf.IntegratedGradients(steps=0), "steps"),
        (lambda: gf.IntegratedGradients(steps=10, baseline="mean"), "baseline must be one of zero, random, full"),
        (lambda: gf.GNNExplainer(epochs=0), "epochs"),
        (lambda: gf.GNNExplainer(lr=0), "lr"),
        (lambda: gf.PGExplainer(keep=0), "keep"),
        (lambda: gf.PGExplainer(silent="hide"), "silent must be one of drop, keep"),
    ],
)
def test_bad_parameters_are_refused_at_once(make, message):
    with pytest.raises(gf.InputError, match=message):
        make()


def test_a_cached_gcn_is_refused():
    model = GCN(4, 6, num_layers=2, out_channels=3, cached=True)
    case = make_case(seed=23, dtype=torch.float32)
    with pytest.raises(gf.ModelError, match="cached=True"):
        explainer_of(model, gf.KEC("U(A,0.5)"))(case.x, case.edge_index, index=0)


def test_constant_features_have_no_neighborhood():
    case = make_case(seed=24)
    with pytest.raises(gf.InputError, match="every feature of this graph is 1"):
        explain(Case(case.model, torch.ones_like(case.x), *[getattr(case, f) for f in _REST[1:]]), gf.KEC("U(X,0.2r)"))
