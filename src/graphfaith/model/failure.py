"""Exceptions that come out of the user's own model.

A forward may raise anything: on the user's graph, or only on a perturbed one. Whoever asked for an explanation gets a
:class:`ModelError` of one line that names the exception and where it was raised, whichever way it was asked for.
Exceptions from anywhere else are mistakes of the library, and stay as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

import torch

from .._base.errors import GraphfaithError, ModelError, describe_error

_CALL = torch.nn.Module._call_impl.__code__  # what runs the forward of a module
_BACKWARD = torch.autograd.__file__  # what runs the backward of all that a forward has done


@contextmanager
def naming_failures(model: torch.nn.Module) -> Iterator[None]:
    """Raise a :class:`ModelError` in place of an exception that ``model`` has raised inside the block."""
    try:
        yield
    except GraphfaithError:
        raise
    except (Exception, SystemExit) as error:
        if not is_raised_by(model, error):
            raise
        raise ModelError(f"the model cannot be run: {describe_failure(model, error)}") from error


def describe_failure(model: torch.nn.Module, error: BaseException) -> str:
    """Return what the forward of ``model`` has raised, in a line, and what to do if x or edges are of another kind."""
    for frame, _ in walk_tb(error.__traceback__):
        given = frame.f_locals.get("args") if frame.f_code is _CALL and frame.f_locals.get("self") is model else None
        if given and isinstance(given[0], torch.Tensor) and not given[0].is_floating_point():
            kind = f"x holds {given[0].dtype}, which are ids of categories: pass x.float() if they are numbers"
            return f"{describe_error(error)} ({kind})"
    second = list(inspect.signature(model.forward).parameters)[1:2]
    if second and second[0].startswith("adj"):
        way = 'graphfaith.adapt(model, takes="adjacency")'
        return (
            f"{describe_error(error)} (it was given edge_index for {second[0]!r}: if that is a matrix, explain {way})"
        )
    return describe_error(error)


def is_raised_by(model: torch.nn.Module, error: BaseException) -> bool:
    """Return whether an exception has come out of the forward of ``model``, or out of its derivatives.

    >>> model = torch.nn.Linear(2, 3)
    >>> try:
    ...     model(torch.zeros(5))
    ... except RuntimeError as error:
    ...     is_raised_by(model, error), is_raised_by(torch.nn.Linear(2, 3), error)
    (True, False)
    """
    return any(
        frame.f_code.co_filename == _BACKWARD or (frame.f_code is _CALL and frame.f_locals.get("self") is model)
        for frame, _ in walk_tb(error.__traceback__)
    )
