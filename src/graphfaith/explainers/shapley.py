"""Shapley values of edges, nodes or features, estimated without bias with p as control variate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explanation
from torch_geometric.explain.config import MaskType

from .._base.checks import check_count, check_seed
from .._base.errors import InputError
from .._base.stages import stage
from ..explanation.masks import Explained, whole_graph
from ..graph.computation_graph import ComputationGraph
from ..model.call import Edges
from ..model.target import Target
from ..sampling.coalitions import Bools, Coalitions, Ints, Reals, draw_coalitions, list_coalitions
from ..sampling.draw import UInt64, keys
from ..sampling.edges import number_pairs, pair_keys
from ..sampling.neighborhood import Neighborhood, edge_keys
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import AnchoredModel, DifferenceModel, LinearModel
from ..surrogate.shapley import Divided, Foretold, divide, values_of_table
from .anchored_kec import AnchoredKEC
from .base import FaithfulExplainer

Of = Literal["edges", "nodes", "features"]

_LEAST = 16  # the fewest evaluations from which values and their errors can be estimated
_FOR_P = 100  # With fewer evaluations than this, no p is fitted.
_EVERY = 12  # AnchoredKEC takes the gradient of F at one in this many of its samples.
_ASKED = 10  # p is asked for this many times as many values as F.
_TABLE = 12  # Up to this many players, p is asked for its value at every coalition.
_NUMBERS = 4_000_000  # the most numbers in a table of pairs of which p is asked
_MOVED = 400_000_000  # the most entries of A or features that these pairs perturb
_FEWEST = 64  # the fewest pairs of which p is asked


class Shapley(FaithfulExplainer):
    r"""Explain F by the Shapley values of edges, nodes or features.

    .. math:: \phi_i = \sum_{S \not\ni i} \frac{|S|!\,(n - |S| - 1)!}{n!}\, (F(S \cup i) - F(S))

    A player that is not in S is taken away: an edge (both entries of A, if edges in reach are undirected; self-loops
    stay) has weight 0 or is not in the graph, the features of a node are 0, or a feature is 0. Players are the edges
    in reach, the nodes whose features F can see and that have any (the explained node among them), or their features
    that are not 0.

    If F can be asked for all 2^n coalitions with ``num_samples`` evaluations, the values are exact. Otherwise they are
    estimated without bias: F is evaluated at pairs of a coalition and its complement, a p of
    :class:`~graphfaith.explainers.AnchoredKEC` is fitted to one half of them and used for the other, and what p and an
    additive function leave of F is averaged (:func:`~graphfaith.surrogate.shapley.divide`). p costs no evaluation of F
    beyond those of its gradients, which count. Where the leave-one-out error says that p does not help, it is left out.

    The values add up to F of all players less F of none. They are the scores of the explanation, in the unit of every
    method here: a value is the change of F by taking the whole player away, so the score of an entry of A times the
    entry is its share of the value, and the score of a feature times the feature. An undirected edge of weight 1 has
    half of its value at each of its two entries, if both are in reach. The scores of an explanation have standard
    errors, in ``edge_stderr`` or ``node_stderr``, of the shape of the mask. ``evaluations`` is the number of
    evaluations of F, ``num_players`` is n, ``value_of_all`` and ``value_of_none`` are F of all players and of none,
    and ``control_variate`` says what was used as one.

    Args:
        of: who the players are: "edges", "nodes" or "features".
        num_samples: how many evaluations of F are allowed; about one in twelve is a gradient.
        seed: the seed of the coalitions.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> explanation = gf.explain(model, ring, 1, method="shapley")
    >>> explanation.method, explanation.edge_mask.shape
    ('Shapley', torch.Size([4]))
    """

    method = "Shapley"
    explains_types = False

    def __init__(
        self,
        *,
        of: Of = "edges",
        num_samples: int = 400,
        seed: int = 0,
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(num_hops=num_hops, edges=edges, max_memory=max_memory)
        if of not in get_args(Of):
            raise InputError(f"of must be one of {', '.join(get_args(Of))} (got {of!r})")
        self.of, self.seed, self.num_samples = of, check_seed(seed), check_count(num_samples, "num_samples")
        if self.num_samples < _LEAST:
            raise InputError(f"num_samples must be at least {_LEAST} (got {num_samples!r})")

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Return why the settings cannot be used; scores of nodes and features need a mask to be in."""
        config = getattr(self, "_explainer_config", None)
        if self.of != "edges" and config is not None and config.node_mask_type is None:
            return f'of {self.of} needs a node mask: explain with node_mask_type="object" or "attributes"'
        return super().unsupported(model, x, edge_index)

    def fit(self, target: Target) -> ShapleyModel:
        """Return the additive p whose coefficients are the Shapley values."""
        game = Game(target, self)
        values, variance, control = self._values(game)
        # In exact arithmetic this is 0. It is at most rounding, which is spread evenly.
        values += (game.full - game.empty - values.sum()) / max(game.count, 1)
        return ShapleyModel(game, values, np.sqrt(variance), control)

    def _values(self, game: Game) -> tuple[Reals, Reals, str]:
        """Return the values, their variances, and what served as control variate."""
        count, none = game.count, np.zeros(game.count)
        if count < 2:  # A single player has all of the value.
            return none + game.full - game.empty, none, "none needed"
        if count < 63 and 1 << count <= self.num_samples:
            present = list_coalitions(count)
            value = np.concatenate(([game.empty], game.values(present[1:-1]), [game.full]))
            return values_of_table(present, value), none, "none needed"
        pairs = self._draw(game)
        if self.num_samples >= _FOR_P:
            found = self._divide_with_p(game, pairs)
        else:
            both = game.values(np.concatenate((pairs.present, ~pairs.present)))
            found = divide(pairs, both[: len(pairs)] - both[len(pairs) :], game.group)
        return found.values + (game.full - game.empty) / count, found.variance, found.control

    def _draw(self, game: Game) -> Coalitions:
        """Return the most pairs of coalitions that the evaluations suffice for, beside those of the ends."""
        budget, number = self.num_samples - 2, (self.num_samples - 2) // 2
        while True:
            pairs = draw_coalitions(game.keys, number, self.seed, "pair")
            needed = 2 * len(pairs)
            if self.num_samples >= _FOR_P:
                needed += sum(_count_gradients(2 * int(rows.sum())) for rows in _halves(pairs))
            if needed <= budget or number <= 3:
                return pairs
            number -= max(1, (needed - budget) // 3)

    def _divide_with_p(self, game: Game, pairs: Coalitions) -> Divided:
        """Fit a p to each half of the folds, and divide with the p that has not seen the fold."""
        difference, change = np.zeros(len(pairs)), np.zeros((2, len(pairs)))
        exact = pairs.enumerated
        for side, present in enumerate((pairs.present, ~pairs.present)):
            change[side, exact] = game.full - game.values(present[exact])
        fitted = []
        for number, rows in enumerate(_halves(pairs)):
            p, lost = self._fit_p(game, pairs.present[rows], number)
            change[:, rows] = lost.change
            fitted.append((p, rows, lost))
        difference = change[1] - change[0]
        told = []
        for number, (p, rows, lost) in enumerate(fitted):
            with stage("gradient"):
                both = game.changes_of(p, np.concatenate((pairs.present, ~pairs.present))).reshape(2, -1)
                fresh = both.copy()
                fresh[:, rows] = lost.left_out + lost.change  # what p foretells when it has not seen the pair
                told.append(Foretold(both[1] - both[0], fresh[1] - fresh[0], *self._values_of(game, p, number)))
        return divide(pairs, difference, game.group, lambda fold: told[1 - fold % 2])

    def _fit_p(self, game: Game, present: Bools, number: int) -> tuple[AnchoredModel, _Lost]:
        """Return a p that is fitted to F at pairs of coalitions, and F's change at them."""
        rows = np.concatenate((present, ~present))
        gradients = _count_gradients(len(rows)) - 1
        drawn = draw_coalitions(game.keys, gradients, self.seed, f"slope{number}").present
        drawn = drawn[np.linspace(0, len(drawn) - 1, gradients).astype(int)]
        drawn[1::2] = ~drawn[1::2]  # both small and large ones
        table = np.zeros((len(rows) + gradients, game.count), dtype=bool)
        asked = np.zeros(len(table), dtype=bool)
        asked[::_EVERY] = True
        table[asked], table[~asked] = drawn, rows
        p = AnchoredKEC(
            _Drawn(game, table),
            num_samples=len(table),
            seed=self.seed,
            num_hops=self.num_hops,
            edges=self.edges,
            max_memory=self.max_memory,
        ).fit(game.target)
        game.evaluations += len(table) + 1
        assert p.evidence is not None
        parts = (part.numpy().reshape(2, -1) for part in (p.evidence.change, p.evidence.left_out))
        return p, _Lost(*parts)

    def _values_of(self, game: Game, p: AnchoredModel, number: int) -> tuple[Reals, Reals]:
        """Return the Shapley values of p less their mean, and their variances."""
        count = game.count
        if count <= _TABLE:
            present = list_coalitions(count)
            values = values_of_table(present, -game.changes_of(p, present))
            return values - values.mean(), np.zeros(count)
        asked = game.count_asked(self.num_samples)
        # With so many pairs a few folds are enough, and each takes a regression.
        pairs = draw_coalitions(game.keys, asked, self.seed, f"asked{number}", folds=4)
        both = game.changes_of(p, np.concatenate((pairs.present, ~pairs.present)))
        found = divide(pairs, both[len(pairs) :] - both[: len(pairs)], game.group)
        return found.values, found.variance

    @property
    def moves_features(self) -> bool:
        """Whether features are the players, which are taken away."""
        return self.of != "edges"

    def scores_features(self, explained: Explained) -> bool:
        """Return whether features have scores; where edges are the players, the zeros of features are none."""
        return self.of != "edges" and super().scores_features(explained)

    def explanation(
        self, explained: Explained, p: DifferenceModel, scores: tuple[Tensor | None, Tensor] | None = None
    ) -> Explanation:
        """Return the scores with their standard errors."""
        assert isinstance(p, ShapleyModel)
        plain = LinearModel(p.graph, p.phi_x, p.phi_a)  # which can be saved with the explanation
        explanation = super().explanation(explained, plain, scores)
        config = self.explainer_config
        node, edge = whole_graph(p.graph, p.stderr_x(config.node_mask_type), p.stderr_a, config.node_mask_type)
        if self.of == "edges" and config.edge_mask_type is not None:
            explanation["edge_stderr"] = edge
        if self.of != "edges":
            explanation["node_stderr"] = node
        elif config.node_mask_type is not None:
            explanation["features_scored"] = False  # The zeros in the node mask are no scores.
        for name in ("value_of_all", "value_of_none", "num_players", "evaluations", "control_variate"):
            explanation[name] = getattr(p, name)
        return explanation


class ShapleyModel(LinearModel):
    """The additive p of Shapley values, with their standard errors and what is known of the estimate."""

    def __init__(self, game: Game, values: Reals, stderr: Reals, control: str) -> None:
        self.values, self.stderr, self.game = values, stderr, game
        super().__init__(game.graph, *game.scores(values))
        self.value_of_all, self.value_of_none, self.num_players = game.full, game.empty, game.count
        self.evaluations, self.control_variate = game.evaluations, control
        self.stderr_a = game.scores(stderr)[1].abs()

    def stderr_x(self, kind: MaskType | None) -> Tensor:
        """Return the standard errors of the rows of a node mask; sums are of values as if these were independent."""
        seen = self.graph.x[: self.graph.num_visible].double()
        errors = self.game.scores(self.stderr)[0][: self.graph.num_visible].abs()
        if kind == MaskType.common_attributes:
            return (errors * seen).square().sum(dim=0, keepdim=True).sqrt()
        if kind != MaskType.object:
            return errors
        # The shares of the features of a node in the value of the node are known, so that their errors add up.
        shares = (errors * seen).abs()
        rows = shares.sum(dim=1) if self.game.of == "nodes" else shares.square().sum(dim=1).sqrt()
        return rows.unsqueeze(1)


@dataclass(frozen=True)
class _Lost:
    """F's change at the coalitions and their complements, [2, J], and what p leaves of it when it has not seen them."""

    change: Reals
    left_out: Reals


def _halves(pairs: Coalitions) -> tuple[Bools, Bools]:
    """Return the pairs of the even and of the odd folds; enumerated ones are in no fold."""
    return ~pairs.enumerated & (pairs.fold % 2 == 0), ~pairs.enumerated & (pairs.fold % 2 == 1)


def _count_gradients(rows: int) -> int:
    """Return at how many points AnchoredKEC takes a gradient beside so many values; one is the unperturbed graph."""
    return -(-rows // (_EVERY - 1)) + 1


class _Drawn(Neighborhood):
    """The neighbourhood whose samples are the rows of a table of coalitions."""

    def __init__(self, game: Game, table: Bools) -> None:
        self.game, self._table = game, table
        self.perturbs_edges = self.drops_edges = game.of == "edges"
        self.perturbs_features = not self.perturbs_edges

    def edges(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """Return eps_A of these rows."""
        return self.game.perturbations(self._table[samples]).edges

    def features(self, graph: ComputationGraph, samples: np.ndarray, seed: int) -> Tensor | None:  # noqa: ARG002
        """Return eps_X of these rows."""
        return self.game.perturbations(self._table[samples]).features

    def __str__(self) -> str:
        """Return a name for messages; it is no text form."""
        return "coalitions"


class Game:
    """The game whose players are edges, nodes or features, and F on its coalitions."""

    def __init__(self, target: Target, options: Shapley) -> None:
        self.target, self.of, self.graph = target, options.of, target.computation_graph
        part, seed = self.graph, options.seed
        self.place, self.unit, names = self._list_players(seed)
        self.count, self.keys = len(names), names
        self.group = self._find_alike() if self.of == "edges" else np.arange(self.count)
        near = _Drawn(self, np.zeros((0, self.count), dtype=bool))
        sample = near.sample_bytes(part, target.unit_width(drops=near.drops_edges))
        asked = max(options.num_samples, self.count_asked(options.num_samples))
        room = target.room(48 * asked * self.count, sample, f"{options.method} on {options.num_samples} evaluations")
        self._size = max(1, room // sample)
        self.full, self.evaluations = target.value, 1
        self.empty = float(self.values(np.zeros((1, self.count), dtype=bool))[0]) if self.count else self.full

    def _list_players(self, seed: int) -> tuple[Tensor, Ints, UInt64]:
        """Return the places of all entries of A or X that players have, the player of each, and keys of the players."""
        part = self.graph
        if self.of == "edges":
            place = (part.felt & ~part.is_loop & (part.weight != 0)).nonzero().view(-1)
            paired = self._is_undirected(place)
            given = number_pairs(part)[place].numpy() if paired else place.numpy()
            names = (pair_keys(part, seed) if paired else edge_keys(part, seed))[place.numpy()]
        else:
            rows, columns = (part.x[: part.num_visible] != 0).nonzero(as_tuple=True)
            place = rows * part.x.size(1) + columns
            nodes, given = part.nodes[rows].numpy(), (rows if self.of == "nodes" else place).numpy()
            names = keys(seed, "player", nodes) if self.of == "nodes" else keys(seed, "player", nodes, columns.numpy())
        _, first, unit = np.unique(given, return_index=True, return_inverse=True)
        return place, unit, names[first]

    def _is_undirected(self, place: Tensor) -> bool:
        """Return whether the whole graph has the opposite of every edge at these places."""
        whole, (source, sink) = self.target.graph, self.graph.ends[:, place].numpy()
        back = whole.ends(whole.in_edges(np.unique(source)))
        size = self.graph.size[0]
        return bool(np.isin(sink * size + source, back[0] * size + back[1]).all())

    def _find_alike(self) -> Ints:
        """Return the group of each player, [n]: those of a group have the same effect in every coalition.

        The messages of some edges reach nothing that F is read from, so that these edges only count in the degree of
        the node that they lead to. Those that come from the node which represents all outermost ones are alike, unless
        the model is given anything else that could tell edges apart.
        """
        group, part = np.arange(self.count), self.graph
        if set(self.target.call.readout.kwargs) - {"batch"}:
            return group
        alone = np.bincount(self.unit, minlength=self.count)[self.unit] == 1
        outer = np.flatnonzero(alone & ~part.carries_message[self.place].numpy())
        ends, weight = part.edge_index[:, self.place[outer]].T.tolist(), part.weight[self.place[outer]].tolist()
        first: dict[tuple[int, int, float], int] = {}
        for player, (source, sink), size in zip(self.unit[outer].tolist(), ends, weight, strict=True):
            group[player] = first.setdefault((source, sink, size), player)
        return group

    def count_asked(self, num_samples: int) -> int:
        """Return the number of pairs at which p is asked, so that neither memory nor time runs away."""
        moved = self.graph.num_edges if self.of == "edges" else self.graph.x.numel()
        most = max(_FEWEST, min(_NUMBERS // max(self.count, 1), _MOVED // max(moved, 1)))
        return min(_ASKED * num_samples // 2, most)

    def perturbations(self, present: Bools) -> Perturbations:
        """Return the samples in which all players that are not ``present``, [S, n], are taken away."""
        part, absent = self.graph, torch.from_numpy(~present)[:, torch.from_numpy(self.unit)]
        if self.of == "edges":
            edges = torch.zeros(len(present), part.num_edges, dtype=torch.float64)
            edges[:, self.place] = absent * part.weight.double()[self.place]
            return Perturbations(part, None, edges)
        features = torch.zeros(len(present), part.x.numel(), dtype=part.x.dtype)
        features[:, self.place] = absent * part.x.flatten()[self.place]
        return Perturbations(part, features.view(len(present), *part.x.shape), None)

    def _chunks(self, present: Bools) -> Iterator[Perturbations]:
        for start in range(0, len(present), self._size):
            yield self.perturbations(present[start : start + self._size])

    def values(self, present: Bools) -> Reals:
        """Return F on coalitions, [S]."""
        self.evaluations += len(present)
        with stage("F"):
            changes = [self.target.changes(chunk).numpy() for chunk in self._chunks(present)]
        return self.full - np.concatenate([np.zeros(0), *changes])

    def changes_of(self, p: AnchoredModel, present: Bools) -> Reals:
        """Return p on all players less p on coalitions, [S]."""
        return np.concatenate([np.zeros(0), *(p.change(chunk).numpy() for chunk in self._chunks(present))])

    def scores(self, values: Reals) -> tuple[Tensor, Tensor]:
        """Return numbers of the players as coefficients of X, [n, d], and of A, [e].

        A value is divided among the entries of its player by the size of the entries of A, or by their squares for
        features, and the coefficient is the share divided by the entry.
        """
        part = self.graph
        entries = (part.weight if self.of == "edges" else part.x.flatten()).double()
        own = entries[self.place]
        size = own.abs() if self.of == "edges" else own.square()
        unit = torch.from_numpy(self.unit)
        total = torch.zeros(self.count, dtype=torch.float64).index_add_(0, unit, size)
        scores = torch.zeros_like(entries)
        scores[self.place] = torch.from_numpy(values)[unit] * (size / total[unit]) / own
        if self.of == "edges":
            return torch.zeros(part.x.shape, dtype=torch.float64), scores
        return scores.view(part.x.shape), torch.zeros(part.num_edges, dtype=torch.float64)
