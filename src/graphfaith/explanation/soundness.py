"""Whether the parts of a p and of its computation graph fit together, so that nothing is read from outside of them."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from .._base.errors import InputError
from ..graph.computation_graph import ComputationGraph
from ..graph.kinds import Kinds
from ..surrogate.attention import Attention, AttentionLayer, Removes
from ..surrogate.difference import AnchoredModel, KHopModel, LinearModel
from ..surrogate.evidence import Evidence
from ..surrogate.hinges import Hinges
from ..surrogate.kriging import Kriging
from ..surrogate.propagation import MOMENTS
from ..surrogate.typed_walks import TypedKHopModel, WalkSum
from ..surrogate.walks import Normalization
from .scores import check_ids


def check_graph(part: ComputationGraph) -> None:
    """Check that the parts of a computation graph fit together."""
    (num_nodes, num_edges), n, e = part.size, len(part.nodes), len(part.weight)
    shapes = {"nodes": (n,), "hop": (n,), "edge_index": (2, e), "edge_id": (e,), "weight": (e,), "felt": (e,)}
    shapes["ends"] = (2, e)
    for name, shape in shapes.items():
        if tuple(getattr(part, name).shape) != shape:
            raise InputError(f"{name} of the computation graph must be {list(shape)}")
    if part.seeds.dim() != 1 or part.e.shape != part.seeds.shape or part.e.dtype != torch.float64:
        raise InputError("the computation graph must have as many numbers e as seeds, in two lists")
    if part.x.dim() != 2 or len(part.x) != n or not n <= e or not 0 <= part.num_visible <= n or part.num_hops < 1:
        raise InputError("the parts of the computation graph do not fit together")
    if part.attributes is not None and (part.attributes.dim() != 2 or len(part.attributes) != e):
        raise InputError("the computation graph must have a row of edge attributes for each entry of A")
    ranges = part.attribute_ranges
    if ranges is not None and (part.attributes is None or ranges.shape != part.attributes.shape):
        raise InputError("the computation graph must have a range for each edge attribute")
    if part.felt.dtype != torch.bool or not part.weight.is_floating_point() or not part.x.is_floating_point():
        raise InputError("weights and features of the computation graph must be real, and felt must be booleans")
    if not _fits_kinds(part):
        raise InputError("the types of the computation graph do not fit its size")
    check_ids(part.seeds, n, "seeds of the computation graph")
    check_ids(part.nodes, num_nodes, "nodes of the computation graph")
    check_ids(part.hop, part.num_hops + 2, "hop of the computation graph")
    check_ids(part.edge_index, n, "edge_index of the computation graph")
    check_ids(part.ends, num_nodes, "ends of the computation graph")
    check_ids(part.edge_id, num_edges, "edge_id of the computation graph", least=-1)


def check_kinds(kinds: Kinds) -> None:
    """Check that the types of a heterogeneous graph are a sound numbering."""
    nodes, edges = len(kinds.node_types), len(kinds.edge_types)
    starts = ((kinds.node_start, nodes), (kinds.column_start, nodes), (kinds.edge_start, edges))
    sound = all(
        isinstance(start, tuple)
        and len(start) == count + 1
        and all(type(place) is int for place in start)
        and start[0] == 0
        and list(start) == sorted(start)
        for start, count in starts
    )
    sound = sound and nodes > 0 and all(isinstance(name, str) for name in kinds.node_types)
    sound = sound and all(
        isinstance(kind, tuple) and len(kind) == 3 and {kind[0], kind[2]} <= set(kinds.node_types)
        for kind in kinds.edge_types
    )
    sound = sound and all(
        isinstance(numbers, tuple) and len(numbers) == nodes and all(type(number) is float for number in numbers)
        for numbers in (kinds.lowest, kinds.span)
    )
    if not sound:
        raise InputError("the types of nodes and edges do not fit together")


def _fits_kinds(part: ComputationGraph) -> bool:
    kinds = part.kinds
    if kinds is None:
        return True
    if not isinstance(kinds, Kinds):
        return False
    size = kinds.node_start[-1], kinds.edge_start[-1]
    return tuple(part.size) == size and part.x.size(1) == kinds.column_start[-1]


def _fits_walks(part: ComputationGraph, groups: object, weights: Tensor, constants: Tensor | None) -> bool:
    """Return whether typed walks go along edge types that there are, with a weight for each."""
    if part.kinds is None or not isinstance(groups, tuple):
        return False
    sound = groups[:1] == ((),) and all(
        isinstance(group, tuple) and len(group) > 0 and _continues(part.kinds, place + 1, group)
        for place, group in enumerate(groups[1:])
    )
    shapes = tuple(weights.shape) == (len(groups), part.x.size(1)) and weights.dtype == torch.float64
    return sound and shapes and (constants is None or tuple(constants.shape) == (len(groups),))


def _continues(kinds: Kinds, place: int, group: tuple[object, ...]) -> bool:
    """Return whether a group of walks continues groups before it, along edge types that begin at one type of nodes."""
    ends = set()
    for step in group:
        if not isinstance(step, tuple) or len(step) != 2 or not all(type(number) is int for number in step):
            return False
        parent, relation = step
        if not 0 <= parent < place or not 0 <= relation < len(kinds.edge_types):
            return False
        ends.add(kinds.ends(relation)[0])
    return len(ends) == 1


def _has_sound_walks(model: AnchoredModel) -> bool:
    """Return whether the sum over typed walks, if there is one, is one on the same graph."""
    found = model.walks
    if found is None:
        return True
    if not isinstance(found, WalkSum) or not isinstance(found.graph, ComputationGraph):
        return False
    same = found.graph.weight.shape == model.graph.weight.shape and found.graph.x.shape == model.graph.x.shape
    named = found.normalization in get_args(Normalization) and type(found.steps) is bool
    return same and named and _fits_walks(found.graph, found.groups, found.weights, found.constants)


def check_model(model: LinearModel | KHopModel | TypedKHopModel | AnchoredModel) -> None:
    """Check that the coefficients of p fit its computation graph."""
    part = model.graph
    if isinstance(model, LinearModel):
        fits = model.phi_x.shape == part.x.shape and model.phi_a.shape == part.weight.shape
    elif isinstance(model, AnchoredModel):
        (n, d), e = part.x.shape, len(part.weight)
        rank, hops = (*model.bend.shape, 0)[0], (*model.weights.shape, 0)[0] - 1
        shapes = {
            (model.weights.shape, (hops + 1, d)),
            (model.degree_weights.shape, (hops, len(MOMENTS))),
            (model.phi_x.shape, (n, d)),
            (model.phi_a.shape, (e,)),
            (model.stiffness.shape, (2,)),
            (model.bend.shape, (rank, rank)),
            *(
                (directions.shape, shape)
                for directions, shape in ((model.along_x, (rank, n, d)), (model.along_a, (rank, e)))
                if directions is not None
            ),
        }
        fits = hops >= 1 and all(tuple(actual) == shape for actual, shape in shapes)
        fits = fits and model.normalization in get_args(Normalization) and _has_sound_evidence(model)
        fits = fits and _has_sound_kriging(model) and _has_sound_attention(model)
        fits = fits and _has_sound_walks(model) and _has_sound_hinges(model)
    elif isinstance(model, TypedKHopModel):
        fits = _fits_walks(part, model.groups, model.weights, None)
        fits = fits and model.normalization in get_args(Normalization)
    else:
        fits = model.weights.dim() == 2 and model.weights.size(1) == part.x.size(1)
        fits = fits and model.normalization in get_args(Normalization)
    slope = getattr(model, "phi_e", None)
    if slope is not None:
        fits = fits and part.attributes is not None and slope.shape == part.attributes.shape
    if not fits:
        raise InputError("the coefficients or options of the difference model do not fit its computation graph")


def _has_sound_evidence(model: AnchoredModel) -> bool:
    """Return whether what a fit has seen of F has a number for each of its samples, or is not there."""
    seen = model.evidence
    if seen is None:
        return True
    if not isinstance(seen, Evidence) or seen.samples.dtype != torch.int64 or seen.samples.dim() != 1:
        return False
    numbers = seen.change, seen.left_out, seen.fitted
    sound = all(part.shape == seen.samples.shape and part.dtype == torch.float64 for part in numbers)
    strength = seen.strength
    sound = sound and (
        strength is None or (strength.shape == model.graph.weight.shape and strength.is_floating_point())
    )
    return sound and not bool((seen.samples < 0).any())


def _has_sound_kriging(model: AnchoredModel) -> bool:
    """Return whether the function of removed edges, if there is one, has a number for each of its entries."""
    found, edges = model.kriging, model.graph.num_edges
    if found is None:
        return True
    if not isinstance(found, Kriging) or found.entries.dtype != torch.int64 or found.num_edges != edges:
        return False
    size, count = found.entries.numel(), found.alpha.numel()
    shapes = {"entries": (size,), "weight": (size,), "rho": (size,), "seen": (count, size), "alpha": (count,)}
    sound = all(tuple(getattr(found, name).shape) == shape for name, shape in shapes.items())
    real = all(getattr(found, name).dtype == torch.float64 for name in shapes if name != "entries")
    return sound and real and bool(((found.entries >= 0) & (found.entries < edges)).all())


def _has_sound_hinges(model: AnchoredModel) -> bool:
    """Return whether hinges, if there are any, each have a direction and a number of each kind."""
    found, (n, width), edges = model.hinges, model.graph.x.shape, model.graph.num_edges
    if found is None:
        return True
    if not isinstance(found, Hinges) or not isinstance(found.along_a, torch.Tensor | None):
        return False
    count = found.level.numel()
    numbers = found.level, found.side, found.weights, found.switched
    sound = all(tuple(part.shape) == (count,) and part.dtype == torch.float64 for part in numbers)
    sound = sound and tuple(found.along_x.shape) == (count, n, width) and found.along_x.is_floating_point()
    of_a = found.along_a
    return sound and (of_a is None or (tuple(of_a.shape) == (count, edges) and of_a.dtype == torch.float64))


def _has_sound_attention(model: AnchoredModel) -> bool:
    """Return whether the layers of attention, if there are any, follow each other, from X to the terms of the fit."""
    found, (n, width) = model.attention, model.graph.x.shape
    if found is None:
        return True
    if not isinstance(found, Attention) or not isinstance(found.layers, tuple) or not found.layers:
        return False
    read = width
    for layer in found.layers:
        if not isinstance(layer, AttentionLayer) or layer.of_source.dim() != 2:
            return False
        heads, size = layer.of_source.shape
        shapes = {
            "source": (heads * size, width),
            "sink": (heads * size, width),
            "source_bias": (heads * size,),
            "sink_bias": (heads * size,),
            "of_source": (heads, size),
            "of_sink": (heads, size),
            "bias": (layer.width,),
        }
        for name, shape in shapes.items():
            part = getattr(layer, name)
            if tuple(part.shape) != shape or part.dtype != torch.float64:
                return False
        read, width = (width if layer is not found.layers[0] else heads * size * (1 + bool(layer.joint))), layer.width
    terms, means = (
        found.weights.numel(),
        ((found.mean_x, (n, model.graph.x.size(1))), (found.mean_a, (len(model.phi_a),))),
    )
    sound = (
        tuple(found.columns.shape) == (found.layers[-1].of_source.size(0) * read, terms) and found.weights.dim() == 1
    )
    sound = sound and found.removes in get_args(Removes)
    real = found.columns.dtype == found.weights.dtype == torch.float64
    return sound and real and all(part is None or tuple(part.shape) == shape for part, shape in means)
