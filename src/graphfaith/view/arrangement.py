"""Where everything is drawn: as given, in a layout of the whole, or in rings about what is explained, partly folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..explanation.scores import Scores
from .folds import Fold, Tree, choose_visible, describe_fold, find_owners, fold_up, grow_tree
from .positions import Array, Index, place
from .rings import open_flower, place_in_rings
from .selection import Rest

_MOLECULE = 60  # A graph of so many nodes is drawn whole if it is itself explained.
_MOST_ROOTS = 4  # Of more explained nodes than these, none is the middle of the picture.


@dataclass(frozen=True)
class Arrangement:
    """Where everything is, and what is folded away: members by the node that their mark is put at."""

    positions: Array  # [n, 2]
    rings: tuple[float, ...]
    tree: Tree
    folded: dict[int, list[int]]
    marks: Array  # [f, 2]


def arrange(
    edges: Index,
    strength: Array,
    own: Array,
    *,
    roots: list[int],
    centre: int,
    wanted: Sequence[int],
    spoken: Sequence[tuple[int, ...]],
    rest: Rest,
    about: bool,
    small: bool,
    fold: bool,
    given: Array | None,
) -> Arrangement:
    """Place everything: as given, by a layout of the whole, or in rings about the explained nodes.

    A graph that is `small`, or a molecule, is drawn whole. Of a large graph whose own answer is explained (not `about`
    nodes of it), the part that is drawn gets a layout of the whole, and marks of folds are drawn as neighbours of the
    node that they belong to.
    """
    count = len(own)
    tree = grow_tree(count, edges, strength, roots)
    if given is not None:
        return Arrangement(given, (), tree, {}, np.zeros((0, 2)))
    about = about and 0 < len(roots) <= _MOST_ROOTS
    if small if about else count <= _MOLECULE:
        return Arrangement(place(count, edges, strength, centre), (), tree, {}, np.zeros((0, 2)))
    start = roots if about else [centre]
    grown = grow_tree(count, edges, strength, start)
    visible = np.ones(count, dtype=bool)
    held = np.bincount(rest.at, minlength=count)
    if fold:
        visible = choose_visible(grown, edges, strength, own, start, [*roots, *wanted], spoken, held)
    folded = fold_up(grown, visible, start, held)
    if about:
        weight = own + np.bincount(edges.ravel(), weights=np.repeat(strength, 2), minlength=count)
        rings = place_in_rings(grown, edges, strength, np.flatnonzero(visible).tolist(), folded, weight, start)
        return Arrangement(rings.nodes, rings.radii, grown, folded, rings.folds)
    positions, marks = _place_drawn(edges, strength, visible, folded, centre)
    return Arrangement(positions, (), replace(grown, hops=tree.hops), folded, marks)


def _place_drawn(
    edges: Index, strength: Array, visible: NDArray[np.bool_], folded: dict[int, list[int]], centre: int
) -> tuple[Array, Array]:
    """Return a layout of what is drawn, in which marks are further nodes with one edge each."""
    drawn = np.flatnonzero(visible).tolist()
    number = {node: i for i, node in enumerate(drawn)}
    inner = visible[edges].all(1)
    pairs = [[number[a], number[b]] for a, b in edges[inner].tolist()]
    pairs += [[number[at], len(drawn) + i] for i, at in enumerate(folded)]
    weight = np.append(strength[inner], np.zeros(len(folded)))
    points = place(len(drawn) + len(folded), np.array(pairs, dtype=np.int64).reshape(-1, 2), weight, number[centre])
    positions, marks = np.zeros((len(visible), 2)), points[len(drawn) :]
    positions[drawn] = points[: len(drawn)]
    for mark, members in zip(marks, folded.values(), strict=True):
        positions[members] = open_flower(mark, len(members))
    return positions, marks


def make_folds(
    arranged: Arrangement, nodes: Index, edges: Index, scores: Sequence[Scores], rest: Rest, names: Sequence[str]
) -> tuple[Fold, ...]:
    """Return the folds, with what the layout has no room for, and the sums of the scores of each panel's hidden edges.

    `nodes` [n] are the ids of the layout's nodes, and `edges` [m, 2] places in them. A hidden edge counts in one fold
    alone: between two folds in the first of them. The sum is None if a panel scores no edges.
    """
    tree, folded = arranged.tree, arranged.folded
    if not folded:
        return ()
    owner = np.full(len(nodes), -1)
    for number, members in enumerate(folded.values()):
        owner[members] = number
    more = find_owners(tree, folded)[rest.at]
    whole = np.full(max(one.num_nodes for one in scores), -1)
    whole[nodes], whole[rest.ids] = owner, more
    of_edge = _first_fold(owner, edges.T)
    columns = []
    for one in scores:
        if one.edge is None or not bool(one.edge.any()):
            columns.append([None] * len(folded))
            continue
        at, values = _first_fold(whole, one.edge_index.numpy()), one.edge.numpy()
        columns.append(np.bincount(at[at >= 0], values[at >= 0], len(folded)).tolist())
    folds = []
    for i, ((parent, members), mark) in enumerate(zip(folded.items(), arranged.marks.tolist(), strict=True)):
        mine = more == i
        hops = np.where(rest.at[mine] == parent, rest.hops[mine], rest.hops[mine] + 1).tolist()
        text = describe_fold(members, parent, names[parent], tree, hops)
        hidden, sums = np.flatnonzero(of_edge == i), tuple(column[i] for column in columns)
        count = len(members) + len(hops)
        folds.append(Fold(parent, tuple(members), tuple(hidden.tolist()), (mark[0], mark[1]), text, sums, count))
    return tuple(folds)


def _first_fold(owner: Index, ends: Index) -> Index:
    """Return for each edge the number of its fold, -1 if both its ends are drawn."""
    first, last = owner[ends[0]], owner[ends[1]]
    result: Index = np.where((first >= 0) & (last >= 0), np.minimum(first, last), np.maximum(first, last))
    return result
