"""How often two errors cover the true value where a few numbers have most of a mean.

    python benchmarks/coverage.py
    python benchmarks/coverage.py --trainings

Cases that are hard for an error bar: infidelity of one explanation from few draws, Delta over 60 nodes of a graph with
hubs, drawn from the 300 nodes whose mean is the true value, and lognormal numbers, of which few have most of a mean.
"Standard error" is the plain one, "widened" what rows and figures of merit have (graphfaith.metric.measured.widening).
With ``--trainings`` it is stability over trainings: that of sixty trainings of one network, of which some are drawn,
and as many nodes as there are. "As of independent numbers" takes each training's mean correlation with the others for
one; a row counts that each correlation is one of two trainings (graphfaith.metric.stability.spread_over_pairs).
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import barabasi_albert_graph

import graphfaith as gf
from graphfaith.metric.attribution import Attribution
from graphfaith.metric.measured import effective_count, mean_and_error
from graphfaith.metric.pooling import pool_widened
from graphfaith.metric.stability import rank, spread_over_pairs
from graphfaith.metric.unfaithfulness import sample_chunks
from graphfaith.sampling.neighborhood import as_neighborhood

NODES, CHOSEN, REPEATS = 300, 60, 400
TRAININGS, EXPLAINED = 60, 40


def make_graph() -> tuple[GraphSAGE, Data]:
    """Return a random network that takes sums, and a graph in which a few nodes have many neighbours."""
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  # PyG draws the graph from this one.
    data = Data(x=torch.randn(NODES, 4), edge_index=barabasi_albert_graph(NODES, 2))
    return GraphSAGE(4, 8, 2, 3, aggr="add").eval(), data


def cover(samples: list[np.ndarray], truth: float) -> str:
    """Return the shares of samples whose mean is within two errors of the truth, and how many numbers make a spread."""
    plain = [abs(one.mean() - truth) <= 2 * one.std(ddof=1) / math.sqrt(len(one)) for one in samples]
    found = [mean_and_error(one) for one in samples]
    widened = [abs(value - truth) <= 2 * error for value, error in found]
    effective = np.median([effective_count(one) for one in samples])
    return f"{np.mean(plain):.2f} | {np.mean(widened):.2f} | {effective:.0f}"


def correlate_trainings(data: Data, labels: torch.Tensor) -> np.ndarray:
    """Return the rank correlations of gradients between trainings, [trainings, trainings, nodes]."""
    models = []
    for seed in range(TRAININGS):
        torch.manual_seed(seed)
        model = GraphSAGE(4, 8, 2, 3, aggr="mean", dropout=0.2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(60):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data.x, data.edge_index), labels).backward()
            optimizer.step()
        models.append(model.eval())
    found = []
    for node in range(NODES - EXPLAINED, NODES):
        targets = [gf.Target(model, data.x, data.edge_index, node, int(labels[node])) for model in models]
        found.append(np.corrcoef(np.stack([rank(target.gradient()[1]) for target in targets])))
    return np.stack(found, axis=2)


def cover_trainings(correlations: np.ndarray, count: int) -> str:
    """Return how often two errors cover, if ``count`` trainings and as many nodes as there are have been drawn."""
    truth = (correlations.sum(axis=(0, 1)) - TRAININGS).mean() / TRAININGS / (TRAININGS - 1)
    covered = np.zeros(2)
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        chosen, nodes = rng.choice(TRAININGS, count, replace=False), rng.choice(EXPLAINED, EXPLAINED)
        means = (correlations[np.ix_(chosen, chosen, nodes)].sum(axis=1) - 1) / (count - 1)
        for place, table in enumerate((means, spread_over_pairs(means))):
            value, error = pool_widened(table)
            covered[place] += abs(value - truth) <= 2 * error
    return f"{covered[0] / REPEATS:.2f} | {covered[1] / REPEATS:.2f}"


def main() -> None:
    """Print the coverage of each case, as a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trainings", action="store_true", help="stability over trainings that are drawn")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.trainings:
        print("| stability over | as of independent numbers | as a row has it |\n|:--|--:|--:|")
        model, data = make_graph()
        correlations = correlate_trainings(data, model(data.x, data.edge_index).argmax(dim=1))
        for count in (3, 5, 10):
            print(f"| {count} of {TRAININGS} trainings | {cover_trainings(correlations, count)} |", flush=True)
        return
    print("| case | standard error | widened | effective count |\n|:--|--:|--:|--:|")
    model, data = make_graph()
    for near in ("U(A,0.2)", "U(A,0.5)", "B(A,0.5)"):
        target = gf.Target(model, data.x, data.edge_index, NODES - 1)
        scores = Attribution(target.computation_graph, target.gradient()[1])
        law = as_neighborhood(near)
        chunks = sample_chunks(target, law, 20_000, 7)
        errors = [scores.linear.change(chunk) - target.changes(chunk) for chunk in chunks]
        population = torch.cat(errors).square().numpy()
        for count in (60, 400):
            draws = [np.random.default_rng(seed).choice(population, count) for seed in range(REPEATS)]
            print(f"| infidelity in {near} from {count} draws | {cover(draws, population.mean())} |", flush=True)
    for near in ("U(A,0.2)", "B(A,0.5)"):
        rows = gf.judge(model, data, ["saliency"], range(NODES), ["delta"], neighborhoods=near, test_samples=50)
        population = rows.row("saliency", "delta").table[0]
        draws = [np.random.default_rng(seed).choice(population, CHOSEN) for seed in range(REPEATS)]
        print(f"| Delta in {near} over {CHOSEN} of {NODES} nodes | {cover(draws, population.mean())} |", flush=True)
    for sigma in (1.0, 1.5, 2.0):
        draws = list(np.random.default_rng(0).lognormal(0, sigma, (REPEATS, CHOSEN)))
        print(f"| {CHOSEN} lognormal numbers, sigma {sigma:g} | {cover(draws, math.exp(sigma**2 / 2))} |", flush=True)


if __name__ == "__main__":
    main()
