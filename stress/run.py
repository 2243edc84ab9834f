"""The stress suite: everything that should not shake the library, tried many times, with a table of what came out.

    python stress/run.py                    # all parts, about half an hour on two cores
    python stress/run.py --quick            # a tenth of it
    python stress/run.py --only fuzz --seed 7
    python stress/run.py --json docs/runs/stress.json
    python stress/run.py --from docs/runs/stress.json --table docs/reliability.md    # tries nothing, writes the table

Each part is a module with a function ``run(quick, seed)`` that returns rows of the table, and has a process of its own
and a time limit. The exit code is 1 if anything came out wrong; what did is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from table import FAILED, Row, format_table, has_failed, put_between, renew, write_into

# The parts, and the seconds after which one that has not ended is killed. Each ends by itself long before, and then
# says how many tries it had time for. The times allow for a machine that is busy with other work.
PARTS = {"fuzz": 540.0, "files": 400.0, "threads": 260.0, "live": 480.0, "disk": 760.0, "kills": 1100.0, "many": 4200.0}


def run_part(name: str, quick: bool, seed: int) -> tuple[list[Row], float]:
    """Run a part in a process of its own; one that fails or does not end gives a row that says so."""
    began = time.monotonic()
    print(f"{name} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, __file__, "--part", name, "--rows", str(path), "--seed", str(seed)]
        words = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": folder}
        process = subprocess.Popen([*command, *["--quick"] * quick], start_new_session=True, env=words)
        try:
            code = process.wait(timeout=PARTS[name])
            problem = f"it ended with code {code}"
        except subprocess.TimeoutExpired:
            problem = f"no end in {PARTS[name]:.0f} s"
        finally:  # also after Ctrl-C
            _end_group(process)
        rows = [Row(*row) for row in json.loads(path.read_text())] if path.exists() else []
    seconds = time.monotonic() - began
    print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return rows or [Row(name, "0", f"{FAILED}: {problem}")], seconds


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a part with all processes that it has started in its own group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def do_part(name: str, quick: bool, seed: int, path: Path) -> None:
    """Run a part in this process, and write its rows to a file."""
    try:
        run = importlib.import_module(name).run
        takes_seed = "seed" in inspect.signature(run).parameters
        rows = run(quick=quick, seed=seed) if takes_seed else run(quick=quick)
    except Exception as error:
        traceback.print_exc()
        rows = [Row(name, "0", f"{FAILED}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")]
    path.write_text(json.dumps(rows))


def describe(names: list[str], quick: bool, seed: int, seconds: float) -> str:
    """Return a sentence about the run that made the table."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("graphfaith", "torch", "torch_geometric"))
    only = "" if names == list(PARTS) else "".join(f" --only {name}" for name in names)
    command = f"stress/run.py{' --quick' * quick}{only}" if quick or only else "make stress"
    return (
        f"Made by `{command}` (seed {seed}) in {seconds / 60:.0f} minutes on {os.cpu_count()} cores; "
        f"Python {platform.python_version()}, {versions}."
    )


def try_parts(names: list[str], quick: bool, seed: int) -> dict[str, Any]:
    """Return the rows of these parts, and what is to be known about the run."""
    began, rows = time.monotonic(), []
    seconds: dict[str, float] = {}
    for name in names:
        found, seconds[name] = run_part(name, quick, seed)
        rows += found
    about = describe(names, quick, seed, time.monotonic() - began)
    return {"about": about, "quick": quick, "seed": seed, "seconds": seconds, "rows": rows}


def shown(document: dict[str, Any]) -> str:
    """Return the table of a run, and below it the sentence about the run."""
    return f"{format_table([Row(*row) for row in document['rows']])}\n{document['about']}"


def filled(content: str, document: dict[str, Any]) -> str:
    """Return a page with what there is to show of a run between its markers."""
    return put_between(content, shown(document))


def main() -> int:
    """Run the parts, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try a tenth of it")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="try this part only; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="draws other graphs, damages and moments")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--from", type=Path, dest="source", help="try nothing, show what --json has written")
    parser.add_argument("--table", type=Path, help="also write the table between the two markers of this page")
    parser.add_argument(
        "--renew", type=Path, help="with one --only: put its rows in place of those in the page's table"
    )
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part is not None:
        do_part(chosen.part, chosen.quick, chosen.seed, chosen.rows)
        return 0
    if chosen.renew is not None and len(chosen.only or ()) != 1:
        parser.error("--renew goes with one --only")
    if chosen.source is not None:
        document = json.loads(chosen.source.read_text())
    else:
        document = try_parts(chosen.only or list(PARTS), chosen.quick, chosen.seed)
    rows = [Row(*row) for row in document["rows"]]
    print(shown(document))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    if chosen.table is not None:
        write_into(chosen.table, shown(document))
    if chosen.renew is not None:
        renew(chosen.renew, rows, *chosen.only, document["about"])
    wrong = sum(has_failed(row) for row in rows)
    print(f"{wrong} of {len(rows)} rows failed" if wrong else f"all {len(rows)} rows are right", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
