"""Peak memory: how far the process rises above where it stood, as the kernel counts it.

``python -m graphfaith_studies.bench.peak NODES`` explains one node of a generated graph of that size in a fresh process
and prints what that took as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from graphfaith._base.checks import check_count
from graphfaith._base.errors import GraphfaithError

MEGABYTE = 10**6


def peak_of(work: Callable[[], object]) -> float | None:
    """Megabytes by which ``work`` raises the resident memory at its highest; None where the kernel does not say.

    Memory that was freed earlier but is still held is given back first: reusing it would not show.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # another C library
        return None
    before = _status("VmRSS")
    if before is None or not _reset():
        return None
    work()
    highest = _status("VmHWM")
    return None if highest is None else max(0, highest - before) / MEGABYTE


def highest() -> float | None:
    """Megabytes that this process has held at most, since its start or the last :func:`peak_of`."""
    found = _status("VmHWM")
    return None if found is None else found / MEGABYTE


def peak_of_one_node(num_nodes: int) -> float | None:
    """The same for one KEC explanation in a graph of so many nodes, its index included, in a fresh process."""
    command = [sys.executable, "-m", "graphfaith_studies.bench.peak", str(num_nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GraphfaithError(f"measuring memory at {num_nodes} nodes failed: {done.stderr.strip()[-300:]}")
    found: float | None = json.loads(done.stdout)["peak_mb"]
    return found


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def _reset() -> bool:
    """Let VmHWM start again from what is held now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _main(num_nodes: int) -> None:
    from graphfaith.explainers import KEC

    from .case import generated

    # On a small graph first: what is loaded or allocated once for all belongs to neither.
    case = generated(1000, [0])
    next(case.explanations(KEC("U(A,0.5)"), [0]))
    case = generated(num_nodes, [num_nodes // 2])
    found = peak_of(lambda: next(case.explanations(KEC("U(A,0.5)"), case.nodes)))
    print(json.dumps({"num_nodes": num_nodes, "peak_mb": found}))


if __name__ == "__main__":
    _main(check_count(int(sys.argv[1]), "NODES"))
