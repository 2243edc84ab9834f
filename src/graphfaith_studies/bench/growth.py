"""How time and memory of KEC grow: with samples, hops, features, edges in reach, and nodes of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from graphfaith._base.progress import track
from graphfaith.explainers import KEC

from .case import Case, spread
from .contenders import EDGES
from .curve import Curve
from .lattice import CLASSES, lattice
from .peak import peak_of
from .timing import Contender, interleaved

_SMALL = 10_000  # nodes of the graph where another size varies


@dataclass(frozen=True)
class Sizes:
    """The points of each curve, and how often each is measured."""

    samples: Sequence[int] = (50, 100, 200, 400, 800, 1600, 3200)
    hops: Sequence[int] = (1, 2, 3, 4)
    features: Sequence[int] = (16, 64, 256, 1024, 4096)
    half_degrees: Sequence[int] = (2, 4, 8, 16, 32, 50)  # about 50 to 50,000 entries of A in reach
    nodes: Sequence[int] = (10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6)
    explained: int = 5
    repetitions: int = 3


FULL = Sizes()
QUICK = Sizes(
    samples=(50, 200, 800, 3200),
    features=(16, 256, 4096),
    half_degrees=(2, 8, 24),
    nodes=(10**4, 10**5, 10**6),
    explained=3,
    repetitions=2,
)


def growth(sizes: Sizes = FULL, *, show: bool | None = False) -> list[Curve]:
    """The five curves. Models are two-layer GCNs on lattices, as they are made: training would change no time."""
    base = _case(lattice(_SMALL), 2, sizes)
    _warm_up()
    found = [_curve("samples S", sizes, [(count, base, count) for count in sizes.samples], show)]
    found.append(_curve("hops M", sizes, [(m, _case(base.data, m, sizes), 200) for m in sizes.hops], show))
    wide = [(d, _case(lattice(2_000, num_features=d), 2, sizes), 200) for d in sizes.features]
    found.append(_curve("features d", sizes, wide, show))
    del wide
    dense = [_case(lattice(_SMALL, half_degree=half), 2, sizes) for half in sizes.half_degrees]
    entries = [(_entries(case), case, 200) for case in dense]
    found.append(_curve("entries of A in reach", sizes, entries, show))
    del dense, entries
    large = [(count, _case(lattice(count), 2, sizes), 200) for count in sizes.nodes]
    found.append(_curve("nodes of the graph", sizes, large, show, index=True))
    return found


def _case(data: Data, num_layers: int, sizes: Sizes) -> Case:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GCN(data.num_features, 16, num_layers, out_channels=CLASSES).eval()
    return Case("lattice", model, data, spread(range(int(data.num_nodes)), sizes.explained), data.y)


def _entries(case: Case) -> int:
    """Entries of A in reach of a node of the case: the median."""
    return int(np.median([case.target(node).computation_graph.num_edges for node in case.nodes]))


def _warm_up() -> None:
    """What is loaded or allocated once for all belongs to no point."""
    case = _case(lattice(1000), 2, Sizes(explained=1))
    next(case.explanations(KEC(EDGES), case.nodes))


def _curve(
    against: str, sizes: Sizes, points: Sequence[tuple[int, Case, int]], show: bool | None, *, index: bool = False
) -> Curve:
    """Memory of one explanation at each point, then times, all points in turns.

    With ``index`` memory is that of the first explanation in a graph, which makes the index of its edges; otherwise
    the index is there, as it is for every later one.
    """
    megabytes, contenders = [], []
    for size, case, samples in points:
        explain = partial(case.explanations, KEC(EDGES, samples))
        if not index:
            next(case.explanations(KEC(EDGES, 1), case.nodes[:1]))
        megabytes.append(peak_of(partial(next, explain(case.nodes[:1]))))
        contenders.append(Contender(str(size), case.nodes, explain))
    tracked = partial(track, doing=f"against {against}", what="steps", show=show)
    timings = interleaved(contenders, sizes.repetitions, track=tracked)
    found = [timings[str(size)].median for size, _, _ in points]
    return Curve(against, [size for size, _, _ in points], found, megabytes)
