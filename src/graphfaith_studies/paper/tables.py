"""Tables 1, 2 and 3: the general unfaithfulness of every method, in the paper's protocol and on held-out samples.

The paper scores all methods on the same 500 samples and solves Linear and KEC with 200 samples, without saying whether
the two sets overlap. In ``in-sample`` both come from one seed, so that the first 200 of the 500 are those of the fit.
In ``held-out`` the samples for scoring come from another seed. The error bar is over nodes and trainings
(:func:`~graphfaith.metric.pooling.pool`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from graphfaith.explainers import SubgraphX

from .experiment import Experiment, Row, Size, Unit
from .faithfulness import format_tables, score_methods, to_rows, to_scored
from .markdown import format_number
from .published import DATASET_NAMES, unfaithfulness
from .setting import setting

SEED = 0
FIT_SAMPLES = 200
NODES = {"ba-shapes": range(400, 700, 5), "cora": range(0, 1000, 5), "citeseer": range(0, 1000, 5)}
EDGES = ("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)")
WITH_FEATURES = ("U(X,0.2r)", *EDGES)
MIXED = ("U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)")
# The order matters: the hard masks of GNNExplainer are made by rounding its soft masks, which must come first.
PAPER = ("gnnexplainer-soft", "gnnexplainer", "pgexplainer", "saliency", "ig-zero", "ig-random", "linear", "kec")
SUBGRAPHX = "subgraphx"


class FaithfulnessTable(Experiment):
    """Delta(p) at the paper's nodes: columns are neighbourhoods of data sets, rows are methods."""

    columns: ClassVar[dict[str, tuple[str, ...]]]
    methods: ClassVar[tuple[str, ...]]
    trainings: ClassVar[int]
    test_samples: ClassVar[int]
    seconds: ClassVar[dict[str, float]]  # roughly the seconds per node

    def units(self, size: Size) -> list[Unit]:
        """Return a unit for each node of each model."""
        return [
            Unit(dataset, seed, node, cost=self.seconds[dataset])
            for dataset in self.columns
            for seed in size.model_seeds(self.trainings)
            for node in size.nodes(NODES[dataset])
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Score every method in every neighbourhood and both protocols on shared samples."""
        assert unit.node is not None
        here = setting(unit.dataset, unit.model_seed, tuple(size.nodes(NODES[unit.dataset])))
        methods = [SUBGRAPHX] if unit.part == SUBGRAPHX else self.methods
        fit_samples, test_samples = size.samples(FIT_SAMPLES), size.samples(self.test_samples)
        return score_methods(here, unit.node, self.columns[unit.dataset], methods, fit_samples, test_samples, SEED)

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return a row for each data set, neighbourhood, protocol and method."""
        scores = [score for unit, result in results.items() for score in to_scored(unit, result)]
        rows = to_rows(scores, size.samples(FIT_SAMPLES), size.samples(self.test_samples), SEED)
        for row in rows:
            row["paper"] = unfaithfulness(row["dataset"], row["neighborhood"], row["method"])
        return rows

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table for each data set and neighbourhood."""
        return format_tables(rows)


class Table1(FaithfulnessTable):
    """Table 1: BA-Shapes and Cora with edges and features perturbed separately, with SubgraphX added."""

    name = "table1"
    title = "Table 1: BA-Shapes and Cora"
    columns: ClassVar = {"ba-shapes": EDGES, "cora": WITH_FEATURES}
    methods = (*PAPER, "anchored-kec")
    trainings = 3
    test_samples = 500
    seconds: ClassVar = {"ba-shapes": 3.0, "cora": 1.7}
    subgraphx_seconds: ClassVar = {"ba-shapes": 2.5, "cora": 0.2}

    def units(self, size: Size) -> list[Unit]:
        """Return separate units for SubgraphX, which on BA-Shapes takes as long as all other methods together."""
        units = super().units(size)
        return units + [
            Unit(unit.dataset, unit.model_seed, unit.node, SUBGRAPHX, self.subgraphx_seconds[unit.dataset])
            for unit in units
        ]

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return the tables, and the budget and effort of SubgraphX."""
        of_subgraphx = {row["dataset"]: row for row in rows if row["method"] == SUBGRAPHX}
        if not of_subgraphx:
            return super().to_markdown(rows)
        each = "; ".join(
            f"on {DATASET_NAMES[name]} {format_number(row['seconds_per_node'], 2)} seconds a node, "
            f"{row['search']['evaluations']:,.0f} evaluations and {row['search']['rollouts']:.1f} rollouts on average, "
            f"the budget spent at {100 * row['search']['budget_spent']:.0f} % of nodes"
            for name, row in of_subgraphx.items()
        )
        subgraphx = SubgraphX()
        return (
            f"{super().to_markdown(rows)}\n\nSubgraphX, which the paper leaves out because a node of Cora took more "
            "than ten minutes, is our own (`graphfaith.SubgraphX`), with a budget of "
            f"{subgraphx.max_evaluations:,} evaluations of F a node, {subgraphx.rollouts} rollouts, and subgraphs of "
            f"{subgraphx.max_nodes} nodes: {each}. Where no more nodes than that are in reach, its subgraph is all of "
            "them, and its Delta 0."
        )


class Table2(FaithfulnessTable):
    """The table of CiteSeer in the appendix."""

    name = "table2"
    title = "Table 2: CiteSeer"
    columns: ClassVar = {"citeseer": WITH_FEATURES}
    methods = (*PAPER, "anchored-kec")
    trainings = 3
    test_samples = 500
    seconds: ClassVar = {"citeseer": 2.2}


class Table3(FaithfulnessTable):
    """The table of mixed distributions: features and edges perturbed together, 3000 test samples."""

    name = "table3"
    title = "Table 3: features and edges together"
    columns: ClassVar = {"cora": MIXED, "citeseer": MIXED}
    methods = ("gnnexplainer-soft", "gnnexplainer", "saliency", "ig-full", "linear", "kec", "anchored-kec")
    trainings = 1
    test_samples = 3000
    seconds: ClassVar = {"cora": 5.0, "citeseer": 9.0}
