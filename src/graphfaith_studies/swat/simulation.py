"""A SWaT-like simulation: the plant, its PLCs and the attacks on them, second by second.

Every second the sensors are read, an attack may change the readings, the PLCs compute their commands, an attack may
change the commands, and the plant advances. Noise and drift depend on the seed alone. A run with attacks and a run
without attacks therefore differ only by the effects of the attacks if they have the same seed.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from graphfaith._base.checks import check_real, check_seed
from graphfaith._base.errors import InputError

from .control import Control
from .instruments import Instruments, draw_drift, draw_noise, wear
from .plant import CONTROLLED, DRIFTS, FEED, INFLOW, LEVEL, OUTFLOW, RAW, TRANSFER, WIDTH, Plant
from .recording import Run
from .schedule import Attacker, Schedule, Span, mark_attacked
from .tags import MV101, MV201, MV302, NUM_TAGS, P101, P203, P205, P302, P402, P501, SWAT, UV401

DAY: Final = 86_400
START: Final = "2024-01-01T00:00:00"
_BLOCK: Final = 3600  # seconds whose noise is held as Python numbers at a time, to limit the memory
_PUMPS: Final = 4  # the first drifts are of pumps and the supply, which lose by wear what others gain
_BETWEEN_STOPS: Final = (14_400, 50_400)  # seconds between two stops of stages 4 and 5
_STOPPED: Final = (600, 2400)  # seconds that such a stop lasts
Array = NDArray[np.float64]
Block = list[list[float]]


@dataclass(frozen=True)
class Service:
    """A plant in service, which is harder to watch than one at rest in its cycles.

    ``day`` is the day of service at the first second: pumps and membranes wear and analysers lose their calibration,
    each by a tenth of its drift's standard deviation a day. The plant ``starts`` from standstill, and people stop
    stages 4 and 5 several times a day, for ten to forty minutes.
    """

    day: float = 0.0
    starts: bool = True

    def __post_init__(self) -> None:
        check_real(self.day, "the day of service", least=0.0)


@dataclass(frozen=True)
class Conditions:
    """What acts on the plant from outside, for all seconds: noise and drift, and which stage people have stopped."""

    noises: Array
    drifts: Array
    stopped: NDArray[np.int64]
    instruments: Instruments

    @classmethod
    def of(cls, seed: int, steps: int, service: Service | None) -> Conditions:
        """Draw the conditions of a run."""
        day = None if service is None else service.day
        worn = wear(day, steps)
        drifts = [
            draw_drift(*kind, seed, 100 + index, steps) + (-1 if index < _PUMPS else 1) * kind[0] * worn
            for index, kind in enumerate(DRIFTS)
        ]
        stopped = np.zeros(steps, dtype=np.int64)
        if service is not None:
            _draw_stops(stopped, seed)
        noises = np.stack([draw_noise(tag, seed, steps) for tag in CONTROLLED], axis=1)
        return cls(noises, np.stack(drifts, axis=1), stopped, Instruments.of(seed, steps, day))

    def block(self, low: int, high: int) -> tuple[Block, Block, list[int]]:
        """Return noise, drift and stops of these seconds as Python numbers."""
        return self.noises[low:high].tolist(), self.drifts[low:high].tolist(), self.stopped[low:high].tolist()


def _draw_stops(stopped: NDArray[np.int64], seed: int) -> None:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(301,)))
    second = 0
    while second < len(stopped):
        second += int(rng.integers(*_BETWEEN_STOPS))
        seconds, stage = int(rng.integers(*_STOPPED)), int(rng.integers(4, 6))
        stopped[second : second + seconds] = stage
        second += seconds


@dataclass(frozen=True)
class History:
    """What a replay of a run needs: its conditions, states of plant and PLCs, and values between the seconds.

    ``states`` holds plant and PLCs as they were at the beginning of each attack. ``lags`` [T, k] are lagged values of
    the instruments.
    """

    run: Run
    conditions: Conditions
    states: dict[int, tuple[Plant, Control]]
    lags: Array


def simulate(
    days: float = 1.0,
    *,
    seed: int = 0,
    attacks: Schedule | None = None,
    start: str = START,
    service: Service | None = None,
) -> Run:
    """Simulate the plant for some days from ``start``, in normal operation or with ``attacks``.

    Attacks for which there is no time left do not happen; `Run.spans` lists those that happened. A longer run with
    the same seed begins with the shorter one. Without ``service`` the plant neither starts, stops nor wears.

    >>> run = simulate(0.01, seed=1)
    >>> run.readings.shape, bool(run.labels.any())
    ((864, 51), False)
    """
    return record(days, seed=seed, attacks=attacks, start=start, service=service).run


def record(
    days: float = 1.0,
    *,
    seed: int = 0,
    attacks: Schedule | None = None,
    start: str = START,
    service: Service | None = None,
) -> History:
    """Simulate the plant as `simulate` does, and return the run with all that a replay of a part of it needs."""
    steps = round(check_real(days, "days", above=0.0) * DAY)
    if steps < 1:
        raise InputError(f"days must be at least {1 / DAY:.2g}, which is one second (got {days!r})")
    seed = check_seed(seed)
    try:
        first = datetime.fromisoformat(start)
    except (TypeError, ValueError):
        first = None
    if first is None or first.tzinfo is not None:
        raise InputError(f"start must be a time such as '{START}', without a time zone (got {start!r})")

    conditions = Conditions.of(seed, steps, service)
    cold = service is not None and service.starts
    plant, control = _make_stopped_state(seed) if cold else _make_initial_state(seed)
    attacker = Attacker(attacks) if attacks is not None else None
    states: dict[int, tuple[Plant, Control]] = {}
    readings = np.empty((steps, NUM_TAGS))
    hidden = np.empty((steps, WIDTH - NUM_TAGS))
    for low in range(0, steps, _BLOCK):
        high = min(low + _BLOCK, steps)
        rows = _run_block(plant, control, attacker, low, conditions.block(low, high), states)
        readings[low:high], hidden[low:high] = rows[:, :NUM_TAGS], rows[:, NUM_TAGS:]

    lags = conditions.instruments.fill_in(readings, hidden)
    spans: tuple[Span, ...] = ()
    if attacker is not None:
        attacker.finish(steps)
        spans = tuple(span.write(readings, conditions.instruments.noise) for span in attacker.spans)
    attacked, numbers = mark_attacked(spans, steps)
    levels, inflows, outflows = (hidden[:, at - NUM_TAGS : at - NUM_TAGS + 3].copy() for at in (LEVEL, INFLOW, OUTFLOW))
    run = Run(
        plant=SWAT,
        times=np.datetime64(first, "s") + np.arange(steps),
        readings=readings,
        labels=numbers > 0,
        seed=seed,
        attacked=attacked,
        attack_id=numbers,
        spans=spans,
        levels=levels,
        inflows=inflows,
        outflows=outflows,
    )
    return History(run, conditions, states, lags)


def _run_block(
    plant: Plant,
    control: Control,
    attacker: Attacker | None,
    second: int,
    block: tuple[Block, Block, Sequence[int]],
    states: dict[int, tuple[Plant, Control]],
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Simulate one second per row of ``block``, and return the rows [seconds, WIDTH] of the plant."""
    rows = array("d")
    read, step, decide, keep = plant.read, plant.step, control.step, rows.extend
    for noise_now, drift_now, stopped_now in zip(*block, strict=True):
        row = read(noise_now)
        control.stopped = stopped_now
        if attacker is None:
            step(decide(row), drift_now)
        else:
            attacker.falsify(second, row, noise_now)
            if attacker.began:
                states[second] = copy_state(plant, control)
            command = decide(row)
            if attacker.forces:
                command = command.copy()  # The PLC keeps its own commands, because it does not notice the attack.
                for tag, state in attacker.forces:
                    command[tag] = state
            step(command, drift_now)
            second += 1
        keep(row)
    return np.frombuffer(rows).reshape(-1, WIDTH)


def copy_state(plant: Plant, control: Control) -> tuple[Plant, Control]:
    """Return copies that share nothing with the plant and its PLCs."""
    return replace(plant, row=plant.row.copy()), replace(control, command=control.command.copy())


def _make_initial_state(seed: int) -> tuple[Plant, Control]:
    """Return a plant and its PLCs in normal operation, at a random point of their cycles."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(300,)))
    level1, level3, level4 = rng.uniform([520.0, 820.0, 820.0], [780.0, 980.0, 980.0]).tolist()
    filling1, filling3, sulphite = (rng.random(3) < 0.7).tolist()
    plant = Plant(level1, level3, level4, redox4=float(rng.uniform(241.0, 249.0)))
    control = Control(filling1=filling1, filling3=filling3, sulphite=sulphite, filtered=int(rng.integers(0, 1500)))
    plant.raw, plant.valve101 = (RAW, 1.0) if filling1 else (0.0, 0.0)
    plant.transfer, plant.valve201 = (TRANSFER, 1.0) if filling3 else (0.0, 0.0)
    plant.feed = FEED
    running = [MV302, P302, P402, UV401, P501]
    running += [MV101] if filling1 else []
    running += [MV201, P101, P203, P205] if filling3 else []
    for tag in running:
        plant.row[tag] = control.command[tag] = 2.0
    return plant, control


def _make_stopped_state(seed: int) -> tuple[Plant, Control]:
    """Return a plant at standstill, with low tanks and water that nobody has treated for a while."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(302,)))
    level1, level3, level4 = rng.uniform([400.0, 500.0, 500.0], [600.0, 800.0, 800.0]).tolist()
    plant = Plant(level1, level3, level4, conductivity=254.5, ph=8.62, redox2=350.0, redox4=300.0, permeate=30.0)
    plant.raw = plant.transfer = plant.feed = plant.ro = plant.speed = 0.0
    plant.valve101 = plant.valve201 = plant.valve302 = 0.0
    return plant, Control(lamp_ready=0, press_ready=0, pressed=0)
