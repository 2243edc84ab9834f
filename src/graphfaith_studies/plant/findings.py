"""What the operator's page says of an alarm, in words: what happened, the suggested cause, and what to check.

Only what an operator can know is used: readings, forecasts, explanations, and the model's verdicts. Whether there was
an attack, and what the simulated plant says, is on the page of answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from .causes import FEWEST, METHODS
from .history import tell_history, tell_switches
from .plant import Plant
from .series import Scale, Series
from .words import (
    describe,
    describe_mismatch,
    format_number,
    format_pair,
    format_reading,
    join_names,
    say_duration,
    say_range,
    say_time,
)

_SUSPECTS: Final = 3  # tags of the explanation that may be the cause
_NEIGHBOURS: Final = 3  # neighbours that a check names


@dataclass(frozen=True)
class Finding:
    """One alarm as the page tells it.

    ``suspects`` are the tags with the largest positive scores in the explanation, without the accused one. ``cause`` is
    the first of them and the accused tag, by their scores, with which the model clears the alarm, or None. ``chain``
    leads from the cause to the accused tag. ``limits`` are the least and the largest reading that the accused tag had
    in normal operation.
    """

    plant: Plant
    number: int
    row: dict[str, Any]
    begins: datetime
    seconds: int
    open_end: bool
    suspects: tuple[str, ...]
    cause: str | None
    chain: tuple[str, ...]
    limits: tuple[float, float]
    history: dict[str, str]  # what the accused tag and the suspects did until then, in words
    switched: str  # which actuators beside the accused tag were switched just before, in words

    @property
    def accused(self) -> str:
        """The tag that the alarm accuses."""
        return str(self.row["alarm"]["accused"])

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict on the accused tag, with its reading and what was expected."""
        found: dict[str, Any] = self.row["verdicts"][self.accused]
        return found

    @property
    def heading(self) -> str:
        """What is wrong, in a few words."""
        if self.is_out_of_range:
            side = "above" if self.row["alarm"]["deviation"] > 0 else "below"
            return f"{self.accused} {side} its normal range"
        return describe_mismatch(self.plant, self.accused, self.verdict["reading"], self.verdict["expected"])

    @property
    def is_out_of_range(self) -> bool:
        """Whether the alarm says of a sensor that it left the range of normal operation."""
        return self.row["alarm"]["reason"] == "range" and not self.plant[self.accused].is_actuator

    @property
    def verdict_words(self) -> str:
        """The suggested cause in a few words, for the list."""
        if self.cause is None:
            return "cause not known"
        return f"{self.accused} itself" if self.cause == self.accused else f"suggested cause: {self.cause}"

    def tell(self) -> str:
        """Say what happened."""
        plant, name, tag = self.plant, self.accused, self.plant[self.accused]
        if tag.is_actuator:
            sentences = [f"At {say_time(self.moment)} {self._tell_state(name, 'was')}."]
        elif self.is_out_of_range:
            # What was expected is within this range, also where the forecast is not; so it would mislead here.
            reading, normal = format_reading(plant, name, self.verdict["reading"]), say_range(plant, name, *self.limits)
            sentences = [
                f"At {say_time(self.moment)} {describe(plant, name)} read {reading}.",
                f"In normal operation it read {normal}.",
            ]
        else:
            reading, expected = format_pair(plant, name, self.verdict["reading"], self.verdict["expected"])
            sentences = [
                f"At {say_time(self.moment)} {describe(plant, name)} read {reading}; {expected} was expected.",
                f"Usually it reads {say_range(plant, name, *self.verdict['usual'])}.",
            ]
        if tag.note:
            sentences.append(f"{name} {tag.note}.")
        if self.history[name]:
            sentences.append(self.history[name])
        if self.switched:
            sentences.append(self.switched)
        if self.open_end:
            sentences.append("The alarm is still up at the end of the recording.")
        else:
            sentences.append(f"The alarm is up for {say_duration(self.seconds)}.")
        return " ".join(sentences)

    @property
    def moment(self) -> datetime:
        """The time of the step that is explained."""
        return self.begins + timedelta(seconds=(self.row["at"] - self.row["alarm"]["first"]) * self.plant.step)

    def explain(self) -> str:
        """Say what the cause may be, and whether the model would clear the alarm without it."""
        if self.cause is None:
            if not self.suspects:
                words = "Cause not known: no other tag explains this alarm, and the model does not clear it."
            else:
                words = (
                    f"Cause not known. The explanation points to {join_names(list(self.suspects))}, but with "
                    f"{'it' if len(self.suspects) == 1 else 'any one of them'} as expected this alarm would still be."
                )
            return f"{words} {self.tell_fewest()}".strip()
        if self.cause == self.accused:
            scores = self.row["causes"][0]["tags"]
            larger = [name for name in self.suspects if scores[name] > scores[self.accused]]
            why = "it has the largest part in this alarm, and with it as expected the alarm would not be"
            if larger:
                have, do = ("has", "it does") if len(larger) == 1 else ("have", "they do")
                why = (
                    f"{join_names(larger)} {have} a larger part in this alarm, but {do} not clear it; with "
                    f"{self.accused} as expected it would not be"
                )
            return (
                f"{self.accused} itself stands out: {why}. Either its reading is wrong, or something acts on it that "
                "no tag shows."
            )
        tag = f"{self.tell_tag(self.cause)} {self.history[self.cause]}".strip()
        return f"{tag} With {self.cause} as expected this alarm would not be."

    def tell_fewest(self) -> str:
        """Say with which fewest readings, as expected, the model clears the alarm; empty if that was not asked."""
        fewest = self.row["fewest"]
        if fewest is None:
            return ""
        as_it_is = "following its forecast" if self.row["what"] == "forecast" else "as it is"
        if not fewest["readings"]:
            return (
                f"With the reading of {self.accused} {as_it_is}, no set of up to {FEWEST} readings of others, or of "
                f"its own past, was found with which the model clears it ({fewest['tried']} tried)."
            )
        readings = [f"{name} {_say_before(before * self.plant.step)}" for name, before in fewest["readings"]]
        several = len(readings) > 1
        fewer = "" if not several else "; fewer do not" if fewest["smallest"] else "; fewer may do"
        return (
            f"With the reading of {self.accused} {as_it_is}, the model clears the alarm if {join_names(readings)} "
            f"{'are' if several else 'is'} as expected{fewer}."
        )

    def tell_foretold(self) -> str:
        """Say what the explanation foretold of the first other tag, and what the model answered; empty without it."""
        foretold = self.row["causes"][0]["foretold"]
        name = self.cause if self.cause in foretold else next(iter(self.suspects), None)
        if name not in foretold:
            return ""
        # F of a reading below its range is the forecast with its sign turned.
        below = self.row["what"] == "forecast" and self.row["alarm"]["deviation"] < 0
        p, model = ((-change if below else change) * self.row["span"] for change in foretold[name])
        unit = self.plant[self.accused].kind.unit
        noun = f"gap at {self.accused}" if self.row["what"] == "deviation" else f"forecast of {self.accused}"
        first, second = (f"{'-' if value < 0 else '+'}{format_number(abs(value))}" for value in (p, model))
        return (
            f"With {name} as expected the {noun} changes by {second}{f' {unit}' if unit else ''}, says "
            f"the model; the explanation foretold {first}."
        )

    def tell_tag(self, name: str) -> str:
        """Say what a tag reads, what was expected, and what is usual."""
        verdict = self.row["verdicts"][name]
        if self.plant[name].is_actuator:
            return f"{self._tell_state(name, 'is')}."
        reading, expected = format_pair(self.plant, name, verdict["reading"], verdict["expected"])
        usual = say_range(self.plant, name, *verdict["usual"])
        return f"{describe(self.plant, name)} reads {reading}, usually {usual}; {expected} was expected."

    def _tell_state(self, name: str, verb: str) -> str:
        """Say the state of an actuator; its forecast may be of the same state, but less sure of it than is usual."""
        plant, verdict = self.plant, self.row["verdicts"][name]
        state, forecast = (format_reading(plant, name, verdict[key]) for key in ("reading", "expected"))
        if state != forecast:
            return f"{describe(plant, name)} {verb} {state}; {_say_expected(forecast)}"
        reading, expected = format_pair(plant, name, verdict["reading"], verdict["expected"])
        close = "" if reading == expected else f", but not as closely as usual ({expected} for {reading})"
        return f"{describe(plant, name)} {verb} {state} and was expected to be{close}"

    def suggest(self) -> str:
        """Say what to check first."""
        name = self.cause or self.accused
        tag = self.plant[name]
        others = join_names(find_neighbours(self.plant, name))
        if self.cause is None:
            return f"Check {name} on site, and then its neighbours {others}. Nothing here says where it comes from."
        if tag.is_actuator:
            return f"Check whether {name} really is in this state, and what switched it. Compare {others}."
        return f"Check {name} at the instrument: does it read what is there? Compare {others}, its neighbours."


def find_findings(series: Series, scale: Scale, rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """Return what the page says of each alarm, in the order of time; ``scale`` knows the range of normal operation."""
    plant = series.plant
    found = []
    for number, row in enumerate(sorted(rows, key=lambda row: row["alarm"]["first"]), 1):
        alarm = row["alarm"]
        column = plant.column(alarm["accused"])
        suspects, cause = find_cause(row)
        paths = row["paths"].get(METHODS[0], {})
        chain = paths[cause]["tags"] if cause in paths else [] if cause is None else [cause, alarm["accused"]]
        found.append(
            Finding(
                plant,
                number,
                row,
                series.times[alarm["first"]].astype("datetime64[s]").item(),
                (alarm["last"] - alarm["first"] + 1) * plant.step,
                alarm["last"] >= len(series) - 1,
                suspects,
                cause,
                tuple(dict.fromkeys(chain)),
                (float(scale.low[column]), float(scale.high[column])),
                {
                    name: tell_history(series, name, row["at"], row["verdicts"][name]["expected"])
                    for name in (alarm["accused"], *suspects)
                },
                tell_switches(series, _list_beside(plant, column), row["at"]),
            )
        )
    return found


def _list_beside(plant: Plant, column: int) -> list[str]:
    return [plant.names[other] for other in np.flatnonzero(plant.adjacency[column].numpy()).tolist()]


def find_cause(row: dict[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """Return the suspects of an alarm, and its suggested cause.

    The cause is the first tag, in the order of the scores, with which as expected the model clears the alarm: a suspect
    or the accused tag itself. There is none if the model clears it with none of them.
    """
    accused = row["alarm"]["accused"]
    scores = row["causes"][0]["tags"]
    order = sorted(scores, key=lambda name: -scores[name])
    ranked = [name for name in order if scores[name] > 0.0]
    suspects = tuple(name for name in ranked if name != accused and name in row["verdicts"])[:_SUSPECTS]
    asked = (name for name in ranked if name == accused or name in suspects)
    return suspects, next((name for name in asked if row["verdicts"][name]["model"]), None)


def find_neighbours(plant: Plant, name: str) -> list[str]:
    """Return some neighbours of a tag, those of its own part of the plant first."""
    column = plant.column(name)
    others = np.flatnonzero(plant.adjacency[column].numpy()).tolist()
    own = plant.tags[column].part
    others.sort(key=lambda other: (plant.tags[other].part != own, plant.tags[other].is_actuator))
    return [plant.names[other] for other in others[:_NEIGHBOURS]]


def _say_before(seconds: int) -> str:
    return f"{say_duration(seconds)} before" if seconds else "now"


def _say_expected(expected: str) -> str:
    """Say what was expected of an actuator; a forecast may be no state."""
    known = expected.isalpha()
    return f"{expected} was expected" if known else f"that was not expected (forecast: {expected})"
