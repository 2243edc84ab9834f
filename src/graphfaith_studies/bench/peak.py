"""Peak memory: by how much the resident memory of the process grows, as the kernel counts it.

``python -m graphfaith_studies.bench.peak NODES`` explains one node of a generated graph of that size in a new process
and prints the peak memory as JSON.
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


def measure_peak(work: Callable[[], object]) -> float | None:
    """Run ``work`` and return the megabytes by which it raises the resident memory at most.

    The result is None where the kernel does not report this. Memory that was freed earlier but is still held by the
    process is returned to the system first, because its reuse would not be visible.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # Another C library than glibc has no malloc_trim.
        return None
    before = _read_status("VmRSS")
    if before is None or not _reset_peak():
        return None
    work()
    highest = _read_status("VmHWM")
    return None if highest is None else max(0, highest - before) / MEGABYTE


def process_peak() -> float | None:
    """Return the most megabytes this process has held since its start or the last :func:`measure_peak`."""
    highest = _read_status("VmHWM")
    return None if highest is None else highest / MEGABYTE


def measure_peak_of_one_node(num_nodes: int) -> float | None:
    """Return the peak megabytes of one KEC explanation in a new process, on a generated graph of ``num_nodes`` nodes.

    The memory of the graph's edge index is included, that of the graph is not.
    """
    command = [sys.executable, "-m", "graphfaith_studies.bench.peak", str(num_nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GraphfaithError(f"measuring memory at {num_nodes} nodes failed: {done.stderr.strip()[-300:]}")
    peak: float | None = json.loads(done.stdout)["peak_mb"]
    return peak


def _read_status(name: str) -> int | None:
    """Return the bytes that /proc/self/status gives for ``name``, or None if it cannot be read."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def _reset_peak() -> bool:
    """Reset VmHWM to the memory that is held now, and return whether the kernel allowed it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _main(num_nodes: int) -> None:
    from graphfaith.explainers import KEC

    from .case import generate_case

    # A small graph is explained first, so that what is loaded or allocated only once is not counted.
    case = generate_case(1000, [0])
    next(case.explanations(KEC("U(A,0.5)"), [0]))
    case = generate_case(num_nodes, [num_nodes // 2])
    peak = measure_peak(lambda: next(case.explanations(KEC("U(A,0.5)"), case.nodes)))
    print(json.dumps({"num_nodes": num_nodes, "peak_mb": peak}))


if __name__ == "__main__":
    _main(check_count(int(sys.argv[1]), "NODES"))
