"""What is drawn at first sight of a large graph, and what is folded away into one mark for each parent.

The shown part is a tree from the explained nodes outwards, with all edges between its nodes. A node's parent is a
neighbour one hop nearer, the one with the strongest edge. Nodes are taken in the order of what they add to the weight
of the scores for each mark they need, until there are as many marks as a person can look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from .positions import Array, Index

MOST_MARKS = 30  # nodes and folds at first sight
_WHOLE = 16  # If no more nodes than these have scores, all are drawn.
_FEW = 6  # So many nodes of more are drawn even if some of them say nothing.
_MOST_FOLDS = 8  # More of them are joined with the fold of the parent's parent.
_SLACK = 2  # marks more than these are not made by unfolding single nodes
_NOTHING = 0.03  # of the strongest edge: a node that adds less is not worth a mark
_LITTLE, _MOST = 0.1, 0.75  # nor is one that adds less than this, once so much of the scores' weight is drawn


@dataclass(frozen=True)
class Fold:
    """Nodes that one mark stands for; all numbers are places in the layout's nodes and edges."""

    parent: int
    members: tuple[int, ...]
    edges: tuple[int, ...]  # the hidden edges that it stands for; each hidden edge belongs to one fold
    position: tuple[float, float]
    text: str
    sums: tuple[float | None, ...]  # for each panel, the sum of the scores of the edges
    count: int = 0  # how many nodes it stands for: its members, and what the layout has no room for


@dataclass(frozen=True)
class Tree:
    """Hops from the explained nodes and the parent of each node; -1 is for what cannot be reached, and for roots."""

    hops: Index  # [n]
    parent: Index  # [n]
    strength: Array  # [n] of the edge to the parent
    order: tuple[int, ...]  # the nodes that can be reached, parents before children


def grow_tree(num_nodes: int, edges: Index, strength: Array, roots: Sequence[int]) -> Tree:
    """Return the tree from the roots outwards. Of equally strong edges, the one to the smaller place counts."""
    hops = np.full(num_nodes, -1, dtype=np.int64)
    parent, towards = np.full(num_nodes, -1, dtype=np.int64), np.zeros(num_nodes)
    if num_nodes and len(roots):
        # Earlier versions of scipy walk over graphs of 32-bit numbers alone.
        ones, ends = np.ones(len(edges)), edges.astype(np.int32)
        graph = coo_array((ones, (ends[:, 0], ends[:, 1])), shape=(num_nodes, num_nodes)).tocsr()
        distance = dijkstra(graph, directed=False, unweighted=True, indices=list(roots)).min(0)
        reached = np.isfinite(distance)
        hops[reached] = distance[reached].astype(np.int64)
    both = np.concatenate([edges, edges[:, ::-1]])
    weight = np.concatenate([strength, strength])
    inwards = (hops[both[:, 0]] >= 0) & (hops[both[:, 1]] == hops[both[:, 0]] + 1)
    both, weight = both[inwards], weight[inwards]
    for row in np.lexsort((both[:, 0], -weight))[::-1].tolist():  # The best one is written last.
        parent[both[row, 1]], towards[both[row, 1]] = both[row, 0], weight[row]
    reachable = np.flatnonzero(hops >= 0)
    order = reachable[np.argsort(hops[reachable], kind="stable")]
    return Tree(hops, parent, towards, tuple(order.tolist()))


def choose_visible(
    tree: Tree,
    edges: Index,
    strength: Array,
    own: Array,
    roots: Sequence[int],
    wanted: Sequence[int],
    spoken: Sequence[tuple[int, ...]],
    held: Index,
) -> NDArray[np.bool_]:
    """Return which nodes are drawn at first sight, [n].

    `strength` [m] and `own` [n] are the weights of edges and of nodes by themselves. The roots and what is `wanted` are
    always drawn, with the nodes between them. Then comes what the words above the picture name (`spoken`, a few nodes
    for each reason), as far as there is room, and then what adds most.
    """
    count = len(tree.hops)
    visible = np.zeros(count, dtype=bool)
    visible[list(roots)] = True
    for node in wanted:
        _show(tree, node, visible)
    for nodes in spoken:
        trial = visible.copy()
        for node in nodes:
            _show(tree, node, trial)
        if _count_marks(tree, trial) <= MOST_MARKS:
            visible = trial
    strongest = max(float(strength.max(initial=0.0)), float(own.max(initial=0.0)))
    total = float(strength.sum() + own.sum())
    if count + int(held.sum()) <= _WHOLE:
        return np.ones(count, dtype=bool)
    while not visible.all():
        best, gain = _find_best(tree, edges, strength, own, visible)
        trial = visible.copy()
        _show(tree, best, trial)
        drawn = float(strength[visible[edges].all(1)].sum() + own[visible].sum())
        least = _LITTLE if drawn >= _MOST * total else _NOTHING
        weak = gain < least * strongest and int(visible.sum()) >= _FEW
        if weak or _count_marks(tree, trial) > MOST_MARKS:
            break
        visible = trial
    return _unfold_single(tree, visible, held)


def _find_best(tree: Tree, edges: Index, strength: Array, own: Array, visible: NDArray[np.bool_]) -> tuple[int, float]:
    """Return the hidden node that adds most for each mark that it and its hidden ancestors need, and what it adds.

    A node adds its own weight and that of its edges to drawn nodes, and so does each hidden ancestor, whose edge to its
    child counts too.
    """
    count = len(visible)
    seen = visible[edges]
    gain = own.astype(np.float64).copy()
    for end, other in ((0, 1), (1, 0)):
        joins = seen[:, end] & ~seen[:, other]
        gain += np.bincount(edges[joins, other], weights=strength[joins], minlength=count)
    marks = np.ones(count)
    for node in tree.order:
        above = int(tree.parent[node])
        if above >= 0 and not visible[node] and not visible[above]:
            gain[node] += gain[above] + tree.strength[node]
            marks[node] += marks[above]
    share = np.where(visible, -1.0, gain / marks)
    # What is equal but for rounding is taken in the order of the nodes, on every machine.
    best = int(np.argmax(share >= share.max() - 1e-9 * abs(share.max())))
    return best, float(share[best])


def fold_up(tree: Tree, visible: NDArray[np.bool_], roots: Sequence[int], held: Index) -> dict[int, list[int]]:
    """Return the hidden nodes by the drawn node that their mark is put at.

    A node that would be folded alone joins the fold of the nearest ancestor. `held` [n] is how many nodes the layout
    has no room for at each node (:class:`~.selection.Rest`).
    """
    groups = _group(tree, visible, roots)
    for at in sorted(groups, key=lambda at: (-tree.hops[at], at)):
        if _is_single(at, groups[at], held) and tree.parent[at] >= 0:
            above = int(tree.parent[at])
            while above not in groups and tree.parent[above] >= 0:
                above = int(tree.parent[above])
            groups.setdefault(above, []).extend(groups.pop(at))
    return {at: sorted(groups[at]) for at in sorted(groups)}


def _is_single(at: int, members: Sequence[int], held: Index) -> bool:
    """Return whether a fold stands for one node alone."""
    return len(members) == 1 and not held[at] and not held[members[0]]


def _group(tree: Tree, visible: NDArray[np.bool_], roots: Sequence[int]) -> dict[int, list[int]]:
    """Return the hidden nodes by the nearest drawn ancestor; if there are too many groups, some are joined."""
    anchor = _find_anchors(tree, visible)
    groups: dict[int, list[int]] = {}
    for node in np.flatnonzero(~visible).tolist():
        at = int(anchor[node])
        groups.setdefault(at if at >= 0 else roots[0] if len(roots) else 0, []).append(node)
    while len(groups) > _MOST_FOLDS:
        # The smallest group among those farthest out joins the one of the parent.
        inner = [at for at in groups if tree.parent[at] >= 0]
        if not inner:
            break
        at = min(inner, key=lambda at: (-tree.hops[at], len(groups[at]), at))
        groups.setdefault(int(tree.parent[at]), []).extend(groups.pop(at))
    return groups


def find_owners(tree: Tree, folded: dict[int, list[int]]) -> Index:
    """Return for each node the number of the fold that stands for what the layout has no room for around it, [n].

    It is the node's own fold, or else the fold at it, or at the nearest ancestor that has one, or the largest.
    """
    owner = np.full(len(tree.hops), -1, dtype=np.int64)
    for number, (at, members) in enumerate(folded.items()):
        owner[members] = number
        owner[at] = number
    for node in tree.order:
        if owner[node] < 0 <= tree.parent[node]:
            owner[node] = owner[tree.parent[node]]
    if folded:
        owner[owner < 0] = max(range(len(folded)), key=lambda number: len([*folded.values()][number]))
    return owner


def describe_fold(members: Sequence[int], parent: int, name: str, tree: Tree, more: Sequence[float] = ()) -> str:
    """Return what a mark stands for, as '57 more neighbours of 1701'.

    `more` are the hops from the parent of further nodes, which the layout has no room for.
    """
    count = len(members) + len(more)
    if all(tree.parent[node] == parent for node in members) and all(hops == 1 for hops in more):
        return f"{count} more neighbour{'s' * (count > 1)} of {name}"
    if any(tree.hops[node] < 0 for node in members) or not np.isfinite(more).all():
        return f"{count} more nodes, some without a path to {name}"
    return f"{count} more nodes around {name}"


def _path(tree: Tree, node: int, visible: NDArray[np.bool_]) -> list[int]:
    """Return a hidden node and its hidden ancestors."""
    path = []
    while node >= 0 and not visible[node]:
        path.append(node)
        node = int(tree.parent[node])
    return path


def _show(tree: Tree, node: int, visible: NDArray[np.bool_]) -> None:
    visible[_path(tree, node, visible)] = True


def _find_anchors(tree: Tree, visible: NDArray[np.bool_]) -> Index:
    """Return the nearest drawn ancestor of each node, [n]; -1 if there is none."""
    anchor = np.where(visible, np.arange(len(visible)), -1)
    for node in tree.order:
        if anchor[node] < 0 <= tree.parent[node]:
            anchor[node] = anchor[tree.parent[node]]
    return anchor


def _count_marks(tree: Tree, visible: NDArray[np.bool_]) -> int:
    hidden = _find_anchors(tree, visible)[~visible]
    return int(visible.sum()) + min(len(np.unique(hidden)), _MOST_FOLDS)


def _unfold_single(tree: Tree, visible: NDArray[np.bool_], held: Index) -> NDArray[np.bool_]:
    """Draw nodes that would be folded alone, as far as there is room: a mark takes as much of it as the node itself."""
    refused = set[int]()
    while not visible.all():
        groups = _group(tree, visible, np.flatnonzero(visible).tolist())
        single = [m[0] for at, m in groups.items() if _is_single(at, m, held) and m[0] not in refused]
        if not single:
            break
        trial = visible.copy()
        _show(tree, single[0], trial)
        # With one fold less there is room for one that was joined with another, so the marks may become more.
        if int(trial.sum()) + len(_group(tree, trial, np.flatnonzero(trial).tolist())) > MOST_MARKS + _SLACK:
            refused.add(single[0])
        else:
            visible = trial
    # One that found no room and no other fold to be joined with is drawn all the same.
    roots = np.flatnonzero(tree.hops == 0).tolist() or [0]
    while left := [m[0] for at, m in fold_up(tree, visible, roots, held).items() if _is_single(at, m, held)]:
        _show(tree, left[0], visible)
    return visible
