"""An explanation in words: what the model answered, the strongest reasons, and what speaks against it.

The weight of a reason is what it adds to F by the scores: score times weight of an edge (both directions together in an
undirected graph), and sum_v x_vc score_vc of a feature. Scores of a kind that nothing was measured of are left out if
there are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import InputError
from ..graph.graph import is_undirected
from ..sampling.neighborhood import Neighborhood, describe_neighborhood, parse_neighborhood
from ..surrogate.estimate import Kind
from .answer import Answer, answer_of, cut_name
from .faithfulness import NOT_MEASURED, Faithfulness, faithfulness_by_kind
from .scores import (
    edge_index_of,
    entries,
    explained_nodes,
    features_of,
    kinds_of,
    names_of,
    node_mask_of,
    node_names_of,
    num_nodes_of,
    scores_of_features,
    scores_of_nodes,
    task_level,
)

_MOST, _MOST_AGAINST = 3, 2
_LEAST = 0.05  # of the strongest reason: what is weaker is not named
_DOUBTFUL = 0.5  # From this share unexplained on, reasons are named with a warning.


_PLURAL = {
    "its link to": "its links to",
    "its link from": "its links from",
    "the link": "the links",
    "the bond": "the bonds",
    "the feature": "the features",
    "the absence of the feature": "the absence of the features",
}


_KIND_OF: dict[str, Kind] = {
    "link": "edges", "loop": "edges", "own": "features", "node": "features", "feature": "features",
    "absence": "features",
}  # fmt: skip


class Reason(NamedTuple):
    """Something that speaks for or against the answer, and how much it adds to F by the scores.

    The "loop" of a node is the weight of its own features beside the messages of its neighbours.
    """

    amount: float
    kind: Literal["link", "own", "loop", "feature", "absence", "node"]
    at: tuple[int, ...]  # the ends of a link, a node, or a column


@dataclass(frozen=True)
class Headline:
    """An explanation in a sentence or two, and the neighbourhood that it is about in words."""

    text: str
    reasons: str  # the text without the answer
    near: str
    answer: Answer | None
    pros: tuple[Reason, ...]
    cons: tuple[Reason, ...]

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def headline_of(explanation: Explanation, known: dict[Kind, Faithfulness | None] | None = None) -> Headline:
    """Return what the model answered and why, in words. ``known`` is :func:`faithfulness_by_kind`, if it was asked.

    >>> star = torch.tensor([[1, 2, 3], [0, 0, 0]])
    >>> print(headline_of(Explanation(edge_index=star, edge_mask=torch.tensor([2.0, 1.5, -1.0]), index=0)))
    Mostly because of its links from 1 and 2; its link from 3 speaks against it.
    """
    known = faithfulness_by_kind(explanation) if known is None else known
    reasons = sorted(
        _merge_same(_find_reasons(explanation, known)), key=lambda reason: (-abs(reason.amount), reason.kind, reason.at)
    )
    strongest = abs(reasons[0].amount) if reasons else 0.0
    worth = [reason for reason in reasons if abs(reason.amount) >= _LEAST * strongest]
    pros = tuple(reason for reason in worth if reason.amount > 0)[:_MOST]
    cons = tuple(reason for reason in worth if reason.amount < 0)[:_MOST_AGAINST]
    answer, phrases = answer_of(explanation), _Phrases(explanation)
    number = answer is not None and answer.label is None
    parts = []
    doubt = _doubt(known, (*pros, *cons))
    if pros:
        opening = doubt + ("raised mostly by" if number else "mostly because of")
        parts.append(f"{opening} {phrases.join(pros)}")
    if cons:
        many = len(cons) > 1 or phrases.is_plural(cons[0])
        verb = ("lower it" if many else "lowers it") if number else f"speak{'' if many else 's'} against it"
        parts.append(f"{'' if pros else doubt}{phrases.join(cons)} {verb}")
    said = "; ".join(parts) or "No score speaks for it or against it"
    said = said[0].upper() + said[1:] + "."
    near = str(explanation.get("neighborhood") or "")
    opening = "" if answer is None else str(answer)
    text = f"{opening}. {said}" if opening else said
    return Headline(text, said, describe_neighborhood(near), answer, pros, cons)


def _doubt(known: dict[Kind, Faithfulness | None], named: Sequence[Reason]) -> str:
    """Return a warning to begin with if scores of a kind that is named explain less than half, or were not measured.

    Where nothing at all was measured, that is said beside the scores and not here.
    """
    kinds = {_KIND_OF[reason.kind] for reason in named}
    numbers = [known.get(kind) for kind in kinds]
    if any(known.values()) and any(number is None for number in numbers):
        return f"by scores that were {NOT_MEASURED}, "
    relative = max((n.relative for n in numbers if n is not None and n.relative is not None), default=0.0)
    if relative < _DOUBTFUL:
        return ""
    return f"by these scores, which explain {'nothing' if relative >= 1 else f'only {100 * (1 - relative):.0f} %'}, "


def _find_reasons(explanation: Explanation, known: dict[Kind, Faithfulness | None]) -> list[Reason]:
    measured = {kind for kind, number in known.items() if number is not None} or set(known)
    found: list[Reason] = []
    if "edges" in measured:
        found += [reason for reason in _reasons_of_edges(explanation) if reason.amount != 0]
    if "features" in measured or not found:
        found += _reasons_of_features(explanation)
    return [reason for reason in found if reason.amount != 0]


def _merge_same(reasons: Sequence[Reason]) -> list[Reason]:
    """Return the reasons, with the self-loop and the features of a node as one: both are said to be its features."""
    groups: dict[tuple[str, tuple[int, ...]], list[Reason]] = {}
    for reason in reasons:
        kind = "node" if reason.kind in ("own", "loop", "node") else reason.kind
        groups.setdefault((kind, reason.at), []).append(reason)
    merged = [
        max(group, key=lambda reason: abs(reason.amount))._replace(amount=sum(reason.amount for reason in group))
        for group in groups.values()
    ]
    return [reason for reason in merged if reason.amount != 0]


def _reasons_of_edges(explanation: Explanation) -> Iterable[Reason]:
    ends, scores, edge_id = entries(explanation)
    weight = explanation.get("edge_weight")
    amount = scores.clone()
    if isinstance(weight, Tensor) and len(weight) == edge_index_of(explanation).size(1):
        given = edge_id >= 0
        amount[given] *= weight.detach().cpu().double().reshape(-1)[edge_id[given]]
    scored = amount != 0
    ends, amount = ends[:, scored], amount[scored]
    if is_undirected(edge_index_of(explanation)):
        ends = ends.sort(dim=0).values
    places, group = torch.unique(ends, dim=1, return_inverse=True)
    total = torch.zeros(places.size(1), dtype=torch.float64).index_add_(0, group, amount)
    for source, sink, sum_of in zip(*places.tolist(), total.tolist(), strict=True):
        yield Reason(sum_of, "loop", (source,)) if source == sink else Reason(sum_of, "link", (source, sink))


def _reasons_of_features(explanation: Explanation) -> Iterable[Reason]:
    columns = scores_of_features(explanation)
    # Of a molecule, atoms say more than the sums over all atoms of an element.
    if columns is not None and kinds_of(explanation) is None:
        for column in columns.nonzero().view(-1).tolist():
            yield Reason(float(columns[column]), "feature", (column,))
        yield from _absences(explanation)
        return
    nodes, own = scores_of_nodes(explanation), set(explained_nodes(explanation).tolist())
    if nodes is not None:
        for node in nodes.nonzero().view(-1).tolist():
            yield Reason(float(nodes[node]), "own" if node in own else "node", (node,))


def _absences(explanation: Explanation) -> Iterable[Reason]:
    """Return what the absence of a feature does, where the neighbourhood tried what its presence would do.

    Were the feature of the explained node as large as it is on average where it is there, F would change by that value
    times the score; its absence adds the opposite.
    """
    near, mask, x = _neighborhood(explanation), node_mask_of(explanation), features_of(explanation)
    nodes = explained_nodes(explanation)
    if near is None or not near.perturbs_features or near.drops_features or mask is None or len(nodes) != 1:
        return
    if x is None or mask.shape != x.shape:
        return
    row, values = mask[nodes[0]].double(), x.double()
    present = (values != 0).sum(dim=0)
    usual = values.sum(dim=0) / present.clamp(min=1)
    gone = (values[nodes[0]] == 0) & (row != 0) & (present > 0)
    for column in gone.nonzero().view(-1).tolist():
        yield Reason(-float(row[column] * usual[column]), "absence", (column,))


def _neighborhood(explanation: Explanation) -> Neighborhood | None:
    text = explanation.get("neighborhood")
    try:
        return parse_neighborhood(text) if text else None
    except InputError:
        return None


class _Phrases:
    """Reasons in words, with the names of an explanation."""

    def __init__(self, explanation: Explanation) -> None:
        self._nodes, self._features = node_names_of(explanation), names_of(explanation, "feature_names")
        self._has_atoms = kinds_of(explanation) is not None
        own = dict.fromkeys(explained_nodes(explanation).tolist())
        self._own = next(iter(own)) if len(own) == 1 and task_level(explanation) == "node" else None
        self._is_directed = not is_undirected(edge_index_of(explanation))
        x, mask = features_of(explanation), node_mask_of(explanation)
        whole = x is not None and mask is not None and len(x) == num_nodes_of(explanation)
        self._values = x[self._own] if x is not None and whole and self._own is not None else None

    def join(self, reasons: Sequence[Reason]) -> str:
        """Return reasons as a list in words; links of the explained node are named together."""
        phrases: dict[str, list[str]] = {}
        for reason in reasons:
            opening, name = self._say(reason)
            names = phrases.setdefault(opening, [])
            if name:
                names.append(name)
        said = []
        for opening, names in phrases.items():
            plural = _PLURAL.get(opening, opening) if len(names) > 1 else opening
            said.append(f"{plural} {_list(names)}".strip() if names else opening)
        return _list(said)

    def is_plural(self, reason: Reason) -> bool:
        """Return whether the verb after a single reason is in the plural, as after 'its own features'."""
        return self._say(reason)[0] in ("its own features", "the features of")

    def _say(self, reason: Reason) -> tuple[str, str]:
        """Return how a reason is introduced, and its name."""
        kind, at, own = reason.kind, reason.at, self._own
        if kind == "link":
            if own in at:
                other = self._node(at[1] if at[0] == own else at[0])
                return ("its link from" if self._is_directed and at[1] == own else "its link to"), other
            opening = "the bond" if self._has_atoms else "the link"
            return opening, ("→" if self._is_directed else "–").join(self._node(end) for end in at)
        if kind == "loop":
            if at[0] == own:
                return "its own features", ""
            return ("" if self._has_atoms else "the features of"), self._node(at[0])
        if kind == "own":
            return "its own features", ""
        if kind == "node":
            return ("" if self._has_atoms else "the features of"), self._node(at[0])
        column = at[0]
        name = str(column) if self._features is None else f"'{cut_name(str(self._features[column]))}'"
        if kind == "absence":
            return "the absence of the feature", name
        elsewhere = self._values is not None and float(self._values[column]) == 0
        return "the feature", f"{name} of its neighbours" if elsewhere else name

    def _node(self, node: int) -> str:
        return str(node) if self._nodes is None else cut_name(str(self._nodes[node]))


def _list(names: Sequence[str]) -> str:
    """Return names in a row.

    >>> _list(["a"]), _list(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
