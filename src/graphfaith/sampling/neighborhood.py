"""Neighbourhoods B(X, D_X) and B(A, D_A): distributions of perturbations whose samples depend on the seed alone.

A sample is a pair (eps_X, eps_A); the perturbed graph is (X - eps_X, A - eps_A). The perturbation of an edge is a
function of (seed, sample, edge) and that of a feature of (seed, sample, node, column). Edges and nodes are counted in
the whole graph, and self-loops by their node (see :mod:`graphfaith.sampling.draw`). So one node explained alone and the
same node in a run over the whole graph see the same samples.

A new neighbourhood is one class: a frozen dataclass with a ``notation``, registered by :func:`register_neighborhood`,
that overrides :meth:`Neighborhood.edges` or :meth:`Neighborhood.features`. It gets its random numbers from
:func:`draw_edges` and :func:`draw_features`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._base import memory
from .._base.checks import check_count, check_seed
from .._base.errors import InputError
from ..graph.computation_graph import ComputationGraph
from .draw import UInt64, joined_keys, keys, uniform
from .perturbations import Perturbations


class Neighborhood:
    """A distribution of perturbations of a graph. Products (``*``) perturb features and edges together.

    >>> from graphfaith.sampling import UniformEdges, UniformFeatures
    >>> near = UniformFeatures(0.2) * UniformEdges(0.2)
    >>> str(near)
    'U(X,0.2r)xU(A,0.2)'
    >>> parse_neighborhood(str(near)) == near
    True
    """

    notation: ClassVar[str] = ""  # the text form, with the names of fields in braces: "U(A,{sigma})"
    example: ClassVar[str] = ""  # how to write it, if not with 0.5 for every field
    perturbs_features = False
    perturbs_edges = False
    perturbs_attributes = False  # of edges, E
    drops_edges = False  # whether an entry of A is either unchanged or removed
    drops_features = False  # whether a feature is either unchanged or 0
    drops_attributes = False  # whether an edge attribute is either unchanged or 0
    by_itself = True  # whether every entry is drawn by itself, so that the draws of a part are those of the whole graph

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """Return eps_A of the samples of these numbers, [S, e], in double precision."""
        return None

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """Return eps_X of the samples of these numbers, [S, n, d], in the precision of X."""
        return None

    def attributes(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """Return eps_E of the samples of these numbers, [S, e, c], in the precision of E."""
        return None

    def check(self, graph: ComputationGraph) -> None:
        """Raise an :class:`InputError` if this neighbourhood means nothing on ``graph``."""

    def units(self, graph: ComputationGraph) -> Tensor | None:  # noqa: ARG002
        """Return the unit of each entry of A, [e], where entries of one unit move together; None if all are alone."""
        return None

    def lean(self, strength: Tensor) -> Neighborhood | None:  # noqa: ARG002
        """Return a neighbourhood to fit in if samples of this one hardly move what F depends on; None if they do.

        ``strength`` says how much F depends on each entry of A, [e].
        """
        return None

    def leans(self, samples: np.ndarray, seed: int) -> np.ndarray:  # noqa: ARG002
        """Return which samples are not those of the neighbourhood that this one stands in for, [S]."""
        return np.zeros(len(samples), dtype=bool)

    def is_symmetric(self, graph: ComputationGraph) -> bool:  # noqa: ARG002
        """Return whether 2 E eps - eps, the mirror image of a sample, is as likely as eps. Moments have to be known."""
        return False

    def edge_moments(self, graph: ComputationGraph) -> Moments | None:  # noqa: ARG002
        """Return the moments of eps_A; None if they have to be estimated from samples."""
        return None

    def feature_moments(self, graph: ComputationGraph) -> Moments | None:  # noqa: ARG002
        """Return the moments of eps_X, flattened to [n d]; None if they have to be estimated from samples."""
        return None

    def sample(self, graph: ComputationGraph, num_samples: int, seed: int = 0, start: int = 0) -> Perturbations:
        """Draw samples ``start`` to ``start + num_samples`` of the stream that ``seed`` names."""
        return self.numbered(graph, np.arange(start, start + check_count(num_samples, "num_samples")), seed)

    def numbered(self, graph: ComputationGraph, samples: np.ndarray, seed: int = 0) -> Perturbations:
        """Draw the samples of these numbers of the stream that ``seed`` names."""
        check_seed(seed)
        self.check(graph)
        moved = self.features(graph, samples, seed), self.edges(graph, samples, seed)
        return Perturbations(graph, *moved, self.attributes(graph, samples, seed))

    def sample_bytes(self, graph: ComputationGraph, width: int) -> int:
        """Estimate what it takes to draw a sample and to evaluate F and p on it."""
        # The messages of a layer are edges x width numbers, of which a few copies exist at once.
        numbers = 4 * graph.num_edges * width + 6 * graph.num_edges + 6 * graph.num_nodes
        if self.perturbs_attributes and graph.attributes is not None:
            numbers += 4 * graph.attributes.numel()
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
    ) -> Iterator[Perturbations]:
        """Draw the same samples a chunk at a time, so that a chunk fits in ``room`` bytes (64 MB if None).

        ``width`` is that of the model's widest layer; ``size`` forces the number of samples in a chunk.
        """
        check_count(num_samples, "num_samples")
        if size is None:
            room = memory.CHUNK_BYTES if room is None else room
            size = max(1, room // self.sample_bytes(graph, width))
        if size < 1:
            raise InputError(f"size must be at least 1 (got {size!r})")
        for start in range(0, num_samples, size):
            yield self.sample(graph, min(size, num_samples - start), seed, start)

    @property
    def words(self) -> str:
        """The neighbourhood in words that follow a sentence, as 'when up to 5 edges are taken away'."""
        return f"in {self}"

    def inside(self, explanation: Any, top: int | float | None = None, *, by: str = "score") -> Neighborhood:
        """Return this neighbourhood restricted to what is inside an explanation: nothing else moves.

        The draws stay the same. ``explanation`` is anything with PyG's ``edge_mask`` or ``node_mask``. ``top`` entries
        of A and as many features are inside, or a share of those that F depends on (0.2); None is what has a score
        above 0. They are those of the largest scores, or by="magnitude" of the largest \\|score\\|. An entry
        without a score is on neither side. See :class:`~graphfaith.sampling.restricted.Restricted`.
        """
        return self._restrict(explanation, top, by, "inside")

    def outside(self, explanation: Any, top: int | float | None = None, *, by: str = "score") -> Neighborhood:
        """Return this neighbourhood restricted to what is outside of an explanation; see :meth:`inside`."""
        return self._restrict(explanation, top, by, "outside")

    def _restrict(self, explanation: Any, top: int | float | None, by: str, side: str) -> Neighborhood:
        if self.perturbs_attributes:
            raise InputError(f"{self}: what is inside an explanation is said of features and edges, not of attributes")
        from .restricted import Restricted, Selection  # It is a neighbourhood itself, made further down.

        return Restricted(self, Selection.of(explanation, top, by), side)  # type: ignore[arg-type]  # both are checked

    def __mul__(self, other: Neighborhood) -> Neighborhood:
        """Return the product of neighbourhoods of different things: features, edges and edge attributes."""
        if not isinstance(other, Neighborhood):
            return NotImplemented
        if not self.perturbs_attributes and not other.perturbs_attributes:
            return Product(self, other)
        from .attributes import WithAttributes  # It is a neighbourhood itself, made further down.

        moved, rest = (self, other) if self.perturbs_attributes else (other, self)
        if isinstance(moved, WithAttributes):
            return WithAttributes(moved.moved, moved.rest * rest)
        return WithAttributes(moved, rest)

    def __str__(self) -> str:
        """Return the text form, which :func:`parse_neighborhood` reads if the class is registered."""
        if not self.notation:
            return repr(self)
        return self.notation.format(
            **{name: _format_value(name, getattr(self, name)) for name in _parameters(type(self))}
        )


@dataclass(frozen=True)
class Moments:
    r"""First and second moments of perturbations: :math:`E\,\epsilon` and the two parts of
    :math:`E\,\epsilon \epsilon^\top = \mathrm{diag}(v) + m m^\top`.

    If entries are independent, v is their variance and m their mean. Entries of one unit have the same sign and size.
    """

    mean: Tensor  # [e]
    spread: Tensor  # v, [e]; 0 where an entry never moves
    common: Tensor  # m, [e]


def say_share(share: float) -> str:
    """Return a number as people say it: a simple fraction if it is one.

    >>> say_share(0.5), say_share(0.2), say_share(1.0)
    ('1/2', '0.2', '1')
    """
    return {0.5: "1/2", 0.25: "1/4", 0.75: "3/4"}.get(share, f"{share:g}")


def describe_neighborhood(text: str) -> str:
    """Return a neighbourhood that is given by its text in words; the text itself if it is not a known one.

    >>> describe_neighborhood("U(X,0.2r)xB(A,0.5)")
    "when every feature may move by up to 20 % of the features' range and every edge is dropped with probability 1/2"
    """
    try:
        return parse_neighborhood(text).words if text else ""
    except InputError:  # It is the text of a class that was not registered here.
        return f"in {text}"


def check_sigma(sigma: float, largest: float, name: str) -> None:
    """Raise an :class:`InputError` unless sigma is a number above 0 and at most ``largest``."""
    number = isinstance(sigma, int | float | np.floating | np.integer) and not isinstance(sigma, bool)
    if not number or not 0 < sigma <= largest or math.isinf(sigma):
        bound = "above 0" if math.isinf(largest) else f"above 0 and at most {largest:g}"
        raise InputError(f"{name}: sigma must be {bound} (got {sigma!r})")


def draw_edges(graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
    """Draw a number in (0, 1) for every sample and entry of A, [S, e]: a function of (seed, sample, edge) alone."""
    return torch.from_numpy(uniform(*keys_of_edges(graph, samples, seed)))


def draw_features(graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor:
    """Draw a number in (0, 1) for every sample and feature, [S, n, d]: a function of (seed, sample, node, column)."""
    rows, columns = keys_of_features(graph, samples, seed)
    return torch.from_numpy(uniform(rows, columns)).view(len(samples), *graph.x.shape)


# Text forms by their pattern, in the order in which they were registered.
_NOTATIONS: dict[re.Pattern[str], type[Neighborhood]] = {}
_NUMBER = r"[0-9.eE+-]+"

N = TypeVar("N", bound=type[Neighborhood])


def register_neighborhood(kind: N) -> N:
    """Let :func:`parse_neighborhood`, the command line and the page read the ``notation`` of a class; a decorator.

    >>> @register_neighborhood
    ... @dataclass(frozen=True)
    ... class HalvedEdges(Neighborhood):
    ...     share: float
    ...     notation = "H(A,{share})"
    ...     perturbs_edges = True
    ...     def edges(self, graph, samples, seed):
    ...         return 0.5 * graph.weight.double() * (draw_edges(graph, samples, seed) < self.share)
    >>> parse_neighborhood("H(A, 0.3)")
    HalvedEdges(share=0.3)
    """
    names = _parameters(kind)
    pattern, flags = re.escape(kind.notation), _flags(kind)
    for name in names:
        form = f"(?P<{name}>,{name})?" if name in flags else f"(?P<{name}>{_NUMBER})"
        pattern = pattern.replace(re.escape(f"{{{name}}}"), form)
    if not names or re.compile(pattern).groups != len(names) or "x" in re.sub(r"\{[^}]*\}", "", kind.notation):
        raise InputError(
            f"the notation of {kind.__name__} must name each of its fields in braces and hold no 'x', which joins "
            f"products (got {kind.notation!r})"
        )
    for known in [known for known, other in _NOTATIONS.items() if other.notation == kind.notation]:
        del _NOTATIONS[known]  # the class was defined again, in a notebook for example
    _NOTATIONS[re.compile(pattern)] = kind
    return kind


def _flags(kind: type[Neighborhood]) -> set[str]:
    """Return the fields that are true or false; their text form is a comma and their name, or nothing."""
    return {field.name for field in fields(kind) if isinstance(field.default, bool)} if is_dataclass(kind) else set()


def _parameters(kind: type[Neighborhood]) -> list[str]:
    return [field.name for field in fields(kind) if field.init] if is_dataclass(kind) else []


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

    @property
    def drops_features(self) -> bool:  # type: ignore[override]
        """Whether the factor that moves features drops them."""
        return self.first.drops_features

    @property
    def by_itself(self) -> bool:  # type: ignore[override]
        """Whether both factors draw every entry by itself."""
        return self.first.by_itself and self.second.by_itself

    def lean(self, strength: Tensor) -> Neighborhood | None:
        """Return the product with a factor that leans, if the one that moves edges has to."""
        leaning = self.second.lean(strength)
        return None if leaning is None else Product(self.first, leaning)

    def leans(self, samples: np.ndarray, seed: int) -> np.ndarray:
        """Return the samples in which the edges lean."""
        return self.second.leans(samples, seed)

    def units(self, graph: ComputationGraph) -> Tensor | None:
        """Return the units of the factor that moves edges."""
        return self.second.units(graph)

    def is_symmetric(self, graph: ComputationGraph) -> bool:
        """Return whether both factors are symmetric."""
        return self.first.is_symmetric(graph) and self.second.is_symmetric(graph)

    def edge_moments(self, graph: ComputationGraph) -> Moments | None:
        """Return those of the factor that moves edges."""
        return self.second.edge_moments(graph)

    def feature_moments(self, graph: ComputationGraph) -> Moments | None:
        """Return those of the factor that moves features."""
        return self.first.feature_moments(graph)

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

    @property
    def words(self) -> str:
        """What both factors do, in words."""
        return f"{self.first.words} and {self.second.words.removeprefix('when ')}"

    def __str__(self) -> str:
        """The paper's notation."""
        return f"{self.first}x{self.second}"


def parse_neighborhood(text: str) -> Neighborhood:
    """Return the neighbourhood that ``text`` writes in the paper's notation; the inverse of ``str``.

    >>> parse_neighborhood("B(A, 0.5)")
    BernoulliEdges(sigma=0.5, paired=False)
    """
    if not isinstance(text, str):
        raise InputError(f"a neighbourhood is written as text, e.g. {_list_notations()} (got {text!r})")
    if " inside " in text or " outside " in text:
        raise InputError(
            f"cannot read {text!r}: a text does not hold the scores that say what is inside; make the neighbourhood "
            "from the explanation, as in UniformEdges(0.5).inside(explanation, top=0.2)"
        )
    plain = re.sub(r"(?<![0-9.eE+-])\s+|\s+(?![0-9.eE+-])", "", text).replace("×", "x").replace("*", "x")
    factors = [_parse_factor(factor, text) for factor in plain.split("x")]
    if len(factors) <= 2:
        return reduce(operator.mul, factors)
    moved = [[one.perturbs_features, one.perturbs_edges, one.perturbs_attributes].index(True) for one in factors]
    if sorted(moved) == [0, 1, 2]:  # features, edges and attributes
        return reduce(operator.mul, factors)
    raise InputError(f"cannot read the neighbourhood {text!r}: known are {_list_notations()}")


def _parse_factor(factor: str, text: str) -> Neighborhood:
    for pattern, kind in _NOTATIONS.items():
        match = pattern.fullmatch(factor)
        if match is not None:
            flags, parts = _flags(kind), match.groupdict()
            return kind(
                **{name: bool(part) if name in flags else _parse_number(part, text) for name, part in parts.items()}
            )
    raise InputError(f"cannot read the neighbourhood {text!r}: known are {_list_notations()}")


def _parse_number(number: str, text: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise InputError(f"cannot read {number!r} in the neighbourhood {text!r} as a number") from None


def _list_notations() -> str:
    known = [kind.example or re.sub(r"\{[^}]*\}", "0.5", kind.notation) for kind in _NOTATIONS.values()]
    return f"{', '.join(known)} and products such as U(X,0.2r)xU(A,0.2)"


def as_neighborhood(neighborhood: Neighborhood | str) -> Neighborhood:
    """A neighbourhood, given as one or as the paper's text."""
    if isinstance(neighborhood, Neighborhood):
        return neighborhood
    return parse_neighborhood(neighborhood)


def edge_keys(graph: ComputationGraph, seed: int) -> UInt64:
    """Return keys of the entries of A, [e]: edges by their place in the whole graph, self-loops by their node."""
    return joined_keys(seed, edge=graph.edge_id[: graph.num_plain].numpy(), loop=graph.nodes.numpy())


def keys_of_edges(graph: ComputationGraph, samples: np.ndarray, seed: int) -> tuple[UInt64, UInt64]:
    """Return keys of the samples and of the entries of A; a pair of them names a draw."""
    return keys(seed, "sample", samples), edge_keys(graph, seed)


def keys_of_features(graph: ComputationGraph, samples: np.ndarray, seed: int) -> tuple[UInt64, UInt64]:
    """Return keys of the pairs of a sample and a node, and of the columns; a pair of them names a draw."""
    rows = keys(seed, "feature", samples[:, None], graph.nodes.numpy()[None, :]).reshape(-1)
    return rows, keys(seed, "column", np.arange(graph.x.size(1)))


def _format_value(name: str, value: float | bool) -> str:
    if isinstance(value, bool):
        return f",{name}" if value else ""
    return _format_number(value)


def _format_number(sigma: float) -> str:
    short = f"{sigma:g}"
    return short if float(short) == sigma else repr(float(sigma))
