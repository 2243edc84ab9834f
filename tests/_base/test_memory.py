"""Memory: what is refused before it begins."""

from __future__ import annotations

import pytest

from graphfaith._base.errors import MemoryLimitError
from graphfaith._base.memory import CHUNK_BYTES, room_for_chunks


def test_what_just_fits_is_allowed_and_one_byte_more_is_not():
    assert room_for_chunks(100, 60, 40, "work") == 40
    with pytest.raises(MemoryLimitError, match="work needs about 101 bytes, more than max_memory = 100 bytes"):
        room_for_chunks(100, 60, 41, "work")


def test_without_a_limit_a_chunk_has_a_fixed_size():
    assert room_for_chunks(None, 10**12, 10**12, "work") == CHUNK_BYTES
