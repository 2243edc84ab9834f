"""Explanations of many nodes as a few arrays: the table that a batch job writes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save
from torch import Tensor
from torch_geometric.explain import Explanation

from .._base.checks import check_count
from .._base.errors import InputError
from .._base.files import write_file
from ..explanation.faithfulness import Faithfulness, faithfulness_of
from ..explanation.signed import SignedExplanation
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..model.target import Target
from ..surrogate.estimate import Unfaithfulness
from .base import FaithfulExplainer
from .columns import StrongestColumns

Float64 = NDArray[np.float64]
Of = Literal["edges", "nodes", "features", "explained"]

_FORMAT = "graphfaith records 2"


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Scores of many explained nodes: of every entry of A that F depends on, and of the nodes whose features it sees.

    The entries of node number i of ``index`` are at ``edge_start[i]`` to ``edge_start[i + 1]``, edges first and then
    self-loops, and its nodes at ``node_start[i]`` to ``node_start[i + 1]``. A node's score is sum_c x_c score_c. The
    scores are those of :func:`graphfaith.explain_nodes`, in double precision. If ``top_features`` were asked for, those
    of node number i are at ``feature_start[i]`` to ``feature_start[i + 1]``, the strongest first: the score of column c
    is sum_v x_vc score_vc over the nodes that F sees, as that of PyG's "common_attributes".

    ``numbers`` has what is known of each explanation, NaN where it is not: "in_sample_error", "samples", from how many
    it was made, and by its own estimate "delta", "stderr", "relative" and "relative_stderr" of what the scores say, and
    with "p_" before them those of p. There is no relative Delta where F does not change.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> records = gf.explain_all(gf.explainer_for(model, ring, method="saliency"), ring.x, ring.edge_index)
    >>> records
    Records(Saliency: 4 explained, 24 scores of edges)
    >>> len(records), len(records.score) == records.edge_start[-1]
    (4, np.True_)
    """

    index: Int64  # [b] the explained nodes, or other rows of the output
    edge_start: Int64  # [b + 1]
    source: Int64  # [e] ids in the whole graph
    sink: Int64  # [e]
    edge_id: Int64  # [e] columns of edge_index; -1 for a self-loop that is not in it
    score: Float64  # [e]
    score_stderr: Float64  # [e] the standard error of the score; NaN where it is not known
    node_start: Int64  # [b + 1]
    node: Int64  # [n]
    node_score: Float64  # [n]
    feature_start: Int64  # [b + 1]
    feature: Int64  # [f] columns of X
    feature_score: Float64  # [f]
    feature_stderr: Float64  # [f]
    feature_value: Float64  # [f] what the explained node has in the column; NaN if no single node is explained
    value: Float64  # [b] F, the explained number
    label: Int64  # [b] the explained class; -1 if there is none
    numbers: Mapping[str, Float64]  # [b] each
    about: Mapping[str, Any] = field(default_factory=dict)  # the method and its settings

    def __len__(self) -> int:
        """Return how many nodes were explained."""
        return len(self.index)

    def __repr__(self) -> str:
        """Return what the records are, in one line."""
        return f"Records({self.about.get('method')}: {len(self)} explained, {len(self.score)} scores of edges)"

    def columns(self, of: Of = "edges") -> dict[str, NDArray[Any]]:
        """Return the columns of the table of edges, nodes or features, with the explained node in the first one.

        The table of "explained" has one row for each explained node, and what is known of its explanation.
        """
        if of == "explained":
            return {"index": self.index, "label": self.label, "value": self.value, **self.numbers}
        if not isinstance(of, str) or of not in _COLUMNS:
            raise InputError(f'of must be "edges", "nodes", "features" or "explained" (got {of!r})')
        counts = np.diff(getattr(self, _STARTS[of]))
        return {"index": np.repeat(self.index, counts), **{name: getattr(self, name) for name in _COLUMNS[of]}}

    def explanation(self, index: int, x: Tensor, edge_index: Tensor) -> SignedExplanation:
        """Return the explanation of an explained node as PyG has it, with masks of the size of the whole graph.

        ``x`` and ``edge_index`` are those that were explained. The node mask has one score for each node, if nodes were
        recorded. A record has no p, so that this explanation can be drawn and cut but foretells nothing, and no number
        stands beside it: those of its row are in :meth:`columns` of "explained".

        >>> import torch, graphfaith as gf
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.nn import GCN
        >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> explainer = gf.explainer_for(GCN(2, 4, num_layers=2, out_channels=3), ring, method="saliency")
        >>> one = gf.explain_all(explainer, ring.x, ring.edge_index).explanation(2, ring.x, ring.edge_index)
        >>> one.index, len(one.edge_mask), len(one.node_mask)
        (2, 4, 4)
        """
        place = np.flatnonzero(self.index == check_count(index, "index", least=0))
        if not len(place):
            raise InputError(f"{index} was not explained: the {len(self)} explained ones are in records.index")
        edges, nodes = (slice(*start[place[0] : place[0] + 2]) for start in (self.edge_start, self.node_start))
        source, sink, ids, scores = (
            torch.from_numpy(rows[edges]) for rows in (self.source, self.sink, self.edge_id, self.score)
        )
        seen = torch.from_numpy(self.node[nodes])
        num_nodes, num_edges = int(x.size(0)), int(edge_index.size(1))
        fits = all(bool((rows < num_nodes).all()) for rows in (source, sink, seen)) and bool((ids < num_edges).all())
        given = ids >= 0
        if not fits or not torch.equal(edge_index.cpu()[:, ids[given]], torch.stack((source, sink))[:, given]):
            raise InputError(f"the records are not of this graph ({num_nodes} nodes, {num_edges} edges)")
        found = SignedExplanation(x=x, edge_index=edge_index, edge_mask=scores.new_zeros(num_edges))
        found.self_loop_score, loops = scores.new_zeros(num_nodes), source == sink
        found.edge_mask[ids[given]] = scores[given]
        found.self_loop_score[source[loops]] = scores[loops]
        if len(seen):
            found.node_mask, found.node_mask_type = scores.new_zeros(num_nodes, 1), "object"
            found.node_mask[seen, 0] = torch.from_numpy(self.node_score[nodes])
        found.index, found.method, found.settings = int(index), self.about.get("method"), self.about.get("settings")
        moved: SignedExplanation = found.to(x.device)
        return moved

    def to_pandas(self, of: Of = "edges") -> Any:
        """Return the table of edges, nodes, features or explained nodes as a ``pandas.DataFrame``."""
        return _package("pandas").DataFrame(self.columns(of))

    def to_arrow(self, of: Of = "edges") -> Any:
        """Return the table of edges, nodes, features or explained nodes as a ``pyarrow.Table``, for Parquet, say."""
        return _package("pyarrow").table(self.columns(of))

    def save(self, path: str | Path) -> None:
        """Write the records to a file, which :meth:`load` reads; an older file of that name is replaced at once."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"numbers.{name}": values for name, values in self.numbers.items()}
        about = {"format": _FORMAT, "about": json.dumps(dict(self.about))}
        write_file(Path(path), save({name: np.ascontiguousarray(a) for name, a in arrays.items()}, metadata=about))

    @classmethod
    def load(cls, path: str | Path) -> Records:
        """Read records that :meth:`save` has written; raise an :class:`InputError` if the file is something else."""
        try:
            with safe_open(path, framework="numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
                header = file.metadata() or {}
            about = json.loads(header.get("about", "null"))
        except FileNotFoundError:
            raise InputError(f"there is no file {path}") from None
        except Exception as error:  # the reader raises its own types
            raise InputError(f"{path} is not a file of records: {error}") from error
        if header.get("format") != _FORMAT:
            raise InputError(f"{path} is not a file of records: it says {header.get('format')!r}, not {_FORMAT!r}")
        numbers = {name.removeprefix("numbers."): a for name, a in arrays.items() if name.startswith("numbers.")}
        fault = _find_fault(arrays, numbers, about)
        if fault is not None:
            raise InputError(f"{path} is not a file of records: {fault}")
        return cls(**{name: arrays[name] for name in _ARRAYS}, numbers=numbers, about=about)


def _find_fault(arrays: dict[str, NDArray[Any]], numbers: dict[str, NDArray[Any]], about: Any) -> str | None:
    """Return what is wrong with arrays that were read; None if they fit together."""
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        return f"it lacks {', '.join(missing)}"
    for name in _ARRAYS:
        wanted = np.float64 if name in _REAL else np.int64
        if arrays[name].ndim != 1 or arrays[name].dtype != wanted:
            return f"{name} must be a list of {np.dtype(wanted)} (got {arrays[name].dtype}, {arrays[name].ndim}-d)"
    count = len(arrays["index"])
    for of, start in _STARTS.items():
        at = arrays[start]
        if (
            len(at) != count + 1
            or at[0] != 0
            or (np.diff(at) < 0).any()
            or any(len(arrays[n]) != at[-1] for n in _COLUMNS[of])
        ):
            return f"{start} does not say where rows begin"
    if any(len(arrays[name]) != count for name in ("value", "label")):
        return f"there must be {count} values and labels"
    if any(a.shape != (count,) or a.dtype != np.float64 for a in numbers.values()):
        return f"there must be {count} numbers of each kind"
    return None if isinstance(about, dict) else "it does not say what it is about"


_STARTS: dict[Of, str] = {"edges": "edge_start", "nodes": "node_start", "features": "feature_start"}
_COLUMNS: dict[Of, tuple[str, ...]] = {
    "edges": ("source", "sink", "edge_id", "score", "score_stderr"),
    "nodes": ("node", "node_score"),
    "features": ("feature", "feature_score", "feature_stderr", "feature_value"),
}
_ARRAYS = ("index", "value", "label", *_STARTS.values(), *(name for names in _COLUMNS.values() for name in names))
_REAL = ("value", "score", "score_stderr", "node_score", "feature_score", "feature_stderr", "feature_value")
_ESTIMATE = ("delta", "stderr", "relative", "relative_stderr")
ESTIMATES = (*_ESTIMATE, *(f"p_{name}" for name in _ESTIMATE))  # of the scores and of p
_NUMBERS = ("in_sample_error", "samples", *ESTIMATES)


class RecordsBuilder:
    """Records that are made piece by piece, in the order of the rows."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in (*_ARRAYS, *_NUMBERS)}

    def add(self, **parts: NDArray[Any] | Sequence[Any]) -> None:
        """Add pieces of arrays; instead of starts, the numbers of entries and of nodes of each row are given."""
        for name, part in parts.items():
            self._parts[name].append(np.asarray(part))

    def add_explanation(
        self, row: int, explanation: Explanation, algorithm: FaithfulExplainer, target: Target, top_features: int = 0
    ) -> None:
        """Add the scores of an explanation of ``target``, which are those of its p: masks may have been rounded."""
        number = faithfulness_of(explanation)
        estimate = number.record if number is not None and number.is_estimate else None
        known = {name: explanation.get(name) for name in ("in_sample_error", "fit_samples")}
        p, kind = explanation["difference_model"], explanation.get("node_mask_type")
        self.add_fit(row, p, algorithm, target, kind, {**known, "estimate": estimate}, top_features)

    def add_fit(
        self,
        row: int,
        p: Any,
        algorithm: FaithfulExplainer,
        target: Target,
        kind: str | None,
        known: Mapping[str, Any],
        top_features: int = 0,
    ) -> None:
        """Add the scores of ``p``, fitted to ``target``, with nodes and columns as a node mask of a ``kind`` has them.

        ``known`` of p are its "in_sample_error", its "fit_samples" and its own "estimate", if there are such.
        """
        part: ComputationGraph = p.graph
        x, edges = algorithm.scores(p)
        of_x, of_a = algorithm.errors(p)
        felt, label = part.felt.numpy(), target.label
        nodes, of_nodes = part.nodes[:0], np.zeros(0)
        if x is not None and has_nodes(kind):
            nodes = part.nodes[: part.num_visible]
            of_nodes = (part.x.double() * x.double()).sum(dim=1)[: part.num_visible].numpy()
        # Errors of single features say nothing of their sum.
        of_columns = of_x if kind == "common_attributes" else None
        columns = StrongestColumns.of_one(part, x, of_columns, top_features, as_mask=algorithm.learns_mask)
        self.add(
            index=[row],
            value=[target.value],
            label=[-1 if label is None else label],
            edge_start=[int(felt.sum())],
            source=part.ends[0].numpy()[felt],
            sink=part.ends[1].numpy()[felt],
            edge_id=part.edge_id.numpy()[felt],
            score=edges.detach().double().numpy()[felt],
            score_stderr=np.full(int(felt.sum()), np.nan) if of_a is None else of_a.detach().double().numpy()[felt],
            node_start=[len(nodes)],
            node=nodes.numpy(),
            node_score=of_nodes,
            in_sample_error=[_number(known.get("in_sample_error"))],
            samples=[_number(known.get("fit_samples") or getattr(algorithm, "num_samples", None))],
            **{name: [number] for name, number in estimates_of(known.get("estimate")).items()},
            **columns.records(part.x[part.seeds] if target.task.level == "node" else None),
        )

    def finish(self, about: Mapping[str, Any]) -> Records:
        """Return the records."""
        arrays: dict[str, Any] = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        for name in _STARTS.values():
            arrays[name] = np.concatenate(([0], np.cumsum(arrays[name], dtype=np.int64)))
        numbers = {name: values for name in _NUMBERS if not np.isnan(values := arrays.pop(name)).all()}
        return Records(**arrays, numbers=numbers, about=about)


def estimates_of(estimate: Any) -> dict[str, float]:
    """Return an explanation's own estimate of Delta of its scores, and of p; NaN if it has none."""
    if not isinstance(estimate, Unfaithfulness):
        return dict.fromkeys(ESTIMATES, np.nan)
    number, found = Faithfulness(estimate, is_estimate=True), list[float | None]()
    for record in (number.shown, number.record):
        one = Faithfulness(replace(record, scores=None), is_estimate=True)
        found += [record.value, record.stderr, one.relative, one.relative_stderr]
    return {name: _number(one) for name, one in zip(ESTIMATES, found, strict=True)}


def has_nodes(kind: Any) -> bool:
    """Return whether a node mask of a kind, of PyG or by name, has scores of nodes or of their features."""
    return getattr(kind, "value", kind) in ("attributes", "object")


def _number(value: Any) -> float:
    """Return a number; NaN if there is none, or if it is infinite, as the error of a single sample is."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan


def _package(name: str) -> Any:
    """Import a package that only some users have."""
    try:
        return __import__(name)
    except ImportError:
        raise InputError(f"this table needs {name}: pip install {name}") from None
