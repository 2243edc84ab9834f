"""``python many_run.py JSON``: one call of ``explain_many``, in a process that is there to be disturbed.

``raylet`` starts two
raylets of a cluster, and kills one of them when half of the parts are there. Every table that a worker begins is a line
of the file that the variable ``GRAPHFAITH_STRESS_LOG`` names: its process, its first node and the number of its nodes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graphfaith as gf


@dataclass(frozen=True)
class NotedJob(gf.ManyJob):
    """A job that notes what is begun."""

    def table(self, ids: Any) -> Any:
        """Note that the rows of some nodes are begun, and return them."""
        with open(os.environ["GRAPHFAITH_STRESS_LOG"], "a") as log:
            log.write(f"{os.getpid()} {ids[0]} {len(ids)}\n")  # one write, which no other process comes into
        return super().table(ids)


@contextlib.contextmanager
def two_raylets(out: Path, parts: int) -> Iterator[str]:
    """Start a cluster of two raylets, one of which is killed when there are so many parts."""
    from ray.cluster_utils import Cluster

    words = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**words, "include_dashboard": False})
    node = cluster.add_node(**words)

    def kill() -> None:
        while len(list(out.glob("explanations/*.parquet"))) < parts:
            time.sleep(0.02)
        cluster.remove_node(node, allow_graceful=False)
        print("raylet killed", flush=True)

    threading.Thread(target=kill, daemon=True).start()
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def main() -> None:
    """Explain the nodes of a data set as the settings say, and print the summary."""
    given = json.loads(sys.argv[1])
    out, raylet = Path(given.pop("out")), given.pop("raylet", 0)
    words = {key: given.pop(key) for key in ("engine", "block", "workers") if key in given}
    job = NotedJob(**given)
    with two_raylets(out, raylet) if raylet else contextlib.nullcontext(None) as address:
        print(gf.explain_many(job, "all", out, address=address, **words), flush=True)


if __name__ == "__main__":
    # Workers find the class of the job by the name of this module, which is no longer that of the program.
    from many_run import main as run

    run()
