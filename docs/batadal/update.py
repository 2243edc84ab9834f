"""Put the tables and a picture of a run into docs/batadal.md: `python docs/batadal/update.py results/batadal`.

The run is the one that the page names. What is between the two marks of the page is replaced.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from graphfaith_studies.plant.kept import write_alarms

HERE = Path(__file__).parent
PAGE = HERE.parent / "batadal.md"
ALARM = 22  # on the operator's page, which is photographed in Chromium
WIDTH = 1180  # pixels of its window
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


def photograph(page: Path) -> None:
    """Take the picture of one alarm of the operator's page."""
    with sync_playwright() as play:
        # The Chromium of the machine, if there is one, else that of `playwright install`.
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": WIDTH, "height": 900})
        window.goto(page.resolve().as_uri())
        window.locator(f"#alarm-{ALARM}").screenshot(path=HERE / "page.png")
        browser.close()


def update(folder: Path) -> None:
    """Write the tables of results.md into the page, and keep the numbers and alarms that they are made of."""
    results = json.loads((folder / "results.json").read_text())
    seeds = [row["seed"] for row in results["seeds"]]
    studies = [json.loads((folder / f"seed-{seed}" / "result.json").read_text()) for seed in seeds]
    write_alarms(HERE / "alarms.json", studies)
    for row in results["seeds"]:
        row.pop("attacks", None)
        for scores in row["detectors"].values():
            scores.pop("pa_k", None)
    results |= json.loads((folder / "time.json").read_text())
    (HERE / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n" + (folder / "results.md").read_text() + "\n" + END + after)
    photograph(folder / "report.html")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "results.md").exists():
        raise SystemExit("give the folder of a finished run: python docs/batadal/update.py results/batadal")
    update(Path(sys.argv[1]))
