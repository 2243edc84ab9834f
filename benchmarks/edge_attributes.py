"""Relative Delta of explanations where edge attributes move: GINE on molecules, whose bonds have kinds.

python benchmarks/edge_attributes.py [--step 16] [--trainings 3] [--json FILE] [--from FILE]

The folder that GRAPHFAITH_DATA names must have crippen/crippen.npz. Samples are of another seed than those of the fit.
Delta(p) / Delta(0) is pooled over molecules and trainings, and the error bar accounts for both. "random" has scores as
large as the gradient's, in random order of random sign; "zero" has none. Rows that --json has stored are shown by
--from.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphfaith._base.errors import GraphfaithError
from graphfaith._base.files import check_output, write_file
from graphfaith.data import crippen
from graphfaith.facade import Subject
from graphfaith.metric.pooling import pool_ratio
from graphfaith.metric.unfaithfulness import residuals_of
from graphfaith.model.task import Task
from graphfaith.sampling import parse_neighborhood
from graphfaith.surrogate.difference import LinearModel
from graphfaith_studies.arena.molecules import explained_variance, train_molecule_net

NEIGHBORHOODS = ("U(E,0.2r)", "B(E,0.5)", "U(E,0.2r)xU(A,0.5)", "B(E,0.5)xB(A,0.5)")
METHODS = ("anchored-kec", "kec", "linear", "saliency", "ig-zero", "random", "zero")
Row = dict[str, Any]


def shuffled(p: LinearModel, seed: int) -> LinearModel:
    """Return the gradient's scores in random order, each with a random sign."""
    generator = torch.Generator().manual_seed(seed)

    def shuffle(scores: Tensor) -> Tensor:
        flat = scores.flatten()
        sign = torch.randint(0, 2, flat.shape, generator=generator) * 2 - 1
        return (flat[torch.randperm(len(flat), generator=generator)] * sign).view_as(scores)

    assert p.phi_e is not None
    return LinearModel(p.graph, shuffle(p.phi_x), shuffle(p.phi_a), phi_e=shuffle(p.phi_e))


def measure(subject: Subject, molecule: int) -> list[Row]:
    """Return Delta(p) and Delta(0) of every method in every neighbourhood; refused ones have no row."""
    target, rows = subject.target(0), []
    saliency = LinearModel(target.computation_graph, *target.gradient(), phi_e=target.attribute_gradients())
    trivial = {"random": shuffled(saliency, molecule), "zero": LinearModel(target.computation_graph)}
    for text in NEIGHBORHOODS:
        near, fits = parse_neighborhood(text), {}
        for method in METHODS:
            try:
                fits[method] = trivial.get(method) or subject.fit(method, 0, near, samples=200, seed=0).p
            except GraphfaithError as error:
                print(f"{molecule} {text} {method}: {error}", file=sys.stderr)
        left, change = residuals_of(target, list(fits.values()), near, num_samples=200, seed=1)
        zero = float(change.square().mean())
        for method, residual in zip(fits, left, strict=True):
            # Five digits are kept, in memory too, so that a table is the same from the file.
            kept = {"delta": float(residual.square().mean()), "zero": zero}
            rows.append({"near": text, "method": method, **{key: float(f"{kept[key]:.5g}") for key in kept}})
    return rows


def run(step: int, trainings: int) -> list[Row]:
    """Return all rows."""
    molecules, rows = crippen(), []
    for seed in range(trainings):
        model = train_molecule_net(molecules.train, seed=seed)
        about = {"training": seed, "r2": round(explained_variance(model, molecules.test), 4)}
        for place, molecule in enumerate(molecules.test[::step]):
            subject = Subject(model, molecule, Task("regression", "raw", "graph"))
            rows += [{**about, "molecule": place * step, **row} for row in measure(subject, place * step)]
    return rows


def table(rows: list[Row], method: str, near: str, key: str) -> np.ndarray | None:
    """Return one field of the rows of a cell, [trainings, molecules]; None if the method was refused."""
    chosen = {(r["training"], r["molecule"]): r[key] for r in rows if (r["method"], r["near"]) == (method, near)}
    if not chosen:
        return None
    trainings, molecules = (sorted({row[part] for row in rows}) for part in ("training", "molecule"))
    return np.array([[chosen[one, other] for other in molecules] for one in trainings])


def cell(rows: list[Row], method: str, near: str) -> str:
    """Return Delta(p) / Delta(0) and its error bar."""
    above, below = table(rows, method, near, "delta"), table(rows, method, near, "zero")
    if above is None or below is None:
        return "refused"
    ratio, error = pool_ratio(above, below)
    return f"{ratio:.3g} ± {error or 0:.2g}"


def markdown(rows: list[Row]) -> str:
    """Return the table of docs/inputs.md."""
    r2 = sorted({row["r2"] for row in rows})
    count, trainings = (len({row[part] for row in rows}) for part in ("molecule", "training"))
    lines = [f"{count} molecules of the test set, {trainings} trainings, R^2 there {r2[0]:.3f} to {r2[-1]:.3f}:", ""]
    lines += [f"| p | {' | '.join(NEIGHBORHOODS)} |", "|" + "---|" * (len(NEIGHBORHOODS) + 1)]
    for method in METHODS:
        lines.append(f"| {method} | {' | '.join(cell(rows, method, near) for near in NEIGHBORHOODS)} |")
    return "\n".join(lines)


def main() -> None:
    """Run, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=16, help="every so many molecules of the test set")
    parser.add_argument("--trainings", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--from", dest="source", help="show rows that were stored by --json")
    asked = parser.parse_args()
    out = check_output(asked.json, (".json",)) if asked.json else None
    if asked.source:
        with open(asked.source, encoding="utf-8") as file:
            rows = json.load(file)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = run(asked.step, asked.trainings)
    if out is not None:
        write_file(out, json.dumps(rows, separators=(",", ":")).replace("},{", "},\n{").encode() + b"\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()
