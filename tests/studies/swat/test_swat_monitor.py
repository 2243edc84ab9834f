"""Test the way from a recording to alarms: series, forecaster, training, detector and scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from graphfaith._base.errors import DataError, InputError, ModelError
from graphfaith_studies.swat import Recording, Schedule, simulate
from graphfaith_studies.swat.attacks import ATTACKS
from graphfaith_studies.swat.detector import MARGIN, QUIET, RESOLUTION, Alarm, Detector
from graphfaith_studies.swat.deviation_network import DeviationNetwork
from graphfaith_studies.swat.forecaster import Forecaster, TagLinear, plant_edges
from graphfaith_studies.swat.scoring import (
    count_false_alarms_per_day,
    events_of,
    find_best_f1,
    list_other_alarms,
    score_detection,
    score_points,
)
from graphfaith_studies.swat.series import STEP, WINDOW, Scale, Series, series_of
from graphfaith_studies.swat.tags import NUM_TAGS, TAGS, column
from graphfaith_studies.swat.training import Plan, error_of, forecast_all, train


def recording(seconds: int, keep: np.ndarray | None = None) -> Recording:
    rng = np.random.default_rng(0)
    keep = np.arange(seconds) if keep is None else keep
    times = np.datetime64("2024-01-01T00:00:00", "s") + keep
    labels = np.zeros(seconds, dtype=bool)
    labels[100:200] = labels[250:290] = True
    return Recording(times, rng.random((seconds, NUM_TAGS))[keep], labels[keep])


def series(labels: list[int], attacked: dict[int, list[int]] | None = None) -> Series:
    """Return a series of zeros with the given attack numbers and attacked tags."""
    count = len(labels)
    tags = np.zeros((count, NUM_TAGS), dtype=bool)
    for number, columns in (attacked or {}).items():
        tags[np.ix_(np.flatnonzero(np.array(labels) == number), columns)] = True
    follows = np.arange(count) > 0
    times = np.datetime64("2024-01-01T00:00:00", "s") + STEP * np.arange(count)
    numbers = np.array(labels)
    return Series(times, np.zeros((count, NUM_TAGS)), numbers > 0, tags, numbers, follows)


class TestSeries:
    def test_medians_of_ten_seconds(self) -> None:
        given = recording(400)
        medians = series_of(given)
        assert len(medians) == 40
        assert np.array_equal(medians.values[7], np.median(given.readings[70:80], axis=0))
        assert medians.labels.tolist() == [10 <= i < 20 or 25 <= i < 29 for i in range(40)]
        assert medians.attack_id.tolist() == [1 if 10 <= i < 20 else 2 if 25 <= i < 29 else 0 for i in range(40)]
        assert medians.times[1] - medians.times[0] == np.timedelta64(STEP, "s")

    def test_missing_seconds_are_left_out_and_no_window_crosses_missing_steps(self) -> None:
        keep = np.setdiff1d(np.arange(400), [73, 75, *range(200, 220)])
        given = recording(400, keep)
        medians = series_of(given)
        assert len(medians) == 38
        inside = (keep >= 70) & (keep < 80)
        assert np.array_equal(medians.values[7], np.median(given.readings[inside], axis=0))
        assert np.flatnonzero(~medians.follows).tolist() == [0, 20]
        assert medians.targets.tolist() == [*range(5, 20), *range(25, 38)]

    def test_a_part_begins_anew(self) -> None:
        part = series_of(recording(400))[10:]
        assert not part.follows[0]
        assert part.targets.tolist() == list(range(5, 30))

    def test_attacks_of_a_simulation(self) -> None:
        run = simulate(0.2, seed=0, attacks=Schedule.of(ATTACKS[:1], seed=0))
        medians = series_of(run)
        assert set(medians.attack_id.tolist()) == {0, 1}
        assert np.flatnonzero(medians.attacked.any(0)).tolist() == [column("MV101")]

    def test_too_short(self) -> None:
        with pytest.raises(InputError, match="too short; a forecast needs at least 60 s"):
            series_of(recording(400, np.arange(40)))

    def test_windows_end_before_what_they_forecast(self) -> None:
        medians = series_of(recording(400))
        scale = Scale.of(medians)
        windows = scale.windows_of(medians)
        back = windows.x.double() * scale.span[:, None] + scale.low[:, None]
        assert windows.x.shape == (35, NUM_TAGS, WINDOW)
        assert torch.allclose(back[3], torch.from_numpy(medians.values[3:8].T), atol=1e-6)
        assert torch.allclose(
            windows.y[3].double() * scale.span + scale.low, torch.from_numpy(medians.values[8]), atol=1e-6
        )
        assert float(windows.x.min()) == 0
        assert float(windows.x.max()) == 1
        change = np.diff(scaled := (medians.values - medians.values.min(0)) / np.ptp(medians.values, axis=0), axis=0)
        assert windows.persistence_error() == pytest.approx(np.square(change[4:]).mean(), rel=1e-5)
        assert np.allclose(scale.middle.numpy(), np.median(scaled, axis=0))

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


class TestForecaster:
    def test_the_dense_forecast_is_that_on_the_graph(self) -> None:
        torch.manual_seed(0)
        model, x = Forecaster(), torch.rand(3, NUM_TAGS, WINDOW)
        expected = torch.stack([model(window, plant_edges()).squeeze(-1) for window in x])
        assert torch.allclose(model.forecast(x), expected, atol=1e-5)
        assert torch.allclose(model(x, plant_edges()).squeeze(-1), expected, atol=1e-5)

    def test_several_plants_one_after_the_other(self) -> None:
        torch.manual_seed(0)
        model, x = Forecaster(), torch.rand(2, NUM_TAGS, WINDOW)
        both = Batch.from_data_list([Data(x=window, edge_index=plant_edges()) for window in x])
        assert torch.allclose(model(both.x, both.edge_index).view(2, NUM_TAGS), model.forecast(x), atol=1e-5)

    def test_the_weight_of_an_edge_counts(self) -> None:
        torch.manual_seed(0)
        model, x, edges = Forecaster(), torch.rand(NUM_TAGS, WINDOW), plant_edges()
        whole = model(x, edges, torch.ones(edges.size(1)))
        assert torch.allclose(model(x, edges), whole)
        gone = model(x, edges, torch.zeros(edges.size(1)))
        alone = model(x, edges[:, :0])
        assert torch.allclose(gone, alone, atol=1e-6)
        assert not torch.allclose(gone, whole, atol=1e-3)

    def test_the_plant_s_graph(self) -> None:
        edges = plant_edges()
        assert edges.shape == (2, 158)
        assert len({frozenset(pair) for pair in edges.T.tolist()}) == 79

    def test_each_tag_has_its_own_matrix(self) -> None:
        torch.manual_seed(0)
        layer, x = TagLinear(4, 3), torch.rand(NUM_TAGS, 4)
        assert torch.allclose(layer(x)[7], x[7] @ layer.weight[7] + layer.bias[7])

    def test_neighbours_are_learnt(self) -> None:
        torch.manual_seed(0)
        model = DeviationNetwork(neighbours=4)
        neighbours = model.find_neighbours()
        assert neighbours.sum(1).tolist() == [5] * NUM_TAGS
        assert neighbours.diagonal().all()
        x = torch.rand(1, NUM_TAGS, WINDOW)
        moved = x.clone()
        moved[0, int((~neighbours[0]).nonzero()[0])] += 1  # not a neighbour of the first tag
        assert model.forecast(moved)[0, 0] == model.forecast(x)[0, 0]
        moved[0, int(neighbours[0].nonzero()[1])] += 1
        assert model.forecast(moved)[0, 0] != model.forecast(x)[0, 0]


@pytest.fixture(scope="module")
def parts():
    normal = series_of(simulate(0.15, seed=3))
    scale = Scale.of(normal[:1000])
    return scale.windows_of(normal[:1000]), scale.windows_of(normal[1000:])


def fresh() -> Forecaster:
    torch.manual_seed(5)
    return Forecaster(8)


class TestTraining:
    def test_it_learns(self, parts) -> None:
        model = fresh()
        errors = train(model, *parts, Plan(epochs=8, patience=8, seed=1))
        assert len(errors) == 8
        assert errors[-1] < 0.8 * errors[0]
        assert error_of(model, parts[1]) == pytest.approx(min(errors))

    def test_it_resumes_where_it_was_stopped(self, parts, tmp_path) -> None:
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
        other = Forecaster(8)
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
            train(DeviationNetwork(), *parts, Plan(epochs=1, seed=1), path)
        with pytest.raises(DataError, match="its weights do not fit this model"):
            train(Forecaster(16), *parts, Plan(epochs=1, seed=1), path)

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


class TestDetector:
    def test_scale_and_threshold_are_those_of_normal_data(self) -> None:
        errors = np.zeros((100, NUM_TAGS))
        errors[:, 0] = 2.0
        errors[7, 0] = -6.0
        detector = Detector.of(errors)
        size = np.sqrt((99 * 4 + 36) / 100)
        assert detector.scale[0] == pytest.approx(size)
        assert detector.scale[1] == RESOLUTION
        assert detector.threshold == pytest.approx(MARGIN * 6 / size)

    @pytest.mark.parametrize("errors", [np.zeros((1, NUM_TAGS)), np.full((5, NUM_TAGS), np.nan)])
    def test_unusable_errors_are_refused(self, errors) -> None:
        with pytest.raises(InputError, match="finite errors at two or more steps"):
            Detector.of(errors)

    def test_alarms(self) -> None:
        detector = Detector(np.ones(NUM_TAGS), 3.0)
        errors = np.zeros((100, NUM_TAGS))
        errors[10, 4], errors[10, 5], errors[12, 6] = 4.0, -5.0, 9.0
        errors[12 + QUIET, 7] = 3.5
        errors[12 + 2 * QUIET + 1, 8] = -3.1
        errors[90, 9] = 3.0  # equal to the threshold, not above it
        assert detector.find_alarms(np.arange(100), errors) == [
            Alarm(10, 12 + QUIET, 5, -5.0),
            Alarm(12 + 2 * QUIET + 1, 12 + 2 * QUIET + 1, 8, -3.1),
        ]
        assert detector.find_alarms(np.arange(100), np.zeros((100, NUM_TAGS))) == []

    def test_a_gap_in_time_separates_two_alarms(self) -> None:
        errors = np.zeros((2, NUM_TAGS))
        errors[:, 0] = 9.0
        steps = np.array([10, 11 + QUIET])
        assert len(Detector(np.ones(NUM_TAGS), 3.0).find_alarms(steps, errors)) == 2


class TestScore:
    def case(self):
        given = series(
            [0] * 10 + [5] * 10 + [0] * 30 + [28] * 20 + [0] * 30 + [7] * 5 + [0] * 15, {5: [3], 28: [4, 6], 7: [2]}
        )
        errors = np.zeros((len(given), NUM_TAGS))
        errors[12:15, 3] = 9.0  # attack 5: the attacked tag is accused
        errors[55:60, 9] = -9.0  # attack 28: another tag is accused
        errors[85, 1] = 9.0  # a false alarm
        return given, np.arange(len(given)), errors, Detector(np.ones(NUM_TAGS), 3.0)

    def test_events(self) -> None:
        events = events_of(*self.case())
        assert [event.number for event in events] == [5, 28, 7]
        assert [event.attacked for event in events] == [(3,), (4, 6), (2,)]
        assert [event.delay for event in events] == [30, 60, None]
        assert [event.accused for event in events] == [3, 9, None]
        assert [event.accused_is_attacked for event in events] == [True, False, None]
        assert events[1].deviation == -9.0
        assert [type(event).from_json(json.loads(json.dumps(event.as_json()))) for event in events] == events

    def test_points_with_and_without_the_long_one(self) -> None:
        given, steps, errors, detector = self.case()
        alarms = detector.find_alarms(steps, errors)
        assert score_points(given, steps, alarms) == pytest.approx(
            {"precision": 8 / 9, "recall": 8 / 35, "f1": 16 / 44}
        )
        scores = score_points(given, steps, alarms, without=28)
        assert scores == pytest.approx({"precision": 3 / 4, "recall": 3 / 15, "f1": 6 / 19})

    def test_all_scores(self) -> None:
        given, steps, errors, detector = self.case()
        scores = score_detection(given, steps, errors, detector)
        assert (scores["events"], scores["events_detected"], scores["accused_attacked"]) == (3, 2, 0.5)
        assert scores["delay_seconds_median"] == 45
        assert scores["f1_oracle"] >= scores["f1"]
        assert find_best_f1(given, steps, errors, detector) == scores["f1_oracle"]

    def test_false_alarms(self) -> None:
        given, steps, errors, detector = self.case()
        normal_days = 85 * STEP / 86_400
        rate = count_false_alarms_per_day(given, steps, detector.find_alarms(steps, errors))
        assert rate == pytest.approx(1 / normal_days)

    def test_scores_without_alarms(self) -> None:
        given, steps, errors, detector = self.case()
        scores = score_detection(given, steps, 0 * errors, detector)
        assert (scores["f1"], scores["events_detected"], scores["accused_attacked"]) == (0.0, 0, None)

    def test_alarms_outside_of_attacks(self) -> None:
        given, steps, errors, detector = self.case()
        errors[105, 2] = 9.0  # right after attack 7
        alarms = detector.find_alarms(steps, errors)
        scores = score_detection(given, steps, errors, detector)
        assert (scores["alarms_raised"], scores["alarms_after"], scores["alarms_elsewhere"]) == (4, 2, 0)
        assert [
            (alarm["first"], alarm["accused"], alarm["after_an_attack"]) for alarm in list_other_alarms(given, alarms)
        ] == [
            (85, TAGS[1], True),
            (105, TAGS[2], True),
        ]

    def test_a_file_does_not_say_which_attack_is_which(self) -> None:
        given, steps, errors, detector = self.case()
        given.attacked[:] = False
        assert score_detection(given, steps, errors, detector)["without_attack_28"] is None
