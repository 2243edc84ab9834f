"""A matrix of repeated rows is the matrix written out, whatever is done with it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from graphfaith.model.repeated import RepeatedRows
from graphfaith.model.whole import are_close, is_close

ROWS = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
INDEX = torch.tensor([3, 0, 0, 2, 3, 1, 0])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [1, 2, 0, 4, 3, 6, 5]])


def both():
    return RepeatedRows.of(ROWS, INDEX), ROWS[INDEX]


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_multiplies_distinct_rows(bias):
    x, right = both()
    layer = nn.Linear(6, 3, bias=bias).double()
    with torch.no_grad():
        torch.testing.assert_close(layer(x), layer(right))
    assert x.written is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.GCN(6, 5, 2, 3),
        lambda: pyg.GAT(6, 5, 2, 3),
        lambda: pyg.GraphSAGE(6, 5, 2, 3),
        lambda: pyg.GIN(6, 5, 2, 3),
        lambda: pyg.MixHopConv(6, 5),
    ],
)
def test_models(make):
    model, (x, right) = make().double().eval(), both()
    with torch.no_grad():
        torch.testing.assert_close(model(x, EDGES), model(right, EDGES))


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.sum(dim=1),
        lambda x: x[:, 1:3] @ ROWS[:2, :2],
        lambda x: x.T @ x,
        lambda x: x @ x.T,
        lambda x: torch.addmm(torch.ones(7, 4, dtype=x.dtype), x, ROWS.T),
        lambda x: torch.addmm(torch.ones(4, dtype=x.dtype), x, ROWS.T, beta=2, alpha=3),
        lambda x: torch.cat([x, x]),
        lambda x: x.mul_(2) @ ROWS.T,
        lambda x: (x[:, 0].fill_(7), x @ ROWS.T)[1],
        lambda x: (x.zero_(), x + 1)[1],
        lambda x: torch.tensor([x.size(0), x.dim()]),
        lambda x: torch.jit.trace(nn.Linear(6, 2).double().requires_grad_(False), ROWS)(x).shape.numel() + x * 0,
    ],
)
def test_anything_else(use):
    with torch.no_grad():
        found, right = (use(x) for x in both())
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, right)
    torch.testing.assert_close(ROWS[INDEX], both()[1])  # Writes do not reach the rows.


def test_memory_is_not_read_past_it():
    with pytest.raises((RuntimeError, TypeError)):
        both()[0].numpy()


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 2)])
def test_rows_that_are_close(shape):
    expected = torch.randn(shape, dtype=torch.float64)
    output = expected.clone()
    output[1] += 1e-3
    output[2] += 1e-10
    output[3] = expected[3] = float("nan")
    output[4] = float("nan")
    right = [is_close(a, b, 1.0) for a, b in zip(output, expected, strict=True)]
    assert are_close(output, expected, 1.0).tolist() == right == [True, False, True, True, False]
    assert not are_close(output[..., None], expected, 1.0).any()
