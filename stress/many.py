"""Faults of runs over many nodes, on both engines: each run is compared with one that was left alone.

Right is every row exactly once and, but for the milliseconds, with the same bits; no file that is half written; no
process that lives on after its run; not more than one block begun again for each worker that was killed; and no worker
replaced that was not. Workers, the run itself and a raylet are killed with SIGKILL, a worker also inside
of a write (a draft is left, and no part), a node kills whoever explains it, the disk is full, two runs share a folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import ring
from disk import can_mount, fill, mounted
from table import Row

HERE = Path(__file__).parent
SECONDS = 1800.0  # after which no further kill is begun
LIMIT = 300.0  # in which a run has to get further, by a table that a worker begins
WORKERS = 2
BLOCK = 20
JOB = {"graph": "ba-shapes", "method": "kec", "samples": 100, "block": BLOCK, "workers": WORKERS}
WORKER = {"local": b"graphfaith.many.engines.worker", "ray": b"ray::_do"}


class Wrong(Exception):
    """A run that did not come out as it must."""


class Bench:
    """A folder for runs, the rows of a run that was left alone, and the moments that a seed names."""

    def __init__(self, root: Path, seed: int, end: float) -> None:
        self.root, self.draw, self.end = root, random.Random(seed), end
        self.count = 0
        (root / "home").mkdir()
        self.words = {
            **os.environ,
            "HOME": str(root / "home"),
            "RAY_TMPDIR": str(root),
            # The home is another one, for Ray's sake; what is compiled and trained stays where it is.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        }
        self.calm = self.finished(self.fresh())

    def fresh(self) -> Path:
        """Return a new folder for a run."""
        self.count += 1
        return self.root / f"run-{self.count}"

    def start(self, out: Path, **settings: object) -> subprocess.Popen[str]:
        """Start a run. What its workers begin is in a file beside its folder, as of those before it in the folder."""
        words = {**self.words, "GRAPHFAITH_STRESS_LOG": str(self.log_of(out))}
        command = [sys.executable, str(HERE / "many_run.py"), json.dumps({**JOB, "out": str(out), **settings})]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=words, start_new_session=True, **pipes)  # type: ignore[call-overload, no-any-return]

    def log_of(self, out: Path) -> Path:
        """Return the file with the tables that were begun for a folder."""
        return self.root / f"{out.name}.log"

    def begun(self, out: Path) -> list[list[int]]:
        """Return the tables that were begun for a folder: process, first node, number of nodes."""
        log = self.log_of(out)
        return [[*map(int, line.split())] for line in log.read_text().splitlines()] if log.exists() else []

    def check_work(self, out: Path, killed: int, runs: int = 1) -> None:
        """Check that a killed worker has cost at most its block, and that no other worker was replaced."""
        begun = self.begun(out)
        again, processes = len(begun) - len(self.calm), len({process for process, _, _ in begun})
        if again > killed:
            raise Wrong(f"{again} blocks were done again after {killed} workers were killed")
        if processes > runs * WORKERS + killed:
            raise Wrong(f"{processes} processes did the work, and {killed} were killed")

    def finished(self, out: Path, **settings: object) -> dict[str, str]:
        """Run to the end, and return the rows."""
        return self.end_of(self.start(out, **settings), out)

    def end_of(self, run: subprocess.Popen[str], out: Path) -> dict[str, str]:
        """Wait for the end of a run, and return the rows."""
        said, errors = self.wait(run, out)
        if run.returncode:
            raise Wrong(f"code {run.returncode}: {errors[-300:]}")
        if not (out / "done.json").exists() or (out / "_tmp").exists():
            raise Wrong(f"it says that it has ended ({said.strip()}), and its folder does not")
        return rows_of(out)

    def wait(self, run: subprocess.Popen[str], out: Path) -> tuple[str, str]:
        """Wait for the end of a run, as long as its workers begin something, and return what it said.

        How long a run takes depends on the machine and on how many workers it has to replace: it is not limited.
        """
        begun, since = 0, time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                said, errors = run.communicate(timeout=1.0)
                return said, errors
            if len(self.begun(out)) > begun:
                begun, since = len(self.begun(out)), time.monotonic()
            elif time.monotonic() - since > LIMIT:
                os.killpg(run.pid, signal.SIGKILL)
                run.communicate()
                raise Wrong(f"nothing was begun for {LIMIT:.0f} s")

    def compare(self, rows: dict[str, str], but: str = "") -> None:
        """Check that rows are those of the run that was left alone, except for one part."""
        different = [name for name in self.calm.keys() | rows.keys() if rows.get(name) != self.calm.get(name)]
        if different != [but] * bool(but):
            raise Wrong(f"{len(different)} parts differ: {', '.join(sorted(different)[:3])}")


def rows_of(out: Path) -> dict[str, str]:
    """Return the rows of each part as text, without the times; floats are written with all their bits."""
    found, nodes = {}, []
    for path in sorted((out / "explanations").iterdir()):
        rows = pq.read_table(path, page_checksum_verification=True).drop_columns(["milliseconds"]).to_pylist()
        nodes += [row["node"] for row in rows]
        found[path.name] = repr(rows)
    if nodes != list(range(700)):
        raise Wrong(f"{len(nodes)} rows, {len(set(nodes))} of them different")
    return found


def parts_in(out: Path) -> int:
    """Return how many parts a run has."""
    return len(list(out.glob("explanations/part-*.parquet")))


def workers_of(run: int, engine: str) -> list[int]:
    """Return the processes of a run that explain nodes; those of Ray are not its children, but of its session."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            session = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3])
            if session == run and WORKER[engine] in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object], run: subprocess.Popen[str]) -> bool:
    """Wait until something is true, and return False if the run ends before."""
    end = time.monotonic() + LIMIT
    while not condition():
        if run.poll() is not None:
            return False
        if time.monotonic() > end:
            raise Wrong("nothing happens")
        time.sleep(0.002)
    return True


def check_gone(session: int) -> None:
    """Check that no process of a session is left."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        alive = [one for one in Path("/proc").iterdir() if one.name.isdigit() and _session_of(one) == session]
        if not alive:
            return
        time.sleep(0.1)
    raise Wrong("processes are left a minute after their run was killed")


def _session_of(entry: Path) -> int | None:
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        return None if fields[0] == "Z" else int(fields[3])
    return None


def kill_workers(bench: Bench, engine: str, kills: int) -> str:
    """Kill a worker after every new part, at a random moment."""
    done = 0
    while done < kills and time.monotonic() < bench.end:
        out, before = bench.fresh(), done
        run = bench.start(out, engine=engine)
        while done < kills:
            is_further = partial(_has_more, out, parts_in(out), run.pid, engine)
            if not wait_for(is_further, run):
                break
            time.sleep(bench.draw.uniform(0, 0.2))
            workers = workers_of(run.pid, engine)
            if workers:
                os.kill(bench.draw.choice(workers), signal.SIGKILL)
                done += 1
        bench.compare(bench.end_of(run, out))
        bench.check_work(out, killed=done - before)
    return _counted(done, kills)


def _has_more(out: Path, parts: int, run: int, engine: str) -> bool:
    return parts_in(out) > parts and bool(workers_of(run, engine))


def kill_runs(bench: Bench, engine: str, kills: int) -> str:
    """Kill the run itself, again and again, and then let it end."""
    out, done = bench.fresh(), 0
    for number in range(kills):
        run = bench.start(out, engine=engine)
        if wait_for(lambda number=number: parts_in(out) > 4 * number, run):
            time.sleep(bench.draw.uniform(0, 0.3))
            run.kill()
            done += 1
        run.communicate()
        if engine == "local":  # Ray ends its processes by itself, after they have finished their blocks.
            check_gone(run.pid)
    bench.compare(bench.finished(out, engine=engine))
    bench.check_work(out, killed=WORKERS * done, runs=1 + done)
    return _counted(done, kills)


def kill_raylet(bench: Bench, engine: str, kills: int) -> str:  # noqa: ARG001
    """Kill one of two raylets, with all its processes."""
    out = bench.fresh()
    run = bench.start(out, engine="ray", raylet=10)
    said, errors = bench.wait(run, out)
    if run.returncode or "raylet killed" not in said:
        raise Wrong(f"code {run.returncode}: {said} {errors[-300:]}")
    bench.compare(rows_of(out))
    bench.check_work(out, killed=1)
    return "1"


def kill_inside_write(bench: Bench, engine: str, kills: int) -> str:
    """Kill a worker as soon as a draft is there; it counts if the draft stays, so that no part came of it."""
    done = 0
    for _ in range(20 * kills):
        if done >= kills or time.monotonic() > bench.end:
            break
        out = bench.fresh()
        run = bench.start(out, engine=engine)
        while done < kills and wait_for(lambda out=out: list(out.glob("_tmp/.*.tmp")), run):
            for worker in workers_of(run.pid, engine):
                os.kill(worker, signal.SIGSTOP)
            drafts = list(out.glob("_tmp/.*.tmp"))
            for worker in workers_of(run.pid, engine):
                os.kill(worker, signal.SIGKILL if drafts and not done else signal.SIGCONT)
            done += bool(drafts)
        bench.compare(bench.end_of(run, out))
        bench.check_work(out, killed=WORKERS * done)
    return _counted(done, kills)


def kill_by_node(bench: Bench, engine: str, kills: int) -> str:  # noqa: ARG001
    """Explain a graph with a node at which the model kills its process, also the one that looks at it first.

    Its row says so, the block comes out the same twice, and all others as they do by a model without the fault.
    """
    folder, part, found = bench.root / f"ring-{engine}", f"part-{ring.KILLER // BLOCK:08}.parquet", []
    ring.pack(folder)
    job = {"engine": engine, "graph": str(folder)}
    calm = bench.finished(bench.fresh(), **job, model="ring:load", whole_graph=False)
    for _ in range(2):
        out = bench.fresh()
        rows = bench.finished(out, **job, model="ring:load_deadly")
        different = [name for name in calm if rows.get(name) != calm[name]]
        if different != [part]:
            raise Wrong(f"{len(different)} parts differ: {', '.join(different[:3])}")
        failed = [row for row in pq.read_table(out / "explanations" / part).to_pylist() if row["status"] == "failed"]
        if [row["node"] for row in failed] != [ring.KILLER] or "died" not in failed[0]["error"]:
            raise Wrong(f"failed are {failed}")
        found.append(rows[part])
    if found[0] != found[1]:
        raise Wrong("the halved block differs between two runs")
    return "1"


def fill_disk(bench: Bench, engine: str, kills: int) -> str:  # noqa: ARG001
    """Let the disk run full in the middle of a run, make room, and let it go on."""
    if not can_mount():
        return "0 (nothing could be mounted)"
    disk = bench.root / f"disk-{engine}"
    disk.mkdir()
    with mounted(disk, True):
        out = disk / f"run-{engine}"
        fill(disk, 150 << 10)
        run = bench.start(out, engine=engine)
        _, errors = bench.wait(run, out)
        if run.returncode == 0 or "OutputError" not in errors or "No space left" not in errors:
            raise Wrong(f"code {run.returncode} on a full disk: {errors[-300:]}")
        if not 0 < parts_in(out) < len(bench.calm):
            raise Wrong(f"{parts_in(out)} parts fit on the disk")
        (disk / "filler").unlink()
        bench.compare(bench.finished(out, engine=engine))
    return "1"


def share_folder(bench: Bench, engine: str, kills: int) -> str:  # noqa: ARG001
    """Start a second run in the folder of one that is under way."""
    out = bench.fresh()
    first = bench.start(out, engine=engine)
    if not wait_for(lambda: parts_in(out) > 1, first):
        raise Wrong("the first run ended too soon")
    first.send_signal(signal.SIGSTOP)  # It must not end before the second one has looked.
    second = bench.start(out, engine=engine)
    _, errors = bench.wait(second, out)
    first.send_signal(signal.SIGCONT)
    bench.compare(bench.end_of(first, out))
    if second.returncode == 0 or "another run is working" not in errors:
        raise Wrong(f"the second run ended with code {second.returncode}: {errors[-300:]}")
    return "1"


def _counted(done: int, promised: int) -> str:
    return f"{done}" if done >= promised else f"{done} of {promised} (time ran out)"


FAULTS: tuple[tuple[str, Callable[[Bench, str, int], str], int], ...] = (
    ("kill -9 of workers", kill_workers, 10),
    ("kill -9 of the run", kill_runs, 3),
    ("kill -9 inside a write", kill_inside_write, 1),
    ("a node that kills its process", kill_by_node, 1),
    ("a full disk", fill_disk, 1),
    ("two runs in one folder", share_folder, 1),
)


def _cases(quick: bool) -> Iterator[tuple[str, str, Callable[[Bench, str, int], str], int]]:
    for engine in ("local",) if quick else ("local", "ray"):
        for name, fault, kills in FAULTS[:1] if quick else FAULTS:
            yield f"{name}, explain_many on {engine}", engine, fault, 2 if quick else kills
    if not quick:
        yield "kill -9 of one of two raylets, explain_many on ray", "ray", kill_raylet, 1


def run(quick: bool, seed: int, seconds: float = SECONDS) -> list[Row]:
    """Disturb runs in every way, and return a row for each."""
    rows = []
    # Ray puts sockets below its folder, whose names may have 107 letters.
    with tempfile.TemporaryDirectory(prefix="gf-", dir="/tmp") as root:
        bench = Bench(Path(root), seed, time.monotonic() + seconds)
        for name, engine, fault, kills in _cases(quick):
            began = time.monotonic()
            try:
                row = Row(name, fault(bench, engine, kills), "every row once, with the bits of a run left alone")
            except Wrong as error:
                row = Row(name, "0", f"FAILED: {error}")
            print(f"  {name}: {time.monotonic() - began:.0f} s, {row.outcome}", file=sys.stderr, flush=True)
            rows.append(row)
    return rows
