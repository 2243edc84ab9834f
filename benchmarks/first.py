"""What the first explanation of a model costs, and each later one, in milliseconds of the processor.

Time of the processor does not count what other programs take, so builds can be compared on a busy machine.

python benchmarks/first.py [--quick]
"""

import argparse
import statistics
import time

import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT, GCN

import graphfaith as gf
from graphfaith.data import load_dataset

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
ALGORITHMS = {"KEC": gf.KEC, "AnchoredKEC": gf.AnchoredKEC}
CASES = [
    ("KEC", "U(A,0.5)"),
    ("KEC", "B(A,0.5)"),
    ("KEC", "U(X,0.2r)"),
    ("AnchoredKEC", "U(A,0.5)"),
    ("AnchoredKEC", "B(A,0.5)"),
]


def measure(kind, algorithm, near, data, nodes):
    """Seconds of a model's very first explanation, and of every node, the lesser of two times."""
    torch.manual_seed(0)
    model = kind(data.num_features, 16, 2, out_channels=7).eval()  # a new one, of which nothing is known
    rounds = []
    for _ in range(2):
        explainer = Explainer(model, ALGORITHMS[algorithm](near), "model", CONFIG, "attributes", "object")
        found = gf.explain_nodes(explainer, data.x, data.edge_index, nodes, progress=False, together=False)
        rounds.append([])
        for _ in nodes:
            started = time.thread_time()
            next(found)
            rounds[-1].append(time.thread_time() - started)
    return rounds[0][0], [min(times) for times in zip(*rounds, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three nodes, to see that it runs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data, nodes = load_dataset("cora"), range(0, 60 if args.quick else 1000, 20)
    print("| model, method, neighbourhood | first | later, median | later, mean |\n|---|---|---|---|")
    for kind in (GCN, GAT):
        for algorithm, near in CASES:
            first, later = measure(kind, algorithm, near, data, nodes)
            cells = [f"{1000 * seconds:.1f}" for seconds in (first, statistics.median(later), statistics.mean(later))]
            print(" | ".join([f"| {kind.__name__}, {algorithm}, {near}", *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
