"""Neighbourhoods B(X, D_X) and B(A, D_A): distributions of perturbations, seeded so that nothing else matters.

A sample is a pair (eps_X, eps_A); the perturbed graph is (X - eps_X, A - eps_A). The perturbation of an edge is a
function of (seed, sample, edge) and that of a feature of (seed, sample, node, column), edges and nodes counted in
the whole graph and self-loops by their node (see :mod:`graphfaith.sampling.draw`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._base import memory
from .._base.checks import check_count, check_seed
from .._base.errors import InputError
from .._base.scratch import lending, lent
from ..graph.computation_graph import ComputationGraph
from .draw import UInt64, below, joined_keys, keys, remembered_keys, symmetric, symmetric32


@dataclass(frozen=True)
class Perturbations:
    """S samples of (eps_X, eps_A) on a computation graph; None stands for a part that is not perturbed."""

    graph: ComputationGraph
    features: Tensor | None  # [S, n, d]
    edges: Tensor | None  # [S, e], in double precision

    def __len__(self) -> int:
        """How many samples there are."""
        part = self.edges if self.edges is not None else self.features
        return 0 if part is None else len(part)

    def __getitem__(self, samples: slice | Tensor) -> Perturbations:
        """Some of the samples."""
        features = None if self.features is None else self.features[samples]
        return Perturbations(self.graph, features, None if self.edges is None else self.edges[samples])

    @property
    def x(self) -> Tensor | None:
        """X - eps_X, [S, n, d]; None if features stay as they are."""
        return None if self.features is None else self.graph.x - self.features

    @property
    def weight(self) -> Tensor | None:
        """A - eps_A, [S, e], in double precision; None if edges stay as they are."""
        return None if self.edges is None else self.graph.weight.double() - self.edges

    @property
    def weight_with_own(self) -> Tensor:
        """A as it is and A - eps_A, [S + 1, e] (A alone if edges stay), laid out entry after entry, as gathered."""
        own, eps = self.graph.weight.double(), self.edges
        both = torch.empty(len(own), 1 if eps is None else len(eps) + 1, dtype=own.dtype)
        both[:, 0] = own
        if eps is not None:
            torch.sub(own.unsqueeze(1), eps.T, out=both[:, 1:])
        return both.T


class Neighborhood:
    """A distribution of perturbations of a graph. Products (``*``) perturb features and edges together.

    >>> near = UniformFeatures(0.2) * UniformEdges(0.2)
    >>> str(near)
    'U(X,0.2r)xU(A,0.2)'
    >>> parse_neighborhood(str(near)) == near
    True
    """

    perturbs_features = False
    perturbs_edges = False
    drops_edges = False  # whether an entry of A either stays as it is or goes

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """eps_A of the given samples (their numbers), [S, e]."""
        return None

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """eps_X of the given samples (their numbers), [S, n, d]."""
        return None

    def check(self, graph: ComputationGraph) -> None:
        """Raise an :class:`InputError` if this neighbourhood means nothing on ``graph``."""

    def sample(
        self, graph: ComputationGraph, num_samples: int, seed: int = 0, start: int = 0, *, passing: bool = False
    ) -> Perturbations:
        """Samples ``start`` to ``start + num_samples`` of the stream that ``seed`` names.

        ``passing`` samples of features are in memory that the next ones will be written to.
        """
        return self.numbered(
            graph, np.arange(start, start + check_count(num_samples, "num_samples")), seed, passing=passing
        )

    def numbered(
        self, graph: ComputationGraph, samples: np.ndarray, seed: int = 0, *, passing: bool = False
    ) -> Perturbations:
        """Samples of these numbers of the stream that ``seed`` names."""
        check_seed(seed)
        self.check(graph)
        with lending() if passing else nullcontext():
            features = self.features(graph, samples, seed)
        return Perturbations(graph, features, self.edges(graph, samples, seed))

    def sample_bytes(self, graph: ComputationGraph, width: int) -> int:
        """What drawing a sample and evaluating F and p on it takes, about."""
        # Messages of a layer are edges x width numbers, with a few copies under way at once.
        numbers = 4 * graph.num_edges * width + 6 * graph.num_edges + 6 * graph.num_nodes
        return 8 * (numbers + (3 * graph.x.numel() if self.perturbs_features else 0))

    def chunks(
        self,
        graph: ComputationGraph,
        num_samples: int,
        seed: int = 0,
        *,
        width: int = 16,
        room: int | None = None,
        size: int | None = None,
        passing: bool = False,
    ) -> Iterator[Perturbations]:
        """The same samples a chunk at a time, so that they fit in ``room`` bytes (64 MB if None).

        ``width`` is that of the model's widest layer; ``size`` forces the number of samples in a chunk. ``passing``
        is for who does not look at a chunk any more when the next one comes.
        """
        check_count(num_samples, "num_samples")
        if size is None:
            room = memory.CHUNK_BYTES if room is None else room
            size = max(1, room // self.sample_bytes(graph, width))
        if size < 1:
            raise InputError(f"size must be at least 1 (got {size!r})")
        for start in range(0, num_samples, size):
            yield self.sample(graph, min(size, num_samples - start), seed, start, passing=passing)

    def __mul__(self, other: Neighborhood) -> Neighborhood:
        """The product of a neighbourhood of features and one of edges."""
        if not isinstance(other, Neighborhood):
            return NotImplemented
        return Product(self, other)


@dataclass(frozen=True)
class UniformEdges(Neighborhood):
    """U(A, sigma): each weight, self-loops included, moves by U[-sigma, sigma], clipped so that it stays >= 0."""

    sigma: float
    perturbs_edges = True

    def __post_init__(self) -> None:
        """Check sigma."""
        _check_sigma(self.sigma, math.inf, "UniformEdges")

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """eps = min(sigma (2 u - 1), A), so that A - eps >= 0."""
        moved = torch.from_numpy(symmetric(*_edge_draws(graph, samples, seed), float(self.sigma)))
        moved = torch.minimum(moved, graph.weight.double())
        return moved if bool(graph.felt.all()) else moved.mul_(graph.felt)

    def __str__(self) -> str:
        """The paper's notation."""
        return f"U(A,{_text(self.sigma)})"


@dataclass(frozen=True)
class BernoulliEdges(Neighborhood):
    """B(A, sigma): each edge, self-loops included, is dropped with probability sigma."""

    sigma: float
    perturbs_edges = True
    drops_edges = True

    def __post_init__(self) -> None:
        """Check sigma."""
        _check_sigma(self.sigma, 1.0, "BernoulliEdges")

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """eps = A where u < sigma, 0 elsewhere."""
        dropped = below(*_edge_draws(graph, samples, seed), float(self.sigma))
        return torch.from_numpy(dropped) * (graph.weight.double() * graph.felt)

    def __str__(self) -> str:
        """The paper's notation."""
        return f"B(A,{_text(self.sigma)})"


@dataclass(frozen=True)
class UniformFeatures(Neighborhood):
    """U(X, sigma r): each feature moves by U[-sigma r, sigma r], r = max(X) - min(X) over the whole graph."""

    sigma: float
    perturbs_features = True

    def __post_init__(self) -> None:
        """Check sigma."""
        _check_sigma(self.sigma, math.inf, "UniformFeatures")

    def check(self, graph: ComputationGraph) -> None:
        """Constant features have no range to move in, and the range has to be a number."""
        if not math.isfinite(graph.feature_range):
            raise InputError(f"{self}: r = max(X) - min(X) is too large for {graph.x.dtype}; scale the features")
        if graph.feature_range == 0:
            raise InputError(
                f"{self}: every feature of this graph is {float(graph.x[0, 0]):g}, so r = max(X) - min(X) = 0 and "
                "nothing would move; use a neighbourhood of edges, such as U(A,0.5)"
            )

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
        """eps = sigma r (2 u - 1) for the nodes whose features F can see, 0 for the outermost one."""
        nodes, columns = graph.x.shape
        rows = keys(seed, "feature", samples[:, None], graph.nodes.numpy()[None, :]).reshape(-1)
        names = remembered_keys(seed, "column", np.arange(columns))
        held = lent("features", len(rows), columns)
        out = None if held is None else held.numpy()
        # The outermost node is drawn too, and put back: leaving a gap for it costs more.
        scale, wide = self.sigma * graph.feature_range, graph.x.dtype == torch.float64
        drawn = torch.from_numpy(symmetric32(rows, names, 1.0 if wide else scale, out)).to(graph.x.dtype)
        if wide:  # the range may be one that single precision has not
            drawn.mul_(scale)
        drawn = drawn.view(len(samples), nodes, columns)
        drawn[:, graph.num_visible :] = 0
        return drawn

    def __str__(self) -> str:
        """The paper's notation."""
        return f"U(X,{_text(self.sigma)}r)"


@dataclass(frozen=True)
class Product(Neighborhood):
    """Features and edges perturbed together, independently of each other."""

    first: Neighborhood
    second: Neighborhood

    def __post_init__(self) -> None:
        """One factor has to move features, the other edges."""
        a, b = self.first, self.second
        if a.perturbs_features + b.perturbs_features != 1 or a.perturbs_edges + b.perturbs_edges != 1:
            raise InputError(
                f"{a} x {b}: a product needs one neighbourhood of features and one of edges, as in U(X,0.2r)xU(A,0.2)"
            )
        if a.perturbs_edges:  # the paper writes features first; the order means nothing
            object.__setattr__(self, "first", b)
            object.__setattr__(self, "second", a)

    perturbs_features = True
    perturbs_edges = True

    @property
    def drops_edges(self) -> bool:  # type: ignore[override]
        """Whether the factor that moves edges drops them."""
        return self.second.drops_edges

    def check(self, graph: ComputationGraph) -> None:
        """Both factors have to mean something."""
        self.first.check(graph)
        self.second.check(graph)

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """eps_X of the factor that moves features."""
        return self.first.features(graph, samples, seed)

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:
        """eps_A of the factor that moves edges."""
        return self.second.edges(graph, samples, seed)

    def __str__(self) -> str:
        """The paper's notation."""
        return f"{self.first}x{self.second}"


_FACTOR = re.compile(r"(?P<kind>[UB])\((?P<what>[XA]),(?P<sigma>[0-9.eE+-]+)(?P<r>r?)\)")
_KNOWN = "U(A,0.5), B(A,0.5), U(X,0.2r) and products such as U(X,0.2r)xU(A,0.2)"


def parse_neighborhood(text: str) -> Neighborhood:
    """The neighbourhood that ``text`` writes in the paper's notation; the inverse of ``str``.

    >>> parse_neighborhood("B(A, 0.5)")
    BernoulliEdges(sigma=0.5)
    """
    if not isinstance(text, str):
        raise InputError(f"a neighbourhood is written as text, e.g. {_KNOWN} (got {text!r})")
    plain = re.sub(r"(?<![0-9.eE+-])\s+|\s+(?![0-9.eE+-])", "", text).replace("×", "x").replace("*", "x")
    factors = [_parse_factor(factor, text) for factor in plain.split("x")]
    if len(factors) == 1:
        return factors[0]
    if len(factors) == 2:
        return factors[0] * factors[1]
    raise InputError(f"cannot read the neighbourhood {text!r}: known are {_KNOWN}")


def _parse_factor(factor: str, text: str) -> Neighborhood:
    match = _FACTOR.fullmatch(factor)
    kinds = {("U", "A", ""): UniformEdges, ("B", "A", ""): BernoulliEdges, ("U", "X", "r"): UniformFeatures}
    kind = kinds.get((match["kind"], match["what"], match["r"])) if match else None
    if match is None or kind is None:
        raise InputError(f"cannot read the neighbourhood {text!r}: known are {_KNOWN}")
    try:
        sigma = float(match["sigma"])
    except ValueError:
        raise InputError(f"cannot read {match['sigma']!r} in the neighbourhood {text!r} as a number") from None
    return kind(sigma)


def as_neighborhood(neighborhood: Neighborhood | str) -> Neighborhood:
    """A neighbourhood, given as one or as the paper's text."""
    if isinstance(neighborhood, Neighborhood):
        return neighborhood
    return parse_neighborhood(neighborhood)


def _check_sigma(sigma: float, largest: float, name: str) -> None:
    number = isinstance(sigma, int | float | np.floating | np.integer) and not isinstance(sigma, bool)
    if not number or not 0 < sigma <= largest or math.isinf(sigma):
        bound = "above 0" if math.isinf(largest) else f"above 0 and at most {largest:g}"
        raise InputError(f"{name}: sigma must be {bound} (got {sigma!r})")


def edge_keys(graph: ComputationGraph, seed: int) -> UInt64:
    """Names of the entries of A for draws, [e]: edges by their place in the whole graph, self-loops by their node."""
    return joined_keys(seed, edge=graph.edge_id[: graph.num_plain].numpy(), loop=graph.nodes.numpy())


def _edge_draws(graph: ComputationGraph, samples: np.ndarray, seed: int) -> tuple[UInt64, UInt64]:
    """Keys of the samples and of the entries of A, whose pairs name the draws."""
    return remembered_keys(seed, "sample", samples), edge_keys(graph, seed)


def _text(sigma: float) -> str:
    short = f"{sigma:g}"
    return short if float(short) == sigma else repr(float(sigma))
