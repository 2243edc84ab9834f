"""Subgraph explanations: PyG's own GNNExplainer and PGExplainer, turned into the p = F(X_s, A_s) that is scored."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch_geometric.explain import algorithm as pyg
from torch_geometric.explain.config import ExplainerConfig, ModelTaskLevel
from torch_geometric.utils import get_embeddings, k_hop_subgraph

from .._base.checks import check_count, check_real, check_seed
from .._base.errors import InputError, UnsupportedError
from ..model.layers import evaluating, unmasked_afterwards
from ..model.target import Target
from ..surrogate.difference import DifferenceModel, SubgraphModel
from .base import FaithfulExplainer

Silent = Literal["drop", "keep"]


class SubgraphExplainer(FaithfulExplainer):
    """A method that learns masks on the computation graph; scores are the masks, between 0 and 1.

    The masks of PyG multiply messages. They give 0 to an edge along which no message reaches the node, though it
    counts in a degree; ``silent`` says what becomes of such edges in A_s: "drop" takes the 0 as it is, as the paper
    does, "keep" leaves them their weight. Self-loops that a layer adds are not masked.
    """

    learns_mask = True

    def __init__(
        self, epochs: int, lr: float, num_hops: int | None, seed: int, silent: Silent, options: dict[str, Any]
    ) -> None:
        super().__init__(num_hops, **{name: options.pop(name) for name in ("edges", "max_memory") if name in options})
        if silent not in get_args(Silent):
            raise InputError(f"silent must be one of {', '.join(get_args(Silent))} (got {silent!r})")
        self.silent = silent
        self.epochs, self.seed = check_count(epochs, "epochs"), check_seed(seed)
        self.lr = check_real(lr, "lr", above=0.0)

    def scores(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor]:
        """The masks; what they do not weigh stays in A_s, but has no score."""
        assert isinstance(p, SubgraphModel)
        assert p.edge_mask is not None
        # A node mask of one row or column is laid out over the computation graph.
        nodes = None if p.node_mask is None else p.node_mask.expand_as(p.graph.x)
        return nodes, torch.where(self.weighed(p.target), p.edge_mask, 0.0)

    def _call(self, target: Target) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
        """What PyG's algorithms are called with on the computation graph, and the places of their edges in A."""
        graph = target.computation_graph
        places = ((graph.edge_id >= 0) & graph.felt).nonzero().view(-1)
        # Learning keeps what a layer computes for its gradient: a few numbers an edge and unit.
        target.room(0, 8 * 8 * graph.num_edges * target.width(), f"{self.epochs} epochs of {self.method}")
        kwargs, rows = target.call.arguments_at(places)
        if target.graph.edge_weight is not None:
            kwargs["edge_weight"] = graph.weight[places]
        labels = target.call.output
        if target.labels is not None:
            if target.labels.dim() > 1:
                raise UnsupportedError(f"{self.method} explains outputs of one class a row, not of several")
            labels = torch.zeros(len(target.call.output), dtype=torch.int64)
            labels[rows] = target.labels
        edges = target.call.edges_at(places)
        return (target.model, graph.x, edges), {"target": labels, "index": rows, **kwargs}, places

    def weighed(self, target: Target) -> Tensor:
        """[e] the entries of A that the mask decides; the others keep their weight in A_s."""
        graph = target.computation_graph
        weighed = target.weighed_by_masks(int((graph.edge_id[graph.is_loop] >= 0).sum()) == graph.num_nodes)
        return weighed & graph.carries_message if self.silent == "keep" else weighed

    def _edge_mask(self, target: Target, learnt: Tensor, places: Tensor) -> Tensor:
        mask = torch.ones_like(target.computation_graph.weight)
        mask[places] = learnt.to(mask.dtype)
        return torch.where(self.weighed(target), mask, 1.0)


class GNNExplainer(SubgraphExplainer):
    """PyG's GNNExplainer (Definition 2.3). ``hard`` drops edges under 0.5; otherwise A_s = A * mask ("soft")."""

    def __init__(
        self,
        hard: bool = False,
        epochs: int = 100,
        lr: float = 0.01,
        num_hops: int | None = None,
        seed: int = 0,
        silent: Silent = "drop",
        **coefficients: Any,
    ) -> None:
        super().__init__(epochs, lr, num_hops, seed, silent, coefficients)
        self.hard = hard
        self.coefficients = _known(coefficients, pyg.GNNExplainer.default_coeffs)

    @property
    def method(self) -> str:  # type: ignore[override]
        """The name used in the paper's tables."""
        return "GNNExplainer" if self.hard else "GNNExplainer (soft)"

    def fit(self, target: Target) -> SubgraphModel:
        """Learn the masks."""
        args, kwargs, places = self._call(target)
        algorithm = pyg.GNNExplainer(epochs=self.epochs, lr=self.lr)
        algorithm.coeffs = {**pyg.GNNExplainer.default_coeffs, **self.coefficients}
        algorithm.connect(self.explainer_config, self.model_config)
        with _untouched(target.model, self.seed):
            found = algorithm(*args, **kwargs)
        nodes, edges = found.get("node_mask"), found.get("edge_mask")
        learnt = torch.ones(len(places)) if edges is None else edges
        p = SubgraphModel(target, nodes, self._edge_mask(target, learnt, places))
        return self.hardened(p) if self.hard else p

    @staticmethod
    def hardened(p: SubgraphModel) -> SubgraphModel:
        """The hard explanation, given the soft one: edges under 0.5 are dropped, and the others whole."""
        assert p.edge_mask is not None
        return SubgraphModel(p.target, p.node_mask, (p.edge_mask >= 0.5).to(p.edge_mask.dtype))


class RankedSubgraphModel(SubgraphModel):
    """A subgraph of the edges that rank highest, with what they were ranked by: ``ranking``, [e], from 0 to 1."""

    def __init__(self, target: Target, edge_mask: Tensor, ranking: Tensor) -> None:
        super().__init__(target, None, edge_mask)
        self.ranking = ranking


class PGExplainer(SubgraphExplainer):
    """PyG's PGExplainer, keeping the edges with the largest scores: a share ``keep`` of those it weighs.

    It is trained on the node it explains, unless :meth:`train_on` has trained it on several nodes together. It has
    no opinion on features: X_s = X.
    """

    method = "PGExplainer"

    def __init__(
        self,
        epochs: int = 30,
        lr: float = 0.003,
        keep: float = 0.135,
        num_hops: int | None = None,
        seed: int = 0,
        silent: Silent = "drop",
        **coefficients: Any,
    ) -> None:
        super().__init__(epochs, lr, num_hops, seed, silent, coefficients)
        self.keep = check_real(keep, "keep", above=0.0)
        if self.keep > 1:
            raise InputError(f"keep must be at most 1, a share of the edges (got {keep!r})")
        self.coefficients = _known(coefficients, pyg.PGExplainer.coeffs)
        self._jointly: pyg.PGExplainer | None = None
        self._trained_for: torch.nn.Module | None = None

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """What PyG's PGExplainer cannot do, beside what no method here can."""
        if self.model_config.task_level == ModelTaskLevel.edge:
            return "explains nodes and graphs; PyG's PGExplainer has no way to tell it of a pair of nodes"
        return super().unsupported(model, x, edge_index)

    def train_on(
        self,
        model: torch.nn.Module,
        x: Tensor,
        edge_index: Tensor,
        nodes: Sequence[int],
        *,
        target: Tensor,
        **kwargs: Any,
    ) -> None:
        """Train one explainer on all of ``nodes`` (graphs of a batch, at graph level).

        ``target`` has the class of every node of the graph, or of every graph.
        """
        if not len(nodes):
            raise InputError("train_on needs at least one node")
        targets = [self.target(model, x, edge_index, int(v), target, kwargs) for v in nodes]
        with _untouched(model, self.seed):
            self._jointly, self._trained_for = self._train(targets), model

    def fit(self, target: Target) -> RankedSubgraphModel:
        """Train if need be, score the edges, keep the best; what the learnt scores were stays with p."""
        if self._jointly is not None and self._trained_for is not target.model:
            raise InputError("this PGExplainer was trained on nodes of another model: make a new one")
        with _untouched(target.model, self.seed):
            algorithm = self._train([target]) if self._jointly is None else self._jointly
            args, kwargs, places = self._call(target)
            _see_as_target(algorithm, target)
            learnt = algorithm(*args, **kwargs).edge_mask
        weighed = self.weighed(target)[places]
        count = math.ceil(int(weighed.sum()) * self.keep)
        ranked = torch.where(weighed, learnt, -1.0).argsort(descending=True, stable=True)
        kept = torch.zeros_like(learnt)
        kept[ranked[:count]] = 1
        return RankedSubgraphModel(
            target, self._edge_mask(target, kept, places), self._edge_mask(target, learnt, places)
        )

    def _train(self, targets: list[Target]) -> pyg.PGExplainer:
        algorithm = pyg.PGExplainer(epochs=self.epochs, lr=self.lr)
        # PyG keeps the coefficients in one dictionary for all instances; this one gets its own.
        algorithm.coeffs = {**copy.deepcopy(pyg.PGExplainer.coeffs), **self.coefficients}
        algorithm.connect(ExplainerConfig("phenomenon", None, "object"), self.model_config)
        for target in targets:
            if target.task.level == "node" and len(target.readout.rows) > 1:
                raise UnsupportedError(f"{self.method} explains one node at a time: see explain_nodes")
        calls = [(target, *self._call(target)) for target in targets]
        for epoch in range(self.epochs):
            for target, args, kwargs, _ in calls:
                _see_as_target(algorithm, target)
                algorithm.train(epoch, *args, **kwargs)
        return algorithm


def _known(coefficients: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    for name in coefficients:
        if name not in defaults:
            raise InputError(f"unknown coefficient {name!r}: PyG's are {', '.join(defaults)}")
    return coefficients


def _see_as_target(algorithm: pyg.PGExplainer, target: Target) -> None:
    """Let PGExplainer see embeddings of the whole graph, and as many hops as the model's messages go.

    Embeddings of the computation graph alone are wrong for every node but the explained one, and PyG would compute
    them anew in each epoch. Hops it would count by layers, of which some have several.
    """
    args, kwargs = target.whole.arguments()
    whole = target.whole.remembered("embeddings", lambda: get_embeddings(target.model, *args, **kwargs)[-1])
    part = whole[target.computation_graph.nodes].float()  # the precision of PyG's network

    def within_reach(_: torch.nn.Module, index: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[None, Tensor]:
        flow = target.graph.flow
        return None, k_hop_subgraph(index, target.num_hops, edge_index, num_nodes=num_nodes, flow=flow)[3]

    algorithm._get_embeddings = lambda *_, **__: part
    algorithm._get_hard_masks = within_reach


@contextmanager
def _untouched(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Run PyG's training with a seed of its own, and leave model and random state as they were found.

    PyG's explainers add to the gradients of the model's parameters, and register their mask as one of them.
    """
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with (
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
        evaluating(model),
        unmasked_afterwards(model),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Converting a tensor with requires_grad=True")
        torch.manual_seed(seed)
        try:
            for parameter in wanted:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in wanted:
                parameter.requires_grad_(True)
