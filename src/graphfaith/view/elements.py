"""Colours of chemical elements, as chemists know them: oxygen red, nitrogen blue, sulphur yellow."""

from __future__ import annotations

# Darker than on a screen of a chemist, so that a white letter on them can be read, in print too.
_COLOURS = {
    "C": "#3d3d3d",
    "H": "#8c8c8c",
    "N": "#2f4fc4",
    "O": "#c4261d",
    "S": "#8a6d00",
    "P": "#b35900",
    "F": "#2b7d2b",
    "Cl": "#1f7a1f",
    "Br": "#8b2500",
    "I": "#6a1b9a",
    "B": "#a05a4a",
    "Si": "#7a6a45",
    "Na": "#6a3fb5",
}
_OTHER = "#5b5b6b"


def element_colour(symbol: str | None) -> str | None:
    """Return the colour of an element; one colour for all that are not common, None for what is no atom.

    >>> element_colour("O"), element_colour("Xe"), element_colour(None)
    ('#c4261d', '#5b5b6b', None)
    """
    return None if symbol is None else _COLOURS.get(symbol, _OTHER)
