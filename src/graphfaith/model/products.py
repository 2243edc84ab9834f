"""Graph convolutions as products with a matrix, for many graphs at once.

PyG's layers gather, multiply and scatter a number for every sample, edge and unit. The matrix N(A) = D^-1/2 A D^-1/2 is
the same for every layer. On a computation graph of a few dozen nodes it is small, and one batched product with it is
several times faster than PyG's messages. On a larger graph the matrices of all samples form one sparse matrix. Both
give PyG's numbers up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GCNConv, Linear, SumAggregation

from ..graph.graph import Int64

LARGEST = 128  # nodes; beyond it a dense matrix has more zeros than a sparse one has detours

Multiply = Callable[[Tensor, Any], Tensor]  # from (X, the layer's W as a module) to N(A) X W


def convolutions(model: torch.nn.Module) -> list[Any]:
    """The layers of ``model`` that are products with N(A) if all self-loops are given."""
    return [layer for layer in model.modules() if _is_plain(layer)]


_HOOKS = tuple(name for name in vars(GCNConv(1, 1)) if name.endswith("hooks"))


def _is_plain(layer: Any) -> bool:
    """Whether a layer is PyG's own GCNConv, a sum over neighbours of a linear map, and nothing listens to either."""
    return (
        type(layer) is GCNConv
        and bool(layer.normalize and layer.add_self_loops and not layer.cached)
        and layer.explain is not True
        and layer.flow == "source_to_target"
        and layer.aggr == "add"
        and type(layer.aggr_module) is SumAggregation
        and type(layer.lin) is Linear
        and not any(map(vars(layer).get, _HOOKS))
        and not any(map(vars(layer.lin).get, _HOOKS))
        and "forward" not in vars(layer)
        and "forward" not in vars(layer.lin)
    )


class Products:
    """The convolutions ``layers`` of a model on one graph, as products with N(A) = D^-1/2 A D^-1/2.

    ``near`` has how many nodes there are within 0, 1, ..., M hops of the explained ones, which come first; None if
    nodes have no such order. With it products can be *trimmed*: the last of M layers is asked for the explained nodes
    alone, the one before for nodes one hop away, and so on.
    """

    def __init__(self, layers: list[Any], edge_index: Tensor, num_nodes: int, near: list[int] | None) -> None:
        self.layers, self.edge_index, self.num_nodes = layers, edge_index, num_nodes
        self.near = near if near is not None and len(near) == len(layers) + 1 else None
        self.dense = num_nodes <= LARGEST
        self.first_order = False  # whether derivatives may be those in closed form, which cannot be derived again

    def matrix(self, weight: Tensor) -> Tensor:
        """N(A) for A's entries [e] or [S, e], with D = diag(A 1): [n, n] or [S, n, n]."""
        return self._matrix(weight, self.num_nodes, self.num_nodes)

    def alone(self, weight: Tensor, matrix: Tensor) -> Any:
        """Let the layers multiply by ``matrix``, the dense N(A) of ``weight`` [e]."""
        return self._instead(weight, lambda x, w: _times(matrix, x, w))

    def batch(self, weight: Tensor, *, trimmed: bool) -> Any:
        """Let the layers compute on graphs with entries [S, e], or with features [S, n, d], in one call."""
        if not self.dense:
            return self._instead(weight, self._sparse(weight, trimmed))
        if not trimmed:
            return self.alone(weight, self.matrix(weight))
        assert self.near is not None
        *_, rows, columns = self.near
        matrix, left = self._matrix(weight, rows, columns), len(self.layers)

        def multiply(x: Tensor, w: Any) -> Tensor:
            nonlocal left
            assert self.near is not None
            rows, columns, left = self.near[left - 1], self.near[left], left - 1
            return _times(matrix[..., :rows, :columns], x[..., :columns, :], w)

        return self._instead(weight, multiply)

    def _entries(self, weight: Tensor) -> Tensor:
        """The entries of N(A), [e, S]; rows of entries make gathers contiguous."""
        values = weight.unsqueeze(1) if weight.dim() == 1 else weight.T.contiguous()
        if self.first_order and values.requires_grad and torch.is_grad_enabled():
            found: Tensor = _Normalised.apply(values, self.edge_index, self.num_nodes)  # type: ignore[no-untyped-call]
            return found
        return _normalised(values, self.edge_index, self.num_nodes)[0]

    def _matrix(self, weight: Tensor, rows: int, columns: int) -> Tensor:
        """The first rows and columns of N(A)."""
        source, sink = self.edge_index
        entries = self._entries(weight)
        if rows < self.num_nodes:
            inner = (sink < rows).nonzero().view(-1)
            source, sink, entries = source[inner], sink[inner], entries.index_select(0, inner)
        flat = entries.new_zeros(rows * columns, entries.size(1)).index_add_(0, sink * columns + source, entries)
        return flat.view(rows, columns) if weight.dim() == 1 else flat.T.contiguous().view(-1, rows, columns)

    def _sparse(self, weight: Tensor, trimmed: bool) -> Multiply:
        """The same with a sparse matrix of all samples' entries: side by side in a diagonal, or in a column."""
        source, sink = self.edge_index.numpy()
        order = np.argsort(sink, kind="stable")
        source, sink = source[order], sink[order]
        entries = self._entries(weight).index_select(0, torch.from_numpy(order)).T.contiguous()  # [S, e]
        left = len(self.layers)

        def multiply(x: Tensor, w: Any) -> Tensor:
            nonlocal left
            rows = columns = self.num_nodes
            if trimmed:
                assert self.near is not None
                rows, columns, left = self.near[left - 1], self.near[left], left - 1
            x, taken = x[..., :columns, :], int(np.searchsorted(sink, rows))
            starts, ends = np.searchsorted(sink, np.arange(rows + 1)), source[:taken]
            if weight.dim() == 1:  # one A for all samples: their features stand side by side
                h = w(x)
                pattern = _Pattern(starts, ends, rows, columns, diagonal=False)
                found = pattern.by(entries[:, :taken], h.transpose(0, -2).reshape(columns, -1))
                return found.view(rows, *h.shape[:-2], h.size(-1)).transpose(0, -2)
            pattern = _Pattern(starts, ends, rows, columns, diagonal=x.dim() == 3)
            # Few rows: the product makes X smaller. Its derivative, though, is one of all columns for every entry.
            first = x.dim() == 3 and rows < columns and not (torch.is_grad_enabled() and entries.requires_grad)
            h = x if first else w(x)
            found = pattern.by(entries[:, :taken], h.reshape(-1, h.size(-1))).view(len(entries), rows, h.size(-1))
            return w(found) if first else found

        return multiply

    @contextmanager
    def _instead(self, weight: Tensor, multiply: Multiply) -> Iterator[None]:
        """Let the layers compute N(A) X W + b by ``multiply``, when they are given these edges and weights.

        With other edges or weights a layer does as it always does.
        """

        def forward_of(layer: Any) -> Any:
            usual = layer.forward

            def forward(x: Tensor, edges: Tensor, edge_weight: Tensor | None = None) -> Tensor:
                if edges is not self.edge_index or edge_weight is not weight:
                    found: Tensor = usual(x, edges, edge_weight)
                    return found
                out = multiply(x, layer.lin)
                return out if layer.bias is None else out + layer.bias

            return forward

        try:
            for layer in self.layers:
                vars(layer)["forward"] = forward_of(layer)
            yield
        finally:
            for layer in self.layers:
                vars(layer).pop("forward", None)


def _times(matrix: Tensor, x: Tensor, w: Any) -> Tensor:
    if x.dim() == 3 and matrix.size(-2) < matrix.size(-1):  # few rows: the product makes X smaller
        found: Tensor = w(matrix @ x)
    else:
        found = matrix @ w(x)
    return found


def _normalised(values: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The entries of N(A) for those of A, [e, S], and D^-1/2, [n, S], in which a node without weight has 0."""
    source, sink = edge_index
    degree = values.new_zeros(num_nodes, values.size(1)).index_add_(0, sink, values)
    scale = torch.where(degree > 0, degree, math.inf).rsqrt_()
    return values * scale.index_select(0, sink) * scale.index_select(0, source), scale


class _Normalised(torch.autograd.Function):
    """The same with its derivative in closed form, which is several times quicker than that of each step."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        entries, scale = _normalised(values, edge_index, num_nodes)
        ctx.save_for_backward(entries, scale, edge_index)
        return entries

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *found: Tensor) -> tuple[Tensor, None, None]:
        """N_uv = A_uv s_u s_v with s = D^-1/2, whose derivative for D is -s^3 / 2."""
        entries, scale, (source, sink) = ctx.saved_tensors
        (slope,) = found
        parts = slope * entries
        total = torch.zeros_like(scale).index_add_(0, sink, parts).index_add_(0, source, parts)
        total.mul_(scale).mul_(scale).mul_(-0.5)
        found_a = (slope * scale.index_select(0, source)).mul_(scale.index_select(0, sink))
        return found_a.add_(total.index_select(0, sink)), None, None


class _Pattern:
    """Where S sparse matrices [rows, columns] have entries: all in the same places.

    They stand in the diagonal of one matrix, or one under the other in a column.
    """

    def __init__(self, starts: Int64, ends: Int64, rows: int, columns: int, *, diagonal: bool) -> None:
        self.starts, self.ends, self.rows, self.columns, self.diagonal = starts, ends, rows, columns, diagonal

    def matrix(self, entries: Tensor) -> Any:
        """The matrix with entries [S, e]."""
        samples = np.arange(len(entries), dtype=np.int32)[:, None]
        begins = np.append(np.int32(0), (samples * len(self.ends) + self.starts[None, 1:]).astype(np.int32))
        places = samples * (self.columns if self.diagonal else 0) + self.ends.astype(np.int32)[None]
        width = self.columns * len(entries) if self.diagonal else self.columns
        size = (self.rows * len(entries), width)
        return scipy.sparse.csr_array((entries.detach().reshape(-1).numpy(), places.reshape(-1), begins), shape=size)

    def by(self, entries: Tensor, h: Tensor) -> Tensor:
        """The product of the matrix with ``h``."""
        if torch.is_grad_enabled() and (entries.requires_grad or h.requires_grad):
            found: Tensor = _Product.apply(entries, h, self)  # type: ignore[no-untyped-call]
            return found
        return torch.from_numpy(self.matrix(entries) @ h.detach().numpy()).to(h.dtype)


class _Product(torch.autograd.Function):
    """A product with S sparse matrices, and its derivatives."""

    @staticmethod
    def forward(ctx: Any, entries: Tensor, h: Tensor, pattern: _Pattern) -> Tensor:
        ctx.matrix, ctx.pattern = pattern.matrix(entries), pattern
        ctx.save_for_backward(entries, h)
        return torch.from_numpy(ctx.matrix @ h.detach().numpy()).to(h.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *found: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """For H the transposed matrix; for the entry from u to v the product of row v of the slope and row u of H."""
        entries, h = ctx.saved_tensors
        slope, pattern = found[0].contiguous(), ctx.pattern
        of_entries = of_h = None
        if ctx.needs_input_grad[0]:
            count = len(entries)
            rows = torch.from_numpy(np.repeat(np.arange(pattern.rows), np.diff(pattern.starts)))
            left = slope.view(count, pattern.rows, -1).index_select(1, rows)
            ends = torch.from_numpy(pattern.ends)
            right = h.view(count, pattern.columns, -1) if pattern.diagonal else h.unsqueeze(0)
            of_entries = (left * right.index_select(1, ends)).sum(dim=2)
        if ctx.needs_input_grad[1]:
            of_h = torch.from_numpy(ctx.matrix.T @ slope.numpy()).to(h.dtype)
        return of_entries, of_h, None
