"""How large pages are, how soon they are seen, how smoothly they are dragged, and what is seen at first sight.

`python benchmarks/page.py` opens pages of four explanations in headless Chromium without a graphics card. First paint
is the browser's own mark; "drawn" is when all panels are there. A drag is 60 moves of the pointer, one a frame; the
time from frame to frame is that of the browser's own clock, of which 16.7 ms is the least. With `--against REVISION`,
an older state of this project, its pages are made too, and both are opened in turn in the same browser, each of the two
first in every other round; the differences are means over rounds, with their standard errors. A browser paints once a
frame, so that one difference says little. The first round is not counted.

`python benchmarks/page.py --nodes 200` makes a page of as many nodes of Cora, its five largest hubs among them, and
counts in the browser, at the widths of a desk and of a telephone: the marks before anything is unfolded, the labels
that overlap, and how far what is explained is from the middle of its panel, as a share of the panel. It fails if there
are more than 35 marks, if labels overlap, if what is explained is farther than a tenth from the middle, if the fold
with the largest sum has no label although it weighs more than any link, or if a page has 300 kB or more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np
from older import ROOT, environment_of, take_out
from page_cases import CASES
from playwright.sync_api import Browser

import graphfaith as gf
from graphfaith.data.models import load_trained
from graphfaith.facade import Subject
from graphfaith.view.layout import lay_out

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browsing import started

WIDTHS = (1280, 360)
MOST_MARKS, MOST_BYTES, MIDDLE = 35, 300_000, 0.1
MAKER = Path(__file__).with_name("page_cases.py")
DRAG = """async () => {
  const stage = document.querySelector(".stage");
  const box = stage.getBoundingClientRect();
  const fire = (kind, x) => stage.dispatchEvent(new PointerEvent(kind, {
    bubbles: true, pointerId: 1, clientX: box.left + 10 + x, clientY: box.top + 10 }));
  stage.setPointerCapture = () => {};
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  fire("pointerdown", 0);
  const times = [await frame()];
  for (let x = 1; x <= 60; x += 1) { fire("pointermove", 2 * x); times.push(await frame()); }
  fire("pointerup", 120);
  return times.slice(1).map((t, i) => t - times[i]);
}"""


SIGHT = """() => {
  const boxes = [...document.querySelectorAll(".name:not([hidden])")].map((one) => one.getBoundingClientRect());
  let overlaps = 0;
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) overlaps += 1;
  }));
  const stage = document.querySelector(".stage").getBoundingClientRect();
  const disc = document.querySelector(".node.explained .disc").getBoundingClientRect();
  const away = Math.max(Math.abs((disc.left + disc.right - stage.left - stage.right) / 2) / stage.width,
    Math.abs((disc.top + disc.bottom - stage.top - stage.bottom) / 2) / stage.height);
  const marks = document.querySelectorAll(".node:not([hidden]), .fold:not([hidden])").length;
  const { folds, panels } = JSON.parse(document.getElementById("data").textContent);
  const weights = folds.map((fold) => Math.abs(fold.sums[0]));
  const heaviest = folds[weights.indexOf(Math.max(...weights))];
  const texts = [...document.querySelectorAll(".name:not([hidden])")].map((one) => one.textContent);
  const nameless = heaviest && Math.abs(heaviest.sums[0]) >= panels[0].edge_scale
    && !texts.some((text) => text.startsWith(`${heaviest.count} more`)) ? 1 : 0;
  return { overlaps, away, marks, labels: boxes.length, nameless };
}"""


def make_pages_of(checkout: Path, folder: Path) -> None:
    """Let a checkout of this project write its pages, in a process of its own."""
    folder.mkdir()
    subprocess.run([sys.executable, MAKER, folder], env=environment_of(checkout), check=True)


class Opened:
    """The times of one page over several openings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paints: list[float] = []
        self.drawn: list[float] = []
        self.frames: list[float] = []

    def open(self, browser: Browser) -> None:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(self.path.as_uri())
        page.wait_for_selector(".panel")
        page.wait_for_timeout(300)
        self.paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        self.drawn.append(page.evaluate("performance.getEntriesByName('drawn')[0].startTime"))
        page.evaluate("const s = document.getElementById('share'); s.value = 100; s.dispatchEvent(new Event('input'))")
        page.wait_for_timeout(300)
        self.frames += page.evaluate(DRAG)
        page.close()

    def forget(self) -> None:
        """Do not count what was measured so far."""
        self.paints, self.drawn, self.frames = [], [], []

    def later(self, other: Opened | None) -> str:
        """Return how much later than on the other page the first paint was, and what was drawn, in milliseconds."""
        if other is None:
            return "– | –"
        pairs = [(self.paints, other.paints), (self.drawn, other.drawn)]
        return " | ".join(_difference([a - b for a, b in zip(*pair, strict=True)]) for pair in pairs)

    def __str__(self) -> str:
        frames = sorted(self.frames)
        cells = [
            f"{self.path.stat().st_size / 1000:.0f} kB", f"{float(self.path.with_suffix('.txt').read_text()):.2f} s",
            f"{median(self.paints):.0f} ms", f"{median(self.drawn):.0f} ms",
            f"{median(frames):.0f} ms", f"{frames[int(0.95 * len(frames))]:.0f} ms",
        ]  # fmt: skip
        return " | ".join(cells)


def _difference(all_of: list[float]) -> str:
    return f"{mean(all_of):+.1f} ± {stdev(all_of) / len(all_of) ** 0.5:.1f} ms"


def time_pages(against: str | None, rounds: int) -> None:
    head = "four methods | size | made in | first paint | drawn | frame, median | frame, 95 %"
    print(f"| {head} | first paint, later by | drawn, later by |")
    print("|---|---|---|---|---|---|---|---|---|")
    over: tuple[list[float], list[float]] = ([], [])
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        sets = {"": Path(folder, "own")}
        make_pages_of(ROOT, sets[""])
        if against is not None:
            sets[" (before)"] = Path(folder, "other")
            take_out(against, Path(folder, "before"))
            make_pages_of(Path(folder, "before"), sets[" (before)"])
        for number, name in enumerate(CASES):
            opened = {which: Opened(path / f"{number}.html") for which, path in sets.items()}
            for number_of_round in range(rounds + 1):
                for one in list(opened.values())[:: 1 if number_of_round % 2 else -1]:
                    one.open(browser)  # in turn, so that a busy machine slows both
                    if number_of_round == 0:
                        one.forget()
            before = opened.get(" (before)")
            for which, one in opened.items():
                print(f"| {name}{which} | {one} | {one.later(before if which == '' else None)} |", flush=True)
            if before is not None:
                over[0].extend(a - b for a, b in zip(opened[""].paints, before.paints, strict=True))
                over[1].extend(a - b for a, b in zip(opened[""].drawn, before.drawn, strict=True))
            own = opened[""].path.stat().st_size
            assert own < MOST_BYTES, f"the page of {name} has {own} bytes"
    if against is not None:
        paint, drawn = map(_difference, over)
        print(f"\nOf all pages together: first painted {paint} later, drawn {drawn} later.")


def choose_nodes(degree: np.ndarray, count: int) -> list[int]:
    """Return the five largest hubs, and nodes at equal distances."""
    hubs = np.argsort(-degree, kind="stable")[:5].tolist()
    others = [node for node in np.linspace(0, len(degree) - 1, 2 * count).astype(int).tolist() if node not in hubs]
    chosen = others[:: max(1, len(others) // (count - len(hubs)))][: count - len(hubs)]
    return [*hubs, *chosen]


def look_at_nodes(count: int) -> None:
    fit = load_trained("cora")
    subject = Subject(fit.model, fit.data)
    degree = np.bincount(fit.data.edge_index[0].numpy(), minlength=fit.data.num_nodes)
    nodes = choose_nodes(degree, count)
    sizes: list[int] = []
    carried: list[float] = []
    seen: dict[int, list[dict[str, float]]] = {width: [] for width in WIDTHS}
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        page = browser.new_page()
        for node in nodes:
            path = Path(folder) / f"{node}.html"
            explanation = subject.explain(node, "anchored-kec", "B(A,0.5)")
            gf.page(explanation, path)
            sizes.append(path.stat().st_size)
            carried.append(lay_out(explanation).panels[0].carried or 0.0)
            page.goto(path.as_uri())
            page.wait_for_selector(".panel")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_timeout(200)  # until the names are placed anew
                seen[width].append(page.evaluate(SIGHT))
    print(
        f"{len(nodes)} nodes of Cora, largest page {max(sizes) / 1000:.0f} kB, median {median(sizes) / 1000:.0f} kB\n"
    )
    share = f"{100 * mean(carried):.0f} % on average, {100 * min(carried):.0f} % at least"
    print(f"of the weight of the scores is drawn at first sight: {share}\n")
    print(
        "| width | marks, median | most marks | labels, median | labels that overlap | heavy folds without a label "
        "| farthest from the middle |"
    )
    print("|---|---|---|---|---|---|---|")
    for width, rows in seen.items():
        most, marks = max(row["marks"] for row in rows), median(row["marks"] for row in rows)
        labels = median(row["labels"] for row in rows)
        overlaps, away = sum(row["overlaps"] for row in rows), max(row["away"] for row in rows)
        nameless = sum(row["nameless"] for row in rows)
        print(f"| {width} px | {marks:g} | {most} | {labels:g} | {overlaps} | {nameless} | {100 * away:.1f} % |")
    assert max(sizes) < MOST_BYTES, f"a page has {max(sizes)} bytes"
    for width, rows in seen.items():
        for node, row in zip(nodes, rows, strict=True):
            assert row["marks"] <= MOST_MARKS, f"node {node}, {width} px: {row['marks']} marks"
            assert row["overlaps"] == 0, f"node {node}, {width} px: {row['overlaps']} pairs of labels overlap"
            assert row["away"] <= MIDDLE, f"node {node}, {width} px: {row['away']:.2f} off the middle"
            assert row["nameless"] == 0, f"node {node}, {width} px: the fold with the largest sum has no label"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", metavar="REVISION", help="an older state of this project to compare with")
    options.add_argument("--nodes", type=int, help="look at so many nodes of Cora instead")
    options.add_argument("--rounds", type=int, default=5, help="how often each page is opened, two at least")
    given = options.parse_args()
    if given.nodes is not None:
        look_at_nodes(given.nodes)
    else:
        time_pages(given.against, given.rounds)


if __name__ == "__main__":
    main()
