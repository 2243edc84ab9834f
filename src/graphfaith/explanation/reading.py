"""Other readings of an explanation: scores, pairs and "what if", all from the p that it carries."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explanation
from torch_geometric.explain.config import MaskType

from .._base.checks import check_count
from .._base.errors import InputError, UnsupportedError
from ..graph.computation_graph import ComputationGraph
from ..model.record import Route
from ..sampling.neighborhood import Neighborhood, parse_neighborhood
from ..surrogate.difference import DifferenceModel, LinearModel, SubgraphModel
from ..surrogate.pairs import Paired
from ..surrogate.readings import Readings, ReadModel, check_reading, evidence_of, read_model, readings_of
from .digest import are_fitted
from .masks import lay_out_scores, of_mask
from .removals import Labels
from .scores import num_nodes_of
from .signed import SignedExplanation

# What belongs to the scores of one reading, and is not taken over to another one.
_OF_SCORES = ("unfaithfulness", "measurements", "scored_digest", "node_stderr", "edge_stderr", "self_loop_stderr")


class _Explained(NamedTuple):
    computation_graph: ComputationGraph
    route: Route
    num_hops: int
    device: torch.device
    baseline: Tensor | None


def reading_of(explanation: Explanation, name: str) -> SignedExplanation:
    """Return the same explanation with the scores of another reading of its p, without a new fit.

    "slope" is the gradient of p, "share" the additive function closest to F's change in the neighbourhood of the fit,
    and "effect" what p foretells for taking away one entry alone, divided by its size.
    """
    wanted = check_reading(name)
    p, near = fitted_of(explanation, "a reading")
    settings = explanation.get("settings") or {}
    kind = node_kind_of(explanation)
    read = read_model(p, near, wanted, seed=_seed_of(p, settings), pairs=settings.get("pairs", 10), of=of_mask(kind))
    laid_out = _lay_out(explanation, p, read, kind)
    other = copy.copy(explanation)
    for field in _OF_SCORES:
        if field in other:
            del other[field]
    for field, value in laid_out.to_dict().items():
        other[field] = value
    other.reading = wanted
    other.settings = {**settings, "reading": wanted}
    if read.estimate is not None:
        other.estimate = read.estimate
    result: SignedExplanation = other
    return result


def _lay_out(explanation: Explanation, p: Any, read: ReadModel, kind: MaskType | None) -> SignedExplanation:
    """Return a reading in masks of the types that an explanation has."""
    where, baseline = explanation.self_loop_score.device, explanation.get("baseline_categories")
    unscored = explanation.get("features_scored") is False
    return lay_out_scores(
        _Explained(p.graph, explanation.edge_route, explanation.num_hops, where, baseline),
        p,
        None if unscored else read.scores[0],
        read.scores[1],
        errors=(None, read.errors[1]) if unscored else read.errors,
        as_mask=False,
        node_mask_type=kind,
        edge_mask_type=None if explanation.get("edge_mask") is None else MaskType.object,
        method=explanation.get("method"),
    )


def node_kind_of(explanation: Explanation) -> MaskType | None:
    """Return what the node mask of an explanation has scores of; None if there is no node mask."""
    nodes, kind = explanation.get("node_mask"), explanation.get("node_mask_type")
    if nodes is None:
        return None
    if kind is not None:
        return MaskType(kind)
    # It was made by another method. One row is of columns and one column is of nodes, unless there is only one of them.
    if nodes.size(0) == 1 < num_nodes_of(explanation):
        return MaskType.common_attributes
    x, width = explanation.get("x"), nodes[:1].numel()
    return MaskType.object if width == 1 and (x is None or x[:1].numel() > 1) else MaskType.attributes


def fitted_of(explanation: Explanation, what: str) -> tuple[Any, Neighborhood]:
    """Return the p that an explanation carries and the neighbourhood of its fit; an error if it has no such p."""
    check_unchanged(explanation)
    p, near = explanation.get("difference_model"), explanation.get("neighborhood")
    if p is None or isinstance(p, SubgraphModel):
        raise UnsupportedError(
            f"{what} needs the p of a method that is fitted, such as AnchoredKEC or KEC; "
            f"{explanation.get('method') or 'this explanation'} has masks alone"
        )
    if near is None:
        raise UnsupportedError(
            f"{what} needs a neighbourhood, and {explanation.get('method') or 'this method'} is fitted in none: use "
            "AnchoredKEC, KEC or Linear"
        )
    if not are_fitted(explanation):
        raise UnsupportedError(f"{what} needs the scores as they were made: these were edited or cut since")
    return p, parse_neighborhood(near)


def _seed_of(p: DifferenceModel, settings: dict[str, Any]) -> int:
    evidence = evidence_of(p)
    return int(settings.get("seed", 0)) if evidence is None else evidence.seed


class Interaction(NamedTuple):
    """Two edges, features or nodes whose effect together is not the sum of their effects apart.

    ``first`` and ``second`` are (source, sink) of an edge, (node, column) of a feature, (node,) if nodes were asked
    for, or (column,) if columns were. ``together`` is how much more F changes if both are taken away than the sum of
    what each alone does, and ``effects`` is what each alone does: F after it is taken away, less F before. All three
    are means over the neighbourhood, where others are taken away too. If the neighbourhood takes nothing away, but
    moves weights or values a little, both are lowered by one standard deviation instead, and ``removed`` is False.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    together: float
    effects: tuple[float, float]
    names: tuple[str, str]
    removed: bool = True

    def __str__(self) -> str:
        """Return the pair in words.

        >>> print(Interaction((1, 2), (1, 7), -0.4, (-0.1, -0.1), ("1–2", "1–7")))
        1–2 and 1–7 stand in for each other: together -0.4 more than apart
        >>> print(Interaction((1, 2), (1, 7), 0.4, (-0.5, -0.5), ("1–2", "1–7")))
        1–2 and 1–7 overlap: together -0.6, and not the -1 of both apart
        >>> print(Interaction((1, 2), (1, 7), 0.4, (-0.5, 0.3), ("1–2", "1–7")))
        1–2 and 1–7: together +0.4 more than apart
        >>> print(Interaction((1, 2), (1, 7), 0.01, (-0.1, -0.1), ("1→2", "1→7"), False))
        1→2 and 1→7, lowered a little: together +0.01 more than apart
        """
        first, second = self.names
        apart = sum(self.effects)
        more = f"together {self.together:+.2g} more than apart"
        if not self.removed:
            return f"{first} and {second}, lowered a little: {more}"
        if self.effects[0] * self.effects[1] <= 0:
            return f"{first} and {second}: {more}"
        if apart * self.together >= 0:
            return f"{first} and {second} stand in for each other: {more}"
        both = apart + self.together
        return f"{first} and {second} overlap: together {both:+.2g}, and not the {apart:+.2g} of both apart"


def interactions_of(explanation: Explanation, k: int | None = None) -> list[Interaction]:
    """Return the ``k`` strongest pairs beside the shares, as far as they pay; see :class:`Interaction`.

    Without ``k`` they are those of the explanation's own setting ``pairs``, as in its number with pairs.
    """
    return [pair for pair, _ in interactions_of_units(explanation, k)]


def interactions_of_units(explanation: Explanation, k: int | None = None) -> list[tuple[Interaction, tuple[int, int]]]:
    """Return :func:`interactions_of`, each with the two units of :func:`paired_of` that it is about."""
    k = None if k is None else check_count(k, "k")
    p, near = fitted_of(explanation, "interactions")
    if isinstance(p, LinearModel):
        return []
    paired = paired_of(explanation, k)
    labels, moves = Labels(explanation, paired.moves), paired.moves
    dropped = torch.full((len(moves),), near.drops_features)
    dropped[: moves.num_edge_units] = near.drops_edges
    # What is never taken away is moved by one standard deviation instead.
    sizes = torch.where(dropped, moves.sizes(), moves.spread.sqrt())
    found = []
    for u, w, psi in zip(paired.first.tolist(), paired.second.tolist(), paired.together.tolist(), strict=True):
        effects = (-float(paired.alone[u] * sizes[u]), -float(paired.alone[w] * sizes[w]))
        both = -psi * float(sizes[u] * sizes[w])
        names, removed = (labels.name(u), labels.name(w)), bool(dropped[u] and dropped[w])
        pair = Interaction(labels.place(u), labels.place(w), both, effects, names, removed)
        found.append((pair, (u, w)))
    return sorted(found, key=lambda pair: -abs(pair[0].together))[:k]


def _readings(explanation: Explanation, p: DifferenceModel, near: Neighborhood, k: int) -> Readings:
    settings = explanation.get("settings") or {}
    of = of_mask(node_kind_of(explanation))
    return readings_of(p, near, seed=_seed_of(p, settings), pairs=k, of=of)


def paired_of(explanation: Explanation, k: int | None = None) -> Paired:
    """Return the function of scores and at most ``k`` pairs; without ``k``, the one that was measured.

    That one has at most as many pairs as the explanation's setting ``pairs`` says. Another ``k`` is another function,
    because the pairs that pay are fitted together; a smaller one than the setting asks for the strongest of its pairs.
    """
    p, near = fitted_of(explanation, "scores and pairs")
    own = int((explanation.get("settings") or {}).get("pairs", 10))
    return _readings(explanation, p, near, own if k is None else max(check_count(k, "k"), own)).paired


def scores_and_pairs_of(explanation: Explanation, k: int | None = None) -> dict[str, Any]:
    """Return scores and pairs as a small table that a page can evaluate without p and without the model.

    Without ``k`` it is the function of :func:`paired_of`.
    With m_u the size of what is taken away of unit u, F changes by -(sum_u alone_u m_u + sum_uw together_uw m_u m_w).
    """
    p, near = fitted_of(explanation, "scores and pairs")
    paired = paired_of(explanation) if k is None else _readings(explanation, p, near, check_count(k, "k")).paired
    labels, sizes = Labels(explanation, paired.moves), paired.moves.sizes()
    used = sorted({*paired.first.tolist(), *paired.second.tolist(), *paired.alone.nonzero().view(-1).tolist()})
    place = {unit: i for i, unit in enumerate(used)}
    return {
        "neighborhood": str(near),
        "units": [
            {"kind": labels.kind(unit), "at": list(labels.place(unit)), "size": float(sizes[unit])} for unit in used
        ],
        "alone": [float(paired.alone[unit]) for unit in used],
        "pairs": [
            [place[u], place[w], psi]
            for u, w, psi in zip(paired.first.tolist(), paired.second.tolist(), paired.together.tolist(), strict=True)
        ],
    }


def check_unchanged(explanation: Explanation) -> None:
    """Raise an :class:`InputError` if an explanation is an excerpt, whose ids are not those of the graph."""
    if explanation.get("node_id") is not None:
        raise InputError("this is an excerpt of an explanation: ask the explanation that it was cut from")
