"""Coalitions of players for Shapley values: pairs of a set and its complement, in strata by size and in folds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from .draw import UInt64, keys, uniform

Bools = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FOLDS = 10  # the number of folds, if there are pairs enough
_FEW = 16  # Up to so many players, all coalitions can be listed, so that none is drawn twice.


@dataclass(frozen=True)
class Coalitions:
    r"""J pairs (z, 1 - z) of coalitions of n players, and what the Shapley values of a game v are in terms of them.

    With k the size of z, and a pair of sizes k and n - k drawn with probability :math:`\pi_k`,

    .. math:: \phi_i = \frac{v(1) - v(0)}{n}
              + E\,\Big[\frac{n}{k (n - k)\, \pi_k} \big(z_i - \tfrac kn\big) \big(v(z) - v(1 - z)\big)\Big]

    which is the regression of KernelSHAP in closed form (Covert and Lee, arXiv 2012.01536); for k = n/2, where a pair
    has one size and not two, it is half of that. The second term sums to 0 over the players for each pair by itself, so
    that the values always add up to v(1) - v(0).

    The expectation is a sum over strata: :math:`\sum_h P_h\, E_h`. A stratum is one size, or several if there are many.
    Small sizes that have few coalitions are enumerated, and belong to no fold (-1). In any other stratum every fold has
    equally many pairs, or one more, and given the other folds a fold is a random draw from what they have left. So what
    is decided in view of the other folds cannot bias the mean over a fold.
    """

    present: Bools  # [J, n] z
    stratum: Ints  # [J]
    fold: Ints  # [J] -1 in enumerated strata
    share: Reals  # [H] P_h
    drawn: Ints  # [H] how many pairs were drawn
    population: Reals  # [H] how many pairs there are; infinite if pairs may be drawn twice
    num_folds: int

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.present)

    @property
    def num_players(self) -> int:
        """The number of players, n."""
        return int(self.present.shape[1])

    @property
    def size(self) -> Ints:
        """The size of z in each pair, k, [J]."""
        return np.asarray(self.present.sum(axis=1))

    @property
    def enumerated(self) -> Bools:
        """Whether the pair is one of a stratum that is enumerated, [J]."""
        return self.fold < 0

    @property
    def factor(self) -> Reals:
        """n / (k (n - k) pi_k), [J]; half of it if k = n/2."""
        count, size = self.num_players, self.size
        factor = count / (size * (count - size)) * np.where(2 * size == count, 0.5, 1.0)
        return np.asarray(factor / _size_law(count)[size - 1])

    @property
    def centred(self) -> Reals:
        """z - k/n, [J, n]."""
        return np.asarray(self.present - self.size[:, None] / self.num_players)


def draw_coalitions(players: UInt64, num_pairs: int, seed: int, stream: str, folds: int = FOLDS) -> Coalitions:
    r"""Draw pairs of coalitions of players with these keys, [n], n >= 2; a function of seed, stream and keys alone.

    Sizes are drawn with :math:`\pi_k \propto 1 / \sqrt{k (n - k)}`, which has the least variance for games whose change
    from one coalition to another of the same size does not depend on the size. There are at most ``folds`` folds.
    """
    count, law = len(players), _size_law(len(players))
    sizes = np.arange(1, count // 2 + 1)
    parts: list[tuple[Bools, Ints, float, float]] = []  # members, folds, share and population of each stratum
    first, left = 0, num_pairs
    while first < len(sizes) and _pairs_of_size(count, int(sizes[first])) <= left * law[first] / law[first:].sum():
        members = _list_all(count, int(sizes[first]))
        parts.append((members, np.full(len(members), -1), float(law[first]), float(len(members))))
        left, first = left - len(members), first + 1
    strata = len(sizes) - first
    folds = max(2, min(folds, left // max(2, strata if count <= _FEW else 2)) // 2 * 2)
    if strata and count <= _FEW and left >= folds * strata:
        parts += _draw_by_size(count, sizes[first:], law[first:], left, folds, seed, stream)
    elif strata:
        parts += _draw_by_level(players, sizes[first:], law[first:], left, folds, seed, stream)
    return Coalitions(
        np.concatenate([members for members, *_ in parts]),
        np.repeat(np.arange(len(parts)), [len(members) for members, *_ in parts]),
        np.concatenate([fold for _, fold, *_ in parts]),
        np.array([share for *_, share, _ in parts]),
        np.array([len(members) for members, *_ in parts]),
        np.array([population for *_, population in parts]),
        folds,
    )


def list_coalitions(count: int) -> Bools:
    """Return all coalitions of ``count`` players, [2^n, n]; that of number c has player i if bit i of c is set."""
    members: Bools = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1 > 0
    return members


def _size_law(count: int) -> Reals:
    """Return pi_k for k = 1 .. n/2, where a pair of sizes k and n - k counts once."""
    size = np.arange(1, count // 2 + 1)
    law = 1 / np.sqrt(size * (count - size))
    if count % 2 == 0:
        law[-1] /= 2
    return np.asarray(law / law.sum())


def _pairs_of_size(count: int, size: int) -> int:
    """Return how many pairs of coalitions of ``size`` and ``count - size`` players there are."""
    return math.comb(count, size) // (2 if 2 * size == count else 1)


def _list_all(count: int, size: int) -> Bools:
    """Return one coalition of each pair of coalitions of ``size`` and ``count - size`` players."""
    pairs = _pairs_of_size(count, size)
    # If both have the same size, those that come first have player 0, and their complements come last.
    members = np.array(list(islice(combinations(range(count), size), pairs)))
    present = np.zeros((pairs, count), dtype=bool)
    np.put_along_axis(present, members, True, axis=1)
    return present


def _draw_by_size(
    count: int, sizes: Ints, law: Reals, left: int, folds: int, seed: int, stream: str
) -> list[tuple[Bools, Ints, float, float]]:
    """Draw ``left`` pairs without replacement, in one stratum for each size."""
    most = np.array([_pairs_of_size(count, int(size)) for size in sizes])
    wanted = left * law / law.sum()
    drawn = np.minimum(np.maximum(wanted.astype(int), folds), most)
    while drawn.sum() > left:
        drawn[np.where(drawn > folds, drawn - wanted, -np.inf).argmax()] -= 1
    while drawn.sum() < min(left, most.sum()):
        drawn[np.where(drawn < most, wanted - drawn, -np.inf).argmax()] += 1
    parts = []
    for size, number, share, pairs in zip(sizes.tolist(), drawn.tolist(), law.tolist(), most.tolist(), strict=True):
        members = _list_all(count, size)
        order = uniform(keys(seed, stream, np.array([size])), keys(seed, "subset", np.arange(pairs)))[0].argsort()
        fold = np.full(number, -1) if number == pairs else np.arange(number) % folds
        parts.append((members[order[:number]], fold, share, float(pairs)))
    return parts


def _draw_by_level(
    players: UInt64, sizes: Ints, law: Reals, left: int, folds: int, seed: int, stream: str
) -> list[tuple[Bools, Ints, float, float]]:
    """Draw pairs in strata of equal probability, one pair a fold in each of them."""
    strata = max(1, left // folds)
    rows = keys(seed, stream, np.arange(strata * folds))
    level = uniform(rows, keys(seed, "level", np.zeros(1, dtype=np.int64)))[:, 0]
    level = (level + np.repeat(np.arange(strata), folds)) / strata
    place = np.searchsorted(np.cumsum(law / law.sum()), level, side="right").clip(max=len(sizes) - 1)
    # The members are the players with the smallest draws.
    order = uniform(rows, players).argsort(axis=1, kind="stable")
    present = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(present, order, np.arange(len(players)) < sizes[place][:, None], axis=1)
    share = float(law.sum()) / strata
    return [
        (present[start : start + folds], np.arange(folds), share, math.inf) for start in range(0, strata * folds, folds)
    ]
