"""What explaining nodes together saves: processor time of a node together, over that of a node by itself.

python benchmarks/together.py [--nodes 120] [--repeats 3]

Both ways take turns in one process, on one thread, and the least of the repeats counts. Models are those of Cora: the
trained GCN, and untrained GAT, SAGE and GIN with 16 hidden features.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.data.models import load_trained
from graphfaith.explainers import many

CLASSIFIER = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


def measure(explainer: Explainer, x: torch.Tensor, edges: torch.Tensor, nodes: list[int], repeats: int) -> list[float]:
    """Return milliseconds of the processor a node, together and one by one, and how far their scores are apart."""
    found, least = [None, None], [np.inf, np.inf]
    for turn in range(2 * (repeats + 1)):
        way = turn % 2
        many.AT_LEAST = 10**9 if way else 1
        begin = time.process_time()
        found[way] = gf.explain_all(explainer, x, edges, nodes, progress=False)
        if turn > 1:  # the first of each warms up
            least[way] = min(least[way], 1e3 * (time.process_time() - begin) / len(nodes))
    apart = np.abs(found[0].node_score - found[1].node_score).max() / np.abs(found[1].node_score).max()
    return [*least, float(apart)]


def main() -> None:
    """Print a row for each model, method and neighbourhood."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", default="", help="text that a row must have in its name")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    trained = load_trained("cora", seed=0)
    x, edges = trained.data.x, trained.data.edge_index
    torch.manual_seed(0)
    width, classes = x.size(1), int(trained.data.y.max()) + 1
    models = {"GCN": trained.model} | {
        kind.__name__: kind(width, 16, 2, out_channels=classes).eval() for kind in (pyg.GAT, pyg.GraphSAGE, pyg.GIN)
    }
    nodes = np.linspace(0, len(x) - 1, asked.nodes).astype(int).tolist()
    methods = {
        "KEC": gf.KEC,
        "AnchoredKEC": gf.AnchoredKEC,
        "AnchoredKEC slope": lambda near: gf.AnchoredKEC(near, reading="slope"),
    }
    print("| | together | one by one | ratio | scores differ by |\n|---|---|---|---|---|")
    for model, net in models.items():
        for method, make in methods.items():
            for near in ("U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "B(X,0.5)", "U(X,0.5r)xU(A,0.5)"):
                name = f"{model}, {method}, {near}"
                if asked.only not in name:
                    continue
                explainer = Explainer(net, make(near), "model", CLASSIFIER, "attributes", "object")
                one, other, apart = measure(explainer, x, edges, nodes, asked.repeats)
                print(f"| {name} | {one:.1f} ms | {other:.1f} ms | {one / other:.2f} | {apart:.0e} |", flush=True)


if __name__ == "__main__":
    main()
