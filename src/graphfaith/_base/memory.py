"""Memory limits: work that needs more memory than the user allows is refused before it starts."""

from __future__ import annotations

import math
import re

from .checks import check_count
from .errors import InputError, MemoryLimitError

CHUNK_BYTES = 64 * 2**20  # memory for one chunk of samples; a chunk always has at least one sample

_MOST = 1 << 62  # bytes, more than any machine has
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_memory(limit: int | str | None) -> int | None:
    """Return a memory limit in bytes from a number or a text; None, for no limit, stays None.

    >>> parse_memory("500 MB")
    500000000
    """
    if limit is None:
        return None
    if not isinstance(limit, str):
        return check_count(limit, "max_memory", most=_MOST)
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kKmMgG]?i?[bB]?)\s*", limit)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not 1 <= float(match[1]) * unit <= _MOST:
        raise InputError(f"max_memory must be a number of bytes, or text such as '500 MB' or '2 GB' (got {limit!r})")
    return int(float(match[1]) * unit)


def format_size(size: float) -> str:
    """Return a size in bytes as a short text with a unit.

    >>> format_size(1_340_000_000)
    '1.3 GB'
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size / unit:.{1 if size < 10 * unit else 0}f} {name}"
    return f"{math.ceil(size)} bytes"


def room_for_chunks(limit: int | None, fixed: int, per_sample: int, what: str) -> int:
    """Return how many bytes a chunk of samples may take, beside the ``fixed`` bytes that are needed in any case.

    Raise a :class:`MemoryLimitError` if not even one sample fits into ``limit``; ``what`` is the subject of its text.
    """
    if limit is None:
        return CHUNK_BYTES
    need = fixed + per_sample
    if need > limit:
        raise MemoryLimitError(
            f"{what} needs about {format_size(need)}, more than max_memory = {format_size(limit)}: raise max_memory, "
            "or use fewer samples or fewer hops"
        )
    return min(CHUNK_BYTES, limit - fixed)
