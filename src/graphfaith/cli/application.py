"""The command line: ``graphfaith demo | explain | score | judge | ...``, and the commands that studies add."""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, NoReturn

import typer

from .._base.errors import GraphfaithError, InputError, describe_error, one_line
from .._base.interruption import STOPPED, allow_interrupts
from .._base.version import __version__
from .demo import demo
from .explain import explain
from .explain_many import explain_many
from .graph import graph
from .judge import judge
from .loading import needs_library
from .notes import say
from .score import score
from .view import view

UsageError: Any = typer.BadParameter.__mro__[1]  # typer brings its own click from 0.26 on, and does not name this one

# Packages that only some commands need, and the extra that installs each.
OPTIONAL = {"captum": "studies", "openpyxl": "studies", "sklearn": "studies", "pyarrow": "many", "ray": "many"}
COMMANDS = "graphfaith.commands"  # the group of entry points, each a function that adds a command to the application

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Explain graph neural networks, and say how far each explanation can be trusted.\n\n"
    "\b\n"
    "Examples:\n"
    "  graphfaith demo\n"
    "  graphfaith explain --dataset ba-shapes --node 650\n"
    "  graphfaith explain --help\n"
    "  graphfaith --install-completion",
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Options of the command itself."""
    if version:
        typer.echo(f"graphfaith {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _command in (demo, explain, explain_many, view, score, judge):
    app.command()(_command)
app.add_typer(graph, name="graph")


def add_command(entry: EntryPoint) -> None:
    """Let another distribution, or the studies of this one, add the command that ``entry`` names.

    A command whose requirements are not installed stays visible, and says what it needs when it is called.
    """
    try:
        add = entry.load()
    except ImportError as error:
        missing = error

        def refuse() -> None:
            raise missing

        settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        name = error.name or str(error)
        app.command(entry.name, help=f"Not available: {name} is not installed.", context_settings=settings)(refuse)
    else:
        add(app)


for _entry in entry_points(group=COMMANDS):
    add_command(_entry)


def main() -> None:
    """Run the command; a mistake in its arguments is one line and exit code 2, an interrupt is exit code 130."""
    _prepare_streams()
    command = typer.main.get_command(app)
    _load_before_work(command)
    try:
        code = command(standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        _stop(one_line(" ".join(error.format_message().split())))
    except GraphfaithError as error:
        _stop(str(error))
    except BrokenPipeError:  # Nobody reads the output any more. The files are written by now.
        code = 1
    except OSError as error:  # The output may go to a full disk, for example.
        _stop(f"the system refused to read or write: {describe_error(error)}")
    except MemoryError as error:
        _stop(f"there is not enough memory for this ({describe_error(error)})")
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    if code == STOPPED:  # typer turns an interrupt into this code
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # A second Ctrl-C must not interrupt the exit.
        say("stopped")
    _end(code or 0)


def _load_before_work(command: Any) -> None:
    """Make every command load what it needs when it is called, and not when it is only asked for its help."""
    for one in getattr(command, "commands", {}).values():
        _load_before_work(one)
    if command.callback is not None and not hasattr(command, "commands"):
        command.callback = _after_loading(command.callback, command.name)


def _after_loading(work: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(work)
    def loaded(*args: Any, **options: Any) -> Any:
        if needs_library(work):
            _load_library()
        allow_interrupts()  # from here on there is somebody to catch them
        try:
            return work(*args, **options)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in OPTIONAL:
                raise
            extra = f"graphfaith[{OPTIONAL[package]}]"
            raise InputError(f"'graphfaith {name}' needs {package}: pip install '{extra}'") from error

    return loaded


def _load_library() -> None:
    from .. import public  # noqa: F401
    from .._base.compilation import announce_compilation
    from .._base.threads import use_one_thread

    announce_compilation(say)
    if "OMP_NUM_THREADS" not in os.environ:
        # Computation graphs are small: a second thread gains little, and on a busy machine waiting for it costs dear.
        use_one_thread()


def _prepare_streams() -> None:
    """Make output possible, whatever it is: names may have characters that the terminal cannot show.

    If the command was started without an output, it goes nowhere; otherwise the first file opened would take its place.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # open until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _stop(message: str) -> NoReturn:
    say(f"error: {message}")
    _end(2)


def _end(code: int) -> NoReturn:
    """End the process. Output that cannot be printed is dropped: Python would try again, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
