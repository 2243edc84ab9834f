"""A model of the paper at several epochs of its training."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

from torch import nn
from torch_geometric.data import Data

from graphfaith.data import load_dataset
from graphfaith.data.models import accuracy_on_test, make_untrained, schedule_for, train, training_view


@dataclass(frozen=True)
class Checkpoint:
    """The model after an epoch of its training, in evaluation mode; epoch 0 is the untrained model."""

    epoch: int
    model: nn.Module
    data: Data
    test_accuracy: float


@cache
def make_checkpoints(dataset: str, epochs: tuple[int, ...], seed: int = 0) -> dict[int, Checkpoint]:
    """Train the model of a data set once with a seed, and return copies of it at the given epochs.

    :func:`~graphfaith.data.models.load_trained` returns the epoch of the lowest validation loss; here the weights are
    those of each epoch itself. The training stops at the last of the epochs. The result is cached in the process,
    because a training takes seconds.
    """
    data, checkpoints = load_dataset(dataset), {}

    def keep(epoch: int, model: nn.Module) -> None:
        if epoch in epochs:
            snapshot = copy.deepcopy(model).eval()
            snapshot.zero_grad(set_to_none=True)
            checkpoints[epoch] = Checkpoint(epoch, snapshot, data, accuracy_on_test(snapshot, data))

    model = make_untrained(dataset, data, seed)
    keep(0, model)
    if max(epochs) > 0:
        schedule = schedule_for(dataset)._replace(epochs=max(epochs))
        train(model, training_view(dataset, data), **schedule._asdict(), seed=seed, each=keep)
    return checkpoints
