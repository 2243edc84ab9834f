"""Checks of the masks: their shapes and types, and that they depend on the model and not on the order of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .bench import (
    CLASSES,
    HOPS,
    NODES,
    Bench,
    Case,
    Net,
    NotApplicable,
    OtherOrder,
    Scores,
    Violation,
    describe_difference,
    hops_to,
    make_case,
    make_weights,
    require,
    require_same,
    require_usable,
    scores_of,
)


def _check_shape(bench: Bench, masks: tuple[str | None, str | None]) -> None:
    case = make_case()
    require_usable(bench.score(case, masks=masks), case, masks)


def node_mask_attributes(bench: Bench) -> None:
    """node_mask_type="attributes" gives a finite node mask of shape [nodes, features]."""
    _check_shape(bench, ("attributes", bench.masks[1]))


def node_mask_object(bench: Bench) -> None:
    """node_mask_type="object" gives a finite node mask of shape [nodes, 1]."""
    _check_shape(bench, ("object", bench.masks[1]))


def node_mask_common_attributes(bench: Bench) -> None:
    """node_mask_type="common_attributes" gives a finite node mask of shape [1, features]."""
    _check_shape(bench, ("common_attributes", bench.masks[1]))


def edge_mask_object(bench: Bench) -> None:
    """edge_mask_type="object" gives a finite edge mask of shape [edges]."""
    _check_shape(bench, (bench.masks[0], "object"))


def only_masks_asked_for(bench: Bench) -> None:
    """A mask type of None gives no mask of that kind, and available_explanations lists exactly the other masks."""
    num_accepted = 0
    for masks in (("attributes", None), (None, "object"), ("attributes", "object")):
        try:
            explanation = bench.explain(make_case(), masks=masks)
        except NotApplicable:
            continue
        num_accepted += 1
        expected = [name for name, kind in zip(("node_mask", "edge_mask"), masks, strict=True) if kind is not None]
        names = sorted(scores_of(explanation))
        require(names == sorted(expected), f"requested {expected}, got {names}")
        available = [name for name in explanation.available_explanations if explanation[name] is not None]
        require(sorted(available) == sorted(expected), f"available_explanations is {available}, not {expected}")
        require(explanation.validate_masks(), "validate_masks() finds a fault")
    if not num_accepted:
        raise NotApplicable("the algorithm refuses these mask types")


def masks_detached(bench: Bench) -> None:
    """Masks do not require a gradient and hold no autograd graph."""
    for name, mask in scores_of(bench.explain(make_case())).items():
        require(not mask.requires_grad, f"{name} requires a gradient")


def dtype_kept(bench: Bench) -> None:
    """The masks have the precision of the model and of x: float32 or float64."""
    for dtype in (torch.float32, torch.float64):
        for name, mask in bench.score(make_case(dtype=dtype)).items():
            require(mask.dtype == dtype, f"{name} is {mask.dtype} for a model of {dtype}")


def learnt_masks_between_0_and_1(bench: Bench) -> None:
    """Scores that are masks, not derivatives, lie between 0 and 1."""
    if bench.signed is not False:
        raise NotApplicable("scores are not known to be masks: pass signed=False if they are")
    for name, mask in bench.score(make_case()).items():
        inside = bool(((mask >= 0) & (mask <= 1)).all())
        require(inside, f"{name} goes from {float(mask.min()):.3g} to {float(mask.max()):.3g}")


def _make_orders(bench: Bench, size: int) -> list[Tensor]:
    """Return random permutations of ``size`` elements; if the algorithm draws, enough of them to average out noise."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randperm(size, generator=generator) for _ in range(24 if bench.draws else 4)]


def _correlate(a: Tensor, b: Tensor) -> float:
    """Return Pearson's correlation of all entries; two constant tensors correlate by 1."""
    a, b = (t.flatten().double() - t.double().mean() for t in (a, b))
    if not a.any() and not b.any():
        return 1.0
    return float(a @ b / (a.norm() * b.norm()).clamp(min=1e-300))


def _require_equivalent(bench: Bench, expected: Scores, scores_by_order: Sequence[Scores], when: str) -> None:
    """Raise a :class:`Violation` unless the scores on equivalent graphs agree.

    Without random numbers they must be equal up to rounding. An algorithm that draws random numbers for each node or
    edge draws other numbers for another order. In that case, the mean scores of one half of the orders must correlate
    with the mean scores of the other half, because the means contain less noise.
    """
    if not bench.draws:
        for scores in scores_by_order:
            require_same(scores, expected, when, tolerance=1e-3)
        return
    if all(describe_difference(scores, expected, 1e-3) is None for scores in scores_by_order):
        return
    halves = (scores_by_order[::2], scores_by_order[1::2])
    for name in expected:
        first, second = (torch.stack([scores[name] for scores in half]).mean(dim=0) for half in halves)
        correlation = _correlate(first, second)
        require(correlation >= 0.75, f"{when}: {name} correlates by only {correlation:.2f} between two sets of orders")


def relabelled_nodes(bench: Bench) -> None:
    """Each node keeps its scores when the nodes are renumbered (on average, if the algorithm draws)."""
    case = make_case()
    scores_by_order = []
    for order in _make_orders(bench, NODES):
        x, target = torch.empty_like(case.x), torch.empty_like(case.target)
        x[order], target[order] = case.x, case.target
        other = Case(case.model, x, order[case.edge_index], target, int(order[0]))
        scores = bench.score(other)
        if "node_mask" in scores and scores["node_mask"].size(0) == NODES:
            scores["node_mask"] = scores["node_mask"][order]
        scores_by_order.append(scores)
    _require_equivalent(bench, bench.score(case), scores_by_order, "with the nodes renumbered")


def reordered_edges(bench: Bench) -> None:
    """Each edge keeps its score when the edges are listed in another order (on average, if the algorithm draws)."""
    case = make_case(weighted=True)
    scores_by_order = []
    for order in _make_orders(bench, case.edge_index.size(1)):
        kwargs = {"edge_weight": case.kwargs["edge_weight"][order]}
        scores = bench.score(replace(case, edge_index=case.edge_index[:, order], kwargs=kwargs))
        if "edge_mask" in scores:
            scores["edge_mask"] = scores["edge_mask"][order.argsort()]
        scores_by_order.append(scores)
    _require_equivalent(bench, bench.score(case), scores_by_order, "with the edges in another order")


def _check_scaling(bench: Bench, factor: float) -> None:
    if bench.signed is not True:
        raise NotApplicable("scores are not known to be derivatives: pass signed=True if they are")
    bench.require_phenomenon()
    expected = {name: factor * mask for name, mask in bench.score(make_case()).items()}
    scores = bench.score(make_case(lambda: Net(scale=factor)))
    require_same(scores, expected, f"with the model's output times {factor:g}", tolerance=1e-3)
    # Scores that are all zero would pass the comparison.
    require(any(bool(mask.any()) for mask in expected.values()), "every score is 0, although the model uses its input")


def doubled_output(bench: Bench) -> None:
    """Scores that are derivatives double when the model's output does."""
    _check_scaling(bench, 2.0)


def negated_output(bench: Bench) -> None:
    """Scores that are derivatives change their sign when the model's output does."""
    _check_scaling(bench, -1.0)


def zero_beyond_reach(bench: Bench) -> None:
    """Nodes and edges on which the prediction does not depend have a score of exactly 0."""
    for index in (0, 9):
        case = make_case(index=index)
        far = hops_to(index, case.edge_index) > HOPS
        scores = bench.score(case)
        if "node_mask" in scores and scores["node_mask"].size(0) == NODES:
            reached = (scores["node_mask"] != 0).any(dim=1) & far
            where = reached.nonzero().flatten().tolist()
            require(not where, f"nodes {where} have a score, although none of their messages reaches node {index}")
        if "edge_mask" in scores:
            # An edge into a node at HOPS hops changes the degree of that node, so F depends on it. F does not depend
            # on an edge into a node further away.
            where = ((scores["edge_mask"] != 0) & far[case.edge_index[1]]).nonzero().flatten().tolist()
            require(
                not where, f"edges {where} have a score, although the output at node {index} is independent of them"
            )


def edge_weight_matters(bench: Bench) -> None:
    """The model is explained with the given edge_weight: other weights give other scores."""
    case = make_case(weighted=True)
    expected = bench.score(case)
    for seed in (3, 4, 5, 6):
        weight = 3 * make_weights(case.edge_index.size(1), seed=seed) ** 3
        scores = bench.score(replace(case, kwargs={"edge_weight": weight}))
        if describe_difference(scores, expected) is not None:
            return
    raise Violation("the scores do not depend on edge_weight")


def keywords_by_name(bench: Bench) -> None:
    """Keyword arguments are passed to the model by name, whatever the order of its parameters is."""
    expected = bench.score(make_case(weighted=True))
    scores = bench.score(make_case(OtherOrder, weighted=True))
    require_same(scores, expected, "with another parameter before edge_weight")


def target_matters(bench: Bench) -> None:
    """The class in the target is explained: another class gets other scores."""
    bench.require_phenomenon()
    # An algorithm that selects whole edges may select the same ones for all classes, but not at each of these nodes.
    for index in (0, 3, 6, 7):
        case = make_case(index=index)
        first, *others = (
            bench.score(replace(case, target=torch.full_like(case.target, label))) for label in range(CLASSES)
        )
        if any(describe_difference(other, first) is not None for other in others):
            return
    raise Violation("the scores do not depend on the target")


def model_is_phenomenon_of_prediction(bench: Bench) -> None:
    """An explanation of the model is the explanation of the phenomenon whose target is the predicted class."""
    case = make_case()
    with torch.no_grad():
        predicted = case.model(case.x, case.edge_index).argmax(dim=-1)
    expected = bench.score(replace(case, target=predicted), kind="phenomenon")
    require_same(bench.score(case, kind="model"), expected, 'explanation_type="model"')


CHECKS = (
    node_mask_attributes,
    node_mask_object,
    node_mask_common_attributes,
    edge_mask_object,
    only_masks_asked_for,
    masks_detached,
    dtype_kept,
    learnt_masks_between_0_and_1,
    relabelled_nodes,
    reordered_edges,
    doubled_output,
    negated_output,
    zero_beyond_reach,
    edge_weight_matters,
    keywords_by_name,
    target_matters,
    model_is_phenomenon_of_prediction,
)
