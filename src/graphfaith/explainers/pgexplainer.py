"""PGExplainer: a network, trained by PyG's own algorithm, scores every edge, and the edges with top scores are kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import algorithm as pyg
from torch_geometric.explain.config import ExplainerConfig, ModelTaskLevel
from torch_geometric.utils import get_embeddings, get_embeddings_hetero, k_hop_subgraph

from .._base.checks import check_real
from .._base.errors import InputError, UnsupportedError
from ..graph.kinds import EdgeType
from ..model.call import Edges
from ..model.home import PROCESSOR, fetch, send
from ..model.joint import JointModel
from ..model.target import Target
from ..surrogate.difference import SubgraphModel
from .subgraph import MaskLearner, Silent, leave_untouched, use_own_precision


class RankedSubgraphModel(SubgraphModel):
    """The subgraph of the edges with the highest scores, and the scores of all edges as ``ranking``, [e], in [0, 1]."""

    def __init__(self, target: Target, edge_mask: Tensor, ranking: Tensor) -> None:
        super().__init__(target, None, edge_mask)
        self.ranking = ranking


class PGExplainer(MaskLearner):
    """PyG's PGExplainer. The subgraph consists of the edges with the largest scores.

    The network is trained on the explained node, unless :meth:`train_on` has trained it on several nodes together.
    Features are not scored: X_s = X.

    Args:
        epochs: how many epochs to train.
        lr: the learning rate.
        keep: the share of the scored edges that is kept.
        seed: the seed of PyG's network.
        silent: see :class:`~graphfaith.explainers.subgraph.SubgraphExplainer`.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
        coefficients: PyG's coefficients of the loss, such as ``edge_size``.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="pgexplainer")
    >>> explanation.method, explanation.edge_mask.shape
    ('PGExplainer', torch.Size([4]))
    """

    method = "PGExplainer"

    def __init__(
        self,
        *,
        epochs: int = 30,
        lr: float = 0.003,
        keep: float = 0.135,
        seed: int = 0,
        silent: Silent = "drop",
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
        **coefficients: Any,
    ) -> None:
        super().__init__(seed=seed, silent=silent, num_hops=num_hops, edges=edges, max_memory=max_memory)
        self.set_training(epochs, lr, coefficients, pyg.PGExplainer.coeffs)
        self.keep = check_real(keep, "keep", above=0.0)
        if self.keep > 1:
            raise InputError(f"keep must be at most 1, a share of the edges (got {keep!r})")
        self._jointly: pyg.PGExplainer | None = None
        self._trained_for: torch.nn.Module | None = None

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Return why the model cannot be explained, or None; PyG's PGExplainer does not explain pairs of nodes."""
        if self.connected is not None and self.model_config.task_level == ModelTaskLevel.edge:
            return "explains nodes and graphs, but not edges: PyG's PGExplainer has no argument for a pair of nodes"
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
        """Train one network on all of ``nodes``; at graph level, these are graphs of a batch.

        ``target`` has the class of every node of the graph, or of every graph of the batch.
        """
        if not len(nodes):
            raise InputError("train_on needs at least one node")
        targets = [self.target(model, x, edge_index, int(v), target, kwargs) for v in nodes]
        with leave_untouched(model, self.seed):
            self._jointly, self._trained_for = self._train(targets), model

    def fit(self, target: Target) -> RankedSubgraphModel:
        """Return F on the edges with the largest scores; the network is trained first, if it was not trained before."""
        if self._jointly is not None and self._trained_for is not target.model:
            raise InputError("this PGExplainer was trained on nodes of another model: create a new one for this model")
        with leave_untouched(target.model, self.seed):
            algorithm = self._train([target]) if self._jointly is None else self._jointly
            args, kwargs, places = self._call(target)
            _adapt_to_target(algorithm, target)
            _, learnt = self._masks_of(target, algorithm(*args, **kwargs), places)
            assert learnt is not None
        weighed = self.weighed(target)[places]
        count = math.ceil(int(weighed.sum()) * self.keep)
        ranked = torch.where(weighed, learnt, -1.0).argsort(descending=True, stable=True)
        selected = torch.zeros_like(learnt)
        selected[ranked[:count]] = 1
        return RankedSubgraphModel(
            target, self._edge_mask(target, selected, places), self._edge_mask(target, learnt, places)
        )

    def _train(self, targets: list[Target]) -> pyg.PGExplainer:
        """Return PyG's explainer, trained on all targets."""
        algorithm = pyg.PGExplainer(epochs=self.epochs, lr=self.lr)
        # All instances of PyG's class share one dictionary of coefficients, so this one gets a copy.
        algorithm.coeffs = {**copy.deepcopy(pyg.PGExplainer.coeffs), **self.coefficients}
        algorithm.connect(ExplainerConfig("phenomenon", None, "object"), self.model_config)
        use_own_precision(algorithm)
        for target in targets:
            if target.task.level == "node" and len(target.readout.rows) > 1:
                raise UnsupportedError(f"{self.method} explains one node at a time: see explain_nodes")
        calls = [(target, *self._call(target)) for target in targets]
        _move_network(algorithm, targets[0])
        for epoch in range(self.epochs):
            for target, args, kwargs, _ in calls:
                _adapt_to_target(algorithm, target)
                algorithm.train(epoch, *args, **kwargs)
        return algorithm


def _move_network(algorithm: pyg.PGExplainer, target: Target) -> None:
    """Move PyG's network to where the model lives; its width is found on the processor, because it must be known."""
    if target.call.home != PROCESSOR:
        _adapt_to_target(algorithm, target)
        found = algorithm._get_embeddings()
        rows = next(iter(found.values())) if isinstance(found, dict) else found  # all types have as many numbers
        width = rows.size(1) * (3 if target.task.level == "node" else 2)
        algorithm.mlp(torch.zeros(1, width))
        algorithm.to(target.call.home)


def _adapt_to_target(algorithm: pyg.PGExplainer, target: Target) -> None:
    """Let PyG's PGExplainer use embeddings of the whole graph, and as many hops as the model's messages go.

    Embeddings computed on the computation graph alone are wrong for every node except the explained one, and PyG would
    compute them again in every epoch. PyG also counts one hop per layer, but the messages of some layers go further.
    """
    if isinstance(target.model, JointModel):
        _adapt_to_types(algorithm, target, target.model)
        return
    args, kwargs = target.whole.arguments()
    facts, home = target.whole.facts, target.call.home
    if facts.embeddings is None:
        named = {name: send(value, home) for name, value in kwargs.items()}
        facts.embeddings = fetch(get_embeddings(target.model, *(send(value, home) for value in args), **named)[-1])
    # PyG's network is in single precision.
    part = send(facts.embeddings[target.computation_graph.nodes].float(), home)

    def within_reach(_: torch.nn.Module, index: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[None, Tensor]:
        flow = target.graph.flow
        return None, k_hop_subgraph(index, target.num_hops, edge_index, num_nodes=num_nodes, flow=flow)[3]

    algorithm._get_embeddings = lambda *_, **__: part
    algorithm._get_hard_masks = within_reach


def _adapt_to_types(algorithm: pyg.PGExplainer, target: Target, model: JointModel) -> None:
    """Do the same on a heterogeneous graph, where PyG takes the explained node for one of each edge's source type.

    A type without embeddings has zeros, and those of fewer numbers are filled up with zeros.
    """
    (x, edge_index), kwargs = target.whole.arguments()
    facts, home, part = target.whole.facts, target.call.home, target.computation_graph
    if facts.embeddings is None:
        named = {name: send(value, home) for name, value in kwargs.items()}
        split = model.split(named["node_place"], named["edge_place"])
        of_x, of_edges, named = model.inputs(split, send(x, home), send(edge_index, home), **named)
        found = get_embeddings_hetero(model.model, None, of_x, of_edges, **named)
        last = {name: fetch(layers[-1]) for name, layers in found.items() if layers}
        width = max((rows.size(1) for rows in last.values()), default=1)
        facts.embeddings = torch.zeros(len(x), width)
        for name, places in zip(model.kinds.node_types, split.nodes, strict=True):
            if name in last:
                facts.embeddings[fetch(places), : last[name].size(1)] = last[name].float()
    kwargs, rows = target.call.arguments_at(slice(None))
    split = model.split(kwargs["node_place"], kwargs["edge_place"])
    rows_of = facts.embeddings[part.nodes]
    by_type = {name: send(rows_of[p], home) for name, p in zip(model.kinds.node_types, split.nodes, strict=True)}
    own = send(rows_of[rows], home)

    def inputs(embeddings: dict[str, Tensor], kind: EdgeType, edges: Tensor, index: Any = None) -> Tensor:
        ends = [embeddings[kind[0]][edges[0]], embeddings[kind[2]][edges[1]]]
        return torch.cat([*ends, *([own[:1].expand(edges.size(1), -1)] if index is not None else [])], dim=-1)

    def every(_: torch.nn.Module, __: Tensor, edges: Tensor, num_nodes: int) -> tuple[None, Tensor]:  # noqa: ARG001
        return None, torch.ones(edges.size(1), dtype=torch.bool, device=edges.device)

    algorithm._get_embeddings = lambda *_, **__: by_type
    algorithm._get_inputs_hetero = inputs
    algorithm._get_hard_masks = every
