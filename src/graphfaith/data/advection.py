"""A process of signals that drift downwind over a field of sensors, with known causes, signs and delays."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.errors import InputError

WINDOW = 5
# The weights of the values in a window, oldest value first. With OWN alone, a sensor oscillates with a period of about
# 7 steps and decays. From its upwind neighbours it receives the value before the newest one with weight 0.5, and the
# value two steps before that one with weight -0.25.
OWN = (0.0, 0.0, 0.0, -0.5, 0.9)
UPWIND = (0.0, -0.25, 0.0, 0.5, 0.0)
GAIN = 0.5
NOISE = 0.1
RADIUS = 0.2
WARM_UP = 100  # number of first steps that are discarded, after which the start from zero has no influence any more


def expected(x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    r"""Return the expectation of the next value of every node, given the windows, [N, 1]: the process without noise.

    It is :math:`\sum_k a_k x_{ik} + g \tanh(\sum_{j \to i} A_{ij} \sum_k b_k x_{jk})` with a = `OWN`, b = `UPWIND`
    and g = `GAIN`; without `edge_weight` all entries of A are 1. The causes of node i are its own window and the
    windows of the nodes with an edge into i. The influence of an edge j -> i has the sign of its message
    :math:`\sum_k b_k x_{jk}`.

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
    """A recording of the process, `values` [T, N], and the graph on which it was simulated.

    The task of step t, of `num_steps` steps, is to forecast row t + `WINDOW` of `values` from the `WINDOW` rows before.
    """

    values: Tensor
    edge_index: Tensor
    pos: Tensor

    @property
    def num_steps(self) -> int:
        """The number of rows that can be forecast."""
        return len(self.values) - WINDOW

    def step(self, step: int) -> Data:
        """Return the graph at one step: `x` [N, 5], oldest value first, and the next values `y` [N, 1]."""
        if not 0 <= step < self.num_steps:
            raise InputError(f"step is {step}; it must be from 0 to {self.num_steps - 1}")
        x, y = self.windows(range(step, step + 1))
        return Data(x=x[0], edge_index=self.edge_index, y=y[0], pos=self.pos)

    def windows(self, steps: range) -> tuple[Tensor, Tensor]:
        """Return the windows [S, N, 5] and the next values [S, N, 1] of consecutive steps."""
        rows = self.values[steps.start : steps.stop + WINDOW]
        return rows.unfold(0, WINDOW, 1)[:-1].contiguous(), rows[WINDOW:].unsqueeze(-1)

    def splits(self) -> tuple[range, range, range]:
        """Return the steps for training (the first 70 %), for validation (the next 15 %) and for testing (the last)."""
        first, second = round(0.7 * self.num_steps), round(0.85 * self.num_steps)
        return range(first), range(first, second), range(second, self.num_steps)

    def causes(self, node: int) -> Tensor:
        """Return a mask [E] of the edges that influence the next value of `node`: the edges into it."""
        return self.edge_index[1] == node


def advection(num_nodes: int = 60, num_steps: int = 1000, seed: int = 0) -> Advection:
    """Simulate the process: `expected` plus Gaussian noise of standard deviation `NOISE` at each node and step.

    The nodes lie at random positions in the unit square. Each node has edges to all nodes within `RADIUS` that lie
    downwind, which means at a larger first coordinate. So the graph has no cycle, and the process stays bounded
    whatever the edge weights are.

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
