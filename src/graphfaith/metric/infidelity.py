"""Infidelity (Captum's): Delta of the scores, taken as a linear function."""

from __future__ import annotations

from torch import Tensor

from ..model.call import Edges
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from .attribution import Explained, Source, read_attribution
from .measured import Measured, mean_and_error
from .unfaithfulness import residuals_of


def infidelity(
    source: Source,
    explanation: Explained,
    neighborhood: Neighborhood | str,
    *,
    normalize: bool = False,
    num_samples: int = 500,
    seed: int = 1,
    edges: Edges | None = None,
) -> Measured:
    r"""Measure how far the scores, times a perturbation, are from F's change (arXiv 1901.09392; Captum's).

    .. math:: E\,[\,\phi_X \cdot \epsilon_X + \phi_A \cdot \epsilon_A
                     - (F(X, A) - F(X - \epsilon_X, A - \epsilon_A))\,]^2

    It is :math:`\Delta(p)` of the linear p with the scores :math:`\phi` as coefficients, whatever p the method has.
    With ``normalize`` the scores are multiplied by the one factor that makes it smallest, so that scores that are no
    derivatives, such as masks, can be compared; that is Captum's ``normalize=True``. On the same perturbations both are
    Captum's numbers.

    Args:
        source: the ``Explainer`` that made the explanation, or a :class:`~graphfaith.Target`.
        explanation: a PyG explanation, or an :class:`~graphfaith.metric.attribution.Attribution`.
        neighborhood: the law of the perturbations.
        normalize: whether to scale the scores first.
        num_samples, seed: of the perturbations.
        edges: what A is, if not what it is in the explanation.

    >>> import torch, graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> infidelity(explainer, explanation, "U(A,0.5)", num_samples=50).measure
    'infidelity'
    """
    target, scores = read_attribution(source, explanation, edges)
    near = as_neighborhood(neighborhood)
    residuals, delta = residuals_of(target, [scores.linear], near, num_samples=num_samples, seed=seed)
    value, error = mean_and_error(squares(residuals[0] + delta, delta, normalize=normalize))
    name = "infidelity-scaled" if normalize else "infidelity"
    return Measured(name, value, error, "lower", num_samples, str(near), seed)


def squares(predicted: Tensor, delta: Tensor, *, normalize: bool) -> Tensor:
    r"""Return the squared residuals of predicted changes, [S], given F's changes ``delta``, [S].

    With ``normalize`` the predictions are multiplied by :math:`\beta = \sum_s a_s b_s / \sum_s a_s^2`, a the
    predicted and b the true changes; without a prediction that is not 0, beta is 0. It minimises the mean, so that an
    error of beta changes the mean in second order only, and the standard error is that of the squares.

    >>> import torch
    >>> squares(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0]), normalize=True).tolist()
    [0.0, 0.0]
    """
    if normalize:
        scale = float(predicted @ predicted)
        predicted = predicted * (float(predicted @ delta) / scale if scale > 0 else 0.0)
    return (predicted - delta).square()
