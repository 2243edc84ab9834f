"""The water-treatment case study: a SWaT-like simulation of the plant, attacks on it, and its files.

`simulate` runs the plant, and `Schedule.of` makes a schedule of attacks for it. `write_csv` writes a recording to a
file, which `graphfaith_studies.plant.load(SWAT, path)` reads again, as it reads a file of the genuine plant.
"""

from .attacks import ATTACKS, LONG, Attack, Force, Hold, Ramp, Shift
from .files import write_csv
from .recording import Run
from .schedule import Planned, Schedule, Span
from .simulation import simulate
from .tags import ACTUATORS, CONSTANT, SENSORS, STAGES, SWAT, TAGS, column, stage

__all__ = [
    "ACTUATORS",
    "ATTACKS",
    "CONSTANT",
    "LONG",
    "SENSORS",
    "STAGES",
    "SWAT",
    "TAGS",
    "Attack",
    "Force",
    "Hold",
    "Planned",
    "Ramp",
    "Run",
    "Schedule",
    "Shift",
    "Span",
    "column",
    "simulate",
    "stage",
    "write_csv",
]
