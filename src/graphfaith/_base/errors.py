"""The exceptions and warnings of the library. Each message says what was wrong and what would be right."""

from __future__ import annotations


class GraphfaithError(Exception):
    """The base class of all exceptions that graphfaith raises on purpose."""


class InputError(GraphfaithError, ValueError):
    """A graph, node, parameter or text from the user is not valid."""


class ModelError(GraphfaithError, ValueError):
    """The output of the model cannot be explained, because it is not finite or does not depend on the edges given."""


class UnsupportedError(GraphfaithError, ValueError):
    """The kind of model, task or explanation is one that graphfaith does not support."""


class DataError(GraphfaithError, OSError):
    """A data set is missing, cannot be downloaded, or differs from the published one."""


class OutputError(GraphfaithError, OSError):
    """A result cannot be written to the requested file."""


class RunError(GraphfaithError, RuntimeError):
    """A long run stopped before it was complete."""


class MemoryLimitError(GraphfaithError, MemoryError):
    """A computation would need more memory than the user allows."""


class ReachWarning(UserWarning):
    """The messages of the model travel another number of hops than the user stated or the library counted."""


class FewSamplesWarning(UserWarning):
    """An explanation estimates its own error from so few samples that the estimate is too good."""


class SameSamplesWarning(UserWarning):
    """An explanation is scored on the samples that it was fitted to, where Delta(p) is too small."""


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an error raised by foreign code, as one line of text.

    >>> describe_error(ValueError("two\\n   lines"))
    'ValueError: two lines'
    """
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
