"""Figures of alarms: the explanations by several methods on the plan of the plant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from graphfaith.view.figure import figure
from graphfaith.view.page import Page, page

from .causes import Cause
from .plant import Plant

_STRETCH: Final = 2.6  # vertical scale; the plan of the plant is wide, and without it tags would be too close
STAR: Final = "attacked"


def tag_positions(plant: Plant) -> Any:
    """Return the positions [n, 2] of the tags in drawings."""
    return np.array([[tag.at[0], _STRETCH * tag.at[1]] for tag in plant.tags])


def draw_plan(causes: Sequence[Cause], attacked: Sequence[int], *, width: float = 9.0) -> Figure:
    """Draw the explanations of an alarm on the plan; the accused tag is grey, and stars mark the attacked tags."""
    drawn: Figure = figure(
        [cause.explanation for cause in causes],
        positions=tag_positions(causes[0].plant),
        stars=attacked,
        star_means=STAR,
        columns=1,
        panel_width=width,
    )
    _name_parts(drawn, causes[0].plant)
    return drawn


def _name_parts(drawn: Figure, plant: Plant) -> None:
    """Write the name of every part of the plant above its tags."""
    of_part = np.array([tag.part for tag in plant.tags])
    for axes in drawn.axes:
        for discs in axes.findobj(lambda artist: str(artist.get_gid()).endswith("-discs")):
            points = np.asarray(discs.get_offsets())  # type: ignore[attr-defined]
            if len(points) != len(plant):
                continue  # The legend has discs, too.
            for name in plant.parts:
                middle = float(points[of_part == name, 0].mean())
                axes.text(middle, axes.get_ylim()[1] - 4, name, fontsize=6.5, color="#5f5f5f", ha="center", va="top")


def write_plan_page(causes: Sequence[Cause], attacked: Sequence[int], title: str, path: Any) -> Page:
    """Write the explanations of an alarm as an interactive page."""
    explanations = [cause.explanation for cause in causes]
    places = tag_positions(causes[0].plant)
    return page(explanations, path, title=title, positions=places, stars=attacked, star_means=STAR)
