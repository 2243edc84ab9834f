"""Checks of single numbers from the user. Each error message names the parameter and the values it may have."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from .errors import InputError, show

MOST = 10**9  # of anything that is counted: more samples, steps or epochs would take days, and run out of memory


def check_seed(seed: int) -> int:
    """Return ``seed`` as an int; raise an :class:`InputError` unless it is a whole number in [0, 2^64)."""
    if not is_whole(seed) or not 0 <= int(seed) < 1 << 64:
        raise InputError(f"seed must be a whole number from 0 to 2^64 - 1 (got {show(seed)})")
    return int(seed)


def check_count(value: int, name: str, *, least: int = 1, most: int = MOST) -> int:
    """Return ``value`` as an int; raise an :class:`InputError` unless it is a whole number from ``least`` to ``most``.

    >>> check_count(3, "steps")
    3
    """
    if not is_whole(value) or int(value) < least:
        raise InputError(f"{name} must be a whole number of at least {least} (got {show(value)})")
    if int(value) > most:
        raise InputError(f"{name} must be at most {most:,} (got {show(value)})")
    return int(value)


def check_node(node: int, num_nodes: int) -> int:
    """Return ``node`` as an int; raise an :class:`InputError` unless a graph of ``num_nodes`` nodes contains it."""
    if not is_whole(node) or not 0 <= int(node) < num_nodes:
        raise InputError(f"node {show(node)} is out of range: the graph has nodes 0 to {num_nodes - 1}")
    return int(node)


def check_real(
    value: float, name: str, *, least: float | None = None, above: float | None = None, most: float | None = None
) -> float:
    """Return ``value`` as a float; raise an :class:`InputError` unless it is finite, >= least, > above and <= most."""
    if not _is_finite(value) or (least is not None and value < least) or (above is not None and value <= above):
        bound = f"{least:g} or more" if least is not None else f"above {above:g}"
        raise InputError(f"{name} must be {bound} (got {show(value)})")
    if most is not None and value > most:
        raise InputError(f"{name} must be at most {most:g} (got {show(value)})")
    return float(value)


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that is larger than any float
        return False


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is an integer: a Python int, a numpy integer or a tensor with one integer.

    A bool does not count as an integer.
    """
    if type(value) is int:  # nearly always; the text of a type takes several microseconds
        return True
    if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True
