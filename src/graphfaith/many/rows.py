"""Explanations as rows of a table: one row for each node, with its strongest edges and features as lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explainers.records import ESTIMATES, Float64, Records
from ..graph.graph import Int64
from .extra import import_extra

OK, FAILED = "ok", "failed"
_LONGEST = 1000  # letters of an error that are kept


def schema() -> Any:
    """Return the columns of the table, as a ``pyarrow.Schema``.

    delta, stderr, relative and relative_stderr are those of what the scores say, and with "p_" before them those of p.
    ``edge_id`` is the place of an edge in the graph, and -1 for a self-loop that is not in it. ``milliseconds`` is the
    only column that is not a function of the job and the nodes.
    """
    arrow = import_extra("pyarrow")
    whole, short, real, rough = arrow.int64(), arrow.int32(), arrow.float64(), arrow.float32()
    edge = {"source": whole, "target": whole, "edge_id": whole, "score": real, "stderr": real}
    feature = {"index": short, "score": real, "value": real, "stderr": real}
    return arrow.schema(
        {
            "node": whole,
            "class": short,
            "value": real,
            "status": arrow.string(),
            "error": arrow.string(),
            "samples": short,
            **dict.fromkeys(ESTIMATES, real),
            "milliseconds": rough,
            "edges_total": short,
            "edges": arrow.list_(arrow.struct(edge)),
            "features": arrow.list_(arrow.struct(feature)),
        }
    )


def rows_of(records: Records, top_edges: int, milliseconds: float) -> Any:
    """Return the rows of explained nodes as a ``pyarrow.Table``: the strongest edges of each, and all its features.

    ``milliseconds`` are those of a node. An edge and its reverse are two edges.
    """
    columns, count = schema(), len(records)
    chosen, kept = select_strongest(records.edge_start, records.score, (records.source, records.sink), top_edges)
    numbers = {name: records.numbers.get(name, np.full(count, np.nan)) for name in ("samples", *ESTIMATES)}
    edges = {
        "source": records.source[chosen],
        "target": records.sink[chosen],
        "edge_id": records.edge_id[chosen],
        "score": records.score[chosen],
        "stderr": records.score_stderr[chosen],
    }
    features = {
        "index": records.feature,
        "score": records.feature_score,
        "value": records.feature_value,
        "stderr": records.feature_stderr,
    }
    given: dict[str, Any] = {
        "node": records.index,
        "class": np.where(records.label < 0, np.nan, records.label),
        "value": records.value,
        "status": [OK] * count,
        "error": [None] * count,
        **numbers,
        "milliseconds": np.full(count, milliseconds),
        "edges_total": np.diff(records.edge_start),
        "edges": (np.concatenate(([0], np.cumsum(kept))), edges),
        "features": (records.feature_start, features),
    }
    return import_extra("pyarrow").table([_column(given[field.name], field.type) for field in columns], schema=columns)


def failed_rows(nodes: Int64, error: str, milliseconds: float | None = None) -> Any:
    """Return the rows of nodes that could not be explained, as a ``pyarrow.Table``."""
    arrow, columns, count = import_extra("pyarrow"), schema(), len(nodes)
    given: dict[str, Any] = {
        "node": nodes,
        "status": [FAILED] * count,
        "error": [error[:_LONGEST]] * count,
        "milliseconds": [milliseconds] * count,
    }
    return arrow.table(
        [
            _column(given[field.name], field.type) if field.name in given else arrow.nulls(count, field.type)
            for field in columns
        ],
        schema=columns,
    )


def _column(values: Any, kind: Any) -> Any:
    """Return a column of a type; NaN is null. A list of structs is given by where each row begins, and its fields."""
    arrow = import_extra("pyarrow")
    if isinstance(values, tuple):
        start, fields = values
        inner = kind.value_type
        parts = [_column(fields[inner.field(i).name], inner.field(i).type) for i in range(inner.num_fields)]
        struct = arrow.StructArray.from_arrays(parts, fields=[inner.field(i) for i in range(inner.num_fields)])
        return arrow.ListArray.from_arrays(arrow.array(start, arrow.int32()), struct, type=kind)
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        # A column of NaN is whole numbers where there are any.
        none = np.isnan(values)
        target = kind.to_pandas_dtype()
        return arrow.array(np.where(none, 0, values).astype(target), kind, mask=none)
    if isinstance(values, np.ndarray):
        values = values.astype(kind.to_pandas_dtype())
    return arrow.array(values, kind)


def select_strongest(
    start: Int64, scores: Float64, ends: tuple[Int64, Int64], most: int
) -> tuple[Int64, NDArray[np.int64]]:
    """Return where the ``most`` largest scores of each run are, the largest first, and how many each run has.

    Run i is from ``start[i]`` to ``start[i + 1]``. Of equal scores the one with the smaller ends comes first.

    >>> ends = np.array([5, 4, 3, 2, 1]), np.zeros(5, int)
    >>> select_strongest(np.array([0, 3, 5]), np.array([1.0, -2.0, 1.0, 0.5, -0.5]), ends, 2)
    (array([1, 2, 4, 3]), array([2, 2]))
    """
    sizes, counts = np.abs(scores), np.diff(start)
    least = np.zeros(len(counts))
    for i in np.flatnonzero(counts > most):
        own = sizes[start[i] : start[i + 1]]
        least[i] = np.partition(own, len(own) - most)[len(own) - most] if most else np.inf
    run = np.repeat(np.arange(len(counts)), counts)
    # All that may be among them: those that are as large as the last one of their run are too many.
    places = np.flatnonzero(sizes >= least[run])
    order = places[np.lexsort((ends[1][places], ends[0][places], -sizes[places], run[places]))]
    there = np.bincount(run[order], minlength=len(counts))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(there) - there, there)
    return order[rank < most], np.minimum(there, most)
