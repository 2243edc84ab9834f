"""An estimate of Delta(p) from samples, with its error bar."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Unfaithfulness:
    """Delta(p) in a neighbourhood, estimated from samples.

    ``delta_zero`` is Delta(0), the mean square of F's own change, and ``relative`` is Delta(p) / Delta(0), the share
    of it that p leaves unexplained: 0 is perfect, 1 is no better than saying that nothing changes. Standard errors are
    over samples.
    """

    value: float
    stderr: float
    relative: float
    relative_stderr: float
    delta_zero: float
    num_samples: int
    neighborhood: str
    seed: int

    def __str__(self) -> str:
        """One line to print."""
        return (
            f"Delta(p) = {self.value:.3g} ± {self.stderr:.1g} in {self.neighborhood}: {100 * self.relative:.3g} % "
            f"± {100 * self.relative_stderr:.1g} % of F's change is left unexplained ({self.num_samples} samples)"
        )


def estimated(residual: Tensor, delta: Tensor, noise: float, neighborhood: str, seed: int) -> Unfaithfulness:
    """Means over samples; the error of a ratio of means is that of its linearisation (delta method)."""
    errors, changes, count = residual.numpy() ** 2, delta.numpy() ** 2, len(delta)
    value, zero = float(errors.sum()) / count, float(changes.sum()) / count
    if zero > noise:
        relative = value / zero
        spread = _stderr(errors - relative * changes, value - relative * zero) / zero
    else:
        relative, spread = (0.0 if value <= noise else math.inf), 0.0
    return Unfaithfulness(value, _stderr(errors, value), relative, spread, zero, count, neighborhood, seed)


def _stderr(values: np.ndarray, mean: float) -> float:
    off, count = values - mean, len(values)
    return math.sqrt(float(off @ off) / (count - 1) / count) if count > 1 else math.inf
