"""The arguments of a model: the tensors of a graph that its forward names, in the precision of its parameters."""

from __future__ import annotations

import copy
import inspect

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import ModelError, UnsupportedError
from .adapter import Adapter
from .home import parameters_of
from .layers import takes_edge_weight, unwrap

# These names are arguments of PyG's Explainer or of Target, so they are not passed on to the model.
_TAKEN = ("target", "index", "label", "num_hops", "mode", "return_type", "level", "edges", "max_memory")


def precision_of(model: torch.nn.Module) -> torch.dtype | None:
    """Return the precision that all parameters of a model have; None if there are several, or none.

    >>> precision_of(torch.nn.Linear(2, 3)), precision_of(torch.nn.ReLU())
    (torch.float32, None)
    """
    dtypes = {parameter.dtype for parameter in parameters_of(model) if parameter.is_floating_point()}
    return dtypes.pop() if len(dtypes) == 1 else None


def convert_precision(model: torch.nn.Module, data: Data) -> Data:
    """Return the graph with its real numbers in the precision of the model's parameters, if they share one precision.

    This is needed because numpy uses double precision and torch single, and torch cannot multiply one with the other.
    """
    dtype = precision_of(model)
    if dtype is None:
        return data
    converted = copy.copy(data)
    for key, value in data.to_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point() and value.dtype != dtype:
            converted[key] = value.to(dtype)
    return converted


def arguments_for(model: torch.nn.Module, data: Data) -> dict[str, Tensor]:
    """Return the arguments of ``model`` other than ``x`` and ``edge_index``: the tensors of ``data`` its forward names.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1], [1, 0]])
    >>> data = Data(x=torch.ones(2, 3), edge_index=ring, edge_weight=torch.ones(2), y=torch.tensor([0, 1]))
    >>> list(arguments_for(GCN(3, 4, 2), data))
    ['edge_weight']
    """
    model = unwrap(model)
    parameters = list(inspect.signature(model.forward).parameters.values())
    given: dict[str, Tensor] = {}
    for place, parameter in enumerate(parameters):
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in ("x", "edge_index"):
            continue
        if place < 2 and parameter.kind != parameter.KEYWORD_ONLY:
            continue  # The first two parameters are x and edge_index, whatever their names are.
        if isinstance(data.get(name), Tensor) and _reads(model, name):
            if name in _TAKEN:
                raise UnsupportedError(
                    f"{type(model).__name__}.forward takes '{name}', which is an argument of PyG's Explainer: rename it"
                )
            given[name] = data[name]
        elif parameter.default is parameter.empty:
            raise ModelError(f"{type(model).__name__}.forward needs '{name}', which the graph does not have")
    for name in model.fields if isinstance(model, Adapter) else ():
        if not isinstance(data.get(name), Tensor):
            raise ModelError(f"the model reads the field {name!r}, which the graph does not have as a tensor")
        given[name] = data[name]
    return given


def _reads(model: torch.nn.Module, name: str) -> bool:
    """Return whether the model reads an argument: PyG's models name some that they do not read, and declare that."""
    if name == "edge_weight":
        return takes_edge_weight(model)
    return name != "edge_attr" or bool(getattr(model, "supports_edge_attr", True))
