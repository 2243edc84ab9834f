"""Integrated Gradients for features and edges, without the factor of the input."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from .._base.checks import check_count, check_seed
from .._base.errors import InputError
from ..graph.computation_graph import ComputationGraph
from ..model.call import Edges
from ..model.target import Target
from ..sampling.draw import keys, uniform
from ..sampling.neighborhood import edge_keys
from ..surrogate.difference import LinearModel
from .base import FaithfulExplainer

Baseline = Literal["zero", "random", "full"]


class IntegratedGradients(FaithfulExplainer):
    r"""Explain F by its mean gradient on the straight line from a baseline to the input.

    .. math:: \Phi_X = \int_0^1 \nabla_X F(X_0 + t (X - X_0), A)\,dt, \qquad
              \Phi_A = \int_0^1 \nabla_A F(X, A_0 + t (A - A_0))\,dt

    The integrals are computed by the midpoint rule with ``steps`` points. They are not multiplied by the input, because
    p is linear with the slope Phi. Edge attributes E are integrated as X is. The ``baseline`` is one of

    - ``"zero"``: two lines, from (0, A) and from (X, 0) to (X, A);
    - ``"random"``: two lines, from (X_0, A) and from (X, A_0) to (X, A), with X_0 uniform between min(X) and max(X),
      and A_0 uniform between 0 and A;
    - ``"full"``: one line, from (0, 0) to (X, A).

    Args:
        steps: how many points on each line are used.
        baseline: the start of the line, see above.
        seed: the seed of the random baseline.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="ig-full")
    >>> explanation.method, explanation.edge_mask.shape
    ('IG (full)', torch.Size([4]))
    """

    follows_slopes = True

    def __init__(
        self,
        *,
        steps: int = 50,
        baseline: Baseline = "zero",
        seed: int = 0,
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(num_hops=num_hops, edges=edges, max_memory=max_memory)
        if baseline not in get_args(Baseline):
            raise InputError(f"baseline must be one of {', '.join(get_args(Baseline))} (got {baseline!r})")
        self.steps, self.baseline, self.seed = check_count(steps, "steps"), baseline, check_seed(seed)

    @property
    def method(self) -> str:  # type: ignore[override]
        """The name used in the paper's tables."""
        return f"IG ({self.baseline})"

    def fit(self, target: Target) -> LinearModel:
        """Return the linear model whose slopes are the mean gradients on the lines."""
        graph = target.computation_graph
        x, weight = graph.x, graph.weight.double()
        x0, weight0 = self.baselines(target)
        if self.baseline == "full":
            ends = (x0, x), (weight0, weight)
            phi_e = self._mean_attribute_gradient(target, *ends)
            return LinearModel(graph, *self._mean_gradient(target, *ends), phi_e=phi_e)
        phi_x, _ = self._mean_gradient(target, (x0, x), None)
        _, phi_a = self._mean_gradient(target, None, (weight0, weight))
        return LinearModel(graph, phi_x, phi_a, phi_e=self._mean_attribute_gradient(target, None, None))

    def baselines(self, target: Target) -> tuple[Tensor, Tensor]:
        """Return (X_0, A_0) on the computation graph."""
        graph = target.computation_graph
        weight = graph.weight.double()
        if self.baseline != "random":
            # If a model adds no self-loops, F does not depend on the implied loops, so they keep their weight.
            return torch.zeros_like(graph.x), torch.where(graph.felt, 0.0, weight)
        kinds = graph.kinds
        lowest = target.graph.lowest if kinds is None else kinds.spread(graph.nodes, kinds.lowest)
        share = torch.from_numpy(uniform(keys(self.seed, "base-a"), edge_keys(graph, self.seed)))[0]
        drawn = uniform(
            keys(self.seed, "base-x", graph.nodes.numpy()),
            keys(self.seed, "column", np.arange(graph.x.size(1))),
        )
        x0 = (lowest + graph.feature_span * torch.from_numpy(drawn)).to(graph.x.dtype)
        return x0, torch.where(graph.felt, share * weight, weight)

    def _mean_attribute_gradient(
        self, target: Target, xs: tuple[Tensor, Tensor] | None, weights: tuple[Tensor, Tensor] | None
    ) -> Tensor | None:
        """Return the mean gradient for edge attributes on a line from E_0 to E, along which X and A may move too."""
        own = target.computation_graph.attributes
        if own is None:
            return None
        start, total = torch.zeros_like(own), torch.zeros_like(own)
        if self.baseline == "random":
            graph = target.computation_graph
            rows = keys(self.seed, "base-e", graph.edge_id.numpy())
            drawn = torch.from_numpy(uniform(rows, keys(self.seed, "attrcol", np.arange(own.size(1)))))
            start = (_lowest_attributes(graph) + graph.attribute_span * drawn).to(own.dtype)
        for time in ((torch.arange(self.steps, dtype=torch.float64) + 0.5) / self.steps).tolist():
            x = None if xs is None else _interpolate(*xs, torch.tensor(time).to(xs[0].dtype))
            weight = None if weights is None else _interpolate(*weights, torch.tensor(time).double())
            slope = target.attribute_gradients(x, weight, start + time * (own - start))
            assert slope is not None
            total += slope / self.steps
        return total

    def _mean_gradient(
        self, target: Target, xs: tuple[Tensor, Tensor] | None, weights: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Return the mean gradients for X and A on a line, given its ends for X and for A; None keeps X or A fixed."""
        graph = target.computation_graph
        times = (torch.arange(self.steps, dtype=torch.float64) + 0.5) / self.steps
        per_step = 8 * (4 * graph.num_edges * target.width() + (4 * graph.x.numel() if xs is not None else 0))
        room = target.room(16 * graph.x.numel(), 2 * per_step, f"{self.method} with {self.steps} steps")
        dx, da = torch.zeros_like(graph.x), torch.zeros_like(graph.weight)
        for part in torch.split(times, max(1, room // per_step)):
            x = None if xs is None else _interpolate(*xs, part.view(-1, 1, 1).to(graph.x.dtype))
            weight = None if weights is None else _interpolate(*weights, part.view(-1, 1))
            mean_x, mean_a = target.gradient(x, weight)
            dx += mean_x * (len(part) / self.steps)
            da += mean_a * (len(part) / self.steps)
        return dx, da


def _interpolate(start: Tensor, end: Tensor, time: Tensor) -> Tensor:
    """Return the point(s) of the line at ``time``, from 0 at the start to 1 at the end."""
    return start + time * (end - start)


def _lowest_attributes(graph: ComputationGraph) -> float | Tensor:
    """Return the least attribute of edges; in a heterogeneous graph that of each type, [e, c]."""
    own, ranges = graph.attributes, graph.attribute_ranges
    assert own is not None
    if ranges is None:
        return float(own.min())
    lowest: Tensor = own.double()
    kinds = graph.edge_kind
    for kind in set(kinds.tolist()):
        moved = (kinds == kind).unsqueeze(1) & (ranges > 0)
        if bool(moved.any()):
            lowest = torch.where(moved, own[moved].min().double(), lowest)
    return lowest
