"""Replays of a simulated run: the same seconds without an attack, or with a tag as it would have been without it.

Noise, drift and stops are those of the run, so that a replay differs from it by the change that was asked for and by
nothing else. The *twin* of a run is the replay without some attacks. To restore a tag means to give it what it has in
the twin while the attacks go on: the PLC and the files get a sensor's reading, and an actuator its command. If an alarm
is then gone, the tag was on the way from the attacks to the alarm. This is what happened in the plant, and no model
was asked.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.errors import InputError

from .plant import CONTROLLED, WIDTH
from .schedule import Span, falsify
from .simulation import History, copy_state
from .tags import ACTUATORS, NUM_TAGS, column

Array = NDArray[np.float64]
_ACTUATORS = frozenset(column(tag) for tag in ACTUATORS)


@dataclass(frozen=True)
class Replayed:
    """The readings [n, 51] from second ``start`` of a run on, and the commands [n, 51] that the actuators got."""

    start: int
    readings: Array
    commands: Array


def replay(
    history: History, start: int, stop: int, *, without: Sequence[Span] = (), restored: int | None = None,
    twin: Replayed | None = None,
) -> Replayed:  # fmt: skip
    """Run the seconds from ``start``, at which an attack began, up to ``stop`` once more.

    The attacks ``without`` do not happen. The tag ``restored`` is as in ``twin``, which must have the same seconds.
    """
    if start not in history.states:
        raise InputError(f"no attack began at second {start}; a replay begins with an attack")
    stop = min(stop, len(history.run))
    plant, control = copy_state(*history.states[start])
    spans = [span for span in history.run.spans if span.stop > start and span.start < stop and span not in without]
    noises, drifts, stopped = history.conditions.block(start, stop)
    shown = given = None
    if restored is not None:
        if twin is None or (twin.start, len(twin.readings)) != (start, stop - start):
            raise InputError("to restore a tag, give the twin of the same seconds")
        if restored in _ACTUATORS:
            given = twin.commands[:, restored].tolist()
        elif restored in CONTROLLED:
            shown = twin.readings[:, restored].tolist()
    rows, orders = array("d"), array("d")
    for index, (noise, drift, stopped_now) in enumerate(zip(noises, drifts, stopped, strict=True)):
        second = start + index
        row = plant.read(noise)
        control.stopped = stopped_now
        active = [span for span in spans if span.start <= second < span.stop]
        for span in active:
            falsify(span, second, row, noise)
        if shown is not None and restored is not None:
            row[restored] = shown[index]
        command = control.step(row).copy()
        for span in active:
            for tag, state in span.forced:
                command[tag] = state
        if given is not None and restored is not None:
            command[restored] = given[index]
        plant.step(command, drift)
        rows.extend(row)
        orders.extend(command)
    both = np.frombuffer(rows).reshape(-1, WIDTH)
    readings = both[:, :NUM_TAGS].copy()
    before = history.lags[start - 1] if start else None
    history.conditions.instruments.fill_in(readings, both[:, NUM_TAGS:], start, before)
    noise_of_others = history.conditions.instruments.noise[start:stop]
    for span in spans:
        span.write(readings, noise_of_others, start)
    if restored is not None and twin is not None:
        readings[:, restored] = twin.readings[:, restored] if given is None else readings[:, restored]
    return Replayed(start, readings, np.frombuffer(orders).reshape(-1, NUM_TAGS))


def find_affected(twin: Replayed, attacked: Array) -> list[int]:
    """Return the columns of the tags whose readings differ between a twin and the run; to restore others is idle."""
    return [int(tag) for tag in np.flatnonzero((twin.readings != attacked[: len(twin.readings)]).any(0))]
