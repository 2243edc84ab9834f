"""One prediction explained in one line, with its score."""

from __future__ import annotations

import copy
import inspect
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer

from .._base.checks import check_count, check_node, check_seed, is_whole
from .._base.errors import InputError, show
from .._base.progress import waiting
from ..explainers.base import Samples
from ..explainers.methods import method_named
from ..explanation.signed import SignedExplanation
from ..explanation.typed import TypedExplanation
from ..model.call import Edges
from ..model.inference import find_task
from ..model.layers import unwrap
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from .fitting import METHOD, NEIGHBORHOOD
from .subject import Options, Subject, prepare
from .typed import TypedSubject

Pair = tuple[int, int]


def explain(
    model: torch.nn.Module,
    data: Data | HeteroData,
    node: int | None = None,
    *,
    edge: int | Pair | None = None,
    graph: int | None = None,
    method: str = METHOD,
    neighborhood: Neighborhood | str = NEIGHBORHOOD,
    samples: Samples = 200,
    test_samples: int = 500,
    seed: int = 0,
    mode: str | None = None,
    return_type: str | None = None,
    num_hops: int | None = None,
    edges: Edges = "auto",
    max_memory: int | str | None = None,
    also: Neighborhood | str | None = None,
    node_type: str | None = None,
) -> SignedExplanation | TypedExplanation:
    """Explain one prediction, and measure how far the explanation follows the model.

    Args:
        model: a trained PyG model.
        data: its graph, ``Data`` or ``HeteroData``, with whatever else its forward takes by name.
        node: the node to explain; or
        edge: the edge or pair, as (source, sink) or as its place in ``edge_label_index``; or
        graph: the graph of the batch (0 if there is one).
        method: the name of a method, as on the command line.
        neighborhood: where the explanation has to follow the model, and is scored. The text "R(A,5)" means that up to
            five edges are removed, both entries of each if the graph is undirected; ``RemovedEdges(5)``, given as an
            object, removes single entries.
        samples: how many perturbed graphs to fit on; "auto" lets AnchoredKEC choose.
        test_samples: how many others to score on.
        seed: names the samples of the fit; those of the score are named by the next seed.
        mode: "multiclass_classification", "binary_classification" or "regression"; found out if None.
        return_type: "raw", "probs" or "log_probs"; found out if None.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
        also: a second neighbourhood to score in, such as "U(X,0.2r)" beside one of edges: without it, the scores of
            what ``neighborhood`` leaves still are shown as "not measured".
        node_type: for a heterogeneous graph (``HeteroData``), the type of nodes that the model's output is of; it is
            found out if None, unless the model returns a dictionary or several types have as many nodes.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> data = Data(x=torch.rand(4, 2), edge_index=ring)
    >>> explanation = explain(GCN(2, 4, num_layers=2, out_channels=3), data, 1)
    >>> explanation.method, explanation.neighborhood, explanation.unfaithfulness.num_samples
    ('AnchoredKEC', 'U(A,0.5)', 500)
    """
    words: dict[str, Any]
    check_count(test_samples, "test_samples")
    check_seed(seed)
    check_seed(int(seed) + 1)
    if also is not None:
        as_neighborhood(also)  # raises if it cannot be read
    options = Options(num_hops, edges, max_memory)
    method_named(method).make_for(neighborhood, samples, seed, **asdict(options))  # raises before the model runs
    if isinstance(data, HeteroData):
        level, index = _find_level(node, edge, graph)
        words = {"samples": samples, "test_samples": test_samples, "seed": seed, "also": also}
        typed = TypedSubject(model, data, node_type, level, mode, return_type, options)
        with waiting(f"explaining by {method}"):
            return typed.explain(index, method, neighborhood, **words)
    data = prepare(model, data)
    level, index = _find_level(node, edge, graph)
    by_ends = level == "edge" and not is_whole(index)
    # A graph without pairs gets the one that is asked for, if the model cannot run without.
    if by_ends and data.get("edge_label_index") is None and _needs_pairs(model):
        data, index = _find_pair(model, data, index)
        by_ends = False
    task = find_task(model, data, level, mode, return_type)
    if by_ends:
        data, index = _find_pair(model, data, index)
    if not is_whole(index):
        raise InputError(f"{level}= takes one whole number (got {index!r}); for several see compare and explain_nodes")
    if level == "node":
        check_node(index, int(data.num_nodes))
    elif not 0 <= int(index) < 1 << 62:  # PyG makes a tensor of it.
        raise InputError(f"{level} {show(index)} is out of range")
    subject = Subject(model, data, task, options)
    words = {"samples": samples, "test_samples": test_samples, "seed": seed, "also": also}
    with waiting(f"explaining by {method}"):
        return subject.explain(int(index), method, neighborhood, **words)


def explainer_for(
    model: torch.nn.Module,
    data: Data | HeteroData,
    *,
    method: str = METHOD,
    neighborhood: Neighborhood | str = NEIGHBORHOOD,
    samples: Samples = 200,
    seed: int = 0,
    level: str = "node",
    mode: str | None = None,
    return_type: str | None = None,
    num_hops: int | None = None,
    edges: Edges = "auto",
    max_memory: int | str | None = None,
    node_type: str | None = None,
) -> Explainer:
    """Return the ``torch_geometric.explain.Explainer`` that :func:`explain` uses; the arguments are its own.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explainer = gf.explainer_for(model, ring, method="saliency")
    >>> explainer(ring.x, ring.edge_index, index=1).method
    'Saliency'
    """
    if isinstance(data, HeteroData):
        options = Options(num_hops, edges, max_memory)
        typed = TypedSubject(model, data, node_type, level, mode, return_type, options)
        return typed.explainer(method, neighborhood, samples=samples, seed=seed)
    data = prepare(model, data)
    subject = Subject(
        model, data, find_task(model, data, level, mode, return_type), Options(num_hops, edges, max_memory)
    )
    return subject.explainer(method, neighborhood, samples=samples, seed=seed)


def _find_level(node: Any, edge: Any, graph: Any) -> tuple[str, Any]:
    """Return the level of what is to be explained, and what the user called it."""
    given = {"node": node, "edge": edge, "graph": graph}
    named = [level for level, index in given.items() if index is not None]
    if len(named) != 1:
        raise InputError(f"name one thing to explain: node=, edge= or graph= (got {', '.join(named) or 'none'})")
    return named[0], given[named[0]]


def _needs_pairs(model: torch.nn.Module) -> bool:
    asked = inspect.signature(unwrap(model).forward).parameters.get("edge_label_index")
    return asked is not None and asked.default is inspect.Parameter.empty


def _find_pair(model: torch.nn.Module, data: Data, pair: Any) -> tuple[Data, int]:
    """Return data whose rows of the output stand for pairs, and the row of ``pair``."""
    ends = pair.tolist() if isinstance(pair, Tensor | np.ndarray) else pair
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise InputError(f"edge= takes a pair (source, sink), or its place in edge_label_index (got {pair!r})")
    source, sink = (check_node(end, int(data.num_nodes)) for end in ends)
    takes_pairs = "edge_label_index" in inspect.signature(unwrap(model).forward).parameters
    has_pairs = isinstance(data.get("edge_label_index"), Tensor)
    pairs = data.edge_label_index if has_pairs else data.edge_index
    places = ((pairs[0] == source) & (pairs[1] == sink)).nonzero().view(-1)
    if len(places) and (has_pairs or not takes_pairs):
        return data, int(places[0])
    if takes_pairs:
        asked = copy.copy(data)
        asked.edge_label_index = torch.tensor([[source], [sink]])
        return asked, 0
    raise InputError(f"({source}, {sink}) is not among the pairs of the graph")
