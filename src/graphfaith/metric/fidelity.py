"""Fidelity: what is lost without an explanation (fidelity+), and what is lost with nothing else (fidelity-)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .._base.errors import InputError
from ..model.call import Edges
from ..sampling.perturbations import Perturbations
from ..sampling.restricted import By, Top
from .attribution import Attribution, Explained, Part, Source, read_attribution
from .measured import Measured
from .question import Selected, check_share, default_by, drop, put, summarise
from .response import Level, Responses, ask


class Fidelity(NamedTuple):
    """Fidelity+ (higher is better) and fidelity- (lower is better).

    >>> from graphfaith.metric import Fidelity
    >>> Fidelity._fields
    ('plus', 'minus')
    """

    plus: Measured
    minus: Measured


@dataclass(frozen=True)
class FidelityQuestion(Selected):
    """What is lost if exactly the inside, exactly the outside, or everything is removed; nothing is drawn."""

    def samples(self, attribution: Attribution) -> Perturbations:
        """Return the graphs without the inside, without the outside, and without either."""
        ranking = attribution.ranking(self.part, self.by)
        inside = ranking.inside(self.top)
        return ranking.perturb(torch.stack([inside, ~inside, torch.ones_like(inside)]))

    def read(self, attribution: Attribution, answers: Responses) -> list[Measured]:  # noqa: ARG002
        """Return fidelity+ and fidelity-, then what is lost with everything, then the two for the label of a class."""
        lost = answers.changes(self.level)
        found = _pair("", lost, *self._laws)
        letter = "A" if self.part == "edges" else "X"
        found.append(summarise("everything", lost[2:], "higher", f"B({letter},1)", drawn=False))
        if not answers.is_regression and self.level != "label":
            found += _pair("label-", answers.changes("label"), *self._laws)
        return found

    @property
    def _laws(self) -> tuple[str, str]:
        return self.law(1, "inside"), self.law(1, "outside")


def _pair(prefix: str, lost: Tensor, first: str, second: str) -> list[Measured]:
    return [
        summarise(f"{prefix}fidelity+", lost[:1], "higher", first, drawn=False),
        summarise(f"{prefix}fidelity-", lost[1:2], "lower", second, drawn=False),
    ]


@dataclass(frozen=True)
class RobustQuestion(Selected):
    """What is lost if a random part of the inside, or of the outside, is removed; see :func:`robust_fidelity`."""

    alpha1: float = 0.1
    alpha2: float = 0.9
    num_samples: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the probabilities."""
        super().__post_init__()
        check_share(self.alpha1, "alpha1")
        check_share(self.alpha2, "alpha2")

    def samples(self, attribution: Attribution) -> Perturbations:
        """Return the samples of fidelity+ and then those of fidelity-."""
        ranking = attribution.ranking(self.part, self.by)
        inside = ranking.inside(self.top)
        shares = self.alpha1, 1 - self.alpha2
        gone = [drop(ranking, share, self.num_samples, self.seed) for share in shares]
        return ranking.perturb(torch.cat([gone[0] & inside, gone[1] & ~inside]))

    def read(self, attribution: Attribution, answers: Responses) -> list[Measured]:  # noqa: ARG002
        """Return the two robust fidelities."""
        lost, count = answers.changes(self.level), self.num_samples
        first, second = self.law(self.alpha1, "inside"), self.law(1 - self.alpha2, "outside")
        return [
            summarise("robust-fidelity+", lost[:count], "higher", first, drawn=True, seed=self.seed),
            summarise("robust-fidelity-", lost[count:], "lower", second, drawn=True, seed=self.seed),
        ]


def fidelity(
    source: Source,
    explanation: Explained,
    *,
    top: Top = None,
    by: By | None = None,
    part: Part = "edges",
    level: Level = "label",
    edges: Edges | None = None,
) -> Fidelity:
    r"""Measure what the model loses without the explanation, and with nothing but the explanation.

    .. math:: \mathrm{fid}_+ = d(F(G), F(G \setminus G_S)), \qquad \mathrm{fid}_- = d(F(G), F(G_S)),

    with d of :meth:`~graphfaith.metric.response.Responses.changes`: 1 if the label changes (``level="label"``), the
    loss of probability ("probability") or of the output ("value"); the difference of outputs for regression, which
    PyG's ``fidelity`` refuses.

    Without ``top`` the masks multiply X and the messages as they are, m for :math:`G_S` and 1 - m for the complement,
    and with the label this is PyG's ``fidelity``. With ``top`` the largest scores are inside, so that signed scores
    mean something: these are then removed, from A if the model reads it.

    Args:
        source: the ``Explainer`` that made the explanation, or a :class:`~graphfaith.Target`.
        explanation: a PyG explanation, or an :class:`~graphfaith.metric.attribution.Attribution`.
        top: how many edges (or features) are inside, or which share of them; None takes the masks as they are.
        by: "score" or "magnitude"; by default by score for a class and by magnitude for regression.
        part: "edges" or "features", with ``top``; masks as they are are applied both at once.
        level: "label", "probability" or "value".
        edges: what A is; by default the masks multiply messages without ``top``, as in PyG, and else "auto".

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> plus, minus = fidelity(explainer, explanation, top=0.5)
    >>> plus.value in (0, 1), minus.measure
    (True, 'fidelity-')
    """
    target, scores = read_attribution(source, explanation, edges or ("mask" if top is None else None))
    if target.task.mode == "regression" and level == "label":
        level = "value"
    if top is not None:
        question = FidelityQuestion(part, top, default_by(target.task.mode, by), level)
        plus, minus = put(question, target, scores)[:2]
        return Fidelity(plus, minus)
    answers = ask(target, masked(scores))
    lost = answers.changes(level)
    plus, minus = _pair("", lost, "masks taken away", "masks alone")
    return Fidelity(plus, minus)


def masked(scores: Attribution) -> Perturbations:
    """Return the graph without what the masks keep, and the graph of what they keep, as PyG's masks make them."""
    graph = scores.graph
    features = edges = None
    if scores.features is not None:
        mask = scores.features.to(graph.x.dtype).expand(graph.x.shape)
        features = torch.stack([graph.x * mask, graph.x * (1 - mask)])
    if scores.edges is not None:
        # PyG's masks are over the edges of the graph; loops that a layer adds keep their weight.
        given = (graph.edge_id >= 0) & graph.felt
        mask = torch.where(given, scores.edges, 1.0)
        weight = graph.weight.double()
        edges = torch.stack([torch.where(given, weight * mask, 0.0), weight * (1 - mask)])
    if features is None and edges is None:
        raise InputError("the explanation has no mask")
    return Perturbations(graph, features, edges)


def characterization(of: Fidelity, *, pos_weight: float = 0.5, neg_weight: float = 0.5) -> Measured:
    r"""Return the weighted harmonic mean of fidelity+ and 1 - fidelity-, with its error (GraphFramEx; PyG's).

    .. math:: \frac{w_+ + w_-}{w_+ / \mathrm{fid}_+ + w_- / (1 - \mathrm{fid}_-)}

    The error is that of the linearised mean, as if the two were independent.

    >>> plus, minus = Measured("fidelity+", 0.6, 0.1), Measured("fidelity-", 0.2, 0.1, "lower")
    >>> print(characterization(Fidelity(plus, minus)))
    characterization = 0.6857 ± 0.07 in fidelity+ and fidelity- (higher is better)
    """
    if not math.isclose(pos_weight + neg_weight, 1.0):
        raise InputError(f"the weights must add up to 1 (got {pos_weight} and {neg_weight})")
    value, by_plus, by_minus = characterize(of.plus.value, of.minus.value, pos_weight, neg_weight)
    error = math.hypot(by_plus * of.plus.stderr, by_minus * of.minus.stderr)
    samples = max(of.plus.num_samples, of.minus.num_samples)
    return Measured("characterization", value, error, "higher", samples, "fidelity+ and fidelity-", of.plus.seed)


def characterize(
    plus: float, minus: float, pos_weight: float = 0.5, neg_weight: float = 0.5
) -> tuple[float, float, float]:
    """Return the weighted harmonic mean of ``plus`` and 1 - ``minus``, and its two derivatives.

    It is 0 where one of them is not above 0, which is the limit of the formula.

    >>> characterize(0.0, 0.5)
    (0.0, 0.0, 0.0)
    """
    kept = 1 - minus
    if plus <= 0 or kept <= 0 or math.isnan(plus + kept):
        return (math.nan, math.nan, math.nan) if math.isnan(plus + kept) else (0.0, 0.0, 0.0)
    value = 1 / (pos_weight / plus + neg_weight / kept)
    return value, value**2 * pos_weight / plus**2, -(value**2) * neg_weight / kept**2


def robust_fidelity(
    source: Source,
    explanation: Explained,
    *,
    alpha1: float = 0.1,
    alpha2: float = 0.9,
    top: Top = 0.2,
    by: By | None = None,
    part: Part = "edges",
    level: Level = "probability",
    num_samples: int = 200,
    seed: int = 1,
    edges: Edges | None = None,
) -> Fidelity:
    r"""Measure fidelity with random parts of the explanation and of its complement (arXiv 2310.01820).

    .. math:: \mathrm{Fid}_{\alpha_1,+} = E\, d(F(G), F(G - E_{\alpha_1}(G_S))), \qquad
              \mathrm{Fid}_{\alpha_2,-} = E\, d(F(G), F(G_S + E_{\alpha_2}(G - G_S))),

    where :math:`E_\alpha` keeps each edge by itself with probability :math:`\alpha`. So each edge inside is removed
    with probability alpha1, and each edge outside with probability 1 - alpha2: the graphs stay close to those that the
    model was trained on. With alpha1 = 1 and alpha2 = 0 it is :func:`fidelity`. The arguments are those of
    :func:`fidelity`; samples of one seed are the same for every explanation.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> plus, minus = robust_fidelity(explainer, explanation, num_samples=20)
    >>> plus.num_samples, minus.better
    (20, 'lower')
    """
    target, scores = read_attribution(source, explanation, edges)
    by = default_by(target.task.mode, by)
    question = RobustQuestion(part, top, by, level, alpha1, alpha2, num_samples, seed)
    return Fidelity(*put(question, target, scores))
