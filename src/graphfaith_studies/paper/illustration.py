"""One node of Cora explained by every method: the paper's Figure 1b, with the methods that it left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from matplotlib.figure import Figure
from torch_geometric.explain import Explanation

from graphfaith.explainers.methods import method_named, method_names
from graphfaith.view.figure import figure

from .experiment import Experiment, Row, Size, Unit
from .markdown import format_number, format_table, format_with_error
from .published import NAMES
from .setting import setting

# In this neighbourhood edges are dropped, self-loops among them. This is how readers understand an important edge.
NEAR = "B(A,0.5)"
NODES = range(0, 1000, 5)
# With this many nodes in reach, a picture has a structure and is still readable.
FEWEST, MOST = 15, 30
FIT_SAMPLES, NUM_SAMPLES, SEED = 200, 500, 0
TOP = 5


class Illustration(Experiment):
    """The scores of one node by every method, and how faithful they are.

    The node is the first of 0:1000:5 that the model classifies correctly and whose computation graph has between 15
    and 30 nodes.
    """

    name = "illustration"
    title = "One node of Cora, every method (Fig. 1b)"

    def units(self, size: Size) -> list[Unit]:  # noqa: ARG002  # One node cannot be reduced.
        """Return a unit for each method."""
        return [Unit("cora", 0, None, method, cost=0.5) for method in method_names() if method in NAMES]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Explain the node by a method; return the unfaithfulness and a summary of the edge scores."""
        node = choose_node(unit.dataset, unit.model_seed)
        fit, tested = size.samples(FIT_SAMPLES), size.samples(NUM_SAMPLES)
        here = setting(unit.dataset, unit.model_seed)
        explanation = here.explain(node, unit.part, NEAR, samples=fit, test_samples=tested, seed=SEED)
        score = explanation.unfaithfulness
        shown = score.scores or score
        return {
            "node": node,
            "label": explanation.method,
            "unfaithfulness": score.value,
            "stderr": score.stderr,
            "relative": score.relative if math.isfinite(score.relative) else None,
            "relative_scores": shown.relative if math.isfinite(shown.relative) else None,
            "seconds": explanation.seconds,
            **_summarise_edges(explanation),
        }

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return a row for each method."""
        return [
            {
                "dataset": unit.dataset,
                "node": result["node"],
                "method": unit.part,
                "label": result["label"],
                "neighborhood": NEAR,
                "unfaithfulness": result["unfaithfulness"],
                "stderr": result["stderr"],
                "relative": result["relative"],
                "relative_scores": result.get("relative_scores"),
                "seconds_per_node": result["seconds"],
                "num_samples": size.samples(NUM_SAMPLES),
                "seed": SEED,
                "fit_samples": size.samples(FIT_SAMPLES) if method_named(unit.part).is_fitted else None,
                "model_seed": unit.model_seed,
                "paper": None,
                "share_negative": result["share_negative"],
                "top_edges": result["top_edges"],
            }
            for unit, result in ((unit, results[unit]) for unit in self.units(size) if unit in results)
        ]

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table of the methods."""
        first = rows[0]
        body = [
            [
                NAMES[row["method"]],
                format_with_error(row["unfaithfulness"], row["stderr"]),
                _format_percent(row["relative"]),
                _format_percent(row.get("relative_scores")),
                _format_percent(row["share_negative"]),
                ", ".join(
                    f"{source}→{sink} ({format_number(score, 2)})" for source, sink, score in row["top_edges"][:3]
                ),
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
                f"{first['num_samples']} others, of the whole explanation p. The figure shows scores, and beside them "
                "what these alone leave, as if F changed by their sum.",
                format_table(
                    ["method", "Δ(p)", "Δ(p) / Δ(0)", "the scores alone", "negative", "strongest edges"], body
                ),
                "Negative is the share of all |scores| of edges that belongs to negative ones. Masks, which lie "
                "between 0 and 1, cannot say that an edge speaks against a class. The most faithful here is "
                f"{NAMES[best['method']]}, which leaves {_format_percent(best['relative'])} of F's change unexplained.",
            ]
        )

    def draw_figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Draw the explanations, which are computed again from the arguments that the rows contain."""
        subject = setting(rows[0]["dataset"], rows[0]["model_seed"])
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
        # The figure shows what its scores leave below the name of each method.
        return {"illustration": figure(explanations, columns=min(4, len(rows)))}


@lru_cache(maxsize=1)
def choose_node(dataset: str, model_seed: int) -> int:
    """Return the node to be shown; :class:`Illustration` states the rule."""
    here = setting(dataset, model_seed)
    for node in NODES:
        target = here.target(node)
        is_correct = target.label == int(here.data.y[node])
        if is_correct and FEWEST <= target.computation_graph.num_visible <= MOST:
            return node
    raise LookupError(f"no node of {dataset} is classified correctly and has {FEWEST} to {MOST} nodes in reach")


def _summarise_edges(explanation: Explanation) -> dict[str, Any]:
    """Return the share of all |scores| on negative edges, and the edges with the largest |score|.

    An edge is [source, sink, score].
    """
    scores = explanation.edge_mask.double()
    size = float(scores.abs().sum())
    strongest = scores.abs().argsort(descending=True, stable=True)[:TOP]
    ends = explanation.edge_index[:, strongest].T.tolist()
    return {
        "share_negative": float(scores.clamp(max=0).abs().sum()) / size if size > 0 else 0.0,
        "top_edges": [[*pair, score] for pair, score in zip(ends, scores[strongest].tolist(), strict=True) if score],
    }


def _format_percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
