"""KEC as one would write it down from the paper, to be compared with: dense powers of A, one forward pass a sample.

It shares nothing with the fast path but the computation graph and the samples, so that agreeing means something.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphfaith._base.errors import UnsupportedError
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import Neighborhood
from graphfaith.surrogate.difference import KHopModel


def straightforward_kec(
    target: Target, near: Neighborhood, num_samples: int = 200, seed: int = 0, threshold: float = 1e-4
) -> tuple[KHopModel, tuple[Tensor, Tensor]]:
    r"""Proposition 3's optimum, and its gradient with respect to X [n, d] and to A [e].

    For each sample all of :math:`N(A^k) X`, k = 1 .. M, is computed from explicit n x n matrices, and the model is
    run once. The least squares are solved by a singular value decomposition of the [S, M d] matrix of features.
    """
    if target.route != "weight":
        raise UnsupportedError("the straightforward KEC is for models that take edge_weight")
    part, hops = target.computation_graph, target.num_hops
    samples = near.sample(part, num_samples, seed)
    weights, features = samples.weight, samples.x
    before = _features(target, part.x.double(), part.weight.double())
    rows, changes = [], []
    with torch.no_grad():
        for s in range(num_samples):
            weight = part.weight.double() if weights is None else weights[s]
            x = part.x if features is None else features[s]
            rows.append((before - _features(target, x.double(), weight)).flatten())
            changes.append(target.value - float(_output(target, x, weight.to(part.weight.dtype))))
    u, sigma, vt = torch.linalg.svd(torch.stack(rows), full_matrices=False)
    kept = sigma > threshold
    delta = torch.tensor(changes, dtype=torch.float64)
    solution = vt[kept].T @ ((u[:, kept].T @ delta) / sigma[kept])
    p = KHopModel(part, solution.view(hops, -1))
    return p, _gradient(target, p.weights)


def _output(target: Target, x: Tensor, weight: Tensor) -> Tensor:
    """F by one call of the model, as it is: the class's logit at the node."""
    part = target.computation_graph
    out: Tensor = target.model(x, part.edge_index, edge_weight=weight)
    return out[part.seeds[0], target.label]


def _features(target: Target, x: Tensor, weight: Tensor) -> Tensor:
    """e^T N(A^k) X for k = 1 .. M, [M, d], by multiplying everything out."""
    part = target.computation_graph
    source, sink = part.edge_index
    n = part.num_nodes
    a = torch.zeros(n, n, dtype=torch.float64).index_put((sink, source), weight, accumulate=True)
    power, found = a, []
    for k in range(target.num_hops):
        power = power if k == 0 else power @ a
        degree = power.sum(dim=1)
        scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
        normalised = torch.diag(scale) @ power @ torch.diag(scale)
        found.append((normalised @ x)[part.seeds[0]])
    return torch.stack(found)


def _gradient(target: Target, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives of p = sum_k e^T N(A^k) X w_k at (X, A), by autograd."""
    part = target.computation_graph
    # Copies: a double tensor converts to itself, and the graph's own are not ours to mark.
    x, weight = (t.detach().double().clone().requires_grad_() for t in (part.x, part.weight))
    p = (_features(target, x, weight) * weights).sum()
    dx, da = torch.autograd.grad(p, (x, weight))
    return dx, da * part.felt
