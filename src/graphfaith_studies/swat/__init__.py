"""The water-treatment case study: a SWaT-like simulation of the plant, attacks on it, and its files.

`simulate` runs the plant, `Schedule.of` attacks it, `write_csv` writes what was recorded, and `load` reads it again, or
a genuine file if the user holds one.
"""

from .attacks import ATTACKS, LONG, Attack, Force, Hold, Ramp
from .files import write_csv
from .loader import load
from .recording import Gap, Recording, Run
from .schedule import Planned, Schedule, Span
from .simulation import simulate
from .tags import ACTUATORS, CONSTANT, EDGES, POSITIONS, SENSORS, STAGES, TAGS, column, stage

__all__ = [
    "ACTUATORS",
    "ATTACKS",
    "CONSTANT",
    "EDGES",
    "LONG",
    "POSITIONS",
    "SENSORS",
    "STAGES",
    "TAGS",
    "Attack",
    "Force",
    "Gap",
    "Hold",
    "Planned",
    "Ramp",
    "Recording",
    "Run",
    "Schedule",
    "Span",
    "column",
    "load",
    "simulate",
    "stage",
    "write_csv",
]
