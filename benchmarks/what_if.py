"""Who foretells best what one link does: the scores, scores and pairs, or p, each against the model itself.

    python benchmarks/what_if.py [--nodes 41]

Of nodes of Cora, spread evenly over the graph and node 42 among them, the strongest link by the scores is taken away.
"no change" foretells 0. A direction is wrong if the sign is not that of the model's change.
"""

from __future__ import annotations

import argparse

import numpy as np

from graphfaith.data.models import load_trained
from graphfaith.facade import Subject
from graphfaith.view.content import page_data
from graphfaith.view.page import render_page


def main() -> None:
    """Print a row for each way to foretell, and how large the pages are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=41)
    parser.add_argument("--neighborhood", default="B(A,0.5)")
    options = parser.parse_args()
    trained = load_trained("cora")
    subject = Subject(trained.model, trained.data)
    spread = np.linspace(0, trained.data.num_nodes - 1, options.nodes - 1).astype(int).tolist()
    found: dict[str, list[tuple[float, float]]] = {"no change": [], "scores": [], "scores and pairs": [], "p": []}
    sizes = []
    for node in [42, *spread]:
        explanation = subject.explain(node, "anchored-kec", options.neighborhood)
        data = page_data(explanation)
        sizes.append(len(render_page(data).encode()))
        panel = data["panels"][0]
        best = int(np.argmax(np.abs(panel["edges"])))
        pair = tuple(data["ids"][end] for end in data["edges"][best])
        asked = explanation.what_if([pair], check=True)
        # The page's own numbers: of p, and of scores with pairs where there are some.
        says = {
            "no change": 0.0,
            "scores": explanation.what_if([pair], by="scores").change,
            "scores and pairs": panel["what_if"]["edges"][best],
            "p": panel["what_if"]["p"]["edges"][best][0],
        }
        for name, change in says.items():
            found[name].append((change, asked.actual))
    print("| foretold by | mean error | wrong direction |\n|---|---|---|")
    for name, rows in found.items():
        said, true = np.array(rows).T
        off = np.abs(said - true)
        wrong = "" if name == "no change" else f"{int((np.sign(said) != np.sign(true)).sum())} of {len(rows)}"
        print(f"| {name} | {off.mean():.3f} ± {off.std(ddof=1) / np.sqrt(len(off)):.3f} | {wrong} |")
    print(f"\nLargest page: {max(sizes) / 1000:.0f} kB.")


if __name__ == "__main__":
    main()
