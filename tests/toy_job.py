"""A job for the tests of runs: rows that are quick to make, and nodes that misbehave on request."""

from __future__ import annotations

import os
import resource
import signal
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from graphfaith import ModelError

SCHEMA = pa.schema(
    [
        ("node", pa.int64()),
        ("value", pa.float64()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("milliseconds", pa.float64()),
        ("edges", pa.list_(pa.struct([("source", pa.int64()), ("score", pa.float64())]))),
    ]
)


_REPLACE = os.replace


def _die_between(marker, replace, draft, target):
    """Kill the process between the draft and its name, the first time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    replace(draft, target)


@dataclass(frozen=True)
class ToyJob:
    """Rows whose values depend on the nodes that are explained together, as the last bits of real ones do."""

    num_nodes: int = 100
    seconds: float = 0.0  # that each node takes
    kills: tuple[int, ...] = ()  # nodes that kill their process
    exits: tuple[int, ...] = ()  # nodes that end it
    fails: tuple[int, ...] = ()  # nodes that raise an exception
    breaks: int | None = None  # a node at which the job itself fails
    log: str | None = None  # a folder in which each call leaves a file
    once: str | None = None  # a file; until it is there, the first part that is written kills its process
    full: int | None = None  # a node from which on the disk is full
    gate: str | None = None  # a file that the last node of some blocks waits for
    waits: tuple[int, ...] = ()  # these nodes
    seed: int = 0
    starves: str | None = None  # a file; until it is there, the first call has no memory
    draws: bool = False  # whether the model is another one in each process
    warns: str | None = None  # what each call warns of
    refused: bool = False  # whether nothing can be explained

    def places(self) -> dict[str, str]:
        return {}

    def settled(self, died):
        return self

    def check_at(self, place) -> None:
        if self.refused:
            raise ModelError("a toy that explains nothing")

    def settings(self) -> dict[str, object]:
        return {"num_nodes": self.num_nodes, "seed": self.seed}

    def digests(self) -> dict[str, str]:
        return {"graph": "a toy", "model": str(os.getpid()) if self.draws else "none"}

    def table(self, ids):
        if self.log is not None:
            name = f"{time.monotonic_ns()}-{os.getpid()}"
            Path(self.log, name).write_text(",".join(map(str, ids)))
        if self.warns is not None:
            warnings.warn(self.warns, stacklevel=2)
        if self.once is not None:
            os.replace = partial(_die_between, Path(self.once), _REPLACE)
        if self.full is not None and self.full in ids:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        if self.starves is not None and not Path(self.starves).exists():
            Path(self.starves).touch()
            raise MemoryError("a toy")
        rows = []
        for node in map(int, ids):
            time.sleep(self.seconds)
            if node in self.waits:
                wait_for(Path(self.gate).exists)
            if node == self.breaks:
                raise OSError("the graph is gone")
            if node in self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            if node in self.exits:
                os._exit(3)
            if node in self.fails:
                rows.append(self._failed(node, "ValueError: a toy"))
                continue
            value = np.sin(node + self.seed) * (1 + 1e-15 * float(ids.sum()))
            edges = [{"source": other, "score": value / (1 + other)} for other in range(node % 5)]
            rows.append(self._row(node, edges, value=value, status="ok", milliseconds=time.time()))
        return pa.Table.from_pylist(rows, SCHEMA)

    def failed_table(self, ids, error):
        return pa.Table.from_pylist([self._failed(int(node), error) for node in ids], SCHEMA)

    @staticmethod
    def _row(node, edges=(), **others):
        return {"node": node, "edges": list(edges), "value": None, "error": None, "milliseconds": 0.0, **others}

    def _failed(self, node, error):
        return self._row(node, status="failed", error=error)


def rows_of(folder):
    """Return the rows of a run, without the times, by the name of their part."""
    import pyarrow.parquet as pq

    return {
        path.name: pq.read_table(path, page_checksum_verification=True).drop(["milliseconds"]).to_pylist()
        for path in sorted(Path(folder, "explanations").iterdir())
    }


def expected_rows(job, block):
    """Return the rows of a run that was left alone, made in this process."""
    cut = [np.arange(first, min(first + block, job.num_nodes)) for first in range(0, job.num_nodes, block)]
    return {
        f"part-{number:08}.parquet": job.table(ids).drop(["milliseconds"]).to_pylist() for number, ids in enumerate(cut)
    }


def parts_in(folder):
    """Return how many parts there are."""
    return len(list(Path(folder).glob("explanations/part-*.parquet")))


def wait_for(condition, seconds=400.0):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.01)
