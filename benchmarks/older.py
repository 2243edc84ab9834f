"""An older state of this project, beside this one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def take_out(revision: str, folder: Path) -> None:
    """Write the sources of an older state of this project into a folder."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def environment_of(checkout: Path) -> dict[str, str]:
    """The environment of a process in which ``graphfaith`` is that of a checkout."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src")}
