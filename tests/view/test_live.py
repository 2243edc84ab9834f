"""The live view without a browser: whom it answers, what it says, and that it never does the same work twice."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
import torch
from typer.testing import CliRunner

from graphfaith._base.errors import InputError, OutputError, UnsupportedError
from graphfaith.cli.application import app
from graphfaith.facade import Subject
from graphfaith.view.live.desk import Desk, Question
from graphfaith.view.live.flights import Flights
from graphfaith.view.live.server import Server, check_loopback
from serving import EXPLAIN, ask, raw, serving, subject


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Desk(subject(), "plant", samples=20, test_samples=20)) as one:
        yield one


class TestWhomItAnswers:
    def test_the_printed_address(self, server: Server) -> None:
        path = server.url.split(str(server.port))[1]
        status, headers, body = ask(server, path, token="")
        assert status == 200
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"<main>" in body
        assert server.token.encode() not in body

    @pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/?other=1", "/?token=%ff"])
    def test_not_without_the_token(self, server: Server, path: str) -> None:
        status, _, body = ask(server, path, token="")
        assert status in (400, 403)
        assert b"<main>" not in body

    @pytest.mark.parametrize("token", ["", "wrong", "x" * 5000, "\u00e9"])
    def test_no_question_without_the_token(self, server: Server, token: str) -> None:
        for path in ("/api/explain", "/api/explanation.json", "/api/explanation.svg", "/api/find", "/api/nothing"):
            status, _, body = ask(server, path, token, **EXPLAIN)
            assert status == 403
            assert "open the address" in json.loads(body)["error"]

    def test_a_token_in_the_address_is_none_for_a_question(self, server: Server) -> None:
        request = f"GET /api/find?token={server.token} HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        assert raw(server, request.encode())[9:12] == b"403"

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:{port}", "0.0.0.0:{port}", ""]
    )
    def test_not_under_another_name(self, server: Server, host: str) -> None:
        status, _, body = ask(server, "/api/find", headers={"Host": host.format(port=server.port)}, text="1")
        assert status == 403
        assert "own address" in json.loads(body)["error"]

    @pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
    def test_its_own_names(self, server: Server, host: str) -> None:
        assert ask(server, "/api/find", headers={"Host": host.format(port=server.port)}, text="1")[0] == 200

    def test_two_names_are_none(self, server: Server) -> None:
        own = f"Host: 127.0.0.1:{server.port}\r\n"
        got = raw(server, f"GET /?token={server.token} HTTP/1.0\r\n{own}Host: evil.example\r\n\r\n".encode())
        assert got[9:12] == b"403"
        assert raw(server, f"GET /?token={server.token} HTTP/1.0\r\n\r\n".encode())[9:12] == b"403"

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_not_for_another_site(self, server: Server, site: str) -> None:
        headers = {"Sec-Fetch-Site": site}
        assert ask(server, "/api/find", headers=headers, text="1")[0] == 403
        assert ask(server, "/api/find", headers=headers | {"Sec-Fetch-Mode": "navigate"}, text="1")[0] == 403
        page = server.url.split(str(server.port))[1]
        assert ask(server, page, headers=headers)[0] == 403  # an image, say
        assert ask(server, page, headers=headers | {"Sec-Fetch-Mode": "navigate"})[0] == 200  # a link
        assert ask(server, "/?token=wrong", headers=headers | {"Sec-Fetch-Mode": "navigate"})[0] == 403

    @pytest.mark.parametrize(
        "path",
        ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "/api/../../etc/passwd", "/assets/page.js", "//etc/passwd",
         "/api/", "/api/explain/", "/%2e%2e/%2e%2e/etc/passwd", "\\etc\\passwd", "file:///etc/passwd", "http://evil.example/"],
    )  # fmt: skip
    def test_there_are_no_files(self, server: Server, path: str) -> None:
        request = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\nX-Graphfaith-Token: {server.token}\r\n\r\n"
        got = raw(server, request.encode())
        assert got[9:12] in (b"404", b"403", b"400")
        assert b"root:" not in got

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
    def test_it_is_only_read(self, server: Server, method: str) -> None:
        request = f"{method} /?token={server.token} HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\n\r\n"
        assert raw(server, request.encode())[9:12] == b"501"

    @pytest.mark.parametrize(
        "host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "", "127.0.0.1.example.org", "8.8.8.8"]
    )
    def test_the_loopback_alone(self, host: str) -> None:
        with pytest.raises(InputError, match="served to this machine alone"):
            check_loopback(host)
        with pytest.raises(InputError, match="served to this machine alone"):
            Server(server, {}, host)

    def test_it_listens_there_and_nowhere_else(self, server: Server) -> None:
        assert server.socket.getsockname()[0] == "127.0.0.1"

    def test_a_port_that_is_taken_or_none(self, server: Server) -> None:
        with pytest.raises(OutputError, match=f"cannot listen on 127.0.0.1 port {server.port}"):
            Server(server.desk, {}, port=server.port)
        with pytest.raises(InputError, match="between 0"):
            Server(server.desk, {}, port=70000)

    def test_every_answer_is_guarded(self, server: Server) -> None:
        for path, token in (
            (server.url.split(str(server.port))[1], ""),
            ("/api/find", None),
            ("/api/no", None),
            ("/", ""),
        ):
            _, headers, _ = ask(server, path, token)
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert "Access-Control-Allow-Origin" not in headers

    def test_two_servers_have_two_tokens(self, server: Server) -> None:
        with Server(server.desk, {}) as another:
            assert len(another.token) >= 32
            assert another.token != server.token


class TestAnswers:
    def test_what_the_page_shows(self, server: Server) -> None:
        status, _, body = ask(server, "/api/explain", **EXPLAIN)
        data = json.loads(body)
        assert status == 200
        assert [panel["title"] for panel in data["panels"]] == ["Saliency", "KEC"]
        assert [data["ids"][at] for at in data["explained"]] == [3]
        assert data["title"] == "plant, node 3 (tank 3)"
        assert re.match(r"Class \d, probability ", data["headline"])
        assert all(panel["trust"] is not None for panel in data["panels"])

    def test_the_numbers_are_those_of_the_command(self, server: Server) -> None:
        rows = json.loads(ask(server, "/api/explanation.json", **EXPLAIN)[2])
        expected = subject().explain(3, "kec", "U(A,0.5)", samples=20, test_samples=20)
        assert [row["method"] for row in rows] == ["saliency", "kec"]
        assert rows[1]["unfaithfulness"] == expected.unfaithfulness.value
        assert [edge["score"] for edge in rows[1]["edges"][:5]] == [edge.score for edge in expected.top_edges(5)]

    def test_a_picture(self, server: Server) -> None:
        status, headers, body = ask(server, "/api/explanation.svg", **EXPLAIN)
        assert (status, headers["Content-Type"], headers["Content-Disposition"]) == (200, "image/svg+xml", "attachment")
        assert body.startswith(b"<?xml")

    @pytest.mark.parametrize(
        ("text", "node"), [("tank 7", 7), ("7", 7), (" 7 ", 7), ("<b>", 28), ("tank 3", 3), ("29", 29)]
    )
    def test_a_node_by_name_or_id(self, server: Server, text: str, node: int) -> None:
        assert server.desk.named(text) == node

    def test_suggestions(self, server: Server) -> None:
        found = json.loads(ask(server, "/api/find", text="TANK 1")[2])
        assert [one["id"] for one in found] == [1, *range(10, 20)]
        assert found[0] == {"id": 1, "name": "tank 1", "text": "tank 1"}
        assert [one["id"] for one in json.loads(ask(server, "/api/find", text="3")[2])][:2] == [3, 13]
        for nothing in ("", "nowhere", "9" * 400):
            assert json.loads(ask(server, "/api/find", text=nothing)[2]) == []

    def test_names_that_are_numbers_are_not_taken_for_ids(self) -> None:
        given = subject()
        given.data.node_names = [str((i + 5) % 30) for i in range(30)]
        desk = Desk(given, "plant", samples=20, test_samples=20)
        near = {"near": ["U(A,0.5)"], "method": ["saliency"]}
        assert desk.question({"index": ["3"], **near}).index == 3
        assert desk.question({"name": ["3"], **near}).index == 28
        for node in range(30):
            assert desk.named(desk.text(node)) == node
            assert desk.ask(node, ["saliency"], "U(A,0.5)").index == node
        for one in desk.find("1"):
            assert desk.named(one["text"]) == one["id"]
        assert json.loads(desk.page(desk.ask(3, ["saliency"], "U(A,0.5)")))["title"].startswith("plant, node 3 (8)")

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"index": 30}, "node 30 is out of range: the graph has nodes 0 to 29"),
            ({"index": -1}, "node -1 is out of range"),
            ({"index": "nobody"}, "'nobody' is not the id or the name of a node of plant"),
            ({"index": "1_0"}, "'1_0' is not the id"),
            ({"index": "\uff11"}, "is not the id"),
            ({"name": "tank 3"}, "either the index or the name"),
            ({"near": "all"}, "give one neighbourhood"),
            ({"index": ""}, "give one index"),
            ({"index": [1, 2]}, "give one index"),
            ({"near": "U(B,0.5)"}, "U(B,0.5)"),
            ({"near": "U(A,-1)"}, "sigma must be above 0"),
            ({"other": 1}, "no field called 'other'"),
            ({"method": "magic"}, "unknown method 'magic'"),
            ({"method": []}, "at least one method"),
            ({"method": "all"}, "at most 6 methods"),
            ({"index": "x" * 3000}, "…' is not the id"),
        ],
    )
    def test_mistakes_in_words(self, server: Server, fields: dict[str, object], words: str) -> None:
        status, _, body = ask(server, "/api/explain", **(EXPLAIN | fields))
        assert status == 400
        assert words in json.loads(body)["error"]
        assert len(body) < 400

    def test_a_model_that_some_methods_cannot_explain(self, monkeypatch) -> None:
        whole = Subject.explainer

        def explainer(self: Subject, method: str, *more: object, **options: object):
            if method == "linear":
                raise UnsupportedError("Linear explains other models")
            return whole(self, method, *more, **options)

        monkeypatch.setattr(Subject, "explainer", explainer)
        desk = Desk(subject(), "plant")
        assert "linear" not in desk.start(Question(0, ("kec",), "U(A,0.5)"))["live"]["methods"]
        with pytest.raises(UnsupportedError, match="linear cannot explain this model: Linear explains other models"):
            desk.ask(0, ["linear"], "U(A,0.5)")

    def test_only_anchored_kec_knows_how_many_samples_it_needs(self) -> None:
        desk = Desk(subject(), "plant", samples="auto", test_samples=20)
        rows = json.loads(desk.rows(desk.ask(3, ["anchored-kec", "kec"], "U(A,0.5)")))
        assert [row["fit_samples"] for row in rows][1] == 200

    @pytest.mark.parametrize("index", ["99999999999999999999", "4294967296", "-1"])
    def test_a_graph_that_is_not_there(self, index: str) -> None:
        with pytest.raises(InputError):
            Desk(subject(level="graph"), "plant").row(index)

    @pytest.mark.parametrize(
        ("kind", "node"),
        [(ZeroDivisionError, 14), (FileNotFoundError, 15), (ConnectionResetError, 16), (MemoryError, 17)],
    )
    def test_a_crash_is_told_and_survived(self, server: Server, monkeypatch, capfd, kind, node: int) -> None:
        def crash(*_: object, **options: object) -> None:
            raise kind("of the model")

        monkeypatch.setattr(Subject, "explain", crash)
        fields = EXPLAIN | {"index": node}
        status, _, body = ask(server, "/api/explain", **fields)
        assert status == 500
        assert json.loads(body)["error"] == f"this could not be explained: {kind.__name__}: of the model"
        assert "Traceback" in capfd.readouterr().err
        monkeypatch.undo()
        assert ask(server, "/api/explain", **fields)[0] == 200

    def test_a_warning_is_a_note(self, server: Server, monkeypatch) -> None:
        from graphfaith._base.errors import ReachWarning

        whole = Subject.explain

        def warned(self: Subject, *arguments: object, **options: object):
            import warnings

            warnings.warn("messages go further", ReachWarning, stacklevel=1)
            return whole(self, *arguments, **options)

        monkeypatch.setattr(Subject, "explain", warned)
        data = json.loads(ask(server, "/api/explain", **(EXPLAIN | {"index": 18}))[2])
        assert data["notes"] == ["messages go further"]


class TestManyAtOnce:
    @pytest.fixture
    def counted(self, monkeypatch) -> dict[str, object]:
        """How often each thing is explained, and how many explanations ran at a time."""
        seen: dict[str, object] = {"done": [], "now": 0, "most": 0}
        lock, whole = threading.Lock(), Subject.explain

        def explain(self: Subject, index: int, method: str, near: str, **options: object):
            with lock:
                seen["done"].append((index, method, near))
                seen["now"] += 1
                seen["most"] = max(seen["most"], seen["now"])
            time.sleep(0.05)
            try:
                return whole(self, index, method, near, **options)
            finally:
                with lock:
                    seen["now"] -= 1

        monkeypatch.setattr(Subject, "explain", explain)
        return seen

    def test_200_requests_for_one_thing_are_one_explanation(self, server: Server, counted) -> None:
        fields = EXPLAIN | {"index": 11}
        start = threading.Barrier(200)

        def one(_: int) -> tuple[int, bytes]:
            start.wait()
            status, _, body = ask(server, "/api/explain", **fields)
            return status, body

        with ThreadPoolExecutor(200) as pool:
            found = set(pool.map(one, range(200)))
        assert len(found) == 1
        assert next(iter(found))[0] == 200
        assert sorted(counted["done"]) == [(11, "kec", "U(A,0.5)"), (11, "saliency", "U(A,0.5)")]
        assert counted["most"] == 1

    def test_200_requests_for_many_things(self, server: Server, counted) -> None:
        paths = ["/api/explain", "/api/explanation.json", "/api/find", "/api/nothing", "/api/explanation.svg"]

        def one(i: int) -> int:
            fields = {"text": i} if i % 5 == 2 else EXPLAIN | {"index": 20 + i % 4, "method": "saliency"}
            return ask(server, paths[i % 5], **fields)[0]

        with ThreadPoolExecutor(200) as pool:
            found = list(pool.map(one, range(200)))
        assert [status for i, status in enumerate(found) if i % 5 != 3] == [200] * 160
        assert [status for i, status in enumerate(found) if i % 5 == 3] == [404] * 40
        assert sorted(counted["done"]) == [(node, "saliency", "U(A,0.5)") for node in range(20, 24)]
        assert counted["most"] == 1

    @pytest.mark.parametrize(
        "content",
        [
            b"", b"\r\n", b"\x00\xff\x16\x03\x01garbage\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/x\r\n\r\n",
            b"GET /" + b"a" * 70000 + b" HTTP/1.0\r\n\r\n", b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 200 + b"\r\n",
            b"GET / HTTP/1.0\r\nHost: " + b"h" * 70000 + b"\r\n\r\n", b"GET /?%zz=%zz&&&=== HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost", b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: -5\r\n\r\n",
            b"GET http://[::1 HTTP/1.0\r\nHost: x\r\n\r\n", b"<script>alert(1)</script> / HTTP/1.0\r\n\r\n",
        ],
    )  # fmt: skip
    def test_malformed_ones(self, server: Server, content: bytes, capfd) -> None:
        got = raw(server, content)
        if content.strip() and content != b"GET / HTTP/1.0\r\nHost":
            assert re.match(rb"HTTP/1\.[01] (400|403|404|414|431|501|505)", got)
            assert b"default-src 'none'" in got
        assert b"<script>" not in got
        assert ask(server, "/api/find", text="1")[0] == 200
        assert capfd.readouterr().err == ""

    def test_too_many_questions_in_one(self, server: Server) -> None:
        status, _, body = ask(server, "/api/explain", **(EXPLAIN | {"method": ["kec"] * 100}))
        assert status == 400
        assert "cannot be read" in json.loads(body)["error"]

    def test_what_nobody_waits_for_is_not_worked_out(self, server: Server, counted) -> None:
        first = threading.Thread(target=ask, args=(server, "/api/explain"), kwargs=EXPLAIN | {"index": 25})
        go_on = threading.Event()
        server.desk._worker.submit(go_on.wait, 10)  # something is being worked out
        first.start()
        for node in (26, 27):
            path = f"/api/explain?{urlencode(EXPLAIN | {'index': node}, doseq=True)}"
            own = f"Host: 127.0.0.1:{server.port}\r\nX-Graphfaith-Token: {server.token}\r\n"
            with socket.create_connection(("127.0.0.1", server.port)) as left:
                left.sendall(f"GET {path} HTTP/1.0\r\n{own}\r\n".encode())
                time.sleep(0.2)
        go_on.set()
        first.join()
        time.sleep(0.2)
        assert {node for node, _, _ in counted["done"]} == {25}
        assert ask(server, "/api/explain", **(EXPLAIN | {"index": 26}))[0] == 200

    def test_clients_that_leave_do_no_harm(self, server: Server, capfd) -> None:
        request = f"GET /?token={server.token} HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port)) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                one.sendall(request)
        assert ask(server, "/api/find", text="1")[0] == 200
        assert capfd.readouterr().err == ""


class TestFlights:
    def test_a_failure_reaches_all_who_wait_and_may_be_asked_again(self) -> None:
        flights: Flights[int] = Flights(keep=4)
        begun, go = threading.Event(), threading.Event()

        def fail() -> int:
            begun.set()
            go.wait(10)
            raise ValueError("no")

        with ThreadPoolExecutor(4) as pool:
            first = pool.submit(flights.get, "q", fail)
            begun.wait(10)
            others = [pool.submit(flights.get, "q", lambda: 1) for _ in range(3)]
            time.sleep(0.05)
            go.set()
            assert all(isinstance(one.exception(), ValueError) for one in (first, *others))
        assert flights.get("q", lambda: 2) == 2

    def test_only_the_last_are_kept(self) -> None:
        flights: Flights[int] = Flights(keep=2)
        for i in (1, 2, 1, 3):
            flights.get(i, lambda i=i: i)
        assert [flights.get(i, lambda: 0) for i in (1, 3)] == [1, 3]
        assert flights.get(2, lambda: 0) == 0


class TestCommand:
    def start(self, tmp_path, model: str, *options: str) -> tuple[subprocess.Popen[str], str]:
        (tmp_path / "mine.py").write_text(model)
        torch.save(
            {"x": torch.eye(6)[:, :3], "edge_index": torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])},
            tmp_path / "g.pt",
        )
        command = [
            sys.executable,
            "-m",
            "graphfaith",
            "view",
            "--model",
            "mine:load",
            "--data",
            "g.pt",
            "--method",
            "saliency",
            *options,
        ]

        def listen_to_interrupts() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores them

        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=listen_to_interrupts,
        )  # fmt: skip
        line = process.stdout.readline()
        return process, re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)[0]

    def test_it_serves_a_model_of_one_s_own_until_ctrl_c(self, tmp_path, monkeypatch) -> None:
        model = "from torch_geometric.nn import GCN\ndef load():\n    return GCN(3, 4, num_layers=2, out_channels=2)\n"
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/unfinished\nmv {tmp_path}/unfinished {tmp_path}/seen\n')
        browser.chmod(0o700)
        monkeypatch.setenv("BROWSER", str(browser))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        process, url = self.start(tmp_path, model, "--open")
        try:
            port, token = int(url.split(":")[2].split("/")[0]), url.split("=")[1]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(
                "GET", f"/api/explain?{urlencode(EXPLAIN, doseq=True)}", headers={"X-Graphfaith-Token": token}
            )
            assert connection.getresponse().status == 200
            connection.close()
            deadline = time.monotonic() + 30
            while not (tmp_path / "seen").exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
        seen = (tmp_path / "seen").read_text()  # the command line of the browser, which every user can read
        assert token not in seen
        assert seen.startswith(f"file://{tmp_path}/graphfaith-")
        assert not list(tmp_path.glob("graphfaith-*"))
        assert process.returncode == 0
        assert out.endswith("stopped\n")
        assert "Traceback" not in err
        assert token not in err

    @pytest.mark.parametrize("presses", [1, pytest.param(3, marks=pytest.mark.nightly)])
    def test_ctrl_c_ends_it_in_the_middle_of_work(self, tmp_path, presses: int) -> None:
        model = (
            "import time, torch\nfrom torch_geometric.nn import GCN\n"
            "class Slow(GCN):\n    calls = 0\n    def forward(self, x, edge_index, edge_weight=None):\n"
            "        Slow.calls += 1\n        time.sleep(60 if __import__('os').path.exists('slow') else 0)\n"
            "        return super().forward(x, edge_index, edge_weight)\n"
            "def load():\n    return Slow(3, 4, num_layers=2, out_channels=2)\n"
        )
        process, url = self.start(tmp_path, model)
        try:
            (tmp_path / "slow").touch()
            port, token = int(url.split(":")[2].split("/")[0]), url.split("=")[1]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(
                "GET", f"/api/explain?{urlencode(EXPLAIN, doseq=True)}", headers={"X-Graphfaith-Token": token}
            )
            time.sleep(1)
            began = time.monotonic()
            for _ in range(presses):
                process.send_signal(signal.SIGINT)
                time.sleep(0.05)
            out, err = process.communicate(timeout=40)
            assert time.monotonic() - began < 20
            connection.close()
        finally:
            process.kill()
        assert process.returncode == 0
        assert out.endswith("stopped\n")
        assert "Traceback" not in err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--host", "0.0.0.0"], "served to this machine alone"),
            (["--dataset", "nowhere"], "unknown dataset"),
            (["--neighborhood", "U(A)"], "U(A)"),
            (["--method", "magic"], "unknown method"),
            (["--node", "-4"], "out of range"),
            (["--dataset", "ba-shapes", "--neighborhood", "U(X,0.2r)"], "constant"),
            (["--method", "all"], "at most 6 methods"),
            (["--port", "70000"], "the port must be"),
        ],
    )
    def test_mistakes_before_anything_is_served(self, arguments: list[str], words: str) -> None:
        found = CliRunner().invoke(app, ["view", "--dataset", "ba-shapes", *arguments])
        assert words in str(found.exception)
        assert "accuracy" not in found.output  # nothing was trained
