"""Measurements that show where the statements of Propositions 1 to 3 hold, and where they do not."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphfaith.explainers import KEC, AnchoredKEC, Linear, Saliency
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.surrogate.difference import DifferenceModel, KHopModel, SubgraphModel

from .experiment import Row, Size
from .setting import setting
from .small_models import SmallGCN, small_graph, small_target

SAMPLES, SEED = 500, 0
RANDOM = "random graph"
EXACT = 1e-12  # a relative value that is zero up to rounding in double precision
CLEAR = 1e-3  # a relative difference that is too large to be rounding
MASKED = {"ba-shapes": range(400, 700, 100), "cora": range(0, 1000, 250)}
NEARS = ("U(A,0.5)", "B(A,0.5)")
Rows = list[Row]


def _make_row(statement: str, setting: str, quantity: str, value: float, bound: float, holds: bool, **more: Any) -> Row:
    """Return a row that compares ``value``, described by ``quantity``, with ``bound``.

    ``holds`` is whether the paper's statement holds in this setting.
    """
    return {
        "statement": statement,
        "setting": setting,
        "quantity": quantity,
        "value": float(value),
        "bound": bound,
        "holds": bool(holds),
        "dataset": RANDOM,
        "method": None,
        "neighborhood": None,
        "node": None,
        "unfaithfulness": None,
        "relative": None,
        "stderr": None,
        "num_samples": SAMPLES,
        "seed": SEED,
        "paper": None,
        **more,
    }


def _score_row(
    statement: str,
    setting: str,
    target: Target,
    method: str,
    p: DifferenceModel,
    near: str,
    bound: float,
    **more: Any,
) -> Row:
    """Return a row on the held-out relative unfaithfulness of p; the statement holds if it is at most ``bound``."""
    score = unfaithfulness_of(target, [p], near, num_samples=SAMPLES, seed=SEED + 1)[0]
    return _make_row(
        statement,
        setting,
        "Δ / Δ(0)",
        score.relative,
        bound,
        score.relative <= bound,
        method=method,
        neighborhood=near,
        node=int(target.computation_graph.nodes[0]),
        unfaithfulness=score.value,
        relative=score.relative,
        stderr=score.stderr,
        **more,
    )


# Proposition 1 --------------------------------------------------------------------------------------------------------


def linear_in_x(_: Size) -> Rows:
    """Show that F is linear in X within one activation region, at any depth."""
    rows = []
    for depth in (1, 2, 3):
        model = SmallGCN(depth, normalize=True)
        target, near = small_target(model), "U(X,1e-05r)"
        row = _score_row("1a", f"ReLU GCN of depth {depth}", target, "saliency", Saliency().fit(target), near, EXACT)
        rows.append({**row, "in_region": _in_region(model, target, near)})
    return rows


def across_regions(_: Size) -> Rows:
    """Show that F is not linear in X where a neighbourhood covers several regions, and less so the larger it is."""
    model = SmallGCN(2, normalize=True)
    target = small_target(model)
    p, rows = Saliency().fit(target), []
    for sigma in (0.001, 0.01, 0.05, 0.2, 0.5):
        near = f"U(X,{sigma:g}r)"
        inside = _in_region(model, target, near)
        text = f"ReLU GCN of depth 2, {100 * inside:.0f} % of samples in one region"
        rows.append({**_score_row("1b", text, target, "saliency", p, near, EXACT), "in_region": inside})
    return rows


def _in_region(model: SmallGCN, target: Target, near: str) -> float:
    """Return the share of samples at which every unit that affects F is on or off as in the original graph."""
    (x, edges), part = small_graph(), target.computation_graph
    eps = as_neighborhood(near).sample(part, SAMPLES, SEED + 1).features
    assert eps is not None
    hop = torch.full((len(x),), part.num_hops + 1)
    hop[part.nodes[: part.num_visible]] = part.hop[: part.num_visible]
    pattern, same = model.pattern(x, edges, hop), 0
    for sample in eps:
        moved = x.clone()
        moved[part.nodes] -= sample
        same += int(torch.equal(model.pattern(moved, edges, hop), pattern))
    return same / SAMPLES


def across_regions_of_cora(_: Size) -> Rows:
    """Show the same for a trained network.

    It is in double precision, so that rounding is not mistaken for another region.
    """
    here = setting("cora")
    target = Target(copy.deepcopy(here.model).double(), here.data.x.double(), here.data.edge_index, 0)
    p, text = Saliency().fit(target), "the paper's ReLU GCN of depth 2"
    nears = [f"U(X,{sigma:g}r)" for sigma in (1e-6, 1e-3, 0.01, 0.1, 0.5)]
    return [_score_row("1b", text, target, "saliency", p, near, EXACT, dataset="cora") for near in nears]


def one_layer(_: Size) -> Rows:
    """Show that one layer is linear in A if nothing is divided by degrees."""
    target = small_target(SmallGCN(1, normalize=False, positive=True), positive=True)
    text = "depth 1, A as it is, all units on"
    return [_score_row("1c", text, target, "saliency", Saliency().fit(target), near, EXACT) for near in NEARS]


def one_layer_with_degrees(_: Size) -> Rows:
    """Show that one layer with N(A) is not linear in A, because D depends on A.

    Even the best linear function of A does not match it.
    """
    target = small_target(SmallGCN(1, normalize=True, positive=True), positive=True)
    return _score_linear("1d", "depth 1, N(A) = D^(-1/2) (A + I) D^(-1/2), all units on", target)


def two_layers(_: Size) -> Rows:
    """Show that two layers are not linear in A, even without degrees."""
    target = small_target(SmallGCN(2, normalize=False, positive=True), positive=True)
    return _score_linear("1e", "depth 2, A as it is, all units on", target)


def _score_linear(statement: str, text: str, target: Target) -> Rows:
    """Score the gradient and the best linear function of A in both neighbourhoods."""
    rows = []
    for near in NEARS:
        for method, p in (
            ("saliency", Saliency().fit(target)),
            ("linear", Linear(near, num_samples=3000, seed=SEED).fit(target)),
        ):
            row = _score_row(statement, text, target, method, p, near, CLEAR)
            # Statement 1e says that F is not linear, so it holds if the value exceeds the bound.
            rows.append({**row, "holds": row["holds"] if statement == "1d" else not row["holds"]})
    return rows


def dead_units(_: Size) -> Rows:
    """Show the paper's special case: if all hidden units are off, F is constant and hence linear."""
    model = SmallGCN(2, normalize=False, positive=True)
    with torch.no_grad():
        model.get_parameter("convs.0.bias").fill_(-1e3)
    target = small_target(model, positive=True)
    text = "depth 2, A as it is, all hidden units off"
    return [_score_row("1f", text, target, "saliency", Saliency().fit(target), near, EXACT) for near in NEARS]


# Proposition 2 --------------------------------------------------------------------------------------------------------


def masks_of_ba_shapes(size: Size) -> Rows:
    """Check the lower bound for masks on BA-Shapes."""
    return _check_masks("ba-shapes", size)


def masks_of_cora(size: Size) -> Rows:
    """Check the lower bound for masks on Cora."""
    return _check_masks("cora", size)


def _check_masks(dataset: str, size: Size) -> Rows:
    """Compare Delta(p) with its bound for learnt, random and identity masks at several nodes."""
    here, nodes = setting(dataset), size.nodes(MASKED[dataset])
    pairs: dict[str, list[tuple[float, float]]] = {}
    for node in nodes:
        target = here.target(node)
        models = {("identity", 0): SubgraphModel(target, None, torch.ones_like(target.computation_graph.weight))}
        for method in ("gnnexplainer-soft", "gnnexplainer", "pgexplainer"):
            p = here.fit(method, node, NEARS[0], seed=SEED).p
            assert isinstance(p, SubgraphModel)
            models[method, 0] = p
        generator = torch.Generator().manual_seed(node)
        for i in range(6):
            mask = torch.rand(target.computation_graph.num_edges, generator=generator)
            models["random masks", i] = SubgraphModel(target, None, mask if i % 2 else (mask < 0.5).float())
        for (method, _), p in models.items():
            pairs.setdefault(method, []).extend(_delta_and_bound(target, p, near) for near in NEARS)
    return [_make_masks_row(dataset, method, len(nodes), of_method) for method, of_method in pairs.items()]


def _make_masks_row(dataset: str, method: str, nodes: int, pairs: list[tuple[float, float]]) -> Row:
    """Return a row with the smallest Delta - bound of several explanations.

    For the identity both are 0, so that it has no ratio.
    """
    ratios = [bound / delta for delta, bound in pairs if delta > 1e-15]
    slack = min(delta - bound for delta, bound in pairs)
    return _make_row(
        "2a",
        f"{method}, {nodes} nodes of {dataset}, {len(pairs)} explanations and neighbourhoods",
        "least Δ − bound",
        slack,
        0.0,
        slack >= -1e-12,
        dataset=dataset,
        method=method,
        neighborhood=", ".join(NEARS),
        unfaithfulness=float(np.mean([delta for delta, _ in pairs])),
        tightness=float(np.median(ratios)) if ratios else None,
    )


def _delta_and_bound(target: Target, p: SubgraphModel, near: str) -> tuple[float, float]:
    """Return Delta(p) by its definition and the bound of Proposition 2 by its formula, on the same samples."""
    sample = as_neighborhood(near).sample(target.computation_graph, SAMPLES, SEED + 1)
    outputs = target.evaluate(sample.x, sample.weight).double()
    masked = p.outputs(sample)
    delta = float(((p.value - masked) - (target.value - outputs)).square().mean())
    constant = p.value - target.value
    return delta, float(constant + outputs.mean() - masked.mean()) ** 2


def bound_is_not_tight(_: Size) -> Rows:
    """Show that the bound can be far below Delta.

    For a linear F with dropped edges the residual is (g_s - g) . eps_X. Its mean is 0, that of its square is not.
    """
    model = SmallGCN(2, normalize=False, relu=False)
    target = small_target(model)
    p = SubgraphModel(target, None, (torch.arange(target.computation_graph.num_edges) % 2).double())
    delta, bound = _delta_and_bound(target, p, "U(X,0.5r)")
    text = "linear F, every other edge dropped, features move"
    more = {"method": "mask", "neighborhood": "U(X,0.5r)", "unfaithfulness": delta, "tightness": bound / delta}
    return [_make_row("2b", text, "bound / Δ", bound / delta, 0.05, bound / delta > 0.05, **more)]


def output_may_change(_: Size) -> Rows:
    """Show a subgraph that changes F's output and is still faithful: F is linear in X, and features are dropped."""
    target = small_target(SmallGCN(2, normalize=True, relu=False))
    mask = torch.ones_like(target.computation_graph.x)
    mask[:, 0] = 0
    p = SubgraphModel(target, mask, None)
    shift = abs(p.value - target.value) / abs(target.value)
    text = f"linear F, a column of X dropped, which changes F by {100 * shift:.0f} %"
    row = _score_row("2c", text, target, "mask", p, "U(X,0.5r)", EXACT)
    # The paper requires the output to stay the same; a faithful subgraph with another output refutes this.
    return [{**row, "holds": not row["holds"], "output_shift": shift}]


# Proposition 3 --------------------------------------------------------------------------------------------------------


def normal_equations(_: Size) -> Rows:
    """Show that W* solves the normal equations, equals numpy's solution, and is better than other W on its samples."""
    target, near = small_target(SmallGCN(2, normalize=True)), NEARS[0]
    p = KEC(near, num_samples=SAMPLES, threshold=0.0, seed=SEED).fit(target)
    phi, delta = _sample_phi(target, near, SEED)
    best = p.weights.flatten().numpy()
    error = float(np.mean((phi @ best - delta) ** 2))
    more = {"method": "kec", "neighborhood": near, "unfaithfulness": error}
    right = phi.T @ delta
    gradient = float(np.linalg.norm(phi.T @ (phi @ best) - right) / np.linalg.norm(right))
    expected = np.linalg.lstsq(phi, delta, rcond=None)[0]
    distance = float(np.abs(best - expected).max() / np.abs(expected).max())
    rng, least = np.random.default_rng(0), np.inf
    for scale in (1e-3, 1e-2, 1e-1, 1.0):
        for _i in range(100):
            other = best * (1 + scale * rng.normal(size=len(best)))
            least = min(least, float(np.mean((phi @ other - delta) ** 2)) / error - 1)
    text = f"GCN of depth 2, E[φφᵀ] of rank {np.linalg.matrix_rank(phi)} of {phi.shape[1]}"
    return [
        _make_row("3a", text, "gradient of Δ at W*, relative", gradient, 1e-10, gradient <= 1e-10, **more),
        _make_row("3a", text, "distance from numpy's, relative", distance, 1e-6, distance <= 1e-6, **more),
        _make_row("3a", f"{text}; 400 other W", "least Δ(W) / Δ(W*) − 1", least, 0.0, least > 0, **more),
    ]


def singular(_: Size) -> Rows:
    """Show that with constant features E[phi phi^T] is singular: many W are optimal, with different feature scores."""
    node, near = 500, NEARS[0]
    target = setting("ba-shapes").target(node)
    p = KEC(near, num_samples=SAMPLES, seed=SEED).fit(target)
    phi, delta = _sample_phi(target, near, SEED)
    rank = int(np.linalg.matrix_rank(phi))
    # All columns of X are equal, so moving weight from one column to another does not change X W.
    step = torch.zeros_like(p.weights)
    step[:, 0], step[:, 1] = p.weights.abs().max(), -p.weights.abs().max()
    other = KHopModel(p.graph, p.weights + step, normalization=p.normalization)
    errors = [float(np.mean((phi @ q.weights.flatten().numpy() - delta) ** 2)) for q in (p, other)]
    (x, a), (other_x, other_a) = p.gradient(), other.gradient()
    gap_a, gap_x = _relative_gap(a, other_a), _relative_gap(x, other_x)
    more = {"dataset": "ba-shapes", "method": "kec", "neighborhood": near, "node": node, "unfaithfulness": errors[0]}
    text = f"constant features: E[φφᵀ] has rank {rank} of {phi.shape[1]}"
    same = abs(errors[1] / errors[0] - 1)
    return [
        _make_row("3b", f"{text}; another W", "difference of Δ, relative", same, 1e-6, same > 1e-6, **more),
        _make_row("3b", f"{text}; another W", "difference of feature scores", gap_x, CLEAR, gap_x <= CLEAR, **more),
        _make_row("3b", f"{text}; another W", "difference of edge scores", gap_a, 1e-6, gap_a <= 1e-6, **more),
    ]


def _relative_gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / a.abs().max())


def on_other_samples(_: Size) -> Rows:
    """Show that the optimum on some samples is not the optimum on others."""
    target, near, few = small_target(SmallGCN(2, normalize=True)), "B(A,0.5)", 20
    p, rival = (KEC(near, num_samples=few, seed=seed).fit(target) for seed in (SEED, SEED + 1))
    seen = unfaithfulness_of(target, [p], near, num_samples=few, seed=SEED)[0].value
    there, best = unfaithfulness_of(target, [p, rival], near, num_samples=few, seed=SEED + 1)
    unseen = unfaithfulness_of(target, [p], near, num_samples=SAMPLES, seed=SEED + 1)[0]
    more = {"method": "kec", "neighborhood": near, "unfaithfulness": unseen.value, "stderr": unseen.stderr}
    ratio, rivals = unseen.value / seen, there.value / best.value
    text = f"GCN of depth 2, solved with {few} samples"
    return [
        _make_row(
            "3c", f"{text}, tested on {SAMPLES} others", "Δ held-out / Δ in-sample", ratio, 1.0, ratio <= 1, **more
        ),
        _make_row(
            "3c", f"{text}, against W* of {few} others, on these", "Δ / least Δ there", rivals, 1.0, rivals <= 1, **more
        ),
    ]


def linear_networks(_: Size) -> Rows:
    """Show that a k-hop model contains an M-layer network without activations if neither divides by degrees.

    With symmetric normalisation the paper's k-hop model does not contain such a network, because N(A^k) is not N(A)^k.
    """
    rows = []
    plain = small_target(SmallGCN(2, normalize=False, relu=False, bias=False))
    divided = small_target(SmallGCN(2, normalize=True, relu=False, bias=False))
    on = small_target(SmallGCN(2, normalize=False, positive=True, bias=False), positive=True)
    mixed = small_target(SmallGCN(2, normalize=False, bias=False))
    for near in NEARS:
        unnormalised = KEC(near, num_samples=400, normalization="none")
        for statement, text, target, method, p, bound in (
            ("3d", "A A X W, and N(A^k) = A^k", plain, "kec", unnormalised, EXACT),
            (
                "3d",
                "the same with ReLU, all units on",
                on,
                "kec",
                unnormalised,
                EXACT,
            ),
            (
                "3e",
                "the same with ReLU, some units off",
                mixed,
                "kec",
                unnormalised,
                CLEAR,
            ),
            ("3e", "N(A) N(A) X W, and the paper's N(A^k)", divided, "kec", KEC(near, num_samples=400), CLEAR),
            ("3f", "N(A) N(A) X W, and N(A)^k", divided, "anchored-kec", AnchoredKEC(near, num_samples=400), 1e-6),
        ):
            rows.append(_score_row(statement, text, target, method, p.fit(target), near, bound))
    return rows


def _sample_phi(target: Target, near: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features phi, [S, M d], with a column for each unit vector W, and the change of F, [S]."""
    graph = target.computation_graph
    sample = as_neighborhood(near).sample(graph, SAMPLES, seed)
    units = torch.eye(target.num_hops * graph.x.size(1), dtype=torch.float64)
    columns = [KHopModel(graph, unit.view(target.num_hops, -1)).change(sample) for unit in units]
    return torch.stack(columns, dim=1).numpy(), target.changes(sample).numpy()


# The demonstrations by name, each with the data set that it needs.
DEMONSTRATIONS: dict[str, tuple[str, Callable[[Size], Rows]]] = {
    "1a": (RANDOM, linear_in_x),
    "1b": (RANDOM, across_regions),
    "1b (Cora)": ("cora", across_regions_of_cora),
    "1c": (RANDOM, one_layer),
    "1d": (RANDOM, one_layer_with_degrees),
    "1e": (RANDOM, two_layers),
    "1f": (RANDOM, dead_units),
    "2a": ("ba-shapes", masks_of_ba_shapes),
    "2a (Cora)": ("cora", masks_of_cora),
    "2b": (RANDOM, bound_is_not_tight),
    "2c": (RANDOM, output_may_change),
    "3a": (RANDOM, normal_equations),
    "3b": ("ba-shapes", singular),
    "3c": (RANDOM, on_other_samples),
    "3d": (RANDOM, linear_networks),
}


def run_demonstration(name: str, size: Size) -> Rows:
    """Return the rows of a demonstration, each with an equal share of the seconds it took."""
    started = time.perf_counter()
    rows = DEMONSTRATIONS[name][1](size)
    seconds = (time.perf_counter() - started) / len(rows)
    return [{**row, "seconds_per_node": seconds} for row in rows]
