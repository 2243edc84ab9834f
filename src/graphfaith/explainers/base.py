"""What every explainer here has in common: from PyG's call to a target, a fitted p, and an explanation."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplainerConfig, ModelConfig, ModelTaskLevel

from ..adapter import explain, make_target, single_node
from ..checks import check_count, check_real, check_seed
from ..difference import DifferenceModel
from ..errors import UnsupportedError
from ..neighborhood import Neighborhood, as_neighborhood
from ..target import Target

_LOG = logging.getLogger(__name__)


class FaithfulExplainer(ExplainerAlgorithm):  # type: ignore[misc]  # PyG is not typed
    """A method whose explanation is a local difference model p; to add one, write :meth:`fit`.

    Use it as any of PyG's: ``torch_geometric.explain.Explainer(model, algorithm=..., ...)``.
    """

    method: ClassVar[str]
    learns_mask: ClassVar[bool] = False  # whether scores are masks on the graph rather than derivatives of p

    def __init__(self, num_hops: int | None = None) -> None:
        super().__init__()
        self.num_hops = None if num_hops is None else check_count(num_hops, "num_hops")

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
        """Explain one node; called by PyG's ``Explainer``."""
        if isinstance(x, dict) or isinstance(edge_index, dict):
            raise UnsupportedError(f"{type(self).__name__} explains homogeneous graphs; x is a dictionary")
        node = single_node(index)
        explained = make_target(model, x, edge_index, node, target, self.model_config, self.num_hops, kwargs)
        p = self.fit(explained)
        node_score, edge_score = self.scores(p)
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

    def unsupported(self) -> str | None:
        """Why the connected settings cannot be used; None if they can."""
        level = self.model_config.task_level
        if level != ModelTaskLevel.node:
            return f"explains predictions of nodes (got task_level={level.value!r})"
        return None

    def supports(self) -> bool:
        """Whether the connected settings can be used; the reason, if not, is logged."""
        reason = self.unsupported()
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
        num_hops: M, the reach of the model; its number of message-passing layers if None.
        threshold: singular values below it are left out.
        seed: names the samples.
        relative: whether ``threshold`` is a share of the largest singular value.
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
    ) -> None:
        super().__init__(num_hops)
        self.neighborhood = as_neighborhood(neighborhood)
        self.num_samples, self.seed = check_count(num_samples, "num_samples"), check_seed(seed)
        self.threshold, self.relative = check_real(threshold, "threshold", least=0.0), relative

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """The neighbourhood, and the error on the samples of the fit."""
        return {
            "neighborhood": str(self.neighborhood),
            "in_sample_error": getattr(p, "in_sample_error", None),
        }
