"""A digest of the scores of an explanation, by which one that was edited is told from a fresh one."""

from __future__ import annotations

from functools import cache

import numpy as np
from torch import Tensor
from torch_geometric.explain import Explanation

from ..graph.computation_graph import ComputationGraph
from ..sampling.draw import UInt64, keys


def scores_digest(explanation: Explanation, part: ComputationGraph) -> str:
    """A digest of the scores on the computation graph, by which an edited explanation is told from a fresh one."""
    nodes, edges, loops = (explanation.get(key) for key in ("node_mask", "edge_mask", "self_loop_score"))
    return digest_of(
        nodes if nodes is None or nodes.size(0) == 1 else nodes[part.nodes[: part.num_visible]],
        None if edges is None else edges[part.edge_id[part.edge_id >= 0]],
        None if loops is None else loops[part.nodes],
    )


def digest_of(*scores: Tensor | None) -> str:
    """The digest of scores: of the rows of nodes, of the edges that were given, and of self-loops.

    It is against slips, not against forgers: sum_i k_i w_i mod 2^64 over words w_i and odd keys k_i, which is several
    times faster than a cryptographic one. The upper half of a word is mixed into the lower one before: all signs turned
    would otherwise be a sum of 2^63, and so nothing.
    """
    total = 0
    for part in scores:
        data = b"" if part is None else part.detach().contiguous().numpy().reshape(-1).view(np.uint8)
        words = np.frombuffer(data, dtype=np.uint64, count=len(data) // 8)
        rest = int.from_bytes(bytes(data[8 * len(words) :]), "little")
        total = (total + 1) * _STEP + 8 * len(data) + rest
        for start in range(0, len(words), _BLOCK):
            block = words[start : start + _BLOCK]
            block = block ^ (block >> np.uint64(32))
            total = total * _STEP + int(np.dot(block, _digest_keys()[: len(block)]))
        total &= (1 << 64) - 1
    return f"{total:016x}"


_STEP = 0x9E3779B97F4A7C15
_BLOCK = 1 << 15  # words


@cache
def _digest_keys() -> UInt64:
    return keys(0, "digest", np.arange(_BLOCK)) | np.uint64(1)
