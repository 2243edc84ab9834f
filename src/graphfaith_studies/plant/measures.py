"""Measures of a detector: points, events, BATADAL's S, eTaPR, PA%K and VUS-PR, functions of labels, alarms and scores.

None of them is the point-adjusted F1, which counts every step of an event as found when one step is: a detector that
alarms at random reaches a high one. PA%K adjusts only events of which more than K % were found, and is given as the
whole curve over K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Array = NDArray[np.float64]
Stretch = tuple[int, int]  # the first step, and the step after the last

THETA_P, THETA_R = 0.5, 0.1  # eTaPR's shares: of an alarm inside of attacks, of an attack inside of alarms
KS: Final = tuple(range(10, 101, 10))
THRESHOLDS: Final = 250  # for VUS-PR, as in its definition


def stretches_of(flags: Flags) -> list[Stretch]:
    """Return the stretches in which ``flags`` [T] is true.

    >>> stretches_of(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def score_points(labels: Flags, raised: Flags) -> dict[str, float]:
    """Return precision TP / (TP + FP), recall TP / (TP + FN) and F1 = 2 TP / (2 TP + FP + FN) over steps.

    >>> score_points(np.array([True, True, False, False]), np.array([True, False, True, False]))
    {'precision': 0.5, 'recall': 0.5, 'f1': 0.5}
    """
    hits, alarms, attacked = int((labels & raised).sum()), int(raised.sum()), int(labels.sum())
    return {
        "precision": hits / alarms if alarms else 0.0,
        "recall": hits / attacked if attacked else 0.0,
        "f1": 2 * hits / (alarms + attacked) if alarms + attacked else 0.0,
    }


@dataclass(frozen=True)
class Found:
    """What a detector makes of one event: whether it is found, after how many steps, and the covered share of it."""

    found: bool
    delay: int | None
    coverage: float


def score_events(events: Sequence[Stretch], raised: Flags) -> list[Found]:
    """Return for each event whether an alarm is up during it, the steps until then, and the share of its steps.

    >>> score_events([(1, 5)], np.array([False, False, True, False, True, False]))
    [Found(found=True, delay=1, coverage=0.5)]
    """
    rows = []
    for start, stop in events:
        inside = np.flatnonzero(raised[start:stop])
        rows.append(Found(len(inside) > 0, int(inside[0]) if len(inside) else None, len(inside) / (stop - start)))
    return rows


def score_competition(events: Sequence[Stretch], labels: Flags, raised: Flags) -> dict[str, float]:
    """Return the score of the BATADAL competition (Taormina and others 2018), S = (S_TTD + S_CLF) / 2.

    S_TTD = mean over events of 1 - (steps to detection / steps of the event), 0 for an event that is not found, and
    S_CLF = (TPR + TNR) / 2 over steps.

    >>> labels = np.array([False, True, True, True, True, False])
    >>> score_competition([(1, 5)], labels, np.array([False, False, True, True, True, True]))["s"]
    0.6875
    """
    found = score_events(events, raised)
    early = [
        0.0 if row.delay is None else 1.0 - row.delay / (stop - start)
        for row, (start, stop) in zip(found, events, strict=True)
    ]
    tpr = float(raised[labels].mean()) if labels.any() else 0.0
    tnr = float((~raised[~labels]).mean()) if not labels.all() else 0.0
    s_ttd, s_clf = float(np.mean(early)) if early else 0.0, (tpr + tnr) / 2
    return {
        **{"s": (s_ttd + s_clf) / 2, "s_ttd": s_ttd, "s_clf": s_clf, "tpr": tpr, "tnr": tnr},
        "events": len(events),
        "events_detected": sum(row.found for row in found),
    }


def score_etapr(
    events: Sequence[Stretch], alarms: Sequence[Stretch], theta_p: float = THETA_P, theta_r: float = THETA_R
) -> dict[str, float]:
    """Return eTaP, eTaR and their F1 (Hwang and others 2022) for events A and alarms P.

    An alarm is correct if at least ``theta_p`` of it lies in detected events, and an event is detected if at least
    ``theta_r`` of it lies in correct alarms: both sets shrink in turns until they hold. A detected event scores
    (1 + covered share) / 2 and eTaR is the mean over events; a correct alarm scores (1 + share in detected events) / 2,
    and eTaP is the mean over alarms with weights sqrt(length).

    >>> {name: round(value, 3) for name, value in score_etapr([(0, 4)], [(2, 4), (6, 10)]).items()}
    {'precision': 0.414, 'recall': 0.75, 'f1': 0.534}
    """
    if not events or not alarms:
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    a, p = np.array(events), np.array(alarms)
    overlap = np.minimum(a[:, None, 1], p[None, :, 1]) - np.maximum(a[:, None, 0], p[None, :, 0])
    overlap = np.maximum(overlap, 0)
    lengths, widths = a[:, 1] - a[:, 0], p[:, 1] - p[:, 0]
    detected = np.ones(len(a), dtype=bool)
    correct = np.ones(len(p), dtype=bool)
    while True:
        now = correct & (overlap[detected].sum(0) >= theta_p * widths)
        then = detected & (overlap[:, now].sum(1) >= theta_r * lengths)
        if (now == correct).all() and (then == detected).all():
            break
        correct, detected = now, then
    covered = overlap[:, correct].sum(1) / lengths
    inside = overlap[detected].sum(0) / widths
    recall = float((detected * (1 + covered) / 2).mean())
    weights = np.sqrt(widths) / np.sqrt(widths).sum()
    precision = float((weights * correct * (1 + inside) / 2).sum())
    both = precision + recall
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / both if both else 0.0}


def curve_pa_k(events: Sequence[Stretch], labels: Flags, raised: Flags, ks: Sequence[int] = KS) -> dict[str, Any]:
    """Return F1 of points for each K (Kim and others 2022), and the mean over K.

    An event counts as found as a whole if more than K % of its steps are. K = 100 adjusts nothing; K = 0 is plain point
    adjustment, and `KS` leaves it out.

    >>> curve_pa_k([(0, 4)], np.ones(4, bool), np.array([True, True, False, False]), ks=(0, 60, 100))["f1"]
    [1.0, 0.6666666666666666, 0.6666666666666666]
    """
    shares = [float(raised[start:stop].mean()) for start, stop in events]
    scores = []
    for k in ks:
        adjusted = raised.copy()
        for (start, stop), share in zip(events, shares, strict=True):
            if 100 * share > k:
                adjusted[start:stop] = labels[start:stop] | raised[start:stop]
        scores.append(score_points(labels, adjusted)["f1"])
    area = float(np.trapezoid(scores, ks) / (ks[-1] - ks[0])) if len(ks) > 1 else scores[0]
    return {"k": list(ks), "f1": scores, "mean": area}


def measure_vus_pr(labels: Flags, score: Array, buffer: int, lengths: int = 5, thresholds: int = THRESHOLDS) -> float:
    """Return the volume under the surface of precision and recall over buffers from 0 to ``buffer`` (VUS-PR).

    A buffer l gives steps at a distance d <= l / 2 from an event the label sqrt(1 - d / l) (Paparrizos and others
    2022). For each threshold, TP = sum(label * alarm), the recall is TP over the mean of hard and soft labels, times
    the share of events with an alarm, and the precision is TP over alarms. The definition takes every buffer; here
    ``lengths`` of them, evenly spaced, are averaged, since the area changes slowly with the buffer.

    >>> labels = np.array([False] * 4 + [True] * 2 + [False] * 4)
    >>> round(measure_vus_pr(labels, labels.astype(float), 0), 3)
    1.0
    """
    events = stretches_of(labels)
    if not events:
        return 0.0
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    chosen = np.linspace(0, len(score) - 1, thresholds).astype(int)
    # An alarm at this threshold includes all steps with an equal score.
    counts = np.searchsorted(-ranked, -ranked[chosen], side="right")
    areas = []
    for width in np.unique(np.linspace(0, buffer, lengths).astype(int)):
        soft = _soften(labels, events, int(width))
        hits = np.cumsum(soft[order])[counts - 1]
        recall = np.minimum(hits / ((labels.sum() + soft.sum()) / 2), 1.0)
        peaks = np.array([score[start:stop].max() for start, stop in stretches_of(soft > 0)])
        exists = (peaks[None, :] >= ranked[chosen][:, None]).mean(1)
        rate = np.concatenate([[0.0], recall * exists])
        precision = np.concatenate([[1.0], hits / counts])
        areas.append(float(((precision[1:] + precision[:-1]) / 2 * np.diff(rate)).sum()))
    return float(np.mean(areas))


def _soften(labels: Flags, events: Sequence[Stretch], width: int) -> Array:
    soft = labels.astype(np.float64)
    distance = np.arange(1, width // 2 + 1)
    for start, stop in events:
        for at in (start - distance, stop - 1 + distance):
            inside = (at >= 0) & (at < len(labels))
            soft[at[inside]] += np.sqrt(1 - distance[inside] / width)
    return np.minimum(soft, 1.0)
