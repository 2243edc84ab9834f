"""The base classes of methods that find a subgraph; the p that is scored is F(X_s, A_s) on the masked graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits
from torch_geometric.explain.algorithm.utils import clear_masks, set_hetero_masks
from torch_geometric.explain.config import ModelReturnType
from torch_geometric.nn import FastRGCNConv, HANConv, HGTConv, RGCNConv

from .._base.checks import check_count, check_real, check_seed
from .._base.errors import InputError, UnsupportedError
from .._base.randomness import seeded
from ..model.adapter import Adapter
from ..model.call import Edges
from ..model.home import fetch, home_of, send
from ..model.joint import JointModel
from ..model.layers import find_originals, message_passing_layers, remove_masks_afterwards, unwrap
from ..model.record import evaluating
from ..model.target import Target
from ..surrogate.difference import DifferenceModel, SubgraphModel
from .base import FaithfulExplainer

Silent = Literal["drop", "keep"]


class SubgraphExplainer(FaithfulExplainer):
    """A method that learns masks on the computation graph. The scores are the masks, which are between 0 and 1.

    PyG's masks multiply messages. They are 0 at silent edges: edges along which no message reaches the explained node,
    although they count in a degree. ``silent`` decides about such edges in A_s: "drop" removes them, as the paper does,
    and "keep" keeps their weight. Self-loops that a layer adds are not masked.
    """

    learns_mask = True

    def __init__(
        self,
        *,
        seed: int = 0,
        silent: Silent = "drop",
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(num_hops=num_hops, edges=edges, max_memory=max_memory)
        if silent not in get_args(Silent):
            raise InputError(f"silent must be one of {', '.join(get_args(Silent))} (got {silent!r})")
        self.silent, self.seed = silent, check_seed(seed)

    def scores(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor]:
        """Return the masks. Entries of A that the mask does not decide about stay in A_s, but their score is 0."""
        assert isinstance(p, SubgraphModel)
        assert p.edge_mask is not None
        # PyG's node mask may have one row or one column, which applies to all nodes or features.
        nodes = None if p.node_mask is None else p.node_mask.expand_as(p.graph.x)
        return nodes, torch.where(self.weighed(p.target), p.edge_mask, 0.0)

    def weighed(self, target: Target) -> Tensor:
        """Return which entries of A the mask decides about, [e]; the others keep their weight in A_s."""
        graph = target.computation_graph
        weighed = target.weighed_by_masks(int((graph.edge_id[graph.is_loop] >= 0).sum()) == graph.num_nodes)
        return weighed & graph.carries_message if self.silent == "keep" else weighed

    def _edge_mask(self, target: Target, learnt: Tensor, places: Tensor) -> Tensor:
        """Return the mask of all entries of A, [e], from the one learnt for the edges at ``places``."""
        mask = torch.ones_like(target.computation_graph.weight)
        mask[places] = learnt.to(mask.dtype)
        return torch.where(self.weighed(target), mask, 1.0)


class MaskLearner(SubgraphExplainer):
    """A method whose masks PyG learns by gradient descent."""

    def set_training(self, epochs: int, lr: float, coefficients: dict[str, Any], known: dict[str, Any]) -> None:
        """Check and keep how to train; ``coefficients`` must be among those that PyG's algorithm knows."""
        self.epochs, self.lr = check_count(epochs, "epochs"), check_real(lr, "lr", above=0.0)
        for name in coefficients:
            if name not in known:
                raise InputError(f"unknown coefficient {name!r}: PyG's are {', '.join(known)}")
        self.coefficients = coefficients

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that this method was made with, PyG's coefficients among them."""
        return {**super().settings, **self.coefficients}

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Return why the settings, or this model and graph, cannot be used: some layers have edges PyG cannot mask."""
        reason = super().unsupported(model, x, edge_index)
        masks_edges = self.connected is None or self.connected.edge_mask_type is not None
        if reason is not None or model is None or not masks_edges:
            return reason
        inner = unwrap(model)
        if isinstance(inner, Adapter) and inner.takes == "adjacency":
            return "masks messages along edges, and this model takes a matrix: use AnchoredKEC or Saliency"
        for layer in message_passing_layers(model):
            if isinstance(layer, HGTConv | HANConv):
                return (
                    f"is PyG's, which cannot mask {type(layer).__name__}, one layer for all edge types: use "
                    "HeteroConv, or a method without masks, such as AnchoredKEC"
                )
            if isinstance(layer, RGCNConv) and not isinstance(layer, FastRGCNConv):
                return (
                    "is PyG's, which cannot mask RGCNConv, because it passes the messages of one relation after the "
                    "other: use FastRGCNConv, which has the same parameters, or a method without masks, such as "
                    "AnchoredKEC"
                )
        return None

    def _call(self, target: Target) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
        """Return the arguments of PyG's algorithms on the computation graph, and the places of their edges in A."""
        graph = target.computation_graph
        if torch.finfo(graph.x.dtype).bits < 32:
            # PyG's masks have single precision, and so have masked features, which such a model does not take.
            raise UnsupportedError(
                f"{self.method} learns masks in single precision, and x is {graph.x.dtype}: pass model.float() and "
                "x.float()"
            )
        places = ((graph.edge_id >= 0) & graph.felt).nonzero().view(-1)
        # For the gradients of the training, torch keeps a few numbers for every edge and unit of a layer.
        target.room(0, 8 * 8 * graph.num_edges * target.width(), f"{self.epochs} epochs of {self.method}")
        kwargs, rows = target.call.arguments_at(places)
        if target.graph.is_weighted:
            kwargs["edge_weight"] = graph.weight[places]
        labels = target.call.output
        if target.labels is not None:
            if target.labels.dim() > 1:
                raise UnsupportedError(f"{self.method} explains outputs with one class per row, not several")
            labels = torch.zeros(len(target.call.output), dtype=torch.int64)
            labels[rows] = target.labels
        edges, home = target.call.edges_at(places), target.call.home
        x, edges = send(graph.x, home), send(edges, home)
        kwargs = {name: send(value, home) for name, value in kwargs.items()}
        if isinstance(target.model, JointModel):
            return *self._call_typed(target.model, x, edges, kwargs, labels, rows), places
        named = {"target": send(labels, home), "index": send(rows, home), **kwargs}
        return (target.call.on_matrix, x, edges), named, places

    def _call_typed(
        self, model: JointModel, x: Tensor, edges: Tensor, kwargs: dict[str, Any], labels: Tensor, rows: Tensor
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of PyG's algorithms on a heterogeneous graph, by type."""
        split = model.split(kwargs["node_place"], kwargs["edge_place"])
        of_x, of_edges, named = model.inputs(split, x, edges, **kwargs)
        if model.node_type is not None:
            places = split.nodes[model.kinds.node_types.index(model.node_type)]
            labels, rows = labels[fetch(places)], fetch(split.local)[rows]
        inputs = WithEmpty.of(model.model, of_x, of_edges)
        return inputs, {"target": send(labels, x.device), "index": send(rows, x.device), **named}

    def _masks_of(self, target: Target, learnt: Any, places: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the masks that PyG has learnt of nodes, [n, d], and of the edges at ``places``; None if none."""
        if not isinstance(target.model, JointModel):
            return fetch(learnt.get("node_mask")), fetch(learnt.get("edge_mask"))
        kwargs, _ = target.call.arguments_at(places)
        split = target.model.split(kwargs["node_place"], kwargs["edge_place"])
        nodes, edges = (
            {key: fetch(mask) for key, mask in learnt.collect(name, True).items() if mask is not None}
            for name in ("node_mask", "edge_mask")
        )
        return split.join_nodes(nodes) if nodes else None, split.join_edges(edges) if edges else None


class WithEmpty(torch.nn.Module):
    """A heterogeneous model that is given the types which have nodes or edges here, and adds the others.

    PyG's explainers fail at the largest entry of a mask without entries.
    """

    def __init__(self, model: torch.nn.Module, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> None:
        super().__init__()
        self.model, self._x, self._edges = model, x, edges

    @classmethod
    def of(cls, model: torch.nn.Module, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> tuple[Any, ...]:
        """Return the model, and its features and edges of the types that have some."""
        there = {key: rows for key, rows in x.items() if rows.numel()}, {k: e for k, e in edges.items() if e.numel()}
        return cls(model, x, edges), *there

    def read(self, x: dict[str, Tensor], edges: dict[Any, Tensor], **named: Any) -> tuple[Any, ...]:
        """Return what is there of the types that the output depends on; all of it if it depends on no such type.

        PyG's GNNExplainer fails at a mask without a derivative: the output of a model of one layer, for example, does
        not depend on edges that lead to nodes of another type.
        """
        features = {key: rows.detach().requires_grad_() for key, rows in x.items()}
        masks = {kind: torch.ones(ends.size(1), device=ends.device, requires_grad=True) for kind, ends in edges.items()}
        set_hetero_masks(self.model, masks, edges, apply_sigmoid=False)
        try:
            out = self(features, edges, **named)
            slopes = torch.autograd.grad(out.sum(), [*features.values(), *masks.values()], allow_unused=True)
        finally:
            clear_masks(self.model)
        known = dict(zip((*features, *masks), slopes, strict=True))
        kept = tuple({key: one for key, one in part.items() if known[key] is not None} for part in (x, edges))
        return tuple(own or part for own, part in zip(kept, (x, edges), strict=True))

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor], **named: Any) -> Tensor:
        """Return the model's output; types are in the order in which they are numbered."""
        every = {key: x.get(key, rows) for key, rows in self._x.items()}
        out: Tensor = self.model(every, {key: edges.get(key, e) for key, e in self._edges.items()}, **named)
        return out


def use_own_precision(algorithm: Any) -> None:
    """Let an algorithm of PyG compare outputs with binary labels in the precision of the model.

    PyG makes these labels single numbers, which torch refuses to compare with probabilities of another precision.
    """
    functions = {ModelReturnType.raw: binary_cross_entropy_with_logits, ModelReturnType.probs: binary_cross_entropy}
    measure = functions.get(algorithm.model_config.return_type)
    if measure is not None:
        algorithm._loss_binary_classification = lambda out, y: measure(out.view_as(y), y.to(out.dtype))


@contextmanager
def leave_untouched(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Run PyG's training with the seed ``seed``, and restore the model and the random state afterwards.

    Without this, PyG's explainers change the gradients of the model's parameters, and leave a mask among them.
    """
    with (
        evaluating(model),  # before the random numbers: threads must take the two locks in one order
        seeded(seed, home_of(model)),
        torch.enable_grad(),
        remove_masks_afterwards(model),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Converting a tensor with requires_grad=True")
        find_originals(message_passing_layers(model))
        # Another thread may have frozen the parameters until now, so they are listed in here.
        trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
        try:
            for parameter in trainable:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trainable:
                parameter.requires_grad_(True)
