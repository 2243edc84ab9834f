"""Graph convolutions as products with a matrix, for many graphs at once.

PyG's layers gather, multiply and scatter a number for every sample, edge and unit. The matrix N(A) = D^-1/2 A D^-1/2 is
the same for every layer. On a computation graph of a few dozen nodes it is small, and one batched product with it is
several times faster than PyG's messages. On a larger graph, the matrices of all samples are combined into one sparse
matrix. Both ways give PyG's numbers up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch_geometric.nn import GCNConv, Linear, SumAggregation

from .._base import core
from ..graph.graph import Int64
from .record import modules_that

_IN_CORE = (torch.float32, torch.float64)  # the precisions that the compiled core computes in
LARGEST = 128  # nodes; on larger graphs sparse products are faster than dense ones

Multiply = Callable[[Tensor, Any], Tensor]  # from (X, the layer's W as a module) to N(A) X W


def convolutions(model: torch.nn.Module) -> list[Any]:
    """Return the layers of ``model`` that are products with N(A), provided that A has all self-loops."""
    return modules_that(model, _is_plain)


_SPARSE = 8  # times as long as in a dense product takes a multiplication in a sparse one
_HOOKS = tuple(name for name in vars(GCNConv(1, 1)) if name.endswith("hooks"))


def _is_plain(layer: Any) -> bool:
    """Return whether a layer is an unmodified GCNConv of PyG, a sum over neighbours of a linear map without hooks."""
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

    ``near`` has the number of nodes within 0, 1, ..., M hops of the explained nodes. The nodes must be sorted by that
    distance; if they are not, ``near`` is None. With ``near``, products can be *trimmed*: the last of M layers is
    computed for the explained nodes only, the layer before it for the nodes within one hop, and so on.
    """

    def __init__(self, layers: list[Any], edge_index: Tensor, num_nodes: int, near: list[int] | None) -> None:
        self.layers, self.edge_index, self.num_nodes = layers, edge_index, num_nodes
        self._ends = edge_index.numpy()
        self.near = near if near is not None and len(near) == len(layers) + 1 else None
        self.dense = num_nodes <= LARGEST
        self.first_order = False  # whether to use the derivative in closed form, which cannot be differentiated again
        self._kept: tuple[tuple[Any, ...], Tensor] | None = None  # X W, and which X and W these were
        self._holds: tuple[Tensor, ...] = ()

    def matrix(self, weight: Tensor) -> Tensor:
        """Return N(A) = D^-1/2 A D^-1/2 with D = diag(A 1), [n, n] or [S, n, n], for the entries [e] or [S, e] of A."""
        return self._matrix(weight, self.num_nodes, self.num_nodes)

    def alone(self, weight: Tensor, matrix: Tensor) -> Any:
        """Return a context in which the layers multiply by ``matrix``, the dense N(A) of ``weight`` [e]."""
        return self._replace_forward(weight, lambda x, w: _multiply_dense(matrix, x, w))

    def batch(self, weight: Tensor, *, trimmed: bool) -> Any:
        """Return a context in which one call computes S graphs with entries [S, e] of A, or with features [S, n, d]."""
        if not self.dense:
            return self._replace_forward(weight, self._sparse(weight, trimmed))
        if not trimmed:
            return self.alone(weight, self.matrix(weight))
        assert self.near is not None
        *_, rows, columns = self.near
        matrix, left = self._matrix(weight, rows, columns), len(self.layers)

        def multiply(x: Tensor, w: Any) -> Tensor:
            nonlocal left
            assert self.near is not None
            rows, columns, left = self.near[left - 1], self.near[left], left - 1
            return _multiply_dense(matrix[..., :rows, :columns], x[..., :columns, :], w)

        return self._replace_forward(weight, multiply)

    @cached_property
    def _by_sink(self) -> tuple[Int64, Int64, Int64]:
        """Sources and sinks of the entries sorted by their sink, and that order, [e]."""
        order = np.argsort(self._ends[1], kind="stable")
        return self._ends[0][order], self._ends[1][order], order

    def _entries(self, weight: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the entries of N(A), [e, S], laid out so that the values of one entry are contiguous.

        ``chosen`` are places of entries, if not all are asked for.
        """
        values = weight.unsqueeze(1) if weight.dim() == 1 else weight.T.contiguous()
        if self.first_order and values.requires_grad and torch.is_grad_enabled():
            entries: Tensor = _Normalise.apply(values, self.edge_index, self.num_nodes)  # type: ignore[no-untyped-call]
            return entries if chosen is None else entries.index_select(0, chosen)
        return _normalise(values, self.edge_index, self.num_nodes, chosen)[0]

    def _matrix(self, weight: Tensor, rows: int, columns: int) -> Tensor:
        """Return the first ``rows`` rows and ``columns`` columns of N(A)."""
        if weight.dtype in _IN_CORE and (self.first_order or not torch.is_grad_enabled()):
            several, where = weight if weight.dim() == 2 else weight.unsqueeze(0), (self._ends, self.num_nodes)
            matrices: Tensor
            if torch.is_grad_enabled() and weight.requires_grad:
                matrices = _Matrices.apply(several, *where, rows, columns)  # type: ignore[no-untyped-call]
            else:
                matrices = _normalised_matrices(several, *where, rows, columns)[0]
            return matrices if weight.dim() == 2 else matrices[0]
        source, sink = self.edge_index
        entries = self._entries(weight)
        if rows < self.num_nodes:
            inner = (sink < rows).nonzero().view(-1)
            source, sink, entries = source[inner], sink[inner], entries.index_select(0, inner)
        flat = entries.new_zeros(rows * columns, entries.size(1)).index_add_(0, sink * columns + source, entries)
        return flat.view(rows, columns) if weight.dim() == 1 else flat.T.contiguous().view(-1, rows, columns)

    def _sparse(self, weight: Tensor, trimmed: bool) -> Multiply:
        """Return a function from (X, W) to N(A) X W that uses one sparse matrix for all samples.

        If every sample has its own X, the matrices N(A) are the blocks of a block-diagonal matrix. If the samples share
        X, the matrices are stacked vertically.
        """
        source, sink, order = self._by_sink
        if trimmed:  # No layer computes more nodes than the first. Entries further away count in degrees alone.
            assert self.near is not None
            order = order[: int(np.searchsorted(sink, self.near[-2]))]
        entries = self._entries(weight, torch.from_numpy(order)).T.contiguous()  # [S, e]
        left = len(self.layers)

        def multiply(x: Tensor, w: Any) -> Tensor:
            nonlocal left
            rows = columns = self.num_nodes
            if trimmed:
                assert self.near is not None
                rows, columns, left = self.near[left - 1], self.near[left], left - 1
            x, taken = x[..., :columns, :], int(np.searchsorted(sink, rows))
            starts, ends = np.searchsorted(sink, np.arange(rows + 1)), source[:taken]
            if weight.dim() == 1:  # All samples share A, so their features are columns of one matrix.
                h = w(x)
                pattern = _Pattern(starts, ends, rows, columns, diagonal=False)
                product = pattern.by(entries[:, :taken], h.transpose(0, -2).reshape(columns, -1))
                return product.view(rows, *h.shape[:-2], h.size(-1)).transpose(0, -2)
            pattern = _Pattern(starts, ends, rows, columns, diagonal=x.dim() == 3)
            # If N(A) has few rows, N(A) X is smaller than X, and W is applied to fewer rows. But a sparse product takes
            # several times as long for a multiplication, and its derivative with respect to an entry of A is a sum over
            # all columns, of which X usually has more than X W.
            saved = (columns - rows) * w.out_channels
            first = x.dim() == 3 and _SPARSE * taken < saved and not (torch.is_grad_enabled() and entries.requires_grad)
            h = x if first else self._apply(w, x)
            product = pattern.by(entries[:, :taken], h.reshape(-1, h.size(-1)))
            product = product.view(len(entries), rows, h.size(-1))
            return w(product) if first else product

        return multiply

    def _apply(self, w: Any, x: Tensor) -> Tensor:
        """Return X W, which is kept for the next call: chunk after chunk of samples has the same X in the first layer.

        What is kept holds X and W, so that no other tensor can take their places in memory.
        """
        held = x, w.weight
        if x.dim() != 2 or torch.is_grad_enabled() or w.bias is not None:
            return cast(Tensor, w(x))
        if any(type(one) not in (Tensor, torch.nn.Parameter) or one.is_inference() for one in held):
            return cast(Tensor, w(x))  # Such tensors do not say whether they were changed in place.
        kept, key = self._kept, tuple((one.data_ptr(), one.shape, one.stride(), one._version) for one in held)
        if kept is not None and kept[0] == key:
            return kept[1]
        self._kept, self._holds = (key, w(x)), held
        return self._kept[1]

    @contextmanager
    def _replace_forward(self, weight: Tensor, multiply: Multiply) -> Iterator[None]:
        """Let the layers compute N(A) X W + b by ``multiply`` if they are called with these edges and weights.

        With other edges or weights, the layers compute as usual.
        """

        def forward_of(layer: Any) -> Any:
            usual = layer.forward

            def forward(x: Tensor, edges: Tensor, edge_weight: Tensor | None = None) -> Tensor:
                if edges is not self.edge_index or edge_weight is not weight:
                    messages: Tensor = usual(x, edges, edge_weight)
                    return messages
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


def _multiply_dense(matrix: Tensor, x: Tensor, w: Any) -> Tensor:
    """Return N(A) X W, where N(A) is the dense ``matrix``."""
    if x.dim() == 3 and matrix.size(-2) < matrix.size(-1):  # N(A) X has fewer rows than X, so W is applied last.
        product: Tensor = w(matrix @ x)
    else:
        product = matrix @ w(x)
    return product


def _normalise(
    values: Tensor, edge_index: Tensor, num_nodes: int, chosen: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the entries of N(A), [e, S], for those of A, and D^-1/2, [n, S], which is 0 for a node without weight.

    ``chosen`` are places of entries, if not all are asked for.
    """
    source, sink = edge_index
    degree = values.new_zeros(num_nodes, values.size(1)).index_add_(0, sink, values)
    scale = torch.where(degree > 0, degree, math.inf).rsqrt_()
    if chosen is not None:
        source, sink, values = source[chosen], sink[chosen], values.index_select(0, chosen)
    return values * scale.index_select(0, sink) * scale.index_select(0, source), scale


def _normalised_matrices(
    weight: Tensor, ends: Int64, num_nodes: int, rows: int, columns: int
) -> tuple[Tensor, np.ndarray]:
    """Return the first rows and columns of N(A), [S, rows, columns], for entries [S, e] of A, and these, [e, S]."""
    values = weight.detach().T.contiguous().numpy()
    matrices = np.empty((len(weight), rows, columns), dtype=values.dtype)
    core.normalised_matrices(values, *ends, num_nodes, matrices)
    return torch.from_numpy(matrices), values


class _Matrices(torch.autograd.Function):
    """The first rows and columns of N(A), [S, rows, columns], for entries [S, e] of A, by the compiled core."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ends: Int64, num_nodes: int, rows: int, columns: int) -> Tensor:
        matrices, values = _normalised_matrices(weight, ends, num_nodes, rows, columns)
        ctx.given = values, ends, num_nodes
        return matrices

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Return the derivative for A."""
        values, ends, num_nodes = ctx.given
        gradient = np.empty_like(values)
        core.slopes_of_entries(values, *ends, num_nodes, slopes[0].contiguous().numpy(), gradient)
        return torch.from_numpy(gradient).T, None, None, None, None


class _Normalise(torch.autograd.Function):
    """The entries of N(A) with a derivative in closed form, which is several times faster than autograd's."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        entries, scale = _normalise(values, edge_index, num_nodes)
        ctx.save_for_backward(entries, scale, edge_index)
        return entries

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        """Return the derivative for A of N_uv = A_uv s_u s_v, where s = D^-1/2 has the derivative -s^3 / 2 for D."""
        entries, scale, (source, sink) = ctx.saved_tensors
        (slope,) = slopes
        parts = slope * entries
        total = torch.zeros_like(scale).index_add_(0, sink, parts).index_add_(0, source, parts)
        total.mul_(scale).mul_(scale).mul_(-0.5)
        gradient = (slope * scale.index_select(0, source)).mul_(scale.index_select(0, sink))
        return gradient.add_(total.index_select(0, sink)), None, None


class _Pattern:
    """The sparsity pattern that S matrices [rows, columns] share, combined into one sparse matrix.

    The S matrices are the blocks of a block-diagonal matrix, or they are stacked vertically.
    """

    def __init__(self, starts: Int64, ends: Int64, rows: int, columns: int, *, diagonal: bool) -> None:
        self.starts, self.ends, self.rows, self.columns, self.diagonal = starts, ends, rows, columns, diagonal

    def matrix(self, entries: Tensor) -> Any:
        """Return the combined matrix with entries [S, e]."""
        samples = np.arange(len(entries), dtype=np.int32)[:, None]
        begins = np.append(np.int32(0), (samples * len(self.ends) + self.starts[None, 1:]).astype(np.int32))
        places = samples * (self.columns if self.diagonal else 0) + self.ends.astype(np.int32)[None]
        width = self.columns * len(entries) if self.diagonal else self.columns
        size = (self.rows * len(entries), width)
        return scipy.sparse.csr_array((entries.detach().reshape(-1).numpy(), places.reshape(-1), begins), shape=size)

    def by(self, entries: Tensor, h: Tensor) -> Tensor:
        """Return the product of the combined matrix with ``h``."""
        if torch.is_grad_enabled() and (entries.requires_grad or h.requires_grad):
            product: Tensor = _Product.apply(entries, h, self)  # type: ignore[no-untyped-call]
            return product
        return torch.from_numpy(self.matrix(entries) @ h.detach().numpy()).to(h.dtype)


class _Product(torch.autograd.Function):
    """The product of the combined sparse matrix with H, and its derivatives."""

    @staticmethod
    def forward(ctx: Any, entries: Tensor, h: Tensor, pattern: _Pattern) -> Tensor:
        ctx.matrix, ctx.pattern = pattern.matrix(entries), pattern
        ctx.save_for_backward(entries, h)
        return torch.from_numpy(ctx.matrix @ h.detach().numpy()).to(h.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the derivatives for the entries and for H, given the slope, the derivative for the product.

        For the entry from u to v it is the inner product of row v of the slope and row u of H. For H it is the product
        of the transposed matrix with the slope.
        """
        entries, h = ctx.saved_tensors
        slope, pattern = slopes[0].contiguous(), ctx.pattern
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
