"""A model whose output depends on more than its arguments is refused, with what it depends on."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from graphfaith._base.errors import ModelError
from graphfaith._base.randomness import seeded
from graphfaith.model.target import Target

RING = torch.stack([torch.arange(20), (torch.arange(20) + 1) % 20])


class Drawing(nn.Module):
    """A layer, and something that happens to its output."""

    def __init__(self, how):
        super().__init__()
        self.first, self.second, self.how = GCNConv(3, 16), GCNConv(16, 2), how
        self.kept = None

    def forward(self, x, edge_index, edge_weight=None):
        h = self.first(x, edge_index, edge_weight).tanh()
        return self.second(self.how(self, h), edge_index, edge_weight)


def keep_first(model, h):
    if model.kept is None:
        model.kept = h.detach().abs().mean()
    return h / model.kept


def keep_unused(model, h):
    model.kept = h
    return h


RANDOM = {
    "dropout": lambda _, h: nn.functional.dropout(h, 0.5),
    "rare dropout": lambda _, h: nn.functional.dropout(h, 0.001),
    "numpy": lambda _, h: h * float(np.random.rand() < 0.5),  # noqa: NPY002
    "python": lambda _, h: h * float(random.random() < 0.5),
}


def made(how):
    torch.manual_seed(0)
    return Drawing(how).eval()


@pytest.mark.parametrize("how", RANDOM)
def test_a_model_that_draws_random_numbers_is_refused(how):
    before = torch.get_rng_state()
    model, x = made(RANDOM[how]), torch.rand(20, 3)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"Drawing\.forward draws random numbers in eval mode"):
            Target(model, x, RING, 2)
    torch.set_rng_state(before)


def test_random_numbers_without_effect_are_no_hindrance():
    model, x = made(lambda model, h: h + torch.randn_like(h) * model.training), torch.rand(20, 3)
    assert Target(model, x, RING, 2, label=0).value == pytest.approx(float(model(x, RING)[2, 0].detach()), abs=1e-6)


def test_a_model_that_computes_with_what_it_kept_is_refused():
    with pytest.raises(ModelError, match=r"keeps kept from one call to the next .* depends on earlier calls"):
        Target(made(keep_first), torch.rand(20, 3), RING, 2)


def test_a_model_that_only_keeps_is_explained():
    model, x = made(keep_unused), torch.rand(20, 3)
    assert Target(model, x, RING, 2, label=0).value == pytest.approx(float(model(x, RING)[2, 0].detach()), abs=1e-6)


def test_what_was_kept_before_is_an_argument_like_any_other():
    model, x = made(keep_first), torch.rand(20, 3)
    expected = float(model(x, RING)[2, 0].detach())
    assert model.kept is not None
    assert Target(model, x, RING, 2, label=0).value == pytest.approx(expected, abs=1e-6)


def test_random_numbers_of_another_thread_are_not_drawn_twice():
    """A model is tried for random numbers, and the state put back, while another thread draws with its own seed."""

    def wait(model, h):
        time.sleep(0.003)
        return h

    with seeded(3):
        alone = [float(torch.rand(())) for _ in range(300)]
    model, x = Drawing(wait).eval(), torch.rand(20, 3)
    trying = threading.Thread(target=Target, args=(model, x, RING, 1))
    found = []
    with seeded(3):
        trying.start()
        for _ in alone:
            found.append(float(torch.rand(())))
            time.sleep(0.004)
    trying.join(60)
    assert not trying.is_alive()
    assert found == alone
