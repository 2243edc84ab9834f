"""What AnchoredKEC's terms of attention are good for: Delta(p) with and without them, GAT on Cora where features move.

    python benchmarks/attention.py [--step 40] [--quick]

Three trainings, the nodes of ``untuned.py``, 200 samples to fit and 500 others to score. "p = 0": nothing changes.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch
from families import families, train
from ingredients import table

import graphfaith as gf
from graphfaith._base.progress import track
from graphfaith.data import load_dataset
from graphfaith.metric import pool, unfaithfulness_of
from graphfaith.surrogate.terms import BLOCKS

NEAR = ("U(X,0.2r)", "U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)")
BLOCKS_OF = {
    "without attention": tuple(block for block in BLOCKS if block != "attention"),
    "with attention": BLOCKS,
}


def measure(nodes, trainings, epochs):
    """Return Delta(p) of each row and neighbourhood, as lists by training and node, and that of p = 0."""
    data = load_dataset("cora")
    found = {(row, near): [[] for _ in range(trainings)] for row in ("p = 0", *BLOCKS_OF) for near in NEAR}
    for seed in range(trainings):
        torch.manual_seed(seed)
        model = families(data)["GAT"]()
        train(model, data, {}, epochs)
        for node in track(list(nodes), f"training {seed}", "nodes"):
            target = gf.Target(model, data.x, data.edge_index, node)
            for near in NEAR:
                models = [gf.AnchoredKEC(near, blocks=blocks).fit(target) for blocks in BLOCKS_OF.values()]
                scores = unfaithfulness_of(target, models, near)
                for row, score in zip(BLOCKS_OF, scores, strict=True):
                    found[row, near][seed].append(score.value)
                found["p = 0", near][seed].append(score.delta_zero)
    return found


def main(arguments: list[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=40, help="every so many of the first 1000 nodes")
    parser.add_argument("--quick", action="store_true", help="three nodes of one training, to see that it runs")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    nodes, trainings, epochs = (range(0, 120, 40), 1, 10) if options.quick else (range(0, 1000, options.step), 3, 100)
    found, rows = measure(nodes, trainings, epochs), []
    for row in ("p = 0", *BLOCKS_OF):
        cells = []
        for near in NEAR:
            value, error = pool(np.array(found[row, near]))
            share = value / np.mean(found["p = 0", near])
            cells.append(f"{value:.3g}" + ("" if error is None else f" ± {error:.1g}") + f" ({share:.2g})")
        rows.append([row, *cells])
    print(table(["GAT on Cora, Delta(p)", *NEAR], rows))


if __name__ == "__main__":
    main(sys.argv[1:])
