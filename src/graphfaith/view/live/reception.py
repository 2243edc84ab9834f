"""The reception of the live view: it accepts connections, reads their requests, and hands on those that are complete.

A connection that has sent no complete request costs a socket and no thread, so clients that say nothing, or a letter
now and then, do not use up the threads that answer. If there are too many of them, or no file descriptor is left, the
connection that has waited longest is closed: a browser sends its request at once, so it is not the browser's.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

PATIENCE = 20.0  # seconds that a client may take to send its request, or to receive a part of the answer
LONGEST_HEAD = 2**16  # bytes of a request line and its headers
MOST_WAITING = 1000  # connections without a complete request, if there are file descriptors for so many
_PAUSE = 0.2  # seconds without accepting connections, if there is no file descriptor for one
_AT_ONCE = 50  # connections that are accepted before those that wait are read again
_END = re.compile(rb"\n\r?\n")


def is_complete(head: bytes | bytearray) -> bool:
    """Return whether a request line and its headers end in an empty line, as they have to.

    >>> is_complete(b"GET / HTTP/1.0\\r\\n\\r\\n"), is_complete(b"GET / HTTP/1.0\\r\\nHost: loc")
    (True, False)
    """
    return _END.search(head) is not None


@dataclass
class _Visit:
    """A connection whose request is not complete yet."""

    address: Any
    deadline: float
    head: bytearray


class Reception:
    """Accepts the connections of ``listener`` and calls ``hand_on`` with each socket, its address and its request.

    A request is handed on as soon as it is complete or too long, or if the client has ended it too early. All of this
    happens in the thread that calls :meth:`attend`.
    """

    def __init__(self, listener: socket.socket, hand_on: Callable[[socket.socket, Any, bytes], None]) -> None:
        self.most_waiting = min(MOST_WAITING, _count_descriptors() // 3)
        self.waiting: dict[socket.socket, _Visit] = {}  # the one that has waited longest is the first
        self._listener, self._hand_on = listener, hand_on
        self._selector = selectors.DefaultSelector()
        self._paused_until: float | None = None
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def attend(self, seconds: float) -> None:
        """Wait at most so many seconds for something to happen, and deal with it."""
        ready = [key.fileobj for key, _ in self._selector.select(seconds)]
        for connection in ready:
            if isinstance(connection, socket.socket) and connection in self.waiting:
                self._read(connection)
        if self._listener in ready:
            self._accept()
        now = time.monotonic()
        if self._paused_until is not None and now > self._paused_until:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ)
        for connection in [one for one, visit in self.waiting.items() if now > visit.deadline]:
            self._close(connection)

    def close(self) -> None:
        """Close the connections that wait."""
        for connection in list(self.waiting):
            self._close(connection)
        self._selector.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # The client has left already.
                continue
            except OSError:  # There is no file descriptor for it, or no memory. It stays in the queue.
                if not self._close_oldest():
                    self._selector.unregister(self._listener)  # Otherwise the selector would report it all the time.
                    self._paused_until = time.monotonic() + _PAUSE
                    return
                continue
            if len(self.waiting) >= self.most_waiting:
                self._close_oldest()
            connection.setblocking(False)
            try:
                self._selector.register(connection, selectors.EVENT_READ)
            except OSError:  # The system watches no more sockets.
                connection.close()
                continue
            self.waiting[connection] = _Visit(address, time.monotonic() + PATIENCE, bytearray())
            self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        visit = self.waiting[connection]
        try:
            part = connection.recv(LONGEST_HEAD)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close(connection)
            return
        # Empty lines before a request are allowed and mean nothing.
        visit.head += part if visit.head else part.lstrip(b"\r\n")
        if not part and not visit.head:
            self._close(connection)
        elif not part or len(visit.head) > LONGEST_HEAD or is_complete(visit.head):
            self._forget(connection)
            connection.settimeout(PATIENCE)
            self._hand_on(connection, visit.address, bytes(visit.head))

    def _close_oldest(self) -> bool:
        """Close the connection that has waited longest, and return whether there was one."""
        oldest = next(iter(self.waiting), None)
        if oldest is None:
            return False
        self._close(oldest)
        return True

    def _close(self, connection: socket.socket) -> None:
        self._forget(connection)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _forget(self, connection: socket.socket) -> None:
        del self.waiting[connection]
        self._selector.unregister(connection)


def _count_descriptors() -> int:
    """Return how many files and sockets this process may have open; as many as needed where nobody counts them."""
    try:
        import resource
    except ImportError:  # Windows
        return 3 * MOST_WAITING
    count = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 3 * MOST_WAITING if count == resource.RLIM_INFINITY else count
