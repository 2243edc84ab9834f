"""Explanations of as many nodes as there are, block by block, by workers that may die at any time."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .._base.checks import check_count
from .._base.errors import InputError, RunError, show
from .._base.workers import POSSIBLE_WORKERS
from .bar import show_rows
from .engines import ENGINES, Engine, open_engine
from .extra import import_extra
from .folder import RunFolder
from .halving import Halving
from .looking import Looking
from .nodes import choose_nodes
from .parts import Found
from .plan import Job, Plan
from .said import Warned, say_again
from .work import Outcome, Task

_MOST_WORKERS = {"local": POSSIBLE_WORKERS, "ray": 100_000}
_MOST_BLOCK = 1_000_000  # nodes, whose rows are held in memory before they are written
_HOPELESS = 10  # nodes that failed or killed their process, before any node was explained


@dataclass
class Summary:
    """What a run has done: numbers of rows and blocks, of this call and of earlier ones.

    :func:`explain_many` returns it, and it prints as one line.

    >>> from pathlib import Path
    >>> print(Summary(Path("run"), rows=30, done_before=20, done_now=10, failed=1, seconds=1.5))
    30 rows in run: 10 now in 1.5 s, 20 before; 1 failed
    """

    folder: Path
    rows: int
    done_before: int = 0  # rows that earlier calls have written
    done_now: int = 0
    failed: int = 0  # rows, of all, whose node could not be explained
    blocks_halved: int = 0  # blocks, of all, in which a process died again and again
    deaths: int = 0  # workers that died during this call
    aside: list[Path] = field(default_factory=list)  # files that are no part of the run, and were in its way
    seconds: float = 0.0

    def __str__(self) -> str:
        """Return the numbers in a few words."""
        text = f"{self.rows:,} rows in {self.folder}: {self.done_now:,} now in {self.seconds:.1f} s"
        text += f", {self.done_before:,} before" if self.done_before else ""
        text += f"; {self.failed:,} failed"
        text += f"; {self.deaths:,} workers died and were replaced" if self.deaths else ""
        return text

    def count(self, found: Found, *, before: bool) -> None:
        """Count the rows of a block."""
        if before:
            self.done_before += found.rows
        else:
            self.done_now += found.rows
        self.failed += found.failed
        self.blocks_halved += len(found.pieces) > 1


def explain_many(
    job: Job,
    nodes: str | os.PathLike[str] | int | Iterable[int] = "all",
    out: str | os.PathLike[str] = "run",
    *,
    engine: str = "local",
    workers: int = 2,
    block: int = 2000,
    address: str | None = None,
    progress: bool | None = None,
    retry_failed: bool = False,
) -> Summary:
    """Explain nodes of a graph into a folder of Parquet files, and return a summary; a run that was ended goes on.

    The rows do not depend on the engine, on the number of workers, or on how often the run was killed and continued.

    Args:
        job: what is explained how, a :class:`~graphfaith.ManyJob`.
        nodes: ids, "all", a text such as "0:1000:50" or "3,5,8", or the name of a file: one id a line, ``.npy``, or
            ``.parquet`` with a column "node".
        out: the folder. It has ``plan.json``, ``explanations/part-00000000.parquet`` and so on, and, when every part is
            there, ``done.json``. A folder that was begun with another plan is an error that says what differs.
        engine: "local" for processes on this machine, "ray" for tasks on a Ray cluster.
        workers: how many blocks are explained at once, by one thread each.
        block: how many nodes are explained together. It belongs to the plan: another block changes last bits.
        address: of the Ray cluster, such as "auto"; without it, RAY_ADDRESS or a Ray of our own on this machine.
        progress: whether rows, failures and the time left are shown on standard error: in a bar on a terminal, else in
            a line a minute; None: the first line comes after a minute. False shows nothing.
        retry_failed: whether blocks with failed rows are done again; their files are replaced.

    If ten nodes or more have failed, none was explained and others are left, the run ends with a
    :class:`~graphfaith.RunError` that says why they failed.

    >>> import os, tempfile, graphfaith as gf
    >>> folder = os.path.join(tempfile.mkdtemp(), "run")
    >>> summary = gf.explain_many(gf.ManyJob(graph="ba-shapes", method="saliency"), "400:700:100", folder, workers=1)
    >>> summary.rows, summary.failed
    (3, 0)
    """
    if engine not in ENGINES:
        raise InputError(f"engine must be {' or '.join(map(repr, ENGINES))} (got {show(engine)})")
    if address is not None and engine != "ray":
        raise InputError("address is for engine='ray'")
    workers = check_count(workers, "workers", most=_MOST_WORKERS[engine])
    block = check_count(block, "block", most=_MOST_BLOCK)
    import_extra("pyarrow")
    if engine == "ray":
        import_extra("ray")
    RunFolder.check_free(Path(out))
    with Looking.at(job) as looking:
        settled, num_nodes, digests = looking.settle()
        place, plan = 0, Plan.of(settled, choose_nodes(nodes, num_nodes), block, digests)
        if retry_failed or not RunFolder.is_done(Path(out), plan):
            place = looking.check()
    began = time.monotonic()
    with RunFolder.open(Path(out), plan) as folder:
        found, aside = folder.find_done()
        if retry_failed:
            found = {number: part for number, part in found.items() if not part.failed}
        summary = Summary(folder.path, len(plan.nodes), aside=aside)
        for part in found.values():
            summary.count(part, before=True)
        left = deque(number for number in range(plan.num_blocks) if number not in found)
        if left:
            with (
                show_rows(summary.rows, summary.done_before, summary.failed, progress) as show_bar,
                open_engine(engine, settled, plan.digests, min(workers, len(left)), address, place) as started,
            ):
                for part in _do_blocks(started, settled, folder, left, summary):
                    summary.count(part, before=False)
                    show_bar(summary.done_before + summary.done_now, summary.failed)
        folder.finish(summary.rows, summary.failed)
    summary.seconds = time.monotonic() - began
    return summary


def _do_blocks(engine: Engine, job: Job, folder: RunFolder, left: deque[int], summary: Summary) -> Iterator[Found]:
    """Yield what the part of each block says of itself, as soon as it is written."""
    halving, pieces, under_way = Halving(job), deque[Task](), 0
    hope = summary.done_before > summary.failed  # Something was explained.
    failures, why = 0, None
    warned: set[Warned] = set()
    while left or pieces or under_way:
        while engine.has_room() and (pieces or left):
            task = pieces.pop() if pieces else _whole(folder, left.popleft())
            engine.submit(task)
            under_way += 1
        task, result = engine.wait()
        under_way -= 1
        summary.deaths = engine.deaths
        found: Found | None = None
        if isinstance(result, Outcome):
            say_again(dict.fromkeys(one for one in result.warned if one not in warned))
            warned.update(result.warned)
            hope = hope or result.rows > result.failed
            failures, why = failures + result.failed, result.error
            found = (
                Found(result.rows, result.failed, (result.rows,))
                if result.table is None
                else halving.add(task, result.table)
            )
        elif len(task.ids) > 1:
            # The last half comes first, and its halves before the other one: a node that kills is found soonest.
            pieces.extend(halving.cut(task))
            continue
        else:
            found = halving.add_failed(task, result.how)
            failures, why = failures + 1, f"its process died, {result.how}"
        if failures >= _HOPELESS and not hope and (left or pieces or under_way):
            raise RunError(
                f"each of the first {failures} nodes failed ({why}), and none was explained: mend that and go on with "
                "retry_failed"
            )
        if found is not None:
            yield found


def _whole(folder: RunFolder, number: int) -> Task:
    return Task(folder.part(number), folder.plan.ids(number))
