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
from ...explanation.signed import SignedExplanation
from ...explanation.what_if import perturb, what_if
from ...facade.subject import Subject
from ...model.target import Target
from ..labels import shorten

MOST_REMOVED = 500  # edges and features together, which is more than a page's largest hub has
FIELDS = ("edges", "features")
_MOST_EDGES = 5  # in the smallest change that flips the answer
_PAIR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


@dataclass(frozen=True)
class Removal:
    """Edges (source, sink) and features (node, column) that are gone, by their ids in the whole graph."""

    edges: tuple[tuple[int, int], ...] = ()
    features: tuple[tuple[int, int], ...] = ()


def read_removal(fields: Mapping[str, Sequence[str]], num_nodes: int, num_features: int) -> Removal:
    """Read and check what an address takes away: ``edges=3-4,4-7`` and ``features=3-1433``.

    >>> read_removal({"edges": ["3-4,4-7"]}, 8, 2)
    Removal(edges=((3, 4), (4, 7)), features=())
    """
    edges, features = (_pairs_of(fields.get(name, ()), name) for name in FIELDS)
    count = len(edges) + len(features)
    if not count:
        raise InputError("say what to take away: edges=3-4,4-7 or features=3-1433")
    if count > MOST_REMOVED:
        raise InputError(f"take away at most {MOST_REMOVED} edges and features at once (got {count})")
    for node in (*(end for edge in edges for end in edge), *(node for node, _ in features)):
        check_node(node, num_nodes)
    for _, column in features:
        if column >= num_features:
            raise InputError(f"feature {column} is out of range: there are features 0 to {num_features - 1}")
    return Removal(edges, features)


def _pairs_of(values: Sequence[str], name: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of numbers in a field that is given once at most, each pair once."""
    if len(values) > 1:
        raise InputError(f"give {name} once, with commas between them")
    words = [word for word in (values[0].split(",") if values else []) if word.strip()]
    if len(words) > MOST_REMOVED:
        raise InputError(f"take away at most {MOST_REMOVED} {name} at once (got {len(words)})")
    pairs = []
    for word in words:
        match = _PAIR.fullmatch(word.strip())
        if match is None:
            raise InputError(f"{shorten(word, 40)!r} is not one of {name}, which are written as two ids: 3-4")
        pairs.append((int(match[1]), int(match[2])))
    return tuple(dict.fromkeys(pairs))


def judge(subject: Subject, index: int, explanations: Sequence[SignedExplanation], removal: Removal) -> dict[str, Any]:
    """Return what the model does without what is removed, and what the p of each explanation foretells of it.

    ``actual`` is F after less F before, as is ``change`` of each p, which is None where a method has none. ``before``
    and ``after`` are the model's classes, or outputs of a regression, and None if several rows are explained.
    """
    target = subject.target(index)
    values = dict.fromkeys(removal.features, 0.0)
    removed = perturb(explanations[0], target.computation_graph, list(removal.edges), dict(values), None)
    before, after = _answers(target, removed)
    panels = [_foretell(explanation, removal, values) for explanation in explanations]
    return {
        "actual": -float(target.changes(removed)[0]),
        "before": before,
        "after": after,
        "silenced": target.route == "mask" and bool(removal.edges),
        "panels": panels,
    }


def _foretell(explanation: Explanation, removal: Removal, values: Mapping[tuple[int, int], float]) -> dict[str, Any]:
    try:
        found = what_if(explanation, removal.edges, values)
    except UnsupportedError:  # Its method has masks alone, or a p that is fitted in no neighbourhood.
        return {"change": None, "stderr": None}
    return {"change": found.change, "stderr": found.stderr}


def _answers(target: Target, removed: Any) -> tuple[float | None, float | None]:
    """Return the model's answer before and after: a class, or the output of a regression."""
    rows = target.outputs(removed)
    if target.task.mode == "regression":
        before, after = rows.flatten(1).sum(dim=1).tolist()
        return before, after
    try:
        goal = Goal(target, None)
    except GraphfaithError:  # Several rows are explained at once: they have no class together.
        return None, None
    return goal.before, goal.answer(goal.read(rows)[1])


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
