"""The server of the live view: on the loopback alone, for whoever has the token, and with a handful of answers.

What protects it. It binds to a loopback address or not at all. A page of another site can make a browser send requests
here, so a request needs a token that only the printed address has, and its Host must be this server (which a name that
was rebound to 127.0.0.1 is not). It reads no file by name: there are five paths, and no other.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import select
import socket
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..._base.errors import GraphfaithError, InputError, OutputError
from ..page import asset, policy, render_page
from .desk import AbandonedError, Desk

SCRIPTS = ("live.js",)
TOKEN_HEADER = "X-Graphfaith-Token"
MOST_CONNECTIONS = 400
PATIENCE = 20.0  # seconds that a client may take to send its request, or to take in a piece of the answer
_BUSY = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Security-Policy: default-src 'none'"
    b'\r\nConnection: close\r\n\r\n{"error": "too many ask at once: try again in a moment"}\n'
)


def check_loopback(host: str) -> str:
    """The address to listen on, if no other machine can reach it.

    >>> check_loopback("localhost"), check_loopback("::1")
    ('127.0.0.1', '::1')
    """
    if host == "localhost":
        return "127.0.0.1"
    try:
        if ipaddress.ip_address(host).is_loopback:
            return host
    except ValueError:
        pass
    raise InputError(
        f"the view is served to this machine alone: the host must be 127.0.0.1, ::1 or localhost (got {host!r}); "
        "to see it from another machine, forward the port, as with ssh -L"
    )


def check_port(port: int) -> int:
    """The port, if there can be such a one."""
    if not 0 <= port <= 65535:
        raise InputError(f"the port must be between 0, for any that is free, and 65535 (got {port})")
    return port


class Server(ThreadingHTTPServer):
    """Serves a desk; ``start`` is what an empty page has to know (:meth:`~graphfaith.view.live.desk.Desk.start`)."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, desk: Desk, start: dict[str, Any], host: str = "127.0.0.1", port: int = 0) -> None:
        self.desk, self.start = desk, start
        self.token = secrets.token_urlsafe(24)
        address = check_loopback(host)
        check_port(port)
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.reading: dict[Any, float] = {}  # connections whose request has not come yet, and until when it may
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise OutputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
        self.port: int = self.server_address[1]
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]", _bracketed(address))}
        self.url = f"http://{_bracketed(address)}:{self.port}/?token={self.token}"

    def server_bind(self) -> None:
        """Bind, without asking a name server who we are, as HTTPServer would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each request, up to a number; beyond it, a word instead of a growing heap."""
        if not self._slots.acquire(blocking=False):
            with suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        try:
            self.reading[request] = time.monotonic() + PATIENCE
            super().process_request(request, client_address)
        except BaseException:  # no thread was to be had
            self.answered(request)
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place back whatever became of the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.answered(request)
            self._slots.release()

    def answered(self, request: Any) -> None:
        """The request is there in whole, or never will be."""
        self.reading.pop(request, None)

    def service_actions(self) -> None:
        """Hang up on clients that send their request drop by drop; asked a few times a second."""
        now = time.monotonic()
        for request, until in list(self.reading.items()):
            if now > until:
                self.answered(request)
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that went away is no news."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            traceback.print_exc()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


class _Refused(Exception):
    """Words and a status for a request that is not answered."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = PATIENCE
    server_version, sys_version = "graphfaith", ""

    def do_GET(self) -> None:
        """Answer, or say in words why not."""
        self.server.answered(self.connection)
        try:
            kind, body, more = self._answer()
            self._send(HTTPStatus.OK, kind, body, more)
        except _Refused as error:
            self._say(error.status, str(error))
        except GraphfaithError as error:
            self._say(HTTPStatus.BAD_REQUEST, str(error))
        except AbandonedError:
            pass
        except Exception as error:
            traceback.print_exc()
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"this could not be explained: {type(error).__name__}: {error}")

    do_HEAD = do_GET

    def _answer(self) -> tuple[str, bytes, dict[str, str]]:
        server = self.server
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, "this server answers to its own address alone")
        # A link to the page may stand anywhere: to follow it is harmless, and needs the token.
        arrives = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path.startswith("/?")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not arrives:
            raise _Refused(HTTPStatus.FORBIDDEN, "another site asked for this")
        try:
            parts = urlsplit(self.path)
            fields = parse_qs(parts.query, keep_blank_values=True, max_num_fields=40, errors="strict")
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "this address cannot be read") from None
        if parts.path == "/":
            self._check_token(*fields.get("token", [""])[:1])
            text = render_page(server.start, controls=asset("live.html"), scripts=SCRIPTS)
            return "text/html; charset=utf-8", text.encode(), {}
        self._check_token(self.headers.get(TOKEN_HEADER, ""))
        desk = server.desk
        if parts.path == "/api/find":
            found = desk.find(*fields.get("text", [""])[:1])
            return "application/json", json.dumps(found).encode(), {}
        answers: dict[str, tuple[str, Callable[..., bytes]]] = {
            "/api/explain": ("application/json", desk.page),
            "/api/explanation.json": ("application/json", desk.rows),
            "/api/explanation.svg": ("image/svg+xml", desk.picture),
        }
        if parts.path not in answers:
            raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        kind, answer = answers[parts.path]
        question = desk.question(fields)
        more = {"Content-Disposition": "attachment"} if "." in parts.path else {}
        while True:
            try:
                return kind, answer(question, self._is_there), more
            except AbandonedError:  # by another, who asked the same before
                if not self._is_there():
                    raise

    def _is_there(self) -> bool:
        """Whether the client still waits: a connection that it closed can be read, and has nothing."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return True
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

    def _check_token(self, token: str = "") -> None:
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            words = "the token is missing or wrong: open the address that graphfaith view printed"
            raise _Refused(HTTPStatus.FORBIDDEN, words)

    def _say(self, status: HTTPStatus, words: str) -> None:
        if self.path.startswith("/api/"):
            self._send(status, "application/json", json.dumps({"error": words}).encode())
        else:
            self._send(status, "text/plain; charset=utf-8", f"{words}\n".encode("utf-8", "replace"))

    def _send(self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{policy(SCRIPTS)}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            **(more or {}),
        }
        with suppress(OSError):  # the client may be gone, and nobody is left to tell
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the base class says to a request it cannot read, without repeating any of it."""
        self.close_connection, self.request_version = True, "HTTP/1.0"  # 0.9, for lack of a better, has no status line
        status = HTTPStatus(code)
        self.path = getattr(self, "path", "")
        self.command = getattr(self, "command", None) or "GET"
        self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def log_message(self, format: str, *arguments: Any) -> None:  # the base class names it so
        """Nothing: the address in a log would hold the token."""
