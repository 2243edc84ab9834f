"""General unfaithfulness Delta(p) (Definition 3.1), its error bar, and Proposition 2's lower bound for subgraphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation, HeteroExplanation
from torch_geometric.explain.algorithm import (
    AttentionExplainer,
    GNNExplainer,
    GraphMaskExplainer,
    PGExplainer,
)

from .._base.checks import check_count
from .._base.errors import InputError, SameSamplesWarning, UnsupportedError
from .._base.progress import track
from .._base.threads import one_thread
from ..explanation.digest import masks_of, scores_digest
from ..explanation.faithfulness import record_unfaithfulness
from ..explanation.masks import of_mask, target_of
from ..explanation.reading import node_kind_of
from ..explanation.typed import one_of, take_measurement
from ..graph.computation_graph import ComputationGraph
from ..model.home import fetch
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import DifferenceModel, LinearModel, SubgraphModel
from ..surrogate.estimate import Unfaithfulness, estimate_unfaithfulness, rounding_square
from ..surrogate.moves import OfX, spread_over_features
from ..surrogate.readings import add_readings, evidence_of, readings_of
from ..surrogate.walks import walk_bytes

# Explainers of PyG whose result is a mask in [0, 1] that multiplies the graph: p(X, A) = F(X_s, A_s).
MASK_LEARNERS = (GNNExplainer, PGExplainer, GraphMaskExplainer, AttentionExplainer)


class Changing(Protocol):
    """Any function whose change can be compared with that of F."""

    def change(self, perturbations: Perturbations) -> Tensor:
        """Return the function at (X, A) less that at (X - eps_X, A - eps_A) for each sample, [S]."""
        ...


def general_unfaithfulness(
    explainer: Explainer,
    explanation: Explanation | HeteroExplanation,
    neighborhood: Neighborhood | str,
    *,
    num_samples: int = 500,
    seed: int = 1,
    difference_model: DifferenceModel | None = None,
    progress: bool | None = None,
) -> Unfaithfulness:
    r"""Measure how unfaithful ``explanation`` is to the model of ``explainer`` near its input.

    .. math:: \Delta(p) = E\,[\,p(X, A) - p(X - \epsilon_X, A - \epsilon_A)
                              - (F(X, A) - F(X - \epsilon_X, A - \epsilon_A))\,]^2

    p is the difference model that travels with an explanation made by graphfaith. For one made by another
    algorithm it is F on the masked graph if that algorithm learns masks (GNNExplainer, PGExplainer, ...), and
    otherwise linear with the scores as coefficients (CaptumExplainer, ...). ``difference_model`` overrides it. If p is
    more than a sum of scores, as that of KEC and AnchoredKEC is, the result has Delta of the scores that are shown as
    ``scores``, that of scores and pairs as ``pairs``, and the share that all scores leave as ``floor``.

    The result also stays on the explanation as ``explanation.unfaithfulness``, where pages and figures read it. They
    show it only while the scores are those that were measured. The last call counts. With ``difference_model``, the
    result is not one of this explanation, and does not stay on it.

    The number is about what the samples move: in a neighbourhood of edges it says nothing of the scores of nodes and
    features, which are then shown as "not measured". To measure these too, call it again with a neighbourhood that
    moves features, such as "U(X,0.2r)"; the explanation keeps one number for each kind of scores.

    Use another ``seed`` than the explainer's: on the samples that p was fitted to, Delta(p) is too small, and a
    :class:`~graphfaith.SameSamplesWarning` says so. ``progress`` shows a bar on standard error; if it is None, on a
    terminal, and only if this takes more than a second.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="kec", seed=0)
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> number = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=100, seed=1)
    >>> 0 <= number.relative, number is explanation.unfaithfulness
    (True, True)
    """
    if isinstance(explanation, HeteroExplanation):
        one = one_of(explainer, explanation)
        score = general_unfaithfulness(
            explainer,
            one,
            neighborhood,
            num_samples=num_samples,
            seed=seed,
            difference_model=difference_model,
            progress=progress,
        )
        if difference_model is None:
            take_measurement(explanation, one)
        return score
    target, near = target_of(explainer, explanation), _as_meant(neighborhood, explanation)
    _warn_of_same_samples(explainer, explanation, near, seed)
    if difference_model is not None:
        scored = unfaithfulness_of(
            target, [difference_model], near, num_samples=num_samples, seed=seed, progress=progress
        )
        return scored[0]
    p = difference_model_of(explainer, explanation, target, features=near.perturbs_features)
    score = _measure(target, p, explanation, near, num_samples, seed, progress)
    record_unfaithfulness(explanation, score)
    return score


def _as_meant(neighborhood: Neighborhood | str, explanation: Explanation) -> Neighborhood:
    """Return the neighbourhood; the text that ``gf.explain`` has read as one of whole edges is read so again."""
    near, fitted = as_neighborhood(neighborhood), explanation.get("neighborhood")
    if isinstance(neighborhood, str) and isinstance(fitted, str) and fitted == f"{str(near)[:-1]},paired)":
        return as_neighborhood(fitted)
    return near


def _measure(
    target: Target,
    p: DifferenceModel,
    explanation: Explanation,
    near: Neighborhood,
    num_samples: int,
    seed: int,
    progress: bool | None,
) -> Unfaithfulness:
    """Return Delta(p); if p is more than a sum of scores, with those of its scores and pairs on the same samples."""
    of: OfX = "feature"
    if near.perturbs_features and not isinstance(p, SubgraphModel):
        of = of_mask(node_kind_of(explanation))
    whole = not any(
        moved and explanation.get(mask) is None
        for moved, mask in ((near.perturbs_edges, "edge_mask"), (near.perturbs_features, "node_mask"))
    )
    is_shown = isinstance(p, SubgraphModel) or (isinstance(p, LinearModel) and of == "feature" and whole)
    shown = None if is_shown else _scores_of(explanation, target, near, of)
    evidence = evidence_of(p)

    def measure(models: Sequence[Changing]) -> list[Unfaithfulness]:
        return unfaithfulness_of(target, models, near, num_samples=num_samples, seed=seed, progress=progress)

    if shown is None:
        return measure([p])[0]
    if evidence is None or evidence.neighborhood != str(near) or not whole or near.perturbs_attributes:
        record, scores = measure([p, shown])
        return replace(record, scores=scores)
    settings = explanation.get("settings") or {}
    readings = readings_of(p, near, seed=evidence.seed, pairs=settings.get("pairs", 10), of=of)
    record, scores, paired, share = measure([p, shown, readings.paired, readings.additive])
    found = add_readings(record, readings, scores, paired, share)
    # The pairs stand beside the shares, and beside no other scores.
    return found if explanation.get("reading") == "share" else replace(found, pairs=None, num_pairs=0)


def _scores_of(explanation: Explanation, target: Target, near: Neighborhood, of: OfX) -> DifferenceModel | None:
    """Return the scores of an explanation as an additive function; what has no score counts as 0.

    None if the node mask is of a kind that says nothing of single features, without saying which.
    """
    graph, (nodes, _, loops) = target.computation_graph, masks_of(explanation)
    edges = edge_scores_on(explanation, target, implied=0.0)
    if edges is None:  # Self-loops have their scores beside the mask.
        edges = torch.zeros(graph.num_edges, dtype=torch.float64)
        if loops is not None:
            edges[graph.is_loop] = loops[graph.nodes].double()
    attributes = attribute_scores_on(explanation, graph)
    if nodes is None or not near.perturbs_features:
        return LinearModel(graph, None, edges, phi_e=attributes)
    part = nodes if nodes.size(0) == 1 else nodes[graph.nodes]
    if of == "feature":
        return LinearModel(graph, part, edges, phi_e=attributes) if part.shape == graph.x.shape else None
    return LinearModel(graph, spread_over_features(graph, part, of), edges, phi_e=attributes)


def _warn_of_same_samples(explainer: Explainer, explanation: Explanation, near: Neighborhood, seed: int) -> None:
    """Warn if p was fitted to samples of this seed: the same draws are then scaled to fit either neighbourhood."""
    settings = explanation.get("settings")
    if not isinstance(settings, dict):
        settings = getattr(explainer.algorithm, "settings", None)
    if not isinstance(settings, dict) or "neighborhood" not in settings or settings.get("seed") != seed:
        return
    try:
        fitted = as_neighborhood(settings["neighborhood"])
    except InputError:  # It is not one that is known by its text.
        fitted = near
    shared = (fitted.perturbs_edges and near.perturbs_edges) or (fitted.perturbs_features and near.perturbs_features)
    if shared:
        warnings.warn(
            f"the explanation was fitted to samples of seed {seed}, and is scored on the same draws: Delta(p) will be "
            "too small; give another seed",
            SameSamplesWarning,
            stacklevel=3,
        )


def unfaithfulness_of(
    target: Target,
    models: Sequence[Changing],
    neighborhood: Neighborhood | str,
    *,
    num_samples: int = 500,
    seed: int = 1,
    progress: bool | None = False,
) -> list[Unfaithfulness]:
    """Measure Delta(p) of several difference models of one target, on the same samples with one evaluation of F.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> target = gf.Target(model, ring.x, ring.edge_index, 1)
    >>> graph = target.computation_graph
    >>> zero, gradient = gf.LinearModel(graph), gf.LinearModel(graph, *target.gradient())
    >>> [found.relative <= 1 for found in unfaithfulness_of(target, [zero, gradient], "U(A,0.2)")]
    [True, True]
    """
    near = as_neighborhood(neighborhood)
    residuals, delta = residuals_of(target, models, near, num_samples=num_samples, seed=seed, progress=progress)
    noise = rounding_square(target.scale, target.computation_graph.x.dtype)
    return [estimate_unfaithfulness(residual, delta, noise, near, seed) for residual in residuals]


def residuals_of(
    target: Target,
    models: Sequence[Changing],
    neighborhood: Neighborhood | str,
    *,
    num_samples: int = 500,
    seed: int = 1,
    progress: bool | None = False,
) -> tuple[list[Tensor], Tensor]:
    r"""Return what each difference model leaves of F's change on each sample, [S] a model, and that change, [S].

    .. math:: r_s = p(X, A) - p(X - \epsilon_X, A - \epsilon_A) - (F(X, A) - F(X - \epsilon_X, A - \epsilon_A))

    Delta(p) is the mean of the squares. The first samples of a seed are the same, however many are drawn, so that the
    mean of the first n squares is Delta(p) on n samples.
    """
    near = as_neighborhood(neighborhood)
    check_count(num_samples, "num_samples")
    changes: list[Tensor] = []
    predicted: list[list[Tensor]] = [[] for _ in models]
    chunks = sample_chunks(target, near, num_samples, seed)
    with one_thread(target.call.is_small):
        for chunk in track(chunks, "measuring on", "samples", show=progress, total=num_samples, size=len):
            changes.append(target.changes(chunk))
            for p, predictions in zip(models, predicted, strict=True):
                predictions.append(check_change(p.change(chunk), len(chunk)))
    delta = torch.cat(changes)
    return [torch.cat(predictions) - delta for predictions in predicted], delta


def sample_chunks(target: Target, near: Neighborhood, num_samples: int, seed: int) -> Iterator[Perturbations]:
    """Yield samples on which F and any p are evaluated, a chunk that fits in memory at a time."""
    graph, width = target.computation_graph, target.unit_width(drops=True)  # p may be a subgraph, which lacks edges
    fixed = 32 * num_samples + walk_bytes(graph, 1)
    room = target.room(fixed, near.sample_bytes(graph, width), f"scoring on {num_samples} samples")
    return near.chunks(graph, num_samples, seed, width=width, room=room)


def subgraph_lower_bound(
    explainer: Explainer,
    explanation: Explanation,
    neighborhood: Neighborhood | str,
    *,
    num_samples: int = 500,
    seed: int = 1,
) -> float:
    r"""Return the bound of Proposition 2, below which Delta(p) of the subgraph explanation (X_s, A_s) cannot be.

    .. math:: [\,C + E F(X - \epsilon_X, A - \epsilon_A) - E F(X_s - \epsilon_X, A_s - \epsilon_A)\,]^2,
              \quad C = F(X_s, A_s) - F(X, A)

    For Delta(p) on the same samples (the same seed and number) it holds exactly, by Jensen's inequality.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="gnnexplainer-soft")
    >>> explanation = explainer(ring.x, ring.edge_index, index=1)
    >>> number = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", seed=1)
    >>> gf.subgraph_lower_bound(explainer, explanation, "U(A,0.5)", seed=1) <= number.value
    True
    """
    target = target_of(explainer, explanation)
    p = difference_model_of(explainer, explanation, target)
    if not isinstance(p, SubgraphModel):
        raise UnsupportedError("the lower bound is for subgraph explanations, and this one has a score for each entry")
    near = as_neighborhood(neighborhood)
    check_count(num_samples, "num_samples")
    gap = 0.0
    for chunk in sample_chunks(target, near, num_samples, seed):
        gap += float((p.change(chunk) - target.changes(chunk)).sum())
    return (gap / num_samples) * (gap / num_samples)


def difference_model_of(
    explainer: Explainer, explanation: Explanation, target: Target, *, features: bool = True
) -> DifferenceModel:
    """Return the p that an explanation stands for (see :func:`general_unfaithfulness`).

    With ``features``, p has to say how F changes with single features, which one score a node or a column does not.
    """
    graph = target.computation_graph
    fitted = explanation.get("difference_model")
    # Thresholded or edited scores are no longer those of the fitted p: then the scores themselves make the p.
    if fitted is not None and explanation.get("scores_digest") == scores_digest(explanation, graph):
        p: DifferenceModel = fitted
        if isinstance(fitted, SubgraphModel) and fitted.target is None:  # It was unpickled, without its model.
            p = SubgraphModel(target, fitted.node_mask, fitted.edge_mask)
        return p
    learnt = getattr(explainer.algorithm, "learns_mask", isinstance(explainer.algorithm, MASK_LEARNERS))
    nodes, _, _ = masks_of(explanation)
    node_part = nodes if nodes is None or nodes.size(0) == 1 else nodes[graph.nodes]
    edge_part = edge_scores_on(explanation, target, implied=1.0 if learnt else 0.0)
    if learnt:
        if edge_part is not None:
            every_loop = target.graph.has_every_loop
            rule = getattr(explainer.algorithm, "weighed", lambda target: target.weighed_by_masks(every_loop))
            edge_part = torch.where(rule(target), edge_part, 1.0)
        return SubgraphModel(target, node_part, edge_part)
    if node_part is not None and node_part.shape != graph.x.shape:
        if not features:
            return LinearModel(graph, None, edge_part, phi_e=attribute_scores_on(explanation, graph))
        raise UnsupportedError(
            "one score a node or a column does not say how F changes with one feature: explain with "
            'node_mask_type="attributes", or pass difference_model='
        )
    return LinearModel(graph, node_part, edge_part, phi_e=attribute_scores_on(explanation, graph))


def attribute_scores_on(explanation: Explanation, graph: ComputationGraph) -> Tensor | None:
    """Return the scores of edge attributes, [e, c]; None if there are none."""
    scores = fetch(explanation.get("edge_attr_score"))
    if scores is None or graph.attributes is None:
        return None
    part = torch.zeros(graph.attributes.shape, dtype=torch.float64)
    given = (graph.edge_id >= 0).nonzero().view(-1)
    part[given] = scores.double()[graph.edge_id[given]]
    return part


def edge_scores_on(explanation: Explanation, target: Target, implied: float) -> Tensor | None:
    """Return the scores of the entries of A, [e]; ``implied`` is the score of a self-loop that has none."""
    graph, (_, edges, loops) = target.computation_graph, masks_of(explanation)
    if edges is None:
        return None
    part = torch.full((graph.num_edges,), implied, dtype=edges.dtype)
    if loops is not None:
        part[graph.is_loop] = loops[graph.nodes]
    given = graph.edge_id >= 0
    part[given] = edges[graph.edge_id[given]]
    return part


def check_change(change: Tensor, num_samples: int) -> Tensor:
    """Return what ``change()`` of a difference model gave, [S] in double precision, checked to be finite."""
    if not isinstance(change, Tensor) or change.shape != (num_samples,):
        got = list(change.shape) if isinstance(change, Tensor) else type(change).__name__
        raise InputError(f"change() of a difference model must return [{num_samples}] numbers (got {got})")
    if not torch.isfinite(change).all():
        where = int((~torch.isfinite(change)).nonzero()[0])
        raise InputError(f"change() of a difference model is not finite (sample {where} of its chunk)")
    return change.detach().double()
