"""Features of many computation graphs side by side, in which the same rows of X come again and again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

_MM, _ADDMM = torch.ops.aten.mm.default, torch.ops.aten.addmm.default


class RepeatedRows(torch.Tensor):
    """The matrix ``rows[index]``, which is only written out when something else than a product with it is asked for.

    A row of X W is a function of that row of X alone. The first layer of most models multiplies X with its weights, so
    that a node in a hundred computation graphs needs one product instead of a hundred. All operations, those of
    compiled code too, arrive at :meth:`__torch_dispatch__`; code that reads the memory itself raises an exception.

    >>> x = RepeatedRows.of(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0, 1]))
    >>> torch.nn.functional.linear(x, torch.tensor([[1.0, -1.0]])).tolist(), x.written is None
    ([[-1.0], [-1.0], [-1.0]], True)
    >>> (x + 1).tolist(), x.shape
    ([[4.0, 5.0], [2.0, 3.0], [4.0, 5.0]], torch.Size([3, 2]))
    """

    rows: Tensor
    chosen: Tensor
    written: Tensor | None  # From then on it is the matrix, so that what is written into it is not lost.

    @classmethod
    def of(cls, rows: Tensor, index: Tensor) -> RepeatedRows:
        """Return the matrix ``rows[index]``."""
        shape = len(index), rows.size(1)
        made: RepeatedRows = cls._make_wrapper_subclass(cls, shape, dtype=rows.dtype, device=rows.device)
        made.rows, made.chosen, made.written = rows, index, None
        return made

    def write(self) -> Tensor:
        """Return the matrix as a plain tensor, the same one every time."""
        if self.written is None:
            self.written = self.rows.index_select(0, self.chosen)
        return self.written

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch passes func first
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Multiply the distinct rows, or do anything else with the matrix written out."""
        if func in (_MM, _ADDMM) and not kwargs:
            *bias, own, weight = args
            same = all(term.dim() == 1 for term in bias)  # whether all rows have the same term added
            if same and isinstance(own, RepeatedRows) and own.written is None and not isinstance(weight, RepeatedRows):
                product: Tensor = func(*bias, own.rows, weight)
                return product.index_select(0, own.chosen)
        args, kwargs = tree_map_only(RepeatedRows, RepeatedRows.write, (args, kwargs or {}))
        return func(*args, **kwargs)
