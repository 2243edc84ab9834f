"""Explanations of heterogeneous graphs as PyG's ``HeteroExplanation``, and the same as one explanation of one graph.

Scores are computed, measured, stored and drawn on the joint graph (:mod:`graphfaith.graph.kinds`). A
:class:`TypedExplanation` has them in PyG's masks by type; :func:`as_one` reads any ``HeteroExplanation``, whoever made
it, as an explanation of the joint graph.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation, HeteroExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import MaskType

from .._base.errors import GraphfaithError, InputError
from ..graph.joint import join_attributes, kinds_of, starts_of
from ..graph.kinds import EdgeType, Kinds
from ..model.call import Edges
from ..model.joint import Joint, arguments_of, join
from .faithfulness import NOT_MEASURED, faithfulness_by_kind
from .scores import Sign, strongest
from .signed import OF_P, SignedExplanation, attributes_by_edge

if TYPE_CHECKING:
    import networkx as nx

    from .what_if import WhatIf
    from .words import Headline

_OF_NODES, _OF_EDGES = ("node_mask", "node_stderr"), ("edge_mask", "edge_stderr")
_OF_ATTRIBUTES = "edge_attr_score"
_OF_LOOPS = ("self_loop_score", "self_loop_stderr")
_ROWS = ("target", "prediction")  # They have a row for each row of the model's output.
_SCORED = ("unfaithfulness", "measurements", "scored_digest")


class TypedEdge(NamedTuple):
    """An edge of a heterogeneous graph and its score; its ends are numbered within their types."""

    edge_type: EdgeType
    source: int
    sink: int
    score: float


class TypedNode(NamedTuple):
    """A node of a heterogeneous graph and its score."""

    node_type: str
    node: int
    score: float


class TypedFeature(NamedTuple):
    """A feature of a node of a heterogeneous graph and its score."""

    node_type: str
    node: int
    column: int
    score: float


class TypedAttribute(NamedTuple):
    """An attribute of an edge of a heterogeneous graph and its score."""

    edge_type: EdgeType
    source: int
    sink: int
    column: int
    score: float


class TypedExplanation(HeteroExplanation):  # type: ignore[misc]  # PyG is not typed
    """An explanation of a heterogeneous graph, with signed scores in PyG's masks by type.

    >>> import graphfaith as gf
    >>> from torch_geometric.explain import HeteroExplanation
    >>> issubclass(gf.TypedExplanation, HeteroExplanation)
    True
    """

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field that is not of one type."""
        return self._global_store.get(key, default)

    def joint(self) -> SignedExplanation:
        """Return the same as an explanation of the joint graph: the nodes of all types one after another."""
        return as_one(self)

    def top_edges(self, k: int | None = 10, sign: Sign | None = None) -> list[TypedEdge]:
        """Return the ``k`` edges of largest ``|score|``, strongest first; see :func:`~.signed.top_edges`."""
        one = as_one(self)
        if one.get("edge_mask") is None:
            return []
        kinds: Kinds = one.kinds
        scores = one.edge_mask.double()
        places = strongest(scores, k, sign)
        found = []
        for edge in places.tolist():
            kind = int(kinds.of_edges(torch.tensor([edge])))
            starts = [kinds.node_start[end] for end in kinds.ends(kind)]
            source, sink = one.edge_index[:, edge].tolist()
            found.append(TypedEdge(kinds.edge_types[kind], source - starts[0], sink - starts[1], float(scores[edge])))
        return found

    def top_nodes(self, k: int | None = 10, sign: Sign | None = None) -> list[TypedNode]:
        """Return the ``k`` nodes of largest ``|score|``, strongest first; see :func:`~.signed.top_nodes`."""
        one = as_one(self)
        return [TypedNode(*_typed(one.kinds, node.node), node.score) for node in one.top_nodes(k, sign)]

    def top_features(self, k: int | None = 10, sign: Sign | None = None) -> list[TypedFeature]:
        """Return the ``k`` features of largest ``|score|``, strongest first; see :func:`~.signed.top_features`."""
        one, found = as_one(self), []
        for feature in one.top_features(k, sign):
            name, node = _typed(one.kinds, feature.node)
            start = one.kinds.column_start[one.kinds.node_types.index(name)]
            found.append(TypedFeature(name, node, feature.column - start, feature.score))
        return found

    def top_attributes(self, k: int | None = 10, sign: Sign | None = None) -> list[TypedAttribute]:
        """Return the ``k`` edge attributes of largest ``|score|``, strongest first."""
        one, found = as_one(self), []
        kinds, ends = kinds_in(self), one.edge_index
        for edge, column, score in attributes_by_edge(one, k, sign):
            place = int(kinds.of_edges(torch.tensor([edge])))
            source, sink = (_typed(kinds, node)[1] for node in ends[:, edge].tolist())
            found.append(TypedAttribute(kinds.edge_types[place], source, sink, column, score))
        return found

    def signed_subgraph(
        self, k: int | None = None, *, share: float | None = None, sign: Sign | None = None
    ) -> SignedExplanation:
        """Return the part that matters, of the joint graph, with names by type (:func:`~.signed.signed_subgraph`)."""
        return as_one(self).signed_subgraph(k, share=share, sign=sign)

    def to_networkx(
        self, k: int | None = None, *, sign: Sign | None = None, everything: bool = False
    ) -> nx.MultiDiGraph:
        """Return a networkx graph of the part that matters; see :func:`~.signed.to_networkx`.

        A node's key is its type and its number there. An edge has its ``edge_type``, None for a self-loop that a layer
        adds, and ``edge_id`` is its place in the joint graph.
        """
        import networkx as nx  # It takes a while to load, and nothing else in this room needs it.

        one, kinds = as_one(self), kinds_in(self)
        graph = one.to_networkx(k, sign=sign, everything=everything)
        for *_, fields in graph.edges(data=True):
            place = int(kinds.of_edges(torch.tensor([fields["edge_id"]])))
            fields["edge_type"] = None if place < 0 else kinds.edge_types[place]
        return nx.relabel_nodes(graph, {node: _typed(kinds, node) for node in graph})

    def get_explanation_subgraph(self) -> TypedExplanation:
        """Do as PyG does, but count negative scores as scores; :meth:`signed_subgraph` offers more."""
        return self._masked(zero=False)

    def get_complement_subgraph(self) -> TypedExplanation:
        """Do as PyG does, but take only nodes and edges without any score, not those whose features cancel."""
        return self._masked(zero=True)

    def _masked(self, *, zero: bool) -> TypedExplanation:
        kinds, nodes = kinds_in(self), {}
        for name, mask in self.collect("node_mask", True).items():
            if len(mask) == len(self[name].x) and self.get("node_mask_type") != MaskType.common_attributes.value:
                nodes[name] = (mask != 0).reshape(len(mask), -1).any(dim=1) != zero
        edges = {kind: (mask != 0) != zero for kind, mask in self.collect("edge_mask", True).items()}
        part: TypedExplanation = self._apply_masks(nodes, edges)
        for name in OF_P:
            part[name] = None
        names = self.get("node_names")
        if names is not None:
            whole = [torch.ones(_count(kinds, kind), dtype=torch.bool) for kind in range(len(kinds.node_types))]
            kept = torch.cat(
                [nodes.get(name, every).cpu() for name, every in zip(kinds.node_types, whole, strict=True)]
            )
            part.node_names = [name for name, there in zip(names, kept.tolist(), strict=True) if there]
        if self.get("node_type") in nodes:
            _keep_rows(part, nodes[self.get("node_type")])
        counts = [len(part[name].x) for name in kinds.node_types]
        sizes = [part[kind].edge_index.size(1) for kind in kinds.edge_types]
        part.kinds = replace(kinds, node_start=starts_of(counts), edge_start=starts_of(sizes))
        return part

    def visualize_graph(self, path: str | None = None, node_labels: Mapping[str, Sequence[str]] | None = None) -> Any:
        """Draw the figure of :func:`~graphfaith.figure`, and save it to ``path``, or show it.

        PyG's own drawing leaves negative scores out, and needs one score a node.
        """
        named = copy.copy(self) if node_labels is None else copy.copy(self).name(nodes=node_labels)
        return as_one(named).visualize_graph(path)

    def what_if(
        self,
        remove: Iterable[tuple[EdgeType, int, int] | tuple[int | str, int | str]] = (),
        set: Mapping[tuple[str, int, int], float] | None = None,
        *,
        check: bool = False,
        explainer: Explainer | None = None,
        by: Literal["p", "pairs", "scores"] = "p",
    ) -> WhatIf:
        """Return what is foretold if edges, (edge type, source, sink), are removed or features are set.

        An edge is also a pair of nodes, ("circle 3", "square 5"), which are named, or numbered as :meth:`joint` does:
        then it is of every type. Features are (node type, node, column). See :func:`~.what_if.what_if`; an edge here is
        one entry of A.
        """
        from .what_if import what_if

        return what_if(as_one(self), remove, set, check=check, explainer=explainer, by=by)

    def headline(self) -> Headline:
        """Return what the model answered and the strongest reasons, in words; see :func:`~.words.headline_of`."""
        return as_one(self).headline()

    def reading(self, name: str) -> TypedExplanation:
        """Return this explanation with the scores of another reading of p: "slope", "share" or "effect"; no new fit."""
        from .reading import reading_of

        one = as_one(self)
        return take_inputs(by_type(reading_of(one, name), one.kinds), self)

    def name(
        self,
        nodes: Mapping[str, Sequence[str]] | None = None,
        features: Mapping[str, Sequence[str]] | None = None,
        classes: Sequence[str] | None = None,
    ) -> TypedExplanation:
        """Give names to the nodes or features of some types, or to the classes; return the explanation."""
        kinds = kinds_in(self)
        if nodes is not None:
            self.node_names = _named(nodes, kinds, kinds.node_start, "nodes")
        if features is not None:
            self.feature_names = _named(features, kinds, kinds.column_start, "features")
        if classes is not None:
            self.class_names = list(map(str, classes))
        return self

    def __repr__(self) -> str:
        """Do as PyG does, and say of each kind of scores how faithful it is, or that it is not measured."""
        text: str = super().__repr__()
        try:
            known = faithfulness_by_kind(as_one(self))
        except GraphfaithError:  # It is not complete, or its masks do not fit.
            return text
        said = "".join(f",\n  {kind}: {number or NOT_MEASURED}" for kind, number in known.items())
        return text.removesuffix("\n)").removesuffix(",") + said + "\n)"

    def _repr_html_(self) -> str | None:
        """Return the page of this explanation in a frame, for a notebook; None if it cannot be drawn."""
        try:
            return as_one(self)._repr_html_()
        except GraphfaithError:
            return None


def _keep_rows(part: TypedExplanation, kept: Tensor) -> None:
    """Leave the rows of the output that are of nodes which are kept, and the explained node if it is."""
    for name in _ROWS:
        rows = part.get(name)
        if isinstance(rows, Tensor) and len(rows) == len(kept):
            part[name] = rows[kept.to(rows.device)]
    if part.get("index") is not None:
        index = torch.as_tensor(part.get("index")).reshape(-1).cpu()
        part.index = (kept.cpu().cumsum(0) - 1)[index[kept.cpu()[index]]]


def _typed(kinds: Kinds, node: int) -> tuple[str, int]:
    """Return the type of a node of the joint graph, and its number there."""
    kind = int(kinds.of_nodes(torch.tensor([node])))
    return kinds.node_types[kind], node - kinds.node_start[kind]


def _named(names: Mapping[str, Sequence[str]], kinds: Kinds, starts: Sequence[int], what: str) -> list[str]:
    found = []
    for kind, name in enumerate(kinds.node_types):
        count = starts[kind + 1] - starts[kind]
        own = names.get(name)
        if own is not None and len(own) != count:
            raise InputError(f"type {name!r} has {count} {what} (got {len(own)} names)")
        one = f"{name} " if what == "nodes" else f"{name} feature "
        found += [f"{one}{i}" for i in range(count)] if own is None else list(map(str, own))
    return found


def kinds_in(explanation: HeteroExplanation) -> Kinds:
    """Return the types of nodes and edges of an explanation, in the order in which they are numbered."""
    kinds = explanation._global_store.get("kinds")
    if isinstance(kinds, Kinds):
        return kinds
    x, edges = inputs_of(explanation)
    return kinds_of(x, edges)


def inputs_of(explanation: HeteroExplanation) -> tuple[dict[str, Tensor], dict[EdgeType, Tensor]]:
    """Return the features and edges of an explanation by type, in the order in which they are numbered."""
    if not isinstance(explanation, HeteroExplanation):
        raise InputError(f"an explanation of a heterogeneous graph is needed (got {type(explanation).__name__})")
    x: dict[str, Tensor] = explanation.collect("x", True)
    edges: dict[EdgeType, Tensor] = explanation.collect("edge_index", True)
    if not x or not edges:
        raise InputError("the explanation has no 'x' or no 'edge_index': make it by calling an Explainer")
    kinds = explanation._global_store.get("kinds")
    if isinstance(kinds, Kinds):
        return {name: x[name] for name in kinds.node_types}, {name: edges[name] for name in kinds.edge_types}
    return dict(x), dict(edges)


_JOINTS: weakref.WeakKeyDictionary[ExplainerAlgorithm, tuple[list[Any], list[Any], Joint]] = weakref.WeakKeyDictionary()


def joint_for(
    algorithm: ExplainerAlgorithm,
    model: torch.nn.Module,
    x: Mapping[str, Tensor],
    edge_index: Mapping[EdgeType, Tensor],
    arguments: Mapping[str, Any],
    level: str,
    edges: Edges = "auto",
) -> Joint:
    """Return a model and graph as one of one graph; the last one of an algorithm is kept, with what is known of it."""
    tensors = [*x.values(), *edge_index.values()]
    for value in arguments.values():
        tensors += value.values() if isinstance(value, Mapping) else [value]
    versions = [one._version if isinstance(one, Tensor) and not one.is_inference() else None for one in tensors]
    # Inference tensors have no version counter, so that writes to them could not be noticed.
    state = [versions, level, edges in ("auto", "weight"), list(x), list(edge_index), list(arguments)]
    kept = _JOINTS.get(algorithm)
    watched = not any(isinstance(one, Tensor) and one.is_inference() for one in tensors)
    if watched and kept is not None and kept[1] == state and kept[2].model.model is model:
        same = all(a is b for a, b in zip(kept[0], tensors, strict=True))
        if same:
            return kept[2]
    weighted = edges in ("auto", "weight")
    joint = join(model, x, edge_index, arguments, level, getattr(algorithm, "num_hops", None), weighted=weighted)
    _JOINTS[algorithm] = tensors, state, joint
    return joint


def joint_of(explainer: Explainer, explanation: HeteroExplanation, edges: Edges = "auto") -> Joint:
    """Return the model and the graph that an explanation is of as one model of one graph."""
    x, edge_index = inputs_of(explanation)
    arguments = arguments_of(explainer.model, lambda name: _argument(explanation, name))
    level = explainer.model_config.task_level.value
    return joint_for(explainer.algorithm, explainer.model, x, edge_index, arguments, level, edges)


def one_of(explainer: Explainer, explanation: HeteroExplanation) -> SignedExplanation:
    """Return an explanation, whoever made it, as one of its joint graph, which the model of ``explainer`` is run on."""
    if not isinstance(explainer, Explainer):
        raise InputError(f"a torch_geometric.explain.Explainer is needed first (got {type(explainer).__name__})")
    return as_one(explanation, joint_of(explainer, explanation).model.node_type)


def _argument(explanation: HeteroExplanation, name: str) -> Any:
    """Return an argument of the model, which PyG has stored by type without its ending."""
    kept = explanation.collect(name.removesuffix("_dict"), True)
    return kept or explanation._global_store.get(name)


def by_type(
    one: SignedExplanation, kinds: Kinds, attributes: Mapping[EdgeType, torch.Size] | None = None
) -> TypedExplanation:
    """Return an explanation of the joint graph by type, without what PyG adds: the graph, and the model's output.

    ``attributes`` are the shapes of those of each edge type; without them their scores are left out.
    """
    typed = TypedExplanation()
    fields = {name: value for name, value in one.to_dict().items() if name not in ("x", "edge_index", *_ROWS, "index")}
    scores = fields.pop(_OF_ATTRIBUTES, None)
    for kind, edge_type in enumerate(kinds.edge_types):
        if scores is not None and attributes is not None and edge_type in attributes:
            typed[edge_type][_OF_ATTRIBUTES] = scores[kinds.edges(kind), : attributes[edge_type].numel()]
    for name in (*_OF_NODES, *_OF_LOOPS, *_OF_EDGES):
        value = fields.pop(name, None)
        if value is None:
            continue
        if name in _OF_EDGES:
            for kind, edge_type in enumerate(kinds.edge_types):
                typed[edge_type][name] = value[kinds.edges(kind)]
        else:
            for kind, node_type in enumerate(kinds.node_types):
                typed[node_type][name] = _part(value, kinds, kind, one.get("node_mask_type"))
    for name, value in fields.items():
        setattr(typed, name, value)
    typed.kinds = kinds
    return typed


def _part(value: Tensor, kinds: Kinds, kind: int, mask_type: str | None) -> Tensor:
    """Return the rows and columns of a mask that belong to a type."""
    if value.dim() == 1:
        return value[kinds.nodes(kind)]
    if mask_type == MaskType.common_attributes.value:
        return value[:, kinds.columns(kind)]
    rows = value[kinds.nodes(kind)]
    return rows if mask_type == MaskType.object.value else rows[:, kinds.columns(kind)]


def as_one(explanation: HeteroExplanation, node_type: str | None = None) -> SignedExplanation:
    """Return an explanation of a heterogeneous graph as one of its joint graph.

    ``node_type`` is the type whose nodes the rows of the output are of, if the explanation does not say so.
    """
    (x, edges), kinds = inputs_of(explanation), kinds_in(explanation)
    one = SignedExplanation()
    for name, value in explanation._global_store.to_dict().items():
        if name not in _ROWS and name != "index":
            one[name] = value
    one["kinds"] = kinds
    one["x"] = joint_rows(x, kinds, explanation._global_store.get("baseline_categories"))
    starts = [[kinds.node_start[end] for end in kinds.ends(kind)] for kind in range(len(kinds.edge_types))]
    shifted = (
        ends.detach().cpu() + torch.tensor(start).unsqueeze(1)
        for ends, start in zip(edges.values(), starts, strict=True)
    )
    one["edge_index"] = torch.cat(list(shifted), dim=1)
    for name in _OF_EDGES:
        found = explanation.collect(name, True)
        if found:
            one[name] = torch.cat(
                [
                    found[key].detach().cpu() if found.get(key) is not None else one.x.new_zeros(edges[key].size(1))
                    for key in kinds.edge_types
                ]
            )
    scored = {key: value for key, value in explanation.collect(_OF_ATTRIBUTES, True).items() if value is not None}
    if scored:
        one[_OF_ATTRIBUTES] = join_attributes(scored, kinds)
    for name in (*_OF_NODES, *_OF_LOOPS):
        found = {key: value for key, value in explanation.collect(name, True).items() if value is not None}
        if found:
            one[name] = _join_masks(found, kinds)
    _take_rows(explanation, one, kinds, node_type)
    one["node_types"] = [name for kind, name in enumerate(kinds.node_types) for _ in range(_count(kinds, kind))]
    if one.get("node_names") is None:
        one["node_names"] = _named({}, kinds, kinds.node_start, "nodes")
    if one.get("feature_names") is None:
        one["feature_names"] = _named({}, kinds, kinds.column_start, "features")
    for name in ("_model_config", "_origin"):
        if hasattr(explanation, name):
            setattr(one, name, getattr(explanation, name))
    one._source = explanation  # It has the tensors by type, which the model is called with.
    return one


def joint_rows(x: Mapping[str, Tensor], kinds: Kinds, baseline: Tensor | None = None) -> Tensor:
    """Return features by type, or scores of them, as a matrix with the columns of all types, [N, d].

    Where a node has no column, it has 0, or the ``baseline`` of categories, [d].
    """
    first = next(iter(x.values()))
    joint = torch.zeros(kinds.node_start[-1], kinds.column_start[-1], dtype=first.dtype)
    if baseline is not None:
        joint[:] = baseline.detach().cpu()
    for kind, name in enumerate(kinds.node_types):
        if name in x:
            joint[kinds.nodes(kind), kinds.columns(kind)] = x[name].detach().cpu()
    return joint


def _join_masks(found: Mapping[str, Tensor], kinds: Kinds) -> Tensor:
    """Return masks of all types as one; a type without a mask has scores of 0."""
    first = next(iter(found.values()))
    kind_of = {name: kind for kind, name in enumerate(kinds.node_types)}
    if first.dim() == 1:
        return torch.cat(
            [
                found[name].detach().cpu() if name in found else first.new_zeros(_count(kinds, kind)).cpu()
                for name, kind in kind_of.items()
            ]
        )
    whole = {name: mask.size(0) == _count(kinds, kind_of[name]) for name, mask in found.items()}
    wide = {
        name: mask.size(1) == kinds.column_start[kind_of[name] + 1] - kinds.column_start[kind_of[name]]
        for name, mask in found.items()
    }
    if all(whole.values()) and all(wide.values()):
        return joint_rows(found, kinds)
    if all(whole.values()):  # a score of each node
        joint = torch.zeros(kinds.node_start[-1], 1, dtype=first.dtype)
        for name, mask in found.items():
            joint[kinds.nodes(kind_of[name])] = mask.detach().cpu()
        return joint
    joint = torch.zeros(1, kinds.column_start[-1], dtype=first.dtype)
    for name, mask in found.items():
        joint[:, kinds.columns(kind_of[name])] = mask.detach().cpu()
    return joint


def _count(kinds: Kinds, kind: int) -> int:
    return kinds.node_start[kind + 1] - kinds.node_start[kind]


def _take_rows(explanation: HeteroExplanation, one: SignedExplanation, kinds: Kinds, node_type: str | None) -> None:
    """Give an explanation of the joint graph the model's output and index, in the numbering of the joint graph."""
    kept = explanation._global_store
    output, index = (next((kept.get(name) for name in _ROWS if kept.get(name) is not None), None), kept.get("index"))
    config = getattr(explanation, "_model_config", None)
    level = "node" if config is None else config.task_level.value
    name = node_type or kept.get("node_type")
    if level != "node":
        for field in (*_ROWS, "index"):
            one[field] = kept.get(field)
        return
    if name is None and output is not None:
        fits = [kind for k, kind in enumerate(kinds.node_types) if _count(kinds, k) == len(output)]
        name = fits[0] if len(fits) == 1 else None
    if name is None:
        return
    start = kinds.node_start[kinds.node_types.index(name)]
    one["node_type"] = name
    for field in _ROWS:
        rows = kept.get(field)
        if isinstance(rows, Tensor):
            one[field] = rows.new_zeros(kinds.node_start[-1], *rows.shape[1:])
            one[field][start : start + len(rows)] = rows.detach()
    if index is not None:
        one["index"] = torch.as_tensor(index) + start


def take_inputs(typed: TypedExplanation, source: HeteroExplanation) -> TypedExplanation:
    """Give an explanation the graph and the model's output of another one of the same prediction."""
    for store in (*source.node_stores, *source.edge_stores):
        for name, value in store.items():
            if name not in (*_OF_NODES, *_OF_LOOPS, *_OF_EDGES):
                typed[store._key][name] = value
    for name in (*_ROWS, "index", "node_type"):
        if source._global_store.get(name) is not None:
            setattr(typed, name, source._global_store[name])
    for name in ("_model_config", "_origin"):
        if hasattr(source, name):
            setattr(typed, name, getattr(source, name))
    return typed


def as_shown(explanation: Any) -> Any:
    """Return an explanation as one of one graph, if it is one by type."""
    return as_one(explanation) if isinstance(explanation, HeteroExplanation) else explanation


def pack(explanation: HeteroExplanation) -> SignedExplanation:
    """Return an explanation as one of its joint graph that :func:`unpack` makes the same explanation of."""
    one, kept = as_one(explanation), explanation._global_store
    for name in (*_ROWS, "index", "node_names", "feature_names"):
        one[name] = kept.get(name) if name in kept else None
    del one.node_types
    one[_OF_ATTRIBUTES] = None  # They are among the others.
    one["output"] = {name: one.pop(name, None) for name in (*_ROWS, "index")}
    masks = (*_OF_NODES, *_OF_LOOPS, *_OF_EDGES, "x", "edge_index")
    one["others"] = [
        [list(store._key) if isinstance(store._key, tuple) else store._key, name, value]
        for store in (*explanation.node_stores, *explanation.edge_stores)
        for name, value in store.items()
        if name not in masks
    ]
    return one


def unpack(one: SignedExplanation) -> TypedExplanation:
    """Return the explanation that :func:`pack` was given."""
    kinds = one.kinds
    if not isinstance(kinds, Kinds) or one.x.shape != (kinds.node_start[-1], kinds.column_start[-1]):
        raise InputError("the types do not fit the features of the explanation")
    if one.edge_index.size(1) != kinds.edge_start[-1]:
        raise InputError("the types do not fit the edges of the explanation")
    output, others = one.get("output"), one.get("others")
    if not isinstance(output, dict) or not isinstance(others, list):
        raise InputError("the explanation of several types lacks its output")
    typed = by_type(one, kinds)
    for name in ("output", "others"):
        del typed._global_store[name]
    for kind, name in enumerate(kinds.node_types):
        typed[name].x = one.x[kinds.nodes(kind), kinds.columns(kind)].clone()
    for kind, edge_type in enumerate(kinds.edge_types):
        starts = torch.tensor([kinds.node_start[end] for end in kinds.ends(kind)]).unsqueeze(1)
        ends = one.edge_index[:, kinds.edges(kind)] - starts
        counts = torch.tensor([_count(kinds, end) for end in kinds.ends(kind)]).unsqueeze(1)
        if bool((ends < 0).any()) or bool((ends >= counts).any()):
            raise InputError(f"edges of type {edge_type} have ends of other types")
        typed[edge_type].edge_index = ends
    for key, name, value in others:
        store = tuple(key) if isinstance(key, list) else key
        if store not in (*kinds.node_types, *kinds.edge_types) or not isinstance(name, str):
            raise InputError("the explanation has a field of a type that it does not have")
        typed[store][name] = value
    for name, value in output.items():
        if name in (*_ROWS, "index"):
            setattr(typed, name, value)
    if hasattr(one, "_model_config"):
        typed._model_config = one._model_config
    return typed


def take_measurement(typed: HeteroExplanation, one: Explanation) -> None:
    """Leave on an explanation by type what was measured of it as one."""
    for name in _SCORED:
        setattr(typed, name, one.get(name))
