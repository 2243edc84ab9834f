"""The plant: tanks, pipes, valves, membranes and water quality, in steps of one second.

The level h of a tank follows dh/dt = (inflow - outflow) / area. Each flow q approaches the flow that its pumps and
valves allow with a first-order lag, q += 0.25 (target - q). A valve needs eight seconds to open or to close. This
module knows no set points: `graphfaith_studies.swat.control` computes the commands, and the actuators carry them out.
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

AREA: Final = 1.5  # m2, the area of each of the three tanks
HEIGHT: Final = 1600.0  # mm
RISE: Final = 1.0 / (3.6 * AREA)  # mm/s by which a net flow of 1 m3/h raises a level
SUCTION: Final = 20.0  # mm below which a pump draws air

FLOW_LAG: Final = 0.25  # share of the distance to its target that a flow covers in a second
VALVE_STEP: Final = 1.0 / 8.0  # share of its way that a valve moves in a second
SPEED_LAG: Final = 0.12  # the same for the speed of the high-pressure pump

# Flows in m3/h when one pump runs and all valves are open.
RAW, TRANSFER, FEED, FLUSH_RO, RUN_RO, BACKWASH = 2.55, 2.45, 2.2, 0.9, 1.71, 1.7
SECOND_PUMP: Final = 1.15  # two pumps on one pipe move little more than one

FOULING: Final = 3.0 / 1800.0  # kPa/s, so about 3 kPa in a filter run
LOOSENED, DRAINED = 0.04, 0.02  # shares of the fouling that backwash and drain remove in a second
MOST_FOULED: Final = 30.0

# After the tags, a row holds quantities that no sensor reads: the true levels of the three tanks, their inflows and
# outflows, and the speed of the high-pressure pump. The last two are the redox potential after the lamp and the flow to
# the lamp, because an attack may falsify the sensors of both.
LEVEL, INFLOW, OUTFLOW = NUM_TAGS, NUM_TAGS + 3, NUM_TAGS + 6
SPEED, REDOX, RO = NUM_TAGS + 9, NUM_TAGS + 10, NUM_TAGS + 11
WIDTH: Final = NUM_TAGS + 12

# The sensors that a PLC acts on. Their noise must be known before the PLC decides.
CONTROLLED: Final = (LIT101, LIT301, LIT401, DPIT301, FIT201, FIT401, AIT201, AIT202, AIT203, AIT402, AIT504)

# The surroundings that drift: the standard deviation and the time constant in seconds of each drift.
DRIFTS: Final = (
    (0.03, 600.0),  # supply of raw water, m3/h
    (0.012, 600.0),  # transfer pump, m3/h
    (0.012, 600.0),  # feed pump, m3/h
    (0.006, 900.0),  # reverse osmosis, m3/h
    (0.0002, 3600.0),  # dirt in the water, kPa/s
    (1.0, 7200.0),  # conductivity of the raw water, uS/cm
    (0.02, 7200.0),  # pH of the raw water
    (3.0, 3600.0),  # redox potential of the raw water, mV
    (1.5, 1800.0),  # redox potential before the lamp, mV
)

_SWITCHED: Final = (
    *(P101, P102, P201, P202, P203, P204, P205, P206, P301, P302),
    *(P401, P402, P403, P404, UV401, P501, P502, P601, P602, P603),
)


@dataclass(slots=True)
class Plant:
    """The state of the plant; ``row`` holds the current readings of the tags, then the quantities without a sensor.

    Levels are in mm and flows in m3/h. Valve positions range from 0 (closed) to 1 (open), ``speed`` from 0 to 1.
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
        """Return ``row`` with the current readings of the sensors that a PLC reads.

        ``noise`` is the noise of these sensors, in the order of `CONTROLLED`.
        """
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
        """Advance the plant by one second, given ``command`` for the actuators and ``drift`` (see `DRIFTS`).

        The levels change by the flows that `read` has just reported, and the flows change afterwards. The balance
        therefore closes exactly.
        """
        raw_drift, transfer_drift, feed_drift, ro_drift, dirt, salt, acidity, oxidant, sulphite = drift
        row = self.row
        self._move_valves(command)
        for tag in _SWITCHED:
            row[tag] = command[tag]
        v301, v302, v303 = self.valve301, self.valve302, self.valve303
        drain = v303 if v303 < self.valve304 else self.valve304

        # Tanks.
        forward = self.feed * v302 / (v302 + drain) if v302 > 0.0 else 0.0
        row[INFLOW], row[INFLOW + 1], row[INFLOW + 2] = self.raw, self.transfer, forward
        row[OUTFLOW], row[OUTFLOW + 1], row[OUTFLOW + 2] = self.transfer, self.feed, self.ro
        self.level1 += RISE * (self.raw - self.transfer)
        self.level3 += RISE * (self.transfer - self.feed)
        self.level4 += RISE * (forward - self.ro)
        if self.level1 > HEIGHT or self.level3 > HEIGHT or self.level4 > HEIGHT:
            self._spill()

        # Flows.
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

        # The filtered water fouls the membrane. The backwash loosens the dirt, and the drain removes it.
        self.fouling += (FOULING + dirt) * self.feed * (1.0 / FEED)
        self.fouling -= self.fouling * (LOOSENED * self.backwash * (1.0 / BACKWASH) + DRAINED * drain * (1.0 - v302))
        if self.fouling > MOST_FOULED:
            self.fouling = MOST_FOULED

        # Water quality: each value approaches an equilibrium that depends on the raw water and the dosing. In stage 2
        # it approaches the equilibrium more slowly when the water does not flow.
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
        # Salt passes the membrane at a constant rate. The permeate dilutes it, and there is more permeate at a higher
        # pressure.
        self.permeate += 1.0 / 90.0 * (7.5 / (0.25 + 0.75 * self.speed) + 0.02 * salt - self.permeate)

    def _move_valves(self, command: Sequence[float]) -> None:
        """Move each valve whose reading differs from its command."""
        row = self.row
        if command[MV101] != row[MV101]:
            self.valve101 = _move_valve(row, MV101, self.valve101, command[MV101])
        if command[MV201] != row[MV201]:
            self.valve201 = _move_valve(row, MV201, self.valve201, command[MV201])
        if command[MV301] != row[MV301]:
            self.valve301 = _move_valve(row, MV301, self.valve301, command[MV301])
        if command[MV302] != row[MV302]:
            self.valve302 = _move_valve(row, MV302, self.valve302, command[MV302])
        if command[MV303] != row[MV303]:
            self.valve303 = _move_valve(row, MV303, self.valve303, command[MV303])
        if command[MV304] != row[MV304]:
            self.valve304 = _move_valve(row, MV304, self.valve304, command[MV304])

    def _spill(self) -> None:
        """Limit the levels to the height of the tanks; the excess counts as outflow, so that the balance closes."""
        for tank, name in enumerate(("level1", "level3", "level4")):
            level = getattr(self, name)
            if level > HEIGHT:
                self.row[OUTFLOW + tank] += (level - HEIGHT) / RISE
                setattr(self, name, HEIGHT)


def _move_valve(row: list[float], tag: int, position: float, command: float) -> float:
    """Return the position of a valve, 0 (closed) to 1 (open), one second later, and write its reading to ``row``."""
    position = min(1.0, position + VALVE_STEP) if command == 2 else max(0.0, position - VALVE_STEP)
    row[tag] = 2.0 if position == 1.0 else 1.0 if position == 0.0 else 0.0
    return position
