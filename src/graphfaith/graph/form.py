"""The form of a graph's features: what a matrix X of real numbers stands for, if the model is given something else.

Everything here computes with a matrix X, [N, d]. A model may be given features of any shape, [N, ...], such as a window
of time steps and channels; X then has them side by side. Or it may be given ids of categories, which it looks up in an
embedding. Between two ids there is nothing, so that X says of each feature whether it is there: 1 if its category is
the node's own, and 0 if it is the baseline of its column, the most frequent category there. To remove such a feature is
to put the baseline in its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

CATEGORIES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def is_categorical(x: object) -> bool:
    """Return whether features are ids of categories rather than real numbers."""
    return isinstance(x, Tensor) and x.dtype in CATEGORIES


def flatten_features(x: Tensor) -> Tensor:
    """Return features of any shape, [N, ...], as a matrix, [N, d].

    >>> flatten_features(torch.zeros(4, 3, 2)).shape, flatten_features(torch.zeros(4)).shape
    (torch.Size([4, 6]), torch.Size([4, 1]))
    """
    return x if x.dim() == 2 else x.reshape(len(x), math.prod(x.shape[1:]))


def find_baseline(categories: Tensor) -> Tensor:
    """Return the most frequent category of each column, [d]; of several the smallest.

    >>> find_baseline(torch.tensor([[5, 1], [5, 0], [7, 1], [2, 0]])).tolist()
    [5, 0]
    """
    found = []
    for column in categories.unbind(1):
        values, counts = torch.unique(column, return_counts=True)  # in ascending order
        found.append(values[counts.argmax()])
    return torch.stack(found)


@dataclass(frozen=True, eq=False)
class Form:
    """How the matrix X becomes what a model is given: its shape, and the categories that it stands for.

    >>> form = Form.of(torch.tensor([[3], [3], [9]]))
    >>> form.matrix(torch.tensor([[3], [3], [9]]), torch.float32).tolist()       # only node 2 differs from the baseline
    [[0.0], [0.0], [1.0]]
    >>> form.restore(torch.tensor([[0.0], [1.0]]), torch.tensor([2, 1])).tolist()      # nodes 2 and 1; 2 is replaced
    [[3], [3]]
    """

    shape: tuple[int, ...]  # of the features of one node
    categories: Tensor | None = None  # [N, d] the ids; None if the features are real numbers
    baseline: Tensor | None = None  # [d] the category that stands for an absent feature

    @classmethod
    def of(cls, x: Tensor) -> Form | None:
        """Return the form of features [N, ...]; None if they are a matrix of real numbers."""
        shape = tuple(x.shape[1:])
        if is_categorical(x):
            categories = flatten_features(x.detach())
            return cls(shape, categories, find_baseline(categories))
        return None if len(shape) == 1 else cls(shape)

    def matrix(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Return X, [N, d], for all features of the graph; ``dtype`` is its precision if they are categories."""
        if self.categories is None or self.baseline is None:
            return flatten_features(x)
        return torch.ne(self.categories, self.baseline).to(dtype)

    def restore(self, x: Tensor, nodes: Tensor | None = None) -> Tensor:
        """Return what a model is given for X of some ``nodes``, [n, d], or for several copies of them one by one.

        Without ``nodes`` it is X of the whole graph.
        """
        if self.categories is not None:
            own = self.categories if nodes is None else self.categories[nodes]
            assert self.baseline is not None
            x = torch.where(x.detach() >= 0.5, own.repeat(len(x) // len(own), 1), self.baseline)
        return x.reshape(len(x), *self.shape)
