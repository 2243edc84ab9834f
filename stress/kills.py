"""Kills of every long command: SIGKILL at a random moment, again and again, and then a run to the end.

Right are results equal to those of a run that was left alone, no file that is half written after any of the kills (a
draft beside it may be left: a killed process cannot remove it), and no process that lives on after its parent was
killed. The commands that keep their work (``reproduce``, ``swat run``) continue with two workers; the others begin
anew, and the files of an earlier run have to be intact.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commands import files_in, find_damage, is_draft, prepare, start
from table import Row, count_of

SECONDS, LIMIT = 800.0, 240.0  # of all kills, and of one run
ORPHANS = 60.0  # seconds for workers to notice that their parent has died; one may still be importing torch
TIMES = ("seconds", "seconds_per_node", "work_seconds")  # what may differ between two runs
APART = (".run.json", ".pdf", ".md", ".journal.jsonl")  # files that hold times, or the order of two workers


@dataclass(frozen=True)
class Long:
    """A long command, how often to kill it, and whether to compare what it leaves at the end."""

    name: str
    arguments: str
    kills: int
    compared: bool = True


LONG = (
    Long("reproduce, 2 workers", "reproduce illustration --quick --workers 2 --out out", 8),
    Long("swat run, 2 workers", "swat run --quick --seeds 2 --workers 2 --out out", 7),
    Long("score", "score --nodes 400:700:25 --method kec --method linear --json out/s.json", 3),
    Long(
        "explain",
        "explain --model mymodule:load --data graph.pt --node 2 --method all "
        "--json out/a.json --figure out/a.png --page out/a.html",
        2,
    ),
    Long("swat simulate", "swat simulate --days 0.2 --attack-days 0.2 --out out", 2),
    Long("demo", "demo --out out", 2, compared=False),
    Long("bench", "bench --dataset ba-shapes --quick --json out/b.json", 1, compared=False),
)


@dataclass
class Story:
    """What happened to one command."""

    long: Long
    kills: int = 0
    runs: int = 0
    problems: list[str] = field(default_factory=list)

    def say(self, problem: str) -> None:
        """Note a problem, and print it."""
        self.problems.append(problem)
        print(f"  {self.long.name}, after {self.kills} kills: {problem[:500]}", file=sys.stderr, flush=True)


def plain(content: bytes, name: str) -> Any:
    """Return a file without the times in it, so that those of two runs can be compared."""
    return _without_times(json.loads(content)) if name.endswith(".json") else content


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def results_in(folder: Path) -> dict[str, Any]:
    """Return the results of a run that another run has to repeat."""
    files = files_in(folder)
    found = {
        name: plain(content, name) for name, content in files.items() if not name.endswith(APART) and not is_draft(name)
    }
    for name in (name for name in files if name.endswith(".journal.jsonl")):
        entries = [json.loads(line) for line in files[name].splitlines()[1:]]
        found[name] = {entry["key"]: _without_times(entry["found"]) for entry in entries}
    return found


def run_to_end(story: Story, folder: Path, cache: Path) -> bool:
    """Run a command to its end, and return whether it succeeded."""
    process = start(story.long.arguments.split(), folder, cache)
    try:
        _, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        story.say(f"no end in {LIMIT:.0f} s")
        return False
    if process.returncode:
        story.say(f"code {process.returncode}: {errors.decode(errors='replace')[-300:]}")
    return process.returncode == 0


def kill_once(story: Story, folder: Path, cache: Path, seconds: float, *, whole_group: bool) -> bool:
    """Start a command and kill it after some seconds, unless it ends before; return whether it was killed."""
    process = start(story.long.arguments.split(), folder, cache, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=seconds)
        if process.returncode:
            story.say(f"code {process.returncode} without a kill")
        return False
    except subprocess.TimeoutExpired:
        pass
    story.kills += 1
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    if not _is_gone(process.pid):
        story.say(f"processes are left {ORPHANS:.0f} s after their parent was killed")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return True


def _is_gone(group: int) -> bool:
    end = time.monotonic() + ORPHANS
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def check_files(story: Story, folder: Path, before: dict[str, bytes]) -> None:
    """Check that every file is as it was or complete."""
    now = files_in(folder)
    for name in before:
        if name not in now:
            story.say(f"{name} is gone")
    for name, content in now.items():
        if not is_draft(name) and content != before.get(name):
            problem = find_damage(name, content)
            if problem:
                story.say(f"{name} is half written: {problem}")


def make_folder(place: Path) -> Path:
    """Make a folder in which commands find their inputs and write to ``out``."""
    (place / "out").mkdir(parents=True)
    prepare(place)
    return place


def try_long(long: Long, kills: int, draw: random.Random, root: Path, end: float) -> Story:
    """Kill a command a number of times, let it end, and compare its results with those of an undisturbed run."""
    story = Story(long)
    calm, place = make_folder(root / "calm"), make_folder(root / "killed")
    began = time.monotonic()
    if not run_to_end(story, calm, root / "calm-cache"):
        return story
    usual, expected = time.monotonic() - began, results_in(calm / "out")
    keeps = "workers" in long.name
    if not keeps:  # The files of an earlier run are there, and have to stay intact.
        for name, content in files_in(calm / "out").items():
            (place / "out" / name).write_bytes(content)
    attempts = 0
    while story.kills < kills and time.monotonic() < end and attempts < 3 * kills + 3:
        attempts += 1
        before = files_in(place / "out")
        # A run that continues has less to do, so it is killed earlier.
        wait = usual * draw.uniform(0.25, 0.8 if keeps else 1.0)
        killed = kill_once(story, place, root / "cache", wait, whole_group=draw.random() < 0.5)
        check_files(story, place / "out", before)
        if not killed and keeps:
            compare(story, place, expected)
            place = make_folder(root / f"killed-{attempts}")
    if long.compared and run_to_end(story, place, root / "cache"):
        compare(story, place, expected)
    return story


def compare(story: Story, place: Path, expected: dict[str, Any]) -> None:
    """Compare the results of a run that was killed with those of the undisturbed one."""
    story.runs += 1
    found = results_in(place / "out")
    different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if different:
        story.say(f"results differ: {', '.join(different)}")


def run(quick: bool, seed: int, seconds: float = SECONDS) -> list[Row]:
    """Kill every long command, and return a row for each."""
    draw, end, rows = random.Random(seed), time.monotonic() + seconds, []
    chosen = LONG[2:4] if quick else LONG
    for number, long in enumerate(chosen):
        promised = 1 if quick else long.kills
        left = sum(other.kills for other in chosen[number:])
        # Each command has its part of the time that is left, so that a slow one does not take that of the others.
        until = time.monotonic() + (end - time.monotonic()) * long.kills / left
        with tempfile.TemporaryDirectory() as root:
            story = try_long(long, promised, draw, Path(root), until)
        same = (
            f"{story.runs} runs to the end, results equal"
            if long.compared
            else "not compared: it measures or begins anew"
        )
        outcome = (
            f"FAILED: {'; '.join(story.problems[:3])}"
            if story.problems
            else f"{same}; half-written files 0, processes left 0"
        )
        rows.append(Row(f"kill -9 of {long.name}", count_of(story.kills, promised), outcome))
    return rows
