"""Test the measures of detectors against examples that were computed by hand or are published."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfaith_studies.plant.measures import (
    curve_pa_k,
    measure_vus_pr,
    score_etapr,
    score_events,
    score_points,
    stretches_of,
)

flags = st.lists(st.booleans(), min_size=4, max_size=40).map(lambda row: np.array(row, dtype=bool))


def test_etapr_is_that_of_the_published_example():
    """Test with the example in the documentation of the authors' metric: eTaR 0.3875, eTaP 0.46477."""
    raised = np.array([0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0], dtype=bool)
    labels = np.array([0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1], dtype=bool)
    scores = score_etapr(stretches_of(labels), stretches_of(raised))
    assert scores["recall"] == pytest.approx(0.3875)
    assert scores["precision"] == pytest.approx(0.46476766302377037)


def test_an_alarm_in_an_event_that_is_hardly_covered_is_not_correct():
    scores = score_etapr([(0, 100)], [(0, 5)])
    assert scores == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert score_etapr([(0, 40)], [(0, 5)])["precision"] == 1.0


@given(flags)
def test_a_perfect_detector_has_every_measure_at_one(labels):
    labels[:2] = True, False
    events = stretches_of(labels)
    assert score_points(labels, labels)["f1"] == 1.0
    assert score_etapr(events, events)["f1"] == pytest.approx(1.0)
    assert curve_pa_k(events, labels, labels)["mean"] == pytest.approx(1.0)
    assert measure_vus_pr(labels, labels.astype(float), 0) == pytest.approx(1.0, abs=0.05)


@given(flags, flags)
def test_pa_k_falls_with_k_to_the_points(labels, raised):
    raised = np.resize(raised, len(labels))
    curve = curve_pa_k(stretches_of(labels), labels, raised)["f1"]
    assert all(first >= second - 1e-12 for first, second in pairwise(curve))
    assert curve[-1] == pytest.approx(score_points(labels, raised)["f1"])


def test_events_have_delay_and_coverage():
    raised = np.array([0, 0, 1, 1, 0, 0, 0, 0], dtype=bool)
    one, other = score_events([(1, 5), (6, 8)], raised)
    assert (one.found, one.delay, one.coverage) == (True, 1, 0.5)
    assert (other.found, other.delay, other.coverage) == (False, None, 0.0)


def test_vus_pr_prefers_scores_near_the_event_and_is_the_share_of_events_at_random():
    labels = np.zeros(4000, dtype=bool)
    labels[1000:1100] = labels[3000:3050] = True
    late, far = np.zeros(4000), np.zeros(4000)
    late[1005:1105] = late[3005:3055] = far[1500:1600] = far[3500:3550] = 1.0
    assert measure_vus_pr(labels, late, 40) > 0.9 > 0.1 > measure_vus_pr(labels, far, 40)
    noise = np.random.default_rng(0).random(4000)
    assert measure_vus_pr(labels, noise, 0) == pytest.approx(labels.mean(), abs=0.03)
