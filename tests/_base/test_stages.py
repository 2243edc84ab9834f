"""The clocks of the stages count the time inside a stage, and no other time."""

from __future__ import annotations

import threading

import pytest
import torch
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith._base import stages
from graphfaith._base.stages import STAGES, measure_stages, stage, time_items
from reference import make_case


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that the test moves on itself."""

    class Clock:
        now = 100.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(stages, "time", clock)
    return clock


def none_but(**seconds):
    return {**dict.fromkeys(STAGES, 0.0), **seconds}


def test_what_runs_inside_is_counted(clock):
    clock.now += 1
    with measure_stages() as seconds:
        clock.now += 2
        with stage("solve"):
            clock.now += 4
        clock.now += 8
        with stage("F"):
            clock.now += 16
        with stage("solve"):
            clock.now += 32
    assert seconds == none_but(solve=36.0, F=16.0)


def test_nothing_outside_is_counted(clock):
    with stage("solve"):
        clock.now += 1
    with measure_stages() as seconds:
        pass
    with stage("solve"):
        clock.now += 2
    assert seconds == none_but()
    assert stages._seconds is None


def test_a_measurement_inside_another_takes_its_own_and_gives_back(clock):
    with measure_stages() as outer:
        with stage("F"):
            clock.now += 1
        with measure_stages() as inner, stage("F"):
            clock.now += 2
        with stage("F"):
            clock.now += 4
    assert (outer, inner) == (none_but(F=5.0), none_but(F=2.0))
    assert stages._seconds is None


def test_an_error_is_counted_and_ends_the_measurement(clock):
    def fail():
        clock.now += 3
        raise ValueError("no")

    with measure_stages() as outer:
        with pytest.raises(ValueError, match="no"), measure_stages() as inner, stage("gradient"):
            fail()
        with stage("F"):
            clock.now += 1
    assert (outer, inner) == (none_but(F=1.0), none_but(gradient=3.0))
    assert stages._seconds is None


def test_items_are_counted_while_they_are_made(clock):
    def items():
        for item in "abc":
            clock.now += 1
            yield item
        clock.now += 5

    with measure_stages() as seconds:
        received = []
        for item in time_items(items(), "sampling"):
            clock.now += 100
            received.append(item)
    assert received == ["a", "b", "c"]
    assert seconds == none_but(sampling=8.0)
    assert list(time_items([0, "", ()], "sampling")) == [0, "", ()]


def test_other_threads_are_counted(clock):
    def work():
        with stage("layout"):
            clock.now += 1

    with measure_stages() as seconds:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seconds == none_but(layout=1.0)


@pytest.mark.parametrize("method", [gf.KEC, gf.AnchoredKEC])
@pytest.mark.parametrize("text", ["U(A,0.5)", "U(X,0.2r)", "U(X,0.2r)xB(A,0.5)"])
def test_an_explanation_spends_time_in_every_stage(text, method):
    case = make_case(dtype=torch.float32)
    explainer = Explainer(
        case.model,
        algorithm=method(text, num_samples=20),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    with measure_stages() as seconds:
        explainer(case.x, case.edge_index, index=case.node, **case.kwargs)
    assert set(seconds) == set(STAGES)
    # KEC needs no gradients of F. Where only edges move, the core computes the terms of p while it solves, and on so
    # small a graph one call of F gives AnchoredKEC the gradients and the changes.
    still = {"features"} if text == "U(A,0.5)" else set()
    if method is gf.KEC:
        still |= {"sensitivity"}
    elif text == "U(A,0.5)":
        still |= {"F"}
    assert {name for name, value in seconds.items() if not value > 0} == still
