"""Relative Delta of explanations where edge attributes move: GINE on molecules, whose bonds have kinds.

Run it as ``python benchmarks/edge_attributes.py``; the folder that GRAPHFAITH_DATA names must have crippen/crippen.npz.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from graphfaith._base.errors import GraphfaithError
from graphfaith.data import crippen
from graphfaith.facade import Subject
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model.task import Task
from graphfaith.sampling import parse_neighborhood
from graphfaith_studies.arena.molecules import explained_variance, train_molecule_net

NEIGHBORHOODS = ("U(E,0.2r)", "B(E,0.5)", "U(E,0.2r)xU(A,0.5)", "B(E,0.5)xB(A,0.5)")
METHODS = ("anchored-kec", "kec", "linear", "saliency", "ig-zero")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=16, help="every so many molecules of the test set")
    parser.add_argument("--trainings", type=int, default=3)
    asked = parser.parse_args()
    molecules = crippen()
    chosen = molecules.test[:: asked.step]
    found: dict[tuple[str, str], list[float]] = {}
    qualities = []
    for seed in range(asked.trainings):
        model = train_molecule_net(molecules.train, seed=seed)
        qualities.append(explained_variance(model, molecules.test))
        for molecule in chosen:
            subject = Subject(model, molecule, Task("regression", "raw", "graph"))
            target = subject.target(0)
            for text in NEIGHBORHOODS:
                near = parse_neighborhood(text)
                for method in METHODS:
                    try:
                        p = subject.fit(method, 0, near, samples=200, seed=0).p
                    except GraphfaithError:
                        continue
                    score = unfaithfulness_of(target, [p], near, num_samples=200, seed=1)[0]
                    found.setdefault((method, text), []).append(score.relative)
    print(f"R^2 on the test set: {', '.join(f'{value:.3f}' for value in qualities)}")
    print(f"{len(chosen)} molecules of the test set x {asked.trainings} trainings; mean and standard error\n")
    print("| p | " + " | ".join(NEIGHBORHOODS) + " |\n|---|" + "---|" * len(NEIGHBORHOODS))
    print("| zero (p = 0) | " + " | ".join("1" for _ in NEIGHBORHOODS) + " |")
    for method in METHODS:
        cells = []
        for text in NEIGHBORHOODS:
            values = np.array(found.get((method, text), []))
            error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            cells.append(f"{values.mean():.3g} ± {error:.2g}" if len(values) else "refused")
        print(f"| {method} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
