"""Put the tables of a run into docs/batadal.md: `python docs/batadal/update.py results/batadal`.

The run is the one that the page names. What is between the two marks of the page is replaced.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "batadal.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def update(folder: Path) -> None:
    """Write the tables of results.md into the page, and keep the numbers that they are made of."""
    results = json.loads((folder / "results.json").read_text())
    for row in results.pop("seeds"):  # Their means are in `detectors`; the false alarms of each are named in the page.
        rates = {name: scores["false_alarms_per_day"] for name, scores in row["detectors"].items()}
        results.setdefault("false_alarms_per_day", {})[row["seed"]] = rates
    (HERE / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n" + (folder / "results.md").read_text() + "\n" + END + after)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "results.md").exists():
        raise SystemExit("give the folder of a finished run: python docs/batadal/update.py results/batadal")
    update(Path(sys.argv[1]))
