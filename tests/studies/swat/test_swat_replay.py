"""Test a plant in service, drawn and overlapping attacks, and replays of a run with a change."""

from __future__ import annotations

import numpy as np
import pytest

from graphfaith._base.errors import InputError
from graphfaith_studies.swat import ATTACKS, Attack, Force, Hold, Schedule, Shift, column, simulate
from graphfaith_studies.swat.drawn import USUAL, draw_attacks
from graphfaith_studies.swat.replay import find_affected, replay
from graphfaith_studies.swat.simulation import Service, record
from graphfaith_studies.swat.tags import SENSORS

BACKWASH = next(attack for attack in ATTACKS if attack.number == 8)
UNREAD = Attack(201, (Shift("AIT401", -2.0), Hold("FIT501", 0.4)), 400)


@pytest.fixture(scope="module")
def history():
    """Return a run of four hours: attack 8, and two attacks of which the second begins during the first."""
    plan = Schedule.of([BACKWASH, UNREAD, Attack(202, (Force("P101", 1),), 300)], rest=(900, 1500), overlapping=[202])
    return record(3.0 / 24, seed=5, attacks=plan, service=Service(8.0))


def test_a_plant_in_service_starts_stops_and_wears():
    young = simulate(0.6, seed=2, service=Service(0.0)).readings
    old = simulate(0.15, seed=2, service=Service(20.0)).readings
    assert (young[:5, column("P501")] == 1).all()
    assert young[0, column("FIT101")] == 0.0
    for tag in ("P402", "P501", "UV401"):
        on = young[1200:, column(tag)] == 2
        assert 0.7 < on.mean() < 1.0  # People have stopped it at least once.
    assert simulate(0.1, seed=2).readings[:, column("P501")].min() == 2.0
    young = young[: len(old)]
    running = (young[:, column("FIT101")] > 2) & (old[:, column("FIT101")] > 2)
    assert np.median(old[running, column("FIT101")]) < np.median(young[running, column("FIT101")]) - 0.03
    assert np.median(old[:, column("AIT502")] - young[:, column("AIT502")]) > 0.4


def test_attacks_overlap(history):
    first, second = history.run.spans[1:]
    assert first.start < second.start < first.stop
    both = slice(second.start, min(first.stop, second.stop))
    assert history.run.attacked[both][:, [column("AIT401"), column("FIT501"), column("P101")]].all()
    assert set(history.run.attack_id[both]) == {202}
    assert history.run.readings[both, column("FIT501")].mean() == pytest.approx(0.4, abs=0.001)


def test_a_replay_without_a_change_is_the_run(history):
    for span in history.run.spans:
        stop = span.stop + 300
        again = replay(history, span.start, stop)
        assert np.array_equal(again.readings, history.run.readings[span.start : stop])


def test_the_twin_is_the_run_without_the_attack(history):
    span = history.run.spans[0]
    quiet = simulate(3.0 / 24, seed=5, service=Service(8.0))
    stop = span.stop + 600
    twin = replay(history, span.start, stop, without=[span])
    assert np.array_equal(twin.readings, quiet.readings[span.start : stop])
    affected = find_affected(twin, history.run.readings[span.start : stop])
    assert {column(tag) for tag in ("DPIT301", "P602", "MV301", "FIT601")} <= set(affected)
    assert column("P501") not in affected


def test_a_restored_tag_undoes_what_follows_from_it(history):
    span = history.run.spans[0]
    twin = replay(history, span.start, span.stop, without=[span])
    washing = {}
    for tag in ("DPIT301", "MV301", "FIT601", "P602"):
        restored = replay(history, span.start, span.stop, restored=column(tag), twin=twin)
        if tag != "P602":  # The readings of a sensor, and the state of a valve, are those of the twin.
            assert np.array_equal(restored.readings[:, column(tag)], twin.readings[:, column(tag)])
        washing[tag] = int((restored.readings[:, column("P602")] == 2).sum())
    attacked = int((history.run.readings[span.start : span.stop, column("P602")] == 2).sum())
    usual = int((twin.readings[:, column("P602")] == 2).sum())
    assert attacked > usual
    assert washing["DPIT301"] == washing["P602"] == usual
    assert washing["MV301"] == usual  # Without the open valve the sequence skips the backwash.
    assert washing["FIT601"] == attacked  # A meter that nobody acts on is no cause.


def test_replays_need_an_attack_and_a_twin(history):
    span = history.run.spans[0]
    with pytest.raises(InputError, match="no attack began at second 7"):
        replay(history, 7, 100)
    with pytest.raises(InputError, match="give the twin of the same seconds"):
        replay(history, span.start, span.stop, restored=3)


def test_drawn_attacks_are_of_all_kinds_and_reproducible():
    drawn = draw_attacks(60, seed=4)
    assert drawn == draw_attacks(60, seed=4)
    assert drawn[:5] == draw_attacks(5, seed=4)
    assert drawn != draw_attacks(60, seed=5)
    kinds = {type(action).__name__ for attack in drawn for action in attack.actions}
    assert kinds == {"Hold", "Ramp", "Shift", "Force"}
    assert {len(attack.targets) for attack in drawn} == {1, 2}
    assert set(USUAL) == SENSORS
