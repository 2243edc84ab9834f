"""The monitor: a forecaster, a threshold for each tag, and a range check, all from normal operation alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from .detectors import Alarm, Array, Range, Thresholds, find_alarms, join, name_reasons
from .forecaster import Forecaster, Nowcaster
from .scoring import Steps
from .series import Scale, Series
from .training import forecast_all


@dataclass(frozen=True)
class Watched:
    """A series as a monitor sees it: scaled errors [T, n] of the forecasts, and both excesses [T, n].

    Where a step cannot be judged, because steps before it are missing, all of them are 0.
    """

    series: Series
    errors: Array
    of_forecast: Array
    of_range: Array

    @property
    def excess(self) -> Array:
        """The larger excess of the two."""
        return join(self.of_forecast, self.of_range)

    @property
    def alarms(self) -> list[Alarm]:
        """The alarms, with their reasons."""
        plant = self.series.plant
        return name_reasons(find_alarms(self.excess, plant.quiet // plant.step), self.of_range)


@dataclass(frozen=True)
class Monitor:
    """A trained forecaster with the scale of its input, the thresholds of its errors, and the range check.

    ``factor`` is what thresholds and range were multiplied by after they had been found (`scaled`).
    """

    forecaster: Nowcaster
    scale: Scale
    thresholds: Thresholds
    range: Range
    factor: float = 1.0

    @classmethod
    def of(cls, forecaster: Nowcaster, scale: Scale, held_out: Series) -> Monitor:
        """Return the monitor with the thresholds for held-out normal operation."""
        steps, errors = judge(forecaster, scale, held_out)
        return cls(forecaster, scale, Thresholds.of(errors[steps]), Range.of(scale))

    def scaled(self, factor: float) -> Monitor:
        """Return the monitor with all thresholds, and all that the range may be left by, times ``factor``."""
        thresholds, outside = Thresholds(self.thresholds.values * factor), self.range.outside * factor
        return replace(
            self, thresholds=thresholds, range=replace(self.range, outside=outside), factor=self.factor * factor
        )

    def watch(self, series: Series) -> Watched:
        """Judge all steps of a series."""
        steps, errors = judge(self.forecaster, self.scale, series)
        of_range = np.zeros_like(errors)
        of_range[steps] = self.range.excess_of(series.values[steps])
        return Watched(series, errors, self.thresholds.excess_of(errors), of_range)

    def excess_at(self, values: Array, steps: Steps) -> tuple[Array, Array]:
        """Return both excesses [S, n], of the forecast and of the range, at some steps of readings [T, n]."""
        x = self.scale.cut_windows(values, steps)
        with torch.no_grad():
            errors = (x[..., -1] - self.forecaster.forecast(x)).double().numpy()
        return self.thresholds.excess_of(errors), self.range.excess_of(values[steps])


def judge(model: Forecaster | Nowcaster | torch.nn.Module, scale: Scale, series: Series) -> tuple[Steps, Array]:
    """Return the steps that can be judged, and the scaled errors reading - forecast [T, n], 0 at all other steps."""
    windows = scale.windows_of(series)
    errors = np.zeros(series.values.shape)
    steps = windows.steps.numpy()
    errors[steps] = (windows.y - forecast_all(model, windows)).double().numpy()
    return steps, errors
