"""How large pages are, how soon they are seen, and how smoothly they are dragged: `python benchmarks/page.py`.

Each page is made of four explanations and opened in headless Chromium without a graphics card. First paint is the
browser's own mark; "drawn" is when all panels are there. A drag is 60 moves of the pointer, one a frame; the time
from frame to frame is that of the browser's own clock, of which 16.7 ms is the least.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from playwright.sync_api import Browser
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.data.models import load_trained
from graphfaith.facade import Subject

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from browsing import started

METHODS = ("anchored-kec", "kec", "saliency", "gnnexplainer-soft")
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


def of_dataset(name: str, node: int) -> list[Explanation]:
    fit = load_trained(name)
    subject = Subject(fit.model, fit.data)
    return [subject.explain(node, method, "B(A,0.5)") for method in METHODS]


def of_a_large_graph(num_nodes: int = 100_000) -> list[Explanation]:
    torch.manual_seed(0)
    later = torch.arange(1, num_nodes)
    ends = torch.stack([later, (later * torch.rand(num_nodes - 1) ** 3).long()])
    edge_index, x = torch.cat([ends, ends.flip(0)], dim=1), torch.rand(num_nodes, 16)
    model = GCN(16, 16, num_layers=2, out_channels=4).eval()
    subject = Subject(model, Data(x=x, edge_index=edge_index))
    return [subject.explainer(method)(x, edge_index, index=5) for method in ("kec", "saliency") * 2]


def of_a_dense_graph(num_nodes: int = 300) -> list[Explanation]:
    edge_index = torch.combinations(torch.arange(num_nodes)).T
    draw = torch.Generator().manual_seed(0)
    scores = [torch.randn(edge_index.size(1), generator=draw) for _ in range(4)]
    return [Explanation(edge_index=edge_index, edge_mask=one, index=0) for one in scores]


def measure(browser: Browser, explanations: Sequence[Explanation]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        started_at = time.perf_counter()
        path = Path(folder) / "x.html"
        gf.page(list(explanations), path)
        made, size = time.perf_counter() - started_at, path.stat().st_size
        paints, drawn, frames = [], [], []
        for _ in range(5):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(path.as_uri())
            page.wait_for_selector(".panel")
            page.wait_for_timeout(300)
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            drawn.append(page.evaluate("performance.getEntriesByName('drawn')[0].startTime"))
            page.evaluate(
                "const s = document.getElementById('share'); s.value = 100; s.dispatchEvent(new Event('input'))"
            )
            frames += page.evaluate(DRAG)
            page.close()
    frames.sort()
    return [
        f"{size / 1000:.0f} kB", f"{made:.2f} s", f"{median(paints):.0f} ms", f"{median(drawn):.0f} ms",
        f"{median(frames):.0f} ms", f"{frames[int(0.95 * len(frames))]:.0f} ms",
    ]  # fmt: skip


def main() -> None:
    cases: dict[str, Callable[[], list[Explanation]]] = {
        "Cora, node 42 (13 nodes)": lambda: of_dataset("cora", 42),
        "BA-Shapes, node 500 (300 of 367 nodes)": lambda: of_dataset("ba-shapes", 500),
        "a graph of 100,000 nodes (300 shown)": of_a_large_graph,
        "300 nodes, all joined (2,000 of 44,850 edges)": of_a_dense_graph,
    }
    print("| four methods | size | made in | first paint | drawn | frame, median | frame, 95 % |")
    print("|---|---|---|---|---|---|---|")
    with started() as browser:
        for name, make in cases.items():
            print(f"| {name} | {' | '.join(measure(browser, make()))} |", flush=True)


if __name__ == "__main__":
    main()
