"""The attacks of the paper's figure: attack 8, whose story it tells, and two attacks on the same flow meter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..plant.causes import METHODS, NAMES, Cause
from ..plant.localisation import correlate, mean_of
from ..plant.study import Judged
from ..plant.tables import Table, format_cell, number_format
from .tags import P601, SWAT

BACKWASH, FLOW, FLOW_AGAIN = 8, 10, 40
STORY: Final = (BACKWASH, FLOW, FLOW_AGAIN)
_CAUSES: Final = 3  # tags of an explanation that are listed


def examine(judged: Judged, alarms: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is known of the three attacks, as plain values for JSON."""
    return {
        "flow_attacks": _compare_flow_attacks(alarms),
        "story": [row for number in STORY for row in _tell(number, judged, alarms)],
    }


def _alarms_of(number: int, alarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the alarms that were raised during an attack or just after it."""
    return [alarm for alarm in alarms if number in alarm["event"]["attacks"] and alarm["event"]["attacked"]]


def _compare_flow_attacks(alarms: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the correlations between the explanations of the first alarms of both attacks on the flow meter."""
    first, again = (_alarms_of(number, alarms) for number in (FLOW, FLOW_AGAIN))
    if not first or not again:
        return None
    pairs = zip(first[0]["causes"], again[0]["causes"], strict=True)
    return {one["method"]: correlate(Cause.from_json(SWAT, one), Cause.from_json(SWAT, other)) for one, other in pairs}


def _tell(number: int, judged: Judged, alarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each alarm of an attack, or one without an alarm if there was none.

    In the paper attack 8 makes the model accuse P601, and the explanation leads over P602 to DPIT301. Hence the place
    of P601 by its largest excess during that attack.
    """
    event = next((event for event in judged.case.events or () if event.number == number and event.attacked), None)
    if event is None:
        return []
    largest = np.abs(judged.watched.excess[event.start : event.stop]).max(0)
    place = int((largest > largest[P601]).sum()) + 1 if number == BACKWASH else None
    rows: list[dict[str, Any]] = []
    for alarm in _alarms_of(number, alarms):
        cause = next(cause for cause in alarm["causes"] if cause["method"] == METHODS[0])
        verdict = alarm["verdicts"][SWAT.names[event.attacked[0]]]
        ranked = sorted(cause["tags"], key=lambda tag: -cause["tags"][tag])
        rows.append(
            {
                "attack": number,
                "accused": alarm["alarm"]["accused"],
                "when": alarm["event"]["when"],
                "causes": [tag for tag in ranked[:_CAUSES] if cause["tags"][tag] > 0.0],
                "model": verdict["model"],
                "plant": verdict["plant"],
                "P601_place": place,
            }
        )
    missed: dict[str, Any] = {"when": None, "causes": [], "model": None, "plant": None}
    return rows or [{"attack": number, "accused": None, **missed, "P601_place": place}]


# Summary and tables -----------------------------------------------------------------------------------------------


def summarise_story(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what all studies have found of the three attacks, for results.json; nothing if nothing is known of them.

    ``flow_attacks`` has the mean correlations over seeds, and ``story`` the rows of `examine`.
    """
    known = [study for study in studies if "examined" in study]
    pairs = [study["examined"]["flow_attacks"] for study in known]
    return {
        "flow_attacks": {
            method: {
                kind: mean_of([row[method][kind] for row in pairs if row is not None]) for kind in ("tags", "edges")
            }
            for method in METHODS
        },
        "story": [{"seed": study["marks"]["seed"], **row} for study in known for row in study["examined"]["story"]],
    }


def list_story_tables(results: dict[str, Any]) -> list[tuple[str, Table]]:
    """Return the two tables with their titles."""
    return [
        ("The attacks of the paper's figure", story_table(results)),
        ("Agreement on the two attacks on FIT401", agreement_table(results)),
    ]


def agreement_table(results: dict[str, Any]) -> Table:
    """Return the table of rank correlations between the explanations of two attacks on the same flow meter.

    ± is the standard error over seeds.
    """
    rows = [
        [
            NAMES[method],
            *(format_cell(results["flow_attacks"][method][kind], number_format(2)) for kind in ("tags", "edges")),
        ]
        for method in METHODS
    ]
    count = results["flow_attacks"][METHODS[0]]["edges"]["count"]
    return ["method", f"tags ({count} seeds)", "edges"], rows


def story_table(results: dict[str, Any]) -> Table:
    """Return the alarms of the attacks in the paper's figure, seed by seed, with the verdicts on the attacked tag."""
    heads = [
        "seed",
        "attack",
        "accused",
        "first causes by AnchoredKEC",
        "with the attacked tag as usual it clears: model",
    ]
    heads += ["plant", "place of P601"]
    rows = [
        [
            str(row["seed"]),
            str(row["attack"]),
            row["accused"] or "nobody",
            ", ".join(row["causes"]),
            _say(row["model"]),
            _say(row["plant"]),
            "" if row["P601_place"] is None else str(row["P601_place"]),
        ]
        for row in results["story"]
    ]
    return heads, rows


def _say(verdict: bool | None) -> str:
    return "–" if verdict is None else "yes" if verdict else "no"
