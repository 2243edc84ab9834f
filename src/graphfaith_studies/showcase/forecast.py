"""A forecaster of sensor readings: regression at the nodes, trained on a process whose causes are known."""

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
    """A network that forecasts the next reading of every node from a window of its last readings.

    It computes h1 = tanh(C1 x), h2 = tanh(C2 h1) and y = R [x, h1, h2], where R is linear and the convolution C is
    (C x)_i = W1 x_i + W2 sum_j A_ij x_j. The second convolution reaches two hops, but every cause in `advection` is
    one hop away. A good explanation therefore gives a score near zero to the edges at the second hop.

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
        """Return the next values [N, 1] after the windows `x` [N, 5].

        For S steps on the same graph give `x` as [S, N, 5]; the result is then [S, N, 1].
        """
        h1 = self.conv1(x, edge_index, edge_weight).tanh()
        h2 = self.conv2(h1, edge_index, edge_weight).tanh()
        forecast: Tensor = self.readout(torch.cat([x, h1, h2], dim=-1))
        return forecast


@dataclass(frozen=True)
class TrainedForecaster:
    """A trained forecaster in evaluation mode, with the process that it was trained and tested on.

    Both errors are mean square errors over all nodes and the test steps. The persistence error belongs to the
    forecast that nothing changes.
    """

    model: Forecaster
    process: Advection
    test_error: float
    persistence_error: float
    seed: int


def train_forecaster(process: Advection | None = None, *, epochs: int = 40, seed: int = 0) -> TrainedForecaster:
    """Train a forecaster on the first 70 % of the steps of `process`, by default `advection()`.

    The model gets the weights of the epoch with the lowest error on the next 15 % of the steps. The last 15 % give
    the test error. `seed` determines the initial weights and the order of the steps. The function leaves the global
    random state unchanged.
    """
    process = advection() if process is None else process
    parts = process.splits()
    if not all(parts):
        raise InputError(f"{process.num_steps} steps are too few for training, validation and test; give 10 or more")
    (x, y), val, (test_x, test_y) = map(process.windows, parts)
    with seeded(seed):
        model = Forecaster()

        def compute_error(x: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(model(x, process.edge_index), y)

        def losses() -> Iterator[Tensor]:
            for steps in torch.randperm(len(x)).split(BATCH_SIZE):  # type: ignore[no-untyped-call]
                yield compute_error(x[steps], y[steps])

        descend(model, losses, lambda: compute_error(*val), epochs=epochs)
        with torch.no_grad():
            test_error = compute_error(test_x, test_y).item()
    persistence_error = F.mse_loss(test_x[..., -1:], test_y).item()
    return TrainedForecaster(model, process, test_error, persistence_error, seed)
