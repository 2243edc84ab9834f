"""How the absolute level of Delta(p) depends on two choices: features row-normalised or raw, and what F is.

The tables are made with row-normalised features and with F the logit of the predicted class. Here the same methods
are scored with raw features (of a model trained on them), and with F the probability of the class.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from .experiment import Experiment, Row, Size, Unit
from .faithfulness import scored, scores_at, to_rows
from .markdown import number, published_number, table, with_error
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
    """The appendix on features and outputs."""

    name = "levels"
    title = "Appendix: raw or row-normalised features, logit or probability"

    def units(self, size: Size) -> list[Unit]:
        """A node under one pair of choices each."""
        return [
            Unit(dataset, 0, node, choice, cost)
            for dataset, cost in (("cora", 2.0), ("citeseer", 3.0))
            for choice in CHOICES
            for node in size.nodes(NODES)
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Every method in every neighbourhood, in both protocols."""
        assert unit.node is not None
        here = _setting(unit.dataset, unit.model_seed, unit.part)
        fit_samples, test_samples = size.samples(FIT_SAMPLES), size.samples(TEST_SAMPLES)
        return scores_at(here, unit.node, NEARS, METHODS, fit_samples, test_samples, SEED)

    def rows(self, found: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Rows as in the tables, with the choices beside."""
        rows = []
        for choice in CHOICES:
            own = [one for unit, result in found.items() if unit.part == choice for one in scored(unit, result)]
            for row in to_rows(own, size.samples(FIT_SAMPLES), size.samples(TEST_SAMPLES), SEED):
                paper = unfaithfulness(row["dataset"], row["neighborhood"], row["method"])
                rows.append({"choice": choice, **row, "paper": paper})
        return rows

    def markdown(self, rows: Sequence[Row]) -> str:
        """A table for each data set and neighbourhood: columns are choices, and the paper's value."""
        parts = ["A cell is Delta(p) held out, with its error over nodes, and in brackets relative Delta."]
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            own = [row for row in rows if row["dataset"] == dataset and row["protocol"] == "held-out"]
            accuracy = {row["choice"]: 100 * row["test_accuracy"][0] for row in own}
            parts.append(
                f"**{DATASET_NAMES[dataset]}**: {len(own[0]['nodes'])} nodes, one training for each kind of features "
                f"(test accuracy {accuracy['normalised, logit']:.1f} % with normalised ones, "
                f"{accuracy['raw, logit']:.1f} % with raw ones; the paper's {100 * ACCURACY[dataset]:.1f} %)."
            )
            parts += [_table([row for row in own if row["neighborhood"] == near]) for near in NEARS]
            parts.append(_nearest(own))
        return "\n\n".join(parts)


def _table(rows: Sequence[Row]) -> str:
    lines = []
    for method in sorted(METHODS, key=list(NAMES).index):
        cells = {row["choice"]: row for row in rows if row["method"] == method}
        said = [
            f"{with_error(cells[one]['unfaithfulness'], cells[one]['stderr'])} ({number(cells[one]['relative'], 2)})"
            for one in CHOICES
        ]
        lines.append([NAMES[method], *said, published_number(next(iter(cells.values()))["paper"])])
    return table([f"{DATASET_NAMES[rows[0]['dataset']]}, {rows[0]['neighborhood']}", *CHOICES, "paper"], lines)


def _nearest(rows: Sequence[Row]) -> str:
    """Under which choice a column is like the paper's: the one with the least mean |log(ours / paper)| over methods."""
    said = []
    for near in NEARS:
        off = {}
        for choice in CHOICES:
            cells = [row for row in rows if (row["choice"], row["neighborhood"]) == (choice, near) and row["paper"]]
            off[choice] = statistics.fmean(abs(math.log(row["unfaithfulness"] / row["paper"])) for row in cells)
        best = min(off, key=lambda choice: off[choice])
        said.append(f"{near}: {best} (a factor of {math.exp(off[best]):.2g})")
    return f"Nearest to the paper's level, in the geometric mean over its methods: {'; '.join(said)}."


class Probabilities(nn.Module):
    """A model whose output is the probability of each class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The softmax of the logits."""
        return torch.softmax(self.model(x, edge_index, edge_weight), dim=-1)


@lru_cache(maxsize=2)
def _setting(dataset: str, model_seed: int, choice: str) -> Setting:
    normalize, output = CHOICES[choice]
    plain = setting(dataset, model_seed, normalize=normalize)
    if output == "raw":
        return plain
    return Setting(Probabilities(plain.model).eval(), plain.data, plain.test_accuracy, return_type="probs")
