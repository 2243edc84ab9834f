"""What every explainer here has in common: from PyG's call to a target, a fitted p, and an explanation."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplainerConfig, ModelConfig

from .._base.checks import check_count, check_real, check_seed
from .._base.errors import UnprovenError, UnsupportedError
from .._base.memory import parse_memory
from .._base.stages import stage
from .._base.threads import one_thread
from ..explanation.masks import Explained, explain, make_target
from ..model.call import Edges, check_edges
from ..model.layers import evaluating, heterogeneous_part
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood, Perturbations, as_neighborhood
from ..surrogate.difference import DifferenceModel

_LOG = logging.getLogger(__name__)


class FaithfulExplainer(ExplainerAlgorithm):  # type: ignore[misc]  # PyG is not typed
    """A method whose explanation is a local difference model p; to add one, write :meth:`fit`.

    Use it as any of PyG's: ``torch_geometric.explain.Explainer(model, algorithm=..., ...)``.

    Args:
        num_hops: M, the reach of the model; counted from its message-passing layers if None.
        edges: what A is: the model's edge weights ("weight"), factors of its messages ("mask"), or the first if
            the model has them ("auto").
        max_memory: bytes, or text such as "500 MB", that an explanation may take; more is refused beforehand.
    """

    method: ClassVar[str]
    learns_mask: ClassVar[bool] = False  # whether scores are masks on the graph rather than derivatives of p
    proves: ClassVar[bool] = False  # whether fit calls Target.prove, so that it can be left to it

    def __init__(
        self, num_hops: int | None = None, *, edges: Edges = "auto", max_memory: int | str | None = None
    ) -> None:
        super().__init__()
        self.num_hops = None if num_hops is None else check_count(num_hops, "num_hops")
        self.edges, self.max_memory = check_edges(edges), parse_memory(max_memory)

    @abstractmethod
    def fit(self, target: Target) -> DifferenceModel:
        """The p of this method for ``target``."""

    def scores(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor]:
        """Scores of features [n, d] and of entries of A [e]: the gradient of p."""
        return p.gradient()

    def details(self, p: DifferenceModel) -> dict[str, Any]:  # noqa: ARG002
        """What else to put on the explanation."""
        return {}

    def forward(
        self,
        model: Any,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """Explain the rows of the model's output that ``index`` names; called by PyG's ``Explainer``."""
        reason = self.unsupported(model, x, edge_index)
        if reason is not None:
            raise UnsupportedError(f"{type(self).__name__} {reason}")
        # Scores are derivatives, and in inference mode there are none.
        with torch.inference_mode(False), evaluating(model):
            try:
                return self._explained(model, x, edge_index, index, target, kwargs, later=self.proves)
            except UnprovenError:
                return self._explained(model, x, edge_index, index, target, kwargs, later=False)

    def _explained(
        self,
        model: Any,
        x: Tensor,
        edge_index: Tensor,
        index: int | Tensor | None,
        labels: Tensor,
        kwargs: dict[str, Any],
        *,
        later: bool,
    ) -> Explanation:
        with stage("subgraph"):
            explained = self.target(model, x, edge_index, index, labels, kwargs, prove_later=later)
        with one_thread(explained.call.is_small):
            p = self.fit(explained)
            explained.prove()
            return self.explanation(explained, p)

    def explanation(
        self, explained: Explained, p: DifferenceModel, scores: tuple[Tensor | None, Tensor] | None = None
    ) -> Explanation:
        """The scores of ``p``, in PyG's masks; ``scores`` are :meth:`scores` if they have been computed already."""
        with stage("gradient"):
            node_score, edge_score = self.scores(p) if scores is None else scores
        with stage("layout"):
            return explain(
                explained,
                p,
                node_score,
                edge_score,
                as_mask=self.learns_mask,
                node_mask_type=self.explainer_config.node_mask_type,
                edge_mask_type=self.explainer_config.edge_mask_type,
                method=self.method,
                **self.details(p),
            )

    def target(
        self,
        model: torch.nn.Module,
        x: Tensor,
        edge_index: Tensor,
        index: int | Tensor | None,
        labels: Tensor | None,
        kwargs: dict[str, Any],
        **options: Any,
    ) -> Target:
        """The F(X, A) that this method would explain; ``labels`` is PyG's target, the class of every row."""
        options |= {"num_hops": self.num_hops, "edges": self.edges, "max_memory": self.max_memory}
        return make_target(model, x, edge_index, index, labels, self.model_config, kwargs, **options)

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Why the connected settings, or this model and graph, cannot be used; None if they can."""
        part = None if model is None else heterogeneous_part(model)
        if part is not None:
            return f"explains homogeneous models; this one has several node or edge types ({part})"
        if isinstance(x, dict) or isinstance(edge_index, dict):
            return "explains homogeneous graphs; this one has several node or edge types (x is a dictionary)"
        return None

    def supports(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> bool:
        """Whether the connected settings, and a model and graph if given, can be used; logs the reason if not."""
        reason = self.unsupported(model, x, edge_index)
        if reason is not None:
            _LOG.error("%s %s", type(self).__name__, reason)
        return reason is None

    def connect(self, explainer_config: ExplainerConfig, model_config: ModelConfig) -> None:
        """Connect to an ``Explainer``; settings that cannot be used are an error that says why."""
        self._explainer_config = ExplainerConfig.cast(explainer_config)
        self._model_config = ModelConfig.cast(model_config)
        reason = self.unsupported()
        if reason is not None:
            raise UnsupportedError(f"{type(self).__name__} {reason}")


class FittedExplainer(FaithfulExplainer):
    """A method whose p is the least-squares optimum on samples of a neighbourhood.

    Args:
        neighborhood: where p has to follow F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to fit on.
        num_hops: M, the reach of the model; counted from its message-passing layers if None.
        threshold: singular values below it are left out.
        seed: names the samples.
        relative: whether ``threshold`` is a share of the largest singular value.

    ``edges`` and ``max_memory`` are those of every method here (:class:`FaithfulExplainer`).
    """

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        num_samples: int = 200,
        num_hops: int | None = None,
        threshold: float = 1e-4,
        seed: int = 0,
        *,
        relative: bool = False,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(num_hops, edges=edges, max_memory=max_memory)
        self.neighborhood = as_neighborhood(neighborhood)
        self.num_samples, self.seed = check_count(num_samples, "num_samples"), check_seed(seed)
        self.threshold, self.relative = check_real(threshold, "threshold", least=0.0), relative

    def chunks(self, target: Target, fixed: int) -> Iterator[Perturbations]:
        """The samples of the fit, a chunk at a time, if they fit in memory beside ``fixed`` bytes.

        The features of a chunk are gone when the next one comes.
        """
        graph, near, width = target.computation_graph, self.neighborhood, target.unit_width()
        what = f"{self.method} on {self.num_samples} samples"
        room = target.room(fixed, near.sample_bytes(graph, width), what)
        return near.chunks(graph, self.num_samples, self.seed, width=width, room=room, passing=True)

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """The neighbourhood, and the error on the samples of the fit."""
        return {
            "neighborhood": str(self.neighborhood),
            "in_sample_error": getattr(p, "in_sample_error", None),
        }
