"""Loading of the user's own model, by calling a function that the user names."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch

from .._base.errors import InputError, ModelError, describe_error, show

# Files with these suffixes are never opened: most are pickles, which can run code, and the others hold weights without
# the code of the model.
_FILES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".joblib", ".npz", ".npy", ".safetensors", ".onnx", ".h5")


def load_model(name: str, folder: str | None = None) -> torch.nn.Module:
    """Return the model that the function named ``module:function`` builds; it is called without arguments.

    The module is searched for in ``folder`` first, which is the current one if None. A file of weights is refused
    without opening it.

    >>> load_model("torch.nn:Identity")
    Identity()
    """
    module_name, function_name = check_name(name)
    function = getattr(_import(module_name, folder or os.getcwd()), function_name, None)
    if function is None:
        raise InputError(f"the module '{module_name}' has no '{function_name}'")
    if isinstance(function, torch.nn.Module) or not callable(function):
        raise InputError(f"'{name}' is a {type(function).__name__}: give a function that returns the model")
    try:
        model = function()
    except (Exception, SystemExit) as error:
        raise ModelError(f"{name}() raised {describe_error(error)}") from error
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"{name}() must return a torch.nn.Module (got {type(model).__name__})")
    return model


def check_name(name: str) -> tuple[str, str]:
    """Return the module and the function of ``module:function``; raise an :class:`InputError` if it is not written so.

    >>> check_name("mymodule:load")
    ('mymodule', 'load')
    """
    if not isinstance(name, str):
        raise InputError(f"a model is named by a text such as mymodule:load (got {show(name)})")
    module_name, colon, function_name = name.partition(":")
    if Path(module_name).suffix.lower() in _FILES or Path(name).suffix.lower() in _FILES:
        raise InputError(
            f"'{name}' is a file of weights and was not opened: give a function as module:function that builds the "
            "model and loads its weights from safetensors or with weights_only=True"
        )
    if not colon:
        raise InputError(f"cannot read the model '{name}': write module:function, as in mymodule:load")
    if not all(part.isidentifier() for part in [*module_name.split("."), function_name]) or module_name[-3:] == ".py":
        raise InputError(
            f"cannot read the model '{name}': write module:function, as in mymodule:load for the function load in "
            "mymodule.py of this folder"
        )
    return module_name, function_name


def _import(name: str, folder: str) -> Any:
    if folder not in sys.path:
        sys.path.insert(0, folder)  # This is not undone, because a model may import more modules when it is called.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise InputError(f"there is no module '{missing}' in this folder, and none is installed") from error
        raise ModelError(f"importing '{name}' failed: {describe_error(error)}") from error
