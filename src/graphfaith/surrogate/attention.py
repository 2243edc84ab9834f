"""Attention walks: what the attention of a network's own layers lets through, as terms of an anchored p.

A graph convolution multiplies by N(A), which knows edges alone, so a k-hop model follows it well. An attention layer
multiplies by a matrix that moves with the features, and no polynomial in X of low degree follows a softmax.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv
from torch_geometric.utils import softmax

from ..graph.computation_graph import ComputationGraph
from ..model.home import fetch
from ..model.layers import message_passing_layers
from ..model.target import Target
from ..sampling.perturbations import Perturbations
from .sensitivity import project

Removes = Literal["none", "edges", "all"]

MOST_TERMS = 16  # directions of the last layer's input, of which there may be hundreds
_AT_ONCE = 2**22  # messages of one number that are held at once
_CUT = 1e-12  # squared singular values below this share of the largest one are rounding errors


@dataclass(frozen=True)
class AttentionLayer:
    r"""The weights of one attention layer, with H heads of width C.

    The attention of a node i to j is the softmax, over all entries (i, j) of A, of :math:`b^\top \sigma(z_i + z'_j)`
    for GATv2 and :math:`\sigma(b^\top z_i + b'^\top z'_j)` for GAT, where :math:`\sigma` is the leaky ReLU.
    """

    source: Tensor  # [H C, d] z' = source x
    sink: Tensor  # [H C, d] z = sink x
    source_bias: Tensor  # [H C] added to z'
    sink_bias: Tensor  # [H C] added to z
    of_source: Tensor  # [H, C] b', or b for GATv2
    of_sink: Tensor  # [H, C] b
    bias: Tensor  # [width of the output]
    residual: Tensor | None  # [width of the output, d] of the node's own features, if the layer adds them
    slope: float  # of the leaky ReLU for negative numbers
    concat: bool  # whether the heads' outputs stand side by side, or their mean is taken
    joint: bool  # whether it is a GATv2

    @property
    def width(self) -> int:
        """The width of the output."""
        heads, width = self.of_source.shape
        return heads * width if self.concat else width

    def attention(self, h: Tensor, links: _Links, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the attention times the entries of A, [l, S, H], and z' of all nodes, [n, S, H, C].

        ``h`` are the features, [n, S, d], and ``weight`` the entries of A, [l, S].
        """
        heads = len(self.of_source)
        sent = _by_heads(h @ self.source.T + self.source_bias, heads)
        if self.joint:
            got = _by_heads(h @ self.sink.T + self.sink_bias, heads)
            both = torch.nn.functional.leaky_relu(sent[links.source] + got[links.sink], self.slope)
            score = (both * self.of_source).sum(dim=-1)
        else:
            score = (sent * self.of_source).sum(dim=-1)[links.source] + (sent * self.of_sink).sum(dim=-1)[links.sink]
            score = torch.nn.functional.leaky_relu(score, self.slope)
        # A removed edge has no share; a silenced one has, but brings nothing.
        score = score.masked_fill(((weight == 0) & links.removable.unsqueeze(1)).unsqueeze(-1), -math.inf)
        share = softmax(score, links.sink, num_nodes=links.num_nodes)
        return torch.nan_to_num(share) * weight.unsqueeze(-1), sent

    def forward(self, h: Tensor, links: _Links, weight: Tensor) -> Tensor:
        """Return the output for features [n, S, d] and entries of A [l, S], without any activation, [n, S, width]."""
        share, sent = self.attention(h, links, weight)
        messages = (share.unsqueeze(-1) * sent[links.source]).flatten(2)
        heads, width = self.of_source.shape
        out = torch.zeros(links.num_nodes, messages.size(1), heads * width, dtype=h.dtype)
        out = out.index_add(0, links.sink, messages)
        out = (out if self.concat else _by_heads(out, heads).mean(dim=2)) + self.bias
        return out if self.residual is None else out + h @ self.residual.T

    @property
    def weights(self) -> Tensor:
        """All weights that the features are multiplied by, [w, d]."""
        sink = [self.sink] if self.joint else []
        return torch.cat([self.source, *sink, *([] if self.residual is None else [self.residual])])


@dataclass(frozen=True)
class _Links:
    """The entries of A that F reads, and which of them are not in F's graph if they are 0."""

    source: Tensor  # [l]
    sink: Tensor  # [l]
    places: Tensor  # [l] in A
    removable: Tensor  # [l]
    num_nodes: int

    @classmethod
    def of(cls, graph: ComputationGraph, removes: Removes) -> _Links:
        places = graph.felt.nonzero().view(-1)
        source, sink = graph.edge_index[:, places]
        removable = ~graph.is_loop[places] if removes == "edges" else torch.full_like(places, removes == "all").bool()
        return cls(source, sink, places, removable, graph.num_nodes)


@dataclass(frozen=True)
class Attention:
    r"""The output of an attention network without its activations, before the last layer's weights, times a fit.

    .. math:: g(X, A) = \sum_h e^\top \Pi_{L,h}\, H_{L-1} w_h + e^\top H_{L-1} w_0, \qquad
              H_l = \big[ \Pi_{l,h}\, H_{l-1} W_{l,h} \big]_h + H_{l-1} R_l + b_l, \qquad H_0 = X,

    where :math:`\Pi_{l,h}` is the attention of head h of layer l, computed from :math:`H_{l-1}`, times A. Only layers
    with residuals have an :math:`R_l`, and a last one with residuals a :math:`w_0`. If all activations of a network
    stay on one side, it is such a sum; w is fitted, because they do not.
    """

    layers: tuple[AttentionLayer, ...]
    removes: Removes  # the entries that F runs without if they are 0; layers add removed self-loops again
    columns: Tensor  # [u, t] the directions of the terms among all numbers e^T Pi_{L,h} H_{L-1}
    weights: Tensor  # [t] of the terms
    mean_x: Tensor | None = None  # [n, d] the mean gradient of g over some samples, if known
    mean_a: Tensor | None = None  # [e]

    @property
    def first_weights(self) -> Tensor:
        """The weights that X is multiplied by, [w, d]."""
        return self.layers[0].weights

    def terms(self, samples: Perturbations, moved: Tensor | None = None) -> Tensor:
        """Return the changes of all numbers e^T Pi_{L,h} H_{L-1}, [S, u].

        ``moved`` are the perturbations of X times the first weights, [S, n, w], if they are known.
        """
        (own,) = self._values(Perturbations(samples.graph, None, None))
        return own - torch.cat(list(self._values(samples, moved=moved)))

    def change(self, samples: Perturbations) -> Tensor:
        """Return the change of g for each sample, [S]."""
        return self.terms(samples) @ self.columns @ self.weights

    def mean_gradient(self, samples: Perturbations) -> tuple[Tensor, Tensor]:
        """Return the derivatives of g with respect to X and A, on average over samples, [n, d] and [e].

        Without any samples they are those at the unperturbed graph.
        """
        graph, count = samples.graph, max(1, len(samples))
        with torch.enable_grad(), torch.inference_mode(False):
            x = graph.x.detach().double().clone().requires_grad_()
            weight = graph.weight.detach().double().clone().requires_grad_()
            total_x, total_a = torch.zeros_like(x), torch.zeros_like(weight)
            for numbers in self._values(samples, x, weight):  # so many samples at a time as memory allows
                of_x, of_a = torch.autograd.grad((numbers @ self.columns @ self.weights).sum(), (x, weight))
                total_x, total_a = total_x + of_x, total_a + of_a
        return total_x.detach() / count, total_a.detach() / count

    def _values(
        self,
        samples: Perturbations,
        x: Tensor | None = None,
        weight: Tensor | None = None,
        moved: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """Yield the numbers e^T Pi_{L,h} H_{L-1} of some samples at a time, [S, u]; of the graph itself if none."""
        graph = samples.graph
        x = graph.x if x is None else x
        weight = graph.weight.double() if weight is None else weight
        links = _Links.of(graph, self.removes)
        size = self._size(len(links.places))
        for start in range(0, max(1, len(samples)), size):
            part = samples[start : start + size] if len(samples) else samples
            if moved is None and part.features is not None:
                yield self._numbers(x, weight, part, links, project(part.features, self.first_weights))
            else:
                yield self._numbers(x, weight, part, links, None if moved is None else moved[start : start + size])

    def _size(self, num_links: int) -> int:
        """Return how many samples fit into the memory for messages."""
        return max(1, _AT_ONCE // (max(1, num_links) * self._width))

    @property
    def _width(self) -> int:
        """The largest number of numbers that a layer sends along an edge."""
        return max(layer.of_source.numel() for layer in self.layers)

    def bytes_of(self, graph: ComputationGraph, count: int, slopes: int) -> tuple[int, int]:
        """Return the memory that a fit on ``count`` samples takes in all, and for each sample that is held at once.

        In all there are the numbers with their singular vectors, and copies of so many samples as ``slopes``. A sample
        has messages and what they are made of, which a gradient keeps for every layer.
        """
        links, last = int(graph.felt.sum()), self.layers[-1]
        inputs = last.source.size(1) if len(self.layers) > 1 else len(self.first_weights)
        numbers = inputs * (len(last.of_source) + (last.residual is not None))
        copied = slopes * (graph.x.element_size() * graph.x.numel() + 8 * graph.num_edges)
        messages = 4 * (links + graph.num_nodes) * self._width  # as many numbers as were measured
        sample = 8 * (len(self.layers) * messages + graph.num_nodes * len(self.first_weights))
        return 8 * 4 * count * numbers + copied, sample

    def _numbers(
        self, x: Tensor, weight: Tensor, samples: Perturbations, links: _Links, moved: Tensor | None
    ) -> Tensor:
        count, first = max(1, len(samples)), self.layers[0]
        entries = weight[links.places].unsqueeze(1)
        entries = entries.expand(-1, count) if samples.edges is None else entries - samples.edges[:, links.places].T
        h = (x.to(first.source.dtype) @ self.first_weights.T).unsqueeze(1)
        # Perturbations times the first weights are the only large product, which is in the precision of X.
        h = h.expand(-1, count, -1) if moved is None else h - moved.to(h.dtype).transpose(0, 1)
        for i, layer in enumerate(self.layers[:-1]):
            h = (layer if i else _projected(layer)).forward(h, links, entries)
        last = self.layers[-1] if len(self.layers) > 1 else _projected(first)
        share, _ = last.attention(h, links, entries)  # [l, S, H]
        e = torch.zeros(links.num_nodes, dtype=h.dtype)
        e = e.index_add(0, samples.graph.seeds, samples.graph.e.to(h.dtype))
        near = (e[links.sink] != 0).nonzero().view(-1)
        brought = (e[links.sink[near]].view(-1, 1, 1) * share[near]).permute(1, 2, 0)  # [S, H, l']
        numbers: Tensor = brought @ h[links.source[near]].transpose(0, 1)
        if last.residual is None:
            return numbers.flatten(1)
        return torch.cat([numbers.flatten(1), torch.einsum("n,nsd->sd", e, h)], dim=1)


def _by_heads(numbers: Tensor, heads: int) -> Tensor:
    """Return the numbers of nodes in samples, [n, S, H C], as [n, S, H, C]."""
    return numbers.reshape(*numbers.shape[:2], heads, -1)


def _projected(layer: AttentionLayer) -> AttentionLayer:
    """Return the layer for features that were multiplied by its weights already."""
    unit = torch.eye(len(layer.weights), dtype=layer.source.dtype)
    size = len(layer.source)
    return replace(
        layer,
        source=unit[:size],
        sink=unit[size : 2 * size] if layer.joint else unit[:size],
        residual=None if layer.residual is None else unit[-len(layer.residual) :],
    )


def find_attention(target: Target) -> Attention | None:
    """Return the attention of a network that passes messages by GAT or GATv2 alone, without a fit; None of others.

    The layers are taken in the order in which they are registered, each once. Whether that is what the network does, a
    fit finds out.
    """
    if target.computation_graph.kinds is not None:
        return None  # Its layers of several edge types do not follow each other.
    layers, width = [], target.computation_graph.x.size(1)
    for module in message_passing_layers(target.call.model):
        if type(module) not in (GATConv, GATv2Conv) or module.edge_dim is not None:
            return None
        if not isinstance(module.in_channels, int) or module.in_channels != width:
            return None
        layer = _weights_of(module)
        layers.append(layer)
        width = layer.width
    if not layers:
        return None
    call, none = target.call, torch.zeros(0, dtype=torch.float64)
    removes: Removes = "none" if call.route != "removal" else "all" if call.loop_weight is None else "edges"
    return Attention(tuple(layers), removes, none.view(0, 0), none)


def _weights_of(module: GATConv | GATv2Conv) -> AttentionLayer:
    """Return the weights of a layer on the processor, in double precision."""

    def double(value: Tensor | None, *shape: int) -> Tensor:
        return (
            torch.zeros(*shape, dtype=torch.float64) if value is None else fetch(value.detach()).double().view(*shape)
        )

    shape, joint = (module.heads, module.out_channels), isinstance(module, GATv2Conv)
    size = module.heads * module.out_channels
    source, sink = (module.lin_l, module.lin_r) if joint else (module.lin, module.lin)
    of_source, of_sink = (module.att, module.att) if joint else (module.att_src, module.att_dst)
    return AttentionLayer(
        source=fetch(source.weight.detach()).double(),
        sink=fetch(sink.weight.detach()).double(),
        source_bias=double(source.bias, size),
        sink_bias=double(sink.bias, size),
        of_source=double(of_source, *shape),
        of_sink=double(of_sink, *shape),
        bias=double(module.bias, size if module.concat else module.out_channels),
        residual=None if module.res is None else fetch(module.res.weight.detach()).double(),
        slope=float(module.negative_slope),
        concat=bool(module.concat),
        joint=joint,
    )


def main_terms(numbers: Tensor, most: int | None = None) -> Tensor:
    """Return the directions, [u, t], in which numbers at samples, [S, u], are largest: at most 16, or ``most``.

    >>> main_terms(torch.tensor([[3.0, 0.0], [-3.0, 0.0]]).double()).abs().tolist()
    [[1.0], [0.0]]
    """
    _, size, directions = torch.linalg.svd(numbers, full_matrices=False)
    kept = int((size.square() > _CUT * size[:1].square()).sum()) if len(size) else 0
    main: Tensor = directions[: min(kept, MOST_TERMS if most is None else most)].T.contiguous()
    return main
