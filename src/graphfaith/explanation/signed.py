"""Explanations as PyG's :class:`~torch_geometric.explain.Explanation`, with what it lacks for signed scores.

An explanation made by graphfaith is a PyG ``Explanation`` over the whole graph (``node_mask``, ``edge_mask``) that
also carries

- ``method`` and, for a method that is fitted in a neighbourhood, ``neighborhood``: how it was made;
- ``difference_model``: the fitted p, and ``in_sample_error``: its Delta on the samples it was fitted to;
- ``scores_digest``: the digest of the scores that were made, which tells edited scores from them;
- ``unfaithfulness`` and ``scored_digest``, once it was scored: the Delta(p) that
  :func:`~graphfaith.general_unfaithfulness` measured last, and the digest of the scores that it measured;
- ``measurements``: a list with that Delta(p), and with an earlier one for a kind of scores that it is not about;
- of an :class:`~graphfaith.explainers.AnchoredKEC`, ``estimate``, its own leave-one-out estimate of Delta(p),
  ``fit_samples``, the number of samples that this took, and ``chosen``, the p that the leave-one-out error chose;
- ``reading``, of an AnchoredKEC: which reading of p the scores are ("share", "slope" or "effect"), and
  ``edge_stderr``, ``self_loop_stderr`` and ``node_stderr``, the standard errors of shares;
- ``self_loop_score``: one score a node for its self-loop, which PyG's ``edge_mask`` has no place for;
- ``features_scored``, False if the method scores edges alone: the node mask, which PyG asks for, then says nothing;
- ``edge_route``: whether A was the model's edge weight ("weight") or a factor of its messages, where an edge whose
  entry is 0 is removed from the graph ("removal") or still counted ("mask");
- ``node_names``, ``feature_names`` and ``class_names``, lists, if names were given;
- ``node_kinds`` and ``edge_orders``, lists, of a molecule: the element of each node and the order of each bond.

The functions in this module read any PyG ``Explanation``; they are also methods of :class:`SignedExplanation`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation

from .._base.errors import GraphfaithError, InputError
from ..graph.form import flatten_features
from .faithfulness import NOT_MEASURED, faithfulness_by_kind
from .scores import (
    Entries,
    Names,
    Sign,
    class_names_of,
    edge_index_of,
    entries,
    explained_nodes,
    features_of,
    give_names,
    names_of,
    node_mask_of,
    node_scores,
    num_classes_of,
    num_columns_of,
    num_nodes_of,
    numbers_of,
    pairs_field,
    scores_of_nodes,
    strongest,
    task_level,
)

if TYPE_CHECKING:
    import networkx as nx

    from .counterfactual import Counterfactual
    from .reading import Interaction
    from .removals import Kind
    from .what_if import WhatIf
    from .words import Headline

_N = TypeVar("_N", bound="_Named")

# These are of p, and of all its scores: no smaller graph has them.
OF_P = ("difference_model", "scores_digest", "unfaithfulness", "measurements", "scored_digest", "estimate")
_MOST_DRAWN = 30  # edges in PyG's own drawing
# Lists that have one item a node, and others.
_NODE_LISTS, _OTHER_LISTS = ("node_names", "node_kinds", "node_types"), ("feature_names", "class_names", "edge_orders")
# An excerpt has no output of F either, so that it cannot be scored by mistake.
_WHOLE_ONLY = (*OF_P, "prediction", "target")


class ScoredEdge(NamedTuple):
    """An edge and its score; a self-loop has ``source == sink``. ``names`` are those of its ends."""

    source: int
    sink: int
    score: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of source and sink, or their ids."""
        return getattr(self, "_names", ()) or (str(self.source), str(self.sink))


class ScoredNode(NamedTuple):
    """A node and its score."""

    node: int
    score: float

    @property
    def names(self) -> tuple[str, ...]:
        """The node's name, or its id."""
        return getattr(self, "_names", ()) or (str(self.node),)


class ScoredFeature(NamedTuple):
    """A feature of a node and its score. ``names`` are those of the node and the feature."""

    node: int
    column: int
    score: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of node and feature, or their ids."""
        return getattr(self, "_names", ()) or (str(self.node), str(self.column))


class ScoredAttribute(NamedTuple):
    """An attribute of an edge and its score."""

    source: int
    sink: int
    column: int
    score: float


class _Named:
    """Names beside the fields of a tuple: it compares, unpacks and counts as without them."""

    _names: tuple[str, ...] = ()

    def _asdict(self) -> dict[str, Any]:
        fields: dict[str, Any] = super()._asdict()  # type: ignore[misc]
        return {**fields, "names": list(self._names)} if self._names else fields

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._asdict().items())})"


class NamedEdge(_Named, ScoredEdge):
    """A :class:`ScoredEdge` of an explanation with names."""


class NamedNode(_Named, ScoredNode):
    """A :class:`ScoredNode` of an explanation with names."""


class NamedFeature(_Named, ScoredFeature):
    """A :class:`ScoredFeature` of an explanation with names."""


def top_edges(explanation: Explanation, k: int | None = 10, sign: Sign | None = None) -> list[ScoredEdge]:
    """Return the ``k`` edges of largest |score|, self-loops among them, strongest first, without scores of zero.

    ``sign`` keeps the edges of one sign, and None as ``k`` takes all. Of equal ones, the first in the graph wins.

    >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    >>> explanation = Explanation(edge_index=path, edge_mask=torch.tensor([0.5, -2.0, 1.0]))
    >>> top_edges(explanation, 2)
    [ScoredEdge(source=1, sink=2, score=-2.0), ScoredEdge(source=2, sink=3, score=1.0)]
    >>> top_edges(explanation, sign="-")
    [ScoredEdge(source=1, sink=2, score=-2.0)]
    """
    ends, scores, _ = entries(explanation)
    places = strongest(scores, k, sign)
    names = names_of(explanation, "node_names")
    rows = zip(ends[0, places].tolist(), ends[1, places].tolist(), scores[places].tolist(), strict=True)
    if names is None:
        return [ScoredEdge(*row) for row in rows]
    return [_with_names(NamedEdge(*row), (names[row[0]], names[row[1]])) for row in rows]


def top_nodes(explanation: Explanation, k: int | None = 10, sign: Sign | None = None) -> list[ScoredNode]:
    """Return the ``k`` nodes of largest |score| (:func:`node_scores`), strongest first, without scores of zero.

    >>> explanation = Explanation(node_mask=torch.tensor([[0.5], [-2.0], [0.0]]))
    >>> top_nodes(explanation)
    [ScoredNode(node=1, score=-2.0), ScoredNode(node=0, score=0.5)]
    """
    scores = node_scores(explanation).double()
    places = strongest(scores, k, sign)
    names = names_of(explanation, "node_names")
    rows = zip(places.tolist(), scores[places].tolist(), strict=True)
    if names is None:
        return [ScoredNode(*row) for row in rows]
    return [_with_names(NamedNode(*row), (names[row[0]],)) for row in rows]


def top_features(explanation: Explanation, k: int | None = 10, sign: Sign | None = None) -> list[ScoredFeature]:
    """Return the ``k`` features of largest |score| in a node mask of every attribute, strongest first.

    >>> explanation = Explanation(x=torch.ones(2, 2), node_mask=torch.tensor([[0.0, 3.0], [-4.0, 1.0]]))
    >>> top_features(explanation, 2)
    [ScoredFeature(node=1, column=0, score=-4.0), ScoredFeature(node=0, column=1, score=3.0)]
    """
    mask, x = node_mask_of(explanation), features_of(explanation)
    if mask is None or x is None or mask.shape != x.shape:
        raise InputError('features of nodes need a method that scores features, and node_mask_type="attributes"')
    width, flat = mask.size(1), mask.double().reshape(-1)
    places = strongest(flat, k, sign)
    rows = [(i // width, i % width, score) for i, score in zip(places.tolist(), flat[places].tolist(), strict=True)]
    nodes, features = names_of(explanation, "node_names"), names_of(explanation, "feature_names")
    if nodes is None and features is None:
        return [ScoredFeature(*row) for row in rows]
    return [
        _with_names(
            NamedFeature(*row),
            (row[0] if nodes is None else nodes[row[0]], row[1] if features is None else features[row[1]]),
        )
        for row in rows
    ]


def top_attributes(explanation: Explanation, k: int | None = 10, sign: Sign | None = None) -> list[ScoredAttribute]:
    """Return the ``k`` edge attributes of largest |score| in ``edge_attr_score``, strongest first.

    >>> explanation = Explanation(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    >>> explanation.edge_attr_score = torch.tensor([[0.0, 3.0], [-4.0, 1.0]])
    >>> top_attributes(explanation, 1)
    [ScoredAttribute(source=1, sink=2, column=0, score=-4.0)]
    """
    ends = edge_index_of(explanation)
    return [
        ScoredAttribute(int(ends[0, edge]), int(ends[1, edge]), column, score)
        for edge, column, score in attributes_by_edge(explanation, k, sign)
    ]


def attributes_by_edge(explanation: Explanation, k: int | None, sign: Sign | None) -> list[tuple[int, int, float]]:
    """Return the ``k`` strongest edge attributes: the place of the edge, the column and the score."""
    scores, ends = explanation.get("edge_attr_score"), edge_index_of(explanation)
    if not isinstance(scores, Tensor) or scores.dim() != 2 or len(scores) != ends.size(1):
        raise InputError("edge attributes have no scores: explain a model that is given edge_attr, by AnchoredKEC, say")
    flat = numbers_of(scores, "edge_attr_score").reshape(-1)
    found = []
    for place in strongest(flat, k, sign).tolist():
        edge, column = divmod(place, scores.size(1))
        found.append((edge, column, float(flat[place])))
    return found


def signed_subgraph(
    explanation: Explanation, k: int | None = None, *, share: float | None = None, sign: Sign | None = None
) -> SignedExplanation:
    """Return the part of an explanation that matters, as an explanation of its own with the signs kept.

    It holds the ``k`` strongest edges (self-loops among them) and the ``k`` strongest nodes; or the fewest that have
    together a ``share`` of all |score| of their kind; or all with a score that is not zero. ``sign`` looks at scores
    of one sign alone. The ends of the edges and the explained nodes belong to the part. Edges without a score are kept
    only if no edge has one, and then only between nodes of the part.

    Nodes keep their true scores, their names (their ids, if they had none) and, in ``node_id`` and ``edge_id``, their
    places in the whole graph. The part is there to look at. F on it is another function, so it has neither a
    ``target`` nor the Delta(p) of the whole explanation.

    >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    >>> explanation = Explanation(edge_index=path, edge_mask=torch.tensor([0.5, -2.0, 1.0]), x=torch.eye(4))
    >>> part = signed_subgraph(explanation, 2)
    >>> part.edge_index.tolist(), part.edge_mask.tolist(), part.node_id.tolist()
    ([[0, 1], [1, 2]], [-2.0, 1.0], [1, 2, 3])
    """
    (ends, scores, edge_id), nodes = _choose(explanation, k, sign, share)
    num_nodes, edge_index = num_nodes_of(explanation), edge_index_of(explanation)
    num_edges = edge_index.size(1)
    edges = edge_id[edge_id >= 0]
    part = SignedExplanation()
    for key, value in explanation.to_dict().items():
        if key in _WHOLE_ONLY:
            continue
        if key in ("node_kinds", "node_types", "edge_orders") and isinstance(value, list | tuple):
            value = [value[i] for i in (edges if key == "edge_orders" else nodes).tolist()]
        if key == "node_mask":
            if len(value) != num_nodes and len(nodes) == 1:
                continue  # The scores of columns over all nodes would pass for those of the only node of the part.
            value = value[nodes] if len(value) == num_nodes else value
        elif isinstance(value, Tensor) and value.dim() and not key.endswith("index"):
            # With as many nodes as edges, PyG tells their fields apart by the name.
            if value.size(0) == num_edges and ("edge" in key or num_edges != num_nodes):
                value = value[edges]
            elif value.size(0) == num_nodes:
                value = value[nodes]
        part[key] = value
    part.num_nodes = len(nodes)
    part.edge_index = torch.searchsorted(nodes, edge_index[:, edges])
    loops = explanation.get("self_loop_score")
    if loops is not None:
        looped = ends[0, (ends[0] == ends[1]) & (scores != 0)]
        part.self_loop_score = torch.zeros(len(nodes), dtype=loops.dtype)
        part.self_loop_score[torch.searchsorted(nodes, looped)] = loops.detach().cpu()[looped]
    part.node_id, part.edge_id = _original(explanation, "node_id", nodes), _original(explanation, "edge_id", edges)
    names = names_of(explanation, "node_names")
    places = zip(nodes.tolist(), part.node_id.tolist(), strict=True)
    part.node_names = [str(v if names is None else names[i]) for i, v in places]
    _move_index(explanation, part, nodes)
    for key in ("_model_config", "_model_args"):
        if hasattr(explanation, key):
            setattr(part, key, getattr(explanation, key))
    return part


def to_networkx(
    explanation: Explanation, k: int | None = None, *, sign: Sign | None = None, everything: bool = False
) -> nx.MultiDiGraph:
    """Return a networkx graph of the nodes and edges that :func:`signed_subgraph` takes, or of ``everything``.

    A node's key is its id in the whole graph; it has ``name``, ``explained`` and, where nodes are scored, ``score``. An
    edge's key is its place in ``edge_index`` (-1 for a self-loop that is not there); it has ``score``, ``sign`` ("+",
    "-" or "0") and that place as ``edge_id``.

    >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    >>> explanation = Explanation(edge_index=path, edge_mask=torch.tensor([0.5, -2.0, 0.0]), x=torch.eye(4))
    >>> sorted(to_networkx(explanation).edges(data="score"))
    [(0, 1, 0.5), (1, 2, -2.0)]
    """
    import networkx as nx  # It takes a while to load, and nothing else in this room needs it.

    if everything and (k is not None or sign is not None):
        raise InputError("everything=True takes all nodes and edges: leave out k and sign")
    if everything:
        nodes = torch.arange(num_nodes_of(explanation))
        ends, scores, edge_id = _with_unscored(explanation, entries(explanation), nodes)
    else:
        (ends, scores, edge_id), nodes = _choose(explanation, k, sign, None)
    names, rated = names_of(explanation, "node_names"), scores_of_nodes(explanation)
    explained = set(explained_nodes(explanation).tolist())
    graph = nx.MultiDiGraph(method=str(explanation.get("method") or ""))
    for i, v in zip(nodes.tolist(), _original(explanation, "node_id", nodes).tolist(), strict=True):
        graph.add_node(v, name=str(v if names is None else names[i]), explained=i in explained)
        if rated is not None:
            graph.nodes[v]["score"] = float(rated[i])
    places = edge_id.clone()
    places[edge_id >= 0] = _original(explanation, "edge_id", edge_id[edge_id >= 0])
    sources, sinks = _original(explanation, "node_id", ends).tolist()
    for u, v, score, place in zip(sources, sinks, scores.tolist(), places.tolist(), strict=True):
        sense = "+" if score > 0 else "-" if score < 0 else "0"
        graph.add_edge(u, v, key=place, score=score, sign=sense, edge_id=place)
    return graph


class SignedExplanation(Explanation):  # type: ignore[misc]  # PyG is not typed
    """An explanation with signed scores: PyG's ``Explanation`` with methods that respect the sign.

    >>> pumps = SignedExplanation(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_mask=torch.tensor([1.0, -3.0]))
    >>> pumps.name(nodes=["P101", "T101", "V301"]).top_edges(1)
    [NamedEdge(source=1, sink=2, score=-3.0, names=['T101', 'V301'])]
    """

    def validate_masks(self, raise_on_error: bool = True) -> bool:
        """Return whether the masks fit the graph, as PyG's method does, also if features have another shape than [d].

        Scores of features then have the shape of the features, which PyG would refuse.
        """
        x, mask = self.get("x"), self.get("node_mask")
        if not isinstance(x, Tensor) or not isinstance(mask, Tensor) or x.dim() == 2 or not x.dim():
            return bool(super().validate_masks(raise_on_error))
        plain = Explanation(x=flatten_features(x), edge_index=self.get("edge_index"), edge_mask=self.get("edge_mask"))
        plain.node_mask = flatten_features(mask)
        if mask.shape[1:] not in (x.shape[1:], (1,)):
            if raise_on_error:
                raise ValueError(f"Expected a 'node_mask' of the shape of x, {list(x.shape)} (got {list(mask.shape)})")
            return False
        return bool(plain.validate_masks(raise_on_error))

    def top_edges(self, k: int | None = 10, sign: Sign | None = None) -> list[ScoredEdge]:
        """See :func:`top_edges`."""
        return top_edges(self, k, sign)

    def top_nodes(self, k: int | None = 10, sign: Sign | None = None) -> list[ScoredNode]:
        """See :func:`top_nodes`."""
        return top_nodes(self, k, sign)

    def top_features(self, k: int | None = 10, sign: Sign | None = None) -> list[ScoredFeature]:
        """See :func:`top_features`."""
        return top_features(self, k, sign)

    def node_scores(self) -> Tensor:
        """See :func:`node_scores`."""
        return node_scores(self)

    def signed_subgraph(
        self, k: int | None = None, *, share: float | None = None, sign: Sign | None = None
    ) -> SignedExplanation:
        """See :func:`signed_subgraph`."""
        return signed_subgraph(self, k, share=share, sign=sign)

    def to_networkx(
        self, k: int | None = None, *, sign: Sign | None = None, everything: bool = False
    ) -> nx.MultiDiGraph:
        """See :func:`to_networkx`."""
        return to_networkx(self, k, sign=sign, everything=everything)

    # The modules below are built on explanations, so they cannot be imported at the top.

    def reading(self, name: str) -> SignedExplanation:
        """Return this explanation with the scores of another reading of p: "slope", "share" or "effect"; no new fit."""
        from .reading import reading_of

        return reading_of(self, name)

    def interactions(self, k: int | None = None) -> list[Interaction]:
        """Return the ``k`` strongest pairs beside the scores, as far as they pay (:class:`Interaction`).

        Without ``k`` they are those that were measured.
        """
        from .reading import interactions_of

        return interactions_of(self, k)

    def scores_and_pairs(self, k: int | None = None) -> dict[str, Any]:
        """Return scores and pairs as plain values that a page can evaluate; see :func:`scores_and_pairs_of`."""
        from .reading import scores_and_pairs_of

        return scores_and_pairs_of(self, k)

    def what_if(
        self,
        remove: Iterable[tuple[Any, Any]] = (),
        set: Mapping[tuple[Any, Any], float] | None = None,
        *,
        directed: bool | None = None,
        check: bool = False,
        explainer: Explainer | None = None,
        by: Literal["p", "pairs", "scores"] = "p",
    ) -> WhatIf:
        """Return what is foretold if edges are removed or features are set; see :func:`~.what_if.what_if`."""
        from .what_if import what_if

        return what_if(self, remove, set, directed=directed, check=check, explainer=explainer, by=by)

    def headline(self) -> Headline:
        """Return what the model answered and the strongest reasons, in words; see :func:`~.words.headline_of`."""
        from .words import headline_of

        return headline_of(self)

    def counterfactual(
        self,
        max_edges: int = 5,
        *,
        of: Kind = "edges",
        past: float | None = None,
        evaluations: int = 1000,
        explainer: Explainer | None = None,
    ) -> Counterfactual:
        """Return the smallest change found that flips the answer; see :func:`~.counterfactual.counterfactual`."""
        from .counterfactual import counterfactual

        return counterfactual(self, max_edges, of=of, past=past, evaluations=evaluations, explainer=explainer)

    def name(
        self, nodes: Names | None = None, features: Names | None = None, classes: Names | None = None
    ) -> SignedExplanation:
        """Give names to all nodes, features or classes (a list), or to some (a dictionary); return the explanation."""
        if nodes is not None:
            self.node_names = give_names(nodes, names_of(self, "node_names"), num_nodes_of(self), "nodes")
        if features is not None:
            self.feature_names = give_names(features, names_of(self, "feature_names"), num_columns_of(self), "features")
        if classes is not None:
            count = num_classes_of(self)
            if count is None and isinstance(classes, Mapping):
                raise InputError("how many classes there are is not known here: give a list of all their names")
            self.class_names = give_names(classes, class_names_of(self), count or len(classes), "classes")
        return self

    def __repr__(self) -> str:
        """Do as PyG does, and say of each kind of scores how faithful it is, or that it is not measured."""
        try:
            known = faithfulness_by_kind(self)
        except GraphfaithError:  # It is not complete, or its masks do not fit.
            known = {}
        text: str = super().__repr__()
        if not known:
            return text
        # PyG writes many fields a line each, and few in one line.
        end, gap = ("\n)", ",\n  ") if text.endswith("\n)") else (")", ", ")
        said = (f"{kind}: {number or NOT_MEASURED}" for kind, number in known.items())
        return gap.join([text.removesuffix(end).removesuffix(","), *said]) + end

    def _repr_html_(self) -> str | None:
        """Return the page of this explanation in a frame, for a notebook; None if it cannot be drawn."""
        # The view is built on explanations, so it cannot be imported at the top.
        from ..view.page import page

        try:
            return page(self)._repr_html_()
        except GraphfaithError:  # For example without an edge_index; the notebook then shows the text.
            return None

    def visualize_graph(self, path: str | None = None, backend: str | None = None, node_labels: Any = None) -> Any:
        r"""Draw the figure of :func:`~graphfaith.figure`, and save it to ``path``, or show it.

        PyG's own drawing subtracts the lowest score from all, so that edges without a score come out grey and a whole
        graph black. With a ``backend`` ("graphviz" or "networkx") it draws the 30 strongest edges, by \|score\|.
        """
        from ..view.figure import figure, show

        named = copy.copy(self) if node_labels is None else copy.copy(self).name(nodes=list(node_labels))
        if backend is None:
            return show(named) if path is None else figure(named, path)
        part = named.signed_subgraph(_MOST_DRAWN)
        part.edge_mask = part.edge_mask.abs()
        return Explanation.visualize_graph(part, path, backend, part.node_names)

    def get_explanation_subgraph(self) -> SignedExplanation:
        """Do as PyG does, but count negative scores as scores; :meth:`signed_subgraph` offers more."""
        return self._masked(zero=False)

    def get_complement_subgraph(self) -> SignedExplanation:
        """Do as PyG does, but take only nodes and edges without any score, not those whose features cancel."""
        return self._masked(zero=True)

    def _masked(self, zero: bool) -> SignedExplanation:
        nodes, edges = self.get("node_mask"), self.get("edge_mask")
        rows = None if nodes is None or nodes.size(0) != num_nodes_of(self) else (nodes != 0).any(dim=-1) != zero
        part: SignedExplanation = self._apply_masks(rows, None if edges is None else (edges != 0) != zero)
        for name in OF_P:
            part[name] = None
        return part

    def is_node_attr(self, key: str) -> bool:
        """Do as PyG does, but know names by their field: a list may have as many features as there are nodes."""
        if key in _NODE_LISTS:
            return True
        return key not in _OTHER_LISTS and bool(super().is_node_attr(key))

    def is_edge_attr(self, key: str) -> bool:
        """Do as PyG does, but know by their field which lists are those of edges."""
        if key == "edge_orders":
            return True
        return key not in (*_NODE_LISTS, *_OTHER_LISTS) and bool(super().is_edge_attr(key))


def _with_names(scored: _N, names: Iterable[object]) -> _N:
    scored._names = tuple(str(name) for name in names)
    return scored


def _choose(explanation: Explanation, k: int | None, sign: Sign | None, share: float | None) -> tuple[Entries, Tensor]:
    """Return the entries of A to keep, in their order, and the ids of the nodes to keep, ascending."""
    every, rated = entries(explanation), scores_of_nodes(explanation)
    places = strongest(every.score, k, sign, share).sort().values
    chosen = Entries(every.ends[:, places], every.score[places], every.edge_id[places])
    nodes = [chosen.ends.reshape(-1), explained_nodes(explanation)]
    if rated is not None:
        nodes.append(strongest(rated.double(), k, sign, share))
    ids = torch.unique(torch.cat(nodes))
    return _with_unscored(explanation, chosen, ids), ids


def _with_unscored(explanation: Explanation, scored: Entries, nodes: Tensor) -> Entries:
    """Return the scored entries, after all edges between the nodes, with a score of zero, if no edge has a score."""
    if explanation.get("edge_mask") is not None:
        return scored
    edge_index = edge_index_of(explanation)
    edges = torch.isin(edge_index, nodes).all(dim=0).nonzero().view(-1)
    more = Entries(edge_index[:, edges], torch.zeros(len(edges), dtype=torch.float64), edges)
    return Entries(*(torch.cat(pair, dim=-1) for pair in zip(more, scored, strict=True)))


def _original(explanation: Explanation, field: str, places: Tensor) -> Tensor:
    """Return the places in the whole graph, which differ from ``places`` if the explanation is an excerpt itself."""
    ids: Tensor | None = explanation.get(field)
    return places if ids is None else ids.detach().cpu()[places]


def _move_index(explanation: Explanation, part: SignedExplanation, nodes: Tensor) -> None:
    """Set ``index`` of the excerpt so that it names the same nodes, pairs or graphs."""
    level, index = task_level(explanation), explanation.get("index")
    explained = torch.searchsorted(nodes, explained_nodes(explanation))
    if level == "node" and index is not None:
        part.index = int(explained) if isinstance(index, int) else explained
    elif level == "edge":
        field, pairs = pairs_field(explanation), explained.view(2, -1)
        if field and field != "edge_index":
            part[field] = None
        part.edge_label_index = pairs if pairs.numel() else None
        part.index = torch.arange(pairs.size(1)) if pairs.numel() else None
