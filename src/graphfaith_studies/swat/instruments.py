"""Noise, drift, and the sensors that no PLC acts on, computed for all seconds at once outside the loop over time.

A first-order lag of x with time constant T is y[t] = y[t-1] + (x[t] - y[t-1]) / T with y[0] = x[0].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .plant import CONTROLLED, FLOW_LAG, REDOX, RO, RUN_RO, SPEED
from .tags import (
    AIT401,
    AIT501,
    AIT502,
    AIT503,
    FIT501,
    FIT502,
    FIT503,
    FIT504,
    NUM_TAGS,
    P403,
    P404,
    PIT501,
    PIT502,
    PIT503,
    SENSORS,
    TAGS,
    column,
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
NO_FLOW: Final = 0.01  # m3/h; below this flow a flow meter has no noise
WEAR: Final = 0.1  # standard deviations of a drift by which its mean moves in a day of service
FLOWS: Final = tuple(tag for tag in range(NUM_TAGS) if TAGS[tag].startswith("FIT"))

# The sensors whose noise no PLC has to know before it decides, in the order of the columns of `Instruments.noise`.
OTHERS: Final = tuple(sorted({column(tag) for tag in SENSORS} - set(CONTROLLED)))
# The drift of the membranes, and those of AIT401, AIT501, AIT502 and AIT503: deviation, seconds, and the sign of wear.
_DRIFTS: Final = ((0.004, 1800.0, -1), (0.3, 7200.0, 1), (0.015, 5400.0, 1), (0.5, 3600.0, 1), (0.5, 5400.0, 1))
_LAGS: Final = (1.0 / FLOW_LAG, 300.0, 120.0, 60.0, 120.0)  # seconds, of the flow and of the same four analysers


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


def apply_lag(signal: Series, seconds: float, before: float | None = None) -> Series:
    """Return the first-order lag of ``signal`` [T] with a time constant of ``seconds``.

    ``before`` is the lagged value of the second before the first one; without it the lag begins at rest.

    >>> apply_lag(np.array([0.0, 1.0, 1.0]), 2.0).tolist()
    [0.0, 0.5, 0.75]
    """
    rate = 1.0 / seconds
    return _filter(rate, 1.0 - rate, signal, (1.0 - rate) * (signal[0] if before is None else before))


def _filter(share: float, memory: float, signal: Series, start: float) -> Series:
    """Return y[t] = share x[t] + memory y[t-1], where ``start`` is the second summand at t = 0."""
    from scipy.signal import lfilter  # It takes long to load, and every command would wait for it.

    return np.asarray(lfilter([share], [1.0, -memory], signal, zi=[start])[0])


@dataclass(frozen=True)
class Instruments:
    """The noise [T, n] of the sensors that no PLC reads, and the drifts [T, 5] behind them, for a whole run."""

    noise: Series
    drifts: Series

    @classmethod
    def of(cls, seed: int, steps: int, day: float | None = None) -> Instruments:
        """Draw the noise and the drifts; ``day`` is the day of service at the first second, or None without wear."""
        noise = np.stack([draw_noise(tag, seed, steps) for tag in OTHERS], axis=1)
        worn = wear(day, steps)
        drifts = [
            draw_drift(deviation, seconds, seed, 200 + index, steps) + sign * deviation * worn
            for index, (deviation, seconds, sign) in enumerate(_DRIFTS)
        ]
        return cls(noise, np.stack(drifts, axis=1))

    def fill_in(self, readings: Series, hidden: Series, first: int = 0, before: Series | None = None) -> Series:
        """Write the sensors that no PLC reads into ``readings`` and add the noise that is still missing.

        ``readings`` [n, 51] already holds the actuators and the sensors that the PLCs read, from second ``first`` on.
        ``hidden`` [n, k] holds the columns of the plant's state after the tags. The result [n, 5] holds the lagged
        values; ``before`` [5] is their row of the second before, or None at the beginning of a run.
        """
        part = slice(first, first + len(readings))
        membrane, hardness, ph, potential, salt = self.drifts[part].T
        speed, redox, flow = (hidden[:, index - NUM_TAGS] for index in (SPEED, REDOX, RO))
        lags = np.empty((len(readings), len(_LAGS)))

        def lag(index: int, signal: Series) -> Series:
            lags[:, index] = apply_lag(signal, _LAGS[index], None if before is None else float(before[index]))
            return lags[:, index]

        load = np.clip(lag(0, flow), 0.0, None)
        share = np.clip(load / RUN_RO, 0.0, 1.05)
        pressing = speed * share
        dose = (readings[:, P403] == 2) | (readings[:, P404] == 2)

        # The water balance: feed and recirculation leave as permeate and reject, FIT501 + FIT504 = FIT502 + FIT503.
        readings[:, FIT501] = load
        readings[:, FIT502] = np.minimum((1.275 + membrane) * pressing, load)
        readings[:, FIT504] = 0.3 * pressing
        readings[:, FIT503] = load + readings[:, FIT504] - readings[:, FIT502]
        readings[:, PIT501] = 2.0 + 10.0 * share + (238.0 + 500.0 * membrane) * pressing
        readings[:, PIT502] = 0.3 + 0.9 * (readings[:, FIT502] / 1.275) ** 2
        readings[:, PIT503] = readings[:, PIT501] * (0.79 - 0.034 * readings[:, FIT503] / 0.735)

        # Water quality: hardness before the lamp, then pH, redox potential and salt at the high-pressure pump.
        readings[:, AIT401] = 148.8 + hardness + lag(1, 4.0 * (share - 1.0))
        readings[:, AIT501] = 7.85 + ph + lag(2, 0.08 * (share - 1.0) - 0.04 * dose)
        readings[:, AIT502] = lag(3, 0.6 * redox) + potential
        readings[:, AIT503] = 254.5 + salt + lag(4, 1.5 * dose + 3.0 * (pressing - 1.0))

        for index, tag in enumerate(OTHERS):
            noise = self.noise[part, index]
            readings[:, tag] += noise * (readings[:, tag] > NO_FLOW) if tag in FLOWS else noise
        readings[:, FLOWS] = np.maximum(readings[:, FLOWS], 0.0)
        return lags


def wear(day: float | None, steps: int) -> Series | float:
    """Return the standard deviations [T] by which wear has moved the means of drifts, from this day of service on."""
    return 0.0 if day is None else WEAR * (day + np.arange(steps) / 86_400)
