"""A live view for tests: a small plant to explain, a server of it in a thread, and two ways to ask it."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from graphfaith.facade import Subject
from graphfaith.model.task import Task
from graphfaith.view.live.desk import Desk, Question
from graphfaith.view.live.server import Server


def subject(names: bool = True, **task: str) -> Subject:
    torch.manual_seed(0)
    tree = torch.stack([torch.arange(1, 30), torch.tensor([int(torch.randint(i, ())) for i in range(1, 30)])])
    data = Data(x=torch.rand(30, 4), edge_index=torch.cat([tree, tree.flip(0)], dim=1))
    if names:
        data.node_names = [f"tank {i}" for i in range(28)] + ["<b>", "tank 3"]
    return Subject(GCN(4, 8, num_layers=2, out_channels=3).eval(), data, Task(**task))


@contextmanager
def serving(desk: Desk, first: Question = Question(0, ("saliency",), "U(A,0.5)")) -> Iterator[Server]:  # noqa: B008
    with Server(desk, desk.start(first)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(
    server: Server, path: str, token: str | None = None, headers: dict[str, str] | None = None, **fields: object
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {"X-Graphfaith-Token": server.token if token is None else token, **(headers or {})}
    try:
        connection.request("GET", f"{path}?{urlencode(fields, doseq=True)}" if fields else path, headers=given)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def raw(server: Server, content: bytes, *, end: bool = True) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as one:
        one.sendall(content)
        if end:
            one.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while part := one.recv(65536):
                found += part
        except ConnectionResetError:
            pass
        return found


EXPLAIN = {"index": 3, "near": "U(A,0.5)", "method": ["saliency", "kec"]}
