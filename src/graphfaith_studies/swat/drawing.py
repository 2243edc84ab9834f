"""Pictures of alarms: the explanations on the plan of the plant, and the readings with their forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphfaith.view.figure import figure
from graphfaith.view.page import Page, page

from .causes import Cause
from .scoring import Event
from .series import STEP, Series
from .tags import POSITIONS, STAGES, TAGS, stage

_STRETCH: Final = 2.6  # vertical scale; the plan of the plant is wide, and without it tags would be too close
_BEFORE, _AFTER = 60, 90  # steps that are drawn around an alarm
STAR: Final = "attacked"


def tag_positions() -> Any:
    """Return the positions [51, 2] of the tags, with the stages from left to right."""
    return np.array([[POSITIONS[tag][0], _STRETCH * POSITIONS[tag][1]] for tag in TAGS])


def draw_plan(causes: Sequence[Cause], event: Event, *, width: float = 9.0) -> Figure:
    """Draw the explanations of an alarm on the plan; the accused tag is grey, and stars mark the attacked tags."""
    drawn: Figure = figure(
        [cause.explanation for cause in causes],
        positions=tag_positions(),
        stars=event.attacked,
        star_means=STAR,
        columns=1,
        panel_width=width,
    )
    _name_stages(drawn)
    return drawn


def _name_stages(drawn: Figure) -> None:
    """Write the name of every stage above its tags."""
    of_stage = np.array([stage(tag) for tag in TAGS])
    for axes in drawn.axes:
        for discs in axes.findobj(lambda artist: str(artist.get_gid()).endswith("-discs")):
            points = np.asarray(discs.get_offsets())  # type: ignore[attr-defined]
            if len(points) != len(TAGS):
                continue  # The legend has discs, too.
            for number, name in enumerate(STAGES, 1):
                middle = float(points[of_stage == number, 0].mean())
                axes.text(middle, axes.get_ylim()[1] - 4, name, fontsize=6.5, color="#5f5f5f", ha="center", va="top")


def write_plan_page(causes: Sequence[Cause], event: Event, title: str, path: Any) -> Page:
    """Write the explanations of an alarm as an interactive page."""
    explanations = [cause.explanation for cause in causes]
    return page(explanations, path, title=title, positions=tag_positions(), stars=event.attacked, star_means=STAR)


def draw_readings(series: Series, steps: Any, forecast: Any, event: Event) -> Figure:
    """Draw the readings of the accused and the attacked tags around an alarm, with their forecasts.

    ``forecast`` [n, 51] holds the forecasts at ``steps`` [n], in the units of the tags.
    """
    alarm = event.start if event.step is None else event.step
    chosen = list(dict.fromkeys(([] if event.accused is None else [event.accused]) + list(event.attacked)))
    low, high = max(alarm - _BEFORE, 0), min(alarm + _AFTER, len(series))
    drawn = Figure(figsize=(7.2, 0.5 + 1.25 * len(chosen)), layout="constrained")
    FigureCanvasAgg(drawn)
    axes = drawn.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
    inside = (steps >= low) & (steps < high)
    minutes = (np.arange(low, high) - alarm) * STEP / 60
    for axis, tag in zip(axes, chosen, strict=True):
        axis.axvspan(
            (event.start - alarm) * STEP / 60,
            min((event.stop + 1 - alarm) * STEP / 60, minutes[-1]),
            color="#f5c518",
            alpha=0.22 if tag in event.attacked else 0.08,
            linewidth=0,
        )
        axis.plot(minutes, series.values[low:high, tag], color="#1a1a1a", linewidth=1.1, label="reading")
        axis.plot(
            (steps[inside] - alarm) * STEP / 60,
            forecast[inside, tag],
            color="#d95f02",
            linewidth=1.0,
            linestyle=(0, (3, 1.5)),
            label="forecast",
        )
        axis.axvline(0.0, color="#b2182b", linewidth=0.8)
        mark = " (accused)" if tag == event.accused else ""
        axis.set_ylabel(f"{TAGS[tag]}{mark}", fontsize=7.5)
        axis.tick_params(labelsize=7)
        axis.margins(x=0)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False, ncols=2, borderpad=0.1)
    axes[-1].set_xlabel("minutes from the alarm (the attack is shaded)", fontsize=7.5)
    return drawn
