"""Noise, drift, and the sensors that no PLC acts on, computed for all seconds at once outside the loop over time.

A first-order lag of x with time constant T is y[t] = y[t-1] + (x[t] - y[t-1]) / T with y[0] = x[0].
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .plant import FLOW_LAG, REDOX, RO, RUN_RO, SPEED
from .tags import (
    AIT401,
    AIT501,
    AIT502,
    AIT503,
    FIT101,
    FIT301,
    FIT501,
    FIT502,
    FIT503,
    FIT504,
    FIT601,
    NUM_TAGS,
    P403,
    P404,
    PIT501,
    PIT502,
    PIT503,
    TAGS,
)

Series = NDArray[np.float64]

# Standard deviations of the readings, in mm, m3/h, kPa, and the units of the analysers.
NOISE: Final = {
    **{"LIT101": 0.5, "LIT301": 0.5, "LIT401": 0.5, "DPIT301": 0.08},
    **{"FIT101": 0.006, "FIT201": 0.003, "FIT301": 0.004, "FIT401": 0.002, "FIT501": 0.002},
    **{"FIT502": 0.003, "FIT503": 0.001, "FIT504": 0.001, "FIT601": 0.003},
    **{"PIT501": 0.35, "PIT502": 0.05, "PIT503": 0.35},
    **{"AIT201": 0.1, "AIT202": 0.003, "AIT203": 0.4, "AIT401": 0.02, "AIT402": 0.3},
    **{"AIT501": 0.002, "AIT502": 0.2, "AIT503": 0.1, "AIT504": 0.02},
}
_NO_FLOW: Final = 0.01  # m3/h; below this flow a flow meter has no noise


def draw_normal(seed: int, stream: int, steps: int) -> Series:
    """Draw ``steps`` standard normal numbers, which depend on the seed and the stream only.

    With more steps, the first numbers stay the same.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,))).standard_normal(steps)


def draw_noise(tag: int, seed: int, steps: int) -> Series:
    """Draw the noise [T] of a sensor."""
    return NOISE[TAGS[tag]] * draw_normal(seed, tag, steps)


def draw_drift(deviation: float, seconds: float, seed: int, stream: int, steps: int) -> Series:
    """Draw a stationary process x[t] = a x[t-1] + s sqrt(1 - a^2) e[t] with s = deviation and a = exp(-1 / seconds).

    The values are clipped at three standard deviations s, so that no seed drives the plant out of normal operation.
    """
    memory = float(np.exp(-1.0 / seconds))
    shocks = np.sqrt(1.0 - memory * memory) * draw_normal(seed, stream, steps)
    shocks[0] = draw_normal(seed, stream, 1)[0]
    wander = _filter(1.0, memory, shocks, 0.0)
    return deviation * np.clip(wander, -3.0, 3.0)


def apply_lag(signal: Series, seconds: float) -> Series:
    """Return the first-order lag of ``signal`` [T] with a time constant of ``seconds``.

    >>> apply_lag(np.array([0.0, 1.0, 1.0]), 2.0).tolist()
    [0.0, 0.5, 0.75]
    """
    rate = 1.0 / seconds
    return _filter(rate, 1.0 - rate, signal, (1.0 - rate) * signal[0])


def _filter(share: float, memory: float, signal: Series, start: float) -> Series:
    """Return y[t] = share x[t] + memory y[t-1], where ``start`` is the second summand at t = 0."""
    from scipy.signal import lfilter  # It takes long to load, and every command would wait for it.

    return np.asarray(lfilter([share], [1.0, -memory], signal, zi=[start])[0])


def fill_in(readings: Series, hidden: Series, seed: int) -> None:
    """Write the sensors that no PLC reads into ``readings``, and add the noise that is still missing.

    ``readings`` [T, 51] already holds the actuators and the sensors that the PLCs read. ``hidden`` [T, k] holds the
    columns of the plant's state after the tags.
    """
    steps = len(readings)
    speed, redox, flow = (hidden[:, index - NUM_TAGS] for index in (SPEED, REDOX, RO))
    load = np.clip(apply_lag(flow, 1.0 / FLOW_LAG), 0.0, None)
    share = np.clip(load / RUN_RO, 0.0, 1.05)
    pressing = speed * share
    dose = (readings[:, P403] == 2) | (readings[:, P404] == 2)
    membrane = draw_drift(0.004, 1800.0, seed, 200, steps)

    # The water balance: feed and recirculation leave as permeate and reject, FIT501 + FIT504 = FIT502 + FIT503.
    readings[:, FIT501] = load
    readings[:, FIT502] = np.minimum((1.275 + membrane) * pressing, load)
    readings[:, FIT504] = 0.3 * pressing
    readings[:, FIT503] = load + readings[:, FIT504] - readings[:, FIT502]
    readings[:, PIT501] = 2.0 + 10.0 * share + (238.0 + 500.0 * membrane) * pressing
    readings[:, PIT502] = 0.3 + 0.9 * (readings[:, FIT502] / 1.275) ** 2
    readings[:, PIT503] = readings[:, PIT501] * (0.79 - 0.034 * readings[:, FIT503] / 0.735)

    # Water quality: hardness before the lamp, then pH, redox potential and salt at the high-pressure pump.
    readings[:, AIT401] = 148.8 + draw_drift(0.3, 7200.0, seed, 201, steps) + apply_lag(4.0 * (share - 1.0), 300.0)
    readings[:, AIT501] = (
        7.85 + draw_drift(0.015, 5400.0, seed, 202, steps) + apply_lag(0.08 * (share - 1.0) - 0.04 * dose, 120.0)
    )
    readings[:, AIT502] = apply_lag(0.6 * redox, 60.0) + draw_drift(0.5, 3600.0, seed, 203, steps)
    salt = draw_drift(0.5, 5400.0, seed, 204, steps)
    readings[:, AIT503] = 254.5 + salt + apply_lag(1.5 * dose + 3.0 * (pressing - 1.0), 120.0)

    for tag in (AIT401, AIT501, AIT502, AIT503, PIT501, PIT502, PIT503):
        readings[:, tag] += draw_noise(tag, seed, steps)
    for tag in (FIT101, FIT301, FIT501, FIT502, FIT503, FIT504, FIT601):
        flowing = readings[:, tag] > _NO_FLOW
        readings[:, tag] += draw_noise(tag, seed, steps) * flowing
    flows = [tag for tag in range(NUM_TAGS) if TAGS[tag].startswith("FIT")]
    readings[:, flows] = np.maximum(readings[:, flows], 0.0)
