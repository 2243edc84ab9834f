"""A run that was written: its rows, its explanations, and what they have in common."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._base.checks import check_count, check_real, check_seed, is_whole
from .._base.errors import DataError, InputError, UnfinishedRunWarning, describe_error, show
from ..data.planetoid import CLASS_NAMES
from ..explanation.signed import SignedExplanation
from ..graph.graph import Int64
from ..view import Page, page
from .cohorts import Batch, Cohorts, find_middles
from .extra import import_extra
from .folder import DONE, PLAN, read_json
from .job import ManyJob
from .parts import PARTS
from .parts import PLAN as OF_PLAN
from .ranking import Ranking, Sums, rank
from .rows import OK, schema
from .stored import explanation_of

_ROWS = 4096  # of a batch, so that memory does not grow with the run
_NO_CLASS = -1  # the class of a node that has none


class Part(NamedTuple):
    """A file of rows, and the least and the greatest node in it."""

    path: Path
    rows: int
    least: int
    most: int


class Run:
    """The rows of a run, in the folder that they were written to; they are read a batch at a time.

    What is returned is held: :meth:`cohorts` has a few numbers for each node, :meth:`untrusted` for each that it names,
    and :meth:`edges` for each edge. Whatever is read is compared with its checksum. A run that is not finished can be
    read as far as it is; a warning says so.

    Args:
        folder: with ``plan.json``, ``explanations/part-*.parquet`` and, if the run is finished, ``done.json``.
        job: the job of the run, if its graph or its model has another name now; by default the one in ``plan.json``,
            whose module is imported when an explanation is asked for: open a run from somebody else with a job of
            your own.

    >>> import graphfaith as gf
    >>> gf.Run("no such folder")
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.InputError: 'no such folder' is not the folder of a run: it has no plan.json
    """

    def __init__(self, folder: str | os.PathLike[str], job: ManyJob | None = None) -> None:
        self.folder = Path(folder)
        if not (self.folder / PLAN).is_file():
            raise InputError(f"'{self.folder}' is not the folder of a run: it has no {PLAN}")
        content = read_json(self.folder / PLAN)
        try:
            self.plan: dict[str, Any] = content["plan"]
            self._digest, self.planned = str(content["digest"]), int(self.plan["nodes"]["count"])
        except (KeyError, TypeError, ValueError):
            raise DataError(f"'{self.folder / PLAN}' is damaged: it does not say what the run is") from None
        self._job, self._places = job, content.get("places", {})
        paths = sorted((self.folder / PARTS).glob("part-*.parquet"))
        self.parts = [_open_part(path, self._digest) for path in paths]
        if not self.is_finished:
            warnings.warn(str(self), UnfinishedRunWarning, stacklevel=2)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return sum(part.rows for part in self.parts)

    @cached_property
    def is_finished(self) -> bool:
        """Whether all nodes of the plan have their row."""
        done = self.folder / DONE
        return done.is_file() and read_json(done).get("digest") == self._digest and len(self) == self.planned

    def __repr__(self) -> str:
        """Return what the run is, in one line."""
        end = "" if self.is_finished else "; it is not finished"
        return f"the run in '{self.folder}' has {len(self):,} of {self.planned:,} rows{end}"

    @property
    def job(self) -> ManyJob:
        """The job of the run, which knows its graph and its model."""
        if self._job is None:
            self._job = ManyJob(**self.plan["job"], **self._places)
        return self._job

    @cached_property
    def _is_same(self) -> bool:
        """Whether the graph and the model are those of the run."""
        return bool(self.job.digests() == self.plan["digests"])

    # Rows -------------------------------------------------------------------------------------------------------

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows as a ``pyarrow.RecordBatch`` after the other, with some columns or all of them."""
        known = schema().names
        for name in columns or ():
            # Arrow would leave out what it does not know. Fields of lists are known, too: edges.list.element.score.
            if name.partition(".")[0] not in known:
                raise InputError(f"a run has no column {show(name)}: its columns are {', '.join(known)}")
        for part in self.parts:
            yield from _read_part(part, columns)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, each as plain values by the names of the columns."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Return all rows, or some columns of them, as a ``pyarrow.Table``."""
        arrow = import_extra("pyarrow")
        found = list(self.batches(columns))
        if not found:
            raise InputError(f"'{self.folder}' has no rows yet")
        return arrow.Table.from_batches(found)

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Return all rows, or some columns of them, as a ``pandas.DataFrame``."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise InputError("this table needs pandas: pip install pandas") from None
        return self.to_arrow(columns).to_pandas()

    def row(self, node: int) -> dict[str, Any]:
        """Return the row of a node, as plain values."""
        if not is_whole(node):
            raise InputError(f"a node is a whole number (got {show(node)})")
        compute, node = import_extra("pyarrow.compute"), int(node)
        for part in self.parts:
            if part.least <= node <= part.most:
                for batch in _read_part(part):
                    found = batch.filter(compute.equal(batch.column("node"), node)).to_pylist()
                    if found:
                        row: dict[str, Any] = found[0]
                        return row
        raise InputError(f"node {node} is not in '{self.folder}'" + ("" if self.is_finished else ", or not yet"))

    # Explanations -----------------------------------------------------------------------------------------------

    def __getitem__(self, node: int) -> SignedExplanation:
        """Return the explanation of a node on the graph, with the scores that were kept.

        It is on the whole graph; or, if that is a packed one above 256 MB, on what the node depends on. Nodes and edges
        then have other numbers there, and their own ones are ``n_id`` and ``e_id``, and the names of the nodes. All
        other scores are 0. What is known of its faithfulness is what the run has found for all scores; where not all
        were kept, the text says so.
        """
        row = self.row(node)
        if row["status"] != OK:
            raise InputError(f"node {node} could not be explained: {row['error']}")
        if not self._is_same:
            raise DataError(
                f"the graph or the model of '{self.folder}' has changed since the run: give Run the job of the old ones"
            )
        return explanation_of(row, self.job)

    def page(self, node: int, path: str | os.PathLike[str] | None = None, **options: Any) -> Page:
        """Return the page of a node's explanation, and write it to ``path`` (.html); see :func:`graphfaith.page`."""
        return page(self[node], path, **options)

    # Summaries --------------------------------------------------------------------------------------------------

    def features(
        self,
        by: str | None = "class",
        top: int = 20,
        names: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
    ) -> Ranking:
        """Return the features with the largest mean \\|score\\| by class, or of all nodes if ``by`` is None.

        ``names`` are those of the columns of X, and ``classes`` those of the classes; Cora's and CiteSeer's are known.
        """
        return self._rank("features", ("index",), by, top, names, classes)

    def edges(self, by: str | None = "class", top: int = 20, classes: Sequence[str] | None = None) -> Ranking:
        """Return the edges with the largest mean \\|score\\| by class, or of all nodes if ``by`` is None.

        One number for each edge that any explanation has kept is held in memory. ``classes`` are names of classes.
        """
        return self._rank("edges", ("source", "target", "edge_id"), by, top, None, classes)

    def _rank(
        self,
        of: str,
        fields: tuple[str, ...],
        by: str | None,
        top: int,
        names: Sequence[str] | None,
        classes: Sequence[str] | None,
    ) -> Ranking:
        if by not in ("class", None):
            raise InputError(f"by must be 'class' or None (got {show(by)})")
        check_count(top, "top")
        sums = Sums(len(fields))
        for batch in self.batches(["status", "class", of]):
            group, start, entries = _entries(batch, of)
            group = group if by == "class" else np.zeros_like(group)
            sums.count(group)
            owner = np.repeat(group, np.diff(start))
            keys = [owner, *(_numbers(entries.field(name), np.int64) for name in fields)]
            sums.add(np.stack(keys, axis=1), _numbers(entries.field("score"), np.float64))
        if classes is None:
            classes = CLASS_NAMES.get(self.plan["job"].get("graph", ""))
        return rank(sums, by, [_NAMES.get(name, name) for name in fields], top, names, classes)

    def untrusted(self, relative: float = 0.5, *, errors: float = 0.0) -> dict[str, np.ndarray]:
        """Return the nodes whose explanation is not to be trusted, as columns: node, class, relative, its error, why.

        These are the nodes whose scores leave more than the share ``relative`` of F's change unexplained, those where
        the scores change and F does not, those of which nothing is known, and those that could not be explained.

        The share is an estimate. ``errors`` is how many standard errors it may be too small by: with 2, nodes whose
        share is not more, but may be, are named as well, also where the error is not known.
        """
        limit, errors = check_real(relative, "relative", above=0.0), check_real(errors, "errors", least=0.0)
        found: dict[str, list[np.ndarray]] = {name: [] for name in _UNTRUSTED}
        for batch in self.batches(["node", "class", "status", "delta", "relative", "relative_stderr"]):
            failed = np.array(batch.column("status").to_pylist(), dtype=object) != OK
            share, error, delta = (
                _numbers(batch.column(name), np.float64) for name in ("relative", "relative_stderr", "delta")
            )
            why = np.full(len(failed), "", dtype=object)
            why[np.isnan(delta)] = "not measured"
            why[np.isnan(share) & (delta > 0)] = "F does not change"
            if errors:
                most = share + errors * np.where(np.isnan(error), np.inf, error)
                why[(share <= limit) & (most > limit)] = f"may be more than {limit:g} unexplained"
            why[share > limit] = f"more than {limit:g} unexplained"
            why[failed] = "failed"
            chosen = why != ""
            group = _numbers(batch.column("class"), np.int64)
            columns = _numbers(batch.column("node"), np.int64), group, share, error, why
            for name, column in zip(_UNTRUSTED, columns, strict=True):
                found[name].append(column[chosen])
        return {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in found.items()}

    def cohorts(self, k: int, *, seed: int = 0, top: int = 20) -> Cohorts:
        """Return k classes of nodes whose explanations give like scores to like features.

        See :func:`~graphfaith.many.cohorts.find_middles`.
        """
        check_count(k, "k")
        check_count(top, "top")
        middles = find_middles(self._feature_scores, len(self), k, check_seed(seed))
        found = [(batch.node, batch.group, middles.assign(batch)) for batch in self._feature_scores()]
        node, group, own = (np.concatenate(parts) for parts in zip(*found, strict=True))
        sizes = np.bincount(own, minlength=k)
        order = np.argsort(-sizes, kind="stable")  # The largest cohort is the first.
        cohort, known = np.argsort(order)[own], group >= 0
        classes = np.zeros((k, int(group.max(initial=0)) + 1), np.int64)
        np.add.at(classes, (cohort[known], group[known]), 1)
        sums, first = Sums(1), 0
        for batch in self._feature_scores():
            own = cohort[first : first + len(batch.node)]
            first += len(batch.node)
            sums.count(own)
            sums.add(np.stack([np.repeat(own, np.diff(batch.start)), batch.feature], axis=1), batch.score)
        return Cohorts(node, cohort, sizes[order], classes, middles.spread, rank(sums, "cohort", ["feature"], top))

    def _feature_scores(self) -> Iterator[Batch]:
        """Yield the scores of features of all nodes that were explained, a batch at a time."""
        for batch in self.batches(["node", "status", "class", "features"]):
            group, start, entries = _entries(batch, "features")
            ok = np.array(batch.column("status").to_pylist(), dtype=object) == OK
            node = _numbers(batch.column("node"), np.int64)[ok]
            feature = _numbers(entries.field("index"), np.int64)
            yield Batch(node, group, start, feature, _numbers(entries.field("score"), np.float64))


_NAMES = {"index": "feature"}
_UNTRUSTED = ("node", "class", "relative", "relative_stderr", "why")


def _entries(batch: Any, of: str) -> tuple[Int64, Int64, Any]:
    """Return the classes of the explained nodes of a batch, where the entries of each begin, and the entries."""
    arrow, compute = import_extra("pyarrow"), import_extra("pyarrow.compute")
    explained = batch.filter(compute.equal(batch.column("status"), OK))
    lists = explained.column(of)
    counts = compute.fill_null(compute.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    start = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    entries = lists.flatten()
    assert isinstance(entries, arrow.StructArray)
    return _numbers(explained.column("class"), np.int64), start, entries


def _numbers(column: Any, kind: type) -> np.ndarray:
    """Return a column as numbers; null is NaN, or -1 among whole numbers."""
    filled = column.fill_null(float("nan") if kind is np.float64 else _NO_CLASS) if column.null_count else column
    numbers: np.ndarray = filled.to_numpy(zero_copy_only=False).astype(kind)
    return numbers


def _read_part(part: Part, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the rows of a part; raise a :class:`DataError` if one is missing or has not its checksum."""
    arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    count = 0
    try:
        with parquet.ParquetFile(part.path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_ROWS, columns=None if columns is None else list(columns)):
                count += batch.num_rows
                yield batch
        # The header of a page has no checksum. One that is damaged may hide the page.
        if count != part.rows:
            raise OSError(f"{count} of {part.rows} rows can be read")
    except (arrow.ArrowException, OSError) as error:
        raise DataError(
            f"'{part.path}' is damaged ({describe_error(error)}): remove it, and continue the run to make it again"
        ) from error


def _open_part(path: Path, digest: str) -> Part:
    """Read the footer of a part; raise a :class:`DataError` if it is damaged, or the part of another run."""
    arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    try:
        footer = parquet.read_metadata(path)
        groups = [footer.row_group(i).column(0) for i in range(footer.num_row_groups)]
        limits = [(one.statistics.min, one.statistics.max) for one in groups if one.num_values]
    except (arrow.ArrowException, OSError, AttributeError) as error:
        raise DataError(f"'{path}' is damaged ({type(error).__name__}): continue the run to make it again") from error
    own = (footer.metadata or {}).get(OF_PLAN, b"").decode()
    if own != digest:
        raise DataError(f"'{path}' is a part of another run: continue the run to make it again")
    return Part(path, footer.num_rows, min((a for a, _ in limits), default=0), max((b for _, b in limits), default=-1))
