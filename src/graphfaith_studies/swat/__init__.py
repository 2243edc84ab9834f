"""The water-treatment case study: a SWaT-like simulation of the plant, attacks on it, and its files.

`simulate` runs the plant, and `Schedule.of` makes a schedule of attacks for it. `write_csv` writes a recording to a
file. `load` reads such a file, or a file of the genuine plant.
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
