"""Test the simulated plant: its balance, its control, its cycles, and that a forecaster can learn it."""

from __future__ import annotations

import time
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from graphfaith._base.errors import GraphfaithError, InputError
from graphfaith_studies.swat import (
    ACTUATORS,
    CONSTANT,
    SENSORS,
    STAGES,
    SWAT,
    TAGS,
    column,
    simulate,
    stage,
    tags,
)
from graphfaith_studies.swat.instruments import NOISE, apply_lag, draw_drift
from graphfaith_studies.swat.plant import RISE


def starts(on):
    """Return the positions at which a series of booleans turns true."""
    return np.flatnonzero(~on[:-1] & on[1:]) + 1


@pytest.fixture(scope="module")
def normal():
    return simulate(4.0, seed=11)


def reading(run, tag):
    return run.readings[:, column(tag)]


# The tags ---------------------------------------------------------------------------------------------------------


def test_tags_are_named_and_counted_as_in_the_files():
    assert len(TAGS) == len(set(TAGS)) == 51
    assert (len(SENSORS), len(ACTUATORS), len(CONSTANT)) == (25, 26, 14)
    assert [getattr(tags, tag) for tag in TAGS] == list(range(51))
    assert set(NOISE) == SENSORS
    assert {"P202", "P401", "P404", "P502", "P601", "P603"} <= CONSTANT
    assert [stage(tag) for tag in TAGS] == sorted(stage(tag) for tag in TAGS)
    assert {stage(tag) for tag in TAGS} == set(range(1, len(STAGES) + 1))


def test_neighbours_make_one_graph_of_79_edges():
    graph = nx.Graph(SWAT.edges)
    assert set(graph) == set(range(len(TAGS)))
    assert len(SWAT.edges) == graph.number_of_edges() == 79
    assert nx.is_connected(graph)
    assert nx.diameter(graph) == 12


def test_stages_are_drawn_from_left_to_right():
    assert len({tag.at for tag in SWAT.tags}) == 51
    for number in range(1, 6):
        assert max(tag.at[0] for tag in SWAT.tags if stage(tag.name) == number) < min(
            tag.at[0] for tag in SWAT.tags if stage(tag.name) == number + 1
        )


def test_an_unknown_tag_is_named():
    with pytest.raises(InputError, match="unknown tag 'LIT201'"):
        column("LIT201")


# Physics ----------------------------------------------------------------------------------------------------------


def test_the_balance_of_each_tank_closes(normal):
    assert pytest.approx(0.185, abs=5e-4) == RISE  # mm/s, for 1 m3/h into 1.5 m2
    change = np.diff(normal.levels, axis=0)
    assert np.abs(change - RISE * (normal.inflows - normal.outflows)[:-1]).max() < 1e-9
    assert np.abs(change).max() > 0.3  # the levels do change


def test_the_readings_show_the_true_levels_and_flows(normal):
    for tank, tag in enumerate(("LIT101", "LIT301", "LIT401")):
        error = reading(normal, tag) - normal.levels[:, tank]
        assert abs(error.mean()) < 0.01
        assert error.std() == pytest.approx(0.5, rel=0.02)
    flows = [("FIT101", normal.inflows[:, 0]), ("FIT201", normal.outflows[:, 0]), ("FIT201", normal.inflows[:, 1])]
    flows += [("FIT301", normal.outflows[:, 1]), ("FIT401", normal.outflows[:, 2])]
    for tag, flow in flows:
        error = (reading(normal, tag) - flow)[flow > 0.1]
        assert abs(error.mean()) < 1e-4
        assert error.std() == pytest.approx(NOISE[tag], rel=0.02)


def test_the_balance_closes_by_readings_alone(normal):
    """Test the balance that a user can compute: over ten minutes the level changes by the sum of the measured flows."""
    for level, into, out in (("LIT101", "FIT101", "FIT201"), ("LIT301", "FIT201", "FIT301")):
        net = np.cumsum(RISE * (reading(normal, into) - reading(normal, out)))
        moved = reading(normal, level)[601:] - reading(normal, level)[1:-600]
        counted = net[600:-1] - net[:-601]
        assert (moved - counted).std() < 1.0  # the noise of two readings of 0.5 mm each
        assert moved.std() > 20.0


def test_the_water_balance_of_the_reverse_osmosis_closes(normal):
    into = reading(normal, "FIT501") + reading(normal, "FIT504")
    out = reading(normal, "FIT502") + reading(normal, "FIT503")
    assert abs((into - out).mean()) < 1e-3
    assert (into - out).std() < 0.006


def test_pressure_follows_the_flow_and_the_fouling(normal):
    flow = reading(normal, "FIT301")
    rest = reading(normal, "DPIT301") - (2.05 + 2.99 * flow + 2.25 * flow**2)
    filtering = np.flatnonzero((reading(normal, "P302") == 2) & (reading(normal, "MV302") == 2) & (flow > 2.1))
    assert rest[filtering].min() > -0.5
    assert rest[filtering].max() < 6.0
    for wash in starts(reading(normal, "P602") == 2)[:20]:
        before, after = filtering[filtering < wash][-60:], filtering[filtering > wash + 100][:60]
        assert np.median(rest[before]) > np.median(rest[after]) + 0.5  # the backwash removes the fouling


@pytest.mark.parametrize(
    ("tag", "value"),
    {
        **{"FIT101": 2.55, "FIT201": 2.45, "FIT301": 2.2, "FIT401": 1.71, "FIT501": 1.71, "FIT502": 1.27},
        **{"FIT503": 0.73, "FIT504": 0.31, "FIT601": 1.7, "PIT501": 250.0, "PIT503": 189.0, "AIT202": 8.4},
    }.items(),
)
def test_running_values(normal, tag, value):
    flow = reading(normal, tag)
    assert np.median(flow[flow > 0.5 * value]) == pytest.approx(value, rel=0.04)


@pytest.mark.parametrize("tag", ["AIT201", "AIT402", "AIT503", "FIT502", "FIT503", "FIT504"])
def test_controlled_values_stay_in_their_bands(normal, tag):
    low, high = tags.BANDS[tag]
    middle = np.percentile(reading(normal, tag), [1, 99])
    assert low - 0.5 < middle[0] < middle[1] < high + 0.5 if tag[0] == "A" else low < middle[0] < middle[1] < high


# Control ----------------------------------------------------------------------------------------------------------


def test_levels_stay_within_their_limits(normal):
    for tank, tag in enumerate(("LIT101", "LIT301", "LIT401")):
        limits = tags.LEVELS[tag]
        for level in (reading(normal, tag), normal.levels[:, tank]):
            assert limits.low_low < level.min() < limits.low + 20  # it falls to L, and not much further
            assert limits.high - 20 < level.max() < limits.high_high


@pytest.mark.parametrize("seed", [0, 1, 2, 2**64 - 1])
def test_any_seed_runs_normally(seed):
    run = simulate(0.4, seed=seed)
    for tank, tag in enumerate(("LIT101", "LIT301", "LIT401")):
        limits = tags.LEVELS[tag]
        assert limits.low_low < run.levels[:, tank].min()
        assert run.levels[:, tank].max() < limits.high_high
    assert all(np.ptp(reading(run, tag)) == 0 for tag in CONSTANT)


def test_exactly_14_tags_are_constant(normal):
    assert {tag for tag in TAGS if np.ptp(reading(normal, tag)) == 0} == CONSTANT
    assert {tag for tag in CONSTANT if reading(normal, tag)[0] == 2} == {"P402", "P501", "UV401"}


def test_actuators_read_their_states_and_valves_take_eight_seconds(normal):
    for tag in sorted(ACTUATORS):
        assert set(np.unique(reading(normal, tag))) <= ({0, 1, 2} if tag.startswith("MV") else {1, 2})
    moving = reading(normal, "MV101") == 0
    ends = starts(~moving)
    lengths = [int(end - begin) for begin, end in zip(starts(moving), ends[ends > starts(moving)[0]], strict=False)]
    assert set(lengths) == {7}  # the valve reads 1 or 2 again in the eighth second


def test_the_raw_water_valve_follows_the_level(normal):
    level, valve = reading(normal, "LIT101"), reading(normal, "MV101")
    begins = starts(valve == 0)
    assert len(begins) > 50
    for second in begins:
        assert level[second] <= 500.0 if valve[second - 1] == 1 else level[second] >= 800.0


def test_dosing_needs_an_open_valve_and_flow(normal):
    dosing = (reading(normal, "P203") == 2) | (reading(normal, "P205") == 2)
    assert dosing.any()
    assert (reading(normal, "FIT201")[dosing] > 0.5).all()
    assert (reading(normal, "MV201")[1:][dosing[1:] & dosing[:-1]] != 1).all()


def test_ultrafiltration_runs_in_cycles_of_half_an_hour(normal):
    washing = starts(reading(normal, "P602") == 2)
    filtering = (reading(normal, "P302") == 2) & (reading(normal, "MV302") == 2)
    filtered = [int(filtering[start:stop].sum()) for start, stop in pairwise(washing)]
    assert len(filtered) > 100
    assert all(1790 <= seconds <= 1810 for seconds in filtered)
    on = reading(normal, "P602") == 2
    assert {int(on[second : second + 100].sum()) for second in washing[:-1]} == {40}
    assert (reading(normal, "MV301")[on] != 1).all()
    assert (reading(normal, "MV302")[on] != 2).all()
    assert reading(normal, "FIT601")[~on].mean() < 0.01


def test_filtering_pauses_while_the_next_tank_is_full(normal):
    paused = (reading(normal, "P302") == 1) & (reading(normal, "MV302") == 2)
    begins, ends = starts(paused), starts(~paused)
    ends = ends[ends > begins[0]]
    level = reading(normal, "LIT401")
    holds = [(start, stop) for start, stop in zip(begins, ends, strict=False) if stop - start > 100]
    assert len(holds) > 50
    for start, stop in holds:  # the pump switches one second after the level has been read
        assert 1010.0 > level[start - 1] >= 1000.0
        assert 790.0 < level[stop - 1] <= 800.0


# The run as a whole -----------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    one, other = simulate(0.05, seed=3), simulate(0.05, seed=3)
    for name in ("times", "readings", "labels", "attacked", "attack_id", "levels", "inflows", "outflows"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert not np.array_equal(one.readings, simulate(0.05, seed=4).readings)


def test_a_longer_run_begins_with_the_shorter_one(normal):
    short = simulate(0.3, seed=11)
    assert np.array_equal(short.readings, normal.readings[: len(short)])


def test_a_normal_run_is_labelled_as_normal(normal):
    assert len(normal) == 4 * 86_400
    assert not normal.labels.any()
    assert not normal.attacked.any()
    assert not normal.attack_id.any()
    assert np.isfinite(normal.readings).all()
    assert (np.diff(normal.times) == np.timedelta64(1, "s")).all()
    assert np.array_equal(normal.seconds, np.arange(len(normal)))


def test_a_day_takes_less_than_two_seconds():
    taken = []
    for _ in range(3):
        began = time.process_time()
        simulate(0.1, seed=0)
        taken.append(time.process_time() - began)
    assert 10 * min(taken) < 2.0


def test_a_linear_forecast_beats_persistence(normal):
    """Predict the next median of ten seconds from the last five, with scaled readings; the last day is held out."""
    median = np.median(normal.readings.reshape(-1, 10, 51), axis=1)
    first = 3 * len(median) // 4
    low, high = median[:first].min(axis=0), median[:first].max(axis=0)
    scaled = (median - low) / np.where(high > low, high - low, 1.0)
    inputs = np.hstack([scaled[i : i - 5] for i in range(5)] + [np.ones((len(scaled) - 5, 1))])
    change = scaled[5:] - scaled[4:-1]
    train, test = slice(0, first - 5), slice(first, None)
    gram = inputs[train].T @ inputs[train] + 1e-2 * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, inputs[train].T @ change[train])
    error = ((inputs[test] @ weights - change[test]) ** 2).mean(axis=0)
    persistence = (change[test] ** 2).mean(axis=0)
    assert error.mean() < 0.7 * persistence.mean()
    # The forecast does not only average the noise: it also predicts how levels, valves and analysers move.
    moving = [column(tag) for tag in ("LIT101", "LIT301", "LIT401", "AIT203", "AIT402", "P602", "MV301", "FIT301")]
    assert (error[moving] < 0.7 * persistence[moving]).all()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"days": 0.0}, "days must be above 0"),
        ({"days": float("nan")}, "days must be"),
        ({"days": 1e-6}, "which is one second"),
        ({"seed": -1}, "seed must be"),
        ({"start": "yesterday"}, "start must be a time such as"),
        ({"start": None}, "start must be a time such as"),
        ({"start": "2024-01-01T00:00:00+08:00"}, "without a time zone"),
    ],
)
def test_what_cannot_be_simulated_is_refused(given, what):
    with pytest.raises(GraphfaithError, match=what):
        simulate(**given)


def test_drift_and_lag():
    wander = draw_drift(2.0, 10.0, 0, 5, 200_000)
    assert wander.std() == pytest.approx(2.0, rel=0.05)
    assert np.abs(wander).max() <= 6.0
    assert np.corrcoef(wander[:-10], wander[10:])[0, 1] == pytest.approx(np.exp(-1), abs=0.03)
    assert apply_lag(np.full(3, 7.0), 10.0).tolist() == pytest.approx([7.0] * 3)
    step = apply_lag(np.r_[np.zeros(5), np.ones(100)], 10.0)
    assert step[4] == 0.0
    assert step[14] == pytest.approx(1 - 0.9**10)
