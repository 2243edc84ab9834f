"""What each sensor will show next: regression at the nodes, trained on a process whose causes are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from graphfaith._base.errors import InputError
from graphfaith.data.advection import WINDOW, Advection, advection

from .training import descend, seeded

BATCH_SIZE = 50


class Forecaster(nn.Module):
    """Two graph convolutions with tanh; they and the window itself, side by side, go through one linear layer.

    A convolution is W1 x_i + W2 sum_j A_ij x_j. The second reaches two hops, one further than any cause in
    `advection`: an explanation should give nothing to the edges there.

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> Forecaster()(torch.ones(2, 5), edge_index).shape
        torch.Size([2, 1])
    """

    def __init__(self, window: int = WINDOW, hidden_channels: int = 32) -> None:
        super().__init__()
        self.conv1 = GraphConv(window, hidden_channels)
        self.conv2 = GraphConv(hidden_channels, hidden_channels)
        self.readout = nn.Linear(window + 2 * hidden_channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the next values [N, 1] after windows `x` [N, 5]; of many steps on one graph if both begin with S."""
        h1 = self.conv1(x, edge_index, edge_weight).tanh()
        h2 = self.conv2(h1, edge_index, edge_weight).tanh()
        forecast: Tensor = self.readout(torch.cat([x, h1, h2], dim=-1))
        return forecast


@dataclass(frozen=True)
class TrainedForecaster:
    """A trained forecaster in evaluation mode, with the recording it was trained and tested on.

    The errors are mean squares over all nodes and the test steps; persistence forecasts that nothing changes.
    """

    model: Forecaster
    process: Advection
    test_error: float
    persistence_error: float
    seed: int


def trained_forecaster(process: Advection | None = None, *, epochs: int = 40, seed: int = 0) -> TrainedForecaster:
    """Train a forecaster on the first 70 % of the steps of `process`, by default `advection()`.

    Kept are the weights of the epoch with the lowest error on the next 15 %; the last 15 % are the test. `seed`
    decides the initial weights and the order of the steps. The global random state is as before afterwards.
    """
    process = advection() if process is None else process
    parts = process.splits()
    if not all(parts):
        raise InputError(f"{process.num_steps} steps are too few to train, choose and test with: give 10 or more")
    (x, y), val, (test_x, test_y) = map(process.windows, parts)
    with seeded(seed):
        model = Forecaster()

        def error(x: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(model(x, process.edge_index), y)

        def losses() -> Iterator[Tensor]:
            for steps in torch.randperm(len(x)).split(BATCH_SIZE):  # type: ignore[no-untyped-call]
                yield error(x[steps], y[steps])

        descend(model, losses, lambda: error(*val), epochs=epochs)
        with torch.no_grad():
            test_error = error(test_x, test_y).item()
    persistence_error = F.mse_loss(test_x[..., -1:], test_y).item()
    return TrainedForecaster(model, process, test_error, persistence_error, seed)
