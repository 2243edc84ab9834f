"""How often few edges flip the answer: AnchoredKEC's counterfactuals, greedy searches, and every set of a small graph.

It prints markdown, as in docs/counterfactuals.md:

    python benchmarks/counterfactuals.py --ablations

All searches may remove the same undirected edges, and the model judges each set in the same way. An evaluation is one
graph that the model is asked about, or one gradient. Those of the fit of p are not counted, because p is there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import graphfaith as gf
from graphfaith.data.models import load_trained
from graphfaith.explanation.counterfactual import _Search, counterfactual
from graphfaith.explanation.goal import Goal
from graphfaith.explanation.masks import target_of
from graphfaith.explanation.origin import explainer_of
from graphfaith.explanation.removals import Removals, Units

MOST = 3
SETS = 20_000  # Every set of three of up to 49 edges is tried, and every pair of up to 199.
# Nodes that neither p nor the search was developed on: of BA-Shapes, every fifth and every eleventh were looked at.
NODES = {
    "cora": list(range(1041, 2700, 61)),
    "ba-shapes": [node for node in range(404, 700, 8) if node % 5 and (node - 401) % 11],
}


@dataclass
class Found:
    """How many edges a search has removed, 0 if it did not flip the answer, and what that took."""

    size: int
    evaluations: int
    seconds: float = 0.0


class Subject:
    """One explained node, the edges that can be removed, and the model's answers without them."""

    def __init__(self, model: torch.nn.Module, data: object, node: int, near: str) -> None:
        self.explanation = gf.explain(model, data, node, neighborhood=near)
        self.explainer = explainer_of(self.explanation, "the benchmark")
        self.target = target_of(self.explainer, self.explanation)
        self.goal = Goal(self.target, None)
        self.removals = Removals(self.explanation, self.target.computation_graph, "edges", by_degree=False)

    def margins(self, sets: Sequence[Units]) -> Tensor:
        """Return how far each set is from a flip; below 0 the answer is another one."""
        parts = [
            self.goal.read(self.target.outputs(self.removals.without(sets[i : i + 256]))[1:])
            for i in range(0, len(sets), 256)
        ]
        numbers = torch.cat(parts)
        margins = self.goal.margins(numbers).amin(dim=1)
        assert torch.equal(margins < 0, self.goal.reached(numbers)) or bool((margins == 0).any())
        return margins

    def slopes(self, gone: Units) -> Tensor:
        """Return the derivative of the margin to the nearest other class, times weight, of each edge."""
        part = self.target.computation_graph
        weight = part.weight.double()
        if gone:
            weight = weight - self.removals.without([gone]).edges[0]
        weight = weight.to(part.weight.dtype).requires_grad_()
        rows = self.target.call(part.x, weight)[self.target.call.rows]
        margin = self.goal.margins(self.goal.read(rows.unsqueeze(0))).amin()
        slope = torch.autograd.grad(margin, weight)[0].double() * part.weight
        unit = self.removals.moves.edge_unit
        total = torch.zeros(len(self.removals), dtype=torch.float64)
        return total.index_add_(0, unit[unit >= 0], slope[unit >= 0])


def ours(subject: Subject) -> Found:
    """The search of the library."""
    found = counterfactual(subject.explanation, MOST)
    return Found(len(found.edges), found.evaluations)


def without_p(subject: Subject) -> Found:
    """The same search with nothing foretold: sums of what the model has said so far."""
    removals = Removals(subject.explanation, subject.target.computation_graph, "edges", by_degree=True)
    found = _Search(subject.target, removals, subject.goal, [], 1000).run(MOST)
    return Found(len(found.edges), found.evaluations)


def with_runner_up(subject: Subject) -> Found:
    """The same search with another p, fitted to the class that comes second."""
    removals = Removals(subject.explanation, subject.target.computation_graph, "edges", by_degree=True)
    order = subject.goal.own.argsort(descending=True).tolist()
    other = next(label for label in order if label != subject.goal.before)
    target, own = subject.target, subject.target.labels
    target.labels = torch.tensor([other])
    second = subject.explainer.algorithm.fit(target)
    target.labels = own
    models = [(int(own), 1.0, subject.explanation.difference_model), (other, 1.0, second)]
    found = _Search(target, removals, subject.goal, models, 1000).run(MOST)
    return Found(len(found.edges), found.evaluations)


def greedy(order: Callable[[Subject, Units], tuple[Tensor, int]], again: bool) -> Callable[[Subject], Found]:
    """Return a search that removes one edge after the other, by an order that is asked for once or again each time."""

    def search(subject: Subject) -> Found:
        gone: Units = ()
        evaluations, scores = 0, torch.empty(0)
        for size in range(1, min(MOST, len(subject.removals)) + 1):
            if again or size == 1:
                scores, cost = order(subject, gone)
                evaluations += cost
            scores[list(gone)] = -torch.inf
            gone = tuple(sorted((*gone, int(scores.argmax()))))
            evaluations += 1
            if float(subject.margins([gone])[0]) < 0:
                return Found(size, evaluations)
        return Found(0, evaluations)

    return search


def occlude(subject: Subject, gone: Units) -> tuple[Tensor, int]:
    """Order edges by the margin without each of them."""
    units = [unit for unit in range(len(subject.removals)) if unit not in gone]
    scores = torch.full((len(subject.removals),), -torch.inf, dtype=torch.float64)
    scores[units] = -subject.margins([tuple(sorted((*gone, unit))) for unit in units])
    return scores, len(units)


def at_random(subject: Subject, gone: Units) -> tuple[Tensor, int]:
    """Order edges by chance."""
    del gone
    draws = np.random.default_rng(int(subject.target.readout.rows[0])).random(len(subject.removals))
    return torch.from_numpy(draws), 0


def exhaustive(subject: Subject) -> Found | None:
    """Every set of one edge, then of two, then of three; None if these are too many before an answer flips.

    Of edges that only add to the degree of one node, which are alike for a GCN, the first ones are enough.
    """
    before = Removals(subject.explanation, subject.target.computation_graph, "edges", by_degree=True).before
    sets: list[Units] = [()]
    tried = 0
    for size in range(1, MOST + 1):
        larger: list[Units] = []
        for units in sets:
            start = units[-1] + 1 if units else 0
            larger += [(*units, u) for u in range(start, len(before)) if before[u] < 0 or before[u] in units]
            if tried + len(larger) > SETS:
                return None
        if larger and bool((subject.margins(larger) < 0).any()):
            return Found(size, tried + len(larger))
        sets, tried = larger, tried + len(larger)
    return Found(0, tried)


SEARCHES: dict[str, Callable[[Subject], Found]] = {
    "AnchoredKEC": ours,
    "occlusion, again each step": greedy(occlude, True),
    "occlusion, once": greedy(occlude, False),
    "Saliency of the margin, again each step": greedy(lambda s, gone: (s.slopes(gone), 1), True),
    "Saliency of the margin, once": greedy(lambda s, gone: (s.slopes(gone), 1), False),
    "its absolute value, once": greedy(lambda s, gone: (s.slopes(gone).abs(), 1), False),
    "at random": greedy(at_random, False),
}
ABLATIONS = {"without p": without_p, "with a p of the second class": with_runner_up}


def main(arguments: list[str]) -> None:
    """Search at every node, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", action="append", choices=list(NODES), help="one of them (may be repeated)")
    parser.add_argument("--trainings", type=int, default=3, help="how many trainings of each model")
    parser.add_argument("--step", type=int, default=1, help="only every so many of the nodes")
    parser.add_argument("--neighborhood", default="U(A,0.5)", help="where p is fitted")
    parser.add_argument("--ablations", action="store_true", help="also without p, and with a p of the second class")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    searches = {**SEARCHES, **(ABLATIONS if options.ablations else {})}
    for name in options.dataset or NODES:
        found: dict[str, list[Found]] = {label: [] for label in searches}
        every: list[Found | None] = []
        trainings = []
        for seed in range(options.trainings):
            trained = load_trained(name, seed=seed)
            for node in NODES[name][:: options.step]:
                subject = Subject(trained.model, trained.data, node, options.neighborhood)
                for label, search in searches.items():
                    started = time.perf_counter()
                    one = search(subject)
                    one.seconds = time.perf_counter() - started
                    found[label].append(one)
                every.append(exhaustive(subject))
                trainings.append(seed)
        print(f"\n{name}, {len(every)} predictions, p fitted in {options.neighborhood}\n")
        print_table(found, every, trainings)


def print_table(found: dict[str, list[Found]], every: Sequence[Found | None], trainings: Sequence[int]) -> None:
    """Print how many answers each search flips, and how often with as few edges as possible."""
    known = [i for i, one in enumerate(every) if one is not None and one.size]
    small = sum(one is not None for one in every)
    print(
        f"| search | flipped by at most {MOST} edges | by 1 | evaluations, mean (most) | ms | "
        f"smallest set found, of {len(known)} that exist |"
    )
    print("|---|---|---|---|---|---|")
    for label, row in found.items():
        hits = np.array([one.size > 0 for one in row])
        by_training = [hits[np.array(trainings) == seed].mean() for seed in sorted(set(trainings))]
        spread = f" ± {100 * np.std(by_training, ddof=1) / len(by_training) ** 0.5:.1f}" if len(by_training) > 1 else ""
        asked = [one.evaluations for one in row]
        right = sum(row[i].size == _size(every[i]) for i in known)
        print(
            f"| {label} | {100 * hits.mean():.1f}{spread} % | {100 * mean(one.size == 1 for one in row):.1f} % "
            f"| {np.mean(asked):.0f} ({max(asked)}) | {1000 * np.mean([one.seconds for one in row]):.0f} "
            f"| {right} of {len(known)} |"
        )
    asked = [one.evaluations for one in every if one is not None]
    print(
        f"\nTrying every set settles {small} of {len(every)} predictions: {len(known)} can be flipped by at most "
        f"{MOST} edges. It took {np.mean(asked) if asked else 0:.0f} evaluations, at most {max(asked, default=0)}."
    )


def mean(values: Iterable[bool]) -> float:
    """Return the share of values that are true."""
    return float(np.mean(list(values)))


def _size(one: Found | None) -> int:
    return 0 if one is None else one.size


if __name__ == "__main__":
    main(sys.argv[1:])
