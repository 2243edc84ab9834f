"""A full disk: every command that writes a file writes it to a disk with too little room.

Right is exit code 2 and an error of one line, every earlier file either as it was or replaced by a complete one, and no
draft left behind. The disk is a small file system in memory if this process may mount one; otherwise files are limited
in size, which makes writing fail in the same places.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from commands import files_in, find_damage, is_draft, prepare, start
from table import Outcome, Row, summarise

SECONDS, LIMIT = 420.0, 300.0  # of all commands together, and of one
SIZE = 8 << 20  # of the file system
EARLIER = b"an earlier result\n"
RIGHT, WENT_ON = "one line, earlier files intact", "went on without its cache"
WRONG, DAMAGED, DRAFTS = "not an error of one line", "damaged file", "draft left"
NO_END = "no end"


@dataclass(frozen=True)
class Try:
    """A command, the files that it is to write in the full folder, and the bytes that are left there."""

    name: str
    arguments: str
    free: int
    earlier: tuple[str, ...] = ()
    place: str = "disk"  # what is full: the disk of the results, the disk of the cache, or the standard output

    @property
    def title(self) -> str:
        """The name of the try, which --only takes."""
        what = {"disk": f"{self.free >> 10} KB left", "cache": "full cache", "stdout": "full standard output"}
        return f"{self.name} ({what[self.place]})"


OWN = "explain --model mymodule:load --data graph.pt --node 2 --samples 40 --test-samples 60"
BA = "score --nodes 400,500 --method saliency --test-samples 20"
FILES = "--json {disk}/a.json --figure {disk}/a.png --page {disk}/a.html --save {disk}/a.safetensors"
TRIES = (
    Try("demo", "demo --out {disk}", 32 << 10, ("results.json", "explanations.png", "explanations.html")),
    *(
        Try("explain", f"{OWN} {FILES}", free, ("a.json", "a.png", "a.html", "a.safetensors"))
        for free in (0, 8 << 10, 90 << 10)
    ),
    Try("score", f"{BA} --json {{disk}}/s.json", 0, ("s.json",)),
    Try("reproduce", "reproduce temperature --quick --workers 2 --out {disk}/r", 0),
    Try("reproduce", "reproduce temperature --quick --workers 2 --out {disk}/r", 24 << 10),
    Try("reproduce --page", "reproduce --page {disk}/page.md --out {results}", 0, ("page.md",)),
    Try("swat simulate", "swat simulate --days 0.02 --attack-days 0.02 --out {disk}", 0, ("Simulated_Normal.csv",)),
    Try(
        "swat simulate",
        "swat simulate --days 0.02 --attack-days 0.02 --out {disk}",
        700 << 10,
        ("Simulated_Attack.csv",),
    ),
    Try("swat run", "swat run --quick --no-compare --out {disk}/s", 64 << 10),
    Try("swat run", "swat run --quick --no-compare --out {disk}/s", 600 << 10),
    Try("bench", "bench --growth --quick --json {disk}/b.json --figure {disk}/b.png", 0, ("b.json", "b.png")),
    Try("score", f"{BA} --json {{folder}}/s.json", 4 << 10, place="cache"),  # the rows fit, the model does not
    Try("score", f"{BA} --json {{folder}}/s.json", 0, place="stdout"),
    Try("explain", f"{OWN} --json {{folder}}/a.json --figure {{folder}}/a.png", 0, place="stdout"),
)


def can_mount() -> bool:
    """Return whether this process may mount a file system."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        with contextlib.suppress(OSError):
            if subprocess.run(command, capture_output=True).returncode == 0:
                subprocess.run(["umount", folder], capture_output=True)
                return True
    return False


@contextlib.contextmanager
def mounted(folder: Path, mount: bool) -> Iterator[None]:
    """Mount a small file system on a folder, if that is possible."""
    if mount:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        if mount:
            subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, free: int) -> None:
    """Leave about ``free`` bytes on the file system of a folder."""
    left = os.statvfs(folder)
    room = left.f_bavail * left.f_frsize - free
    with (folder / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, room))


def try_one(one: Try, cache: Path, results: Path, mount: bool) -> Outcome:
    """Run a command on a full disk, and judge what it says and leaves."""
    with tempfile.TemporaryDirectory() as name:
        folder, disk = Path(name, "folder"), Path(name, "disk")
        folder.mkdir()
        disk.mkdir()
        prepare(folder)
        with mounted(disk, mount):
            for file in one.earlier:
                (disk / file).write_bytes(EARLIER)
            before = files_in(disk)
            if mount:
                fill(disk, one.free)
            limit = None if mount or one.place == "stdout" else partial(_limit_files, one.free)
            arguments = one.arguments.format(disk=disk, folder=folder, results=results).split()
            with contextlib.ExitStack() as stack:
                words = {"preexec_fn": limit}
                if one.place == "stdout":
                    words["stdout"] = stack.enter_context(open("/dev/full", "wb"))  # type: ignore[assignment]
                process = start(arguments, folder, disk if one.place == "cache" else cache, **words)
                try:
                    _, errors = process.communicate(timeout=LIMIT)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    process.wait()
                    return Outcome(NO_END, True, f"no end in {LIMIT:.0f} s")
            left = {name: content for name, content in files_in(disk).items() if name != "filler" and "mpl" not in name}
            written = {name: content for name, content in files_in(folder).items() if name.endswith((".json", ".png"))}
            return _judge(one, process.returncode, errors.decode(errors="replace"), before, left, written)


def _limit_files(free: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(1, free), max(1, free)))


def _judge(
    one: Try, code: int, errors: str, before: dict[str, bytes], left: dict[str, bytes], written: dict[str, bytes]
) -> Outcome:
    said = [line for line in errors.splitlines() if line.strip()]
    drafts = [name for name in left if is_draft(name)]
    if drafts:
        return Outcome(DRAFTS, True, f"{drafts}")
    for name, content in (left | written).items():
        problem = "" if before.get(name) == content else find_damage(name, content)
        if problem:
            return Outcome(DAMAGED, True, f"{name}: {problem}")
    missing = [name for name in before if name not in left]
    if missing:
        return Outcome(DAMAGED, True, f"{missing} gone")
    if one.place == "cache":
        return Outcome(WENT_ON) if code == 0 and written else Outcome(WRONG, True, f"code {code}: {said[-3:]}")
    if one.place == "stdout" and not written:
        return Outcome(DAMAGED, True, "the result was not written before it was printed")
    if code != 2 or not said or not said[-1].startswith("error: ") or "Traceback" in errors:
        return Outcome(WRONG, True, f"code {code}: {said[-3:]}")
    return Outcome(RIGHT)


def run(quick: bool, seed: int, seconds: float = SECONDS) -> list[Row]:  # noqa: ARG001
    """Run the commands, two at a time, and return the row of the table; they do not depend on the seed."""
    tries = TRIES[::4] if quick else TRIES
    end, mount = time.monotonic() + seconds, can_mount()
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as name:
        cache, results = Path(name, "cache"), Path(__file__).parents[1] / "docs" / "results"
        cache.mkdir()

        def work(one: Try) -> None:
            if time.monotonic() < end:
                outcomes[one.title] = outcome = try_one(one, cache, results, mount)
                if outcome.failed:
                    print(f"  {outcome.kind}: {one.title}: {outcome.detail[:400]}", file=sys.stderr, flush=True)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, tries))
    how = "a full file system" if mount else "a limit on the size of files, because nothing could be mounted"
    return [
        summarise(f"commands on {how}", len(tries), outcomes, (WRONG, DAMAGED, DRAFTS, NO_END), order=(RIGHT, WENT_ON))
    ]
