"""The fits of methods at rows of a model's output, on whatever graph they are."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch_geometric.explain import Explainer

from ..explainers.base import Samples
from ..explainers.gnnexplainer import GNNExplainer
from ..explainers.methods import method_named
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood
from ..surrogate.difference import DifferenceModel, SubgraphModel

METHOD = "anchored-kec"
NEIGHBORHOOD = "U(A,0.5)"


@dataclass(frozen=True)
class Fit:
    """A method's p at a node, and the seconds from the graph to its scores, the ``shared`` ones included.

    ``shared`` is a node's part of the work that was done once for all nodes. ``scores`` are those of features, None if
    the method scores edges alone, and of entries of A, in the order of the computation graph.
    """

    p: DifferenceModel
    seconds: float
    shared: float = 0.0
    scores: tuple[Tensor | None, Tensor] | None = None


class Fitting(ABC):
    """A model on a graph, at whose rows methods are fitted and compared."""

    @abstractmethod
    def near(self, neighborhood: Neighborhood | str) -> Neighborhood:
        """Return the neighbourhood that a text means on this graph."""

    @abstractmethod
    def explainer(
        self, method: str, neighborhood: Neighborhood | str = NEIGHBORHOOD, *, samples: Samples = 200, seed: int = 0
    ) -> Explainer:
        """Return PyG's Explainer with the method of that name, which scores every feature and every edge."""

    @abstractmethod
    def target(self, index: int) -> Target:
        """Return F for a row of the output; a model or graph that cannot be explained is an error here."""

    @abstractmethod
    def _target_of(self, algorithm: Any, index: int) -> Target:
        """Return the F that an algorithm would explain at a row of the output."""

    def fit(
        self,
        method: str,
        index: int,
        neighborhood: Neighborhood | str = NEIGHBORHOOD,
        *,
        samples: Samples = 200,
        seed: int = 0,
    ) -> Fit:
        """Return a method's p for a row of the output, without an explanation around it."""
        return self._fit_by(self.explainer(method, neighborhood, samples=samples, seed=seed), index)

    def _fit_by(self, explainer: Explainer, index: int, shared: float = 0.0) -> Fit:
        started, algorithm = time.perf_counter(), explainer.algorithm
        target = self._target_of(algorithm, index)
        p: DifferenceModel = algorithm.fit(target)
        features, edges = algorithm.scores(p)
        scores = features if algorithm.scores_features(target) else None, edges
        return Fit(p, shared + time.perf_counter() - started, shared, scores)

    def fits(
        self,
        methods: Sequence[str],
        index: int,
        neighborhoods: Sequence[Neighborhood | str],
        *,
        samples: Samples = 200,
        seed: int = 0,
    ) -> dict[tuple[str, str], Fit]:
        """Return the fits by method and neighbourhood.

        A method that does not look at the neighbourhood is fitted once. The hard GNNExplainer is made from the soft
        one, if that comes before it.
        """
        fits: dict[tuple[str, str], Fit] = {}
        nears = {str(near): near for near in map(self.near, neighborhoods)}
        first = next(iter(nears))
        for method in methods:
            for text, near in nears.items():
                soft = fits.get(("gnnexplainer-soft", text))
                if text != first and not method_named(method).is_fitted:
                    fits[method, text] = fits[method, first]
                elif method == "gnnexplainer" and soft is not None and isinstance(soft.p, SubgraphModel):
                    fits[method, text] = Fit(GNNExplainer.harden(soft.p), soft.seconds)
                else:
                    fits[method, text] = self.fit(method, index, near, samples=samples, seed=seed)
        return fits
