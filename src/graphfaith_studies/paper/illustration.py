"""One node of Cora explained by every method side by side: the paper's Figure 1b, with the methods it left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from matplotlib.figure import Figure
from torch_geometric.explain import Explanation

from graphfaith.compare import FITTED, METHODS
from graphfaith.subject import Subject
from graphfaith.view.figure import figure

from .experiment import Experiment, Row, Size, Unit
from .markdown import number, table, with_error
from .published import NAMES
from .setting import setting

# Edges are dropped, self-loops among them: what a reader takes the picture of an important edge to mean.
NEAR = "B(A,0.5)"
NODES = range(0, 1000, 5)
FEWEST, MOST = 15, 30  # nodes in reach, for a picture with a structure that can still be read
FIT_SAMPLES, NUM_SAMPLES, SEED = 200, 500, 0
TOP = 5


class Illustration(Experiment):
    """Scores of one node, by method, and how faithful they are there.

    The node is the first of 0:1000:5 that the model classifies rightly and whose computation graph has between 15 and
    30 nodes.
    """

    name = "illustration"
    title = "One node of Cora, every method (Fig. 1b)"

    def units(self, size: Size) -> list[Unit]:  # noqa: ARG002  # one node is as few as there can be
        """The methods."""
        return [Unit("cora", 0, None, method, cost=0.5) for method in METHODS]

    def measure(self, unit: Unit, size: Size) -> Any:
        """The score of an explanation, and what its edges look like."""
        node = chosen(unit.dataset, unit.model_seed)
        fit, tested = size.samples(FIT_SAMPLES), size.samples(NUM_SAMPLES)
        explanation = _subject(unit.dataset, unit.model_seed).explain(node, unit.part, NEAR, fit, tested, SEED)
        found = explanation.unfaithfulness
        return {
            "node": node,
            "label": explanation.method,
            "unfaithfulness": found.value,
            "stderr": found.stderr,
            "relative": found.relative if math.isfinite(found.relative) else None,
            "seconds": explanation.seconds,
            **_edges(explanation),
        }

    def rows(self, found: Mapping[Unit, Any], size: Size) -> list[Row]:
        """One a method."""
        return [
            {
                "dataset": unit.dataset,
                "node": one["node"],
                "method": unit.part,
                "label": one["label"],
                "neighborhood": NEAR,
                "unfaithfulness": one["unfaithfulness"],
                "stderr": one["stderr"],
                "relative": one["relative"],
                "seconds_per_node": one["seconds"],
                "num_samples": size.samples(NUM_SAMPLES),
                "seed": SEED,
                "fit_samples": size.samples(FIT_SAMPLES) if unit.part in FITTED else None,
                "model_seed": unit.model_seed,
                "paper": None,
                "share_negative": one["share_negative"],
                "top_edges": one["top_edges"],
            }
            for unit, one in ((unit, found[unit]) for unit in self.units(size) if unit in found)
        ]

    def markdown(self, rows: Sequence[Row]) -> str:
        """A table of methods."""
        first = rows[0]
        body = [
            [
                NAMES[row["method"]],
                with_error(row["unfaithfulness"], row["stderr"]),
                _percent(row["relative"]),
                _percent(row["share_negative"]),
                ", ".join(f"{source}→{sink} ({number(score, 2)})" for source, sink, score in row["top_edges"][:3]),
            ]
            for row in rows
        ]
        best = min(rows, key=lambda row: row["unfaithfulness"])
        return "\n\n".join(
            [
                f"Node {first['node']} of Cora in {first['neighborhood']}: the first of 0:1000:5 that is classified "
                f"rightly and has between {FEWEST} and {MOST} nodes in reach. In the figure it is grey; blue and solid "
                "is a positive influence, red and dashed a negative one. Fitted methods have "
                f"{next(row['fit_samples'] for row in rows if row['fit_samples'])} samples; Δ is on "
                f"{first['num_samples']} others.",
                table(["method", "Δ", "Δ / Δ(0)", "negative", "strongest edges"], body),
                "Negative is the share of all |scores| of edges that belongs to negative ones. Masks, which lie "
                "between 0 and 1, cannot say that an edge speaks against a class. The most faithful here is "
                f"{NAMES[best['method']]}, which leaves {_percent(best['relative'])} of F's change unexplained.",
            ]
        )

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """The explanations, made again: they depend on nothing but what the rows name."""
        subject = _subject(rows[0]["dataset"], rows[0]["model_seed"])
        explanations = [
            subject.explain(
                row["node"],
                row["method"],
                row["neighborhood"],
                samples=row["fit_samples"] or 1,
                test_samples=row["num_samples"],
                seed=row["seed"],
            )
            for row in rows
        ]
        # The relative unfaithfulness is in the line below the name of a method.
        return {"illustration": figure(explanations, columns=min(4, len(rows)))}


@lru_cache(maxsize=1)
def chosen(dataset: str, model_seed: int) -> int:
    """The node that is shown (see :class:`Illustration`)."""
    known = setting(dataset, model_seed)
    for node in NODES:
        right = bool(known.labels[node] == known.data.y[node])
        if right and FEWEST <= known.target(node).computation_graph.num_visible <= MOST:
            return node
    raise LookupError(f"no node of {dataset} is classified rightly with {FEWEST} to {MOST} nodes in reach")


def _subject(dataset: str, model_seed: int) -> Subject:
    known = setting(dataset, model_seed)
    return Subject(known.model, known.data)


def _edges(explanation: Explanation) -> dict[str, Any]:
    """The share of |score| that is negative, and the edges with the largest |score|, as [source, sink, score]."""
    scores = explanation.edge_mask.double()
    size = float(scores.abs().sum())
    strongest = scores.abs().argsort(descending=True, stable=True)[:TOP]
    ends = explanation.edge_index[:, strongest].T.tolist()
    return {
        "share_negative": float(scores.clamp(max=0).abs().sum()) / size if size > 0 else 0.0,
        "top_edges": [[*pair, score] for pair, score in zip(ends, scores[strongest].tolist(), strict=True) if score],
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
