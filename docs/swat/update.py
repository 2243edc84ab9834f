"""Put the tables and pictures of a run into docs/swat.md: `python docs/swat/update.py results/swat`.

The run is one of `graphfaith swat run --out results/swat`. What is between the two marks of the page is replaced.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from graphfaith_studies.plant.kept import write_alarms
from graphfaith_studies.plant.tables import format_tables, list_tables
from graphfaith_studies.swat.verdicts import list_own_tables

HERE = Path(__file__).parent
PAGE = HERE.parent / "swat.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def update(folder: Path) -> None:
    """Copy results.json and the pictures, keep the alarms, and write the tables into the page."""
    results = json.loads((folder / "results.json").read_text())
    seeds = [row["seed"] for row in results["seeds"]]
    studies = [json.loads((folder / f"seed-{seed}" / "result.json").read_text()) for seed in seeds]
    write_alarms(HERE / "alarms.json", studies)
    for row in results["seeds"]:
        row.pop("attacks", None)
        for scores in row["detectors"].values():
            scores.pop("pa_k", None)
    (HERE / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    for picture in folder.glob("attack-*.png"):
        shutil.copyfile(picture, HERE / picture.name)
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    tables = format_tables(list_tables(results) + list_own_tables(results))
    PAGE.write_text(before + BEGIN + "\n" + tables + "\n" + END + after)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "results.json").exists():
        raise SystemExit("give the folder of a finished run: python docs/swat/update.py results/swat")
    update(Path(sys.argv[1]))
