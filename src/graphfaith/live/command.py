"""``graphfaith view``: serve until the user has seen enough."""

from __future__ import annotations

import os
import sys
import webbrowser

import typer

from .desk import Desk, Question
from .server import Server

_GRACE = 3.0  # seconds for what is in work when the user ends it


def serve(desk: Desk, first: Question, *, host: str, port: int, browser: bool = False) -> None:
    """Serve the desk on a loopback address, beginning with a question; Ctrl-C ends it."""
    with Server(desk, desk.start(first), host, port) as server:
        typer.echo(f"Explaining {desk.label} at {server.url}\nCtrl-C ends it.")
        sys.stdout.flush()
        if browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            typer.echo("\nstopped")
    if not desk.settled(_GRACE):
        # A thread is deep in the model. Waiting for it could take minutes, and there is nothing to lose.
        sys.stdout.flush()
        os._exit(0)
