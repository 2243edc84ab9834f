"""Damaged files: bytes that were changed, cut off, put in or left out, in every kind of file that is read.

Right is the result of the undamaged file, or a typed error of one line; and for the user's own files in formats without
a checksum also another valid file, because nobody can tell it from one that was meant. Wrong is any other exception,
another result in silence, code that ran, a process that dies (it may take a gigabyte) or does not answer.

    python stress/files.py SEED    # damages one file again and says what came out
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from bombs import make_bombs
from crew import BLOCKED, DIED, Crew
from originals import CORA, Original, make_originals
from table import Outcome, Row, summarise

import graphfaith as gf

COUNT, SECONDS = 3000, 240.0
SAME, REFUSED, OTHER = "read as if undamaged", "refused in one line", "another valid file (no checksum in the format)"
RAW, SILENT, RAN, UNCLEAR = "raw exception", "another result in silence", "code ran", "error not of one short line"
NEVER = (RAW, SILENT, RAN, UNCLEAR, DIED, BLOCKED)
LONGEST = 1000  # characters of an error message, without the path of the file
BOMBS = 900_000  # seeds from here on, within the million of a run, are those of the bombs
MEMORY = 1 << 30


def damage(content: bytes, draw: random.Random) -> bytes:
    """Return the content with one to three damages."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        # Half of the damage is near the beginning, where formats describe themselves.
        end = max(1, min(len(content), 400) if draw.random() < 0.5 else len(content))
        place = draw.randrange(end) if content else 0
        length = draw.choice([1, 1, 4, 8, 64, 500])
        before, after = content[:place], content[place + length :]
        match draw.choice(["bit", "bit", "bytes", "cut", "insert", "leave out", "zeros", "ones", "repeat"]):
            case "bit":
                flipped = content[place] ^ 1 << draw.randrange(8) if content else 0
                content = before + bytes([flipped]) + content[place + 1 :]
            case "bytes":
                content = before + draw.randbytes(length) + after
            case "cut":
                content = content[: draw.randrange(len(content) + 1)]
            case "insert":
                content = before + draw.randbytes(length) + content[place:]
            case "leave out":
                content = before + after
            case "zeros":
                content = before + bytes(length) + after
            case "ones":
                content = before + b"\xff" * length + after
            case "repeat":
                content = content[: place + length] + content[place:]
    return content


@cache
def _folder() -> Path:
    """Return the folder of this process."""
    return Path(tempfile.mkdtemp(prefix="damaged-"))


@cache
def _undamaged(kind: str) -> Any:
    original = make_originals()[kind]
    return original.read(_place(original, original.content))


def _place(original: Original, content: bytes) -> Path:
    path = Path(tempfile.mkdtemp(dir=_folder())) / original.name
    path.write_bytes(content)
    return path


def try_seed(seed: int) -> Outcome:
    """Damage a file, or make a bomb, and judge what its reader says."""
    if seed % 1_000_000 >= BOMBS:
        return _try_bomb(seed % 1_000_000 - BOMBS)
    draw = random.Random(seed)
    kinds = list(make_originals())
    original = make_originals()[kinds[seed % len(kinds)]]
    content = damage(original.content, draw)
    path = _place(original, content)
    expected = _undamaged(original.kind)
    outcome, found = _read(original.read, path)
    if outcome is not None:
        return outcome._replace(detail=f"{original.kind}: {outcome.detail}") if outcome.failed else outcome
    same = expected.items() >= found.items() if original.partial else found == expected
    if same:
        return Outcome(SAME)
    if original.free:
        return Outcome(OTHER)
    return Outcome(SILENT, True, f"{original.kind}: {_differing(content, original.content)}")


def _try_bomb(number: int) -> Outcome:
    canary = _folder() / "canary"
    bombs = make_bombs(canary)
    kind = list(bombs)[number]
    name, write, read = bombs[kind]
    path = Path(tempfile.mkdtemp(dir=_folder())) / name
    write(path)
    outcome, _ = _read(read, path)
    path.unlink()
    if canary.exists():
        canary.rmdir()
        return Outcome(RAN, True, kind)
    if outcome is None:
        return Outcome(SILENT, True, f"{kind}: it was read")
    return outcome._replace(detail=f"{kind}: {outcome.detail}") if outcome.failed else outcome


def _read(read: Any, path: Path) -> tuple[Outcome | None, Any]:
    """Return what is wrong or refused, or else what was read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None, read(path)
    except gf.GraphfaithError as error:
        text = str(error).replace(str(path), path.name)
        if not 15 <= len(text) <= LONGEST or not text.isprintable():
            return Outcome(UNCLEAR, True, f"{type(error).__name__}, {len(text)} characters: {text!r}"), None
        return Outcome(REFUSED), None
    except Exception as error:
        places = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
        return Outcome(RAW, True, f"{type(error).__name__}: {error} at {' < '.join(places[:-4:-1])}"), None


def _differing(content: bytes, original: bytes) -> str:
    if len(content) != len(original):
        return f"{len(content)} bytes instead of {len(original)}"
    return f"bytes {[i for i, (a, b) in enumerate(zip(content, original, strict=True)) if a != b][:8]} differ"


def run(quick: bool, seed: int, workers: int = 2, seconds: float = SECONDS) -> list[Row]:
    """Try many damaged files and all bombs, and return the rows of the table."""
    count = COUNT // 10 if quick else COUNT
    kinds, bombs, first = len(make_originals()), len(make_bombs(Path("canary"))), 1_000_000 * seed
    without = "" if CORA in make_originals() else " (none of Cora, which this machine does not have)"
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TMPDIR=folder):
        # The processes put their files into that folder, also if they are killed.
        crew = Crew(try_seed, "python stress/files.py {}", workers, seconds, patience=20.0, memory=MEMORY)
        damaged = crew.try_all(range(first, first + count))
        crew.patience = 60.0  # Some bombs take seconds to make.
        made = crew.try_all(range(first + BOMBS, first + BOMBS + bombs))
    return [
        summarise(f"damaged files of {kinds} kinds{without}", count, damaged, NEVER, order=(SAME, REFUSED, OTHER)),
        summarise("files made to do harm: bombs, holes, pickled code", bombs, made, NEVER, order=(REFUSED,)),
    ]


def main() -> None:
    """Try the seeds that are named, and say everything about them."""
    for text in sys.argv[1:]:
        seed = int(text)
        if seed % 1_000_000 >= BOMBS:
            print(list(make_bombs(Path("canary")))[seed % 1_000_000 - BOMBS])
        else:
            kinds = list(make_originals())
            print(kinds[seed % len(kinds)])
        print(try_seed(seed))


if __name__ == "__main__":
    main()
