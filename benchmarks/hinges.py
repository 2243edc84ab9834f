"""What hinges are good for: relative Delta(p) of AnchoredKEC with and without them, and what they cost.

    python benchmarks/hinges.py [--dataset wisconsin] [--seeds 7,8] [--nodes 5]
    python benchmarks/hinges.py --arena --times 1 [--json hinges.json]

Networks are those of the arena. Without ``--arena`` they are trained with seeds that the arena does not use, and nodes
are validation nodes, which the arena does not explain: hinges were developed on the first of these. With ``--arena``
models, predictions, samples and scores are those of the arena's heterophilous contests where features move, and the
best mean Delta of all methods on all predictions is read from docs/results/arena.json. Times are of a fit, thread time,
the least of ``--times``, over that of KEC in the same neighbourhood.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from ingredients import table
from torch_geometric.utils import k_hop_subgraph

import graphfaith as gf
from graphfaith._base.progress import track
from graphfaith.data import HETEROPHILOUS_DATASETS, load_dataset
from graphfaith.metric import pool, unfaithfulness_of
from graphfaith.surrogate.terms import BLOCKS
from graphfaith_studies.arena.arena import NODES, TEST_SAMPLES
from graphfaith_studies.arena.contests import CONTESTS, MOST_NODES, ground_of, spread
from graphfaith_studies.arena.networks import FAMILIES, train_network

NEAR = ("U(X,0.2r)", "U(X,0.5r)xU(A,0.5)")
ROWS = {"without hinges": BLOCKS, "with hinges": (*BLOCKS, "hinges")}
ARENA = Path(__file__).parents[1] / "docs" / "results" / "arena.json"


def clock(method, target, times):
    """Return the p of a method, and the least thread time it takes."""
    least = float("inf")
    for _ in range(times):
        start = time.thread_time()
        found = method.fit(target)
        least = min(least, time.thread_time() - start)
    return found, least


def measure(model, data, nodes, times):
    """Return for each neighbourhood the rows' Delta, that of p = 0 and the rows' times over KEC's, at each node."""
    found = {near: [] for near in NEAR}
    for node in nodes:
        target = gf.Target(model, data.x, data.edge_index, node)
        for near in NEAR:
            methods = [*(gf.AnchoredKEC(near, blocks=blocks) for blocks in ROWS.values()), gf.KEC(near)]
            (*fits, (_, own)) = [clock(method, target, times) for method in methods]
            scores = unfaithfulness_of(target, [p for p, _ in fits], near, num_samples=TEST_SAMPLES)
            ratios = [taken / own for _, taken in fits]
            found[near].append([*(score.value for score in scores), scores[0].delta_zero, *ratios])
    return found


def nodes_of(data, count):
    """Return validation nodes with few others within three hops."""
    near = [
        node
        for node in data.val_mask.nonzero().view(-1).tolist()
        if len(k_hop_subgraph(node, 3, data.edge_index, num_nodes=data.num_nodes)[0]) <= MOST_NODES
    ]
    return spread(near, count)


def winners():
    """Return the least mean Delta of all other methods on all predictions, by contest and neighbourhood."""
    found = {}
    for row in json.loads(ARENA.read_text()):
        if row["measure"] == "delta":
            others = {
                name: value[0]
                for name, value in row["values"].items()
                if name != "anchored-kec" and name not in row["slow"] and value[0] is not None
            }
            best = min(others, key=others.__getitem__)
            key = row["dataset"], row["model"], row["neighborhood"]
            found[key] = best, others[best], row["values"]["anchored-kec"][0]
    return found


def main(arguments: list[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arena", action="store_true", help="the arena's own predictions")
    parser.add_argument("--dataset", default="wisconsin", help="without --arena: data set")
    parser.add_argument("--seeds", default="7,8", help="without --arena: seeds of trainings")
    parser.add_argument("--nodes", type=int, default=5, help="without --arena: how many nodes")
    parser.add_argument("--times", type=int, default=3, help="how often a fit is timed")
    parser.add_argument("--json", help="also write the rows here")
    parser.add_argument("--quick", action="store_true", help="one node of one training, to see that it runs")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows, known = [], winners() if options.arena else {}
    plan = [(options.dataset, family) for family in FAMILIES[: 1 if options.quick else None]]
    if options.arena:
        plan = [(c.dataset, c.family) for c in CONTESTS if c.dataset in HETEROPHILOUS_DATASETS]
    for dataset, family in track(plan, "contests", "contests"):
        data, tables = load_dataset(dataset), []
        if options.arena:
            contest = next(c for c in CONTESTS if (c.dataset, c.family) == (dataset, family))
            ground = ground_of(contest, (0, 1, 2), NODES)
            pairs = [(model, ground.rows) for model in ground.models]
        else:
            seeds = [int(seed) for seed in options.seeds.split(",")][: 1 if options.quick else None]
            nodes = nodes_of(data, 1 if options.quick else options.nodes)
            pairs = [(train_network(family, data, seed)[0], nodes) for seed in seeds]
        for model, nodes in pairs:
            tables.append(measure(model, data, nodes, 1 if options.quick else options.times))
        for near in NEAR:
            numbers = np.array([found[near] for found in tables])  # [trainings, nodes, 5]
            rows.append(describe(dataset, family, near, numbers, known.get((dataset, family, near))))
            print(rows[-1], file=sys.stderr, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    print(table(list(rows[0]), [[str(cell) for cell in row.values()] for row in rows]))
    if options.arena:
        won = sum(row["with hinges"] <= row["best other"] for row in rows)
        print(
            f"\nwith hinges lowest in {won} of {len(rows)}, without in "
            f"{sum(row['without hinges'] <= row['best other'] for row in rows)}"
        )


def describe(dataset, family, near, numbers, best):
    """Return a row: means of Delta, their share of F's change, and the median time over KEC's."""
    without, hinged, zero = (float(numbers[..., i].mean()) for i in range(3))
    less = pool(numbers[..., 0] - numbers[..., 1])
    row = {
        "contest": f"{dataset} {family}",
        "neighbourhood": near,
        "without hinges": float(f"{without:.3g}"),
        "with hinges": float(f"{hinged:.3g}"),
        "less by": f"{less[0]:.2g}" + ("" if less[1] is None else f" ± {less[1]:.1g}"),
        "share without": float(f"{without / zero:.3g}"),
        "share with": float(f"{hinged / zero:.3g}"),
        "time / KEC without": float(f"{np.median(numbers[..., 3]):.2f}"),
        "with": float(f"{np.median(numbers[..., 4]):.2f}"),
    }
    if best is not None:
        row |= {"best other": best[1], "which": best[0], "arena's own": best[2]}
    return row


if __name__ == "__main__":
    main(sys.argv[1:])
