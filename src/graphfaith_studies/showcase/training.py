"""The training loop that all tasks share: seeding, gradient descent, and the choice of the best weights."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from graphfaith._base.errors import InputError

MAX_GRADIENT_NORM = 2.0


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator and Python's generator inside the block, and restore their states afterwards.

    Example:
        >>> with seeded(3):
        ...     first = random.random(), torch.rand(1).item()
        >>> with seeded(3):
        ...     first == (random.random(), torch.rand(1).item())
        True
    """
    if not 0 <= seed < 2**63:
        raise InputError(f"seed is {seed}; it must be from 0 to 2**63 - 1")
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also seed the other devices, whose states are not restored.
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


def descend(
    model: nn.Module,
    losses: Callable[[], Iterable[Tensor]],
    validate: Callable[[], Tensor],
    *,
    epochs: int,
    lr: float = 0.01,
) -> None:
    """Train `model` with Adam, and load the weights of the epoch with the lowest `validate()`.

    Every epoch takes one optimiser step for each loss that `losses()` yields. `validate` runs in evaluation mode and
    without gradients. The model is in evaluation mode when the function returns.
    """
    if epochs < 1:
        raise InputError(f"epochs is {epochs}; it must be 1 or more")
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    lowest_loss = float("inf")
    best_weights = model.state_dict()
    for _ in range(epochs):
        model.train()
        for loss in losses():
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss_value = validate().item()
        if loss_value < lowest_loss:
            lowest_loss = loss_value
            best_weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(best_weights)
