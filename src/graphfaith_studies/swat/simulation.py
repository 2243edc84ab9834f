"""A SWaT-like simulation: the plant, its PLCs and the attacks on them, second by second.

Every second the sensors are read, an attack may change the readings, the PLCs compute their commands, an attack may
change the commands, and the plant advances. Noise and drift depend on the seed alone. A run with attacks and a run
without attacks therefore differ only by the effects of the attacks if they have the same seed.
"""

from __future__ import annotations

from array import array
from datetime import datetime
from typing import Final

import numpy as np

from graphfaith._base.checks import check_real, check_seed
from graphfaith._base.errors import InputError

from .control import Control
from .instruments import draw_drift, draw_noise, fill_in
from .plant import CONTROLLED, DRIFTS, FEED, INFLOW, LEVEL, OUTFLOW, RAW, TRANSFER, WIDTH, Plant
from .recording import Run
from .schedule import Attacker, Schedule, mark_attacked
from .tags import MV101, MV201, MV302, NUM_TAGS, P101, P203, P205, P302, P402, P501, UV401

DAY: Final = 86_400
START: Final = "2024-01-01T00:00:00"
_BLOCK: Final = 3600  # seconds whose noise is held as Python numbers at a time, to limit the memory


def simulate(days: float = 1.0, *, seed: int = 0, attacks: Schedule | None = None, start: str = START) -> Run:
    """Simulate the plant for some days from ``start``, in normal operation or with ``attacks``.

    Attacks for which there is no time left do not happen; `Run.spans` lists those that happened. A longer run with
    the same seed begins with the shorter one.

    >>> run = simulate(0.01, seed=1)
    >>> run.readings.shape, bool(run.labels.any())
    ((864, 51), False)
    """
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

    noises = np.stack([draw_noise(tag, seed, steps) for tag in CONTROLLED], axis=1)
    drifts = np.stack([draw_drift(*kind, seed, 100 + index, steps) for index, kind in enumerate(DRIFTS)], axis=1)
    plant, control = _make_initial_state(seed)
    attacker = Attacker(attacks) if attacks is not None else None
    readings = np.empty((steps, NUM_TAGS))
    hidden = np.empty((steps, WIDTH - NUM_TAGS))
    for low in range(0, steps, _BLOCK):
        high = min(low + _BLOCK, steps)
        rows = _run_block(plant, control, attacker, low, noises[low:high].tolist(), drifts[low:high].tolist())
        readings[low:high], hidden[low:high] = rows[:, :NUM_TAGS], rows[:, NUM_TAGS:]

    fill_in(readings, hidden, seed)
    if attacker is not None:
        attacker.finish(steps)
        for span in attacker.spans:
            span.write(readings)
    spans = tuple(attacker.spans) if attacker is not None else ()
    attacked, numbers = mark_attacked(spans, steps)
    levels, inflows, outflows = (hidden[:, at - NUM_TAGS : at - NUM_TAGS + 3].copy() for at in (LEVEL, INFLOW, OUTFLOW))
    return Run(
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


def _run_block(
    plant: Plant,
    control: Control,
    attacker: Attacker | None,
    second: int,
    noises: list[list[float]],
    drifts: list[list[float]],
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Simulate one second per row of ``noises``, and return the rows [seconds, WIDTH] of the plant."""
    rows = array("d")
    read, step, decide, record = plant.read, plant.step, control.step, rows.extend
    for noise_now, drift_now in zip(noises, drifts, strict=True):
        row = read(noise_now)
        if attacker is None:
            step(decide(row), drift_now)
        else:
            attacker.falsify(second, row)
            command = decide(row)
            if attacker.forces:
                command = command.copy()  # The PLC keeps its own commands, because it does not notice the attack.
                for tag, state in attacker.forces:
                    command[tag] = state
            step(command, drift_now)
            second += 1
        record(row)
    return np.frombuffer(rows).reshape(-1, WIDTH)


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
