"""What the training of every task has in common: the seed, the descent, and which weights are kept."""

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
    """Draw from `seed` inside, and leave the random state of torch's CPU generator and of Python as it was.

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
        # Not torch.manual_seed: it would also seed the other devices, which are not restored.
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
    """Train with Adam, one step for each of `losses()` an epoch; keep the weights with the lowest `validate()`.

    `validate` is called in evaluation mode and without gradients, in which mode the model ends.
    """
    if epochs < 1:
        raise InputError(f"epochs is {epochs}; it must be 1 or more")
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best = float("inf")
    kept = model.state_dict()
    for _ in range(epochs):
        model.train()
        for loss in losses():
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            found = validate().item()
        if found < best:
            best = found
            kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)
