"""The commands of the library as processes: small forms of the long ones, and what they leave in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import safetensors.torch
import torch
from originals import make_graph

HERE = Path(__file__).parent
MODULE = """
import sys

sys.path.insert(0, {here!r})
from families import make_model


def load():
    return make_model("GCN", "node", 3, 3, 2, seed=1)
"""


def prepare(folder: Path) -> None:
    """Write a graph and the module of a model to a folder, for the commands that explain the user's own."""
    torch.save(make_graph(), folder / "graph.pt")
    (folder / "mymodule.py").write_text(MODULE.format(here=str(HERE)))


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a command: its own cache, and one thread, because several run side by side."""
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(cache / "mpl")}


def start(arguments: list[str], folder: Path, cache: Path, **options: object) -> subprocess.Popen[bytes]:
    """Start a command in a folder, as a group of processes of its own."""
    command = [sys.executable, str(HERE / "small.py"), *arguments]
    words = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True} | options
    return subprocess.Popen(command, cwd=folder, env=environment(cache), **words)  # type: ignore[call-overload, no-any-return]


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder by its name, without the locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and "__pycache__" not in path.parts
    }


def is_draft(name: str) -> bool:
    """Return whether a file is the draft of another one, to be renamed when it is complete."""
    return Path(name).name.startswith(".") and name.endswith(".tmp")


def find_damage(name: str, content: bytes) -> str:
    """Return what is wrong with a file, as text; only a complete file of its kind is right."""
    try:
        match Path(name).suffix:
            case ".json":
                json.loads(content)
            case ".jsonl":
                # The last line of a journal may be cut off: the next run does its unit again.
                for line in content[: content.rfind(b"\n") + 1].splitlines():
                    json.loads(line)
            case ".safetensors":
                safetensors.torch.load(content)
            case ".png" if not content.endswith(b"IEND" + zlib.crc32(b"IEND").to_bytes(4)):
                return "it has no end"
            case ".pdf" if b"%%EOF" not in content[-32:]:
                return "it has no end"
            case ".html" if not content.rstrip().endswith(b"</html>"):
                return "it has no end"
            case ".csv" | ".md" if not content.endswith(b"\n"):
                return "its last line has no end"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
