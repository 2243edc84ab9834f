"""How much memory a piece of work takes, and refusing it before it begins if the user has set a limit."""

from __future__ import annotations

import math
import re

from .checks import check_count
from .errors import InputError, MemoryLimitError

CHUNK_BYTES = 64 * 2**20  # what one chunk of samples may take; a chunk is at least one sample

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_memory(limit: int | str | None) -> int | None:
    """A limit in bytes, given as a number or as text.

    >>> parse_memory("500 MB")
    500000000
    """
    if limit is None:
        return None
    if not isinstance(limit, str):
        return check_count(limit, "max_memory")
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kKmMgG]?i?[bB]?)\s*", limit)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or float(match[1]) * unit < 1:
        raise InputError(f"max_memory must be a number of bytes, or text such as '500 MB' or '2 GB' (got {limit!r})")
    return int(float(match[1]) * unit)


def in_words(size: float) -> str:
    """A size for a person to read.

    >>> in_words(1_340_000_000)
    '1.3 GB'
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size / unit:.{1 if size < 10 * unit else 0}f} {name}"
    return f"{math.ceil(size)} bytes"


def room_for_chunks(limit: int | None, fixed: int, per_sample: int, what: str) -> int:
    """Bytes that a chunk of samples may take beside ``fixed`` ones, if at least one sample fits in ``limit``."""
    if limit is None:
        return CHUNK_BYTES
    need = fixed + per_sample
    if need > limit:
        raise MemoryLimitError(
            f"{what} needs about {in_words(need)}, more than max_memory = {in_words(limit)}: raise max_memory, or "
            "take fewer samples or fewer hops"
        )
    return min(CHUNK_BYTES, limit - fixed)
