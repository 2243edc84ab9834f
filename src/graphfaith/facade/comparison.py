"""Methods side by side: scored on the same nodes, in the same neighbourhoods, on the same samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from .._base.errors import InputError, UnsupportedError
from .._base.progress import track
from ..explainers.base import Samples
from ..explainers.methods import expand_methods
from ..metric.pooling import pool
from ..metric.unfaithfulness import unfaithfulness_of
from ..model.call import Edges
from ..model.inference import find_task
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from ..surrogate.estimate import Unfaithfulness
from .fitting import NEIGHBORHOOD, Fit, Fitting
from .subject import Options, Subject, prepare
from .typed import TypedSubject

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Track = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True)
class Row:
    """One method in one neighbourhood, averaged over nodes.

    ``unfaithfulness`` is the mean of Delta(p) and ``stderr`` its standard error over nodes (over samples, if there
    is one node). It is of this one training: rows of several trainings are pooled by
    :func:`graphfaith.metric.pooling.pool`. ``relative`` is that mean over the mean of Delta(0), and NaN where
    F does not change. ``by_node`` has Delta(p) at each node, and ``lowest`` the share of nodes at which no other method
    of the comparison has less. ``seconds_per_node`` is the median over nodes: what is compiled, or loaded, at the first
    of them is not what a node takes.
    """

    dataset: str
    method: str
    neighborhood: str
    nodes: list[int]
    unfaithfulness: float
    stderr: float
    relative: float
    seconds_per_node: float
    num_samples: int  # to score with
    seed: int  # of the fit; scores are drawn with the next one
    fit_samples: int  # the mean over nodes, if each took as many as it needed
    model_seed: int
    by_node: list[float]
    lowest: float

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values; ``nodes`` is called ``node`` if there is one."""
        row = asdict(self)
        if len(self.nodes) == 1:
            row["node"] = row.pop("nodes")[0]
        return row


class Comparison(list[Row]):
    """The rows of a comparison: a list that prints as a table for each neighbourhood."""

    def __str__(self) -> str:
        """Return the tables as text."""
        from rich.console import Console  # not at the top: whoever only computes should not wait for rich

        console = Console(width=110, color_system=None, highlight=False)
        with console.capture() as text:
            console.print(self)
        return text.get().strip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table for each neighbourhood, the lowest Delta(p) in bold."""
        for near in dict.fromkeys(row.neighborhood for row in self):
            yield ""
            yield _make_table([row for row in self if row.neighborhood == near])

    def to_pandas(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError as error:
            raise UnsupportedError("a data frame needs pandas: pip install pandas") from error
        return pandas.DataFrame([asdict(row) for row in self])


def _make_table(rows: Sequence[Row]) -> Any:
    from rich.table import Table

    first, count = rows[0], len(rows[0].nodes)
    where = f"{first.dataset}, " if first.dataset else ""
    table = Table(title=f"{where}{first.neighborhood}, {count} node{'s' if count != 1 else ''}", title_justify="left")
    table.caption, table.caption_justify = (
        "Delta(p) is of the whole explanation p; its scores alone may leave more.",
        "left",
    )
    table.add_column("method")
    for name in ("Delta(p)", "± stderr", "relative", "lowest", "seconds a node"):
        table.add_column(name, justify="right")
    best = min(row.unfaithfulness for row in rows)
    for row in rows:
        numbers = (
            _format(row.unfaithfulness),
            _format(row.stderr, 2),
            _format(row.relative),
            f"{100 * row.lowest:.0f} %",
            f"{row.seconds_per_node:.3f}",
        )
        is_best = row.unfaithfulness == best and len(rows) > 1
        table.add_row(row.method, *numbers, style="bold" if is_best else "")
    return table


def _format(value: float, digits: int = 3) -> str:
    if math.isnan(value):
        return "no change of F"
    return f"{value:.{digits}g}" if math.isfinite(value) else "inf"


def compare(
    model: torch.nn.Module,
    data: Data | HeteroData,
    nodes: int | Iterable[int] | Tensor,
    *,
    methods: str | Iterable[str] = "all",
    neighborhoods: Neighborhood | str | Iterable[Neighborhood | str] = NEIGHBORHOOD,
    samples: Samples = 200,
    test_samples: int = 500,
    seed: int = 0,
    level: str = "node",
    mode: str | None = None,
    return_type: str | None = None,
    num_hops: int | None = None,
    edges: Edges = "auto",
    max_memory: int | str | None = None,
    dataset: str = "",
    model_seed: int = 0,
    train_jointly: bool = False,
    node_type: str | None = None,
    progress: Track | None = None,
) -> Comparison:
    """Score methods on nodes, in neighbourhoods, on samples that no fit has seen.

    Args:
        model: a trained PyG model.
        data: its graph, with whatever else its forward takes by name.
        nodes: the nodes to explain; pairs or graphs, by their row in the output, at another ``level``.
        methods: names of methods; "all" is every one that is quick enough for that.
        neighborhoods: where to score; methods that are fitted are fitted in each.
        samples: how many perturbed graphs to fit on.
        test_samples: how many others to score on.
        seed: names the samples of the fit; those of the score are named by the next seed.
        level: "node", "edge" or "graph".
        mode, return_type: what the output means; found out if None.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
        dataset, model_seed: go into the rows, to tell comparisons apart.
        train_jointly: whether to train PGExplainer on all nodes together, as the paper does on BA-Shapes.
        node_type: of a heterogeneous graph, whose rows the output has; found out if None, as in :func:`explain`.
        progress: called with the nodes, which it yields one by one; by default it shows a bar on a terminal.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> data = Data(x=torch.rand(4, 2), edge_index=ring)
    >>> rows = compare(GCN(2, 4, num_layers=2, out_channels=3), data, [0, 1], methods=["kec", "saliency"])
    >>> [(row.method, len(row.by_node)) for row in rows]
    [('kec', 2), ('saliency', 2)]
    """
    names = expand_methods(list_of(methods, str, "methods", "names of methods"))
    asked = list_of(neighborhoods, str | Neighborhood, "neighborhoods", "them")
    for near in asked:
        as_neighborhood(near)  # raises if it cannot be read
    if isinstance(nodes, Tensor | np.ndarray):
        nodes = torch.as_tensor(nodes)
        nodes = (nodes.nonzero().view(-1) if nodes.dtype == torch.bool else nodes.reshape(-1)).tolist()
    nodes = list_of(nodes, int, "nodes", "ids")
    if not nodes or not names or not asked:
        raise InputError("nothing to compare: name at least one node, one method and one neighbourhood")
    options = Options(num_hops, edges, max_memory)
    subject: Fitting
    if isinstance(data, HeteroData):
        if train_jointly:
            raise UnsupportedError("PGExplainer is trained on one node at a time on a heterogeneous graph")
        subject = TypedSubject(model, data, node_type, level, mode, return_type, options)
        rows_of_output = subject.task.rows(nodes, subject.num_rows).tolist()
    else:
        data = prepare(model, data)
        task = find_task(model, data, level, mode, return_type)
        rows_of_output = task.rows(nodes, int(data.num_nodes) if level == "node" else 1 << 62).tolist()
        subject = Subject(model, data, task, options, together=tuple(rows_of_output) if train_jointly else None)
    nears = list({str(near): near for near in map(subject.near, asked)}.values())
    return compare_on(
        subject,
        rows_of_output,
        names,
        nears,
        samples=samples,
        test_samples=test_samples,
        seed=seed,
        dataset=dataset,
        model_seed=model_seed,
        progress=progress or (lambda rows: track(list(rows), "comparing on", f"{level}s")),
    )


def list_of(values: Any, one: Any, name: str, what: str) -> list[Any]:
    """Return ``values`` as a list; a single value stands for a list of one."""
    if isinstance(values, one):
        return [values]
    if not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list of {what} (got {values!r})")
    return list(values)


def compare_on(
    subject: Fitting,
    nodes: Sequence[int],
    methods: Sequence[str],
    neighborhoods: Sequence[Neighborhood],
    *,
    samples: Samples,
    test_samples: int,
    seed: int,
    dataset: str = "",
    model_seed: int = 0,
    progress: Track = iter,
) -> Comparison:
    """Compare methods on a subject; one evaluation of F on a neighbourhood's samples serves all of them."""
    for method in methods:
        for near in neighborhoods:
            # Every method is made once here, so that bad arguments raise before any work.
            subject.explainer(method, near, samples=samples, seed=seed)
    keys = [(method, str(near)) for near in neighborhoods for method in methods]
    scores: dict[tuple[str, str], list[Unfaithfulness]] = {key: [] for key in keys}
    fits: dict[tuple[str, str], list[Fit]] = {key: [] for key in keys}
    for node in progress(nodes):
        fitted = subject.fits(methods, node, neighborhoods, samples=samples, seed=seed)
        target = subject.target(node)
        for near in neighborhoods:
            text = str(near)
            models = [fitted[method, text].p for method in methods]
            measured = unfaithfulness_of(target, models, near, num_samples=test_samples, seed=seed + 1)
            for method, score in zip(methods, measured, strict=True):
                scores[method, text].append(score)
                fits[method, text].append(fitted[method, text])
    return Comparison(
        Row(
            dataset=dataset,
            method=method,
            neighborhood=text,
            nodes=list(nodes),
            seconds_per_node=statistics.median(fit.seconds for fit in fits[method, text]),
            num_samples=test_samples,
            seed=seed,
            fit_samples=_count_samples(fits[method, text]) if samples == "auto" else samples,
            model_seed=model_seed,
            by_node=[score.value for score in scores[method, text]],
            lowest=_share_lowest(scores[method, text], [scores[other, text] for other in methods if other != method]),
            **_pool(scores[method, text]),
        )
        for method, text in keys
    )


def _count_samples(fits: Sequence[Fit]) -> int:
    return round(statistics.fmean(getattr(fit.p, "fit_samples", None) or 0 for fit in fits))


def _share_lowest(scores: Sequence[Unfaithfulness], others: Sequence[Sequence[Unfaithfulness]]) -> float:
    """Return the share of nodes at which no other method has a smaller Delta(p)."""
    rivals = zip(*others, strict=True) if others else ((),) * len(scores)
    won = [all(score.value <= other.value for other in at) for score, at in zip(scores, rivals, strict=True)]
    return sum(won) / len(won)


def _pool(scores: Sequence[Unfaithfulness]) -> dict[str, float]:
    """Return the mean over nodes, its standard error, and relative Delta as a ratio of means."""
    mean, error = pool([[score.value for score in scores]])
    zero = sum(score.delta_zero for score in scores) / len(scores)
    relative = mean / zero if zero > 0 else (math.nan if mean == 0 else math.inf)
    return {"unfaithfulness": mean, "stderr": scores[0].stderr if error is None else error, "relative": relative}
