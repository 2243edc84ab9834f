"""What a page needs to say what would change: the pairs of an explanation and what each thing foretells if it is gone.

A page adds up numbers: those of what is taken away and, for each pair of which both are taken away, one more. The sum
is what ``explanation.what_if(..., by="pairs")`` returns, or ``by="scores"`` if there are no pairs.

Sums of scores are made for a whole neighbourhood, and may say the wrong direction of one link by itself. So the page
also has p's own answer, ``explanation.what_if(...)``, for each single thing that can be taken away there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.errors import GraphfaithError
from ..explanation.answer import answer_of
from ..explanation.faithfulness import Faithfulness
from ..explanation.foretold import Foretold, foretold_of
from ..explanation.masks import of_mask
from ..explanation.reading import fitted_of, interactions_of_units, node_kind_of
from ..explanation.removals import Labels
from ..explanation.scores import node_mask_of
from ..explanation.what_if import foretell_each
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import LinearModel
from .layout import Layout

_DIGITS = 6
_HELD = 2**22  # the most numbers in the perturbations that p is asked about at once
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
    """Return the pairs with a sentence each; an end that is not on the page is None."""
    labels, found = Labels(explanation, foretold.moves), []
    for pair, units in interactions_of_units(explanation):
        ends = [things.of_unit(labels, unit)[0][0] for unit in units]
        first, second = (None if end is None else _describe(end) for end in ends)
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
    features = _list_features(foretold, things, columns) if scored else []
    return {
        "pairs": foretold.paired is not None,
        "unit": "output" if answer is None else answer.unit,
        "base": None if answer is None or answer.value is None else _short(answer.value),
        "edges": [_short(alone.get(("edge", i), 0.0)) for i in range(count)],
        "loops": [_short(alone.get(("loop", i), 0.0)) for i in nodes],
        "features": features,
        "together": [[_describe(first), _describe(second), _short(more)] for (first, second), more in together.items()],
        "p": _ask_p(explanation, things, list(dict.fromkeys(column for _, column, _ in features))),
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


def _list_features(foretold: Foretold, things: _Things, columns: Sequence[int]) -> list[tuple[int, int, float]]:
    """Return place, column and -x times score of each listed feature that an explained node has.

    They are the same in every panel, whatever its scores, so that all foretell the same thing.
    """
    x, phi = foretold.graph.x.double(), foretold.phi_x
    rows = _explained_rows(things)
    return [
        (place, column, _short(-float(x[row, column] * phi[row, column])))
        for column in columns
        for row, place in rows
        if x[row, column] != 0
    ]


def _ask_p(explanation: Explanation, things: _Things, columns: Sequence[int]) -> dict[str, Any] | None:
    """Return what p foretells for each thing by itself, [change, error], as ``explanation.what_if`` does.

    Edges and self-loops are in the order of the page, a node goes with all its edges on the page, and a column of the
    features at every explained node. A thing without any entry that F reads has null, as has an error that is not
    known. It is None where p is the sum of the scores itself, or is fitted in no neighbourhood.
    """
    try:
        p, near = fitted_of(explanation, "what_if")
    except GraphfaithError:
        return None
    if isinstance(p, LinearModel):
        return None
    entries: dict[Thing, list[int]] = defaultdict(list)
    pairs = {number: ends for ends, number in things.number.items()}
    felt = p.graph.felt.tolist()
    for entry, thing in enumerate(things.of_entry):
        if thing is None or not felt[entry]:
            continue
        entries[thing].append(entry)
        if thing[0] == "edge":
            for end in pairs[thing[1]]:
                entries["node", end].append(entry)
    rows = _ask_about_entries(p, near, list(entries.values()))
    said = dict(zip(entries, rows, strict=True))
    places = range(len(things.layout.nodes))
    return {
        "edges": [said.get(("edge", i)) for i in range(len(things.number))],
        "loops": [said.get(("loop", i)) for i in places],
        "nodes": [said.get(("node", i)) for i in places],
        "features": [[column, *_ask_about_column(p, near, things, column)] for column in columns],
    }


def _ask_about_entries(p: Any, near: Any, sets: Sequence[Sequence[int]]) -> list[list[float | None]]:
    """Return what p foretells if each set of entries of A is gone, some sets at a time."""
    graph, found = p.graph, list[list[float | None]]()
    size = max(1, _HELD // max(1, graph.num_edges))
    for start in range(0, len(sets), size):
        part = sets[start : start + size]
        edges = torch.zeros(len(part), graph.num_edges, dtype=torch.float64)
        for row, entries in enumerate(part):
            edges[row, entries] = graph.weight[entries].double()
        found += _round_rows(*foretell_each(p, near, Perturbations(graph, None, edges)))
    return found


def _ask_about_column(p: Any, near: Any, things: _Things, column: int) -> list[float | None]:
    """Return what p foretells if a feature of the explained nodes is 0."""
    graph = p.graph
    features: Tensor = torch.zeros(1, *graph.x.shape, dtype=graph.x.dtype)
    rows = [row for row, _ in _explained_rows(things)]
    features[0, rows, column] = graph.x[rows, column]
    edges = torch.zeros(1, graph.num_edges, dtype=torch.float64)
    return _round_rows(*foretell_each(p, near, Perturbations(graph, features, edges)))[0]


def _round_rows(changes: Sequence[float], errors: Sequence[float | None]) -> list[list[float | None]]:
    """Return changes and errors to the digits that a page needs; it shows two of an error."""
    return [
        [_short(change), None if error is None else float(f"{error:.2g}")]
        for change, error in zip(changes, errors, strict=True)
    ]


def _explained_rows(things: _Things) -> list[tuple[int, int]]:
    """Return the rows of the computation graph that are explained in some panel, each with its place on the page."""
    explained = {place for panel in things.layout.panels for place in panel.explained}
    return [(row, place) for row, place in enumerate(things.at) if place in explained]


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
