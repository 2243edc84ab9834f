"""The 51 tags of the plant as the simulation uses them: their columns, set points and stages.

A tag is the name of a sensor (FIT flow, LIT level, AIT analyser, PIT pressure, DPIT pressure difference) or of an
actuator (MV valve, P pump, UV lamp). The first digit of its number is the stage. A pump and the lamp read 1 when off
and 2 when on. A valve reads 1 when closed, 2 when open and 0 while it moves. The plant file has their neighbours and
their places in drawings.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from ..plant.plant import Plant

SWAT: Final = Plant.named("swat")
TAGS: Final = SWAT.names
STAGES: Final = SWAT.parts
NUM_TAGS: Final = len(SWAT)

# The columns as constants. The simulation uses them every simulated second, where a look-up in a dictionary is slow.
FIT101, LIT101, MV101, P101, P102 = range(0, 5)
AIT201, AIT202, AIT203, FIT201, MV201, P201, P202, P203, P204, P205, P206 = range(5, 16)
DPIT301, FIT301, LIT301, MV301, MV302, MV303, MV304, P301, P302 = range(16, 25)
AIT401, AIT402, FIT401, LIT401, P401, P402, P403, P404, UV401 = range(25, 34)
AIT501, AIT502, AIT503, AIT504, FIT501, FIT502, FIT503, FIT504, P501, P502, PIT501, PIT502, PIT503 = range(34, 47)
FIT601, P601, P602, P603 = range(47, 51)

ACTUATORS: Final = frozenset(tag.name for tag in SWAT.tags if tag.is_actuator)
SENSORS: Final = frozenset(TAGS) - ACTUATORS

# Tags that are constant in normal operation. The standby pumps stay off. The reverse osmosis always runs, so that its
# pumps and the lamp before it stay on.
CONSTANT: Final = frozenset(
    ["P102", "P201", "P202", "P204", "P206", "P301", "P401", "P402", "P404", "P501", "P502", "P601", "P603", "UV401"]
)


class Limits(NamedTuple):
    """The set points of the level of a tank, in mm."""

    high_high: float
    high: float
    low: float
    low_low: float


LEVELS: Final = MappingProxyType(
    {
        "LIT101": Limits(1100.0, 800.0, 500.0, 250.0),
        "LIT301": Limits(1200.0, 1000.0, 800.0, 250.0),
        "LIT401": Limits(1200.0, 1000.0, 800.0, 250.0),
    }
)
LOW_FLOW: Final = 0.5  # m3/h, for FIT201, FIT301 and FIT401
HIGH_PRESSURE: Final = 40.0  # kPa, for DPIT301
BANDS: Final = MappingProxyType(
    {
        "AIT201": (250.0, 260.0),
        "AIT202": (6.95, 7.05),
        "AIT203": (420.0, 500.0),
        "AIT402": (240.0, 250.0),
        "AIT503": (250.0, 260.0),
        "FIT502": (1.1, 1.3),
        "FIT503": (0.7, 0.9),
        "FIT504": (0.25, 0.35),
    }
)
HIGH_PERMEATE: Final = 10.0  # uS/cm, for AIT504


def column(tag: str) -> int:
    """Return the column of a tag, counted from 0.

    >>> column("DPIT301")
    16
    """
    return SWAT.column(tag)


def stage(tag: str) -> int:
    """Return the stage, from 1 to 6, that a tag belongs to.

    >>> stage("AIT402"), STAGES[stage("AIT402") - 1]
    (4, 'dechlorination')
    """
    return STAGES.index(SWAT[tag].part) + 1
