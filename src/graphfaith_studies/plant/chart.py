"""Readings and forecasts of a tag around an alarm, as SVG."""

from __future__ import annotations

import html
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .series import Series
from .words import format_reading

_WIDTH, _HEIGHT = 640, 120  # of the drawing; its lines take what the margins leave
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 8, 8, 24
BEFORE, AFTER = 50, 70  # steps around the beginning of an alarm that are drawn
Array = NDArray[np.float64]
_TICKS: Final = (0.0, 0.5, 1.0)


def draw_chart(
    series: Series, forecast: Array, tag: int, first: int, last: int, told: tuple[int, float] | None = None
) -> str:
    """Return the chart of a tag: readings, forecasts (dashed), and the time in which the alarm is up (shaded).

    ``forecast`` [T, n] is in the units of the tags, NaN where there is none. ``told`` is the step that the words are
    about, and what they say was expected there (a dot). It is not the forecast: that has seen the tag's own readings.
    """
    plant = series.plant
    low, high = max(first - BEFORE, 0), min(first + AFTER, len(series))
    readings, expected = series.values[low:high, tag], forecast[low:high, tag]
    both = np.concatenate([readings, expected[np.isfinite(expected)], [] if told is None else [told[1]]])
    bottom, top = float(both.min()), float(both.max())
    if plant.tags[tag].is_actuator:  # A forecast that is off by a thousandth of a state should look like that.
        bottom, top = min(bottom, np.round(bottom)), max(top, np.round(top))
        bottom, top = (bottom - 0.5, top + 0.5) if top - bottom < 0.5 else (bottom, top)
    if top - bottom < 1e-9:
        bottom, top = bottom - 0.5, top + 0.5
    # Steps that are missing in the series would otherwise be drawn as if no time had passed.
    seconds = (series.times[low:high] - series.times[low]).astype("timedelta64[s]").astype(np.int64)
    right = max(int(seconds[-1]), 1)
    x = _LEFT + seconds / right * (_WIDTH - _LEFT - _RIGHT)

    def height_of(values: Array) -> Array:
        return np.asarray(_TOP + (top - values) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM))

    name = plant.names[tag]
    start, stop = x[first - low], x[min(last - low, len(x) - 1)]
    parts = [
        f"<svg class='chart' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' "
        f"aria-label='{html.escape(name, quote=True)}: readings and forecast around the alarm'>",
        f"<rect class='up' x='{start:.0f}' y='{_TOP}' width='{max(stop - start, 2):.0f}' "
        f"height='{_HEIGHT - _TOP - _BOTTOM}'/>",
        f"<path class='expected' d='{_line(x, height_of(expected), plant.tags[tag].is_actuator)}'/>",
        f"<path class='reading' d='{_line(x, height_of(readings), plant.tags[tag].is_actuator)}'/>",
    ]
    if told is not None and told[0] < high:
        parts.append(
            f"<circle class='told' cx='{x[told[0] - low]:.0f}' cy='{height_of(np.array(told[1])):.0f}' r='5'/>"
        )
    marked = [(top, _TOP + 10.0), (bottom, float(_HEIGHT - _BOTTOM))]
    if plant.tags[tag].is_actuator:
        states = [float(state) for state in plant.tags[tag].kind.states if bottom <= state <= top]
        marked = [(state, max(float(height_of(np.array(state))) + 4, _TOP + 10.0)) for state in states]
    for value, y in marked:
        # The unit is in the heading; a small screen has no room for it here.
        text = format_reading(plant, name, value).removesuffix(plant.tags[tag].kind.unit).strip()
        parts.append(f"<text class='tick' text-anchor='end' x='{_LEFT - 6}' y='{y:.0f}'>{html.escape(text)}</text>")
    clock = "%d %b %H:%M" if plant.step * (BEFORE + AFTER) > 86_400 else "%H:%M:%S" if plant.step < 60 else "%H:%M"
    for share in _TICKS:
        row = min(int(share * (high - low - 1)), high - low - 1)
        moment = series.times[low + row].astype("datetime64[s]").item()
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        parts.append(
            f"<text class='tick' text-anchor='{anchor}' x='{x[row]:.0f}' y='{_HEIGHT - 6}'>{moment:{clock}}</text>"
        )
    return "".join(parts) + "</svg>"


def _line(x: Array, y: Array, stepped: bool) -> str:
    """Return the path through the points; a state holds until it changes, and nothing is drawn where y is NaN."""
    parts, begun, previous = [], False, ""
    for u, v in zip(x.tolist(), y.tolist(), strict=True):
        if v != v:
            begun = False
            continue
        point = f"{u:.0f} {v:.0f}"
        if not begun:
            parts.append(f"M{point}")
        elif stepped:
            # A state that does not change needs no point of its own.
            if point.split()[1] != previous:
                parts.append(f"H{u:.0f}V{v:.0f}")
        else:
            parts.append(f"L{point}")
        begun, previous = True, point.split()[1]
    if stepped and begun:
        parts.append(f"H{x[-1]:.0f}")
    return "".join(parts)
