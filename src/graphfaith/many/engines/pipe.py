"""Messages between a run and its workers: pickled objects in a pipe, each after its length."""

from __future__ import annotations

import pickle
from typing import IO, Any

_LENGTH = 8  # bytes


def write_message(pipe: IO[bytes], message: Any) -> None:
    """Write a message, whole."""
    content = pickle.dumps(message, protocol=5)
    pipe.write(len(content).to_bytes(_LENGTH))
    pipe.write(content)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> Any:
    """Return the next message; raise EOFError when there is none, or only the beginning of one."""
    return pickle.loads(_read(pipe, int.from_bytes(_read(pipe, _LENGTH))))


def _read(pipe: IO[bytes], length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content
