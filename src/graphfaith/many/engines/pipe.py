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
    return pickle.loads(read_content(pipe))


def read_content(pipe: IO[bytes]) -> bytes:
    """Return the next message as it was sent; raise EOFError when there is none, or only the beginning of one."""
    return _read(pipe, int.from_bytes(_read(pipe, _LENGTH)))


def unpack(content: bytes) -> Any:
    """Return what was sent, or the exception that it raised here: whoever waits for an answer has to know of it."""
    try:
        return pickle.loads(content)
    except Exception as error:
        return error


def _read(pipe: IO[bytes], length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content
