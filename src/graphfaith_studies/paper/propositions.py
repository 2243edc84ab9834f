"""Propositions 1 to 3 of the paper, statement by statement: shown where they hold, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .experiment import Experiment, Row, Size, Unit
from .markdown import number, table
from .statements import DEMONSTRATIONS, RANDOM, demonstrated

Kind = Literal["statement", "condition", "counter-example", "remark"]

# What each is: said by the paper and true, in need of a condition, or said and not so.
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
    """Each statement in a setting in which one number says whether it holds."""

    name = "propositions"
    title = "Propositions 1 to 3"

    def units(self, size: Size) -> list[Unit]:  # noqa: ARG002  # most are no matter of size
        """The demonstrations."""
        return [
            Unit(dataset, 0, None, name, cost=1.0 if dataset == RANDOM else 10.0)
            for name, (dataset, _) in DEMONSTRATIONS.items()
        ]

    def measure(self, unit: Unit, size: Size) -> Any:
        """Its rows."""
        return demonstrated(unit.part, size)

    def rows(self, found: Mapping[Unit, Any], size: Size) -> list[Row]:
        """All rows, in the order of the statements, each with what kind of statement it is about."""
        done = [found[unit] for unit in self.units(size) if unit in found]
        rows = [{**row, "kind": STATEMENTS[row["statement"]][0], "model_seed": 0} for one in done for row in one]
        return sorted(rows, key=lambda row: row["statement"])

    def markdown(self, rows: Sequence[Row]) -> str:
        """A table for each proposition, and what to make of it."""
        parts = [
            "Each statement with one number that decides it. A counter-example is a setting in which what the paper "
            "says does not hold; a condition is something that it needs. Small networks are in double precision, on a "
            "random graph; Δ / Δ(0) is on samples that nothing was fitted to."
        ]
        for proposition, said in (("1", _first), ("2", _second), ("3", _third)):
            chosen = [row for row in rows if row["statement"].startswith(proposition)]
            if chosen:
                body = [_cells(row, before) for row, before in zip(chosen, [None, *chosen], strict=False)]
                header = ["statement", "setting", "neighbourhood", "measured", "", "holds"]
                parts += [f"**Proposition {proposition}.** {said(chosen)}", table(header, body)]
        return "\n\n".join(parts)


def _cells(row: Row, before: Row | None) -> list[str]:
    kind, text = STATEMENTS[row["statement"]]
    name = (
        row["statement"]
        if before and before["statement"] == row["statement"]
        else f"{row['statement']} ({kind}): {text}"
    )
    method = "" if row["method"] is None or row["statement"] == "2a" else f" ({row['method']})"
    holds = "yes" if row["holds"] else "**no**"
    where = row["neighborhood"] or "–"
    return [name, row["setting"] + method, where, row["quantity"], number(row["value"]), holds]


def _largest(rows: Sequence[Row], statement: str) -> str:
    return number(max(row["value"] for row in rows if row["statement"] == statement), 2)


def _least(rows: Sequence[Row], statement: str) -> str:
    return number(min(row["value"] for row in rows if row["statement"] == statement), 2)


def _of(rows: Sequence[Row], *statements: str) -> bool:
    return set(statements) <= {row["statement"] for row in rows}


def _first(rows: Sequence[Row]) -> str:
    if not _of(rows, "1a", "1d", "1e"):
        return ""
    return (
        f"Linear in X it is within a region (Δ / Δ(0) at most {_largest(rows, '1a')}), and with one layer it is linear "
        "in A only if nothing is divided by degrees. The proof writes one layer as ReLU(N(A) X W) and calls it "
        "piecewise linear in A; but N(A) = D^(-1/2) (A + I) D^(-1/2), and D depends on A. Saliency, and a linear "
        f"function of A fitted to 3000 samples, leave {_least(rows, '1d')} of F's change or more; two layers without "
        f"degrees leave {_least(rows, '1e')} or more. What follows from the proposition, that edges need a nonlinear "
        "p, so holds for one layer too."
    )


def _second(rows: Sequence[Row]) -> str:
    if not _of(rows, "2a", "2b", "2c"):
        return ""
    tight = ", ".join(
        f"{number(row['tightness'], 2)} for {row['method']} on {row['dataset']}"
        for row in rows
        if row["statement"] == "2a" and row["tightness"] is not None
    )
    itself = max(row["unfaithfulness"] for row in rows if row["method"] == "identity")
    least = min(row["value"] for row in rows if row["statement"] == "2a" and row["method"] != "identity")
    return (
        "The bound holds for every mask, as by Jensen's inequality it must on the same samples: the least Δ − bound is "
        f"{number(least)}, and Δ of the graph as its own subgraph {number(itself)}. How tight it is, as the median of "
        f"bound / Δ: {tight}. It "
        "can be zero where Δ is not (2b). And a subgraph may change the output and be faithful (2c), other than the "
        "text has it: Δ compares changes, and a constant between F and p is none."
    )


def _third(rows: Sequence[Row]) -> str:
    if not _of(rows, "3a", "3b", "3c", "3d", "3e"):
        return ""
    return (
        "On the samples of the fit nothing does better. With constant features, as in BA-Shapes, E[φφᵀ] has no "
        "inverse: of all optima the truncated SVD takes the one of least norm. Edge scores do not depend on that "
        "choice, feature scores do. On other samples W* is not the optimum. Without degrees the k-hop model is what a "
        f"linear network is (at most {_largest(rows, '3d')} left); with them it is not, because N(A^k) is not N(A)^k: "
        f"the settings of 3e leave between {_least(rows, '3e')} and {_largest(rows, '3e')}."
    )
