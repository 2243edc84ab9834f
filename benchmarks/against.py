"""Whether this state of the project is as fast as an older one: ``graphfaith bench --quick`` of both, in turns.

python benchmarks/against.py REVISION [--rounds 5] [--dataset ba-shapes ...] [--json FILE] [--from FILE]

Each state measures in processes of its own, one after the other, and every second round begins with the other state,
so that a busy machine slows both. A time is that of one explanation, median over nodes; the table has the least of all
rounds, now and before, their ratio, and the least and largest ratio of a single round. Methods of Captum and PyG are
the same code in both: how far their ratios are from 1 is what the machine does to the others. The exit code is 1 if a
method of this project takes more than ``--most`` times as long as before, in its least round and in the median of its
rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from older import ROOT, environment_of, take_out

from graphfaith._base.files import check_output, write_file

BEFORE, NOW = "before", "now"
OURS = ("anchored-kec", "kec", "linear", "saliency", "ig-", "gnnexplainer", "pgexplainer")  # names begin so
Times = dict[str, float]  # milliseconds, by data set and method


def measure(checkout: Path, datasets: list[str], folder: Path) -> Times:
    """The times that a state of this project measures, in a process of its own."""
    path = folder / "bench.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "graphfaith", "bench", "--quick", "--json", str(path)]
    for name in datasets:
        command += ["--dataset", name]
    subprocess.run(command, env=environment_of(checkout), cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return times_in(json.loads(path.read_text()))


def times_in(result: dict[str, Any]) -> Times:
    """The times in what ``graphfaith bench --json`` has written."""
    times = {
        f"{name}: {row['method']}": float(row["median_ms"]) for name, rows in result["tables"].items() for row in rows
    }
    for key, words in (("whole_graph", "kec"), ("anchored_whole_graph", "anchored-kec")):
        if key in result:
            times[f"cora: {words}, whole graph"] = float(result[key]["ms_a_node"])
    return times


def compare(revision: str, rounds: int, datasets: list[str]) -> list[dict[str, Times]]:
    """The times of both states in every round."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        take_out(revision, folder / "older")
        states = {NOW: ROOT, BEFORE: folder / "older"}
        for number in range(rounds):
            order = (NOW, BEFORE) if number % 2 == 0 else (BEFORE, NOW)
            found.append({state: measure(states[state], datasets, folder) for state in order})
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def rows_of(found: list[dict[str, Times]]) -> list[tuple[str, float, float, float, float, float, float]]:
    """For each figure that both states have: now, before, their ratio, and least, median and largest of each round."""
    rows = []
    for name in found[0][NOW]:
        if not all(name in one[state] for one in found for state in (NOW, BEFORE)):
            continue
        now, before = (min(one[state][name] for one in found) for state in (NOW, BEFORE))
        ratios = [one[NOW][name] / one[BEFORE][name] for one in found]
        rows.append((name, now, before, now / before, min(ratios), median(ratios), max(ratios)))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", help="an older state of this project")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dataset", action="append", help="ba-shapes and cora if left out; may be repeated")
    parser.add_argument("--most", type=float, default=1.1, help="how many times as long a method may take")
    parser.add_argument("--json", type=Path, help="keep the times of all rounds in this file")
    parser.add_argument("--from", dest="source", type=Path, help="show what --json has written")
    options = parser.parse_args()
    if (options.revision is None) == (options.source is None):
        parser.error("give a revision, or --from")
    path = None if options.json is None else check_output(options.json, (".json",))
    if options.source is not None:
        kept = json.loads(options.source.read_text())
    else:
        datasets = options.dataset or ["ba-shapes", "cora"]
        kept = {"revision": options.revision, "rounds": compare(options.revision, options.rounds, datasets)}
    if path is not None:
        write_file(path, (json.dumps(kept, indent=1) + "\n").encode())
    print(f"| ms an explanation | now | {kept['revision']} | now / before | of single rounds |\n|---|---|---|---|---|")
    slower = []
    for name, now, before, ratio, least, middle, most in rows_of(kept["rounds"]):
        print(f"| {name} | {now:.3g} | {before:.3g} | {ratio:.2f} | {least:.2f} to {most:.2f} |")
        if name.partition(": ")[2].startswith(OURS) and min(ratio, middle) > options.most:
            slower.append(name)
    if slower:
        print(f"more than {options.most} times as long: {', '.join(slower)}", file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
