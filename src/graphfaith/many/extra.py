"""The packages of the extra ``many``, imported when they are needed: the rest of the library works without them."""

from __future__ import annotations

import importlib
from typing import Any

from .._base.errors import InputError


def import_extra(name: str) -> Any:
    """Return the module of that name; if its package is not installed, the error says what to install.

    >>> import_extra("pyarrow.parquet").__name__
    'pyarrow.parquet'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(f"explaining many nodes needs {package}: pip install 'graphfaith[many]'") from error
