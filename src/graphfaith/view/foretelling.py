"""What a page needs to say what would change: the pairs of an explanation and what each thing foretells if it is gone.

A page adds up numbers: those of what is taken away and, for each pair of which both are taken away, one more. The sum
is what ``explanation.what_if(..., by="pairs")`` returns, or ``by="scores"`` if there are no pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.explain import Explanation

from .._base.errors import GraphfaithError
from ..explanation.answer import answer_of
from ..explanation.faithfulness import Faithfulness
from ..explanation.foretold import Foretold, foretold_of
from ..explanation.masks import of_mask
from ..explanation.reading import interactions_of_units, node_kind_of
from ..explanation.removals import Labels
from ..explanation.scores import node_mask_of
from .layout import Layout

_DIGITS = 6
Thing = tuple[Any, ...]  # ("edge", number), ("loop", place), ("feature", place, column), ("node", place), ("column", c)


def foretelling_of(
    explanation: Explanation, known: Faithfulness | None, layout: Layout, edges: np.ndarray, columns: Sequence[int]
) -> dict[str, Any]:
    """Return the pairs and the what-if of a panel.

    `edges` are the places of the layout's edges that the page has, and `columns` the features that it lists.
    """
    num_pairs = 0 if known is None else known.record.num_pairs
    try:
        foretold = foretold_of(explanation, "pairs" if num_pairs else "scores")
    except GraphfaithError:  # It has masks alone, was edited, or is an excerpt: then nothing is foretold.
        return {"pairs": [], "what_if": None}
    num_pairs = 0 if foretold.paired is None else num_pairs
    things = _Things(foretold, layout, edges)
    return {
        "pairs": _list_pairs(explanation, foretold, things) if num_pairs else [],
        "what_if": _make_what_if(explanation, foretold, things, layout, columns),
    }


class _Things:
    """What of a page the entries of a computation graph belong to."""

    def __init__(self, foretold: Foretold, layout: Layout, edges: np.ndarray) -> None:
        place = {node: i for i, node in enumerate(layout.nodes.tolist())}
        self.layout, self.foretold = layout, foretold
        self.at = [place.get(node, -1) for node in foretold.graph.nodes.tolist()]  # of each node of the part
        self.place = place
        self.number = {tuple(pair): i for i, pair in enumerate(layout.edges[edges].tolist())}
        sources, sinks = foretold.graph.ends.tolist()
        self.of_entry: list[Thing | None] = [self.of_ends(a, b) for a, b in zip(sources, sinks, strict=True)]

    def of_ends(self, source: int, sink: int) -> Thing | None:
        """Return the edge or self-loop of the page between two nodes of the whole graph."""
        a, b = self.place.get(source, -1), self.place.get(sink, -1)
        if a < 0 or b < 0:
            return None
        if a == b:
            return ("loop", a)
        pair = (a, b) if self.layout.directed else (min(a, b), max(a, b))
        number = self.number.get(pair)
        return None if number is None else ("edge", number)

    def of_unit(self, labels: Labels, unit: int) -> list[tuple[Thing | None, float]]:
        """Return the things of a unit, and by how much the unit moves if each is taken away."""
        moves = labels.moves
        if labels.kind(unit) == "edge":
            assert moves.edge_unit is not None
            entries = (moves.edge_unit == unit).nonzero().view(-1).tolist()
            return [(self.of_entry[entry], float(moves.graph.weight[entry])) for entry in entries]
        size, at = float(moves.sizes()[unit]), labels.place(unit)
        return [(self.of_place(labels.kind(unit), at), size)]

    def of_place(self, kind: str, at: tuple[int, ...]) -> Thing | None:
        """Return an edge, feature, node or column by its ids in the whole graph."""
        if kind == "edge":
            return self.of_ends(at[0], at[1])
        if kind == "column":
            return ("column", at[0])
        place = self.place.get(at[0], -1)
        return None if place < 0 else (kind, place, *at[1:])


def _describe(thing: Thing) -> dict[str, Any]:
    """Return a thing as the page names it."""
    kind, *at = thing
    return {kind: at if kind == "feature" else at[0]}


def _list_pairs(explanation: Explanation, foretold: Foretold, things: _Things) -> list[dict[str, Any]]:
    """Return the pairs both of whose ends are on the page, with a sentence each."""
    labels, found = Labels(explanation, foretold.moves), []
    for pair, units in interactions_of_units(explanation):
        ends = [things.of_unit(labels, unit)[0][0] for unit in units]
        if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
            continue
        first, second = _describe(ends[0]), _describe(ends[1])
        found.append({"first": first, "second": second, "together": _short(pair.together), "text": str(pair)})
    return found


def _make_what_if(
    explanation: Explanation, foretold: Foretold, things: _Things, layout: Layout, columns: Sequence[int]
) -> dict[str, Any]:
    """Return by how much F changes if one thing of the page is gone, and how much more if two of a pair are."""
    alone: dict[Thing, float] = defaultdict(float)
    graph = foretold.graph
    for thing, amount in zip(things.of_entry, (foretold.phi_a * graph.weight.double()).tolist(), strict=True):
        if thing is not None:
            alone[thing] -= amount
    # A score of a whole node or column says nothing of one feature by itself, so there no feature can be taken away.
    scored = node_mask_of(explanation) is not None and of_mask(node_kind_of(explanation)) == "feature"
    together: dict[tuple[Thing, Thing], float] = defaultdict(float)
    if foretold.paired is not None:
        labels = Labels(explanation, foretold.moves)
        for u, w, psi in foretold.pairs:
            for first, a in things.of_unit(labels, u):
                for second, b in things.of_unit(labels, w):
                    _add_pair(alone, together, first, second, -psi * a * b)
    answer = answer_of(explanation)
    count = len(things.number)
    nodes = range(len(layout.nodes))
    return {
        "pairs": foretold.paired is not None,
        "unit": "output" if answer is None else answer.unit,
        "base": None if answer is None or answer.value is None else _short(answer.value),
        "edges": [_short(alone.get(("edge", i), 0.0)) for i in range(count)],
        "loops": [_short(alone.get(("loop", i), 0.0)) for i in nodes],
        "features": _list_features(foretold, things, layout, columns) if scored else [],
        "together": [[_describe(first), _describe(second), _short(more)] for (first, second), more in together.items()],
    }


def _add_pair(
    alone: dict[Thing, float],
    together: dict[tuple[Thing, Thing], float],
    first: Thing | None,
    second: Thing | None,
    more: float,
) -> None:
    """Add what a pair changes: to a thing by itself if both are of it, as both directions of an edge are."""
    # One of them is not on the page or is a whole node or column, and so cannot be taken away there.
    if first is None or second is None or {first[0], second[0]} & {"node", "column"}:
        return
    if first == second:
        alone[first] += more
        return
    together[min(first, second), max(first, second)] += more


def _list_features(
    foretold: Foretold, things: _Things, layout: Layout, columns: Sequence[int]
) -> list[tuple[int, int, float]]:
    """Return place, column and -x times score of each listed feature that an explained node has.

    They are the same in every panel, whatever its scores, so that all foretell the same thing.
    """
    x, phi = foretold.graph.x.double(), foretold.phi_x
    explained = {place for panel in layout.panels for place in panel.explained}
    rows = [(row, place) for row, place in enumerate(things.at) if place in explained]
    return [
        (place, column, _short(-float(x[row, column] * phi[row, column])))
        for column in columns
        for row, place in rows
        if x[row, column] != 0
    ]


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
