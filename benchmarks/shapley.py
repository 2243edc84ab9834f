"""Shapley values of edges at equal numbers of evaluations of F: ours, shapiq's and Captum's, and trivial baselines.

    python benchmarks/shapley.py                       # Cora, Tree-Cycles and BA-Shapes, three trainings
    python benchmarks/shapley.py --dataset cora --step 240 --model-seed 0

The truth is the list of all coalitions where there are at most 16 undirected edges in reach, and else a run of ours
with another seed and ``--truth`` evaluations, whose own error is in the table. Errors are sum_i (estimate - truth)^2
divided by sum_i truth^2. Nodes with so few edges that the evaluations suffice for all coalitions are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum.attr import KernelShap, ShapleyValueSampling
from shapiq import approximator as shapiq

import graphfaith as gf
from graphfaith._base.progress import track
from graphfaith.data.models import load_trained
from graphfaith.explainers.shapley import Game
from graphfaith.metric.pooling import pool_clustered
from graphfaith.model.target import Target
from graphfaith.sampling.coalitions import list_coalitions
from graphfaith.surrogate.shapley import values_of_table
from graphfaith.view.report import write_json

# Which of these nodes are taken is decided by --step.
NODES = {"cora": range(1013, 2700), "tree-cycles": range(511, 871), "ba-shapes": range(301, 700)}
STEPS = {"cora": 150, "tree-cycles": 60, "ba-shapes": 100}
LISTED = 16
Values = np.ndarray


class Counted:
    """F on coalitions, which counts its evaluations and refuses more than ``most``."""

    def __init__(self, game: Game, most: int | None) -> None:
        self.game, self.most, self.asked = game, most, 0

    def __call__(self, present: Any) -> Values:
        present = np.atleast_2d(np.asarray(present)).astype(bool)
        self.asked += len(present)
        if self.most is not None and self.asked > self.most:
            raise OverBudget(f"{self.asked} evaluations")
        return self.game.values(present)


class OverBudget(Exception):
    """A peer asked for more evaluations than it was given."""


def run_shapiq(kind: type, budget: int, counted: Counted, seed: int, **options: Any) -> Values:
    count = counted.game.count
    if kind in (shapiq.PermutationSamplingSV, shapiq.SVARM) and count > budget:
        raise OverBudget("these begin with an evaluation or two for each player")
    nothing = float(counted(np.zeros(count))[0])
    found = kind(n=count, random_state=seed, **options).approximate(budget - 1, lambda z: counted(z) - nothing)
    values = np.zeros(count)
    for players, place in found.interaction_lookup.items():
        if len(players) == 1:
            values[players[0]] = found.values[place]
    return values


def run_captum(kind: type, budget: int, counted: Counted, seed: int) -> Values:
    count = counted.game.count
    torch.manual_seed(seed)
    method = kind(lambda z: torch.from_numpy(counted(z.numpy() > 0.5)))
    # An order of the players takes an evaluation a player; the two ends are evaluated as well.
    samples = (budget - 2) // count if kind is ShapleyValueSampling else budget - 2
    if samples < 1:
        raise OverBudget("not one order of the players")
    ones = torch.ones(1, count)
    found = method.attribute(ones, baselines=torch.zeros(1, count), n_samples=samples, perturbations_per_eval=64)
    return found[0].double().numpy()


def run_saliency(counted: Counted, _: int) -> Values:
    game = counted.game
    slope = game.target.gradient()[1].double()[game.place] * game.graph.weight.double()[game.place]
    return np.bincount(game.unit, slope.numpy(), game.count)


def run_occlusion(counted: Counted, _: int) -> Values:
    return counted.game.full - counted(~np.eye(counted.game.count, dtype=bool))


def methods(budget: int) -> dict[str, tuple[Callable[[Counted, int], Values], int | None]]:
    """Return every peer with the evaluations it may use; None for the baselines, which use what they need."""
    peers: dict[str, Callable[[Counted, int], Values]] = {
        "shapiq KernelSHAP": lambda game, seed: run_shapiq(shapiq.KernelSHAP, budget, game, seed),
        "shapiq KernelSHAP, paired": lambda game, seed: run_shapiq(
            shapiq.KernelSHAP, budget, game, seed, pairing_trick=True
        ),
        "shapiq unbiased KernelSHAP": lambda game, seed: run_shapiq(shapiq.UnbiasedKernelSHAP, budget, game, seed),
        "shapiq permutations": lambda game, seed: run_shapiq(shapiq.PermutationSamplingSV, budget, game, seed),
        "shapiq SVARM": lambda game, seed: run_shapiq(shapiq.SVARM, budget, game, seed),
        "Captum KernelShap": partial(run_captum, KernelShap, budget),
        "Captum ShapleyValueSampling": partial(run_captum, ShapleyValueSampling, budget),
    }
    trivial: dict[str, Callable[[Counted, int], Values]] = {
        "zero": lambda game, _: np.zeros(game.game.count),
        "equal shares": lambda game, _: np.full(game.game.count, (game.game.full - game.game.empty) / game.game.count),
        "saliency": run_saliency,
        "occlusion": run_occlusion,
    }
    return {name: (run, budget + 2) for name, run in peers.items()} | {n: (run, None) for n, run in trivial.items()}


def compare_at(target: Target, options: argparse.Namespace) -> Iterator[tuple[str, float, int]]:
    """Yield the method, its error and its evaluations of F, for every method at one node."""
    game = Game(target, gf.Shapley())
    if not options.budget < 1 << min(game.count, 62) or game.count > options.most_players:
        return
    if game.count <= LISTED:
        present = list_coalitions(game.count)
        truth, doubt = values_of_table(present, game.values(present)), 0.0
    else:
        long = gf.Shapley(num_samples=options.truth, seed=1000).fit(target)
        truth, doubt = long.values, float(np.square(long.stderr).sum())
    ours = [gf.Shapley(num_samples=options.budget, seed=seed).fit(target) for seed in range(options.runs)]
    size = float(truth @ truth)
    yield "(the truth itself)", doubt / size, 0
    yield "(players)", game.count, 0
    for p in ours:
        error = p.values - truth
        yield "Shapley", float(error @ error) / size, p.evaluations
        yield "(Shapley's own error bars)", float(np.square(p.stderr).sum()) / size, 0
    for name, (run, most) in methods(options.budget).items():
        for seed in range(options.runs if most else 1):
            counted = Counted(game, most)
            try:
                error = run(counted, seed) - truth
            except OverBudget:
                break
            if not np.isfinite(error).all():  # some of shapiq's overflow from about 1,030 players on
                break
            yield name, float(error @ error) / size, counted.asked


def show(name: str, rows: list[dict[str, list[tuple[float, int]]]]) -> str:
    """Return the table of a data set: means over nodes with their standard errors, and medians."""
    count = [row["(players)"][0][0] for row in rows]
    lines = [
        f"{name}: {len(rows)} nodes, {int(min(count))} to {int(max(count))} undirected edges in reach "
        f"(median {np.median(count):.0f})\n",
        "| | evaluations of F | squared error / sum of squares | median | Shapley is closer at |",
        "|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(key for row in rows for key in row):
        if method in ("(players)", "(where)"):
            continue
        had = [row for row in rows if method in row]
        errors = np.array([np.mean([error for error, _ in row[method]]) for row in had])
        ours = np.array([np.mean([error for error, _ in row["Shapley"]]) for row in had])
        asked = np.mean([number for row in had for _, number in row[method]])
        average, spread = pool_clustered(errors, [row["(where)"][0] for row in had])
        closer = "" if method == "Shapley" or method.startswith("(") else f"{100 * (ours < errors).mean():.0f} %"
        where = "" if len(had) == len(rows) else f" ({len(had)} nodes)"
        mean = f"{average:.2g}" + (f" ± {spread:.1g}" if spread is not None else "")
        lines.append(f"| {method}{where} | {asked:.0f} | {mean} | {np.median(errors):.2g} | {closer} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", action="append", choices=list(NODES), help="one data set (may be repeated)")
    parser.add_argument("--model-seed", action="append", type=int, help="one training (may be repeated)")
    parser.add_argument("--step", type=int, help="every so many nodes of the data set")
    parser.add_argument("--budget", type=int, default=400, help="evaluations of F")
    parser.add_argument("--truth", type=int, default=8000, help="evaluations of F for the truth of many edges")
    parser.add_argument("--runs", type=int, default=2, help="seeds of each method at each node")
    parser.add_argument("--most-players", type=int, default=10**6, help="leave nodes with more edges in reach out")
    parser.add_argument("--json", type=Path, help="where to write the rows of the last data set")
    parser.add_argument("--show", type=Path, action="append", help="make a table of such files (may be repeated)")
    options = parser.parse_args(arguments)
    if options.show:
        print(show(str(options.show[0].stem), [row for path in options.show for row in json.loads(path.read_text())]))
        return
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # of the peers, about too small budgets
    for name in options.dataset or NODES:
        rows = []
        for model_seed in options.model_seed or (0, 1, 2):
            trained = load_trained(name, seed=model_seed)
            # Every training has nodes of its own.
            step = options.step or STEPS[name]
            nodes = NODES[name][model_seed * (step // 3) :: step]
            for node in track(list(nodes), f"{name}, training {model_seed}", "nodes", show=True):
                target = Target(trained.model, trained.data.x, trained.data.edge_index, node)
                row: dict[str, list[tuple[float, int]]] = {}
                here = model_seed, node
                for method, error, asked in compare_at(target, options):
                    row.setdefault(method, []).append((error, asked))
                if row:
                    rows.append({**row, "(where)": [here]})
                if options.json is not None:  # what is done is kept if the next one is interrupted
                    write_json(options.json, rows)
        print(show(name, rows), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
