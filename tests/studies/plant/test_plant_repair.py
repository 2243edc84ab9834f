"""Test the repair of readings: a line for sensors, the last state for actuators, and nothing across a long gap."""

from __future__ import annotations

import numpy as np

from graphfaith_studies.plant import Plant
from graphfaith_studies.plant.repair import Grid, repair, spread_rows

PLANT = Plant.named("batadal")
LEVEL, PUMP = PLANT.column("L_T1"), PLANT.column("S_PU1")


def readings(rows: int) -> np.ndarray:
    values = np.zeros((rows, len(PLANT)), dtype=np.float32)
    values[:, LEVEL], values[:, PUMP] = np.arange(rows), np.arange(rows) >= 3
    return values


def test_a_sensor_follows_a_line_and_an_actuator_keeps_its_state() -> None:
    values = readings(6)
    values[2:4, [LEVEL, PUMP]] = np.nan
    mended = repair(PLANT, np.arange(6, dtype=np.int32), values, 2)
    assert mended.readings[:, LEVEL].tolist() == [0, 1, 2, 3, 4, 5]
    assert mended.readings[:, PUMP].tolist() == [0, 0, 0, 0, 1, 1]
    assert (mended.bridged, mended.dropped) == (4, 0)


def test_nothing_is_bridged_next_to_missing_rows_or_for_too_long() -> None:
    values = readings(6)
    values[2, LEVEL] = np.nan
    apart = repair(PLANT, np.array([0, 1, 2, 9, 10, 11], dtype=np.int32), values, 3)  # rows 3 to 8 are missing
    assert (apart.bridged, apart.rows.tolist()) == (0, [0, 1, 3, 4, 5])
    values = readings(6)
    values[1:4, LEVEL] = np.nan
    long = repair(PLANT, np.arange(6, dtype=np.int32), values, 2)
    assert (long.bridged, long.rows.tolist(), int(long.incomplete[LEVEL])) == (0, [0, 4, 5], 3)


def test_rows_are_spread_in_place() -> None:
    grid = Grid.of(np.array([0, 2, 3, 9], dtype=np.int32), 1)
    assert (grid.slots.tolist(), grid.source.tolist(), grid.place.tolist()) == (
        [0, 1, 2, 3, 9],
        [0, 0, 1, 2, 3],
        [0, 2, 3, 4],
    )
    values = readings(5)
    spread_rows(values, grid.place)
    assert values[[0, 2, 3, 4], LEVEL].tolist() == [0, 1, 2, 3]
    assert np.isnan(values[1]).all()
