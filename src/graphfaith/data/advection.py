"""Signals that drift downwind over a field of sensors: a process whose every cause, sign and delay is known."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import InputError

WINDOW = 5
# Weights of a window, oldest value first. A sensor alone swings with a period of about 7 steps and dies down. From
# upwind it takes over what was there one step before the newest value, less half of what was there two steps earlier.
OWN = (0.0, 0.0, 0.0, -0.5, 0.9)
UPWIND = (0.0, -0.25, 0.0, 0.5, 0.0)
GAIN = 0.5
NOISE = 0.1
RADIUS = 0.2
WARM_UP = 100  # steps thrown away: by then nothing is left of the start from zero


def expected(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    r"""Return the mean of the next value of every node given the windows, [N, 1]: the process without its noise.

    It is :math:`\sum_k a_k x_{ik} + g \tanh(\sum_{j \to i} A_{ij} \sum_k b_k x_{jk})` with a = `OWN`, b = `UPWIND`
    and g = `GAIN`; A is 1 where no `edge_weight` is given. The causes of node i are its own window and those of the
    nodes with an edge into i. That of an edge j -> i has the sign of its message :math:`\sum_k b_k x_{jk}`.

    Example:
        >>> x = torch.tensor([[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
        >>> expected(x, torch.tensor([[0], [1]])).view(-1)     # -0.5 and 0.9 + 0.5 tanh(0.5)
        tensor([-0.5000,  1.1311])
    """
    source, sink = edge_index
    message = x[source] @ x.new_tensor(UPWIND)
    if edge_weight is not None:
        message = edge_weight * message
    inflow = x.new_zeros(x.size(0)).index_add(0, sink, message)
    return (x @ x.new_tensor(OWN) + GAIN * inflow.tanh()).unsqueeze(-1)


@dataclass(frozen=True)
class Advection:
    """A recording of the process: `values` [T, N], with the graph it ran on.

    Step t of `num_steps` is to forecast row t + `WINDOW` of `values` from the `WINDOW` rows before it.
    """

    values: Tensor
    edge_index: Tensor
    pos: Tensor

    @property
    def num_steps(self) -> int:
        """How many rows can be forecast."""
        return len(self.values) - WINDOW

    def step(self, step: int) -> Data:
        """Return the graph at one step: `x` [N, 5], oldest value first, and the next values `y` [N, 1]."""
        if not 0 <= step < self.num_steps:
            raise InputError(f"step is {step}; it must be from 0 to {self.num_steps - 1}")
        x, y = self.windows(range(step, step + 1))
        return Data(x=x[0], edge_index=self.edge_index, y=y[0], pos=self.pos)

    def windows(self, steps: range) -> tuple[Tensor, Tensor]:
        """Return the windows [S, N, 5] and next values [S, N, 1] of a run of steps."""
        rows = self.values[steps.start : steps.stop + WINDOW]
        return rows.unfold(0, WINDOW, 1)[:-1].contiguous(), rows[WINDOW:].unsqueeze(-1)

    def splits(self) -> tuple[range, range, range]:
        """Return the steps to train on (the first 70 %), to choose weights by (15 %) and to test with (the last)."""
        first, second = round(0.7 * self.num_steps), round(0.85 * self.num_steps)
        return range(first), range(first, second), range(second, self.num_steps)

    def causes(self, node: int) -> Tensor:
        """Return [E], True for the edges that act on the next value of `node`: those that end there."""
        return self.edge_index[1] == node


def advection(num_nodes: int = 60, num_steps: int = 1000, seed: int = 0) -> Advection:
    """Record the process `expected`, plus Gaussian noise of standard deviation `NOISE` at each node and step.

    The nodes lie at random in the unit square. An edge goes from each to all within `RADIUS` that lie downwind, at
    larger first coordinate; so there is no cycle, and no weight makes the process grow without bound.

    The same seed gives the same tensors, and no global random state is read or changed.

    Example:
        >>> process = advection(num_steps=10)
        >>> process.step(0).x.shape, process.step(9).y.shape
        (torch.Size([60, 5]), torch.Size([60, 1]))
    """
    for name, value, least in (("num_nodes", num_nodes, 1), ("num_steps", num_steps, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} is {value}; it must be {least} or more")
    generator = torch.Generator().manual_seed(seed)
    pos = torch.rand(num_nodes, 2, generator=generator, dtype=torch.float64)
    near = (pos[:, None] - pos).norm(dim=-1) < RADIUS
    edge_index = (near & (pos[:, None, 0] < pos[:, 0])).nonzero().t().contiguous()

    total = WARM_UP + num_steps + WINDOW
    values = NOISE * torch.randn(total, num_nodes, generator=generator, dtype=torch.float64)
    for row in range(WINDOW, total):
        values[row] += expected(values[row - WINDOW : row].t(), edge_index).view(-1)
    return Advection(values[WARM_UP:].float(), edge_index, pos.float())
