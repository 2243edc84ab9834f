"""Anchored models that the compiled core has fitted, and the shares that it has read off them.

One computation graph after the other is in a few arrays, a single one or those of many nodes. Only edges move, and F is
read from the first node of each computation graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._base import core
from ..graph.computation_graph import ComputationGraph
from ..graph.graph import Int64
from ..sampling.neighborhood import Moments
from . import additive, sensitivity, terms
from .difference import AnchoredModel
from .evidence import Evidence
from .frame import as_array, describe_graph
from .moves import LEAST, Moves
from .solve import NEARLY, PENALTIES
from .walks import CODES, Float64, Normalization

KINDS: dict[int, Normalization] = {code: name for name, code in CODES.items()}
CONSTANTS = (
    sensitivity.RANK,
    sensitivity.ROWS,
    sensitivity.CUT,
    sensitivity.RIDGE,
    terms.ROUNDING,
    terms.FAINT,
    terms.FIRM,
    np.array(PENALTIES),
    NEARLY,
)
_NONE = torch.zeros(0, dtype=torch.float64)
OF_SHARES = (*additive.CONSTANTS, LEAST)


class Fits(NamedTuple):
    """What the core has fitted to b computation graphs, one after the other, with n nodes and e entries of A in all."""

    sound: NDArray[np.bool_]  # [b] whether there is a fit
    kinds: Int64  # [b] the chosen normalisation
    ranks: Int64  # [b, 2] how many directions the curvature and the columns of X have
    singles: Float64  # [b, 4] the weights of the gradient, of its mean, of the energy and of the curvature
    solved: Float64  # [b, M, u]
    degrees: Float64  # [b, M, 2]
    columns: Float64  # [b, d, u]
    products: Float64  # [n, M] X w_k
    alongs: Float64  # [e, 2 + r] Phi_A, the mean gradient, and the directions of the curvature
    bends: Float64  # [b, r, r]
    scores: Float64  # [e] the gradient of p with respect to A
    left_out: Float64  # [b, S] the residuals of samples that are left out of the fit
    fitted: Float64  # [b, S] the change of p
    rests: Float64  # [b, S] what the scores leave of F's change

    @classmethod
    def of_size(cls, count: int, nodes: int, entries: int, num_hops: int, width: int, num_samples: int) -> Fits:
        """Return arrays of zeros that the core writes the fits of ``count`` computation graphs into."""
        rank = sensitivity.RANK
        return cls(
            np.zeros(count, dtype=bool),
            np.zeros(count, np.int64),
            np.zeros((count, 2), np.int64),
            np.zeros((count, 4)),
            np.zeros((count, num_hops, rank)),
            np.zeros((count, num_hops, 2)),
            np.zeros((count, width, rank)),
            np.zeros((nodes, num_hops)),
            np.zeros((entries, 2 + rank)),
            np.zeros((count, rank, rank)),
            np.zeros(entries),
            *(np.zeros((count, num_samples)) for _ in range(3)),
        )

    def model(self, i: int, graph: ComputationGraph, entries: slice, gradient: Float64) -> AnchoredModel:
        """Return the p of computation graph number i; its scores of X are the ``gradient`` of F there, [n, d].

        No sample shows how F depends on X if only edges move, so that Phi_X takes up the difference.
        """
        size, width = self.ranks[i].tolist()
        along = torch.from_numpy(self.alongs[entries].T.copy())
        weights = np.zeros((self.solved.shape[1] + 1, graph.x.size(1)))
        weights[1:] = self.solved[i, :, :width] @ self.columns[i, :, :width].T
        p = AnchoredModel(
            graph,
            torch.from_numpy(weights),
            torch.from_numpy(self.degrees[i].copy()),
            _NONE,
            along[0],
            torch.tensor([0.0, float(self.singles[i, 2])], dtype=torch.float64),
            None,
            along[2 : 2 + size].clone(),
            torch.from_numpy(self.bends[i, :size, :size].copy()),
            KINDS[int(self.kinds[i])],
        )
        p.lead_to(torch.from_numpy(gradient), torch.from_numpy(self.scores[entries].copy()))
        return p


@dataclass(frozen=True)
class ReadShares:
    """What the core has read off p, one computation graph after the other."""

    scores: Float64  # [e]
    stderr: Float64  # [e]
    excess: Float64  # [b]
    changes: Float64  # [b, 2, S] of p in the samples that the shares were found in, and in their mirror images
    counts: Int64  # [b, 3] samples that the slope was taken at, that shares were found in, and if mirror images were

    def additive(self, i: int, entries: slice, moves: Moves) -> additive.Additive:
        """Return the shares of computation graph number i, whose units are those of ``moves``."""
        assert moves.edge_unit is not None
        moved = (moves.edge_unit >= 0).nonzero().view(-1)
        scores, stderr = torch.zeros(2, len(moves), dtype=torch.float64)
        scores[moves.edge_unit[moved]] = torch.from_numpy(self.scores[entries])[moved]
        stderr[moves.edge_unit[moved]] = torch.from_numpy(self.stderr[entries])[moved]
        return additive.Additive(moves, scores, stderr, float(self.excess[i]))


def select_for_shares(fits: Fits) -> tuple[Any, ...]:
    """Return those of the arrays that the core needs to read shares off p."""
    of_p = fits.kinds, fits.ranks, fits.singles, fits.degrees, fits.products, fits.alongs, fits.bends
    return *of_p, fits.left_out, fits.fitted, fits.rests


def fit_graph(
    graph: ComputationGraph,
    num_hops: int,
    kinds: tuple[Normalization, ...],
    weight: Tensor,
    samples: tuple[Int64, Int64],
    change: Tensor,
    gradients: tuple[Tensor, Tensor],
    noise: float,
    *,
    drops: bool,
) -> Fits | None:
    """Fit p to one computation graph; None if the core cannot, or if the gradient alone or 0 is better.

    ``weight``, [1 + S, e], are the entries of A as they are and in S samples. Of the ``samples``, those of the first
    list have gradients, and those of the second have F's ``change``, [S']. ``gradients`` has the mean for X over the
    graph as it is and the samples of the first list, [n, d], and those for A, [., e]. ``noise`` is the mean square of
    F's rounding, and ``drops`` says that entries are either there or removed.
    """
    described = describe_graph(graph)
    if described is None:
        return None
    asked, rest = samples
    fits = Fits.of_size(1, graph.num_nodes, graph.num_edges, num_hops, graph.x.size(1), len(rest))
    changes = np.zeros((1, len(weight) - 1))
    changes[0, rest] = change.numpy()
    of_x, of_a = (part.double().contiguous().numpy() for part in (gradients[0], gradients[1].T))
    options = num_hops, np.array([CODES[kind] for kind in kinds]), drops, np.array([float(noise)])
    values, x, felt = weight.T.contiguous().numpy(), core.sparse_of(as_array(graph.x)), graph.felt.numpy()
    core.anchor_parts(
        np.zeros(1, np.int64),
        described,
        values,
        x,
        changes,
        (asked, rest),
        of_a,
        of_x,
        felt,
        options,
        CONSTANTS,
        tuple(fits),
    )
    return fits if fits.sound[0] else None


def read_shares(
    p: AnchoredModel,
    described: tuple[Any, ...],
    values: Float64,
    moves: Moves,
    moments: Moments,
    evidence: Evidence,
    tables: Sequence[Float64],
    counts: Int64,
    held: int,
) -> ReadShares:
    """Read shares off p on one computation graph.

    ``values``, [e, 1 + S], are the entries of A as they are and at the samples of the fit. ``tables`` has the
    perturbations, [e, .], at which the slope of p is taken and those in which shares are found, and ``counts`` how
    many they are. ``held`` is the most numbers in a table of moves.
    """
    graph, entries = p.graph, p.graph.num_edges
    rank = len(p.bend)
    along = np.zeros((entries, 2 + rank))
    along[:, 0] = p.phi_a.double().numpy()
    if p.along_a is not None:
        along[:, 2:] = p.along_a.double().numpy().T
    singles = np.zeros((1, 4))
    singles[0, 2] = float(p.stiffness[1])
    rests = np.zeros((1, len(evidence.change)))
    given = (
        np.array([CODES[p.normalization]]),
        np.array([[rank, 0]]),
        singles,
        p.degree_weights.unsqueeze(0).contiguous().numpy(),
        p.products.contiguous().numpy(),
        along,
        p.bend.unsqueeze(0).contiguous().numpy(),
        evidence.left_out.unsqueeze(0).contiguous().numpy(),
        evidence.fitted.unsqueeze(0).contiguous().numpy(),
        rests,
    )
    assert moves.edge_unit is not None
    units = moves.edge_unit.numpy(), np.array([len(moves)]), moves.degree_sinks().numpy()
    shares, stderr, excess = np.zeros(entries), np.zeros(entries), np.zeros(1)
    changes = np.zeros((1, 2, tables[1].shape[1]))
    core.read_parts(
        np.zeros(1, np.int64),
        described,
        values,
        np.arange(values.shape[1] - 1),
        graph.felt.numpy(),
        units,
        tuple(tables),
        tuple(part.numpy() for part in (moments.mean, moments.spread, moments.common)),
        counts,
        (*OF_SHARES, held),
        given,
        (shares, stderr, excess, changes),
    )
    return ReadShares(shares, stderr, excess, changes, counts)


def with_still_row(moments: Moments) -> tuple[Float64, ...]:
    """Return moments of entries of A, and after them those of an entry that never moves."""
    return tuple(np.append(part.numpy(), 0.0) for part in (moments.mean, moments.spread, moments.common))
