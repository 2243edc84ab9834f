"""The live view under stress: malformed requests, many at once, idle connections, hundreds of answers, and Ctrl-C.

`run` starts `graphfaith view` as a user would, on a small model of its own, and returns a row for each part: what was
tried, how many, and what came out. A part raises an AssertionError if something is wrong, and its row says so; the
other parts are tried nevertheless. It takes about two minutes.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

import torch
from table import FAILED, Row

MODEL = """
import os, time, torch
from torch_geometric.nn import GCN

class Model(GCN):
    def forward(self, x, edge_index, edge_weight=None):
        if os.path.exists("slow"):
            time.sleep(60)
        while os.path.exists("busy"):  # inside torch nearly all of the time
            torch.rand(400, 400) @ torch.rand(400, 400)
        return super().forward(x, edge_index, edge_weight)

def load():
    if os.path.exists("late"):
        open("loading", "w").close()
        time.sleep(60)
    torch.manual_seed(0)
    return Model(60, 8, num_layers=2, out_channels=3)
"""
METHODS = ("anchored-kec", "kec", "saliency", "linear")
NEIGHBORHOODS = ("U(A,0.2)", "U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.5r)xU(A,0.5)")
NODES = 400
OWNER = 2.0  # seconds in which the owner of the view has to be answered, whatever others do
GROWTH = 48  # MB by which the memory may be larger in the last quarter of the requests than in the second


class View:
    """A running `graphfaith view`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder
        self.port, self.token = 0, ""

    def wait_for_address(self) -> None:
        """Wait until the view has printed its address."""
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", self.process.stdout.readline())
        assert found is not None, "the view printed no address"
        self.port, self.token = int(found[1]), found[2]

    def get(self, path: str, timeout: float = 120, **fields: object) -> tuple[int, bytes]:
        """The status and the body of an answer to the owner."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            address = f"{path}?{urlencode(fields, doseq=True)}"
            connection.request("GET", address, headers={"X-Graphfaith-Token": self.token})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def time_owner(self) -> float:
        """The seconds in which a quick question of the owner is answered."""
        began = time.monotonic()
        assert self.get("/api/find", timeout=30, text="1")[0] == 200, "the owner was refused"
        return time.monotonic() - began

    def send(self, content: bytes) -> bytes:
        """What comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as one:
            reply = b""
            with suppress(ConnectionError):
                one.sendall(content)
                one.shutdown(socket.SHUT_WR)
                while part := one.recv(65536):
                    reply += part
            return reply

    def memory(self) -> float | None:
        """The MB of memory that the process holds; None where the system does not tell."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return None
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        return None if found is None else int(found[1]) / 1024


@contextmanager
def start(folder: Path) -> Iterator[View]:
    """Start a view of a small model in a folder, and end it."""
    (folder / "mine.py").write_text(MODEL, encoding="utf-8")
    generator = torch.Generator().manual_seed(0)
    parents = [int(torch.randint(i, (), generator=generator)) for i in range(1, NODES)]
    tree = torch.stack([torch.arange(1, NODES), torch.tensor(parents)])
    x = (torch.rand(NODES, 60, generator=generator) < 0.1).float()
    torch.save({"x": x, "edge_index": torch.cat([tree, tree.flip(0)], dim=1)}, folder / "graph.pt")
    command = [sys.executable, "-m", "graphfaith", "view", "--model", "mine:load", "--data", "graph.pt"]
    command += ["--method", "saliency", "--samples", "30", "--test-samples", "30"]
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=_listen_to_interrupts,
    )  # fmt: skip
    try:
        yield View(process, folder)
    finally:
        process.kill()
        process.communicate()


def _listen_to_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A job in the background would ignore them.


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


def send_nonsense(view: View, count: int) -> Row:
    """Malformed requests: every answer has a status line and the policy, and none gives anything away."""
    rng = random.Random(1)
    requests = [make_nonsense(rng) for _ in range(count)]
    with ThreadPoolExecutor(8) as pool:
        replies = [reply for reply in pool.map(view.send, requests) if reply]
    for reply in replies:
        head = reply.split(b"\r\n\r\n")[0]
        assert re.match(rb"HTTP/1\.[01] [45]\d\d [A-Z]", head), f"no error with a status line: {head[:100]!r}"
        assert b"\r\nContent-Security-Policy: default-src 'none'" in head, f"no policy: {head[:200]!r}"
    assert len(replies) > count / 2, "hardly any of the requests was answered"
    seconds = view.time_owner()
    assert seconds < OWNER, f"the owner waited for {seconds:.1f} s afterwards"
    outcome = f"{len(replies):,} refused with status line and policy, the rest hung up on"
    return Row("malformed requests", f"{count:,}", outcome)


def ask_at_once(view: View, count: int) -> Row:
    """Requests at the same time, for a few different things: all are answered, and equal ones alike."""
    barrier = threading.Barrier(count)

    def one(i: int) -> tuple[int, int, bytes]:
        barrier.wait()
        path = ("/api/explain", "/api/explanation.json")[i % 2]
        return i % 6, *view.get(path, index=i % 3, near="U(A,0.5)", method=["saliency", "kec"])

    began = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(one, range(count)))
    statuses = Counter(status for _, status, _ in answers)
    assert statuses == {200: count}, f"answers by status: {dict(statuses)}"
    assert len({(kind, body) for kind, _, body in answers}) == 6, "equal questions got different answers"
    outcome = f"all answered in {time.monotonic() - began:.1f} s, equal ones alike"
    return Row("concurrent requests", f"{count:,}", outcome)


def keep_idle(view: View, counts: tuple[int, ...]) -> Row:
    """Connections that send nothing, or never a whole request: the owner is answered nevertheless."""
    slowest = 0.0
    for count in counts:
        sockets: list[socket.socket] = []
        try:
            for i in range(count):
                sockets.append(socket.create_connection(("127.0.0.1", view.port), timeout=30))
                if i % 2:
                    with suppress(ConnectionError):
                        sockets[-1].sendall(b"GET / HTTP/1.0\r\nHost: ")
            slowest = max(slowest, *(view.time_owner() for _ in range(5)))
        finally:
            for each in sockets:
                each.close()
    assert slowest < OWNER, f"the owner waited for {slowest:.1f} s"
    outcome = f"the owner waited for {slowest:.2f} s at most"
    return Row("idle connections", " and ".join(f"{n:,}" for n in counts), outcome)


def ask_for_much(view: View, count: int) -> Row:
    """Different questions one after the other: the memory of the process stays the same."""
    rng = random.Random(2)
    paths = ("/api/explain", "/api/explain", "/api/find", "/api/explanation.json", "/", "/api/explanation.svg")
    memory, statuses = [], Counter[int]()
    for i in range(count):
        path = paths[i % len(paths)]
        question = {"index": rng.randrange(NODES), "near": rng.choice(NEIGHBORHOODS), "method": rng.sample(METHODS, 2)}
        fields = {"/": {"token": view.token}, "/api/find": {"text": str(i)}}.get(path, question)
        statuses[view.get(path, **fields)[0]] += 1
        memory.append(view.memory())
    assert statuses == {200: count}, f"answers by status: {dict(statuses)}"
    known = [value for value in memory if value is not None]
    if not known:
        return Row("mixed requests", f"{count:,}", "all answered; the memory cannot be read on this system")
    quarter = count // 4
    before, after = statistics.median(known[quarter : 2 * quarter]), statistics.median(known[-quarter:])
    assert after - before < GROWTH, f"memory grew from {before:.0f} to {after:.0f} MB"
    outcome = f"all answered; memory {before:.0f} MB early, {after:.0f} MB at the end"
    return Row("mixed requests", f"{count:,}", outcome)


def interrupt_twice(count: int) -> Row:
    """Two presses of Ctrl-C while the model is loaded, while nothing happens, and while the model works."""
    moments = ("loading", "idle", "slow", "busy")
    for i in range(count):
        moment = moments[i % len(moments)]
        with tempfile.TemporaryDirectory() as name, start(Path(name)) as view:
            if moment == "loading":
                (view.folder / "late").touch()
                _wait_for(view.folder / "loading")
            else:
                view.wait_for_address()
            if moment in ("slow", "busy"):
                (view.folder / moment).touch()
                threading.Thread(target=_ask_in_vain, args=(view,), daemon=True).start()
                time.sleep(0.5)
            for pause in (random.Random(i).choice([0.0, 0.002, 0.05, 0.3]), 0.0):
                with suppress(ProcessLookupError):
                    view.process.send_signal(signal.SIGINT)
                time.sleep(pause)
            _, errors = view.process.communicate(timeout=60)
            expected = 130 if moment == "loading" else 0
            assert view.process.returncode == expected, (
                f"{moment}: exit code {view.process.returncode}: {errors[-300:]}"
            )
            assert "Traceback" not in errors, f"{moment}: {errors[-600:]}"
            assert "terminate" not in errors, f"{moment}: {errors[-600:]}"
    outcome = "ended each time, with code 0 (130 before it serves), in silence"
    return Row("Ctrl-C twice, at four moments", f"{count:,}", outcome)


def _ask_in_vain(view: View) -> None:
    with suppress(OSError, http.client.HTTPException):
        view.get("/api/explain", index=1, near="U(A,0.5)", method="saliency")


def _wait_for(path: Path, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not appear"
        time.sleep(0.02)


def run(quick: bool) -> list[Row]:
    """Try everything; a tenth of it if `quick`."""
    with tempfile.TemporaryDirectory() as name, start(Path(name)) as view:
        view.wait_for_address()
        rows = [
            _judge("malformed requests", lambda: send_nonsense(view, 200 if quick else 2000)),
            _judge("concurrent requests", lambda: ask_at_once(view, 30 if quick else 300)),
            _judge("idle connections", lambda: keep_idle(view, (420,) if quick else (420, 2000))),
            _judge("mixed requests", lambda: ask_for_much(view, 80 if quick else 700)),
        ]
    return [*rows, _judge("Ctrl-C twice, at four moments", lambda: interrupt_twice(4 if quick else 8))]


def _judge(tried: str, part: Callable[[], Row]) -> Row:
    """Return the row of a part, or one that says what is wrong."""
    try:
        return part()
    except Exception as error:  # a view that has died shows in many ways
        traceback.print_exc()
        return Row(tried, "0", f"{FAILED}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(" | ".join(row), flush=True)
