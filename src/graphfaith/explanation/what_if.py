"""What if an edge were gone, or a feature had another value: p foretells, and the model may be asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation

from .._base.checks import check_node, check_real, is_whole
from .._base.errors import InputError, UnsupportedError, show
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import is_undirected
from ..sampling.neighborhood import Neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.evidence import Evidence
from ..surrogate.moves import Moves
from .foretold import foretold_of
from .masks import target_of
from .origin import explainer_of
from .reading import check_unchanged, fitted_of
from .scores import edge_index_of, names_of

_PILOT, _HELD = 64, 2**23  # samples of the fit that show how far it went, and the most numbers in them
_NEAREST = 30  # The error of a prophecy is that at so many samples of the fit with changes of about its size.


@dataclass(frozen=True)
class WhatIf:
    """What p foretells for a changed graph: ``change`` is F after the change less F before.

    ``stderr`` is the root of p's mean square error at samples of the fit whose change is of about the same size, each
    of them left out of the fit. It is None if p brought no samples, or none that went so far: of weights that moved by
    at most a half, nothing follows for an edge that is gone. ``actual`` is the model's own answer, if it was asked.

    If ``silenced``, the explanation multiplies messages: an edge that is taken away sends nothing, but a softmax or a
    mean still counts it. Where edges are dropped, as in B(A,0.5) or R(A,5), they are really removed.
    """

    change: float
    stderr: float | None
    actual: float | None = None
    silenced: bool = False

    def __str__(self) -> str:
        """Return the answer in words.

        >>> print(WhatIf(-1.1, 0.2, -1.04))
        F would change by -1.1 ± 0.2; the model says -1.04
        >>> print(WhatIf(-1.1, None, silenced=True))
        F would change by -1.1 (no error known), if the message were 0; fit in R(A,5) to ask about a removed edge
        """
        error = " (no error known)" if self.stderr is None else f" ± {self.stderr:.2g}"
        asked = "" if self.actual is None else f"; the model says {self.actual:+.3g}"
        silent = ", if the message were 0; fit in R(A,5) to ask about a removed edge" if self.silenced else ""
        return f"F would change by {self.change:+.3g}{error}{silent}{asked}"


def what_if(
    explanation: Explanation,
    remove: Iterable[tuple[Any, ...]] = (),
    set: Mapping[tuple[Any, ...], float] | None = None,  # It is what a user would write.
    *,
    directed: bool | None = None,
    check: bool = False,
    explainer: Explainer | None = None,
    by: Literal["p", "pairs", "scores"] = "p",
) -> WhatIf:
    """Return what is foretold if edges are removed and features are set to other values.

    Args:
        explanation: one whose method fits a p, such as AnchoredKEC.
        remove: pairs (source, sink) of nodes, by id or by name; (v, v) is the self-loop of v. In a heterogeneous graph
            also (edge type, source, sink).
        set: other values of features, by (node, feature), where either may be an id or a name; by (node, step, channel)
            and so on if features have several dimensions, of which a single number counts all places in order.
        directed: whether (u, v) means that entry alone. If None, both entries are removed if the graph is undirected,
            which is that every edge is there in both directions.
        check: ask the model too.
        explainer: the explainer to ask, if the explanation does not know the one that made it.
        by: who foretells: "p"; the "scores" that are shown, added up; or scores and "pairs", as a page does
            (:mod:`~graphfaith.explanation.foretold`). Only p knows its error.
    """
    check_unchanged(explanation)
    if by not in ("p", "pairs", "scores"):
        raise InputError(f'by must be "p", "pairs" or "scores" (got {show(by)})')
    if by == "p":
        p, near = fitted_of(explanation, "what_if")
        graph: ComputationGraph = p.graph
    else:
        foretold = foretold_of(explanation, by)
        graph = foretold.graph
    perturbation = perturb(explanation, graph, list(remove), dict(set or {}), directed)
    if by == "p":
        changes, errors = foretell_each(p, near, perturbation)
        change, error = changes[0], errors[0]
    else:
        change, error = foretold.change(perturbation), None
    actual = None
    if check:
        target = target_of(explainer or explainer_of(explanation, "check=True"), explanation)
        actual = -float(target.changes(perturbation)[0])
    edges = perturbation.edges
    silenced = explanation.get("edge_route") == "mask" and edges is not None and bool(edges.any())
    return WhatIf(change, error, actual, silenced)


def foretell_each(p: Any, near: Neighborhood, asked: Perturbations) -> tuple[list[float], list[float | None]]:
    """Return by how much F changes by p at each sample, -p.change, and the error of that as in :class:`WhatIf`."""
    changes: list[float] = (-p.change(asked).double()).tolist()
    evidence = getattr(p, "evidence", None)
    if not isinstance(evidence, Evidence) or not len(evidence.change):
        return changes, [None] * len(changes)
    moved = torch.zeros(len(changes), dtype=torch.bool)
    for part in (asked.edges, asked.features):
        if part is not None:
            moved |= part.flatten(1).any(dim=1)
    seen = _were_sampled(evidence, near, asked) if bool(moved.any()) else moved
    errors: list[float | None] = []
    for change, moves, known in zip(changes, moved.tolist(), seen.tolist(), strict=True):
        # What is out of reach does not change F.
        errors.append(0.0 if not moves else _error(evidence, abs(change)) if known else None)
    return changes, errors


def _were_sampled(evidence: Evidence, near: Neighborhood, asked: Perturbations) -> Tensor:
    """Return for each perturbation, [S], whether the samples of a fit go where it goes.

    Each unit that is moved has to be one that the neighbourhood moves, whole if it has two entries, no further and with
    the same sign, and no more units at once than in some sample.
    """
    graph = asked.graph
    moves = Moves(graph, near)
    held = graph.num_edges + (graph.x.numel() if near.perturbs_features else 0)
    pilot = evidence.first(min(_PILOT, max(4, _HELD // held))).perturbations(graph, near)
    entries = moves.edge_unit
    parts = [part for part in (asked.edges, asked.features) if part is not None]
    seen = torch.ones(len(parts[0]), dtype=torch.bool)
    if asked.edges is not None and bool(asked.edges.any()):
        if entries is None or pilot.edges is None:
            seen &= ~asked.edges.any(dim=1)
        else:
            kept = entries >= 0
            weight = torch.where(graph.weight != 0, graph.weight, 1.0).double()
            ratio, known = asked.edges / weight, pilot.edges / weight
            seen &= ~asked.edges[:, ~kept].any(dim=1)
            seen &= _are_within(ratio, float(known.min()), float(known.max()))
            # Where half of a pair was moved, its unit has one ratio and the entry another.
            units = entries[kept].expand(len(ratio), -1)
            first = torch.zeros(len(ratio), moves.num_edge_units, dtype=torch.float64).scatter_(
                1, units, ratio[:, kept]
            )
            seen &= torch.isclose(first.gather(1, units), ratio[:, kept]).all(dim=1)
            most = int((moves.of(pilot)[:, : moves.num_edge_units] != 0).sum(dim=1).max())
            seen &= (first != 0).sum(dim=1) <= most
    if asked.features is not None and bool(asked.features.any()):
        if moves.feature_place is None or pilot.features is None:
            return seen & ~asked.features.flatten(1).any(dim=1)
        still = torch.ones(graph.x.numel(), dtype=torch.bool)
        still[moves.feature_place] = False
        seen &= ~asked.features.flatten(1)[:, still].any(dim=1)
        low, high = pilot.features.amin(dim=(0, 1)), pilot.features.amax(dim=(0, 1))  # of each column
        seen &= _are_within(asked.features, low, high)
    return seen


def _are_within(values: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """Return for each sample, [S], whether all its values that are not 0 are between two bounds, but for rounding."""
    slack = 1e-6 * values.abs()
    return ((values == 0) | ((values >= low - slack) & (values <= high + slack))).flatten(1).all(dim=1)


def _error(evidence: Evidence, size: float) -> float:
    """Return the root mean square of what p leaves at the samples whose change is nearest in size.

    It is at least F's rounding, which p cannot know.
    """
    sizes, left = (evidence.change + evidence.left_out).abs(), evidence.left_out
    nearest = torch.argsort((sizes - size).abs(), stable=True)[:_NEAREST]
    return math.sqrt(max(float(left[nearest].square().mean()), evidence.noise))


def perturb(
    explanation: Explanation,
    graph: ComputationGraph,
    remove: list[tuple[Any, ...]],
    values: dict[tuple[Any, ...], float],
    directed: bool | None,
) -> Perturbations:
    """Return the perturbation that makes the changed graph, as a single sample."""
    if not remove and not values:
        raise InputError("say what to change: remove=[(source, sink), ...] or set={(node, feature): value, ...}")
    edges = torch.zeros(1, graph.num_edges, dtype=torch.float64)
    nodes = names_of(explanation, "node_names")
    if remove:
        both = is_undirected(edge_index_of(explanation)) if directed is None else not directed
        for pair in remove:
            for entry in _entries_between(explanation, graph, pair, nodes, both=both):
                edges[0, entry] = graph.weight[entry].double()
    features = None
    if values:
        features = torch.zeros(1, *graph.x.shape, dtype=graph.x.dtype)
        for place, value in values.items():
            row, column = _feature_at(explanation, graph, place, nodes)
            number = check_real(value, f"the value of {show(place)}", least=-math.inf)
            if graph.categorical:
                number = _presence_of(explanation, place, column, value)
            if row is not None:
                features[0, row, column] = graph.x[row, column] - number
    return Perturbations(graph, features, edges)


def _presence_of(explanation: Explanation, place: Any, column: int, value: float) -> float:
    """Return 0 for the baseline of a column of categories; p knows of no other one."""
    baseline = explanation.get("baseline_categories")
    if not isinstance(baseline, Tensor) or float(baseline.reshape(-1)[column]) != float(value):
        known = "" if not isinstance(baseline, Tensor) else f", {baseline.reshape(-1)[column].item()}"
        raise UnsupportedError(
            f"set {show(place)}: the explanation says what happens if a category is replaced by the baseline of its "
            f"column{known}, and not by another one (got {value!r})"
        )
    return 0.0


def _node_at(node: Any, count: int, names: Any) -> int:
    """Return the id of a node that is given by its id or its name."""
    if isinstance(node, str) and names is not None:
        places = [i for i, name in enumerate(names) if str(name) == node]
        if len(places) == 1:
            return places[0]
        raise InputError(f"{len(places) or 'no'} nodes have the name {show(node)}")
    return check_node(node, count)


def _entries_between(
    explanation: Explanation, graph: ComputationGraph, pair: Any, names: Any, *, both: bool
) -> list[int]:
    """Return the entries of A between two nodes that F reads; an edge that the graph does not have is an error."""
    if graph.kinds is not None and isinstance(pair, tuple | list) and len(pair) == 3:
        return _entries_of_type(explanation, graph, *pair)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"remove= takes pairs (source, sink) (got {show(pair)})")
    count = graph.size[0]
    source, sink = (_node_at(end, count, names) for end in pair)
    ends, edge_index = graph.ends, edge_index_of(explanation)
    ways = {(source, sink), (sink, source)} if both else {(source, sink)}
    exists = source == sink or any(bool(((edge_index[0] == a) & (edge_index[1] == b)).any()) for a, b in ways)
    if not exists:
        raise InputError(f"the graph has no edge from node {source} to node {sink}")
    found = torch.zeros(graph.num_edges, dtype=torch.bool)
    for a, b in ways:
        found |= (ends[0] == a) & (ends[1] == b)
    entries: list[int] = (found & graph.felt).nonzero().view(-1).tolist()
    return entries  # An edge out of reach does not change F: there is then none.


def _entries_of_type(explanation: Explanation, graph: ComputationGraph, name: Any, source: Any, sink: Any) -> list[int]:
    """Return the entries of A that F reads for an edge of a type; its ends are numbered within theirs."""
    kinds = graph.kinds
    assert kinds is not None
    if name not in kinds.edge_types:
        raise InputError(f"there is no edge type {show(name)}: the graph has {', '.join(map(str, kinds.edge_types))}")
    kind = kinds.edge_types.index(name)
    ends = [
        kinds.node_start[end] + check_node(node, kinds.node_start[end + 1] - kinds.node_start[end])
        for end, node in zip(kinds.ends(kind), (source, sink), strict=True)
    ]
    own = edge_index_of(explanation)[:, kinds.edges(kind)]
    if not bool(((own[0] == ends[0]) & (own[1] == ends[1])).any()):
        raise InputError(
            f"the graph has no edge of type {name} from {kinds.name_of(ends[0])} to {kinds.name_of(ends[1])}"
        )
    found = (graph.ends[0] == ends[0]) & (graph.ends[1] == ends[1]) & (graph.edge_kind == kind) & graph.felt
    entries: list[int] = found.nonzero().view(-1).tolist()
    return entries


def _on_matrix(explanation: Explanation, place: Any) -> Any:
    """Return (node, feature) for a place in features of several dimensions, as (node, step, channel)."""
    shape = tuple(explanation.x.shape[1:]) if isinstance(explanation.get("x"), Tensor) else ()
    if len(shape) < 2 or not isinstance(place, tuple | list) or len(place) != 1 + len(shape):
        return place
    column = 0
    for at, size in zip(place[1:], shape, strict=True):
        if not is_whole(at) or not 0 <= int(at) < size:
            raise InputError(f"set {show(place)} is out of range: a node's features have shape {list(shape)}")
        column = column * size + int(at)
    return place[0], column


def _feature_at(explanation: Explanation, graph: ComputationGraph, place: Any, names: Any) -> tuple[int | None, int]:
    """Return row and column of a feature in the computation graph; the row is None if F does not see the node."""
    kinds = graph.kinds
    if kinds is not None and isinstance(place, tuple | list) and len(place) == 3 and place[0] in kinds.node_types:
        kind = kinds.node_types.index(place[0])
        node = check_node(place[1], kinds.node_start[kind + 1] - kinds.node_start[kind])
        column = check_node(place[2], kinds.column_start[kind + 1] - kinds.column_start[kind])
        place = kinds.node_start[kind] + node, kinds.column_start[kind] + column
    place = _on_matrix(explanation, place)
    if not isinstance(place, tuple | list) or len(place) != 2:
        raise InputError(f"set= takes values by (node, feature) (got {show(place)})")
    node, column = _node_at(place[0], graph.size[0], names), place[1]
    columns, width = names_of(explanation, "feature_names"), graph.x.size(1)
    if isinstance(column, str) and columns is not None:
        places = [i for i, name in enumerate(columns) if str(name) == column]
        if len(places) != 1:
            raise InputError(f"{len(places) or 'no'} features have the name {show(column)}")
        column = places[0]
    if not is_whole(column) or not 0 <= int(column) < width:
        raise InputError(f"feature {show(column)} is out of range: there are features 0 to {width - 1}")
    rows = (graph.nodes[: graph.num_visible] == node).nonzero().view(-1)
    return (int(rows[0]) if len(rows) else None), int(column)
