"""The PLCs, which compute the commands for the actuators from the current readings of the sensors.

Each stage has a control loop with hysteresis between set points and with interlocks against running dry. The
ultrafiltration runs through a sequence: filter, stop the feed, open the valves, backwash, drain, flush, filter. A PLC
sees nothing of the plant but the readings, which an attack may have changed.
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
    BANDS,
    DPIT301,
    FIT201,
    FIT401,
    HIGH_PERMEATE,
    HIGH_PRESSURE,
    LEVELS,
    LIT101,
    LIT301,
    LIT401,
    LOW_FLOW,
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
    P203,
    P205,
    P302,
    P402,
    P403,
    P501,
    P602,
    UV401,
)

OFF, ON = 1.0, 2.0  # the readings of a pump; a closed valve also reads 1 and an open valve 2

FILTER, HOLD, STOP, OPEN, BACKWASH, DRAIN, FLUSH = range(7)  # the phases of the ultrafiltration

# Times in seconds.
FILTER_TIME: Final = 1800
STOP_TIME: Final = 10
BACKWASH_TIME: Final = 40
DRAIN_TIME: Final = 45
FLUSH_TIME: Final = 30
VALVE_TIMEOUT: Final = 60  # after this time the sequence continues even if a valve has not moved
PRESSURE_DELAY: Final = 5  # DPIT301 must be high for this time to start a backwash
STANDBY_DELAY: Final = 30  # time without flow until the standby pump takes over
TRIP_DELAY: Final = 10  # time without flow until stage 4 stops
TRIP_TIME: Final = 120  # time until stage 4 starts again
LAMP_DELAY: Final = 5
PRESS_DELAY: Final = 10
QUALITY_DELAY: Final = 60  # AIT504 must be high for this time to stop the reverse osmosis
QUALITY_TIME: Final = 300  # time for which the reverse osmosis then stops
RINSE_TIME: Final = 600  # time after a start in which AIT504 is ignored, because the first permeate is salty

_L1, _L3, _L4 = LEVELS["LIT101"], LEVELS["LIT301"], LEVELS["LIT401"]
_SALT, _PH, _REDOX, _SULPHITE = BANDS["AIT201"], BANDS["AIT202"], BANDS["AIT203"], BANDS["AIT402"]


@dataclass(slots=True)
class Control:
    """The memory of the PLCs and ``command``, their command to each actuator (1 off or closed, 2 on or open)."""

    filling1: bool = True
    filling3: bool = True
    dry1: bool = False
    dry3: bool = False
    dry4: bool = False
    standby: bool = False
    no_transfer: int = 0
    brine: bool = False
    acid: bool = True
    chlorine: bool = True
    sulphite: bool = False
    sequence: int = FILTER
    filtered: int = 0
    since: int = 0
    answered: int = 0
    high_pressure: int = 0
    no_ro: int = 0
    tripped: int = 0
    lamp_ready: int = LAMP_DELAY
    press_ready: int = PRESS_DELAY
    pressed: int = RINSE_TIME
    salty: int = 0
    resting: int = 0
    stopped: int = 0  # the stage that people have stopped: 4 (and so 5 too), 5, or 0 for none
    command: list[float] = field(default_factory=lambda: [OFF] * NUM_TAGS)

    def step(self, seen: Sequence[float]) -> list[float]:
        """Compute the commands from the readings ``seen`` by the PLCs; returns ``command``, with one entry per tag."""
        self._transfer(seen)
        self._dose(seen)
        self._ultrafiltrate(seen)
        self._dechlorinate(seen)
        self._press(seen)
        return self.command

    def _transfer(self, seen: Sequence[float]) -> None:
        """Control stage 1: MV101 keeps LIT101 between L and H, and MV201 with a pump keeps LIT301 between L and H.

        The pumps stop while tank 1 is at LL.
        """
        command = self.command
        level1, level3 = seen[LIT101], seen[LIT301]
        if level1 <= _L1.low:
            self.filling1 = True
            if level1 <= _L1.low_low:
                self.dry1 = True
        else:
            self.dry1 = False
            if level1 >= _L1.high:
                self.filling1 = False
        if level3 <= _L3.low:
            self.filling3 = True
            if level3 <= _L3.low_low:
                self.dry3 = True
        else:
            self.dry3 = False
            if level3 >= _L3.high:
                self.filling3 = False
        command[MV101] = ON if self.filling1 else OFF
        if not self.filling3:
            # An attack may force a pump to run. The valve then stays open, because the pump would break otherwise.
            command[MV201] = ON if seen[P101] == ON or seen[P102] == ON else OFF
            command[P101] = command[P102] = OFF
            self.standby = False
            self.no_transfer = 0
            return
        command[MV201] = ON
        pump = seen[MV201] == ON and not self.dry1
        if pump and seen[FIT201] <= LOW_FLOW:
            self.no_transfer += 1
            if self.no_transfer >= STANDBY_DELAY:
                self.standby = True
        else:
            self.no_transfer = 0
        command[P101] = ON if pump and not self.standby else OFF
        command[P102] = ON if pump and self.standby else OFF

    def _dose(self, seen: Sequence[float]) -> None:
        """Control stage 2: dose salt, acid and chlorine, each according to its analyser.

        The pumps run only while water flows through an open MV201.
        """
        command = self.command
        if seen[MV201] != ON or seen[FIT201] <= LOW_FLOW:
            command[P201] = command[P203] = command[P205] = OFF
            return
        salt, ph, redox = seen[AIT201], seen[AIT202], seen[AIT203]
        if self.brine:
            self.brine = salt < _SALT[1]
        else:
            self.brine = salt < _SALT[0]
        if self.acid:
            self.acid = ph > _PH[0]
        else:
            self.acid = ph > _PH[1]
        if self.chlorine:
            self.chlorine = redox < _REDOX[1]
        else:
            self.chlorine = redox < _REDOX[0]
        command[P201] = ON if self.brine else OFF
        command[P203] = ON if self.acid else OFF
        command[P205] = ON if self.chlorine else OFF

    def _ultrafiltrate(self, seen: Sequence[float]) -> None:
        """Control stage 3 with the sequence of the ultrafiltration.

        When LIT401 is high, the stage pauses until LIT401 is low. A backwash starts when the filtering time is over or
        when DPIT301 stays high.
        """
        sequence, command = self.sequence, self.command
        if sequence == FILTER:
            running = seen[MV302] != OFF and not self.dry3
            command[MV301] = command[MV303] = command[MV304] = command[P602] = OFF
            command[MV302] = ON
            command[P302] = ON if running else OFF
            if running:
                self.filtered += 1
            if running and seen[DPIT301] > HIGH_PRESSURE:
                self.high_pressure += 1
            else:
                self.high_pressure = 0
            if self.filtered >= FILTER_TIME or self.high_pressure >= PRESSURE_DELAY:
                self._switch_to(STOP)
            elif seen[LIT401] >= _L4.high:
                self._switch_to(HOLD)
            return
        if sequence == HOLD:
            command[P302] = OFF
            if seen[LIT401] <= _L4.low:
                self._switch_to(FILTER)
            return
        self.since += 1
        if sequence == STOP:
            command[P302] = command[MV302] = OFF
            if self.since >= STOP_TIME:
                self._switch_to(OPEN)
        elif sequence == OPEN:
            command[MV301] = command[MV303] = ON
            if seen[MV301] == ON and seen[MV303] == ON:
                self._switch_to(BACKWASH)
            elif self.since >= VALVE_TIMEOUT:
                self._switch_to(DRAIN)
        elif sequence == BACKWASH:
            command[P602] = ON
            if self.since >= BACKWASH_TIME:
                self._switch_to(DRAIN)
        elif sequence == DRAIN:
            command[P602] = command[MV301] = OFF
            command[MV304] = ON
            if seen[MV303] == ON and seen[MV304] == ON:
                self.answered += 1
            if self.answered >= DRAIN_TIME or self.since >= DRAIN_TIME + VALVE_TIMEOUT:
                self._switch_to(FLUSH)
        else:
            command[P302] = OFF if self.dry3 else ON
            if self.since >= FLUSH_TIME:
                command[P302] = OFF
                self.filtered = 0
                self._switch_to(FILTER)

    def _switch_to(self, sequence: int) -> None:
        self.sequence = sequence
        self.since = self.answered = self.high_pressure = 0

    def _dechlorinate(self, seen: Sequence[float]) -> None:
        """Control stage 4: P402 runs unless tank 4 is at LL, and P403 doses according to AIT402.

        Without flow, P402 and the lamp are switched off for some time.
        """
        command = self.command
        level = seen[LIT401]
        if level <= _L4.low_low:
            self.dry4 = True
        elif level >= _L4.low:
            self.dry4 = False
        flowing = seen[FIT401] > LOW_FLOW
        if seen[P402] == ON and not flowing:
            self.no_ro += 1
            if self.no_ro >= TRIP_DELAY:
                self.tripped = TRIP_TIME
        else:
            self.no_ro = 0
        if self.tripped:
            self.tripped -= 1
        running = not self.tripped and not self.dry4 and self.stopped != 4
        command[P402] = ON if running else OFF
        if not (running and flowing):
            self.lamp_ready = 0
        elif self.lamp_ready < LAMP_DELAY:
            self.lamp_ready += 1
        command[UV401] = ON if self.lamp_ready == LAMP_DELAY else OFF
        redox = seen[AIT402]
        if self.sulphite:
            self.sulphite = redox > _SULPHITE[0]
        else:
            self.sulphite = redox > _SULPHITE[1]
        command[P403] = ON if self.sulphite and running and flowing else OFF

    def _press(self, seen: Sequence[float]) -> None:
        """Control stage 5: P501 runs while the lamp is on and water flows, and it stops when AIT504 stays high."""
        command = self.command
        if self.resting:
            self.resting -= 1
        ready = seen[UV401] == ON and command[P402] == ON and seen[FIT401] > LOW_FLOW
        ready = ready and not self.resting and not self.stopped
        if not ready:
            self.press_ready = self.pressed = self.salty = 0
            command[P501] = OFF
            return
        if self.press_ready < PRESS_DELAY:
            self.press_ready += 1
            command[P501] = OFF
            return
        command[P501] = ON
        if self.pressed < RINSE_TIME:
            self.pressed += 1
        elif seen[AIT504] > HIGH_PERMEATE:
            self.salty += 1
            if self.salty >= QUALITY_DELAY:
                self.resting = QUALITY_TIME
        else:
            self.salty = 0
