"""``graphfaith view``: the live view, served to this machine until the user stops it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from . import names
from .notes import say
from .options import (
    AnyDataset,
    DeviceName,
    Edges,
    FewMethods,
    FitSamples,
    Level,
    MaxMemory,
    Mode,
    ModelSeed,
    NumHops,
    OwnData,
    OwnModel,
    ReturnType,
    Seed,
    TestSamples,
    completing,
)

if TYPE_CHECKING:
    from ..view.live.desk import Desk, Question
    from ..view.live.redirect import Redirect
    from ..view.live.server import Server


def view(
    node: Annotated[int, typer.Option("--node", "--index", help="The node (or edge, or graph) to start with.")] = 0,
    dataset: AnyDataset = None,
    model: OwnModel = None,
    data: OwnData = None,
    method: FewMethods = ["anchored-kec", "kec", "saliency"],  # noqa: B006
    neighborhood: Annotated[
        str,
        typer.Option(
            help="The first neighbourhood, e.g. U(A,0.5) or B(A,0.5).",
            autocompletion=completing(names.NEIGHBORHOODS[:-1]),
        ),
    ] = names.NEIGHBORHOOD,
    level: Level = "node",
    mode: Mode = names.MODES[0],
    return_type: ReturnType = names.RETURN_TYPES[0],
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    device: DeviceName = None,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    host: Annotated[
        str,
        typer.Option(help="A loopback address; other machines have no access."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 chooses a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Also open the page in the browser.")] = False,
) -> None:
    """Serve a page on this machine that explains any node you select, until you press Ctrl-C.

    \b
    Examples:
      graphfaith view --dataset cora --node 42
      graphfaith view --model mymodule:load --data graph.pt
    """
    # Loading these takes seconds, which --help does not need.
    from ..model.task import Task
    from ..view.live.desk import Desk, check_methods
    from ..view.live.server import check_loopback, check_port
    from .source import read_request

    task, options, source = Task(mode, return_type, level), (num_hops, edges, max_memory), (dataset, model, data)
    methods = check_methods(method)
    check_loopback(host)
    check_port(port)
    seeds = seed, model_seed
    typed = (
        "the live view takes graphs of one type; graphfaith explain --page FILE writes a page of one prediction on it"
    )
    asked = read_request(source, task, options, methods, [neighborhood], samples, test_samples, seeds, device, typed)
    desk = Desk(asked.open(node), asked.label, samples=asked.samples, test_samples=test_samples, seed=seed)
    serve(desk, desk.ask(node, methods, asked.near[0]), host=host, port=port, browser=browser)


def serve(desk: Desk, first: Question, *, host: str, port: int, browser: bool = False) -> None:
    """Serve the desk on a loopback address, starting with the question ``first``, until Ctrl-C."""
    from ..view.live.redirect import Redirect
    from ..view.live.server import Server

    with suppress(KeyboardInterrupt), ExitStack() as stack:
        server = stack.enter_context(Server(desk, desk.start(first), host, port))
        _end_once()
        typer.echo(f"Explaining {desk.label} at {server.url}\nCtrl-C ends it.")
        sys.stdout.flush()
        if browser:
            with suppress(OSError):  # Without a temporary directory the reader has to open the address.
                redirect = stack.enter_context(Redirect(server.url))
                threading.Thread(target=_open_browser, args=(redirect, server), daemon=True).start()
        server.serve_forever(poll_interval=0.2)
    with suppress(OSError):  # Nobody may be left to read it.
        typer.echo("\nstopped")
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads may still run the model, for minutes. They have no results to save, and Python aborts the process if it
    # ends the interpreter while one of them is inside torch, so the process ends without that.
    os._exit(0)


def _end_once() -> None:
    """Ignore every Ctrl-C after the first, because it must not interrupt the exit."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # Jobs in the background ignore Ctrl-C.
        signal.signal(signal.SIGINT, interrupt)


def _open_browser(redirect: Redirect, server: Server) -> None:
    """Open the page in the browser, in a thread of its own because some browsers keep it waiting."""
    if not redirect.open(server.visited) and not server.visited.is_set():
        say("no browser could be started: open the address above")
