"""What a reader takes away in the live view, and what p and the model itself say about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch_geometric.explain import Explanation

from ..._base.checks import check_node
from ..._base.errors import GraphfaithError, InputError, UnsupportedError
from ...explanation.goal import Goal
from ...explanation.scores import class_names_of, edge_index_of
from ...explanation.signed import SignedExplanation
from ...explanation.what_if import perturb, what_if
from ...facade.subject import Subject
from ...graph.computation_graph import ComputationGraph
from ...model.target import Target
from ..labels import shorten

MOST_REMOVED = 500  # nodes, edges and features together
FIELDS = ("nodes", "edges", "features", "directed")
_MOST_EDGES = 5  # in the smallest change that flips the answer
_LONGEST_CLASS = 80
_NODE = re.compile(r"([0-9]{1,18})")
_PAIR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_DIRECTED = {"yes": True, "no": False}


@dataclass(frozen=True)
class Removal:
    """Edges (source, sink) and features (node, column) that are gone, by their ids in the whole graph.

    Each of ``nodes`` goes with all its edges in the whole graph but its self-loop. ``directed`` says whether (u, v)
    means that entry alone, as in :func:`~graphfaith.explanation.what_if.what_if`.
    """

    edges: tuple[tuple[int, int], ...] = ()
    features: tuple[tuple[int, int], ...] = ()
    nodes: tuple[int, ...] = ()
    directed: bool | None = None


def read_removal(fields: Mapping[str, Sequence[str]], num_nodes: int, num_features: int) -> Removal:
    """Read and check what an address takes away: ``nodes=3,5``, ``edges=3-4,4-7`` and ``features=3-1433``.

    With ``directed=no``, an edge goes in both directions, as far as they exist, and with ``directed=yes`` only as it is
    written; without either, both go if the whole graph is undirected.

    >>> read_removal({"edges": ["3-4,4-7"], "nodes": ["5"]}, 8, 2)
    Removal(edges=((3, 4), (4, 7)), features=(), nodes=(5,), directed=None)
    """
    edges, features = (
        tuple(dict.fromkeys((int(one[1]), int(one[2])) for one in _matches_of(fields, name, _PAIR, "two ids: 3-4")))
        for name in ("edges", "features")
    )
    nodes = tuple(dict.fromkeys(int(one[1]) for one in _matches_of(fields, "nodes", _NODE, "ids: 3")))
    count = len(nodes) + len(edges) + len(features)
    if not count:
        raise InputError("say what to take away: nodes=3,5 or edges=3-4,4-7 or features=3-1433")
    if count > MOST_REMOVED:
        raise InputError(f"take away at most {MOST_REMOVED} nodes, edges and features at once (got {count})")
    for node in (*nodes, *(end for edge in edges for end in edge), *(node for node, _ in features)):
        check_node(node, num_nodes)
    for _, column in features:
        if column >= num_features:
            raise InputError(f"feature {column} is out of range: there are features 0 to {num_features - 1}")
    return Removal(edges, features, nodes, _read_directed(fields.get("directed", ())))


def _read_directed(values: Sequence[str]) -> bool | None:
    if not values:
        return None
    if len(values) > 1 or values[0] not in _DIRECTED:
        raise InputError(f"directed must be yes or no, given once (got {shorten(', '.join(values), 40)!r})")
    return _DIRECTED[values[0]]


def _matches_of(
    fields: Mapping[str, Sequence[str]], name: str, pattern: re.Pattern[str], written: str
) -> list[re.Match[str]]:
    """Return the words of a field that is given once at most, read by a pattern."""
    values = fields.get(name, ())
    if len(values) > 1:
        raise InputError(f"give {name} once, with commas between them")
    words = [word for word in (values[0].split(",") if values else []) if word.strip()]
    if len(words) > MOST_REMOVED:
        raise InputError(f"take away at most {MOST_REMOVED} {name} at once (got {len(words)})")
    found = []
    for word in words:
        match = pattern.fullmatch(word.strip())
        if match is None:
            raise InputError(f"{shorten(word, 40)!r} is not one of {name}, which are written as {written}")
        found.append(match)
    return found


def judge(subject: Subject, index: int, explanations: Sequence[SignedExplanation], removal: Removal) -> dict[str, Any]:
    """Return what the model does without what is removed, and what the p of each explanation foretells of it.

    ``actual`` is F after less F before, as is ``change`` of each p, which is None where a method has none. ``before``
    and ``after`` are the model's classes in words, or outputs of a regression, and None if several rows are explained;
    ``flips`` says whether the class is another one, which a regression has not.
    """
    target = subject.target(index)
    values = dict.fromkeys(removal.features, 0.0)
    edges = [*removal.edges, *_edges_of(removal.nodes, explanations[0], target.computation_graph)]
    removed = perturb(explanations[0], target.computation_graph, edges, dict(values), removal.directed)
    before, after, flips = _answers(target, removed, class_names_of(explanations[0]))
    panels = [_foretell(explanation, edges, values, removal.directed) for explanation in explanations]
    return {
        "actual": -float(target.changes(removed)[0]),
        "before": before,
        "after": after,
        "flips": flips,
        "silenced": target.route == "mask" and bool(edges),
        "panels": panels,
    }


def _edges_of(nodes: Sequence[int], explanation: Explanation, graph: ComputationGraph) -> list[tuple[int, int]]:
    """Return all edges of nodes in the whole graph, without self-loops; if F reads none of them, one."""
    edge_index, found = edge_index_of(explanation), dict[tuple[int, int], None]()
    for node in nodes:
        own = edge_index[:, (edge_index == node).any(dim=0) & (edge_index[0] != edge_index[1])]
        if not own.size(1):
            raise InputError(f"node {node} has no link to another node: nothing changes without it")
        read = own[:, torch.isin(own, graph.nodes).all(dim=0)]
        chosen = read if read.size(1) else own[:, :1]
        found |= dict.fromkeys(zip(*chosen.tolist(), strict=True))
    return list(found)


def _foretell(
    explanation: Explanation,
    edges: Sequence[tuple[int, int]],
    values: Mapping[tuple[int, int], float],
    directed: bool | None,
) -> dict[str, Any]:
    try:
        found = what_if(explanation, edges, values, directed=directed)
    except UnsupportedError:  # Its method has masks alone, or a p that is fitted in no neighbourhood.
        return {"change": None, "stderr": None}
    return {"change": found.change, "stderr": found.stderr}


def _answers(
    target: Target, removed: Any, names: Sequence[str] | None
) -> tuple[str | float | None, str | float | None, bool]:
    """Return the model's answer before and after, a class in words or the output of a regression, and if it flips."""
    rows = target.outputs(removed)
    if target.task.mode == "regression":
        before, after = rows.flatten(1).sum(dim=1).tolist()
        return before, after, False
    try:
        goal = Goal(target, None)
    except GraphfaithError:  # Several rows are explained at once: they have no class together.
        return None, None, False
    answer = goal.answer(goal.read(rows)[1])
    return _say_class(goal.before, names), _say_class(answer, names), goal.before != answer


def _say_class(label: float, names: Sequence[str] | None) -> str:
    """Return a class in words.

    >>> _say_class(1, ["Theory", "Rules"]), _say_class(1, None)
    ('class 1 (Rules)', 'class 1')
    """
    number = int(label)
    name = shorten(names[number], _LONGEST_CLASS) if names is not None and number < len(names) else ""
    return f"class {number} ({name})" if name else f"class {number}"


def find_flip(subject: Subject, explanations: Sequence[SignedExplanation]) -> dict[str, Any]:
    """Return the smallest set of edges found whose removal flips the model's answer, with the words for it.

    The first explanation whose method has a p says which sets are worth a try; the model confirms what is found.
    """
    if subject.task.mode == "regression":
        raise UnsupportedError("a regression has no class that could flip")
    problem: UnsupportedError | None = None
    for explanation in explanations:
        try:
            with torch.inference_mode(False):
                found = explanation.counterfactual(_MOST_EDGES)
        except UnsupportedError as error:
            problem = problem or error
            continue
        return {"found": found.found, "edges": [list(edge) for edge in found.edges], "text": str(found)}
    assert problem is not None
    raise problem
