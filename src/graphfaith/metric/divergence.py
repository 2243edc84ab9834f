"""PyG's ``unfaithfulness``, which is not Delta(p): a divergence of class probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.call import Edges
from ..sampling.perturbations import Perturbations
from ..sampling.restricted import By, Top
from .attribution import Attribution, Explained, Part, Source, read_attribution
from .fidelity import masked
from .measured import Measured
from .question import Selected, default_by, put, summarise
from .response import Responses, ask

NAME = "gef"  # graph explanation unfaithfulness: the name of the paper that PyG cites


@dataclass(frozen=True)
class DivergenceQuestion(Selected):
    """How far the probabilities on the inside alone are from those on the graph; see :func:`pyg_unfaithfulness`."""

    def samples(self, attribution: Attribution) -> Perturbations:
        """Return the graph without the outside."""
        ranking = attribution.ranking(self.part, self.by)
        return ranking.perturb(~ranking.inside(self.top).unsqueeze(0))

    def read(self, attribution: Attribution, answers: Responses) -> list[Measured]:  # noqa: ARG002
        """Return 1 - exp(-KL)."""
        return [_measure(answers.divergences(), self.law(1, "outside"))]


def _measure(divergences: Tensor, law: str) -> Measured:
    found = summarise(NAME, divergences, "lower", law, drawn=False)
    kept = math.exp(-found.value)
    return Measured(NAME, 1 - kept, kept * found.stderr, "lower", 0, law)


def pyg_unfaithfulness(
    source: Source,
    explanation: Explained,
    *,
    top: Top = None,
    by: By | None = None,
    part: Part = "edges",
    edges: Edges | None = None,
) -> Measured:
    r"""Return GEF, which PyG calls ``unfaithfulness`` (arXiv 2208.09339): :math:`1 - \exp(-\mathrm{KL})`.

    .. math:: \mathrm{KL} = \sum_c P_S(c) \log \frac{P_S(c)}{P(c)}

    P are the class probabilities on the graph and :math:`P_S` those on the explanation alone. It says nothing of how F
    changes near the graph, which :func:`~graphfaith.general_unfaithfulness` is about. Without ``top`` the masks
    multiply X and the messages as they are, and this is PyG's number; the arguments are those of
    :func:`~graphfaith.metric.fidelity.fidelity`, but for ``by``: a divergence has no side, so that the largest
    magnitudes are inside if nothing is said. It is not defined for regression.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> 0 <= pyg_unfaithfulness(explainer, explanation, top=0.5).value <= 1
    True
    """
    target, scores = read_attribution(source, explanation, edges or ("mask" if top is None else None))
    if top is not None:
        return put(DivergenceQuestion(part, top, default_by(target.task.mode, by, sided=False)), target, scores)[0]
    both = masked(scores)
    answers = ask(target, both[torch.tensor([1])])
    return _measure(answers.divergences(), "masks alone")
