"""The table of peers in README, from docs/peers.json, which names the file and the line that each cell was read from.

    python docs/peers.py                                    # compare with what is installed; fill README and the page
    python docs/peers.py --clone DIG=path --clone GraphXAI=path --clone GraphFramEx=path   # compare the clones as well

What was read is either "file:line: text", where the line of the file has the text, or "missing: pattern in folder",
where no line of the folder's Python files has the pattern. Clones are read at the commits that peers.json names.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS = json.loads((ROOT / "docs" / "peers.json").read_text(encoding="utf-8"))
IN_README = re.compile(r"^\| \| graphfaith .*\n(?:\|.*\n)+", flags=re.M)
IN_PAGE = re.compile(r"(?<=<!-- peers -->\n).*?(?=<!-- end -->)", flags=re.S)

Reader = Callable[
    [str], dict[str, list[str]]
]  # the lines of a file, or of the Python files of a folder, by their names


def table() -> str:
    """The table of README."""
    projects = PEERS["projects"]
    lines = [["", "graphfaith", *(one["heading"] for one in projects.values())], ["---"] * (len(projects) + 2)]
    lines += [[row["row"], row["graphfaith"], *(row[name]["cell"] for name in projects)] for row in PEERS["rows"]]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines).replace("| --- ", "|---")


def evidence() -> str:
    """The table of docs/peers.md: what each cell was read from."""
    lines = ["", "| row | project | says | read from |", "|---|---|---|---|"]
    for row in PEERS["rows"]:
        for name in PEERS["projects"]:
            found = "; ".join(f"`` {one} ``".replace("|", "\\|") for one in row[name]["found"])
            lines.append(f"| {row['row']} | {name} | {row[name]['cell']} | {found} |")
    return "\n".join([*lines, "", ""])


@functools.cache
def installed() -> Reader:
    """A reader of what is installed beside this Python."""
    (package,) = importlib.util.find_spec("torch_geometric").submodule_search_locations  # type: ignore[union-attr,misc]
    site = Path(package).parent

    @functools.cache
    def read(name: str) -> dict[str, list[str]]:
        at = site / name
        files = sorted(at.rglob("*.py")) if at.is_dir() else [at]
        return {str(one): one.read_text(encoding="utf-8").splitlines() for one in files}

    return read


def cloned(folder: str, commit: str) -> Reader:
    """A reader of a clone at a commit."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True)
        return done.stdout.decode("utf-8", errors="replace")

    @functools.cache
    def read(name: str) -> dict[str, list[str]]:
        names = [name] if Path(name).suffix else git("ls-tree", "-r", "--name-only", commit, f"{name}/").splitlines()
        return {
            one: git("show", f"{commit}:{one}").splitlines() for one in names if one in (name,) or one.endswith(".py")
        }

    return read


def wrong(found: str, read: Reader) -> str | None:
    """What is not as it was read, or None."""
    if absent := re.fullmatch(r"missing: (.*) in (\S+)", found):
        pattern = re.compile(absent[1], flags=re.I)
        files = read(absent[2])
        if not files:
            return f"nothing to look at: {found}"
        hits = [f"{name}: {line.strip()}" for name, lines in files.items() for line in lines if pattern.search(line)]
        return f"{found}, but {hits[0]}" if hits else None
    place = re.fullmatch(r"([^:]+)(?::(\d+))?: (.*)", found)
    if place is None:
        return f"not to be understood: {found}"
    (lines,) = read(place[1]).values()
    here = lines[int(place[2]) - 1 : int(place[2])] if place[2] else lines
    return None if any(place[3] in line for line in here) else f"{found}, but there is {here[:1]}"


def mistakes(readers: dict[str, Reader]) -> list[str]:
    """What is not as it was read, of the projects that there are readers of."""
    every = [
        (name, found)
        for row in PEERS["rows"]
        for name in PEERS["projects"]
        for found in row[name]["found"]
        if name in readers
    ]
    return [f"{name}: {text}" for name, found in every if (text := wrong(found, readers[name])) is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clone", action="append", default=[], metavar="NAME=PATH")
    readers = {name: installed() for name, one in PEERS["projects"].items() if "package" in one}
    for text in parser.parse_args().clone:
        name, _, path = text.partition("=")
        readers[name] = cloned(path, PEERS["projects"][name]["commit"])
    found = mistakes(readers)
    if found:
        raise SystemExit("\n".join(found))
    for page, place, text in ((ROOT / "README.md", IN_README, table()), (ROOT / "docs/peers.md", IN_PAGE, evidence())):
        content = page.read_text(encoding="utf-8")
        page.write_text(place.sub(lambda _, text=text: text, content), encoding="utf-8")
    print(f"every line is as it was read: {', '.join(readers)}")


if __name__ == "__main__":
    main()
