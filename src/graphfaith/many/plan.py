"""What a run is to do, fixed before it begins: the job, the nodes, and how they are cut into blocks.

Nodes of a block are explained together, and another block would change the last bits of their scores. Blocks therefore
belong to the plan, never to a worker, and a run can only be continued with the plan that it was begun with.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from typing import Any, Protocol

import numpy as np

from .._base.checksum import checksum_of
from .._base.errors import InputError, show
from .nodes import PIECE, Ids, Nodes

FORMAT = 1  # of the files of a run
CHECKED = 3  # nodes at which a job is tried before its run begins: the first, the middle and the last one
# These compute the numbers: another version may round differently, so that half a run of each would be neither's.
_COMPUTES = ("graphfaith", "torch", "torch_geometric", "numpy", "scipy", "numba")
_CARRIES = ("pyarrow", "ray")  # These only move them, so that a run may go on with another version.


class Job(Protocol):
    """What a run asks of a job; :class:`graphfaith.ManyJob` is one. It is pickled, so it names things by their paths.

    ``table`` is a pure function of the ids, except for its column ``milliseconds``: one row for each, in their order.
    """

    @property
    def num_nodes(self) -> int:
        """How many nodes the graph has."""

    def settings(self) -> dict[str, Any]:
        """Return everything that the rows depend on, as values that JSON knows."""

    def places(self) -> dict[str, str]:
        """Return where the graph and the model are. The rows do not depend on it: digests say what is there."""

    def settled(self, died: tuple[str, ...]) -> Job:
        """Return the job with all that is found out by running the model said, so that no other process has to.

        ``died`` says how earlier processes ended that were asked the same: each time another way is tried.
        """

    def check_at(self, place: int) -> None:
        """Raise an error if the node at a place, one of ``CHECKED`` from the first to the last, cannot be explained."""

    def digests(self) -> dict[str, str]:
        """Return digests of the graph and of the model."""

    def table(self, ids: Ids) -> Any:
        """Return the explanations of some nodes as a ``pyarrow.Table``."""

    def failed_table(self, ids: Ids, error: str) -> Any:
        """Return the rows of nodes that could not be explained."""


@dataclass(frozen=True)
class Plan:
    """The settings of a job, digests of its graph and model, the nodes, and the size of a block."""

    job: dict[str, Any]
    digests: dict[str, str]
    nodes: Nodes
    block: int
    places: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, job: Job, nodes: Nodes, block: int, digests: dict[str, str] | None = None) -> Plan:
        """Return the plan of a job for some nodes; ``digests`` are those of the job, if another process knows them."""
        digests = job.digests() if digests is None else digests
        return cls(_as_json(job.settings()), _as_json(digests), nodes, block, job.places())

    @property
    def num_blocks(self) -> int:
        """How many blocks there are; the last one may be smaller."""
        return -(-len(self.nodes) // self.block)

    def size(self, number: int) -> int:
        """Return how many nodes a block has."""
        return min(self.block, len(self.nodes) - number * self.block)

    def ids(self, number: int) -> Ids:
        """Return the nodes of a block."""
        first = number * self.block
        return self.nodes.ids(first, first + self.size(number))

    @cached_property
    def document(self) -> dict[str, Any]:
        """Everything that decides about a row, as JSON."""
        return {
            "format": FORMAT,
            "job": self.job,
            "digests": self.digests,
            "nodes": _describe(self.nodes),
            "block": self.block,
            # The code of a model is known by its bytecode, which another Python has not.
            "versions": {
                **{name: _version(name) for name in _COMPUTES},
                "python": ".".join(platform.python_version_tuple()[:2]),
            },
        }

    @cached_property
    def digest(self) -> str:
        """A digest of the document. Each part of the run carries it."""
        return checksum_of(json.dumps(self.document, sort_keys=True))

    def as_json(self) -> dict[str, Any]:
        """Return what ``plan.json`` holds: the document, its digest, and what the run was begun with besides."""
        carried = {name: _version(name) for name in _CARRIES}
        with_it = {"python": platform.python_version(), "machine": platform.machine(), **carried}
        return {"plan": self.document, "digest": self.digest, "places": self.places, "made_with": with_it}

    def check_same(self, other: Any, where: str) -> None:
        """Raise an :class:`InputError` that says what differs, unless ``other``, read from a file, is this plan."""
        known, own = dict(_flatten(other)), dict(_flatten(self.document))
        different = [key for key in dict.fromkeys([*own, *known]) if known.get(key) != own.get(key)]
        if different:
            listed = [f"{key} {show(known.get(key))} there, {show(own.get(key))} now" for key in different[:6]]
            more = f" and {len(different) - 6} more" if len(different) > 6 else ""
            raise InputError(
                f"'{where}' was begun with another plan ({'; '.join(listed)}{more}): choose another folder, or go on "
                "with the settings it was begun with"
            )


def _describe(nodes: Nodes) -> dict[str, Any]:
    if nodes.range is not None:
        return {"count": len(nodes), "start": nodes.range.start, "stop": nodes.range.stop, "step": nodes.range.step}
    digest = hashlib.blake2b(digest_size=16)
    for first in range(0, len(nodes), PIECE):
        digest.update(nodes.ids(first, min(len(nodes), first + PIECE)).astype("<i8").tobytes())
    return {"count": len(nodes), "digest": digest.hexdigest()}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _as_json(value: Any) -> Any:
    """Return a value as it comes back from a file, so that the two can be compared."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"a setting of a job must be a plain value (got {show(value)})")


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single values of nested JSON, with the way to each."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, value
