"""What a command explains: a model on a graph, what its output means, and how to take it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, Explanation

from ._base.checks import check_count
from ._base.memory import parse_memory
from .compare import METHODS, Samples
from .metric.unfaithfulness import general_unfaithfulness
from .model.arguments import arguments_for
from .model.call import check_edges
from .model.target import Target
from .model.task import Task
from .sampling.neighborhood import Neighborhood, as_neighborhood


@dataclass(frozen=True)
class Options:
    """How F is taken: the options that every method has (:class:`~graphfaith.explainers.base.FaithfulExplainer`)."""

    num_hops: int | None = None
    edges: str = "auto"
    max_memory: str | None = None

    def __post_init__(self) -> None:
        """Check them before anything is read or trained."""
        if self.num_hops is not None:
            check_count(self.num_hops, "num_hops")
        check_edges(self.edges)
        parse_memory(self.max_memory)


@dataclass(frozen=True)
class Subject:
    """A model and a graph, explained one row of the output at a time.

    >>> from torch_geometric.nn import GAT
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> subject = Subject(GAT(2, 4, 2, out_channels=3), Data(x=torch.eye(4)[:, :2], edge_index=ring))
    >>> explanation = subject.explain(1, "saliency", "B(A,0.5)")
    >>> explanation.edge_route, explanation.unfaithfulness.num_samples
    ('mask', 500)
    """

    model: torch.nn.Module
    data: Data
    task: Task = field(default_factory=Task)
    options: Options = field(default_factory=Options)

    def target(self, index: int) -> Target:
        """F for a row of the output; a model that cannot be explained, or not on this graph, is an error here."""
        words: dict[str, Any] = {**asdict(self.task), **asdict(self.options), **arguments_for(self.model, self.data)}
        return Target(self.model, self.data.x, self.data.edge_index, index, **words)

    def explainer(
        self, method: str, neighborhood: Neighborhood | str, samples: Samples = 200, seed: int = 0
    ) -> Explainer:
        """PyG's Explainer with the method of that name, scoring every feature and every edge."""
        algorithm = METHODS[method](as_neighborhood(neighborhood), samples, seed)
        algorithm.num_hops, algorithm.edges = self.options.num_hops, check_edges(self.options.edges)
        algorithm.max_memory = parse_memory(self.options.max_memory)
        return Explainer(
            self.model,
            algorithm=algorithm,
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config={
                "mode": self.task.mode,
                "task_level": self.task.level,
                "return_type": self.task.return_type,
            },
        )

    def explain(
        self,
        index: int,
        method: str,
        neighborhood: Neighborhood | str,
        samples: Samples = 200,
        test_samples: int = 500,
        seed: int = 0,
    ) -> Explanation:
        """An explanation with its score on samples of the next seed, its names and the seconds it took."""
        explainer = self.explainer(method, neighborhood, samples, seed)
        arguments = arguments_for(self.model, self.data)
        started = time.perf_counter()
        explanation = explainer(self.data.x, self.data.edge_index, index=index, **arguments)
        explanation.seconds = time.perf_counter() - started
        explanation.unfaithfulness = general_unfaithfulness(
            explainer, explanation, neighborhood, test_samples, seed + 1
        )
        return explanation.name(self.data.get("node_names"), self.data.get("feature_names"))
