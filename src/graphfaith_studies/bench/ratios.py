"""The figures of the bench, and the bar that each of them has to reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import pieces
from .timing import Ratio


@dataclass(frozen=True)
class Bar:
    """An upper or a lower bound of a figure, None if there is no bound; ``what`` describes the figure.

    ``piece`` is the piece of our own work in it, above the line of an upper bound and below that of a lower one. It is
    None for a figure of memory.
    """

    what: str
    bound: float | None
    piece: str | None = None
    at_most: bool = True

    def reached(self, value: float) -> bool:
        """Return whether a value satisfies the bound."""
        if self.bound is None:
            return True
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        """Return the bound as it is printed in the table."""
        return "-" if self.bound is None else f"{'<=' if self.at_most else '>='} {self.bound:g}"


BARS = {
    "kec_over_captum_saliency": Bar("KEC / Captum saliency on the same computation graph", 1.2, pieces.ON_PART),
    "gnnexplainer_over_kec": Bar("GNNExplainer on the computation graph / KEC", 80, pieces.ONE, at_most=False),
    "gnnexplainer_whole_graph_over_kec": Bar("GNNExplainer on the whole graph / KEC", 1000, pieces.ONE, at_most=False),
    "straightforward_over_kec": Bar("straightforward KEC / KEC", 30, pieces.ONE, at_most=False),
    "kec1500_over_kec200": Bar("KEC with 1500 samples / KEC with 200", 2.5, pieces.MANY),
    "whole_graph_over_one_node": Bar("all nodes of Cora, time a node / one-node KEC", 0.12, pieces.ALL),
    "anchored_whole_graph_over_one_node": Bar(
        "all nodes of Cora, AnchoredKEC, time a node / one-node AnchoredKEC", 0.2, pieces.ALL_ANCHORED
    ),
    "two_threads_over_one": Bar("all nodes of Cora with 2 threads / with 1", 0.6, pieces.ALL_THREADS),
    "large_sweep_over_cora": Bar(
        "all nodes of a graph of 10^5 nodes with Cora's degrees, time a node / of Cora", 1.3, pieces.LARGE_SWEEP
    ),
    "whole_graph_peak_mb": Bar("peak memory above the loaded graph, all nodes of Cora (MB)", 1000),
    "anchored_whole_graph_peak_mb": Bar("the same for AnchoredKEC (MB)", 1000),
    "citeseer_over_cora": Bar("CiteSeer (3,703 features) / Cora", 1.5, pieces.CITESEER),
    "million_over_ten_thousand": Bar("time a node in a graph of 10^6 nodes / in 10^4", 1.2, pieces.MILLION),
    "million_peak_mb": Bar("peak memory above the loaded graph, 10^6 nodes, one node (MB)", 500),
    "features_over_straightforward": Bar("U(X,0.2r): KEC / straightforward KEC", 0.05, pieces.FEATURES),
    "anchored_over_kec": Bar("AnchoredKEC, one node / KEC", 1.4, pieces.ANCHORED),
    "anchored_slope_over_kec": Bar("AnchoredKEC's slope alone / KEC", None, pieces.SLOPE),
    "readings_over_slope": Bar("AnchoredKEC with shares, pairs and errors / its slope alone", None, pieces.ANCHORED),
}


def order_figures(figures: Mapping[str, Ratio | float | None]) -> dict[str, float | None]:
    """Return the value of every figure in the order of ``BARS``, and None for those that were not measured."""
    unknown = set(figures) - set(BARS)
    if unknown:
        raise ValueError(f"no bar is known for {', '.join(sorted(unknown))}")
    return {key: _value_of(figures.get(key)) for key in BARS}


def missed_pieces(ratios: Mapping[str, float | None]) -> list[str]:
    """Return the pieces of our own work in figures that do not reach their bar, each once."""
    missed = [bar.piece for key, bar in BARS.items() if (v := ratios.get(key)) is not None and not bar.reached(v)]
    return list(dict.fromkeys(piece for piece in missed if piece is not None))


THREADS = "two_threads_over_one"


def floors_of(ratios: Mapping[str, float | None], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return each figure as it would be if our own work in it took only its floor, and all else what it took.

    That of two threads over one is not among them: both are our own work, and the time of one thread cannot be kept
    while that of two goes to its floor. What two threads can reach is measured, by two processes (``sweep_floor``).
    """
    shares = {row["piece"]: row["floor_ms"] / row["measured_ms"] for row in rows}
    floors = {}
    for key, bar in BARS.items():
        value = ratios.get(key)
        if value is not None and bar.piece in shares and key != THREADS:
            floors[key] = value * (shares[bar.piece] if bar.at_most else 1 / shares[bar.piece])
    return floors


def _value_of(figure: Ratio | float | None) -> float | None:
    return figure.value if isinstance(figure, Ratio) else figure
