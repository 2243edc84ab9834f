"""The arena's words about time, about bars that are missed, and about who is first by other measures."""

from __future__ import annotations

import pytest

from graphfaith_studies.arena.text import format_rows
from graphfaith_studies.arena.winners import format_by_measure, format_seconds


def row_of(measure, near="", values=None, **more):
    """A row as the arena keeps it, of one contest."""
    values = {name: list(pair) for name, pair in (values or {}).items()}
    row = {"dataset": "texas", "model": "GAT", "measure": measure, "neighborhood": near, "values": values}
    row |= {"better": "lower", "partial": [], "failed": {}, "absent": {}, "quality": [0.9], "baseline": [0.5, 0.1]}
    return row | {"nodes": 4, "trainings": 3} | more


def delta(near, winner, second="kec"):
    values = {"anchored-kec": (2.0, 0.1), "kec": (3.0, 0.1), "random": (9.0, 1.0), winner: (1.0, 0.1)}
    return row_of("delta", near, values, winner=winner, second=second, margin=[1.0, 0.25, 12])


def seconds(ours=0.02, kec=0.01, **others):
    return row_of("seconds", values={"anchored-kec": (ours, 0.0), "kec": (kec, 0.0), **others})


def test_time_of_winners_stands_beside_that_of_anchored_kec():
    rows = [delta("U(X,0.2r)", "quick"), delta("U(X,0.5r)xU(A,0.5)", "quick"), delta("B(X,0.5)", "slow")]
    rows += [delta("U(A,0.5)", "anchored-kec"), seconds(quick=(0.01, 0.0), slow=(0.2, 0.0))]
    text = format_seconds(rows)
    assert "In 2 of the 3 columns that AnchoredKEC does not win, the winner takes less time" in text
    assert "than it does, and more in 1: quick 0.50 times; slow 10 times as long." in text
    assert "| texas GAT | quick | 2 | 0.0100 | 0.0200 | 0.50 |" in text
    assert "On texas GAT AnchoredKEC has 0.0200 for that reason" in text
    assert format_seconds(rows[3:]) == "", "nobody else has won"


@pytest.mark.parametrize(("ours", "said"), [(0.02, ", and **the bar is missed**."), (0.016, " contests have it.")])
def test_bars_that_are_missed_are_named(ours, said):
    rows = [delta("U(X,0.2r)", "quick"), delta("U(A,0.5)", "anchored-kec"), seconds(ours, quick=(0.01, 0.0))]
    rows += [{**row, "measure": "relative-delta"} for row in rows[:2]]
    text = format_rows(rows, ["texas GAT"])
    held = text.split("## What must hold")[1].split("## ")[0]
    assert "95 % were asked for: **the bar is missed**. Of the 1 others, features move in 1." in held
    assert "At most 1.6 times was asked for" in held
    assert said in held
    won = format_rows([row for row in rows if row.get("winner") != "quick" or row["measure"] == "seconds"], [])
    assert "95 % were asked for: the bar is reached." in won


def test_who_is_first_by_other_measures_and_how_sure():
    values = {"anchored-kec": (0.5, 0.3), "kec": (0.2, 0.1), "random": (0.1, 0.1), "late": (0.9, 0.1)}
    rows = [
        row_of("deletion", "B(A,1)", values, better="higher", partial=["late"]),
        row_of("gef", "B(A,1)", {**values, "late": (0.1, 0.0)}),
        row_of("roc-auc", values=values, better="higher", winner="late", margin=[-0.4, 0.1, 12]),
        row_of("stability-training", values=values, better="higher"),
        delta("U(A,0.5)", "anchored-kec"),
    ]
    lines = format_by_measure(rows).splitlines()
    # 0.3 apart, with errors of 0.3 and 0.1; who lacks predictions is not first.
    assert (
        "| deletion | B(A,1) | anchored-kec 0.500 ± 0.30 | kec 0.200 ± 0.10 | 0.95 | 0.500 ± 0.30 | 0.200 ± 0.10 "
        "| 0.100 ± 0.10 |"
    ) in lines
    assert "| deletion | 1 | anchored-kec 1 | 0 | 1 | 0 |" in lines
    assert any(
        line.startswith("| gef | B(A,1) | random 0.100 ± 0.10 (and 1 more) | late 0.100 ± 0 | – |") for line in lines
    )
    assert "| gef | 1 | random 1, late 1 | 0 | 0 | 0 |" in lines
    assert any(
        line.startswith("| roc-auc | – | late 0.900 ± 0.10 | anchored-kec 0.500 ± 0.30 | 4.0 (paired) |")
        for line in lines
    )
    assert "| roc-auc | 1 | late 1 | 1 | 0 | 0 |" in lines
    # Errors over trainings that stay the same are not shown.
    assert "| stability-training | – | late 0.900 | anchored-kec 0.500 | – | 0.500 | 0.200 | 0.100 |" in lines
    assert "| stability-training | 1 | late 1 | – | 0 | – |" in lines
    assert not any(line.startswith("| delta") for line in lines)
    assert "were kept for delta, roc-auc alone" in " ".join(lines)
