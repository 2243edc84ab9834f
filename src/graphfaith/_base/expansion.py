"""How much memory a file may take: what it declares is compared with the memory of the machine before it is read.

A small file may stand for a large content: a zip file inflates, a header declares any shape, a file with holes has any
size, and a tensor may repeat one number. So the size that a file declares is looked at first, and nothing of a file
that declares too much is allocated.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

from .errors import DataError
from .memory import format_size

_SHARE = 0.5  # A file, and what is made of it, may each take this share of the memory of the machine.
_ENTRIES = 10_000  # A zip file may have so many entries. Python takes about 1 KB for each.
_ENTRY_MARK = b"PK\x01\x02"  # the first bytes of an entry in the directory of a zip file
# Python's objects for a JSON text take up to about this multiple of its length: "[]," is a list of 56 bytes.
JSON_GROWTH = 32


def readable_bytes() -> int:
    """Return how many bytes a file may declare: half of the memory that this process may have."""
    return int(_SHARE * _total_memory())


def _total_memory() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Some systems do not tell.
        total = 8 * 2**30
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(allowed)) if allowed.isdigit() else total


def check_declared(size: int, growth: int = 1) -> None:
    """Refuse content that declares more than :func:`readable_bytes`; it takes ``growth`` times its size in memory."""
    limit = readable_bytes()
    if size * growth > limit:
        times = "" if growth == 1 else f", which may take {growth} times as much in memory"
        raise DataError(
            f"it declares {format_size(size)}{times}: more than {format_size(limit)}, half of this machine's memory"
        )


def list_entries(content: bytes) -> list[zipfile.ZipInfo]:
    """Return the entries of a zip file, after checking that there are not too many of them."""
    # zipfile reads the whole directory at once. Every entry of it begins with these bytes.
    if content.count(_ENTRY_MARK) > _ENTRIES:
        raise DataError(f"it is a zip file with more than {_ENTRIES:,} entries")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.infolist()


def safetensors_header(content: bytes) -> bytes:
    """Return the header of a safetensors file, a JSON text, after checking that it is within the file and not huge.

    The safetensors library itself checks that the tensors lie within the file and fill it.
    """
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise DataError(
            f"it is not a safetensors file, or a damaged one: it declares a header of {format_size(length)} and has "
            f"{format_size(max(0, len(content) - 8))}"
        )
    check_declared(length, JSON_GROWTH)
    return content[8 : 8 + length]
