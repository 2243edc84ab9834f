"""The command line: ``graphfaith demo | explain | view | score``, and the commands that studies add."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer

from .._base.errors import GraphfaithError, InputError
from .._base.threads import use_one_thread
from .._base.version import __version__
from .demo import demo
from .explain import explain
from .score import score
from .source import say
from .view import view

UsageError: Any = typer.BadParameter.__mro__[1]  # typer brings its own click from 0.26 on, and does not name this one

COMMANDS = "graphfaith.commands"  # the group of entry points, each a function that adds a command to the application

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Explain graph neural networks, and say how far each explanation can be trusted.",
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


for _command in (demo, explain, view, score):
    app.command()(_command)


def add_command(entry: EntryPoint) -> None:
    """Let another distribution, or the studies of this one, add the command that ``entry`` names.

    A command whose requirements are not installed stays visible, and says what it needs when it is called.
    """
    try:
        add = entry.load()
    except ImportError as error:
        missing = error.name or str(error)

        def refuse() -> None:
            raise InputError(f"'graphfaith {entry.name}' needs {missing}: pip install 'graphfaith[studies]'")

        settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        app.command(entry.name, help=f"Not available: {missing} is not installed.", context_settings=settings)(refuse)
    else:
        add(app)


for _entry in entry_points(group=COMMANDS):
    add_command(_entry)


def main() -> None:
    """Run the command; a mistake in its arguments is one line and exit code 2."""
    if "OMP_NUM_THREADS" not in os.environ:
        # Computation graphs are small: a second thread gains little, and on a busy machine waiting for it costs dear.
        use_one_thread()
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        _stop(" ".join(error.format_message().split()))
    except GraphfaithError as error:
        _stop(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer turns an interrupt into this code
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # A second Ctrl-C must not interrupt the exit.
        say("stopped")
    sys.exit(code or 0)


def _stop(message: str) -> None:
    say(f"error: {message}")
    sys.exit(2)
