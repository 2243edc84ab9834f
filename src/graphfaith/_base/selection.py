"""Nodes as a user writes them."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InputError


def parse_nodes(text: str) -> Sequence[int]:
    """Return nodes written as ``start:stop:step`` or as a list.

    A range stays one, because it may name more nodes than fit in memory.

    >>> parse_nodes("0:10:4")
    range(0, 10, 4)
    >>> parse_nodes("3,5,3")
    [3, 5]
    """
    nodes: Sequence[int] = []
    try:
        if ":" in text:
            parts = [int(part) for part in text.split(":")]
            nodes = range(*parts) if len(parts) in (2, 3) else []
        else:
            nodes = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        nodes = []
    if not nodes or min(extremes(nodes)) < 0:
        raise InputError(
            f"cannot read the nodes {text!r}: write start:stop:step, as in 0:1000:50, or a list, as in 3,5,8"
        )
    return nodes


def extremes(nodes: Sequence[int]) -> tuple[int, int]:
    """Return the least and the greatest of some nodes, without walking through a range."""
    ends = (nodes[0], nodes[-1]) if isinstance(nodes, range) else nodes
    return min(ends), max(ends)
