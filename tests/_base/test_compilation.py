"""What is said when the core is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from graphfaith._base import compilation, core
from graphfaith._base.compilation import announce_compilation


def small(x):
    return x + 1


def fit_parts(x):
    return x + 2


def test_it_is_said_once_and_only_while_asked():
    said = []
    end = announce_compilation(said.append)
    try:
        assert numba.njit(small)(1) == 2
        assert numba.njit(lambda x: x + 2)(1) == 3
    finally:
        end()
    assert len(said) == 1
    assert "once on this machine: a few seconds" in said[0]
    assert numba.njit(lambda x: x + 3)(1) == 4
    assert len(said) == 1


def test_what_takes_long_is_named_before_it_is_compiled():
    said = []
    end = announce_compilation(said.append)
    try:
        for function in (small, fit_parts, fit_parts):
            numba.njit(function)(1)
    finally:
        end()
    assert len(said) == 2
    assert "KEC" not in said[0]
    assert "compiling KEC's part of the core, once on this machine: about a quarter of a minute" in said[1]


def test_the_names_of_what_takes_long_are_functions_of_the_core():
    assert all(callable(getattr(core, name)) for name in compilation._LONG)


def test_who_asked_last_is_told():
    first, second = [], []
    end_first, end_second = announce_compilation(first.append), announce_compilation(second.append)
    numba.njit(lambda x: x + 1)(1)
    end_second()
    numba.njit(lambda x: x + 1)(1)
    end_first()
    assert (len(first), len(second)) == (1, 1)


# A terminal of its own, in which a user asks for an explanation in Python.
ASKING = """
import torch, graphfaith as gf
from torch_geometric.data import Data
from torch_geometric.nn import GCN
ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
gf.explain(GCN(2, 4, num_layers=2, out_channels=3), ring, 1, method="saliency")
"""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there is no terminal to make")
@pytest.mark.parametrize("watched", [True, False])
def test_python_says_it_where_somebody_watches(tmp_path, watched):
    ours, theirs = os.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    with os.fdopen(ours, "rb", buffering=0) as told, os.fdopen(theirs, "wb") as stderr:
        given = stderr if watched else subprocess.PIPE
        done = subprocess.run([sys.executable, "-c", ASKING], env=environment, stderr=given, check=True)
        stderr.write(b"end\n")
        stderr.flush()
        text = b""
        while b"end" not in text:
            text += told.read(1000)
    assert text.count(b"compiling") == watched
    assert b"KEC" not in text
    assert watched or b"compiling" not in done.stderr


# The two modules need nothing of the package, and without it the process need not load torch.
SCRIPT = """
import sys
import numpy as np
sys.path.append(sys.argv[1])
import compilation, core
compilation.announce_compilation(print)
core.add_to(np.ones(2), np.ones(2))
"""


def test_machine_code_is_kept_on_disk(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, str(Path(core.__file__).parent)]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert "compiling" in first
    assert second == ""


def test_without_a_folder_for_machine_code_every_process_compiles(monkeypatch):
    def refusing(**options):
        def decorate(function):
            if options.get("cache"):
                raise RuntimeError("cannot cache function: no locator available")
            return numba.njit(**options)(function)

        return decorate

    monkeypatch.setattr(core, "njit", refusing)
    assert core.compiled(lambda x: x + 1)(1) == 2
