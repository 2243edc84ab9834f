"""The report: a page that who runs the plant can read, one alarm a section, with its pictures and its numbers."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from graphfaith._base.files import write_file
from graphfaith.view.figure import render

from .causes import METHODS, NAMES, SHOWN, Cause
from .drawing import plan, plan_page, readings
from .scoring import Event
from .series import STEP, Series
from .study import BACKWASH, FLOW, FLOW_AGAIN, Case, Monitor
from .tables import agreement_table, causes_table, detection_table, found_table, markdown, percent, story_table
from .tags import TAGS
from .words import described, listed, mismatch, told

_DPI = 110
_COUNTS = 0.1  # of the gap: what did less is not named


@dataclass(frozen=True)
class Told:
    """One alarm with its causes, and the number of its page."""

    number: int
    event: Event
    causes: tuple[Cause, ...]
    paths: dict[str, list[dict[str, Any] | None]]
    gap: float
    unusual: dict[str, float]

    @property
    def page(self) -> str:
        """The file with the alarm to explore."""
        return f"alarm-{self.number:02d}.html"


def alarms_of(study: dict[str, Any]) -> list[Told]:
    """The alarms of a study, in the order of time."""
    return [
        Told(
            number,
            Event.from_json(alarm["event"]),
            tuple(Cause.from_json(row) for row in alarm["causes"]),
            alarm["paths"],
            alarm["gap"],
            alarm["unusual"],
        )
        for number, alarm in enumerate(study["alarms"], 1)
    ]


@dataclass(frozen=True)
class Scene:
    """What an alarm is drawn from: the series, and the forecasts [n, 51] at its steps [n], in the tags' own units."""

    series: Series
    steps: Any
    forecast: Any
    what: str

    def at(self, event: Event) -> tuple[float, float]:
        """Reading and forecast of the accused tag at the alarm."""
        row = int(np.searchsorted(self.steps, event.step or 0))
        return float(self.series.values[event.step or 0, event.accused or 0]), float(
            self.forecast[row, event.accused or 0]
        )

    def heading(self, alarm: Told) -> str:
        """The accused tag, and what was wrong with it."""
        wrong = mismatch(TAGS[alarm.event.accused or 0], *self.at(alarm.event))
        during = f"attack {alarm.event.number}" if alarm.event.attacked else f"stretch {alarm.event.number}"
        return f"Alarm {alarm.number}: {wrong} ({during})"


def write_report(
    folder: Path, case: Case, monitor: Monitor, study: dict[str, Any], results: dict[str, Any]
) -> list[Path]:
    """Write pages and pictures into ``folder``; returns them, the report first. ``study`` is the one that is drawn."""
    alarms = alarms_of(study)
    windows, steps, errors = monitor.judge(case.attacked)
    scaled = windows.y.double().numpy() - errors
    forecast = scaled * monitor.scale.span.numpy() + monitor.scale.low.numpy()
    scene = Scene(case.attacked, steps, forecast, results["what"])
    paths = []
    for alarm in alarms:
        path = folder / alarm.page
        plan_page(alarm.causes, alarm.event, scene.heading(alarm), path)
        paths.append(path)
    chosen = [alarm for alarm in alarms if alarm.event.number in (BACKWASH, FLOW, FLOW_AGAIN) and alarm.event.attacked]
    chosen = chosen or alarms[:3]
    pictures = {}
    for alarm in chosen:
        for suffix in (".png", ".pdf"):
            path = folder / f"attack-{alarm.event.number}{suffix}"
            content = render(plan(alarm.causes, alarm.event), suffix, _DPI)
            write_file(path, content)
            paths.append(path)
            if suffix == ".png":
                pictures[alarm.number] = content
    sections = [_alarm(alarm, scene) for alarm in alarms]
    evaluation = [_detection(results), _faithfulness(results), _figures(chosen, pictures, scene), _story(results)]
    body = "\n".join([*sections, _others(study, case.attacked), _missed(study), *evaluation])
    report = folder / "report.html"
    write_file(report, _page(f"Alarms of {results['source']}", _about(results, study), body).encode())
    tables = folder / "results.md"
    write_file(tables, markdown(results).encode())
    return [report, tables, *paths]


# The whole --------------------------------------------------------------------------------------------------------


def _page(title: str, about: str, body: str) -> str:
    style = _asset("report.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return Template(_asset("report.html")).substitute(
        policy=policy, title=html.escape(title), style=style, about=about, body=body
    )


def _about(results: dict[str, Any], study: dict[str, Any]) -> str:
    count = len(results["seeds"])
    blue = "raised the forecast" if results["what"] == "forecast" else "widened the gap between reading and forecast"
    seeds = (
        f" Alarms and pictures are of seed {study['marks']['seed']}, numbers means of {count} seeds."
        if count > 1
        else ""
    )
    return (
        "A model forecasts every tag from its neighbours in the plant. Where a reading is far from the forecast there "
        "is an alarm, and the tag is accused. In the pictures the accused tag is grey; what "
        f"{blue} is blue, what did the opposite red and dashed; a star marks what was attacked.{seeds}"
    )


def _detection(results: dict[str, Any]) -> str:
    return f"<h2>Detection</h2>{_table(*detection_table(results))}"


def _faithfulness(results: dict[str, Any]) -> str:
    alarms = results["causes"][METHODS[0]]["alarms"]
    return (
        "<h2>How far to believe the explanations</h2><p>Unexplained is the share of the model's change that an "
        "explanation misses when edges, readings, or both move a little, on samples it was not fitted to. Means of "
        f"{alarms} alarms, with standard errors over seeds and attacks.</p>{_table(*causes_table(results))}"
        + (
            "<h3>Whether they find the attacked tag</h3><p>A tag beyond the model's reach has no score, so chance is a "
            f"random order of those within it.</p>{_table(*found_table(results))}"
            if results["truth"]
            else ""
        )
    )


def _figures(chosen: Sequence[Told], pictures: dict[int, bytes], scene: Scene) -> str:
    parts = ["<h2>Methods side by side</h2>"]
    for one in chosen:
        words = scene.heading(one)
        parts.append(f"<h3>{html.escape(words)}</h3>{_image(pictures[one.number], words)}")
    return "\n".join(parts) if chosen else ""


def _story(results: dict[str, Any]) -> str:
    if not results["truth"]:
        return ""
    return (
        "<h2>The paper's story of attack 8</h2><p>In the paper P601 is accused, and its explanation leads over P602 to "
        f"DPIT301.</p>{_table(*story_table(results))}<h3>How alike the two attacks on FIT401 are explained</h3>"
        "<p>Rank correlations, where both accuse the same tag.</p>"
        f"{_table(*agreement_table(results))}"
    )


def _others(study: dict[str, Any], series: Series) -> str:
    rows = [
        [
            str(series.times[one["first"]]).replace("T", " "),
            described(one["accused"]),
            f"{(one['last'] - one['first'] + 1) * STEP} s",
            "within ten minutes after an attack" if one["after_an_attack"] else "no attack near",
        ]
        for one in study["other_alarms"]
    ]
    heads = ["time", "accused", "lasted", ""]
    return f"<h2>Alarms outside of attacks</h2>{_table(heads, rows)}" if rows else ""


# One alarm --------------------------------------------------------------------------------------------------------


def _alarm(alarm: Told, scene: Scene) -> str:
    event = alarm.event
    assert event.accused is not None
    assert event.step is not None
    tag, best = TAGS[event.accused], alarm.causes[0]
    actual, expected = told(tag, *scene.at(event))
    when = str(scene.series.times[event.step]).replace("T", " ")
    heading = scene.heading(alarm)
    picture = render(readings(scene.series, scene.steps, scene.forecast, event), ".png", _DPI)
    drawn = render(plan([best], event), ".png", _DPI)
    first = [TAGS[i] for i in np.argsort(-np.abs(best.tags), kind="stable")[:4] if best.tags[i] and TAGS[i] != tag][:3]
    close = f"a tenth of a tag's usual span, it misses {percent(best.relative[SHOWN])} of what the model does"
    lines = [
        f"<section class='alarm'><h2>{html.escape(heading)}</h2>",
        f"<p>At {when} {described(tag)} read <strong>{actual}</strong>; the model expected "
        f"<strong>{expected}</strong>. {_before(alarm)}</p>",
        f"<p>Look first at {listed([described(name) for name in (tag, *first)])}: that is where the explanation, by "
        f"{NAMES[best.method]}, is strongest. Within {close}. {_way(alarm, scene.what)}</p>",
        _image(picture, f"Readings and forecast around alarm {alarm.number}"),
        _image(drawn, f"Explanation of alarm {alarm.number} on the plan of the plant"),
        f"<p class='note'>{_truth(event)} <a href='{alarm.page}'>All methods, to explore</a></p></section>",
    ]
    return "\n".join(lines)


def _before(alarm: Told) -> str:
    """What the unusual readings of other tags did to the gap, by the model itself, as far as it counts."""
    tag = TAGS[alarm.event.accused or 0]
    counts = sorted(alarm.unusual.items(), key=lambda one: -abs(one[1]))
    counts = [(name, did) for name, did in counts if name != tag and abs(did) >= _COUNTS * alarm.gap][:4]
    if not counts:
        return "Nothing in the other readings before it foretold this: the reading itself jumped."
    said = []
    for words, sign in (("widened", 1), ("narrowed", -1)):
        names = [described(name) for name, did in counts if did * sign > 0]
        if names:
            said.append(f"the unusual readings of {listed(names)} {words} the gap")
    return f"Before it, {' and '.join(said)}."


def _way(alarm: Told, what: str) -> str:
    """The way from an attacked tag to the accused one that counts most, if the model looks so far."""
    does = ("raises", "lowers", "the forecast") if what == "forecast" else ("widens", "narrows", "the gap")
    said = []
    for tag, path in zip(alarm.event.attacked, alarm.paths[alarm.causes[0].method], strict=True):
        if tag == alarm.event.accused:
            continue
        if path is None:
            said.append(f"{TAGS[tag]} is further away than the model looks.")
        else:
            verb = does[0] if path["score"] > 0 else does[1]
            said.append(f"The way from {TAGS[tag]} that counts most, {' → '.join(path['tags'])}, {verb} {does[2]}.")
    return " ".join(said)


def _truth(event: Event) -> str:
    if not event.attacked:
        return "Which tags were attacked is not recorded."
    names = listed([TAGS[tag] for tag in event.attacked])
    right = event.accused_is_attacked
    verdict = "<span class='right'>rightly</span>" if right else "<span class='wrong'>another tag</span>"
    return f"For the record: {names} {'was' if len(event.attacked) == 1 else 'were'} attacked; accused: {verdict}."


def _missed(study: dict[str, Any]) -> str:
    rows = [
        [f"{'attack' if row['attacked'] else 'stretch'} {row['attack']}", ", ".join(row["attacked"]) or "not recorded"]
        for row in study["attacks"]
        if not row["detected"]
    ]
    return f"<h2>Attacks without an alarm</h2>{_table(['', 'attacked'], rows)}" if rows else ""


# Pieces -----------------------------------------------------------------------------------------------------------


def _image(content: bytes, words: str) -> str:
    data = base64.b64encode(content).decode()
    return f"<img alt='{html.escape(words, quote=True)}' src='data:image/png;base64,{data}'>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th scope='col'>{html.escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='scroll' tabindex='0'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


@cache
def _asset(name: str) -> str:
    return resources.files("graphfaith_studies.swat").joinpath("assets", name).read_text(encoding="utf-8")
