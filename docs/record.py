"""Keep what a command printed, and put it into a page of the docs: no number of a table is typed.

    python docs/record.py docs/tasks.md forecast "python examples/forecast.py"    # run it, keep it, fill the page
    python docs/record.py docs/tasks.md                                           # fill the page from what is kept

``docs/runs/forecast.json`` has the command, the versions that it ran with and the lines it printed. The page has a
place for them, ``<!-- run: forecast -->`` to ``<!-- end -->``, or for one of the run's tables,
``<!-- run: forecast 2 -->``. The command stands beside it in words. A test compares both (tests/docs/test_runs.py).
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

RUNS = Path(__file__).parent / "runs"
PLACE = re.compile(r"(?<=<!-- run: )(?P<name>[\w-]+)(?: (?P<table>\d+))? -->\n.*?(?=<!-- end -->)", flags=re.S)
PACKAGES = ("graphfaith", "torch", "torch_geometric", "numpy")


def run(command: str) -> dict[str, object]:
    """What ``command`` prints, beside the command and the versions; it runs with this Python, in this folder."""
    words = shlex.split(command)
    if words[0] == "python":
        words[0] = sys.executable
    elif words[0] == "graphfaith":
        words[:1] = [sys.executable, "-m", "graphfaith"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return {
        "command": command,
        "versions": {"python": ".".join(map(str, sys.version_info[:3])), **{name: version(name) for name in PACKAGES}},
        "printed": [line.rstrip() for line in done.stdout.strip().splitlines()],
    }


def tables(printed: list[str]) -> list[list[str]]:
    """The tables in Markdown among printed lines, each as its lines."""
    found: list[list[str]] = []
    for before, line in zip(["", *printed], printed, strict=False):
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append([])
            found[-1].append(line)
    return found


def fill(page: str) -> str:
    """The page with every place filled by what is kept of its run."""

    def filled(place: re.Match[str]) -> str:
        kept = json.loads((RUNS / f"{place['name']}.json").read_text(encoding="utf-8"))["printed"]
        lines = tables(kept)[int(place["table"]) - 1] if place["table"] else kept
        head = place.group().partition("\n")[0]
        # A place inside of an item of a list is indented, and so is what fills it.
        margin = re.match(" *", page[page.rfind("\n", 0, place.start()) + 1 :])[0]
        return "\n".join([head, "", *(margin + line for line in lines), "", margin])

    return PLACE.sub(filled, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("name", nargs="?", help="of the run")
    parser.add_argument("command", nargs="?", help="in quotes, as it stands in the page")
    asked = parser.parse_args()
    if (asked.name is None) != (asked.command is None):
        parser.error("a name and a command belong together")
    if asked.name:
        RUNS.mkdir(exist_ok=True)
        text = json.dumps(run(asked.command), indent=1, ensure_ascii=False)
        (RUNS / f"{asked.name}.json").write_text(text + "\n", encoding="utf-8")
    asked.page.write_text(fill(asked.page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
