"""The explanation that a row of a run has kept: its strongest scores, laid out in PyG's masks of the graph."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._base.version import __version__
from ..explanation.faithfulness import record_stored
from ..explanation.signed import SignedExplanation
from ..graph.excerpt import find_places
from ..model.arguments import arguments_for
from ..surrogate.estimate import Unfaithfulness
from .job import ManyJob


def explanation_of(row: dict[str, Any], job: ManyJob) -> SignedExplanation:
    """Return the explanation of a row on the graph of its job; scores that were not kept are 0.

    ``kept_scores`` says of how many edges the row has how many. The estimate is that of all scores. If the graph is
    large, the explanation is on the part that the node depends on, whose nodes and edges have other numbers: ``n_id``
    and ``e_id`` are those in the whole graph, and the nodes have the former as their names.
    """
    opened, node = job.open(), int(row["node"])
    data, algorithm = opened.load_around(node), opened.explainer.algorithm
    x, edge_index, arguments = data.x, data.edge_index, arguments_for(opened.explainer.model, data)
    explanation = SignedExplanation(x=x, edge_index=edge_index)
    explanation._model_config, explanation._model_args = opened.explainer.model_config, list(arguments)
    for name, value in arguments.items():
        explanation[name] = value
    edges, features = row["edges"], row["features"]
    place, source, sink = (_column(edges, name, torch.int64) for name in ("edge_id", "source", "target"))
    given, loops, index = place >= 0, source == sink, torch.tensor([node])
    if "n_id" in data:
        explanation.n_id, explanation.e_id, data.node_names = data.n_id, data.e_id, list(map(str, data.n_id.tolist()))
        index, source[loops] = (find_places(data.n_id, nodes) for nodes in (index, source[loops]))
        place[given] = find_places(data.e_id, place[given])
    explanation.index, explanation.target = index, _target(row, int(index), len(x))
    for name, loop_name, field in (
        ("edge_mask", "self_loop_score", "score"),
        ("edge_stderr", "self_loop_stderr", "stderr"),
    ):
        numbers = _column(edges, field, x.dtype)
        if len(numbers) and bool(numbers.isnan().all()):  # There are no error bars.
            continue
        explanation[name] = torch.zeros(edge_index.size(1), dtype=x.dtype)
        explanation[name][place[given]] = numbers[given]
        explanation[loop_name] = torch.zeros(len(x), dtype=x.dtype)
        explanation[loop_name][source[loops]] = numbers[loops]
    if job.top_features:
        explanation.node_mask_type = "common_attributes"
        explanation.node_mask = torch.zeros(1, x.size(1), dtype=x.dtype)
        explanation.node_mask[0, _column(features, "index", torch.int64)] = _column(features, "score", x.dtype)
    explanation.method, explanation.settings = algorithm.method, algorithm.settings
    explanation.made_by, explanation.num_hops = f"graphfaith {__version__}", opened.explainer.algorithm.num_hops
    near = getattr(algorithm, "neighborhood", None)
    if near is not None:
        explanation.neighborhood = str(near)
    if row["samples"] is not None:
        explanation.fit_samples = int(row["samples"])
    explanation.name(data.get("node_names"), data.get("feature_names"), data.get("class_names"))
    if row["delta"] is not None and near is not None:
        own, scores = (
            _record(row, of, str(near), job.seed, near.perturbs_edges, near.perturbs_features) for of in ("p_", "")
        )
        kept = len(edges), int(row["edges_total"])
        record_stored(explanation, Unfaithfulness(**{**vars(own), "scores": scores}), kept)
    return explanation


def _target(row: dict[str, Any], node: int, count: int) -> Tensor:
    """Return PyG's target, the class of every node, of which only that of the explained node is known."""
    target = torch.full((count,), -1)
    target[node] = -1 if row["class"] is None else int(row["class"])
    return target


def _column(entries: list[dict[str, Any]], name: str, dtype: torch.dtype) -> Tensor:
    return torch.tensor([math.nan if entry[name] is None else entry[name] for entry in entries], dtype=dtype)


def _record(
    row: dict[str, Any], of: str, near: str, seed: int, moves_edges: bool, moves_features: bool
) -> Unfaithfulness:
    """Return the estimate of the scores, or with "p_" that of p. F does not change where there is no share of it."""
    value, stderr, relative, error = (row[f"{of}{name}"] for name in ("delta", "stderr", "relative", "relative_stderr"))
    still = math.inf if value else 0.0
    return Unfaithfulness(
        value,
        math.inf if stderr is None else stderr,
        still if relative is None else relative,
        math.inf if error is None else error,
        0.0 if relative is None else value / relative if relative else math.nan,
        int(row["samples"] or 0),
        near,
        seed,
        moves_edges=moves_edges,
        moves_features=moves_features,
    )
