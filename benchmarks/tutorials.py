"""How long each tutorial takes, executed whole, as a reader runs it: in a process of its own, with all of its cells.

    python benchmarks/tutorials.py

Seconds are of the processor, from the start of the process to its end, imports included: with one thread that is what
the clock says on a machine that does nothing else, and it does not count what other programs take.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
ORDER = ("first-node", "compare", "alarm", "molecules", "whole-graph", "own-explainer")  # that of the site


def cells_of(notebook: Path, kind: str) -> list[str]:
    """Return the cells of a kind, "code" or "markdown"."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def time_notebook(notebook: Path) -> float:
    """Return the seconds of the processor that all cells of a notebook take, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"{notebook.stem}.py"
        script.write_text("\n\n".join(cells_of(notebook, "code")), encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, script], cwd=folder, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a row for each tutorial."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    print("| tutorial | cells | seconds of the processor |\n|:--|--:|--:|")
    for notebook in sorted(TUTORIALS.glob("*.ipynb"), key=lambda path: ORDER.index(path.stem)):
        title = cells_of(notebook, "markdown")[0].partition("\n")[0].removeprefix("# ")
        cells = len(cells_of(notebook, "code")) + len(cells_of(notebook, "markdown"))
        print(f"| [{title}]({notebook.stem}.md) | {cells} | {time_notebook(notebook):.0f} |", flush=True)


if __name__ == "__main__":
    main()
