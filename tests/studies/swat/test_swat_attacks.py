"""Test the attacks on the simulated plant: falsified readings, forced actuators, and the reaction of the plant."""

from __future__ import annotations

import numpy as np
import pytest

from graphfaith._base.errors import InputError
from graphfaith_studies.swat import ATTACKS, LONG, TAGS, Attack, Force, Hold, Planned, Ramp, Schedule, column, simulate
from graphfaith_studies.swat.instruments import NOISE
from graphfaith_studies.swat.plant import HEIGHT, RISE

DAY = 86_400
REST = 1200
SIGMA = np.array([NOISE.get(tag, 0.0) for tag in TAGS])
BY_NUMBER = {attack.number: attack for attack in ATTACKS}


def attacked_by(attack, *, seed=0, seconds=None, after=600, patience=3600):
    """Simulate a run with this attack alone; ``seconds`` replaces its duration."""
    if seconds is not None:
        attack = Attack(attack.number, attack.actions, seconds, attack.when)
    plan = Schedule((Planned(attack, REST),), patience=patience)
    run = simulate((REST + 3600 + attack.seconds + after) / DAY, seed=seed, attacks=plan)
    return run, run.spans[0]


def reading(run, tag, span=None):
    values = run.readings[:, column(tag)]
    return values if span is None else values[span.start : span.stop]


@pytest.fixture(scope="module")
def untouched():
    return simulate(0.2, seed=0)


@pytest.fixture(scope="module")
def campaign():
    return simulate(28.5 / 24, seed=0, attacks=Schedule.of())


# The table and the schedule ---------------------------------------------------------------------------------------


def test_the_table_has_the_attacks_of_the_documents():
    assert len(ATTACKS) == len(BY_NUMBER) == 33
    assert [attack.number for attack in ATTACKS] == sorted(BY_NUMBER)
    assert set(range(1, 42)) - set(BY_NUMBER) == {4, 5, 9, 12, 14, 15, 18, 29}
    seconds = sum(attack.seconds for attack in ATTACKS)
    assert BY_NUMBER[LONG].seconds / seconds == pytest.approx(0.63, abs=0.01)


def test_a_day_and_a_bit_holds_all_attacks_with_normal_stretches_between(campaign):
    assert [span.attack for span in campaign.spans] == list(ATTACKS)
    before = 0
    for span in campaign.spans:
        assert span.start - before >= 540
        assert span.stop - span.start == span.attack.seconds
        before = span.stop
    assert 0.35 < campaign.labels.mean() < 0.55


def test_attacks_begin_in_the_state_that_they_wait_for(campaign):
    for span in campaign.spans:
        for tag, state in span.attack.when.items():
            assert reading(campaign, tag)[span.start - 1] == state, (span.attack.number, tag)


def test_the_run_records_which_tags_were_attacked_when(campaign):
    expected = np.zeros_like(campaign.attacked)
    for span in campaign.spans:
        for tag in span.attack.targets:
            expected[span.start : span.stop, column(tag)] = True
        assert set(campaign.attack_id[span.start : span.stop]) == {span.attack.number}
    assert np.array_equal(campaign.attacked, expected)
    assert np.array_equal(campaign.attacked.any(axis=1), campaign.labels)
    assert np.array_equal(campaign.attack_id > 0, campaign.labels)


def test_the_readings_are_those_of_the_attacks(campaign):
    for span in campaign.spans:
        for action in span.attack.actions:
            shown = reading(campaign, action.tag, span)
            noise = SIGMA[column(action.tag)]
            if isinstance(action, Hold):
                assert np.abs(shown - action.value).max() < 6 * noise
                assert shown.std() == pytest.approx(noise if action.value else 0.0, rel=0.15)
            elif isinstance(action, Ramp):
                line = shown - action.rate * np.arange(len(shown))
                assert line.std() == pytest.approx(noise, rel=0.15)
            else:
                assert (shown[8:] == action.state).all()  # a valve needs some seconds to move


def test_the_seed_determines_the_schedule():
    assert Schedule.of(seed=1) == Schedule.of(seed=1)
    assert Schedule.of(seed=1) != Schedule.of(seed=2)


def test_the_plant_recovers_from_all_of_them(campaign):
    tail = campaign.spans[-1].stop
    run = simulate((tail + 4 * 3600) / DAY, seed=0, attacks=Schedule.of())
    end = run.readings[-3600:]
    for tag, low, high in (("LIT101", 450, 850), ("LIT301", 700, 1050), ("LIT401", 700, 1050)):
        assert low < end[:, column(tag)].min() < end[:, column(tag)].max() < high
    for tag in ("P402", "UV401", "P501"):
        assert (end[:, column(tag)] == 2).all()
    assert (end[:, column("P102")] == 1).all()


# The plant reacts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"attack {attack.number}")
def test_a_reading_that_was_not_attacked_changes(attack, untouched):
    run, span = attacked_by(attack, seconds=min(attack.seconds, 3600), after=0)
    assert np.array_equal(
        run.readings[: span.start], untouched.readings[: span.start]
    )  # the runs are equal before the attack
    change = np.abs(run.readings[span.start : span.stop] - untouched.readings[span.start : span.stop])
    beyond_noise = (change > np.maximum(6 * SIGMA, 1e-9)).sum(axis=0)
    beyond_noise[[column(tag) for tag in attack.targets]] = 0
    assert beyond_noise.max() >= 60  # seconds


def test_high_pressure_starts_backwash_after_backwash(untouched):
    run, span = attacked_by(BY_NUMBER[8])
    washing, usual = (reading(recording, "P602", span) == 2 for recording in (run, untouched))
    assert (np.diff(washing.astype(int)) == 1).sum() >= 3
    assert (np.diff(usual.astype(int)) == 1).sum() <= 1
    assert reading(run, "FIT601", span).max() > 1.5


@pytest.mark.parametrize("number", [10, 11, 39, 40])
def test_no_flow_trips_the_lamp_and_the_pumps(number):
    run, span = attacked_by(BY_NUMBER[number])
    for tag, within in (("UV401", 5), ("P501", 5), ("P402", 15)):
        assert reading(run, tag)[span.start - 1] == 2
        assert (reading(run, tag, span)[within : within + 60] == 1).all()
    assert reading(run, "PIT501", span)[100] < 60
    assert (reading(run, "P501")[span.stop + 200 :] == 2).all()  # they run again after the attack


def test_the_standby_pump_takes_over_unless_it_is_attacked_too():
    alone, span = attacked_by(BY_NUMBER[34])
    assert (reading(alone, "P102", span)[40:200] == 2).all()
    assert (reading(alone, "FIT201", span)[60:200] > 2.3).all()
    both, span = attacked_by(BY_NUMBER[35])
    assert (reading(both, "FIT201", span)[60:] < 0.01).all()


def test_permeate_gets_salty_when_the_pressure_falls():
    run, span = attacked_by(BY_NUMBER[37])
    assert reading(run, "AIT504", span)[-1] > 2 * reading(run, "AIT504")[span.start - 1]
    assert reading(run, "PIT503", span)[-1] < 40


def test_dosing_stops_and_the_water_shows_it(untouched):
    run, span = attacked_by(BY_NUMBER[24])
    assert reading(run, "AIT202", span)[-1] > reading(untouched, "AIT202", span)[-1] + 0.1
    assert reading(run, "AIT203", span)[-1] < reading(untouched, "AIT203", span)[-1] - 20
    acid, span = attacked_by(BY_NUMBER[6])
    assert (reading(acid, "P203", span)[1:] == 1).all()


def test_a_blocked_backwash_leaves_the_fouling():
    run, span = attacked_by(BY_NUMBER[17])
    assert (reading(run, "P602", span) == 1).all()
    free = attacked_by(Attack(99, (Hold("AIT401", 148.0),), 420, BY_NUMBER[17].when))[0]
    later = slice(span.start + 330, span.stop)
    assert np.median(reading(run, "DPIT301")[later]) > np.median(reading(free, "DPIT301")[later]) + 1.0


def test_a_blocked_drain_leaves_some_fouling_and_delays_the_sequence():
    run, span = attacked_by(BY_NUMBER[13])
    free = attacked_by(Attack(99, (Hold("AIT401", 148.0),), 420, BY_NUMBER[13].when))[0]
    later = slice(span.start + 330, span.stop)
    assert np.median(reading(run, "DPIT301")[later]) > np.median(reading(free, "DPIT301")[later]) + 0.2
    assert (reading(run, "MV303", span) == 2).sum() > (reading(free, "MV303", span) == 2).sum() + 30


def test_an_actuator_follows_the_plc_again_after_the_attack():
    run, span = attacked_by(Attack(99, (Force("P601", 2), Force("P301", 2)), 60))
    for tag in ("P601", "P301"):
        assert (reading(run, tag, span) == 2).all()
        assert (reading(run, tag)[span.stop :] == 1).all()


def test_attacks_on_sensors_that_no_plc_reads_change_nothing_else(untouched):
    run, span = attacked_by(Attack(99, (Hold("AIT401", 0.0), Hold("PIT502", 9.0)), 600), after=0)
    differs = (run.readings != untouched.readings[: len(run)]).any(axis=0)
    assert {TAGS[place] for place in np.flatnonzero(differs)} == {"AIT401", "PIT502"}
    assert abs(reading(run, "PIT502", span).mean() - 9.0) < 0.02


def test_tanks_run_over_and_dry_and_the_balance_closes():
    flood = Attack(97, (Force("MV101", 2), Hold("LIT101", 700.0), Force("P101", 1), Force("P102", 1)), 4000)
    drought = Attack(98, (Force("MV101", 1), Hold("LIT101", 700.0), Force("P101", 2), Force("MV201", 2)), 4000)
    for attack, extreme in ((flood, HEIGHT), (drought, 0.0)):
        run, span = attacked_by(attack)
        assert run.levels.min() >= 0.0
        assert run.levels.max() <= HEIGHT
        assert abs(run.levels[span.stop - 1, 0] - extreme) < 25.0
        change = np.diff(run.levels, axis=0)
        assert np.abs(change - RISE * (run.inflows - run.outflows)[:-1]).max() < 1e-9


def test_a_ramp_ends_at_the_bottom_of_the_tank():
    run, span = attacked_by(Attack(99, (Ramp("LIT301", -10.0),), 300))
    assert 0.0 <= reading(run, "LIT301", span)[-1] < 3.0


def test_an_attack_begins_anyway_when_its_state_does_not_come():
    _, span = attacked_by(Attack(99, (Force("P101", 1),), 60, {"P603": 2}), patience=500)
    assert span.start == REST + 500


def test_an_attack_is_cut_at_the_end_of_the_run():
    run = simulate(1500 / DAY, attacks=Schedule((Planned(BY_NUMBER[10], REST), Planned(BY_NUMBER[11], REST))))
    assert [(span.start, span.stop) for span in run.spans] == [(REST, 1500)]
    assert run.labels.sum() == 300


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Hold("P101", 2.0), "P101 is an actuator: it can be forced, not held"),
        (lambda: Ramp("MV101", 1.0), "MV101 is an actuator: it can be forced, not ramped"),
        (lambda: Hold("LIT999", 2.0), "unknown tag 'LIT999'"),
        (lambda: Hold("LIT101", float("nan")), "LIT101 is held at must be"),
        (lambda: Ramp("LIT101", 0.0), "rate of LIT101 must be above 0"),
        (lambda: Force("LIT101", 2), "LIT101 is a sensor"),
        (lambda: Force("P101", 0), "P101 can be forced to 1"),
        (lambda: Attack(0, (Force("P101", 1),), 10), "the number of an attack must be"),
        (lambda: Attack(1, (), 10), "attack 1 does nothing"),
        (lambda: Attack(1, (Force("P101", 1),), 0), "the seconds of attack 1 must be"),
        (lambda: Attack(1, (Force("P101", 1), Force("P101", 2)), 10), "two actions for the same tag"),
        (lambda: Attack(1, (Force("P101", 1),), 10, {"LIT101": 500}), "it can only wait for an actuator"),
        (lambda: Planned(ATTACKS[0], 0), "the rest before attack 1 must be"),
        (lambda: Schedule(()), "needs at least one attack"),
        (lambda: Schedule.of(seed=-1), "seed must be"),
    ],
)
def test_impossible_attacks_are_refused(make, what):
    with pytest.raises(InputError, match=what):
        make()
