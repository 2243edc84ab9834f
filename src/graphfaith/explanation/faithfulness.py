"""How faithful an explanation is, as far as that is known: what may stand beside it, and in which words.

A number is only returned if it is the number of the scores that the explanation has now. Scores that were edited,
thresholded or cut to a subgraph after they were scored have none.

A number is also only about what its samples moved. In a neighbourhood of edges, the scores of nodes and features are
derivatives of p in directions that no sample has tried, and those of edges are so in a neighbourhood of features:
:func:`faithfulness_by_kind` says which kinds of scores have a number, and all others are :data:`NOT_MEASURED`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_geometric.explain import Explanation

from ..surrogate.estimate import Kind, Unfaithfulness, format_share, format_share_alone
from .digest import are_fitted, current_digest
from .scores import node_mask_of

NOT_MEASURED = "not measured"

# Leave-one-out errors of fewer samples than these are too good, and their error bars too small
# (docs/anchored-details.md). They are those of a fit on 100 samples, of which one in twelve is asked for a gradient and
# not left out.
FEW, _FEWEST = 91, 100


@dataclass(frozen=True)
class Faithfulness:
    """Delta of an explanation's scores, either measured or by the explanation's own estimate.

    If p is more than a sum of scores, the number is that of the scores, because these are what is shown, and those of p
    and of pairs follow.

    >>> from dataclasses import replace
    >>> record = Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "B(A,0.5)", 1)
    >>> print(Faithfulness(record, is_estimate=False))
    7.6 % ± 0.9 % unexplained in B(A,0.5)
    >>> print(Faithfulness(record, is_estimate=True).short)
    about 7.6 % ± 0.9 % unexplained, by its own estimate
    >>> print(Faithfulness(replace(record, scores=replace(record, relative=0.463)), is_estimate=False))
    46.3 % ± 0.9 % unexplained in B(A,0.5)
    """

    record: Unfaithfulness
    is_estimate: bool
    fit_samples: int | None = None  # how many samples the fit was made from, if that is known
    kept: tuple[int, int] | None = None  # of how many scores of edges the explanation has how many, if not all

    @property
    def neighborhood(self) -> str:
        """The neighbourhood in which Delta(p) was estimated."""
        return self.record.neighborhood

    @property
    def shown(self) -> Unfaithfulness:
        """The record of what is shown: of the scores, if p is more than their sum, and else of p."""
        return self.record if self.record.scores is None else self.record.scores

    @property
    def relative(self) -> float | None:
        """Delta / Delta(0) of what is shown; None where F does not change, so that there is no such share."""
        return self.shown.relative if self.shown.delta_zero and math.isfinite(self.shown.relative) else None

    @property
    def relative_stderr(self) -> float | None:
        """The standard error of :attr:`relative`; None where it is unknown, as it is from one sample."""
        error = self.shown.relative_stderr
        return error if self.relative is not None and math.isfinite(error) else None

    @property
    def is_flattering(self) -> bool:
        """Whether this is an estimate from so few samples that it is too good, by its record."""
        # An estimate may be made from a part of the samples, but it is the size of the fit that flatters.
        few = 0 < self.record.num_samples < FEW if self.fit_samples is None else self.fit_samples < _FEWEST
        return self.is_estimate and self.record.num_samples > 0 and few

    @property
    def short(self) -> str:
        """The text for people without the neighbourhood, for where that stands beside it."""
        return self._text("")

    def __str__(self) -> str:
        """Return the text for people, with the neighbourhood."""
        return self._text(f" in {self.neighborhood}" if self.neighborhood else "")

    def _text(self, near: str) -> str:
        about, by = ("about ", ", by its own estimate") if self.is_estimate else ("", "")
        if self.is_flattering:
            by += " from few samples, likely too good"
        if self.kept is not None:
            by += f"; it is that of all {self.kept[1]} edges, of which the {self.kept[0]} strongest are here"
        if self.relative is not None:
            # One sample has no spread, and so there is no error bar to say how little it means.
            count = ", from one sample" if self.record.num_samples == 1 else ""
            return f"{about}{format_share(self.relative, self.relative_stderr)} unexplained{near}{count}{by}"
        # "0 % unexplained" would be praise: there is nothing to explain.
        if self.shown.relative == 0:
            return f"F does not change{near}{by}"
        return f"Δ(p) = {about}{self.shown.value:.3g}{near}{',' * bool(near)} where F does not change{by}"

    @property
    def beyond(self) -> str:
        """What else is known: how little any scores could leave, what pairs leave, and what the whole p leaves.

        It is empty if the scores are all that there is to the explanation.

        >>> from dataclasses import replace
        >>> record = Unfaithfulness(0.012, 0.001, 0.0071, 0.0009, 0.157, 500, "B(A,0.5)", 1)
        >>> scores = replace(record, relative=0.463, relative_stderr=0.02)
        >>> pairs = replace(record, relative=0.131, relative_stderr=0.008)
        >>> print(Faithfulness(replace(record, scores=scores, pairs=pairs, num_pairs=10, floor=0.448), False).beyond)
        no scores could leave less than about 45 %; with the 10 pairs 13.1 %; the whole explanation 0.71 %
        """
        record = self.record
        if record.scores is None or self.relative is None:
            return ""
        parts = []
        if record.floor is not None:
            floor = format_share_alone(record.floor, record.scores.relative_stderr)
            parts.append(f"no scores could leave less than about {floor}")
        if record.pairs is not None and record.num_pairs:
            plural = f"the {record.num_pairs} pairs" if record.num_pairs > 1 else "the pair"
            parts.append(f"with {plural} {format_share_alone(record.pairs.relative, record.pairs.relative_stderr)}")
        if record.delta_zero and math.isfinite(record.relative):
            parts.append(f"the whole explanation {format_share_alone(record.relative, record.relative_stderr)}")
        return "; ".join(parts)


def faithfulness_of(explanation: Explanation) -> Faithfulness | None:
    """Return what may be said of an explanation: what was measured, else its own estimate, else None."""
    return known_faithfulness(explanation)[0]


def faithfulness_by_kind(explanation: Explanation) -> dict[Kind, Faithfulness | None]:
    """Return, for each kind of scores that an explanation has, the number that is about it; None if there is none.

    "edges" stands for edges and self-loops, "features" for nodes and features. What was measured counts before the
    explanation's own estimate, and the last measurement in which that kind was perturbed before an earlier one.

    >>> import torch
    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> both = Explanation(x=torch.ones(3, 1), edge_index=path, node_mask=torch.ones(3, 1), edge_mask=torch.ones(2))
    >>> record_unfaithfulness(both, Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "B(A,0.5)", 1))
    >>> for kind, number in faithfulness_by_kind(both).items():
    ...     print(kind, number or NOT_MEASURED)
    edges 7.6 % ± 0.9 % unexplained in B(A,0.5)
    features not measured
    """
    return known_faithfulness(explanation)[1]


def known_faithfulness(explanation: Explanation) -> tuple[Faithfulness | None, dict[Kind, Faithfulness | None]]:
    """Return :func:`faithfulness_of` and :func:`faithfulness_by_kind`; the scores are compared once for both."""
    has_edges = explanation.get("edge_mask") is not None or explanation.get("self_loop_score") is not None
    found: dict[Kind, Faithfulness | None] = {}
    if has_edges:
        found["edges"] = None
    if node_mask_of(explanation) is not None:
        found["features"] = None
    measured = measured_unfaithfulness(explanation)
    known = None if measured is None else Faithfulness(measured, is_estimate=False)
    if known is not None:
        for record in _measurements(explanation):
            found |= {kind: Faithfulness(record, is_estimate=False) for kind in record.kinds if kind in found}
    estimate = own_estimate(explanation) if known is None or None in found.values() else None
    if estimate is not None:
        own = _of_estimate(explanation, estimate)
        known = known or own
        found |= {kind: own for kind in estimate.kinds if kind in found and found[kind] is None}
    return known, found


def _of_estimate(explanation: Explanation, estimate: Unfaithfulness) -> Faithfulness:
    count, kept = explanation.get("fit_samples"), explanation.get("kept_scores")
    return Faithfulness(
        estimate,
        is_estimate=True,
        fit_samples=count if isinstance(count, int) else None,
        kept=None if kept is None or kept[0] == kept[1] else (int(kept[0]), int(kept[1])),
    )


def measured_unfaithfulness(explanation: Explanation) -> Unfaithfulness | None:
    """Return the Delta(p) that was measured for the scores as they are now; None if there is none."""
    record, digest = explanation.get("unfaithfulness"), explanation.get("scored_digest")
    if not isinstance(record, Unfaithfulness) or digest is None or digest != current_digest(explanation):
        return None
    return record


def own_estimate(explanation: Explanation) -> Unfaithfulness | None:
    """Return the estimate that the method made of its own Delta(p), if the scores are still those it made.

    An explanation from the rows of a batch run has no p, but a digest of the scores that it was stored with.
    """
    record, stored = explanation.get("estimate"), explanation.get("stored_digest")
    if not isinstance(record, Unfaithfulness):
        return None
    same = are_fitted(explanation) if stored is None else stored == current_digest(explanation)
    return record if same else None


def record_stored(explanation: Explanation, estimate: Unfaithfulness, kept: tuple[int, int]) -> None:
    """Leave the estimate of a stored explanation on it, and how many of how many scores of edges were stored."""
    explanation.estimate, explanation.kept_scores = estimate, kept
    explanation.stored_digest = current_digest(explanation)


def record_unfaithfulness(explanation: Explanation, measured: Unfaithfulness) -> None:
    """Leave ``measured`` on the explanation, with the digest of the scores that it was measured for.

    An earlier measurement of the same scores stays beside it if it is about a kind of scores that ``measured`` is not
    about.
    """
    same = measured_unfaithfulness(explanation) is not None
    earlier = [one for one in (_measurements(explanation) if same else ()) if set(one.kinds) - set(measured.kinds)]
    explanation.measurements = [*earlier, measured]
    explanation.unfaithfulness = measured
    explanation.scored_digest = current_digest(explanation)


def _measurements(explanation: Explanation) -> list[Unfaithfulness]:
    """Return the measurements that are kept, the last one at the end; files of older versions hold one alone."""
    records = [one for one in explanation.get("measurements") or () if isinstance(one, Unfaithfulness)]
    last = explanation.unfaithfulness
    return records if last in records else [*records, last]
