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

from graphfaith.output import write_file
from graphfaith.view.figure import render

from .causes import METHODS, NAMES, SHOWN, Cause
from .drawing import plan, plan_page, readings
from .scoring import Event
from .series import Series
from .study import BACKWASH, FLOW, FLOW_AGAIN, Case, Monitor
from .tables import causes_table, detection_table, markdown, percent
from .tags import TAGS
from .words import described, listed, reading

_DPI = 110
_STRONG = 0.15  # of the largest score: weaker tags are not named


@dataclass(frozen=True)
class Told:
    """One alarm with its causes, and the number of its page."""

    number: int
    event: Event
    causes: tuple[Cause, ...]
    paths: dict[str, list[dict[str, Any] | None]]

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
        )
        for number, alarm in enumerate(study["alarms"], 1)
    ]


def write_report(
    folder: Path, case: Case, monitor: Monitor, study: dict[str, Any], results: dict[str, Any], source: str
) -> list[Path]:
    """Write pages and pictures into ``folder``; returns them, the report first. ``study`` is the one that is drawn."""
    told = alarms_of(study)
    windows, steps, errors = monitor.judge(case.attacked)
    scaled = windows.y.double().numpy() - errors
    forecast = scaled * monitor.scale.span.numpy() + monitor.scale.low.numpy()
    paths = []
    for alarm in told:
        path = folder / alarm.page
        plan_page(alarm.causes, alarm.event, _heading(alarm), path)
        paths.append(path)
    chosen = [alarm for alarm in told if alarm.event.number in (BACKWASH, FLOW, FLOW_AGAIN) and alarm.event.attacked]
    chosen = chosen or told[:3]
    pictures = {}
    for alarm in chosen:
        for suffix in (".png", ".pdf"):
            path = folder / f"attack-{alarm.event.number}{suffix}"
            content = render(plan(alarm.causes, alarm.event), suffix, _DPI)
            write_file(path, content)
            paths.append(path)
            if suffix == ".png":
                pictures[alarm.number] = content
    body = "\n".join(
        [
            _detection(results),
            _faithfulness(results),
            _figures(chosen, pictures),
            *(_alarm(alarm, case.attacked, steps, forecast) for alarm in told),
            _missed(study),
        ]
    )
    report = folder / "report.html"
    write_file(report, _page(f"Alarms of {source}", _about(results, study), body).encode())
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
    many = f"Numbers are means of {count} seeds; pictures and alarms are of seed {study['marks']['seed']}. "
    return (
        f"{many if count > 1 else ''}A graph neural network forecasts every tag from its neighbours. Where a reading "
        "is far from the forecast there is an alarm, and the tag is accused. An explanation says which tags and edges "
        "made the model expect something else, and how far the explanation itself can be believed."
    )


def _detection(results: dict[str, Any]) -> str:
    return f"<h2>Detection</h2>{_table(*detection_table(results))}"


def _faithfulness(results: dict[str, Any]) -> str:
    alarms = results["causes"][METHODS[0]]["alarms"]
    return (
        "<h2>How far to believe the explanations</h2><p>Unexplained is the share of the model's change that an "
        "explanation misses when edges, readings, or both move a little, on samples it was not fitted to. Means of "
        f"{alarms} alarms, with standard errors over seeds and attacks.</p>{_table(*causes_table(results))}"
    )


def _figures(chosen: Sequence[Told], pictures: dict[int, bytes]) -> str:
    parts = ["<h2>Three attacks, four methods</h2>"]
    parts += [f"<h3>{html.escape(_heading(one))}</h3>{_image(pictures[one.number], _heading(one))}" for one in chosen]
    return "\n".join(parts) if chosen else ""


# One alarm --------------------------------------------------------------------------------------------------------


def _heading(alarm: Told) -> str:
    event = alarm.event
    way = "too high" if event.deviation > 0 else "too low"
    return f"Alarm {alarm.number}: {TAGS[event.accused or 0]} {way}, attack {event.number}"


def _alarm(alarm: Told, series: Series, steps: Any, forecast: Any) -> str:
    event = alarm.event
    assert event.accused is not None
    assert event.step is not None
    tag = TAGS[event.accused]
    expected = float(forecast[int(np.searchsorted(steps, event.step)), event.accused])
    actual = float(series.values[event.step, event.accused])
    best = alarm.causes[0]
    when = str(series.times[event.step]).replace("T", " ")
    picture = render(readings(series, steps, forecast, event), ".png", _DPI)
    drawn = render(plan([best], event), ".png", _DPI)
    share = best.relative[SHOWN]
    lines = [
        f"<section class='alarm'><h2>{html.escape(_heading(alarm))}</h2>",
        f"<p>At {when} {described(tag)} read <strong>{reading(tag, actual)}</strong>; the model expected "
        f"<strong>{reading(tag, expected)}</strong>.</p>",
        f"<p>{_who(best)} This explanation, by {NAMES[best.method]}, leaves {percent(share)} of the model's change "
        f"unexplained. {_truth(event)}</p>",
        f"<p>{_way(alarm)}</p>" if _way(alarm) else "",
        _image(picture, f"Readings and forecast around alarm {alarm.number}"),
        _image(drawn, f"Explanation of alarm {alarm.number} on the plan of the plant"),
        f"<p><a href='{alarm.page}'>All methods, to explore</a></p></section>",
    ]
    return "\n".join(line for line in lines if line)


def _who(cause: Cause) -> str:
    """Which tags widened the gap and which narrowed it, strongest first."""
    order = np.argsort(-np.abs(cause.tags), kind="stable")
    strong = [i for i in order[:6] if abs(cause.tags[i]) >= _STRONG * abs(cause.tags[order[0]]) and cause.tags[i] != 0]
    widened = [described(TAGS[i]) for i in strong if cause.tags[i] > 0]
    narrowed = [described(TAGS[i]) for i in strong if cause.tags[i] < 0]
    said = []
    if widened:
        said.append(f"What made the gap: the unusual readings of {listed(widened)}.")
    if narrowed:
        said.append(f"Against it spoke {listed(narrowed)}.")
    return " ".join(said) or "No tag was unusual before: the reading itself is all there is."


def _way(alarm: Told) -> str:
    """The strongest way from an attacked tag to the accused one, if the model looks so far."""
    told = []
    for tag, path in zip(alarm.event.attacked, alarm.paths[alarm.causes[0].method], strict=True):
        if tag == alarm.event.accused:
            continue
        if path is None:
            told.append(f"{TAGS[tag]}, which was attacked, is further away than the model looks.")
        else:
            sign = "for" if path["sign"] > 0 else "against"
            told.append(f"The strongest way from {TAGS[tag]}: {' → '.join(path['tags'])} (speaks {sign} it).")
    return " ".join(told)


def _truth(event: Event) -> str:
    if not event.attacked:
        return "Which tags were attacked is not recorded."
    names = listed([TAGS[tag] for tag in event.attacked])
    right = event.accused_is_attacked
    verdict = (
        "<span class='right'>rightly accused</span>" if right else "<span class='wrong'>not the accused tag</span>"
    )
    return f"In truth {names} {'was' if len(event.attacked) == 1 else 'were'} attacked: {verdict}."


def _missed(study: dict[str, Any]) -> str:
    rows = [
        [f"attack {row['attack']}", ", ".join(row["attacked"]) or "not recorded"]
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
    return resources.files("graphfaith.swat").joinpath("assets", name).read_text(encoding="utf-8")
