"""The live view under load: clients that say nothing or nonsense, what is kept of many answers, and a browser."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from graphfaith.view.live.desk import Desk
from graphfaith.view.live.flights import Flights
from graphfaith.view.live.redirect import Redirect
from graphfaith.view.live.server import Server
from serving import EXPLAIN, ask, raw, serving, subject


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Desk(subject(), "plant", samples=20, test_samples=20)) as one:
        yield one


@contextlib.contextmanager
def idle(server: Server, count: int, content: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that never send a complete request."""
    sockets = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection(("127.0.0.1", server.port)))
            if content:
                with contextlib.suppress(ConnectionError):  # It may have been closed already.
                    sockets[-1].sendall(content)
        yield sockets
    finally:
        for each in sockets:
            each.close()


class TestIdleClients:
    def test_they_are_hung_up_on(self, monkeypatch) -> None:
        monkeypatch.setattr("graphfaith.view.live.reception.PATIENCE", 0.5)
        with serving(Desk(subject(), "plant")) as one, idle(one, 20) as sockets:
            dripping = sockets[0]
            for letter in b"GET / HT":
                with contextlib.suppress(OSError):
                    dripping.sendall(bytes([letter]))
                time.sleep(0.15)
            for each in sockets:
                each.settimeout(10)
                with contextlib.suppress(ConnectionResetError):
                    assert each.recv(1) == b""
            assert one.reception.waiting == {}
            assert ask(one, "/api/find", text="1")[0] == 200

    @pytest.mark.parametrize("content", [b"", b"GET / HTTP/1.0\r\nHost: "])
    def test_420_of_them_do_not_lock_the_owner_out(self, server: Server, content: bytes) -> None:
        with idle(server, 420, content):
            before = threading.active_count()
            began = time.monotonic()
            for _ in range(3):
                assert ask(server, "/api/find", text="1")[0] == 200
            assert time.monotonic() - began < 3
            assert threading.active_count() < before + 10  # They have no threads.

    def test_those_that_have_waited_longest_make_room(self) -> None:
        with serving(Desk(subject(), "plant")) as one:
            one.reception.most_waiting = 10
            with idle(one, 30) as sockets:
                assert ask(one, "/api/find", text="1")[0] == 200
                assert len(one.reception.waiting) <= 10
                sockets[0].settimeout(10)
                assert sockets[0].recv(1) == b""
                rest = f"Host: 127.0.0.1:{one.port}\r\nX-Graphfaith-Token: {one.token}\r\n\r\n"
                sockets[-1].sendall(f"GET /api/find?text=1 HTTP/1.0\r\n{rest}".encode())
                assert sockets[-1].recv(100).startswith(b"HTTP/1.0 200")

    def test_without_file_descriptors_the_owner_is_answered(self, server: Server) -> None:
        """Idle connections take every descriptor there is; both ends of each are in this process."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        owner = socket.socket()
        request = f"GET /api/find?text=1 HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\n"
        used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 200
        clients = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, limits[1]))
            with contextlib.suppress(OSError):  # until no descriptor is left
                clients.extend(socket.create_connection(("127.0.0.1", server.port)) for _ in range(200))
            time.sleep(0.3)
            owner.settimeout(10)
            owner.connect(("127.0.0.1", server.port))
            busy = time.process_time()
            owner.sendall(f"{request}X-Graphfaith-Token: {server.token}\r\n\r\n".encode())
            assert owner.recv(100).startswith(b"HTTP/1.0 200")
            time.sleep(1)
            assert time.process_time() - busy < 0.7  # Nothing goes round in circles.
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for each in (owner, *clients):
                each.close()
        assert ask(server, "/api/find", text="1")[0] == 200

    def test_more_requests_than_there_is_room_for_are_told(self, monkeypatch) -> None:
        monkeypatch.setattr("graphfaith.view.live.server.MOST_REQUESTS", 5)
        with serving(Desk(subject(), "plant", samples=20, test_samples=20)) as one, ThreadPoolExecutor(5) as pool:
            go_on = threading.Event()
            one.desk._worker.submit(go_on.wait, 20)  # something is being worked out
            answers = [pool.submit(ask, one, "/api/explain", **EXPLAIN) for _ in range(5)]
            deadline = time.monotonic() + 10
            while one._slots.acquire(blocking=False):
                one._slots.release()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            status, headers, body = ask(one, "/api/find", text="1")
            assert status == 503
            assert "try again" in json.loads(body)["error"]
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            go_on.set()
            assert [answer.result()[0] for answer in answers] == [200] * 5
            assert ask(one, "/api/find", text="1")[0] == 200


def is_guarded(reply: bytes) -> bool:
    """Whether an answer has a status line and the policy, before anything else."""
    head = reply.split(b"\r\n\r\n")[0]
    return (
        re.match(rb"HTTP/1\.[01] [1-5]\d\d [A-Z]", head) is not None
        and b"\r\nContent-Security-Policy: default-src 'none'" in head
        and b"\r\nX-Content-Type-Options: nosniff" in head
    )


class TestMalformedRequests:
    @pytest.mark.parametrize(
        "content",
        [
            b"GET /\r\n\r\n", b"GET /?token=\r\n\r\n", b"GET /api/find\r\nHost: x\r\n\r\n", b"POST /\r\n\r\n",
            b"GET / HTTP/0.9\r\n\r\n", b"HEAD / HTTP/1.0\r\n\r\n", b"BREW / HTTP/1.0\r\n\r\n",
            b"TRACE / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", b"\n\n\nGET / HTTP/1.0\n\n",
            b"GET /" + b"a" * 200_000, b"GET / HTTP/1.0\r\nA: " + b"a" * 200_000, b"GET / HTTP/1.0\r\nA",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 101 + b"\r\n",
        ],
    )  # fmt: skip
    def test_every_answer_has_a_status_line_and_the_policy(self, server: Server, content: bytes) -> None:
        assert is_guarded(raw(server, content))

    def test_an_old_request_with_the_token_gets_no_page(self, server: Server) -> None:
        assert raw(server, f"GET /?token={server.token}\r\n\r\n".encode())[9:12] == b"505"

    def test_500_of_them(self, server: Server, capfd) -> None:
        rng = random.Random(0)
        found = [raw(server, make_nonsense(rng)) for _ in range(500)]
        answers = [reply for reply in found if reply]
        assert [reply[:200] for reply in answers if not is_guarded(reply)] == []
        assert len(answers) > 350
        assert not any(b" 200 " in reply[:20] or b"<main>" in reply for reply in answers)
        assert ask(server, "/api/find", text="1")[0] == 200
        assert capfd.readouterr().err == ""


def make_nonsense(rng: random.Random) -> bytes:
    """A request that is damaged at random: words left out, letters replaced, lines cut off or far too long."""
    methods = [b"GET", b"HEAD", b"POST", b"OPTIONS", b"TRACE", b"get", b"", b"\x00", b"GET " * 50]
    paths = [b"/", b"/?token=x", b"/api/find?text=1", b"*", b"", b"/" + b"a" * rng.choice([10, 70_000]), b"\xff"]
    versions = [b"HTTP/1.0", b"HTTP/1.1", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/x", b"", b"HTTP/1.1.1", b"HTTP/-1"]
    lines = [b"Host: x", b"Host", b": x", b"A: " + b"b" * 3000, b"\x00: \x00", b" folded", b"Content-Length: -1"]
    first = b" ".join(rng.choice(words) for words in (methods, paths, versions))
    headers = [rng.choice(lines) for _ in range(rng.choice([0, 1, 3, 150]))]
    content = bytearray(rng.choice([b"\r\n", b"\n"]).join([first, *headers, b"", b""]))
    for _ in range(rng.choice([0, 0, 1, 20])):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content[: rng.choice([len(content), rng.randrange(len(content) + 1)])])


class TestWhatIsKept:
    def test_answers_are_kept_by_their_size(self) -> None:
        flights: Flights[bytes] = Flights(keep=1000, weigh=len)
        for i in range(100):
            assert flights.get(i, lambda: bytes(300)) == bytes(300)
        assert [i for i in range(100) if i in flights._flights] == [97, 98, 99]
        assert len(flights.get("large", lambda: bytes(5000))) == 5000
        assert flights.get("large", lambda: b"again") == b"again"
        assert sum(flights._weights.values()) <= 1000
        assert set(flights._weights) == set(flights._flights)

    def test_pages_and_pictures_have_a_limit_together(self, monkeypatch) -> None:
        monkeypatch.setattr("graphfaith.view.live.desk._KEPT_BYTES", 60_000)
        desk = Desk(subject(), "plant", samples=20, test_samples=20)
        for node in range(3):
            question = desk.ask(node, ["saliency"], "U(A,0.5)")
            assert len(desk.picture(question)) + len(desk.page(question)) > 20_000
            assert sum(len(flight.result()) for flight in desk._pages._flights.values()) <= 60_000

    def test_an_error_is_not_kept_in_memory(self) -> None:
        import gc
        import weakref

        class Large:
            pass

        def fail() -> int:
            large = Large()
            gone.append(weakref.ref(large))
            raise ValueError("no")

        gone: list[weakref.ref[Large]] = []
        flights: Flights[int] = Flights(keep=4)
        gc.disable()
        try:
            with pytest.raises(ValueError, match="no"):
                flights.get("q", fail)
            assert gone[0]() is None
        finally:
            gc.enable()

    def test_all_work_is_done_in_one_thread(self, server: Server, monkeypatch) -> None:
        seen: set[int] = set()
        whole = server.desk.subject.__class__.explain

        def explain(*given: object, **options: object):
            seen.add(threading.get_ident())
            return whole(*given, **options)

        monkeypatch.setattr(server.desk.subject.__class__, "explain", explain)
        for module, name in (("desk", "page_data"), ("desk", "figure")):
            original = getattr(sys.modules[f"graphfaith.view.live.{module}"], name)

            def note(*given: object, original=original, **options: object):
                seen.add(threading.get_ident())
                return original(*given, **options)

            monkeypatch.setattr(f"graphfaith.view.live.{module}.{name}", note)
        with ThreadPoolExecutor(8) as pool:
            paths = ["/api/explain", "/api/explanation.svg", "/api/explanation.json"]
            statuses = pool.map(lambda i: ask(server, paths[i % 3], **(EXPLAIN | {"index": i}))[0], range(12))
            assert set(statuses) == {200}
        assert len(seen) == 1


class TestBrowser:
    def test_it_is_started_with_a_private_file_that_leads_to_the_address(self, server: Server, tmp_path, monkeypatch):
        script = tmp_path / "browser"
        script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/seen\ncp "$(echo "$1" | cut -c8-)" {tmp_path}/copy\n')
        script.chmod(0o700)
        monkeypatch.setenv("BROWSER", str(script))
        monkeypatch.setattr("webbrowser._tryorder", None)  # so that it looks at BROWSER again
        server.visited.clear()
        with Redirect(server.url) as redirect:
            assert stat.S_IMODE(redirect.path.stat().st_mode) == 0o600
            assert stat.S_IMODE(redirect.path.parent.stat().st_mode) == 0o700
            assert redirect.open(server.visited)
            seen = (tmp_path / "seen").read_text()
            assert server.token not in seen
            assert url2pathname(urlsplit(seen.strip()).path) == str(redirect.path)
            address = re.search(r'url=(http://[^"]+)"', (tmp_path / "copy").read_text())[1]
            assert address == server.url
            assert ask(server, address.split(str(server.port))[1], token="")[0] == 200
            deadline = time.monotonic() + 10
            while redirect.path.parent.exists():  # The page was opened, so nobody needs the file.
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def test_a_wrong_token_does_not_count_as_a_visit(self, server: Server) -> None:
        server.visited.clear()
        assert ask(server, "/?token=wrong", token="")[0] == 403
        assert not server.visited.is_set()

    def test_nothing_is_left_if_the_browser_never_comes(self, server: Server) -> None:
        with Redirect(server.url) as redirect:
            directory: Path = redirect.path.parent
            assert directory.exists()
        assert not directory.exists()
