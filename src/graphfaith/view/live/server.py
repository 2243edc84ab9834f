"""The server of the live view, which serves only this machine, only clients with the token, and only five paths.

Security: the server binds to a loopback address only. A page of another site can make a browser send requests to it, so
a request needs the token, which only the printed address contains. The Host header must be the address of this server,
which excludes names of other sites that were rebound to 127.0.0.1. No request can read a file by name, because the
server answers five fixed paths and no others.
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
PATIENCE = 20.0  # seconds that a client may take to send its request, or to receive a part of the answer
_BUSY = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Security-Policy: default-src 'none'"
    b'\r\nConnection: close\r\n\r\n{"error": "there are too many requests at once: try again in a moment"}\n'
)


def check_loopback(host: str) -> str:
    """Return the address to listen on; raise an :class:`InputError` if other machines could reach it.

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
        "to see it from another machine, forward the port, for example with ssh -L"
    )


def check_port(port: int) -> int:
    """Return the port; raise an :class:`InputError` if there is no such port."""
    if not 0 <= port <= 65535:
        raise InputError(f"the port must be between 0 and 65535, where 0 means any free port (got {port})")
    return port


class Server(ThreadingHTTPServer):
    """The server for one desk; ``start`` is the data of the empty page, from
    :meth:`~graphfaith.view.live.desk.Desk.start`.
    """

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
        self.reading: dict[Any, float] = {}  # deadlines by connection, until its request is complete
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise OutputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
        self.port: int = self.server_address[1]
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]", _add_brackets(address))}
        self.url = f"http://{_add_brackets(address)}:{self.port}/?token={self.token}"

    def server_bind(self) -> None:
        """Bind to the address without the name look-up of HTTPServer, which may wait for a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a new thread, or send a short error if MOST_CONNECTIONS threads are running."""
        if not self._slots.acquire(blocking=False):
            with suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        try:
            self.reading[request] = time.monotonic() + PATIENCE
            super().process_request(request, client_address)
        except BaseException:  # No thread could be started.
            self.clear_deadline(request)
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, and release its slot even if that fails."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.clear_deadline(request)
            self._slots.release()

    def clear_deadline(self, request: Any) -> None:
        """Remove the deadline of a request that is complete or has ended."""
        self.reading.pop(request, None)

    def service_actions(self) -> None:
        """Close connections whose request is not complete in time; the base class calls this a few times a second."""
        now = time.monotonic()
        for request, deadline in list(self.reading.items()):
            if now > deadline:
                self.clear_deadline(request)
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Print the error of a request, unless the client just closed the connection or was too slow."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            traceback.print_exc()


def _add_brackets(address: str) -> str:
    """Return an address in the form that a URL needs, where an IPv6 address has brackets."""
    return f"[{address}]" if ":" in address else address


class _Refused(Exception):
    """A request is refused, with this HTTP status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = PATIENCE
    server_version, sys_version = "graphfaith", ""

    def do_GET(self) -> None:
        """Send the answer to a request, or an error message."""
        self.server.clear_deadline(self.connection)
        try:
            kind, body, more = self._answer()
            self._send(HTTPStatus.OK, kind, body, more)
        except _Refused as error:
            self._send_message(error.status, str(error))
        except GraphfaithError as error:
            self._send_message(HTTPStatus.BAD_REQUEST, str(error))
        except AbandonedError:
            pass
        except Exception as error:
            traceback.print_exc()
            message = f"this could not be explained: {type(error).__name__}: {error}"
            self._send_message(HTTPStatus.INTERNAL_SERVER_ERROR, message)

    do_HEAD = do_GET

    def _answer(self) -> tuple[str, bytes, dict[str, str]]:
        server = self.server
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, "this server answers only requests to its own address")
        # Any site may have a link to the page. Following the link is harmless, because it needs the token.
        is_link = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path.startswith("/?")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_link:
            raise _Refused(HTTPStatus.FORBIDDEN, "requests from other sites are refused")
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
            suggestions = desk.find(*fields.get("text", [""])[:1])
            return "application/json", json.dumps(suggestions).encode(), {}
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
            except AbandonedError:  # Another client asked the same question first and then left.
                if not self._is_there():
                    raise

    def _is_there(self) -> bool:
        """Return whether the client still waits; a connection that it closed is readable but has no data."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return True
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

    def _check_token(self, token: str = "") -> None:
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            message = "the token is missing or wrong: open the address that graphfaith view printed"
            raise _Refused(HTTPStatus.FORBIDDEN, message)

    def _send_message(self, status: HTTPStatus, message: str) -> None:
        if self.path.startswith("/api/"):
            self._send(status, "application/json", json.dumps({"error": message}).encode())
        else:
            self._send(status, "text/plain; charset=utf-8", f"{message}\n".encode("utf-8", "replace"))

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
        with suppress(OSError):  # If the client has closed the connection, nothing can be sent.
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send the error of the base class about a request that it cannot read, without repeating the request."""
        # The base class assumes HTTP/0.9 in this case, whose answers have no status line.
        self.close_connection, self.request_version = True, "HTTP/1.0"
        status = HTTPStatus(code)
        self.path = getattr(self, "path", "")
        self.command = getattr(self, "command", None) or "GET"
        self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def log_message(self, format: str, *arguments: Any) -> None:  # The base class prescribes the name `format`.
        """Write no log, because the addresses in it would contain the token."""
