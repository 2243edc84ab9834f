"""A model of the paper at several moments of its training."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

from torch import nn
from torch_geometric.data import Data

from graphfaith.data import load_dataset
from graphfaith.data.models import accuracy_on_test, schedule_for, train, training_view, untrained


@dataclass(frozen=True)
class Checkpoint:
    """The model as an epoch of its training left it (0: as it started), in evaluation mode."""

    epoch: int
    model: nn.Module
    data: Data
    test_accuracy: float


@cache
def checkpoints(dataset: str, epochs: tuple[int, ...], seed: int = 0) -> dict[int, Checkpoint]:
    """By epoch, the model of a data set in the one training of that seed, which goes no further than the last of them.

    What :func:`~graphfaith.data.models.trained` keeps is the epoch of the lowest validation loss; these are the weights
    of the epochs themselves. They are made once in a process: a training takes seconds.
    """
    data, found = load_dataset(dataset), {}

    def keep(epoch: int, model: nn.Module) -> None:
        if epoch in epochs:
            kept = copy.deepcopy(model).eval()
            kept.zero_grad(set_to_none=True)
            found[epoch] = Checkpoint(epoch, kept, data, accuracy_on_test(kept, data))

    model = untrained(dataset, data, seed)
    keep(0, model)
    if max(epochs) > 0:
        schedule = schedule_for(dataset)._replace(epochs=max(epochs))
        train(model, training_view(dataset, data), **schedule._asdict(), seed=seed, each=keep)
    return found
