"""Test the way from a recording to alarms: series, forecaster, training, detector and scores."""

from __future__ import annotations

import json

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from graphfaith._base.errors import DataError, InputError, ModelError
from graphfaith_studies.plant import Recording
from graphfaith_studies.plant.detectors import (
    MARGIN,
    RESOLUTION,
    Alarm,
    Range,
    Thresholds,
    differences_of,
    find_alarms,
    join,
    mark_raised,
    name_reasons,
    published_excess,
)
from graphfaith_studies.plant.deviation_network import DeviationNetwork
from graphfaith_studies.plant.forecaster import Forecaster, Nowcaster, TagLinear
from graphfaith_studies.plant.measures import curve_pa_k
from graphfaith_studies.plant.monitor import Monitor
from graphfaith_studies.plant.scoring import (
    Event,
    count_events_at,
    events_of,
    find_events,
    find_factor,
    hold,
    score_detector,
)
from graphfaith_studies.plant.series import Scale, Series, series_of
from graphfaith_studies.plant.training import Plan, error_of, forecast_all, train
from graphfaith_studies.swat import Schedule, simulate
from graphfaith_studies.swat.attacks import ATTACKS
from graphfaith_studies.swat.tags import NUM_TAGS, SWAT, TAGS, column

QUIET = SWAT.quiet // SWAT.step


def recording(seconds: int, keep: np.ndarray | None = None) -> Recording:
    rng = np.random.default_rng(0)
    keep = np.arange(seconds) if keep is None else keep
    times = np.datetime64("2024-01-01T00:00:00", "s") + keep
    labels = np.zeros(seconds, dtype=bool)
    labels[100:200] = labels[250:290] = True
    return Recording(SWAT, times, rng.random((seconds, NUM_TAGS))[keep], labels[keep])


def series(labels: list[int], attacked: dict[int, list[int]] | None = None) -> Series:
    """Return a series of zeros with the given attack numbers and attacked tags."""
    count = len(labels)
    tags = np.zeros((count, NUM_TAGS), dtype=bool)
    for number, columns in (attacked or {}).items():
        tags[np.ix_(np.flatnonzero(np.array(labels) == number), columns)] = True
    follows = np.arange(count) > 0
    times = np.datetime64("2024-01-01T00:00:00", "s") + SWAT.step * np.arange(count)
    numbers = np.array(labels)
    return Series(SWAT, times, np.zeros((count, NUM_TAGS)), numbers > 0, tags, numbers, follows)


class TestSeries:
    def test_medians_of_ten_seconds(self) -> None:
        given = recording(400)
        medians = series_of(given)
        assert len(medians) == 40
        assert np.array_equal(medians.values[7], np.median(given.readings[70:80], axis=0))
        assert medians.labels.tolist() == [10 <= i < 20 or 25 <= i < 29 for i in range(40)]
        assert medians.attack_id.tolist() == [1 if 10 <= i < 20 else 2 if 25 <= i < 29 else 0 for i in range(40)]
        assert medians.times[1] - medians.times[0] == np.timedelta64(SWAT.step, "s")

    def test_missing_seconds_are_left_out_and_no_window_crosses_missing_steps(self) -> None:
        keep = np.setdiff1d(np.arange(400), [73, 75, *range(200, 220)])
        given = recording(400, keep)
        medians = series_of(given)
        assert len(medians) == 38
        inside = (keep >= 70) & (keep < 80)
        assert np.array_equal(medians.values[7], np.median(given.readings[inside], axis=0))
        assert np.flatnonzero(~medians.follows).tolist() == [0, 20]
        assert medians.targets.tolist() == [*range(11, 20), *range(31, 38)]

    def test_a_part_begins_anew(self) -> None:
        part = series_of(recording(400))[10:]
        assert not part.follows[0]
        assert part.targets.tolist() == list(range(11, 30))

    def test_attacks_of_a_simulation(self) -> None:
        run = simulate(0.2, seed=0, attacks=Schedule.of(ATTACKS[:1], seed=0))
        medians = series_of(run)
        assert set(medians.attack_id.tolist()) == {0, 1}
        assert np.flatnonzero(medians.attacked.any(0)).tolist() == [column("MV101")]

    def test_too_short(self) -> None:
        with pytest.raises(InputError, match="too short; a forecast needs at least 120"):
            series_of(recording(400, np.arange(40)))

    def test_half_of_a_step_makes_it_attacked(self) -> None:
        given = recording(400)
        given.labels[:] = False
        given.labels[105:144] = True
        assert np.flatnonzero(series_of(given).labels).tolist() == [10, 11, 12, 13]

    def test_windows_end_with_what_is_judged(self) -> None:
        medians = series_of(recording(400))
        scale = Scale.of(medians)
        windows = scale.windows_of(medians)
        back = windows.x.double() * scale.span[:, None] + scale.low[:, None]
        assert windows.x.shape == (29, NUM_TAGS, SWAT.window)
        assert torch.allclose(back[3], torch.from_numpy(medians.values[3:15].T), atol=1e-6)
        assert windows.steps[3] == 14
        assert torch.equal(windows.y[3], windows.x[3, :, -1])
        assert (float(windows.x.min()), float(windows.x.max())) == (0, 1)
        change = np.diff((medians.values - medians.values.min(0)) / np.ptp(medians.values, axis=0), axis=0)
        assert windows.persistence_error() == pytest.approx(np.square(change[10:]).mean(), rel=1e-5)
        assert np.allclose(scale.usual.numpy(), np.quantile(medians.values, (0.01, 0.99), axis=0))

    def test_a_constant_tag_keeps_its_own_unit(self) -> None:
        medians = series_of(recording(400))
        medians.values[:, 3] = 7.0
        scale = Scale.of(medians)
        assert (float(scale.low[3]), float(scale.span[3])) == (7.0, 1.0)

    def test_nan_is_named(self) -> None:
        medians = series_of(recording(400))
        medians.values[3, column("FIT401")] = np.nan
        with pytest.raises(InputError, match="FIT401 has NaN"):
            Scale.of(medians)


@pytest.mark.parametrize("kind", [Forecaster, Nowcaster])
class TestBothForecasters:
    def test_the_dense_forecast_is_that_on_the_graph(self, kind) -> None:
        torch.manual_seed(0)
        model, x = kind(SWAT), torch.rand(3, NUM_TAGS, SWAT.window)
        expected = torch.stack([model(window, SWAT.arrows).squeeze(-1) for window in x])
        assert torch.allclose(model.forecast(x), expected, atol=1e-5)
        assert torch.allclose(model(x, SWAT.arrows).squeeze(-1), expected, atol=1e-5)

    def test_several_plants_one_after_the_other(self, kind) -> None:
        torch.manual_seed(0)
        model, x = kind(SWAT), torch.rand(2, NUM_TAGS, SWAT.window)
        both = Batch.from_data_list([Data(x=window, edge_index=SWAT.arrows) for window in x])
        assert torch.allclose(model(both.x, both.edge_index).view(2, NUM_TAGS), model.forecast(x), atol=1e-5)

    def test_the_weight_of_an_edge_counts(self, kind) -> None:
        torch.manual_seed(0)
        model, x, edges = kind(SWAT), torch.rand(NUM_TAGS, SWAT.window), SWAT.arrows
        whole = model(x, edges, torch.ones(edges.size(1)))
        assert torch.allclose(model(x, edges), whole)
        gone = model(x, edges, torch.zeros(edges.size(1)))
        alone = model(x, edges[:, :0])
        assert torch.allclose(gone, alone, atol=1e-6)
        assert not torch.allclose(gone, whole, atol=1e-3)

    def test_no_forecast_sees_what_it_must_not(self, kind) -> None:
        """The judged reading is hidden from its own forecast, and from the nowcaster the newer half of its window."""
        torch.manual_seed(0)
        model, x = kind(SWAT), torch.rand(NUM_TAGS, SWAT.window)
        tag, neighbour = column("DPIT301"), column("P602")
        for moved, slot, felt in (
            (tag, -1, False),
            (tag, -2, kind is Forecaster),
            (tag, SWAT.window // 2, kind is Forecaster),
            (tag, 5, kind is Nowcaster),
            (neighbour, -1, kind is Nowcaster),
            (neighbour, -2, True),
        ):
            changed = x.clone()
            changed[moved, slot] += 3.0
            before, after = (model.forecast(window[None])[0, tag].item() for window in (x, changed))
            assert (before != after) is felt, (moved, slot)


class TestForecaster:
    def test_the_plant_s_graph(self) -> None:
        edges = SWAT.arrows
        assert edges.shape == (2, 158)
        assert len({frozenset(pair) for pair in edges.T.tolist()}) == 79

    def test_each_tag_has_its_own_matrix(self) -> None:
        torch.manual_seed(0)
        layer, x = TagLinear(NUM_TAGS, 4, 3), torch.rand(NUM_TAGS, 4)
        assert torch.allclose(layer(x)[7], x[7] @ layer.weight[7] + layer.bias[7])

    def test_neighbours_are_learnt(self) -> None:
        torch.manual_seed(0)
        model = DeviationNetwork(SWAT, neighbours=4)
        neighbours = model.find_neighbours()
        assert neighbours.sum(1).tolist() == [5] * NUM_TAGS
        assert neighbours.diagonal().all()
        x = torch.rand(1, NUM_TAGS, SWAT.window)
        moved = x.clone()
        moved[0, int((~neighbours[0]).nonzero()[0])] += 1  # not a neighbour of the first tag
        model.eval()
        assert model.forecast(moved)[0, 0] == model.forecast(x)[0, 0]
        moved[0, int(neighbours[0].nonzero()[1])] += 1
        assert model.forecast(moved)[0, 0] != model.forecast(x)[0, 0]

    def test_the_tuned_network_forecasts_the_change(self) -> None:
        torch.manual_seed(0)
        x = torch.rand(2, NUM_TAGS, SWAT.window)
        model = DeviationNetwork(SWAT, tuned=True).eval()
        with torch.no_grad():
            model.readout[2].weight.zero_()
            model.readout[2].bias.zero_()
        assert torch.equal(model.forecast(x), x[..., -2])
        parts = {type(part).__name__ for part in DeviationNetwork(SWAT).modules()}
        assert {"BatchNorm1d", "Dropout"} <= parts
        assert not {"BatchNorm1d", "Dropout"} & {type(part).__name__ for part in model.modules()}


@pytest.fixture(scope="module")
def parts():
    normal = series_of(simulate(0.15, seed=3))
    scale = Scale.of(normal[:1000])
    return scale.windows_of(normal[:1000]), scale.windows_of(normal[1000:])


def fresh() -> Forecaster:
    torch.manual_seed(5)
    return Forecaster(SWAT, 8)


def network() -> DeviationNetwork:
    torch.manual_seed(5)
    return DeviationNetwork(SWAT, channels=8)


class TestTraining:
    def test_it_learns(self, parts) -> None:
        model = fresh()
        errors = train(model, *parts, Plan(epochs=8, patience=8, seed=1))
        assert len(errors) == 8
        assert errors[-1] < 0.8 * errors[0]
        assert error_of(model, parts[1]) == pytest.approx(min(errors))

    @pytest.mark.parametrize("fresh", [fresh, network], ids=["forecaster", "network with dropout"])
    def test_it_resumes_where_it_was_stopped(self, parts, tmp_path, fresh) -> None:
        whole = fresh()
        expected = train(whole, *parts, Plan(epochs=4, patience=9, seed=1))
        path = tmp_path / "x.safetensors"

        class StopError(Exception):
            pass

        def stop(epoch: int, _: float) -> None:
            if epoch == 2:
                raise StopError

        with pytest.raises(StopError):
            train(fresh(), *parts, Plan(epochs=4, patience=9, seed=1), path, stop)
        seen: list[int] = []
        model = fresh()
        assert (
            train(model, *parts, Plan(epochs=4, patience=9, seed=1), path, lambda epoch, _: seen.append(epoch))
            == expected
        )
        assert seen == [3, 4]
        for resumed, expected_weight in zip(model.parameters(), whole.parameters(), strict=True):
            assert torch.equal(resumed, expected_weight)
        assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]

    def test_a_finished_training_is_only_read(self, parts, tmp_path) -> None:
        path = tmp_path / "x.safetensors"
        first = fresh()
        train(first, *parts, Plan(epochs=2, seed=1), path)
        other = Forecaster(SWAT, 8)
        train(other, *parts, Plan(epochs=2, seed=1), path, lambda *_: pytest.fail("trained again"))
        assert torch.equal(forecast_all(first, parts[1]), forecast_all(other, parts[1]))

    @pytest.mark.parametrize("content", [b"", b"nonsense", b"\x00" * 64])
    def test_other_files_are_refused(self, parts, tmp_path, content: bytes) -> None:
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(DataError, match="not a checkpoint of a training; remove the file"):
            train(fresh(), *parts, Plan(epochs=2), tmp_path / "x.safetensors")
        assert (tmp_path / "x.safetensors").read_bytes() == content

    def test_a_wrong_number_in_a_checkpoint_is_noticed(self, parts, tmp_path) -> None:
        path = tmp_path / "x.safetensors"
        train(fresh(), *parts, Plan(epochs=1, seed=1), path)
        content = path.read_bytes()
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        with pytest.raises(DataError, match="it is damaged, its checksum is wrong; remove the file"):
            train(fresh(), *parts, Plan(epochs=2, seed=1), path)

    def test_checkpoints_of_other_trainings_are_refused(self, parts, tmp_path) -> None:
        path = tmp_path / "x.safetensors"
        train(fresh(), *parts, Plan(epochs=1, seed=1), path)
        with pytest.raises(DataError, match="its plan is not the plan of this training"):
            train(fresh(), *parts, Plan(epochs=1, seed=2), path)
        with pytest.raises(DataError, match="its data is not the data of this training"):
            train(fresh(), parts[1], parts[0], Plan(epochs=1, seed=1), path)
        with pytest.raises(DataError, match="its model is not the model of this training"):
            train(DeviationNetwork(SWAT), *parts, Plan(epochs=1, seed=1), path)
        with pytest.raises(DataError, match="its weights do not fit this model"):
            train(Forecaster(SWAT, 16), *parts, Plan(epochs=1, seed=1), path)

    def test_it_stops_early_and_keeps_the_best(self, parts) -> None:
        model = fresh()
        errors = train(model, *parts, Plan(epochs=60, patience=2, learning_rate=0.5, seed=1))
        assert len(errors) < 60
        assert min(errors[-2:]) > min(errors)
        assert error_of(model, parts[1]) == pytest.approx(min(errors))

    def test_an_error_that_is_not_finite(self, parts) -> None:
        model = fresh()
        with torch.no_grad():
            model.readout.weight.fill_(torch.nan)
        with pytest.raises(ModelError, match="not a finite number; use a lower learning_rate"):
            train(model, *parts, Plan(epochs=1))


class TestDetectors:
    def test_each_tag_has_the_threshold_of_its_own_errors(self) -> None:
        errors = np.zeros((100, NUM_TAGS))
        errors[7, 0], errors[8, 1] = -6.0, 0.5
        thresholds = Thresholds.of(errors)
        assert thresholds.values[:3].tolist() == [6.0 * MARGIN, 0.5 * MARGIN, RESOLUTION * MARGIN]

    @pytest.mark.parametrize("errors", [np.zeros((1, NUM_TAGS)), np.full((5, NUM_TAGS), np.nan)])
    def test_unusable_errors_are_refused(self, errors) -> None:
        with pytest.raises(InputError, match="finite errors at two or more steps"):
            Thresholds.of(errors)

    def test_the_range_of_training(self) -> None:
        given = series([0] * 20)
        given.values[:, 0] = np.linspace(10.0, 20.0, 20)
        given.values[:, 1] = 2.0  # constant
        given.values[:, 2] = np.arange(20) % 2 + 1.0  # a pump, whose span is 1 as well
        check = Range.of(Scale.of(given), 0.2)
        readings = np.zeros((1, NUM_TAGS))
        readings[0, :3] = 24.0, 1.0, 2.0
        assert check.excess_of(readings)[0, :3].tolist() == [2.0, -5.0, 0.0]
        readings[0, :3] = 9.0, 2.0, 0.0
        assert check.excess_of(readings)[0, :3].tolist() == [-0.5, 0.0, -5.0]

    def test_differences_do_not_cross_gaps(self) -> None:
        given = series([0] * 6)
        given.values[:, 0] = [0.0, 1.0, 1.0, 5.0, 5.0, 4.0]
        given.follows[3] = False
        changes = differences_of(given, Scale.of(given))
        assert changes[:, 0].tolist() == [0.0, 0.2, 0.0, 0.0, 0.0, -0.2]

    def test_the_published_rule_takes_its_statistics_from_held_out_data(self) -> None:
        draw = np.random.default_rng(0)
        held_out, errors = draw.normal(size=(500, 3)), np.zeros((50, 3))
        errors[20:24, 1] = -50.0
        excess = published_excess(errors, held_out)
        assert np.abs(published_excess(held_out, held_out)).max() == pytest.approx(1.0)
        assert excess[23, 1] < -5.0
        assert abs(excess[20, 1]) == pytest.approx(abs(excess[23, 1]) / 4, rel=0.1)  # an average over four steps
        assert np.abs(excess[:20]).max() < 1.0

    def test_alarms_are_latched(self) -> None:
        excess = np.zeros((100, NUM_TAGS))
        excess[10, 4], excess[10, 5], excess[12, 6] = 1.4, -1.5, 9.0
        excess[12 + QUIET, 7] = 3.5
        excess[12 + 2 * QUIET + 1, 8] = -3.1
        excess[90, 9] = 1.0  # equal to the threshold, not above it
        alarms = find_alarms(excess, QUIET)
        second = 12 + 2 * QUIET + 1
        assert alarms == [Alarm(10, 12 + QUIET, 5, -1.5), Alarm(second, second, 8, -3.1)]
        assert find_alarms(np.zeros((100, NUM_TAGS)), QUIET) == []
        assert np.flatnonzero(mark_raised(alarms, 100)).tolist() == [*range(10, 13 + QUIET), second]

    def test_the_reason_is_the_check_with_the_larger_excess(self) -> None:
        of_forecast, of_range = np.zeros((60, NUM_TAGS)), np.zeros((60, NUM_TAGS))
        of_forecast[5, 3], of_range[5, 3], of_range[40, 2] = 2.0, -1.5, -4.0
        alarms = name_reasons(find_alarms(join(of_forecast, of_range), QUIET), of_range)
        assert [(alarm.reason, alarm.deviation) for alarm in alarms] == [("forecast", 2.0), ("range", -4.0)]


class TestScore:
    def case(self):
        numbers = [0] * 10 + [5] * 10 + [0] * 30 + [28] * 20 + [0] * 130 + [7] * 5 + [0] * 15
        given = series(numbers, {5: [3], 28: [4, 6], 7: [2]})
        excess = np.zeros((len(given), NUM_TAGS))
        excess[12:15, 3] = 3.0  # attack 5: the attacked tag is accused
        excess[55:60, 9] = -3.0  # attack 28: another tag is accused
        excess[90, 1] = 3.0  # while the plant recovers
        excess[180, 1] = 3.0  # a false alarm
        return given, excess

    def test_events(self) -> None:
        given, _ = self.case()
        events = events_of(given)
        assert events == (Event(5, 10, 20, (3,)), Event(28, 50, 70, (4, 6)), Event(7, 200, 205, (2,)))
        assert events[1].as_json(SWAT)["attacked"] == [TAGS[4], TAGS[6]]

    def test_where_alarms_come_from(self) -> None:
        given, excess = self.case()
        alarms = find_alarms(excess, QUIET)
        near = [find_events(alarm, events_of(given), SWAT.recovery // SWAT.step) for alarm in alarms]
        assert [(when, [event.number for event in events]) for when, events in near] == [
            ("during", [5]), ("during", [28]), ("after", [28]), ("elsewhere", []),
        ]  # fmt: skip

    def test_scores(self) -> None:
        given, excess = self.case()
        quiet = series([0] * 8640)
        quiet_excess = np.zeros((8640, NUM_TAGS))
        quiet_excess[[100, 4000], 5] = 2.0
        row = json.loads(json.dumps(score_detector(excess, quiet_excess, given, quiet, events_of(given), 28)))
        assert (row["events"], row["events_detected"], row["missed"]) == (3, 2, [7])
        assert row["delay_seconds_median"] == 45.0  # 30 and 60 s: the median of a step is known at its end
        assert row["accused_attacked"] == 0.5
        assert (row["alarms_raised"], row["alarms_after"], row["alarms_elsewhere"]) == (4, 1, 1)
        assert row["false_alarms_per_day"] == 2.0
        assert row["quiet_in_alarm"] == 2 / 8640
        # Ten steps before the first attack, and those from ten minutes after the second up to the third.
        assert row["elsewhere_per_day"] == pytest.approx(1 / ((10 + 200 - 131) * SWAT.step / 86_400))
        assert row["coverage"] == pytest.approx((3 / 10 + 5 / 20) / 3)
        assert (row["precision"], row["recall"]) == (8 / 10, 8 / 35)
        assert row["without_long"]["recall"] == 3 / 15
        assert row["f1_oracle"] >= row["f1"]
        assert row["attacked_share"] == pytest.approx(35 / 220)

    @hypothesis.given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 4))
    def test_alarms_that_stay_up(self, beyond: list[bool], gap: int) -> None:
        flags = np.array(beyond, dtype=bool)
        alarms = find_alarms(2.0 * flags[:, None], gap)
        assert np.array_equal(hold(flags, gap), mark_raised(alarms, len(flags)))

    def test_the_best_threshold_has_alarms_that_stay_up(self) -> None:
        """An alarm with pauses covers a whole attack; without staying up no threshold would."""
        given, excess = self.case()
        excess[:] = 0.0
        excess[[50, 59, 69], 4] = 2.0
        row = score_detector(excess, excess[:0], given, given[:1], events_of(given), None)
        assert row["f1_oracle"] == row["f1"] == 2 * 20 / (20 + 35)

    def test_detectors_are_compared_at_one_false_alarm_a_day(self) -> None:
        given, excess = self.case()
        quiet = series([0] * 8640)
        noise = np.zeros(8640)
        noise[[100, 4000]] = 2.0, 1.5
        size = np.abs(excess).max(1)
        size[200:205] = 1.8  # attack 7
        events = events_of(given)
        # Of three false alarms, of sizes 3, 2 and 1.5, one a day is allowed: a factor of two is needed.
        assert count_events_at(1.0, size, noise, given, quiet, events) == 2
        assert count_events_at(3.0, size, noise, given, quiet, events) == 3
        assert count_events_at(1.0, np.full(len(given), 2.0), np.full(8640, 2.0), given, quiet, events) == 0

    def test_the_least_factor_with_so_many_alarms(self) -> None:
        size = np.array([0.1, 3.0, 0.1, 0.1, 2.0, 0.1, 0.1, 1.0])
        for alarms, largest in ((0, 3.0), (1, 2.0), (2, 1.0)):
            factor = find_factor(size, 1, alarms)
            assert factor == pytest.approx(largest, rel=0.05)
            assert factor >= largest  # An excess is an alarm above 1.
        assert find_factor(np.array([500.0, 0.1]), 1, 0) == 100.0
        # An alarm that goes on is one, but more of them on the way down end the search.
        assert find_factor(np.array([2.0, 2.0, 2.0]), 1, 0.9) == pytest.approx(2.0, rel=0.05)

    def test_it_is_not_the_point_adjusted_f1(self) -> None:
        """One step of each event would find them all if points were adjusted."""
        given, excess = self.case()
        single = np.zeros_like(excess)
        for event in events_of(given):
            single[event.start, 0] = 2.0
        row = score_detector(single, single[:0], given, given[:1], events_of(given), None)
        stretches = [(event.start, event.stop) for event in events_of(given)]
        assert curve_pa_k(stretches, given.labels, single[:, 0] > 1, (0,))["f1"] == [1.0]
        assert row["f1"] < 0.2
        assert row["pa_k"]["k"][0] == 10  # The mean over K has no plain point adjustment in it.
        assert row["pa_k"]["mean"] < 0.25


def test_a_monitor_judges_only_where_a_window_ends() -> None:
    normal = series_of(simulate(0.05, seed=3))
    torch.manual_seed(0)
    monitor = Monitor.of(Nowcaster(SWAT, 4), Scale.of(normal), normal)
    watched = monitor.watch(normal)
    assert not watched.excess[: SWAT.window - 1].any()
    assert np.abs(watched.of_forecast).max() == pytest.approx(1 / MARGIN)
    assert watched.alarms == []
    steps = np.array([50, 51])
    of_forecast, of_range = monitor.excess_at(normal.values, steps)
    assert np.allclose(of_forecast, watched.of_forecast[steps], atol=1e-5)
    assert np.array_equal(of_range, watched.of_range[steps])
