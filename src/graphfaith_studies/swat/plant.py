"""The plant: tanks, pipes, valves, membranes and water quality, one second a step.

Each tank holds h with dh/dt = (inflow - outflow) / area; each flow follows what its pumps and valves let through with
a first-order lag, q += 0.25 (target - q); valves take eight seconds from one end to the other. Nothing in here knows
about set points: `graphfaith_studies.swat.control` decides, and the plant does what the actuators are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .tags import (
    AIT201,
    AIT202,
    AIT203,
    AIT402,
    AIT504,
    DPIT301,
    FIT101,
    FIT201,
    FIT301,
    FIT401,
    FIT601,
    LIT101,
    LIT301,
    LIT401,
    MV101,
    MV201,
    MV301,
    MV302,
    MV303,
    MV304,
    NUM_TAGS,
    P101,
    P102,
    P201,
    P202,
    P203,
    P204,
    P205,
    P206,
    P301,
    P302,
    P401,
    P402,
    P403,
    P404,
    P501,
    P502,
    P601,
    P602,
    P603,
    UV401,
)

AREA: Final = 1.5  # m2, of each of the three tanks
HEIGHT: Final = 1600.0  # mm
RISE: Final = 1.0 / (3.6 * AREA)  # mm/s that a net flow of 1 m3/h adds to a level
SUCTION: Final = 20.0  # mm below which a pump draws air

FLOW_LAG: Final = 0.25  # of the way to its target that a flow goes in a second
VALVE_STEP: Final = 1.0 / 8.0  # of its way that a valve goes in a second
SPEED_LAG: Final = 0.12  # of the high-pressure pump

# Flows in m3/h, with one pump running and everything open.
RAW, TRANSFER, FEED, FLUSH_RO, RUN_RO, BACKWASH = 2.55, 2.45, 2.2, 0.9, 1.71, 1.7
SECOND_PUMP: Final = 1.15  # two pumps on one pipe move little more than one

FOULING: Final = 3.0 / 1800.0  # kPa/s, so about 3 kPa in a filter run
LOOSENED, DRAINED = 0.04, 0.02  # of the fouling that backwash and drain take away in a second
MOST_FOULED: Final = 30.0

# Behind the tags a row holds what no sensor reads: levels, flows into and out of the three tanks, the speed of the
# high-pressure pump, and the redox potential behind the lamp and the flow to it, which an attack may hide.
LEVEL, INFLOW, OUTFLOW = NUM_TAGS, NUM_TAGS + 3, NUM_TAGS + 6
SPEED, REDOX, RO = NUM_TAGS + 9, NUM_TAGS + 10, NUM_TAGS + 11
WIDTH: Final = NUM_TAGS + 12

# The sensors that a PLC acts on, whose noise has to be there before it does.
CONTROLLED: Final = (LIT101, LIT301, LIT401, DPIT301, FIT201, FIT401, AIT201, AIT202, AIT203, AIT402, AIT504)

# What changes by itself: for each drift its standard deviation and how long it keeps its direction, in seconds.
DRIFTS: Final = (
    (0.03, 600.0),  # supply of raw water, m3/h
    (0.012, 600.0),  # transfer pump, m3/h
    (0.012, 600.0),  # feed pump, m3/h
    (0.006, 900.0),  # reverse osmosis, m3/h
    (0.0002, 3600.0),  # dirt in the water, kPa/s
    (1.0, 7200.0),  # conductivity of the raw water, uS/cm
    (0.02, 7200.0),  # its pH
    (3.0, 3600.0),  # its redox potential, mV
    (1.5, 1800.0),  # redox potential before the lamp, mV
)

_SWITCHED: Final = (
    *(P101, P102, P201, P202, P203, P204, P205, P206, P301, P302),
    *(P401, P402, P403, P404, UV401, P501, P502, P601, P602, P603),
)


@dataclass(slots=True)
class Plant:
    """The state of the plant; ``row`` is what its tags read now, and behind them what no sensor reads.

    Levels are in mm, flows in m3/h, valves from 0 closed to 1 open, ``speed`` from 0 to 1.
    """

    level1: float
    level3: float
    level4: float
    raw: float = RAW
    transfer: float = TRANSFER
    feed: float = FEED
    ro: float = RUN_RO
    backwash: float = 0.0
    valve101: float = 1.0
    valve201: float = 1.0
    valve301: float = 0.0
    valve302: float = 1.0
    valve303: float = 0.0
    valve304: float = 0.0
    fouling: float = 0.5
    speed: float = 1.0
    conductivity: float = 256.0
    ph: float = 8.4
    redox2: float = 420.0
    redox4: float = 245.0
    permeate: float = 7.5
    row: list[float] = field(default_factory=lambda: [1.0] * WIDTH)

    def read(self, noise: Sequence[float]) -> list[float]:
        """What the sensors that a PLC reads show now, with their noise; the order of ``noise`` is `CONTROLLED`'s."""
        n101, n301, n401, ndp, nf201, nf401, na201, na202, na203, na402, na504 = noise
        row = self.row
        row[FIT101] = self.raw
        row[LIT101] = self.level1 + n101
        row[AIT201] = self.conductivity + na201
        row[AIT202] = self.ph + na202
        row[AIT203] = self.redox2 + na203
        row[FIT201] = self.transfer + nf201 if self.transfer > 0.01 else self.transfer
        feed = self.feed
        row[DPIT301] = (
            2.05 + (2.99 + 2.25 * feed) * feed + self.fouling * feed * (1.0 / FEED) - 0.6 * self.backwash + ndp
        )
        row[FIT301] = feed
        row[LIT301] = self.level3 + n301
        row[LIT401] = self.level4 + n401
        row[AIT402] = self.redox4 + na402
        row[FIT401] = self.ro + nf401 if self.ro > 0.01 else self.ro
        row[AIT504] = self.permeate + na504
        row[FIT601] = self.backwash
        row[LEVEL] = self.level1
        row[LEVEL + 1] = self.level3
        row[LEVEL + 2] = self.level4
        row[SPEED] = self.speed
        row[REDOX] = self.redox4
        row[RO] = self.ro
        return row

    def step(self, command: Sequence[float], drift: Sequence[float]) -> None:
        """Go one second on, with the actuators at ``command`` and the surroundings at ``drift`` (see `DRIFTS`).

        Levels move by the flows that `read` has just shown, so the balance closes exactly; the flows follow after.
        """
        raw_drift, transfer_drift, feed_drift, ro_drift, dirt, salt, acidity, oxidant, sulphite = drift
        row = self.row
        self._move_valves(command)
        for tag in _SWITCHED:
            row[tag] = command[tag]
        v301, v302, v303 = self.valve301, self.valve302, self.valve303
        drain = v303 if v303 < self.valve304 else self.valve304

        # Tanks
        forward = self.feed * v302 / (v302 + drain) if v302 > 0.0 else 0.0
        row[INFLOW], row[INFLOW + 1], row[INFLOW + 2] = self.raw, self.transfer, forward
        row[OUTFLOW], row[OUTFLOW + 1], row[OUTFLOW + 2] = self.transfer, self.feed, self.ro
        self.level1 += RISE * (self.raw - self.transfer)
        self.level3 += RISE * (self.transfer - self.feed)
        self.level4 += RISE * (forward - self.ro)
        if self.level1 > HEIGHT or self.level3 > HEIGHT or self.level4 > HEIGHT:
            self._spill()

        # Flows
        pumps1 = (command[P101] == 2) + (command[P102] == 2)
        pumps3 = (command[P301] == 2) + (command[P302] == 2)
        pumps4 = (command[P401] == 2) + (command[P402] == 2)
        self.raw += FLOW_LAG * ((RAW + raw_drift) * self.valve101 - self.raw)
        target = (TRANSFER + transfer_drift) * self.valve201 if pumps1 and self.level1 > SUCTION else 0.0
        self.transfer += FLOW_LAG * (target * (SECOND_PUMP if pumps1 == 2 else 1.0) - self.transfer)
        path = v302 if v302 > drain else drain
        target = (FEED + feed_drift) * path if pumps3 and self.level3 > SUCTION else 0.0
        self.feed += FLOW_LAG * (target * (SECOND_PUMP if pumps3 == 2 else 1.0) - self.feed)
        pressing = command[P501] == 2 or command[P502] == 2
        self.speed += SPEED_LAG * (pressing - self.speed)
        target = FLUSH_RO + (RUN_RO - FLUSH_RO + ro_drift) * self.speed if pumps4 and self.level4 > SUCTION else 0.0
        self.ro += FLOW_LAG * (target * (SECOND_PUMP if pumps4 == 2 else 1.0) - self.ro)
        target = 0.0
        if command[P602] == 2 or command[P603] == 2:
            target = BACKWASH * (v301 if v301 < v303 else v303)
        self.backwash += FLOW_LAG * (target - self.backwash)

        # The membrane fouls by what is filtered; backwash loosens the dirt and the drain carries it off.
        self.fouling += (FOULING + dirt) * self.feed * (1.0 / FEED)
        self.fouling -= self.fouling * (LOOSENED * self.backwash * (1.0 / BACKWASH) + DRAINED * drain * (1.0 - v302))
        if self.fouling > MOST_FOULED:
            self.fouling = MOST_FOULED

        # Water quality: each analyser is drawn to what the water and its dosing make of it. Behind the dosing of
        # stage 2 still water drifts back more slowly than flowing water is renewed.
        acid = command[P203] == 2 or command[P204] == 2
        chlorine = command[P205] == 2 or command[P206] == 2
        brine = command[P201] == 2 or command[P202] == 2
        renewal = 0.3 + 0.7 * self.transfer * (1.0 / TRANSFER)
        self.conductivity += renewal / 150.0 * (254.5 + salt + 2.0 * acid + 12.0 * brine - self.conductivity)
        self.ph += renewal / 120.0 * (8.62 + acidity - 0.25 * acid - self.ph)
        self.redox2 += renewal / 180.0 * (350.0 + oxidant + 95.0 * chlorine - 40.0 * (self.ph - 8.4) - self.redox2)
        lamp = command[UV401] == 2
        dose = (command[P403] == 2 or command[P404] == 2) and self.ro > 0.1
        renewal = 0.05 + 0.95 * self.ro * (1.0 / RUN_RO)
        self.redox4 += renewal / 300.0 * (300.0 + sulphite - 38.0 * lamp - 34.0 * dose - self.redox4)
        # Salt passes the membrane at a steady rate and is diluted by the permeate, which goes with the pressure.
        self.permeate += 1.0 / 90.0 * (7.5 / (0.25 + 0.75 * self.speed) + 0.02 * salt - self.permeate)

    def _move_valves(self, command: Sequence[float]) -> None:
        """Move each valve that does not read as it is told to: the others are at rest."""
        row = self.row
        if command[MV101] != row[MV101]:
            self.valve101 = _moved(row, MV101, self.valve101, command[MV101])
        if command[MV201] != row[MV201]:
            self.valve201 = _moved(row, MV201, self.valve201, command[MV201])
        if command[MV301] != row[MV301]:
            self.valve301 = _moved(row, MV301, self.valve301, command[MV301])
        if command[MV302] != row[MV302]:
            self.valve302 = _moved(row, MV302, self.valve302, command[MV302])
        if command[MV303] != row[MV303]:
            self.valve303 = _moved(row, MV303, self.valve303, command[MV303])
        if command[MV304] != row[MV304]:
            self.valve304 = _moved(row, MV304, self.valve304, command[MV304])

    def _spill(self) -> None:
        """Let what does not fit into a tank run over; it counts as outflow, so that the balance still closes."""
        for tank, name in enumerate(("level1", "level3", "level4")):
            level = getattr(self, name)
            if level > HEIGHT:
                self.row[OUTFLOW + tank] += (level - HEIGHT) / RISE
                setattr(self, name, HEIGHT)


def _moved(row: list[float], tag: int, position: float, command: float) -> float:
    """Where a valve is a second later, 0 closed to 1 open; what it reads goes into ``row``."""
    position = min(1.0, position + VALVE_STEP) if command == 2 else max(0.0, position - VALVE_STEP)
    row[tag] = 2.0 if position == 1.0 else 1.0 if position == 0.0 else 0.0
    return position
