"""KEC as one would write it down from the paper: dense powers of A, and one forward pass per sample.

The fast KEC is compared with it. It shares only the computation graph and the samples with the fast KEC, so that the
agreement of the two is evidence that both are right.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphfaith._base.errors import UnsupportedError
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import Neighborhood
from graphfaith.surrogate.difference import KHopModel


def fit_straightforward_kec(
    target: Target, near: Neighborhood, num_samples: int = 200, seed: int = 0, threshold: float = 1e-4
) -> tuple[KHopModel, tuple[Tensor, Tensor]]:
    r"""Return the optimum of Proposition 3, and its gradients with respect to X [n, d] and to A [e].

    For each sample, :math:`N(A^k) X` is computed for k = 1 .. M from explicit n x n matrices, and the model is run
    once. The least-squares problem is solved by a singular value decomposition of the [S, M d] matrix of features,
    without the singular values up to ``threshold``.
    """
    if target.route != "weight":
        raise UnsupportedError("the straightforward KEC supports only models that take edge_weight")
    part, hops = target.computation_graph, target.num_hops
    samples = near.sample(part, num_samples, seed)
    weights, features = samples.weight, samples.x
    before = _khop_features(target, part.x.double(), part.weight.double())
    rows, changes = [], []
    with torch.no_grad():
        for s in range(num_samples):
            weight = part.weight.double() if weights is None else weights[s]
            x = part.x if features is None else features[s]
            rows.append((before - _khop_features(target, x.double(), weight)).flatten())
            changes.append(target.value - float(_run_model(target, x, weight.to(part.weight.dtype))))
    u, sigma, vt = torch.linalg.svd(torch.stack(rows), full_matrices=False)
    is_large = sigma > threshold
    delta = torch.tensor(changes, dtype=torch.float64)
    solution = vt[is_large].T @ ((u[:, is_large].T @ delta) / sigma[is_large])
    p = KHopModel(part, solution.view(hops, -1))
    return p, _gradients_of(target, p.weights)


def _run_model(target: Target, x: Tensor, weight: Tensor) -> Tensor:
    """Return F, the logit of the class at the node, by one ordinary call of the model."""
    part = target.computation_graph
    out: Tensor = target.model(x, part.edge_index, edge_weight=weight)
    return out[part.seeds[0], target.label]


def _khop_features(target: Target, x: Tensor, weight: Tensor) -> Tensor:
    """Return e^T N(A^k) X for k = 1 .. M, of shape [M, d], from dense matrix products."""
    part = target.computation_graph
    source, sink = part.edge_index
    n = part.num_nodes
    a = torch.zeros(n, n, dtype=torch.float64).index_put((sink, source), weight, accumulate=True)
    power, rows = a, []
    for k in range(target.num_hops):
        power = power if k == 0 else power @ a
        degree = power.sum(dim=1)
        scale = torch.where(degree > 0, degree, 1.0).rsqrt() * (degree > 0)
        normalised = torch.diag(scale) @ power @ torch.diag(scale)
        rows.append((normalised @ x)[part.seeds[0]])
    return torch.stack(rows)


def _gradients_of(target: Target, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the derivatives of p = sum_k e^T N(A^k) X w_k at (X, A), by autograd."""
    part = target.computation_graph
    # The tensors are cloned because .double() returns a double tensor itself, and the graph's tensors must not be
    # marked as requiring gradients.
    x, weight = (t.detach().double().clone().requires_grad_() for t in (part.x, part.weight))
    p = (_khop_features(target, x, weight) * weights).sum()
    dx, da = torch.autograd.grad(p, (x, weight))
    return dx, da * part.felt
