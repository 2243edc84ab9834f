"""What is said when the core is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba

from graphfaith._base import core
from graphfaith._base.compilation import announce_compilation


def test_it_is_said_once_and_only_while_asked():
    said = []
    end = announce_compilation(said.append)
    try:
        assert numba.njit(lambda x: x + 1)(1) == 2
        assert numba.njit(lambda x: x + 2)(1) == 3
    finally:
        end()
    assert len(said) == 1
    assert "once on this machine" in said[0]
    assert numba.njit(lambda x: x + 3)(1) == 4
    assert len(said) == 1


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
