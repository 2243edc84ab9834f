"""Checks of the masks: their shape and type, and that they are about the model and not about the way it is written."""

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
    difference,
    hops_to,
    make_case,
    require,
    require_same,
    require_usable,
    scores_of,
    weights,
)


def _mask_shape(bench: Bench, masks: tuple[str | None, str | None]) -> None:
    case = make_case()
    require_usable(bench.scores(case, masks=masks), case, masks)


def node_mask_attributes(bench: Bench) -> None:
    """node_mask_type="attributes" gives a finite node mask of shape [nodes, features]."""
    _mask_shape(bench, ("attributes", bench.masks[1]))


def node_mask_object(bench: Bench) -> None:
    """node_mask_type="object" gives a finite node mask of shape [nodes, 1]."""
    _mask_shape(bench, ("object", bench.masks[1]))


def node_mask_common_attributes(bench: Bench) -> None:
    """node_mask_type="common_attributes" gives a finite node mask of shape [1, features]."""
    _mask_shape(bench, ("common_attributes", bench.masks[1]))


def edge_mask_object(bench: Bench) -> None:
    """edge_mask_type="object" gives a finite edge mask of shape [edges]."""
    _mask_shape(bench, (bench.masks[0], "object"))


def only_masks_asked_for(bench: Bench) -> None:
    """A mask type of None gives no such mask, and available_explanations lists the others."""
    asked = 0
    for masks in (("attributes", None), (None, "object"), ("attributes", "object")):
        try:
            explanation = bench.explain(make_case(), masks=masks)
        except NotApplicable:
            continue
        asked += 1
        expected = [name for name, kind in zip(("node_mask", "edge_mask"), masks, strict=True) if kind is not None]
        found = sorted(scores_of(explanation))
        require(found == sorted(expected), f"asked for {expected}, got {found}")
        available = [name for name in explanation.available_explanations if explanation[name] is not None]
        require(sorted(available) == sorted(expected), f"available_explanations is {available}, not {expected}")
        require(explanation.validate_masks(), "validate_masks() finds a fault")
    if not asked:
        raise NotApplicable("the algorithm refuses these mask types")


def masks_detached(bench: Bench) -> None:
    """Masks are plain tensors: they need no gradient and hold no autograd graph."""
    for name, mask in scores_of(bench.explain(make_case())).items():
        require(not mask.requires_grad, f"{name} requires a gradient")


def dtype_kept(bench: Bench) -> None:
    """float32 in gives float32 masks, float64 in gives float64 masks."""
    for dtype in (torch.float32, torch.float64):
        for name, mask in bench.scores(make_case(dtype=dtype)).items():
            require(mask.dtype == dtype, f"{name} is {mask.dtype} for a model of {dtype}")


def learnt_masks_between_0_and_1(bench: Bench) -> None:
    """Scores that are masks, not derivatives, lie between 0 and 1."""
    if bench.signed is not False:
        raise NotApplicable("scores are not known to be masks: pass signed=False if they are")
    for name, mask in bench.scores(make_case()).items():
        inside = bool(((mask >= 0) & (mask <= 1)).all())
        require(inside, f"{name} goes from {float(mask.min()):.3g} to {float(mask.max()):.3g}")


def _orders(bench: Bench, size: int) -> list[Tensor]:
    """Some orders of so many things: enough to average noise out, if there is any."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randperm(size, generator=generator) for _ in range(24 if bench.draws else 4)]


def _correlation(a: Tensor, b: Tensor) -> float:
    a, b = (t.flatten().double() - t.double().mean() for t in (a, b))
    if not a.any() and not b.any():
        return 1.0
    return float(a @ b / (a.norm() * b.norm()).clamp(min=1e-300))


def _require_equivalent(bench: Bench, expected: Scores, found: Sequence[Scores], when: str) -> None:
    """The scores of equivalent graphs agree.

    Without random numbers they are the same up to rounding. An algorithm that draws them, by node or edge, draws
    others for another order, so there the mean of one half is compared with the mean of the other: what is left of
    the scores when the noise is averaged out has to correlate.
    """
    if not bench.draws:
        for scores in found:
            require_same(scores, expected, when, tolerance=1e-3)
        return
    if all(difference(scores, expected, 1e-3) is None for scores in found):
        return
    halves = (found[::2], found[1::2])
    for name in expected:
        one, two = (torch.stack([scores[name] for scores in half]).mean(dim=0) for half in halves)
        agreement = _correlation(one, two)
        require(agreement >= 0.75, f"{when}: {name} correlates by {agreement:.2f} only with that of other orders")


def relabelled_nodes(bench: Bench) -> None:
    """Scores follow the nodes when they are numbered in another way (a correlation, if the algorithm draws)."""
    case = make_case()
    found = []
    for order in _orders(bench, NODES):
        x, target = torch.empty_like(case.x), torch.empty_like(case.target)
        x[order], target[order] = case.x, case.target
        other = Case(case.model, x, order[case.edge_index], target, int(order[0]))
        scores = bench.scores(other)
        if "node_mask" in scores and scores["node_mask"].size(0) == NODES:
            scores["node_mask"] = scores["node_mask"][order]
        found.append(scores)
    _require_equivalent(bench, bench.scores(case), found, "with the nodes renumbered")


def reordered_edges(bench: Bench) -> None:
    """Scores follow the edges when they are listed in another order (a correlation, if the algorithm draws)."""
    case = make_case(weighted=True)
    found = []
    for order in _orders(bench, case.edge_index.size(1)):
        kwargs = {"edge_weight": case.kwargs["edge_weight"][order]}
        scores = bench.scores(replace(case, edge_index=case.edge_index[:, order], kwargs=kwargs))
        if "edge_mask" in scores:
            scores["edge_mask"] = scores["edge_mask"][order.argsort()]
        found.append(scores)
    _require_equivalent(bench, bench.scores(case), found, "with the edges in another order")


def _scales(bench: Bench, factor: float) -> None:
    if bench.signed is not True:
        raise NotApplicable("scores are not known to be derivatives: pass signed=True if they are")
    bench.needs_phenomenon()
    expected = {name: factor * mask for name, mask in bench.scores(make_case()).items()}
    found = bench.scores(make_case(lambda: Net(scale=factor)))
    require_same(found, expected, f"with the model's output times {factor:g}", tolerance=1e-3)
    # All zeros would scale as well.
    require(any(bool(mask.any()) for mask in expected.values()), "every score is 0, though the model uses its input")


def doubled_output(bench: Bench) -> None:
    """Scores that are derivatives double when the model's output does."""
    _scales(bench, 2.0)


def negated_output(bench: Bench) -> None:
    """Scores that are derivatives change their sign when the model's output does."""
    _scales(bench, -1.0)


def zero_beyond_reach(bench: Bench) -> None:
    """Nodes and edges that the prediction does not depend on score exactly 0."""
    for index in (0, 9):
        case = make_case(index=index)
        far = hops_to(index, case.edge_index) > HOPS
        scores = bench.scores(case)
        if "node_mask" in scores and scores["node_mask"].size(0) == NODES:
            reached = (scores["node_mask"] != 0).any(dim=1) & far
            where = reached.nonzero().flatten().tolist()
            require(not where, f"nodes {where} score though no message of theirs reaches node {index}")
        if "edge_mask" in scores:
            # An edge into a node at the border still counts in its degree; one into a node further off does not.
            where = ((scores["edge_mask"] != 0) & far[case.edge_index[1]]).nonzero().flatten().tolist()
            require(not where, f"edges {where} score though nothing about them reaches node {index}")


def edge_weight_matters(bench: Bench) -> None:
    """The model is explained with the edge_weight it is given: other weights give other scores."""
    case = make_case(weighted=True)
    expected = bench.scores(case)
    for seed in (3, 4, 5, 6):
        weight = 3 * weights(case.edge_index.size(1), seed=seed) ** 3
        found = bench.scores(replace(case, kwargs={"edge_weight": weight}))
        if difference(found, expected) is not None:
            return
    raise Violation("the scores are the same whatever the edge_weight")


def keywords_by_name(bench: Bench) -> None:
    """Keyword arguments reach the model under their names, whatever the order of its parameters."""
    expected = bench.scores(make_case(weighted=True))
    found = bench.scores(make_case(OtherOrder, weighted=True))
    require_same(found, expected, "with another parameter before edge_weight")


def target_matters(bench: Bench) -> None:
    """The class named by the target is explained: another class gets other scores."""
    bench.needs_phenomenon()
    # An algorithm that keeps whole edges may keep the same ones for two classes, but not for every node.
    for index in (0, 3, 6, 7):
        case = make_case(index=index)
        found = [bench.scores(replace(case, target=torch.full_like(case.target, label))) for label in range(CLASSES)]
        if any(difference(other, found[0]) is not None for other in found[1:]):
            return
    raise Violation("the scores are the same whatever the target")


def model_is_phenomenon_of_prediction(bench: Bench) -> None:
    """Explaining the model is explaining the phenomenon whose target is the predicted class."""
    case = make_case()
    with torch.no_grad():
        predicted = case.model(case.x, case.edge_index).argmax(dim=-1)
    expected = bench.scores(replace(case, target=predicted), kind="phenomenon")
    require_same(bench.scores(case, kind="model"), expected, 'explanation_type="model"')


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
