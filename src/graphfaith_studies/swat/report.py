"""The report for the operators of the plant: a page with one section per alarm, with pictures and numbers."""

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

from .causes import METHODS, NAMES, REACH, SHOWN, Cause
from .drawing import draw_plan, draw_readings, write_plan_page
from .scoring import Event
from .series import STEP, Series
from .study import BACKWASH, FLOW, FLOW_AGAIN, Case, Monitor
from .tables import agreement_table, causes_table, detection_table, format_percent, found_table, markdown, story_table
from .tags import TAGS
from .words import describe, describe_mismatch, format_pair, join_names

REPORT = ("report.html", "results.md")  # the files that hold the alarms and the tables
_DPI = 110
_COUNTS = 0.1  # share of the gap; the text does not name tags with a smaller effect


@dataclass(frozen=True)
class ReportedAlarm:
    """One alarm with its causes and the number of its page."""

    number: int
    event: Event
    causes: tuple[Cause, ...]
    paths: dict[str, list[dict[str, Any] | None]]
    gap: float
    unusual: dict[str, float]

    @property
    def page(self) -> str:
        """The name of the file with the interactive page of the alarm."""
        return f"alarm-{self.number:02d}.html"


def alarms_of(study: dict[str, Any]) -> list[ReportedAlarm]:
    """Return the alarms of a study in the order of time."""
    return [
        ReportedAlarm(
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
    """The data behind the alarms: the series, and the forecasts [n, 51] at its steps [n], in the units of the tags."""

    series: Series
    steps: Any
    forecast: Any
    what: str

    def at(self, event: Event) -> tuple[float, float]:
        """Return the reading and the forecast of the accused tag at the alarm."""
        row = int(np.searchsorted(self.steps, event.step or 0))
        return float(self.series.values[event.step or 0, event.accused or 0]), float(
            self.forecast[row, event.accused or 0]
        )

    def heading(self, alarm: ReportedAlarm) -> str:
        """Return a heading with the accused tag and the difference between its reading and its forecast."""
        difference = describe_mismatch(TAGS[alarm.event.accused or 0], *self.at(alarm.event))
        during = f"attack {alarm.event.number}" if alarm.event.attacked else f"stretch {alarm.event.number}"
        return f"Alarm {alarm.number}: {difference} ({during})"


def write_report(
    folder: Path, case: Case, monitor: Monitor, study: dict[str, Any], results: dict[str, Any]
) -> list[Path]:
    """Write pages and pictures into ``folder``, and return their paths, the report first.

    The alarms and pictures are those of ``study``.
    """
    alarms = alarms_of(study)
    windows, steps, errors = monitor.judge(case.attacked)
    scaled = windows.y.double().numpy() - errors
    forecast = scaled * monitor.scale.span.numpy() + monitor.scale.low.numpy()
    scene = Scene(case.attacked, steps, forecast, results["what"])
    paths = []
    for alarm in alarms:
        path = folder / alarm.page
        write_plan_page(alarm.causes, alarm.event, scene.heading(alarm), path)
        paths.append(path)
    chosen = [alarm for alarm in alarms if alarm.event.number in (BACKWASH, FLOW, FLOW_AGAIN) and alarm.event.attacked]
    chosen = chosen or alarms[:3]
    pictures = {}
    for alarm in chosen:
        for suffix in (".png", ".pdf"):
            path = folder / f"attack-{alarm.event.number}{suffix}"
            content = render(draw_plan(alarm.causes, alarm.event), suffix, _DPI)
            write_file(path, content)
            paths.append(path)
            if suffix == ".png":
                pictures[alarm.number] = content
    sections = [_render_alarm(alarm, scene) for alarm in alarms]
    evaluation = [
        _render_detection(results),
        _render_faithfulness(results),
        _render_figures(chosen, pictures, scene),
        _render_story(results),
    ]
    body = "\n".join([*sections, _render_others(study, case.attacked), _render_missed(study), *evaluation])
    report, tables = (folder / name for name in REPORT)
    write_file(report, _render_page(f"Alarms of {results['source']}", _introduce(results, study), body).encode())
    write_file(tables, markdown(results).encode())
    return [report, tables, *paths]


# The page and its parts -------------------------------------------------------------------------------------------


def _render_page(title: str, about: str, body: str) -> str:
    style = _asset("report.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return Template(_asset("report.html")).substitute(
        policy=policy, title=html.escape(title), style=style, about=about, body=body
    )


def _introduce(results: dict[str, Any], study: dict[str, Any]) -> str:
    count = len(results["seeds"])
    blue = "raised the forecast" if results["what"] == "forecast" else "widened the gap between reading and forecast"
    seeds = (
        f" Alarms and pictures are those of seed {study['marks']['seed']}; the numbers are means over {count} seeds."
        if count > 1
        else ""
    )
    return (
        "A model forecasts every tag from its neighbours in the plant. When a reading is far from its forecast, there "
        "is an alarm, and the tag of that reading is accused. In the pictures the accused tag is grey. Tags and edges "
        f"that {blue} are blue; those that did the opposite are red and dashed. A star marks each attacked tag.{seeds}"
    )


def _render_detection(results: dict[str, Any]) -> str:
    return f"<h2>Detection</h2>{_table(*detection_table(results))}"


def _render_faithfulness(results: dict[str, Any]) -> str:
    alarms = results["causes"][METHODS[0]]["alarms"]
    return (
        "<h2>How far the explanations can be believed</h2><p>The unexplained share is the part of the model's change "
        "that an explanation misses when edges, readings, or both change a little. It is measured on samples that were "
        f"not used to fit the explanation. The table shows means over {alarms} alarms, with standard errors over seeds "
        f"and attacks.</p>{_table(*causes_table(results))}"
        + (
            "<h3>Whether they find the attacked tag</h3><p>The table compares the methods with a random order of the "
            "tags within the model's reach, because all other tags have a score of zero.</p>"
            f"{_table(*found_table(results))}"
            if results["truth"]
            else ""
        )
    )


def _render_figures(chosen: Sequence[ReportedAlarm], pictures: dict[int, bytes], scene: Scene) -> str:
    parts = ["<h2>Methods side by side</h2>"]
    for alarm in chosen:
        heading = scene.heading(alarm)
        parts.append(f"<h3>{html.escape(heading)}</h3>{_image(pictures[alarm.number], heading)}")
    return "\n".join(parts) if chosen else ""


def _render_story(results: dict[str, Any]) -> str:
    if not results["truth"]:
        return ""
    return (
        "<h2>The paper's story of attack 8</h2><p>In the paper the model accuses P601, and the explanation leads over "
        f"P602 to DPIT301.</p>{_table(*story_table(results))}<h3>Agreement on the two attacks on FIT401</h3>"
        "<p>The table shows rank correlations between the explanations of the two attacks, over the seeds in which "
        "both alarms accuse the same tag.</p>"
        f"{_table(*agreement_table(results))}"
    )


def _render_others(study: dict[str, Any], series: Series) -> str:
    rows = [
        [
            str(series.times[alarm["first"]]).replace("T", " "),
            describe(alarm["accused"]),
            f"{(alarm['last'] - alarm['first'] + 1) * STEP} s",
            "within ten minutes after an attack" if alarm["after_an_attack"] else "no attack near",
        ]
        for alarm in study["other_alarms"]
    ]
    heads = ["time", "accused", "duration", ""]
    return f"<h2>Alarms outside of attacks</h2>{_table(heads, rows)}" if rows else ""


# One alarm --------------------------------------------------------------------------------------------------------


def _render_alarm(alarm: ReportedAlarm, scene: Scene) -> str:
    event = alarm.event
    assert event.accused is not None
    assert event.step is not None
    tag, best = TAGS[event.accused], alarm.causes[0]
    actual, expected = format_pair(tag, *scene.at(event))
    when = str(scene.series.times[event.step]).replace("T", " ")
    heading = scene.heading(alarm)
    picture = render(draw_readings(scene.series, scene.steps, scene.forecast, event), ".png", _DPI)
    drawn = render(draw_plan([best], event), ".png", _DPI)
    first = [TAGS[i] for i in np.argsort(-np.abs(best.tags), kind="stable")[:4] if best.tags[i] and TAGS[i] != tag][:3]
    missed = format_percent(best.relative[SHOWN])
    shown = "" if best.shown is None else f" (these scores alone {format_percent(best.shown[0])})"
    lines = [
        f"<section class='alarm'><h2>{html.escape(heading)}</h2>",
        f"<p>At {when} {describe(tag)} read <strong>{actual}</strong>; the model expected "
        f"<strong>{expected}</strong>. {_describe_effects(alarm)}</p>",
        f"<p>Look first at {join_names([describe(name) for name in (tag, *first)])}: these are the accused tag and the "
        f"tags with the largest scores in the explanation by {NAMES[best.method]}. When readings change by up to a "
        f"tenth of a tag's usual span, and edges change too, the explanation misses {missed} of the model's "
        f"change{shown}. "
        f"{_describe_paths(alarm, scene.what)}</p>",
        _image(picture, f"Readings and forecast around alarm {alarm.number}"),
        _image(drawn, f"Explanation of alarm {alarm.number} on the plan of the plant"),
        f"<p class='note'>{_compare_with_truth(event)}",
        f"<a href='{alarm.page}'>All methods, to explore</a></p></section>",
    ]
    return "\n".join(lines)


def _describe_effects(alarm: ReportedAlarm) -> str:
    """Describe the effects of the other tags' unusual readings on the gap, without the small ones."""
    tag = TAGS[alarm.event.accused or 0]
    effects = sorted(alarm.unusual.items(), key=lambda item: -abs(item[1]))
    effects = [(name, effect) for name, effect in effects if name != tag and abs(effect) >= _COUNTS * alarm.gap][:4]
    if not effects:
        return "The earlier readings of the other tags do not explain the gap: the reading itself jumped."
    clauses = []
    for verb, sign in (("widened", 1), ("narrowed", -1)):
        names = [describe(name) for name, effect in effects if effect * sign > 0]
        if names:
            clauses.append(f"the unusual readings of {join_names(names)} {verb} the gap")
    return f"Before the alarm, {' and '.join(clauses)}."


def _describe_paths(alarm: ReportedAlarm, what: str) -> str:
    """Describe the strongest path from each attacked tag to the accused one, if the model reaches that far."""
    verbs = ("raises", "lowers", "the forecast") if what == "forecast" else ("widens", "narrows", "the gap")
    sentences = []
    for tag, path in zip(alarm.event.attacked, alarm.paths[alarm.causes[0].method], strict=True):
        if tag == alarm.event.accused:
            continue
        if path is None:
            sentences.append(f"{TAGS[tag]} is more than {REACH} edges away, and so the forecast does not depend on it.")
        else:
            verb = verbs[0] if path["score"] > 0 else verbs[1]
            sentences.append(f"The strongest path from {TAGS[tag]}, {' → '.join(path['tags'])}, {verb} {verbs[2]}.")
    return " ".join(sentences)


def _compare_with_truth(event: Event) -> str:
    if not event.attacked:
        return "Which tags were attacked is not recorded."
    names = join_names([TAGS[tag] for tag in event.attacked])
    verb = "was" if len(event.attacked) == 1 else "were"
    if event.accused_is_attacked:
        return f"{names} {verb} attacked; the alarm accused <span class='right'>an attacked tag</span>."
    return f"{names} {verb} attacked; the alarm accused <span class='wrong'>another tag</span>."


def _render_missed(study: dict[str, Any]) -> str:
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
