"""The server of the live view, which serves only this machine, only clients with the token, and only eight paths.

Security: the server binds to a loopback address only. A page of another site can make a browser send requests to it, so
a request needs the token, which only the printed address contains. The Host header must be the address of this server,
which excludes names of other sites that were rebound to 127.0.0.1. No request can read a file by name, because the
server answers eight fixed paths and no others. Every answer has a status line and the policy, also that to nonsense,
because without them a browser would guess what the answer is and might run it.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import json
import secrets
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..._base.errors import GraphfaithError, InputError, OutputError
from ..page import asset, policy, render_page
from .desk import AbandonedError, Desk
from .reception import LONGEST_HEAD, PATIENCE, Reception, is_complete

SCRIPTS = ("live.js", "oracle.js", "begin.js")
TOKEN_HEADER = "X-Graphfaith-Token"
MOST_REQUESTS = 400  # that are answered at the same time, each by a thread of its own


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


class Server:
    """The server for one desk; ``start`` is the data of the empty page, from
    :meth:`~graphfaith.view.live.desk.Desk.start`.
    """

    def __init__(self, desk: Desk, start: dict[str, Any], host: str = "127.0.0.1", port: int = 0) -> None:
        self.desk, self.start = desk, start
        self.token = secrets.token_urlsafe(24)
        self.visited = threading.Event()  # whether the page was sent to somebody who has the token
        address = check_loopback(host)
        check_port(port)
        self._slots = threading.BoundedSemaphore(MOST_REQUESTS)
        self._ending, self._ended = threading.Event(), threading.Event()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self.socket = socket.create_server((address, port), family=family, backlog=512)
        except OSError as error:
            raise OutputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
        self.reception = Reception(self.socket, self._admit)
        self.port: int = self.socket.getsockname()[1]
        self.hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]", _add_brackets(address))}
        self.url = f"http://{_add_brackets(address)}:{self.port}/?token={self.token}"

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Answer requests until :meth:`shutdown` is called, which is noticed after ``poll_interval`` seconds."""
        self._ended.clear()
        try:
            while not self._ending.is_set():
                self.reception.attend(poll_interval)
        finally:
            self._ending.clear()
            self._ended.set()

    def shutdown(self) -> None:
        """Make :meth:`serve_forever` end, which runs in another thread, and wait until it has ended."""
        self._ending.set()
        self._ended.wait()

    def close(self) -> None:
        """Close the sockets of the listener and of those whose request is not complete."""
        self.reception.close()
        self.socket.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _admit(self, request: socket.socket, client_address: Any, head: bytes) -> None:
        """Answer a request in a new thread, or send a short error if MOST_REQUESTS threads are running."""
        has_slot = self._slots.acquire(blocking=False)
        if has_slot:
            try:
                threading.Thread(target=self._answer, args=(request, client_address, head), daemon=True).start()
            except RuntimeError:  # The system allows no more threads.
                self._slots.release()
                has_slot = False
        if not has_slot:
            with suppress(OSError):
                request.sendall(_make_busy_reply())
            _hang_up(request)

    def _answer(self, request: socket.socket, client_address: Any, head: bytes) -> None:
        """Answer a request, and release its slot even if that fails."""
        try:
            _Handler(request, client_address, self, head)
        except (ConnectionError, TimeoutError):  # The client closed the connection, or was too slow.
            pass
        except Exception:
            traceback.print_exc()
        finally:
            _hang_up(request)
            self._slots.release()


def _hang_up(connection: socket.socket) -> None:
    """Close a connection after its answer was sent."""
    # If unread data were left, closing would reset the connection, and the client might lose the answer.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        connection.setblocking(False)
        for _ in range(16):
            if not connection.recv(LONGEST_HEAD):
                break
    connection.close()


def _add_brackets(address: str) -> str:
    """Return an address in the form that a URL needs, where an IPv6 address has brackets."""
    return f"[{address}]" if ":" in address else address


class _Refused(Exception):
    """A request is refused, with this HTTP status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def _make_headers(kind: str, body: bytes) -> dict[str, str]:
    """Return the headers that every answer has, whatever was asked."""
    return {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Content-Security-Policy": f"{policy(SCRIPTS)}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


def _make_busy_reply() -> bytes:
    """Return the whole answer to a request for which there is no thread."""
    body = b'{"error": "there are too many requests at once: try again in a moment"}\n'
    headers = [f"{name}: {value}" for name, value in _make_headers("application/json", body).items()]
    return "\r\n".join(["HTTP/1.0 503 Service Unavailable", *headers, "", ""]).encode() + body


class _Handler(BaseHTTPRequestHandler):
    server: Server  # type: ignore[assignment]
    timeout = PATIENCE
    server_version, sys_version = "graphfaith", ""
    # The base class sets these when it has read a request. An answer to a request that cannot be read needs them too.
    command, path, requestline, request_version = "GET", "", "", "HTTP/1.0"

    def __init__(self, request: socket.socket, client_address: Any, server: Server, head: bytes) -> None:
        self._head = head
        super().__init__(request, client_address, server)  # type: ignore[arg-type]

    def setup(self) -> None:
        """Let the base class read the request that the reception has read from the connection."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(io.BytesIO(self._head))

    def handle(self) -> None:
        """Answer the one request of a connection."""
        if is_complete(self._head):
            self.handle_one_request()
        elif len(self._head) <= LONGEST_HEAD:
            self.send_error(HTTPStatus.BAD_REQUEST)
        elif b"\n" in self._head:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)

    def parse_request(self) -> bool:
        """Read the request; refuse HTTP/0.9, whose answers have neither a status line nor headers."""
        if not super().parse_request():
            return False
        if self.request_version == "HTTP/0.9":
            self.send_error(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
            return False
        return True

    def do_GET(self) -> None:
        """Send the answer to a request, or an error message."""
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
            server.visited.set()
            text = render_page(server.start, controls=asset("live.html"), scripts=SCRIPTS)
            return "text/html; charset=utf-8", text.encode(), {}
        self._check_token(self.headers.get(TOKEN_HEADER, ""))
        desk = server.desk
        if parts.path == "/api/find":
            suggestions = desk.find(*fields.get("text", [""])[:1])
            return "application/json", json.dumps(suggestions).encode(), {}
        answers: dict[str, tuple[str, Callable[..., Any], Callable[..., bytes]]] = {
            "/api/explain": ("application/json", desk.question, desk.page),
            "/api/what-if": ("application/json", desk.question_and_removal, desk.judge),
            "/api/flip": ("application/json", desk.question, desk.flip),
            "/api/explanation.json": ("application/json", desk.question, desk.rows),
            "/api/explanation.svg": ("image/svg+xml", desk.question, desk.picture),
            "/api/explanation.html": ("text/html; charset=utf-8", desk.question, desk.file),
        }
        if parts.path not in answers:
            raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        kind, read, answer = answers[parts.path]
        question = read(fields)
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
            self.connection.setblocking(False)
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self.connection.settimeout(PATIENCE)

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
        headers = {**_make_headers(kind, body), **(more or {})}
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
        self.command = self.command or "GET"
        status = HTTPStatus(code)
        self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def log_message(self, format: str, *arguments: Any) -> None:  # The base class prescribes the name `format`.
        """Write no log, because the addresses in it would contain the token."""
