"""The exceptions and warnings of the library. Each message says what was wrong and what would be right, in one line."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from traceback import walk_tb

_HEAD, _TAIL = 400, 250  # characters of a long text that are kept
_OWN = str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "graphfaith_studies")
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")
_PYG = "torch_geometric"
# Packages that a model uses. A mistake shows in their code, but is not made there.
_USED = ("torch", _PYG, "numpy", "scipy", "safetensors", "openpyxl", "rich", "typer")


def one_line(text: str) -> str:
    """Return ``text`` as one line of at most some hundred characters, with everything escaped that is no character.

    What is too long loses its middle: that is where a message quotes what the user gave, before it says what is right.

    >>> one_line("cannot read 'a\\nb'")
    "cannot read 'a\\\\nb'"
    >>> len(one_line("9" * 10**6))
    651
    """
    if len(text) > 2 * (_HEAD + _TAIL):  # Megabytes need not be escaped.
        text = text[: _HEAD + _TAIL] + text[-_HEAD - _TAIL :]
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= _HEAD + 1 + _TAIL else f"{text[:_HEAD]}…{text[-_TAIL:]}"


def show(value: object) -> str:
    """Return ``repr(value)`` for a message, or the type of a value that cannot be written, such as a giant number.

    >>> show("kec"), show(10**5000)
    ("'kec'", 'a giant int')
    """
    try:
        return one_line(repr(value))
    except Exception:  # Python refuses to write numbers of many digits; a class of the user may raise anything.
        return f"a giant {type(value).__name__}" if isinstance(value, int) else f"a {type(value).__name__}"


class GraphfaithError(Exception):
    """The base class of all exceptions that graphfaith raises on purpose. The message is made one line.

    >>> import graphfaith as gf
    >>> issubclass(gf.InputError, gf.GraphfaithError), issubclass(gf.InputError, ValueError)
    (True, True)
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(GraphfaithError, ValueError):
    """A graph, node, parameter or text from the user is not valid.

    >>> import graphfaith as gf
    >>> gf.parse_neighborhood("U(A;0.5)")
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.InputError: cannot read the neighbourhood 'U(A;0.5)'...
    """


class ModelError(GraphfaithError, ValueError):
    """The model raises an exception, or its output is not finite or does not depend on the edges given.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> class Broken(torch.nn.Module):
    ...     def forward(self, x, edge_index):
    ...         return x / 0 + edge_index.size(1)
    >>> gf.explain(Broken(), Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])), 0, mode="regression")
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.ModelError: Broken has no MessagePassing layer, so its hops cannot be counted...
    """


class UnsupportedError(GraphfaithError, ValueError):
    """The kind of model, task or explanation is one that graphfaith does not support.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> explainer = gf.explainer_for(GCN(2, 4, num_layers=2, out_channels=3), ring, method="saliency")
    >>> gf.subgraph_lower_bound(explainer, explainer(ring.x, ring.edge_index, index=1), "U(A,0.5)")
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.UnsupportedError: the lower bound is for subgraph explanations...
    """


class DataError(GraphfaithError, OSError):
    """A data set is missing, cannot be downloaded, or differs from the published one.

    >>> import graphfaith as gf
    >>> gf.open_graph("no such folder")
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.DataError: ...
    """


class OutputError(GraphfaithError, OSError):
    """A result cannot be written to the requested file.

    >>> import graphfaith as gf
    >>> from graphfaith._base.files import check_output
    >>> check_output("no such folder/picture.png", (".png",))
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.OutputError: ...
    """


class RunError(GraphfaithError, RuntimeError):
    """A long run stopped before it was complete."""


class MemoryLimitError(GraphfaithError, MemoryError):
    """A computation would need more memory than the user allows.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> gf.explain(GCN(2, 4, num_layers=2, out_channels=3), ring, 1, max_memory="1 KB")
    Traceback (most recent call last):
        ...
    graphfaith._base.errors.MemoryLimitError: ...
    """


class UnfinishedRunWarning(UserWarning):
    """A batch run is read that is not finished, so that rows are missing.

    >>> import warnings, graphfaith as gf
    >>> warnings.simplefilter("ignore", gf.UnfinishedRunWarning)  # for those who know
    """


class ReachWarning(UserWarning):
    """The messages of the model travel another number of hops than the user stated or the library counted.

    >>> import warnings, graphfaith as gf
    >>> warnings.simplefilter("ignore", gf.ReachWarning)  # for those who know
    """


class FewSamplesWarning(UserWarning):
    """An explanation estimates its own error from so few samples that the estimate is too good.

    >>> import warnings, graphfaith as gf
    >>> warnings.simplefilter("ignore", gf.FewSamplesWarning)  # for those who know
    """


class SameSamplesWarning(UserWarning):
    """An explanation is scored on the samples that it was fitted to, where Delta(p) is too small.

    >>> import torch, warnings, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> explainer = gf.explainer_for(GCN(2, 4, num_layers=2, out_channels=3), ring, method="kec", seed=3)
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     number = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", seed=3)
    >>> caught[0].category.__name__
    'SameSamplesWarning'
    """


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an error raised by foreign code, and where that is, as one line of text.

    >>> describe_error(ValueError("two\\n   lines"))
    'ValueError: two lines'
    """
    text, place = one_line(" ".join(str(error)[:10_000].split())[:300]), _place_of(error)
    name = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return name if place is None else f"{name} ({place})"


def _place_of(error: BaseException) -> str | None:
    """Return the file and the line of the user's code in which an error was raised, or from which it came."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    for is_users in (_is_written_by_user, _is_installed_by_user):
        places = [(file, line) for file, line in frames if is_users(file)]
        if places:
            file, line = places[-1]
            near = os.path.relpath(file)
            return f"{file if near.startswith(os.pardir) else near}, line {line}"
    return None


def _is_written_by_user(file: str) -> bool:
    folders = tuple(f"{folder}{os.sep}" for folder in (*_OWN, *_STANDARD))
    parts = Path(file).parts
    # PyG writes the code of a layer to a temporary file, which is named after the module of the layer.
    is_generated = bool(parts) and parts[-1].startswith(f"{_PYG}.")
    return os.path.isfile(file) and not (is_generated or file.startswith(folders) or set(_INSTALLED) & set(parts))


def _is_installed_by_user(file: str) -> bool:
    parts = Path(file).parts
    packages = [parts[place + 1] for place, part in enumerate(parts[:-1]) if part in _INSTALLED]
    return bool(packages) and packages[-1] not in _USED and not file.startswith(_OWN)
