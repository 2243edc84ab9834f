"""Propositions 1 to 3 of the paper, statement by statement, with settings where they hold and where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .experiment import Experiment, Row, Size, Unit
from .markdown import format_number, format_table
from .statements import DEMONSTRATIONS, RANDOM, run_demonstration

Kind = Literal["statement", "condition", "counter-example", "remark"]

# The kind and text of each statement: a statement is true, a condition is needed for it, a counter-example refutes it.
STATEMENTS: dict[str, tuple[Kind, str]] = {
    "1a": ("statement", "within an activation region F is linear in X, at any depth"),
    "1b": ("condition", "and so it is beyond one region"),
    "1c": ("statement", "one layer is linear in A, if A is not divided by degrees"),
    "1d": ("counter-example", "one layer with N(A) is linear in A"),
    "1e": ("statement", "two layers are not linear in A"),
    "1f": ("statement", "unless all hidden units are off"),
    "2a": ("statement", "Δ of a subgraph is at least the bound, on the same samples"),
    "2b": ("remark", "the bound is of the size of Δ"),
    "2c": ("counter-example", "a faithful subgraph leaves the output as it is"),
    "3a": ("statement", "W* solves the normal equations and is the optimum on its samples"),
    "3b": ("condition", "W* is the only optimum, and the scores are its own"),
    "3c": ("condition", "W* of some samples is the optimum on others"),
    "3d": ("statement", "a k-hop model with A^k contains a linear network without degrees"),
    "3e": ("condition", "the paper's k-hop model contains one with degrees, or with units that are off"),
    "3f": ("remark", "with N(A)^k in the place of N(A^k) a linear network with degrees is contained"),
}


class Propositions(Experiment):
    """Each statement in settings where one number decides whether it holds."""

    name = "propositions"
    title = "Propositions 1 to 3"

    def units(self, size: Size) -> list[Unit]:  # noqa: ARG002  # Most demonstrations have a fixed size.
        """Return a unit for each demonstration."""
        return [
            Unit(dataset, 0, None, name, cost=1.0 if dataset == RANDOM else 10.0)
            for name, (dataset, _) in DEMONSTRATIONS.items()
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Run the demonstration and return its rows."""
        return run_demonstration(unit.part, size)

    def make_rows(self, results: Mapping[Unit, Any], size: Size) -> list[Row]:
        """Return all rows in the order of the statements, with the kind of each statement."""
        demonstrations = [results[unit] for unit in self.units(size) if unit in results]
        rows = [
            {**row, "kind": STATEMENTS[row["statement"]][0], "model_seed": 0}
            for demonstration in demonstrations
            for row in demonstration
        ]
        return sorted(rows, key=lambda row: row["statement"])

    def to_markdown(self, rows: Sequence[Row]) -> str:
        """Return a table for each proposition, with an interpretation."""
        parts = [
            "Each statement with one number that decides it. A counter-example is a setting in which what the paper "
            "says does not hold; a condition is something that it needs. Small networks are in double precision, on a "
            "random graph; Δ / Δ(0) is on samples that nothing was fitted to."
        ]
        for proposition, interpret in (("1", _interpret_first), ("2", _interpret_second), ("3", _interpret_third)):
            chosen = [row for row in rows if row["statement"].startswith(proposition)]
            if chosen:
                body = [_format_cells(row, before) for row, before in zip(chosen, [None, *chosen], strict=False)]
                header = ["statement", "setting", "neighbourhood", "measured", "", "holds"]
                parts += [f"**Proposition {proposition}.** {interpret(chosen)}", format_table(header, body)]
        return "\n\n".join(parts)


def _format_cells(row: Row, before: Row | None) -> list[str]:
    kind, text = STATEMENTS[row["statement"]]
    name = (
        row["statement"]
        if before and before["statement"] == row["statement"]
        else f"{row['statement']} ({kind}): {text}"
    )
    method = "" if row["method"] is None or row["statement"] == "2a" else f" ({row['method']})"
    holds = "yes" if row["holds"] else "**no**"
    where = row["neighborhood"] or "–"
    return [name, row["setting"] + method, where, row["quantity"], format_number(row["value"]), holds]


def _largest(rows: Sequence[Row], statement: str) -> str:
    return format_number(max(row["value"] for row in rows if row["statement"] == statement), 2)


def _least(rows: Sequence[Row], statement: str) -> str:
    return format_number(min(row["value"] for row in rows if row["statement"] == statement), 2)


def _has_all(rows: Sequence[Row], *statements: str) -> bool:
    return set(statements) <= {row["statement"] for row in rows}


def _interpret_first(rows: Sequence[Row]) -> str:
    if not _has_all(rows, "1a", "1d", "1e"):
        return ""
    return (
        f"Linear in X it is within a region (Δ / Δ(0) at most {_largest(rows, '1a')}), and with one layer it is linear "
        "in A only if nothing is divided by degrees. The proof writes one layer as ReLU(N(A) X W) and calls it "
        "piecewise linear in A; but N(A) = D^(-1/2) (A + I) D^(-1/2), and D depends on A. Saliency, and a linear "
        f"function of A fitted to 3000 samples, leave {_least(rows, '1d')} of F's change or more; two layers without "
        f"degrees leave {_least(rows, '1e')} or more. What follows from the proposition, that edges need a nonlinear "
        "p, so holds for one layer too."
    )


def _interpret_second(rows: Sequence[Row]) -> str:
    if not _has_all(rows, "2a", "2b", "2c"):
        return ""
    tight = ", ".join(
        f"{format_number(row['tightness'], 2)} for {row['method']} on {row['dataset']}"
        for row in rows
        if row["statement"] == "2a" and row["tightness"] is not None
    )
    itself = max(row["unfaithfulness"] for row in rows if row["method"] == "identity")
    least = min(row["value"] for row in rows if row["statement"] == "2a" and row["method"] != "identity")
    return (
        "The bound holds for every mask, as by Jensen's inequality it must on the same samples: the least Δ − bound is "
        f"{format_number(least)}, and Δ of the graph as its own subgraph {format_number(itself)}. How tight it is, as "
        f"the median of bound / Δ: {tight}. It "
        "can be zero where Δ is not (2b). And a subgraph may change the output and be faithful (2c), other than the "
        "text has it: Δ compares changes, and a constant between F and p is none."
    )


def _interpret_third(rows: Sequence[Row]) -> str:
    if not _has_all(rows, "3a", "3b", "3c", "3d", "3e"):
        return ""
    return (
        "On the samples of the fit nothing does better. With constant features, as in BA-Shapes, E[φφᵀ] has no "
        "inverse: of all optima the truncated SVD takes the one of least norm. Edge scores do not depend on that "
        "choice, feature scores do. On other samples W* is not the optimum. Without degrees the k-hop model is what a "
        f"linear network is (at most {_largest(rows, '3d')} left); with them it is not, because N(A^k) is not N(A)^k: "
        f"the settings of 3e leave between {_least(rows, '3e')} and {_largest(rows, '3e')}."
    )
