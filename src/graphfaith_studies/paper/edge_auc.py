"""How well edge scores identify a known motif, and how sparse they are.

Reference: "Faithful Explanations for Deep Graph Models" (arXiv 2205.11850), appendix "Parameter Faithfulness".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from graphfaith.data.ba_shapes import HOUSE_LABELS, NUM_BASE
from graphfaith.explainers.pgexplainer import RankedSubgraphModel
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.surrogate.difference import DifferenceModel, SubgraphModel

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TEMPERATURES = tuple(10.0**power for power in range(-18, 6))  # the temperatures of the paper's sigmoid
THRESHOLD = 1e-3  # the paper replaces smaller scores by 0


def rank_auc(truth: Bools, scores: Floats) -> float:
    r"""Return the probability that an edge i of the motif has a larger score than an edge j outside it:

    .. math:: P(|s_i| > |s_j|) + \tfrac12 P(|s_i| = |s_j|).

    Only the order of the :math:`|s|` matters, so a monotonic function of them does not change the result.

    >>> rank_auc(np.array([True, False, False]), np.array([-3e-9, 2e-9, 0.0]))
    1.0
    """
    return _roc_auc(truth, np.abs(scores))


def sigmoid_auc(truth: Bools, scores: Floats, temperature: float, threshold: float) -> float:
    r"""Return the same probability for the values that the paper computes from signed scores,

    .. math:: \sigma(|s|\,[|s| \ge t] / T), \quad \sigma(x) = 1 / (1 + e^{-x}),

    in single precision, where numbers near 1/2 or 1 that differ by less than :math:`6 \cdot 10^{-8}` are equal. The
    sigmoid of exact numbers would keep their order; T matters only because rounding can tie different scores.

    >>> truth, scores = np.array([True, False, False]), np.array([-3e-9, 2e-9, 0.0])
    >>> sigmoid_auc(truth, scores, 1.0, 0.0), sigmoid_auc(truth, scores, 1e-9, 0.0)
    (0.5, 1.0)
    """
    size = np.abs(scores).astype(np.float32)
    size[size < np.float32(threshold)] = 0
    with np.errstate(over="ignore", under="ignore"):
        likely = 1 / (1 + np.exp(-size / np.float32(temperature)))
    return _roc_auc(truth, likely)


def _roc_auc(truth: Bools, likely: NDArray[Any]) -> float:
    from sklearn.metrics import roc_auc_score  # Imported here because it takes half a second.

    return float(roc_auc_score(truth, likely))


def paper_auc(
    truth: Bools, scores: Floats, temperatures: Sequence[float] = TEMPERATURES, threshold: float = THRESHOLD
) -> float:
    """Return the mean of :func:`sigmoid_auc` over temperatures, which the paper reports for signed scores.

    >>> paper_auc(np.array([True, False]), np.array([2e-4, 1e-4]))     # both count as 0
    0.5
    """
    return float(np.mean([sigmoid_auc(truth, scores, temperature, threshold) for temperature in temperatures]))


def sparsity_area(scores: Floats) -> float:
    r"""Return the area under the sparsity curve of the normalised scores :math:`s' = s / \max |s|`:

    .. math:: \int_0^1 \frac{|\{s' > t\}|}{|A|} dt = \frac{1}{|A|} \sum_i \max(s'_i, 0).

    A smaller area means that fewer edges have large scores.

    >>> sparsity_area(np.array([2.0, 1.0, -4.0, 0.0]))     # 1/2 and 1/4, of four edges
    0.1875
    """
    largest = float(np.abs(scores).max(initial=0.0))
    return float(np.maximum(scores, 0).mean() / largest) if largest > 0 else 0.0


def near_edges(graph: ComputationGraph) -> Bools:
    """Return [e], whether an edge is in the k-hop neighbourhood: no self-loop, both ends within M hops of the node.

    The computation graph of a model that divides by degrees also has edges from nodes M + 1 hops away. PyG's masks do
    not cover them. They would be half of the edges on BA-Shapes, and every method ranks them easily.
    """
    inside = (graph.edge_index < graph.num_visible).all(dim=0) & ~graph.is_loop
    return np.asarray(inside.numpy(), dtype=np.bool_)


def edge_scores(p: DifferenceModel) -> Floats:
    """Return [e], the score of each entry of A: the soft mask if the method learns one, otherwise the gradient of p."""
    if isinstance(p, RankedSubgraphModel):
        scores = p.ranking
    elif isinstance(p, SubgraphModel) and p.edge_mask is not None:
        scores = p.edge_mask
    else:
        scores = p.gradient()[1]
    return np.asarray(scores.detach().double().numpy())


def closeness(graph: ComputationGraph) -> Floats:
    """Return [e], 1 / (1 + hops from the explained node to the far end of an edge), a score that needs no model."""
    return np.asarray(1 / (1 + graph.hop[graph.edge_index].amax(dim=0).double().numpy()))


def house_of_edges(data: Data) -> NDArray[np.int64]:
    """Return, for each edge of BA-Shapes, the number of the house that it belongs to, or -1."""
    number = (data.edge_index[0] - NUM_BASE) // len(HOUSE_LABELS)
    return np.asarray(torch.where(data.edge_label == 1, number, -1).numpy())


def house_of_node(node: int) -> int:
    """Return the number of the house that a node belongs to.

    >>> house_of_node(400), house_of_node(404), house_of_node(405)
    (20, 20, 21)
    """
    return (node - NUM_BASE) // len(HOUSE_LABELS)
