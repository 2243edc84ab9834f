"""Put the tables of a run into docs/batadal.md: `python docs/batadal/update.py results/batadal`.

The run is the one that the page names. What is between the two marks of the page is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "batadal.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def update(folder: Path) -> None:
    """Write the tables of results.md into the page."""
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n" + (folder / "results.md").read_text() + "\n" + END + after)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "results.md").exists():
        raise SystemExit("give the folder of a finished run: python docs/batadal/update.py results/batadal")
    update(Path(sys.argv[1]))
