"""An estimate of Delta(p) from samples, with its error bar."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.errors import InputError, ModelError
from ..sampling.neighborhood import Neighborhood, parse_neighborhood

Kind = Literal["edges", "features"]  # of scores: those of edges and self-loops, and those of nodes and features
KINDS: tuple[Kind, ...] = get_args(Kind)

_LEAST_SHARE = 1e-4  # per cent: smaller shares are only said to be smaller


@dataclass(frozen=True)
class Unfaithfulness:
    """Delta(p) in a neighbourhood, estimated from samples.

    ``delta_zero`` is Delta(0), the mean square of F's own change; it is exactly 0 where F changes by no more than its
    rounding. ``relative`` is Delta(p) / Delta(0), the share of that change which p leaves unexplained: 0 is perfect,
    and 1 is no better than to say that nothing changes. Where F does not change there is no such share: ``relative``
    is then 0 if p does not change either, and infinite otherwise. Standard errors are over samples.
    ``moves_edges`` and ``moves_features`` say what the samples perturb; None is for records that do not say.

    If p is more than a sum of scores, ``scores`` is the same for the additive function of the scores that are shown,
    and ``pairs`` for that of scores and ``num_pairs`` pairs. ``floor`` is the share that every additive function
    leaves, as far as that is known.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> found = gf.explain(model, ring, 1, method="saliency").unfaithfulness
    >>> found.neighborhood, found.num_samples, found.value <= found.delta_zero, found.kinds
    ('U(A,0.5)', 500, True, ('edges',))
    """

    value: float
    stderr: float
    relative: float
    relative_stderr: float
    delta_zero: float
    num_samples: int
    neighborhood: str
    seed: int
    moves_edges: bool | None = None
    moves_features: bool | None = None
    scores: Unfaithfulness | None = None
    pairs: Unfaithfulness | None = None
    num_pairs: int = 0
    floor: float | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of scores that this number is about: of what never moved, no sample says anything.

        >>> Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "B(A,0.5)", 1).kinds
        ('edges',)
        """
        edges, features = self.moves_edges, self.moves_features
        if edges is None and features is None:
            try:
                near = parse_neighborhood(self.neighborhood)
            except InputError:  # It is not one that is known by its text, so nothing is known of it.
                return ()
            edges, features = near.perturbs_edges, near.perturbs_features
        return tuple(kind for kind, moved in zip(KINDS, (edges, features), strict=True) if moved)

    def __str__(self) -> str:
        """Return one line to print.

        >>> print(Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "B(A,0.5)", 1))
        Delta(p) = 0.012 ± 0.001 in B(A,0.5): 7.6 % ± 0.9 % of F's change is left unexplained (500 samples)
        >>> print(Unfaithfulness(0.0, 0.0, 0.0, 0.0, 0.0, 500, "U(A,0.5)", 1))
        Delta(p) = 0 ± 0 in U(A,0.5): F does not change there (500 samples)
        >>> scores = Unfaithfulness(0.073, 0.003, 0.463, 0.02, 0.157, 500, "B(A,0.5)", 1)
        >>> both = Unfaithfulness(0.001, 0.0001, 0.0071, 0.0009, 0.157, 500, "B(A,0.5)", 1, scores=scores)
        >>> str(both).partition("unexplained ")[2]
        '(500 samples), by the scores alone 46 % ± 2 %'
        """
        share = format_share(self.relative, self.relative_stderr)
        left = f"{share} of F's change is left unexplained" if self.delta_zero else "F does not change there"
        alone = ""
        if self.scores is not None and self.delta_zero:
            alone = f", by the scores alone {format_share(self.scores.relative, self.scores.relative_stderr)}"
        return (
            f"Delta(p) = {self.value:.3g} ± {self.stderr:.1g} in {self.neighborhood}: {left} "
            f"({self.num_samples} samples){alone}"
        )


def format_share(relative: float, error: float | None) -> str:
    """Return a share in per cent, with as many digits as its error has, if there is a finite one.

    >>> format_share(1.43, 0.12), format_share(0.00042, 0.00003), format_share(0.25, 1e-9), format_share(1e-12, 1e-13)
    ('143 % ± 12 %', '0.042 % ± 0.003 %', '25 %', 'less than 0.0001 %')
    """
    share, error = 100 * relative, 100 * error if error is not None and math.isfinite(error) else 0.0
    if 0 < share + error < _LEAST_SHARE:
        return f"less than {_LEAST_SHARE:g} %"
    if error < _LEAST_SHARE:  # as good as none
        return f"{share:.3g} %"
    digits = min(max(-math.floor(math.log10(error)), 0), 4)
    return f"{share:.{digits}f} % ± {error:.{digits}f} %"


def format_share_alone(relative: float, error: float | None) -> str:
    """Return a share in per cent with as many digits as its error has, but without the error.

    >>> format_share_alone(0.5271, 0.04), format_share_alone(0.00168, 0.0002), format_share_alone(0.25, None)
    ('53 %', '0.17 %', '25 %')
    """
    return format_share(relative, error).partition(" ±")[0]


def rounding_square(scale: float, dtype: torch.dtype) -> float:
    """Return the square of F's rounding, (4 eps scale)^2; a change of F that is no larger counts as none.

    ``scale`` is the largest magnitude of the model's output.
    """
    rounding = 4 * torch.finfo(dtype).eps * scale
    if math.isinf(rounding * rounding):
        raise ModelError(
            f"the output of the model is as large as {scale:.1e}, so that squares of its changes overflow: scale it"
        )
    return rounding * rounding


def estimate_unfaithfulness(
    residual: Tensor, delta: Tensor, noise: float, neighborhood: Neighborhood, seed: int
) -> Unfaithfulness:
    """Estimate Delta(p) from what p leaves of F's change on each sample, and from that change ``delta`` itself.

    ``noise`` is the mean square of F's rounding. If Delta(0) is no larger, F does not change: Delta(0) is then set to
    0, and so is a Delta(p) that is no larger either, so that the record says so without knowing the noise. The
    standard error of the ratio Delta(p) / Delta(0) is that of its linearisation (the delta method).
    """
    largest = max(float(residual.abs().max()), float(delta.abs().max()))
    if largest and not MEASURABLE[0] < largest < MEASURABLE[1]:
        return _estimate_scaled(residual, delta, noise, neighborhood, seed, largest)
    errors, changes, count = residual.numpy() ** 2, delta.numpy() ** 2, len(delta)
    value, zero = float(errors.sum()) / count, float(changes.sum()) / count
    stderr = _standard_error(errors, value)
    if zero > noise:
        relative = value / zero
        relative_stderr = _standard_error(errors - relative * changes, value - relative * zero) / zero
    elif value > noise:
        zero, relative, relative_stderr = 0.0, math.inf, 0.0
    else:
        value = stderr = zero = relative = relative_stderr = 0.0
    return Unfaithfulness(
        value,
        stderr,
        relative,
        relative_stderr,
        zero,
        count,
        str(neighborhood),
        seed,
        moves_edges=neighborhood.perturbs_edges,
        moves_features=neighborhood.perturbs_features,
    )


# Standard errors need the fourth power of a change, which is a normal number in double precision within these bounds.
MEASURABLE = 1e-70, 1e70


def _estimate_scaled(
    residual: Tensor, delta: Tensor, noise: float, neighborhood: Neighborhood, seed: int, largest: float
) -> Unfaithfulness:
    """Estimate Delta(p) of changes whose fourth powers are no numbers, from changes scaled by a power of two."""
    if math.isfinite(largest):
        unit = 2.0 ** (math.frexp(largest)[1] - 1)
        scaled = estimate_unfaithfulness(residual / unit, delta / unit, noise / unit / unit, neighborhood, seed)
        parts = {name: getattr(scaled, name) * unit * unit for name in ("value", "stderr", "delta_zero")}
        held = [(size > 0) == (getattr(scaled, name) > 0) for name, size in parts.items()]
        held += [math.isfinite(size) == math.isfinite(getattr(scaled, name)) for name, size in parts.items()]
        # F's change must not have been lost beside a much larger change of p.
        moves = float(delta.abs().max())
        if all(held) and math.isfinite(scaled.relative_stderr) and (scaled.delta_zero or not moves * moves > noise):
            return replace(scaled, **parts)
    raise ModelError(
        f"F and its explanation change by {largest:.1e} in {neighborhood}, whose square double precision cannot hold: "
        "scale the output of the model, or use another neighbourhood"
    )


def _standard_error(values: np.ndarray, mean: float) -> float:
    deviations, count = values - mean, len(values)
    return math.sqrt(float(deviations @ deviations) / (count - 1) / count) if count > 1 else math.inf
