"""The bar of trust: how much of the model's reaction is explained, by the scores, by pairs too, and by the whole p."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..explanation.faithfulness import NOT_MEASURED
from ..explanation.trust import Trust
from .labels import measure_text, shorten

BAR = 6.0  # height of the bar in points
_SIZE = 6.8
_INK, _FAINT, _FRAME = "#1a1a1a", "#5f5f5f", "#9a9a9a"
_SHADES = {"scores": "#3a3a3a", "pairs": "#8f8f8f", "whole": "#cfcfcf"}
_NAMES = {
    "best": "the most that any scores could explain",
    "pairs": "with the pairs",
    "whole": "the whole explanation, which is more than scores",
}
_MISSING = {"best": "the best scores possible", "pairs": "pairs"}


def wrap(text: str, width: float, size: float = _SIZE, *, most: int = 4) -> list[str]:
    """Return a text as lines that are at most `width` points wide; what is over `most` lines is cut."""
    lines: list[str] = []
    for word in shorten(text, 600).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure_text(longer, size)[0] <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines if len(lines) <= most else [*lines[: most - 1], shorten(" ".join(lines[most - 1 :]), 60)]


def describe_trust(trust: Trust | None, width: float) -> list[str]:
    """Return the lines under the bar: a sentence for a person, and then a line for each further number.

    A line of a number begins with its key and a tab, so that its shade can be drawn before it.
    """
    if trust is None:
        return [f"how far these scores can be trusted: {NOT_MEASURED}"]
    scores = trust.rows[0].explained
    rows = [row for row in trust.rows[1:] if row.key == "best" or row.explained != scores]
    more = [f"{row.key}\t{_NAMES[row.key]}: {row.explained}" for row in rows]
    missing = [name for key, name in _MISSING.items() if key not in {row.key for row in trust.rows}]
    if trust.rows[0].relative is not None and missing:
        more.append(f"{NOT_MEASURED}: {', '.join(missing)}")
    return [*wrap(trust.text, width, _SIZE), *more]


def write_trust_line(axes: Axes, line: str, top: float, trust: Trust | None) -> None:
    """Write one line of :func:`describe_trust` with its shade."""
    key, _, text = line.rpartition("\t")
    if key in _SHADES:
        axes.add_patch(Rectangle((0, top - 6.4), 5, 5, facecolor=_SHADES[key], edgecolor=_FRAME, lw=0.4, clip_on=False))
    elif key:
        axes.plot([2.5, 2.5], [top - 7, top - 0.8], color=_INK, linewidth=1.0, clip_on=False)
    axes.text(
        9.0 if key else 0.0, top, text, fontsize=_SIZE, color=_FAINT if key or trust is None else _INK, va="top",
        parse_math=False, clip_on=False,
    )  # fmt: skip


def draw_trust(axes: Axes, trust: Trust | None, left: float, bottom: float, width: float, name: str) -> None:
    """Draw the bar; its whole length is the model's reaction, and it is never longer than that."""
    shares = {} if trust is None else {row.key: row.relative for row in trust.rows if row.relative is not None}
    done = left
    for key in ("scores", "pairs", "whole"):
        relative = shares.get(key)
        if relative is None:
            continue
        end = left + width * min(max(1 - relative, 0.0), 1.0)
        if end > done:
            part = Rectangle((done, bottom), end - done, BAR, facecolor=_SHADES[key], edgecolor="none", clip_on=False)
            part.set_gid(f"{name}-trust-{key}")
            axes.add_patch(part)
            done = end
    is_firm = trust is not None and not trust.is_estimate
    frame = Rectangle(
        (left, bottom), width, BAR, fill=False, edgecolor=_FRAME, linewidth=0.7, clip_on=False,
        linestyle="solid" if is_firm else (0, (3, 2)),
    )  # fmt: skip
    frame.set_gid(f"{name}-trust")
    axes.add_patch(frame)
    best = shares.get("best")
    if best is not None:
        at = left + width * min(max(1 - best, 0.0), 1.0)
        axes.plot([at, at], [bottom - 1.5, bottom + BAR + 1.5], color=_INK, linewidth=1.0, clip_on=False)
