"""Checks of single numbers that a user gives, each with a message that names the number and what it may be."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

from .errors import InputError


def check_seed(seed: int) -> int:
    """Return ``seed`` as an int in [0, 2^64), or say what is wrong with it."""
    if not is_whole(seed) or not 0 <= int(seed) < 1 << 64:
        raise InputError(f"seed must be a whole number from 0 to 2^64 - 1 (got {seed!r})")
    return int(seed)


def check_count(value: int, name: str) -> int:
    """Return ``value`` as an int of at least 1.

    >>> check_count(3, "steps")
    3
    """
    if not is_whole(value) or int(value) < 1:
        raise InputError(f"{name} must be a whole number of at least 1 (got {value!r})")
    return int(value)


def check_node(node: int, num_nodes: int) -> int:
    """Return ``node`` as an int, if a graph of so many nodes has it."""
    if not is_whole(node) or not 0 <= int(node) < num_nodes:
        raise InputError(f"node {node} is out of range: the graph has nodes 0 to {num_nodes - 1}")
    return int(node)


def check_real(value: float, name: str, *, least: float | None = None, above: float | None = None) -> float:
    """Return ``value`` as a finite float that is at least ``least`` and above ``above``."""
    right = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not right or (least is not None and value < least) or (above is not None and value <= above):
        bound = f"{least:g} or more" if least is not None else f"above {above:g}"
        raise InputError(f"{name} must be {bound} (got {value!r})")
    return float(value)


def is_whole(value: Any) -> bool:
    """Whether ``value`` is an integer of any library: Python's, numpy's, or a tensor of one; a bool is none."""
    if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True
