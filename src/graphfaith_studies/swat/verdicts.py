"""What was asked of the study before it was run, and what came out: sentences that are computed from its results.

So they are true of every run, and a page that shows them need not be worded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..plant.causes import METHODS, NAMES
from ..plant.localisation import RANKINGS
from ..plant.study import Case
from ..plant.summary import DETECTORS
from ..plant.tables import Table, count_alarms, format_percent, number_format
from .story import BACKWASH, list_story_tables
from .tags import SWAT

TITLE: Final = "What was asked, and what came out"
_TRIVIAL: Final = ("range", "wide range", "difference", "difference and range")  # "always" finds all, and says nothing
_ENOUGH: Final = 100  # alarms that accuse another tag
_HIGHEST: Final = 100.0  # find_factor tries none above
_SURE: Final = 2.0  # standard errors
_one, _two = number_format(1), number_format(2)


def list_further_tables(_: Case, results: dict[str, Any], __: Sequence[dict[str, Any]]) -> list[tuple[str, Table]]:
    """Return the tables that only this plant has, with their titles; none if nothing is known of the attacks."""
    return list_own_tables(results) if results["labelled"] else []


def list_own_tables(results: dict[str, Any]) -> list[tuple[str, Table]]:
    """Return the tables of the story, and if the plant was simulated, of the factors and of what was asked.

    Files of a user have no further days on which a factor could be found, and what was asked is about the simulation.
    """
    if results["source"] != SWAT.title:
        return list_story_tables(results)
    return [
        ("Factors for one alarm a day, and what is found with them", factors_table(results)),
        *list_story_tables(results),
        (TITLE, verdict_table(results)),
    ]


def factors_table(results: dict[str, Any]) -> Table:
    """Return the factors of the thresholds, seed by seed, each with the attacks that are found."""
    shown = ("monitor", *(name for name in _TRIVIAL if name != "range"))
    rows = [
        [
            str(row["seed"]),
            *(
                f"{row['detectors'][name]['factor']:.2f}: {row['detectors'][name]['events_detected']} found"
                for name in shown
            ),
        ]
        for row in results["seeds"]
    ]
    return ["seed", *(DETECTORS[name] for name in shown)], rows


def verdict_table(results: dict[str, Any]) -> Table:
    """Return the table of what was asked and what came out."""
    rows = [
        ["more attacks found than by every trivial detector, at no more false alarms", _judge_events(results)],
        ['F1 without the longest attack above "always" and the range in training', _judge_points(results)],
        [f"at least {_ENOUGH} alarms that accuse a tag that was not attacked", _judge_count(results)],
        [
            "where another tag is accused, hits at 3 of the tags that clear the alarm in the plant above hops and "
            "deviation rank by more than two standard errors",
            _judge_hits(results, "causal_hit3"),
        ],
        ["the same, among the tags that are not accused", _judge_hits(results, "causal_other_hit3")],
        ["the same, of attacked tags", _judge_hits(results, "attacked_hit3")],
        ["the same, of attacked tags among those that are not accused", _judge_hits(results, "attacked_other_hit3")],
        [f"{NAMES[METHODS[0]]}'s first cause clears the alarm most often", _judge_clearing(results)],
        ["attack 8 and the two on FIT401 as the paper tells them", _judge_story(results)],
    ]
    return ["asked", "came out"], rows


def _say(holds: bool, words: str) -> str:
    return f"{'holds' if holds else 'does not hold'}: {words}"


def _say_of_seeds(
    on_average: bool, words: str, results: dict[str, Any], holds: Callable[[dict[str, Any]], bool]
) -> str:
    """Say what holds on average over seeds, and in how many of them it does by itself."""
    count, seeds = sum(holds(row["detectors"]) for row in results["seeds"]), len(results["seeds"])
    only = " on average only" if on_average and count < seeds else ""
    return f"{'holds' if on_average else 'does not hold'}{only}: {words}; in {count} of {seeds} seeds"


def _judge_events(results: dict[str, Any]) -> str:
    def beats(rows: dict[str, Any], events: str, alarms: str) -> bool:
        return all(
            rows["monitor"][events] > rows[name][events] and rows["monitor"][alarms] <= rows[name][alarms]
            for name in _TRIVIAL
        )

    names = "events_detected", "false_alarms_per_day"
    found = results["detectors"]
    others = ", ".join(f"{DETECTORS[name]} {_one(found[name][names[0]], None)} at {_one(found[name][names[1]], None)}"
                       for name in _TRIVIAL)  # fmt: skip
    words = (
        f"on average the monitor finds {_one(found['monitor'][names[0]], None)} of {found['monitor']['events']:.0f} at "
        f"{_one(found['monitor'][names[1]], None)} false alarms a quiet day; {others}"
    )
    stuck = sum(any(row["detectors"][name].get("factor") == _HIGHEST for name in _TRIVIAL) for row in results["seeds"])
    if stuck:
        words += (
            f"; in {stuck} seeds a trivial detector has too many alarms even with all its thresholds times a hundred"
        )
    return _say_of_seeds(beats(found, *names), words, results, lambda rows: beats(rows, *names))


def _judge_points(results: dict[str, Any]) -> str:
    names, found = ("always", "range"), results["detectors"]
    key = "f1_without_long"
    words = ", ".join(f"{DETECTORS[name]} {_two(found[name][key], None)}" for name in names)

    def above(rows: dict[str, Any]) -> bool:
        return all(rows["monitor"]["without_long"]["f1"] > rows[name]["without_long"]["f1"] for name in names)

    wide = f"{DETECTORS['wide range']} {_two(found['wide range'][key], None)}"
    words = f"{_two(found['monitor'][key], None)}; {words}; {wide}"
    return _say_of_seeds(all(found["monitor"][key] > found[name][key] for name in names), words, results, above)


def _judge_count(results: dict[str, Any]) -> str:
    another = results["causes"]["another"]
    return _say(another["alarms"] >= _ENOUGH, count_alarms(another))


def _judge_hits(results: dict[str, Any], key: str) -> str:
    versus = results["causes"]["another"]["versus"][key]
    sure, parts = [], []
    for method in METHODS:
        rows = [versus[method][other] for other in ("hops", "deviation")]
        if all(
            row["mean"] is not None and row["stderr"] is not None and row["mean"] > _SURE * row["stderr"]
            for row in rows
        ):
            sure.append(NAMES[method])
        cells = " and ".join(format_percent(row["mean"], row["stderr"]) for row in rows)
        parts.append(f"{NAMES[method]} {cells}")
    which = f"for {', '.join(sure)}" if sure else "for no method"
    return _say(bool(sure), f"{which}; more than hops and than the deviation rank: {'; '.join(parts)}")


def _judge_clearing(results: dict[str, Any]) -> str:
    causes = results["causes"]["all"]
    parts, best = [], True
    for key, where in (("clears_model", "in the model"), ("clears_plant", "in the plant")):
        mean = {name: row[key]["mean"] for name, row in causes["rankings"].items()}
        _, other = max((share or 0.0, name) for name, share in mean.items() if name != METHODS[0])
        best &= (mean[METHODS[0]] or 0.0) > (mean[other] or 0.0)
        less = causes["clearing"][other][key]
        parts.append(
            f"{where} {format_percent(mean[METHODS[0]])}, the best other is {RANKINGS[other]} with "
            f"{format_percent(mean[other])} (alarm by alarm {format_percent(less['mean'], less['stderr'])} more for "
            f"{NAMES[METHODS[0]]})"
        )
    return _say(best, "; ".join(parts))


def _judge_story(results: dict[str, Any]) -> str:
    rows = [row for row in results["story"] if row["accused"] is not None]
    wash = [row for row in rows if row["attack"] == BACKWASH]
    flow = [row for row in rows if row["attack"] != BACKWASH]
    missed = sum(row["accused"] is None for row in results["story"] if row["attack"] == BACKWASH)

    def share(chosen: list[dict[str, Any]]) -> str:
        model, plant = (sum(bool(row[where]) for row in chosen) for where in ("model", "plant"))
        return f"of {len(chosen)} alarms {model} clear in the model and {plant} in the plant"

    accused = sum(row["accused"] == "P601" for row in wash)
    return _say(
        bool(wash) and accused == len(wash) and not missed,
        f"with the attacked tag as usual, attack 8: {share(wash)}, and {accused} accuse P601 as in the paper; the two "
        f"on FIT401: {share(flow)}",
    )
