"""A model of the user's: made by a function of theirs, and called with what its forward names of a graph."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from .errors import InputError, ModelError, UnsupportedError, said
from .layers import takes_edge_weight

# Never opened: most of them are pickles, and the others hold numbers without the code that they belong to.
_FILES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".joblib", ".npz", ".npy", ".safetensors", ".onnx", ".h5")
# Arguments of PyG's Explainer, or of Target, that are not handed on to the model.
_TAKEN = ("target", "index", "label", "num_hops", "mode", "return_type", "level", "edges", "max_memory")


def load_model(name: str) -> torch.nn.Module:
    """The model that a function returns, named as ``module:function`` and called without arguments.

    The module is looked for in the current folder first. A file of weights is no model, and is not opened.

    >>> load_model("torch.nn:Identity")
    Identity()
    """
    module_name, colon, function_name = name.partition(":")
    if Path(module_name).suffix.lower() in _FILES or Path(name).suffix.lower() in _FILES:
        raise InputError(
            f"'{name}' was not opened: a model is code: name a function as module:function that builds it and loads "
            "its weights from safetensors or with weights_only=True"
        )
    if not colon:
        raise InputError(f"cannot read the model '{name}': write module:function, as in mymodule:load")
    if not all(part.isidentifier() for part in [*module_name.split("."), function_name]) or module_name[-3:] == ".py":
        raise InputError(
            f"cannot read the model '{name}': write module:function, as in mymodule:load for the function load in "
            "mymodule.py of this folder"
        )
    function = getattr(_import(module_name), function_name, None)
    if function is None:
        raise InputError(f"the module '{module_name}' has no '{function_name}'")
    if isinstance(function, torch.nn.Module) or not callable(function):
        raise InputError(f"'{name}' is a {type(function).__name__}: name a function that returns the model")
    try:
        model = function()
    except (Exception, SystemExit) as error:
        raise ModelError(f"{name}() raised {said(error)}") from error
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"{name}() must return a torch.nn.Module (got {type(model).__name__})")
    return model


def _import(name: str) -> Any:
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for good: models may import more when they are called
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise InputError(f"there is no module '{missing}' in this folder, nor is one installed") from error
        raise ModelError(f"importing '{name}' failed: {said(error)}") from error


def in_precision_of(model: torch.nn.Module, data: Data) -> Data:
    """The graph with its real numbers in the precision of the model's parameters, if they have one.

    numpy's is double and torch's single, and a model cannot multiply one with the other.
    """
    found = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if len(found) != 1:
        return data
    dtype = found.pop()
    same = copy.copy(data)
    for key, value in data.to_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point() and value.dtype != dtype:
            same[key] = value.to(dtype)
    return same


def arguments_for(model: torch.nn.Module, data: Data) -> dict[str, Tensor]:
    """What ``model`` is called with beside ``x`` and ``edge_index``: the tensors of ``data`` that its forward names.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1], [1, 0]])
    >>> data = Data(x=torch.ones(2, 3), edge_index=ring, edge_weight=torch.ones(2), y=torch.tensor([0, 1]))
    >>> list(arguments_for(GCN(3, 4, 2), data))
    ['edge_weight']
    """
    parameters = list(inspect.signature(model.forward).parameters.values())
    given: dict[str, Tensor] = {}
    for place, parameter in enumerate(parameters):
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in ("x", "edge_index"):
            continue
        if place < 2 and parameter.kind != parameter.KEYWORD_ONLY:
            continue  # x and edge_index under other names
        if isinstance(data.get(name), Tensor) and _reads(model, name):
            if name in _TAKEN:
                raise UnsupportedError(
                    f"{type(model).__name__}.forward takes '{name}', as PyG's Explainer does: rename it"
                )
            given[name] = data[name]
        elif parameter.default is parameter.empty:
            raise ModelError(f"{type(model).__name__}.forward needs '{name}', which the graph does not have")
    return given


def _reads(model: torch.nn.Module, name: str) -> bool:
    """PyG's ready-made models name arguments that not all of them read, and say so."""
    if name == "edge_weight":
        return takes_edge_weight(model)
    return name != "edge_attr" or bool(getattr(model, "supports_edge_attr", True))
