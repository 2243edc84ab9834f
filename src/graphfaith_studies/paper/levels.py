"""How the absolute level of Delta(p) depends on two choices: row-normalised or raw features, and logit or probability.

The tables use row-normalised features, and F is the logit of the predicted class. Here the same methods are also scored
with raw features, on a model trained with them, and with F as the probability of the class.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from graphfaith.model.task import Task

from .experiment import Experiment, Row, Size, Unit
from .faithfulness import score_methods, to_rows, to_scored
from .markdown import format_number, format_published, format_table, format_with_error
from .published import ACCURACY, DATASET_NAMES, NAMES, unfaithfulness
from .setting import Setting, setting
from .tables import FIT_SAMPLES, MIXED, SEED

NODES = range(0, 1000, 25)
NEARS = ("U(X,0.2r)", "U(A,0.5)", "B(A,0.5)", *MIXED)
METHODS = ("gnnexplainer-soft", "saliency", "linear", "kec", "anchored-kec")
TEST_SAMPLES = 500
CHOICES = {
    "normalised, logit": (True, "raw"),
    "normalised, probability": (True, "probs"),
    "raw, logit": (False, "raw"),
    "raw, probability": (False, "probs"),
}


class Levels(Experiment):
    """The appendix on the choice of features and outputs."""

    name = "levels"
    title = "Appendix: raw or row-normalised features, logit or probability"

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each node and pair of choices."""
        return [
            Unit(dataset, 0, node, choice, cost)
            for dataset, cost in (("cora", 2.0), ("citeseer", 3.0))
            for choice in CHOICES
            for node in size.nodes(NODES)
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Score every method in every neighbourhood and both protocols."""
        assert unit.node is not None
        here = _make_setting(unit.dataset, unit.model_seed, unit.part)
        fit_samples, test_samples = size.samples(FIT_SAMPLES), size.samples(TEST_SAMPLES)
        return score_methods(here, unit.node, NEARS, METHODS, fit_samples, test_samples, SEED)

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return the same rows as the tables, with the choices as another column."""
        rows = []
        for choice in CHOICES:
            scores = [
                score for unit, result in results.items() if unit.part == choice for score in to_scored(unit, result)
            ]
            for row in to_rows(scores, size.samples(FIT_SAMPLES), size.samples(TEST_SAMPLES), SEED):
                paper = unfaithfulness(row["dataset"], row["neighborhood"], row["method"])
                rows.append({"choice": choice, **row, "paper": paper})
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table for each data set and neighbourhood, whose columns are the choices and the paper's value."""
        parts = ["A cell is Delta(p) held out, with its error over nodes, and in brackets relative Delta."]
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            held_out = [row for row in rows if row["dataset"] == dataset and row["protocol"] == "held-out"]
            accuracy = {row["choice"]: 100 * row["test_accuracy"][0] for row in held_out}
            parts.append(
                f"**{DATASET_NAMES[dataset]}**: {len(held_out[0]['nodes'])} nodes, one training for each kind of "
                f"features (test accuracy {accuracy['normalised, logit']:.1f} % with normalised ones, "
                f"{accuracy['raw, logit']:.1f} % with raw ones; the paper's {100 * ACCURACY[dataset]:.1f} %)."
            )
            parts += [_format_column([row for row in held_out if row["neighborhood"] == near]) for near in NEARS]
            parts.append(_describe_nearest(held_out))
        return "\n\n".join(parts)


def _format_column(rows: Sequence[Row]) -> str:
    lines = []
    for method in sorted(METHODS, key=list(NAMES).index):
        cells = {row["choice"]: row for row in rows if row["method"] == method}
        texts = [_format_cell(cells[choice]) for choice in CHOICES]
        lines.append([NAMES[method], *texts, format_published(next(iter(cells.values()))["paper"])])
    return format_table([f"{DATASET_NAMES[rows[0]['dataset']]}, {rows[0]['neighborhood']}", *CHOICES, "paper"], lines)


def _format_cell(row: Row) -> str:
    return f"{format_with_error(row['unfaithfulness'], row['stderr'])} ({format_number(row['relative'], 2)})"


def _describe_nearest(rows: Sequence[Row]) -> str:
    """Name the choice whose values are nearest to the paper's, by the mean |log(ours / paper)| over methods."""
    sentences = []
    for near in NEARS:
        distances = {}
        for choice in CHOICES:
            cells = [row for row in rows if (row["choice"], row["neighborhood"]) == (choice, near) and row["paper"]]
            distances[choice] = statistics.fmean(abs(math.log(row["unfaithfulness"] / row["paper"])) for row in cells)
        best = min(distances, key=lambda choice: distances[choice])
        sentences.append(f"{near}: {best} (a factor of {math.exp(distances[best]):.2g})")
    return f"Nearest to the paper's level, in the geometric mean over its methods: {'; '.join(sentences)}."


class Probabilities(nn.Module):
    """A model whose output is the probability of each class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the softmax of the logits."""
        return torch.softmax(self.model(x, edge_index, edge_weight), dim=-1)


@lru_cache(maxsize=2)
def _make_setting(dataset: str, model_seed: int, choice: str) -> Setting:
    normalize, output = CHOICES[choice]
    plain = setting(dataset, model_seed, normalize=normalize)
    if output == "raw":
        return plain
    return Setting(
        Probabilities(plain.model).eval(),
        plain.data,
        Task(return_type="probs"),
        test_accuracy=plain.test_accuracy,
    )
