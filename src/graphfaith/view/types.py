"""Types of nodes in a picture: each has a shape and a colour of its own, which the legend names."""

from __future__ import annotations

from typing import NamedTuple

# Shapes that differ without colours too, and colours that are not those of signs.
_SHAPES = ("circle", "square", "triangle", "diamond", "pentagon", "hexagon")
_COLOURS = ("#1b7f79", "#7a4fa3", "#b36b00", "#4d4d4d", "#a8326e", "#3b6ea8")
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "pentagon": "p", "hexagon": "h"}


class NodeType(NamedTuple):
    """How nodes of a type are drawn."""

    name: str
    shape: str
    colour: str

    @property
    def marker(self) -> str:
        """The shape as matplotlib calls it."""
        return _MARKERS[self.shape]

    @property
    def reach(self) -> float:
        """How far matplotlib's shape reaches above and beside its middle, where a square reaches 1."""
        return 2**0.5 if self.shape == "diamond" else 1.0


def styles_of(names: tuple[str, ...]) -> tuple[NodeType, ...]:
    """Return how nodes of each type are drawn; of more than six types, shapes and colours come again in other pairs.

    >>> [(one.shape, one.colour) for one in styles_of(("paper", "word"))]
    [('circle', '#1b7f79'), ('square', '#7a4fa3')]
    """
    size = len(_SHAPES)
    return tuple(NodeType(name, _SHAPES[i % size], _COLOURS[(i + i // size) % size]) for i, name in enumerate(names))
