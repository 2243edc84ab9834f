"""What is seen first of 200 nodes of Cora: marks, where the explained node is, and how large the page is.

    python benchmarks/first_sight.py [--nodes 200]

The nodes are spread evenly over the graph, with its five largest hubs among them. It fails if more than 35 marks are
drawn before anything is unfolded, if the explained node is farther than a tenth of a panel from its middle (in the
figure, whose box is fitted to what is drawn), if a hidden node is in no fold or in two, or if a page is 300 kB or more.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from graphfaith.data.models import load_trained
from graphfaith.facade import Subject
from graphfaith.view.drawing import fit
from graphfaith.view.first_sight import at_first_sight
from graphfaith.view.frame import make_frame
from graphfaith.view.layout import lay_out
from graphfaith.view.page import page

MOST_MARKS, MOST_BYTES, MIDDLE = 35, 300_000, 0.1


def choose_nodes(degree: np.ndarray, count: int) -> list[int]:
    """Return the five largest hubs, and nodes at equal distances."""
    hubs = np.argsort(-degree, kind="stable")[:5].tolist()
    others = [node for node in np.linspace(0, len(degree) - 1, 2 * count).astype(int).tolist() if node not in hubs]
    chosen = others[:: max(1, len(others) // (count - len(hubs)))][: count - len(hubs)]
    return [*hubs, *chosen]


def main() -> None:
    """Measure, print the largest and the mean of each, and fail if one is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--neighborhood", default="B(A,0.5)")
    options = parser.parse_args()
    trained = load_trained("cora")
    subject = Subject(trained.model, trained.data)
    degree = np.bincount(trained.data.edge_index[0].numpy(), minlength=trained.data.num_nodes)
    marks, offsets, sizes, carried, seconds = [], [], [], [], []
    for node in choose_nodes(degree, options.nodes):
        explanation = subject.explain(node, "anchored-kec", options.neighborhood)
        started = time.perf_counter()
        layout = lay_out(explanation)
        seconds.append(time.perf_counter() - started)
        members = [member for fold in layout.folds for member in fold.members]
        assert len(members) == len(set(members)), node
        seen = at_first_sight(layout)
        assert len(seen.nodes) + len(members) == len(layout.nodes), node
        marks.append(len(seen.nodes) + len(seen.folds))
        box = make_frame(seen, None, None).box
        geometry = fit(seen, box)
        at = geometry.points[seen.panels[0].explained[0]]
        offsets.append(float((np.abs(at - np.array(box) / 2) / np.array(box)).max()))
        sizes.append(len(page(explanation).encode()))
        carried.append(layout.panels[0].carried or 0.0)
    for name, values in {
        "marks at first sight": marks,
        "explained node off the middle, of the panel": offsets,
        "bytes of a page": sizes,
        "share of the scores' weight that is drawn": carried,
        "seconds for a layout": seconds,
    }.items():
        print(f"{name}: mean {np.mean(values):.3g}, least {min(values):.3g}, most {max(values):.3g}")
    assert max(marks) <= MOST_MARKS, f"{max(marks)} marks"
    assert max(offsets) <= MIDDLE, f"the explained node is {max(offsets):.2f} off the middle"
    assert max(sizes) < MOST_BYTES, f"a page has {max(sizes)} bytes"


if __name__ == "__main__":
    main()
