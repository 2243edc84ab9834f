"""The operator's page: a list of the alarms on a time line, and one screen an alarm.

A screen says what happened, draws the plan of the plant with the chain from the suggested cause, shows the readings,
and suggests what to check. It says "cause not known" where the model does not clear the alarm. The page has no script
and needs none. It does not say whether there was an attack: `answers` writes a page of its own for that.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

import numpy as np

from graphfaith._base.files import write_file

from .causes import METHODS, NAMES
from .chart import Array, draw_chart
from .findings import Finding
from .monitor import Monitor, Watched
from .plan import Plan
from .series import Series
from .tables import format_percent
from .words import format_reading, join_names, say_duration, say_range, say_time

PAGE: Final = "report.html"
_ON_A_PAGE: Final = 100  # alarms; a page of so many has less than a megabyte
_LINE_WIDTH, _LINE_HEIGHT = 1100, 64


def write_pages(
    folder: Path, title: str, watched: Watched, monitor: Monitor, found: Sequence[Finding], notices: Sequence[str] = ()
) -> list[Path]:
    """Write the page, or several if there are many alarms, and return their paths, the first one first."""
    plan, forecast = Plan(watched.series.plant), find_forecasts(watched, monitor)
    parts = [found[low : low + _ON_A_PAGE] for low in range(0, max(len(found), 1), _ON_A_PAGE)]
    names = [PAGE, *(f"report-{number}.html" for number in range(2, len(parts) + 1))]
    files = {finding.number: name for name, part in zip(names, parts, strict=True) for finding in part}
    paths = []
    for name, part in zip(names, parts, strict=True):
        body = [plan.define(), "<a class='skip' href='#alarms'>To the list of alarms</a>"]
        body.append(_introduce(title, watched.series, found, notices) if name == PAGE else _refer(title))
        if name == PAGE:
            body += [_draw_line(watched.series, found, files), _list_alarms(found, files)]
        body += [_render_alarm(finding, watched.series, forecast, plan, files) for finding in part]
        write_file(folder / name, render_page(title, "\n".join(body)).encode())
        paths.append(folder / name)
    return paths


def find_forecasts(watched: Watched, monitor: Monitor) -> Array:
    """Return the forecasts [T, n] in the units of the tags, NaN where there is none."""
    forecast = watched.series.values - watched.errors * monitor.scale.span.numpy()
    unknown = np.ones(len(watched.series), dtype=bool)
    unknown[watched.series.targets] = False
    forecast[unknown] = np.nan
    return np.asarray(forecast)


def render_page(title: str, body: str) -> str:
    """Return a page with the style of all pages; ``body`` is HTML, in which texts are escaped."""
    style = _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return Template(_asset("page.html")).substitute(policy=policy, title=html.escape(title), style=style, body=body)


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "", escaped: bool = False) -> str:
    """Return a table that scrolls if it is wide; with ``escaped`` the cells of the rows are HTML already."""
    top = "".join(f"<th scope='col'>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if escaped else html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<div class='scroll' tabindex='0' role='group' aria-label='table'><table class='{kind}'>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


# The list and the time line ---------------------------------------------------------------------------------------


def _introduce(title: str, series: Series, found: Sequence[Finding], notices: Sequence[str]) -> str:
    moments = [series.times[row].astype("datetime64[s]").item() for row in (0, -1)]
    first, last = (f"{moment.day} {moment:%B %Y %H:%M}" for moment in moments)
    itself = sum(finding.cause == finding.accused for finding in found)
    unknown = sum(finding.cause is None for finding in found)
    others = len(found) - itself - unknown
    counts = [
        f"in {itself} the tag itself stands out" if itself else "",
        f"in {others} another tag is suggested as the cause" if others else "",
        f"in {unknown} the cause is not known" if unknown else "",
    ]
    kinds = ", ".join(filter(None, counts))
    text = (
        f"<header><h1>{html.escape(title)}</h1><p>{len(found)} alarm{'' if len(found) == 1 else 's'} from {first} to "
        f"{last}{': ' if kinds else ''}{kinds}. An alarm is raised when a tag reads far from what its neighbours and "
        "its own past let expect, or far outside of what it read in normal operation.</p>"
    )
    if notices:
        items = "".join(f"<li>{html.escape(notice)}</li>" for notice in notices)
        text += f"<details><summary>What was mended in the files</summary><ul>{items}</ul></details>"
    return text + "</header>"


def _refer(title: str) -> str:
    link = f"<a href='{PAGE}#alarms'>List of all alarms</a>"
    return f"<header><h1>{html.escape(title)}</h1><p>Further alarms. {link}</p></header>"


def _draw_line(series: Series, found: Sequence[Finding], files: dict[int, str]) -> str:
    begin, end = (series.times[row].astype("datetime64[s]").astype(np.int64) for row in (0, -1))
    length = max(int(end - begin), 1)
    parts = [
        f"<div class='scroll' tabindex='0' role='group' aria-label='time line'><svg class='line' "
        f"viewBox='0 0 {_LINE_WIDTH} {_LINE_HEIGHT}' role='group' aria-label='Alarms on a time line'>"
        f"<path class='axis' d='M0 40H{_LINE_WIDTH}'/>"
    ]
    for finding in found:
        first, last = finding.row["alarm"]["first"], finding.row["alarm"]["last"]
        moments = [series.times[row].astype("datetime64[s]").astype(np.int64) for row in (first, last)]
        x = (int(moments[0]) - begin) / length * (_LINE_WIDTH - 6)
        width = max((int(moments[1]) - int(moments[0])) / length * (_LINE_WIDTH - 6), 4)
        unknown = " unknown" if finding.cause is None else ""
        words = html.escape(f"Alarm {finding.number}, {say_time(finding.begins)}: {finding.heading}", quote=True)
        parts.append(
            f"<a href='{_link(finding, files)}' aria-label='{words}'><rect class='mark{unknown}' x='{x:.1f}' y='12' "
            f"width='{width:.1f}' height='24'><title>{words}</title></rect></a>"
        )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        moment = np.datetime64(int(begin + share * length), "s").item()
        text = f"{moment.day} {moment:%b}" + (f" {moment:%H:%M}" if length < 14 * 86_400 else f" {moment:%Y}")
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        place = f"text-anchor='{anchor}' x='{share * _LINE_WIDTH:.0f}' y='{_LINE_HEIGHT - 6}'"
        parts.append(f"<text class='tick' {place}>{text}</text>")
    key = any(finding.cause is None for finding in found)
    return "".join(parts) + "</svg></div>" + ("<p class='note'>Orange: cause not known.</p>" if key else "")


def _list_alarms(found: Sequence[Finding], files: dict[int, str]) -> str:
    rows = [
        [
            f"<a href='{_link(finding, files)}'>{finding.number}</a>",
            html.escape(say_time(finding.begins)),
            say_duration(finding.seconds),
            html.escape(finding.heading),
            html.escape(finding.verdict_words),
        ]
        for finding in found
    ]
    table = render_table(["alarm", "begins", "lasts", "what", "cause"], rows, "list", escaped=True)
    return f"<nav id='alarms' aria-label='Alarms'><h2>Alarms</h2>{table if rows else '<p>There was none.</p>'}</nav>"


def _link(finding: Finding, files: dict[int, str]) -> str:
    name = files[finding.number]
    return f"{'' if name == PAGE else name}#alarm-{finding.number}"


# One alarm --------------------------------------------------------------------------------------------------------


def _render_alarm(finding: Finding, series: Series, forecast: Array, plan: Plan, files: dict[int, str]) -> str:
    plant, alarm = finding.plant, finding.row["alarm"]
    shown = list(dict.fromkeys([finding.accused, *([finding.cause] if finding.cause else []), *finding.suspects]))[:2]
    charts = []
    for name in shown:
        unit = plant[name].kind.unit
        told = finding.row["at"], finding.row["verdicts"][name]["expected"]
        drawn = draw_chart(series, forecast, plant.column(name), alarm["first"], alarm["last"], told)
        charts.append(f"<h3>{html.escape(f'{name}, {unit}' if unit else name)}</h3>{drawn}")
    unknown = " unknown" if finding.cause is None else ""
    chain = join_names(list(finding.chain)) if finding.chain else finding.accused
    # A small screen shows one of the two drawings, and a large one the other.
    drawing = plan.draw(finding.accused, finding.chain, f"Plan of the plant: {chain}")
    drawing += plan.draw(finding.accused, finding.chain, f"Part of the plan of the plant: {chain}", near=True)
    key = "Red: the tag that raised the alarm." + (
        " Blue: the suggested cause, and the way from it." if len(finding.chain) > 1 else ""
    )
    return "\n".join(
        [
            f"<section class='alarm' id='alarm-{finding.number}' aria-labelledby='head-{finding.number}'>",
            f"<h2 id='head-{finding.number}'>Alarm {finding.number}: {html.escape(finding.heading)}</h2>",
            _render_ways(finding.number, files),
            f"<div class='columns'><div><p>{html.escape(finding.tell())}</p>",
            f"<div class='box{unknown}'><p>{html.escape(finding.explain())}</p></div>",
            f"<p><strong>What to do.</strong> {html.escape(finding.suggest())}</p>",
            _render_verdicts(finding),
            f"</div><div>{''.join(charts)}<p class='note'>Line: reading. Dashed: forecast. Shaded: the alarm is up. "
            "Dot: what was expected of the tag, had it behaved until then.</p>",
            "".join(f"<p class='note'>{html.escape(words)}</p>" for words in _list_notes(finding) if words),
            "</div></div>",
            f"<div class='scroll' tabindex='0' role='group' aria-label='plan'>{drawing}</div><p class='note'>{key} "
            f"Circles are sensors, squares are actuators. {_say_faithfulness(finding)}</p></section>",
        ]
    )


def _render_ways(number: int, files: dict[int, str]) -> str:
    ways = [("earlier", number - 1), ("later", number + 1)]
    links = [
        f"<a href='{'' if files[other] == files[number] else files[other]}#alarm-{other}'>{word} alarm</a>"
        for word, other in ways
        if other in files
    ]
    home = "" if files[number] == PAGE else PAGE
    return f"<p class='way'><a href='{home}#alarms'>all alarms</a> {' '.join(links)}</p>"


def _render_verdicts(finding: Finding) -> str:
    """Return the table of the tags that the explanation names, and of what the model says without each of them."""
    plant, rows = finding.plant, []
    for name in (finding.accused, *finding.suspects):
        verdict = finding.row["verdicts"][name]
        usual = say_range(plant, name, *verdict["usual"])
        answer = "would not be" if verdict["model"] else "would still be"
        cells = (
            name,
            format_reading(plant, name, verdict["reading"]),
            format_reading(plant, name, verdict["expected"]),
        )
        rows.append([*cells, usual, answer])
    return render_table(["tag", "reads", "expected", "usual", "with it as expected, the alarm"], rows, "tags")


def _list_notes(finding: Finding) -> tuple[str, str]:
    """Return what was asked beside the table; what clears an alarm without a cause is said with the cause."""
    return finding.tell_foretold(), "" if finding.cause is None else finding.tell_fewest()


def _say_faithfulness(finding: Finding) -> str:
    # The share of p itself, `relative`, is another number: these scores are slopes, and p has more than them.
    share, error = finding.row["causes"][0]["shown"] or (None, None)
    if share is None:
        return ""
    return (
        f"The scores behind this are {NAMES[METHODS[0]]}'s. Near these readings they miss "
        f"{format_percent(share, error)} of what the model does; how far the model is right about the plant is another "
        "matter."
    )


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
