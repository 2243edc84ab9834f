"""How the time and the memory of KEC grow with each size: for one node, and for all nodes of a graph together."""

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
from graphfaith.graph.graph import Graph

from .case import Case, spread
from .contenders import EDGES, all_nodes_contender
from .curve import Curve
from .lattice import CLASSES, lattice
from .peak import measure_peak
from .timing import Contender, time_interleaved

_SMALL = 10_000  # the number of nodes of the graph where another size varies


@dataclass(frozen=True)
class Sizes:
    """The points of each curve, the number of nodes explained at each point, and the repetitions."""

    samples: Sequence[int] = (50, 100, 200, 400, 800, 1600, 3200)
    hops: Sequence[int] = (1, 2, 3, 4)
    features: Sequence[int] = (16, 64, 256, 1024, 4096)
    half_degrees: Sequence[int] = (2, 4, 8, 16, 32, 50)  # They give about 50 to 50,000 entries of A in reach.
    nodes: Sequence[int] = (10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6)
    explained: int = 5
    repetitions: int = 3
    # The points where all nodes of a graph are explained. Where another size varies, the graph is a smaller one.
    swept_samples: Sequence[int] = (50, 100, 200, 400, 800, 1600)
    swept_hops: Sequence[int] = (1, 2, 3, 4)
    swept_half_degrees: Sequence[int] = (2, 4, 8, 16)
    swept_nodes: Sequence[int] = (10**3, 3 * 10**3, 10**4, 3 * 10**4, 10**5)
    swept: int = 1000
    sweeps: int = 2  # repetitions


FULL = Sizes()
QUICK = Sizes(
    samples=(50, 200, 800, 3200),
    features=(16, 256, 4096),
    half_degrees=(2, 8, 24),
    nodes=(10**4, 10**5, 10**6),
    explained=3,
    repetitions=2,
    swept_samples=(50, 200, 800),
    swept_hops=(1, 2, 3),
    swept_half_degrees=(2, 4, 8),
    swept_nodes=(10**3, 10**4),
    sweeps=1,
)


def measure_growth(sizes: Sizes = FULL, *, show: bool | None = False) -> list[Curve]:
    """Measure five curves for one node, and four for all nodes of a graph.

    The models are GCNs on lattices, of two layers unless the hops vary. They are not trained, because training would
    not change any time.
    """
    base = _make_case(lattice(_SMALL), 2, sizes)
    _warm_up()
    curves = [_measure_curve("samples S", sizes, [(count, base, count) for count in sizes.samples], show)]
    deep = [(hops, _make_case(base.data, hops, sizes), 200) for hops in sizes.hops]
    curves.append(_measure_curve("hops M", sizes, deep, show))
    wide = [(d, _make_case(lattice(2_000, num_features=d), 2, sizes), 200) for d in sizes.features]
    curves.append(_measure_curve("features d", sizes, wide, show))
    # The large graphs are released before the next curve, whose memory is measured.
    del wide
    dense = [_make_case(lattice(_SMALL, half_degree=half), 2, sizes) for half in sizes.half_degrees]
    entries = [(_median_entries(case), case, 200) for case in dense]
    curves.append(_measure_curve("entries of A in reach", sizes, entries, show))
    del dense, entries
    large = [(count, _make_case(lattice(count), 2, sizes), 200) for count in sizes.nodes]
    curves.append(_measure_curve("nodes of the graph", sizes, large, show, index=True))
    del large
    return [*curves, *_measure_sweeps(sizes, show)]


def _measure_sweeps(sizes: Sizes, show: bool | None) -> list[Curve]:
    """Measure the time a node when all nodes of a graph are explained together."""
    base = _make_case(lattice(sizes.swept), 2, sizes)
    base.records(KEC(EDGES))  # a warm-up
    deep = [(hops, _make_case(base.data, hops, sizes), 200) for hops in sizes.swept_hops]
    dense = [_make_case(lattice(sizes.swept, half_degree=half), 2, sizes) for half in sizes.swept_half_degrees]
    degrees = [(round(case.data.num_edges / case.data.num_nodes), case, 200) for case in dense]
    curves = [
        _measure_sweep("samples S", sizes, [(count, base, count) for count in sizes.swept_samples], show),
        _measure_sweep("hops M", sizes, deep, show),
        _measure_sweep("mean degree", sizes, degrees, show),
    ]
    del dense, degrees
    large = [(count, _make_case(lattice(count), 2, sizes), 200) for count in sizes.swept_nodes]
    return [*curves, _measure_sweep("nodes of the graph", sizes, large, show)]


def _forget_graphs() -> None:
    """Make the library forget the graphs that it has indexed last, by giving it as many small ones.

    Otherwise the index of a large graph of an earlier curve would be freed in the middle of a measurement, and what
    takes its place would not be counted.
    """
    small = [lattice(50, seed=seed) for seed in range(16)]
    for data in small:
        Graph.of(data.x, data.edge_index)


def _measure_sweep(against: str, sizes: Sizes, points: Sequence[tuple[int, Case, int]], show: bool | None) -> Curve:
    """Measure the memory of one sweep at each point, which warms up too, then the times, with all points in turns."""
    megabytes, contenders = [], []
    for size, case, samples in points:
        algorithm = KEC(EDGES, num_samples=samples)
        _forget_graphs()
        megabytes.append(measure_peak(partial(case.records, algorithm)))
        contenders.append(all_nodes_contender(case, str(size), algorithm))
    tracker = partial(track, doing=f"all nodes, against {against}", what="steps", show=show)
    timings = time_interleaved(contenders, sizes.sweeps, sizes.sweeps, track=tracker)
    seconds = [timings[str(size)].median / int(case.data.num_nodes) for size, case, _ in points]
    return Curve(against, [size for size, _, _ in points], seconds, megabytes, together=True)


def _make_case(data: Data, num_layers: int, sizes: Sizes) -> Case:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GCN(data.num_features, 16, num_layers, out_channels=CLASSES).eval()
    return Case(model, data, labels=data.y, name="lattice", nodes=spread(range(int(data.num_nodes)), sizes.explained))


def _median_entries(case: Case) -> int:
    """Return the median, over the nodes of the case, of the number of entries of A in reach of a node."""
    return int(np.median([case.target(node).computation_graph.num_edges for node in case.nodes]))


def _warm_up() -> None:
    """Explain one node, so that what is loaded or allocated only once is not counted in the first point."""
    case = _make_case(lattice(1000), 2, Sizes(explained=1))
    next(case.explanations(KEC(EDGES), case.nodes))


def _measure_curve(
    against: str, sizes: Sizes, points: Sequence[tuple[int, Case, int]], show: bool | None, *, index: bool = False
) -> Curve:
    """Measure the memory of one explanation at each point, then the times, with all points in turns.

    With ``index``, the memory is that of the first explanation in a graph, which builds the index of the graph's edges.
    Otherwise the index is built beforehand, so the memory is that of every later explanation.
    """
    megabytes, contenders = [], []
    for size, case, samples in points:
        explain = partial(case.explanations, KEC(EDGES, num_samples=samples))
        _forget_graphs()
        if not index:
            next(case.explanations(KEC(EDGES, num_samples=1), case.nodes[:1]))
        megabytes.append(measure_peak(partial(next, explain(case.nodes[:1]))))
        contenders.append(Contender(str(size), case.nodes, explain))
    tracker = partial(track, doing=f"against {against}", what="steps", show=show)
    timings = time_interleaved(contenders, sizes.repetitions, track=tracker)
    seconds = [timings[str(size)].median for size, _, _ in points]
    return Curve(against, [size for size, _, _ in points], seconds, megabytes)
