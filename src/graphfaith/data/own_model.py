"""A model of the user's, made by a function of theirs."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch

from .._base.errors import InputError, ModelError, said

# Never opened: most of them are pickles, and the others hold numbers without the code that they belong to.
_FILES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".joblib", ".npz", ".npy", ".safetensors", ".onnx", ".h5")


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
