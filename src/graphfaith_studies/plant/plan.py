"""The plan of the plant as SVG: drawn once on a page, with the chain of each alarm on top of it."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import Final

from .plant import Plant

_WIDTH: Final = 1400.0
_LEAST, _MOST = 46.0, 100.0  # pixels of a unit of width; tags one unit apart do not touch
_LOW, _HIGH = 34.0, 58.0  # pixels of a unit of height
_HEIGHT: Final = 400.0  # that a plan should not exceed, so that an alarm is on one screen
_MARGIN: Final = 48.0
_RADIUS: Final = 7.0
_NARROW: Final = 380.0  # width of the part of the plan that a small screen shows, or more
_AROUND: Final = 60.0  # of the plan beside the outermost tags of the chain
PLAN: Final = "plan"  # the id of the drawing that all alarms use


class Plan:
    """The places of the tags on the page, and the drawings that use them."""

    def __init__(self, plant: Plant) -> None:
        left, right = min(tag.at[0] for tag in plant.tags), max(tag.at[0] for tag in plant.tags)
        bottom, top = min(tag.at[1] for tag in plant.tags), max(tag.at[1] for tag in plant.tags)
        unit = min(max((_WIDTH - 2 * _MARGIN) / max(right - left, 1.0), _LEAST), _MOST)
        tall = min(max((_HEIGHT - 2 * _MARGIN) / max(top - bottom, 1.0), _LOW), _HIGH)
        self.plant = plant
        self.width = round((right - left) * unit + 2 * _MARGIN)
        self.height = round((top - bottom) * tall + 2 * _MARGIN)
        self._at = {
            tag.name: (_MARGIN + (tag.at[0] - left) * unit, _MARGIN + (top - tag.at[1]) * tall) for tag in plant.tags
        }

    def define(self) -> str:
        """Return the drawing of the plant alone, to be put on a page once, where it is not seen."""
        names = self.plant.names
        parts = [f"<svg class='hidden' width='0' height='0' aria-hidden='true'><defs><g id='{PLAN}'>"]
        for first, second in self.plant.edges:
            (x, y), (u, v) = self._at[names[first]], self._at[names[second]]
            parts.append(f"<path class='pipe' d='M{x:.0f} {y:.0f}L{u:.0f} {v:.0f}'/>")
        for tag in self.plant.tags:
            x, y = self._at[tag.name]
            shape = (
                f"<rect class='tag' x='{x - _RADIUS:.0f}' y='{y - _RADIUS:.0f}' width='14' height='14'/>"
                if tag.is_actuator
                else f"<circle class='tag' cx='{x:.0f}' cy='{y:.0f}' r='{_RADIUS:.0f}'/>"
            )
            parts.append(f"{shape}<text class='small' x='{x:.0f}' y='{y + 20:.0f}'>{html.escape(tag.name)}</text>")
        parts.append(
            "</g><marker id='tip' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='5' markerHeight='5' orient='auto'>"
            "<path class='tip' d='M0 0L10 5L0 10z'/></marker></defs></svg>"
        )
        return "".join(parts)

    def draw(self, accused: str, chain: Sequence[str], words: str, near: bool = False) -> str:
        """Return the drawing for one alarm: the chain ends at the accused tag, and begins at the suggested cause.

        With ``near`` it is the part of the plan around them, for a small screen.
        """
        shown = list(dict.fromkeys([*chain, accused]))
        left, width = self._find_part(shown) if near else (0.0, float(self.width))
        parts = [
            f"<svg class='{'near' if near else 'plan'}' viewBox='{left:.0f} 0 {width:.0f} {self.height}' role='img' "
            f"aria-label='{html.escape(words, quote=True)}'><use href='#{PLAN}'/>"
        ]
        for first, second in itertools.pairwise(chain):
            (x, y), (u, v) = self._at[first], self._at[second]
            length = max(((u - x) ** 2 + (v - y) ** 2) ** 0.5, 1.0)
            cut = (_RADIUS + 6) / length  # The arrow ends at the border of the tag.
            parts.append(
                f"<path class='chain' marker-end='url(#tip)' "
                f"d='M{x:.0f} {y:.0f}L{u - cut * (u - x):.0f} {v - cut * (v - y):.0f}'/>"
            )
        for name in shown:
            x, y = self._at[name]
            kind = "accused" if name == accused else "cause" if name == chain[0] else "between"
            anchor = "start" if x - left < 60 else "end" if x > left + width - 60 else "middle"
            # The name is above the tag, unless it would hide the way to a tag above, or a tag, and below is room.
            way_above, way_below = (self._has_close(x, y, sign * 400, 60, shown) for sign in (1, -1))
            tag_above, tag_below = (self._has_close(x, y, sign * 50, 40, list(self._at)) for sign in (1, -1))
            below = way_above or (tag_above and not tag_below and not way_below)
            if below:  # The large name takes the place of the small one.
                half = 4 * len(name)
                parts.append(f"<path class='blank' d='M{x - half:.0f} {y + 8:.0f}h{2 * half}v18h-{2 * half}z'/>")
            parts.append(
                f"<circle class='{kind}' cx='{x:.0f}' cy='{y:.0f}' r='11'/>"
                f"<text class='big' text-anchor='{anchor}' x='{x:.0f}' y='{y + (30 if below else -18):.0f}'>"
                f"{html.escape(name)}</text>"
            )
        return "".join(parts) + "</svg>"

    def _has_close(self, x: float, y: float, up: float, beside: float, names: Sequence[str]) -> bool:
        """Return whether one of these tags is above (x, y), by less than ``up`` and not further ``beside`` it.

        It is below if ``up`` is negative.
        """
        places = (self._at[name] for name in names)
        return any(abs(u - x) < beside and 0 < (y - v) / up < 1 for u, v in places)

    def _find_part(self, names: Sequence[str]) -> tuple[float, float]:
        """Return the left border and the width of the part of the plan that shows these tags."""
        across = [self._at[name][0] for name in names]
        width = min(max(max(across) - min(across) + 2 * _AROUND, _NARROW), float(self.width))
        middle = (max(across) + min(across)) / 2
        return min(max(middle - width / 2, 0.0), self.width - width), width
