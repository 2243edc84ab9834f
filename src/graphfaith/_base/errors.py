"""What can go wrong, as types: each message says what was wrong and what would be right."""

from __future__ import annotations


class GraphfaithError(Exception):
    """Anything graphfaith raises on purpose."""


class InputError(GraphfaithError, ValueError):
    """A graph, node, parameter or text that cannot be used as it is."""


class ModelError(GraphfaithError, ValueError):
    """A model whose output cannot be explained: not finite, or blind to the edges it is given."""


class UnsupportedError(GraphfaithError, ValueError):
    """A kind of model, task or explanation that graphfaith does not handle."""


class DataError(GraphfaithError, OSError):
    """A data set that is missing, could not be fetched, or is not the one that was published."""


class OutputError(GraphfaithError, OSError):
    """A result that cannot be written where it was asked for."""


class RunError(GraphfaithError, RuntimeError):
    """Long work that came to a stop."""


class MemoryLimitError(GraphfaithError, MemoryError):
    """Work that would take more memory than the user allows."""


class ReachWarning(UserWarning):
    """Messages of the model do not go as far as it was said, or counted, that they do."""


class UnprovenError(ModelError):
    """The model gives on a computation graph something else than on the whole graph, which was not looked at before."""


def said(error: BaseException) -> str:
    """What an error of somebody else's code says, in one line.

    >>> said(ValueError("two\\n   lines"))
    'ValueError: two lines'
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
