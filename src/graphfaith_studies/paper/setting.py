"""A model on a graph, ready to be explained node by node; what nodes share is done once in a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

from graphfaith.compare import FITTED, explainer_for, target_for, timed_fit, train_together
from graphfaith.data import MOTIF_DATASETS
from graphfaith.data.models import trained
from graphfaith.explainers import GNNExplainer
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import Neighborhood, as_neighborhood
from graphfaith.surrogate.difference import DifferenceModel, SubgraphModel


@dataclass
class Fit:
    """A method's p at a node, and the seconds from the graph to its scores, the ``shared`` ones among them.

    ``shared`` is a node's part of what was done once for all nodes.
    """

    p: DifferenceModel
    seconds: float
    shared: float = 0.0


@dataclass
class Setting:
    """A model and its graph. ``together`` are the nodes that PGExplainer is trained on; None: each by itself."""

    model: nn.Module
    data: Data
    test_accuracy: float
    together: tuple[int, ...] | None = None
    return_type: str = "raw"
    _joint: tuple[Explainer, float] | None = field(default=None, init=False, repr=False)

    @cached_property
    def labels(self) -> Tensor:
        """The class of every node, by the model."""
        with torch.no_grad():
            predicted: Tensor = self.model(self.data.x, self.data.edge_index)
        return predicted.argmax(dim=-1)

    def target(self, node: int) -> Target:
        """F for a node: the output of the class that the model gives it."""
        return target_for(self._explainer("saliency", "U(A,0.5)", 1, 0), self.model, self.data, node, self.labels)

    def fit(self, method: str, node: int, near: Neighborhood | str, samples: int = 200, seed: int = 0) -> Fit:
        """What a method of :data:`~graphfaith.compare.METHODS` makes of a node."""
        shared = 0.0
        if method == "pgexplainer" and self.together is not None:
            explainer, shared = self._jointly_trained(seed)
        else:
            explainer = self._explainer(method, near, samples, seed)
        p, seconds = timed_fit(explainer, self.model, self.data, node, self.labels)
        return Fit(p, shared + seconds, shared)

    def fits(
        self, methods: Sequence[str], node: int, nears: Sequence[str], samples: int = 200, seed: int = 0
    ) -> dict[tuple[str, str], Fit]:
        """By method and neighbourhood. What does not look at the neighbourhood is made once, and so are masks that
        GNNExplainer takes as they are (soft) or rounded.
        """
        found: dict[tuple[str, str], Fit] = {}
        for method in methods:
            for near in nears:
                if method in FITTED or near == nears[0]:
                    soft = found.get(("gnnexplainer-soft", near))
                    if method == "gnnexplainer" and soft is not None and isinstance(soft.p, SubgraphModel):
                        found[method, near] = Fit(GNNExplainer.hardened(soft.p), soft.seconds)
                    else:
                        found[method, near] = self.fit(method, node, near, samples, seed)
                else:
                    found[method, near] = found[method, nears[0]]
        return found

    def _explainer(self, method: str, near: Neighborhood | str, samples: int, seed: int) -> Explainer:
        return explainer_for(
            self.model, method, as_neighborhood(near), samples=samples, seed=seed, return_type=self.return_type
        )

    def _jointly_trained(self, seed: int) -> tuple[Explainer, float]:
        """PGExplainer trained on all of the nodes, and the seconds of that, for each of them."""
        assert self.together is not None
        if self._joint is None:
            explainer = self._explainer("pgexplainer", "U(A,0.5)", 1, seed)
            self._joint = explainer, train_together(explainer, self.model, self.data, self.together, self.labels)
        return self._joint


@lru_cache(maxsize=2)
def setting(
    dataset: str, model_seed: int = 0, together: tuple[int, ...] | None = None, *, normalize: bool = True
) -> Setting:
    """The paper's model of a data set, trained with that seed or taken from the cache.

    ``together`` are the nodes of the experiment; on motifs the paper trains PGExplainer on all of them.
    """
    fit = trained(dataset, seed=model_seed, normalize=normalize)
    return Setting(fit.model, fit.data, fit.test_accuracy, together if dataset in MOTIF_DATASETS else None)
