"""The 51 tags of the plant in the order of the files, with their set points, neighbours and positions in drawings.

A tag is the name of a sensor (FIT flow, LIT level, AIT analyser, PIT pressure, DPIT pressure difference) or of an
actuator (MV valve, P pump, UV lamp). The first digit of its number is the stage. A pump and the lamp read 1 when off
and 2 when on. A valve reads 1 when closed, 2 when open and 0 while it moves.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from graphfaith._base.errors import InputError

STAGES: Final = (
    "raw water",
    "dosing",
    "ultrafiltration",
    "dechlorination",
    "reverse osmosis",
    "permeate and backwash",
)


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TAGS: Final = _split(
    "FIT101 LIT101 MV101 P101 P102 "
    "AIT201 AIT202 AIT203 FIT201 MV201 P201 P202 P203 P204 P205 P206 "
    "DPIT301 FIT301 LIT301 MV301 MV302 MV303 MV304 P301 P302 "
    "AIT401 AIT402 FIT401 LIT401 P401 P402 P403 P404 UV401 "
    "AIT501 AIT502 AIT503 AIT504 FIT501 FIT502 FIT503 FIT504 P501 P502 PIT501 PIT502 PIT503 "
    "FIT601 P601 P602 P603"
)
NUM_TAGS: Final = len(TAGS)

# The columns as constants. The simulation uses them every simulated second, where a look-up in a dictionary is slow.
FIT101, LIT101, MV101, P101, P102 = range(0, 5)
AIT201, AIT202, AIT203, FIT201, MV201, P201, P202, P203, P204, P205, P206 = range(5, 16)
DPIT301, FIT301, LIT301, MV301, MV302, MV303, MV304, P301, P302 = range(16, 25)
AIT401, AIT402, FIT401, LIT401, P401, P402, P403, P404, UV401 = range(25, 34)
AIT501, AIT502, AIT503, AIT504, FIT501, FIT502, FIT503, FIT504, P501, P502, PIT501, PIT502, PIT503 = range(34, 47)
FIT601, P601, P602, P603 = range(47, 51)

SENSORS: Final = frozenset(tag for tag in TAGS if "IT" in tag)
ACTUATORS: Final = frozenset(TAGS) - SENSORS
VALVES: Final = frozenset(tag for tag in TAGS if tag.startswith("MV"))

# Tags that are constant in normal operation. The standby pumps stay off. The reverse osmosis always runs, so that its
# pumps and the lamp before it stay on.
CONSTANT: Final = frozenset(_split("P102 P201 P202 P204 P206 P301 P401 P402 P404 P501 P502 P601 P603 UV401"))


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
    try:
        return TAGS.index(tag)
    except ValueError:
        raise InputError(f"unknown tag {tag!r}; the tags are {', '.join(TAGS)}") from None


def stage(tag: str) -> int:
    """Return the stage, from 1 to 6, that a tag belongs to.

    >>> stage("AIT402"), STAGES[stage("AIT402") - 1]
    (4, 'dechlorination')
    """
    column(tag)
    return int(tag.lstrip("ADFILMPTUV")[0])


# The neighbours in the plant. P601 and P602 stand side by side in stage 6; all other pairs share a pipe or a control
# loop.
EDGES: Final = tuple(
    (first, second)
    for first, _, second in (
        pair.partition("-")
        for pair in _split(
            "FIT101-MV101 FIT101-LIT101 MV101-LIT101 MV101-P101 LIT101-P101 LIT101-P102 P101-P102 P101-FIT201 "
            "P102-FIT201 FIT201-AIT201 FIT201-AIT202 FIT201-AIT203 FIT201-MV201 FIT201-P201 FIT201-P203 FIT201-P205 "
            "P201-AIT201 P202-AIT201 P203-AIT202 P204-AIT202 P205-AIT203 P206-AIT203 P201-P202 P203-P204 P205-P206 "
            "MV201-P101 MV201-LIT301 LIT301-P301 LIT301-P302 P301-P302 P301-FIT301 P302-FIT301 FIT301-DPIT301 "
            "DPIT301-MV301 DPIT301-MV302 DPIT301-MV303 DPIT301-MV304 DPIT301-P602 MV302-LIT401 LIT401-P401 "
            "LIT401-P402 P401-P402 P401-FIT401 P402-FIT401 FIT401-UV401 AIT401-UV401 AIT401-FIT401 UV401-AIT402 "
            "P403-AIT402 P404-AIT402 P403-P404 AIT402-AIT501 AIT402-AIT502 AIT402-AIT503 UV401-P501 FIT401-P501 "
            "P501-P502 AIT501-P501 AIT502-P501 AIT503-P501 P501-FIT501 P502-FIT501 FIT501-PIT501 PIT501-FIT502 "
            "PIT501-FIT503 PIT501-PIT503 FIT502-PIT502 FIT502-AIT504 FIT502-P601 FIT503-PIT503 FIT503-FIT504 "
            "FIT503-P602 FIT504-FIT501 P601-LIT101 P601-P602 P602-FIT601 P602-P603 FIT601-MV301 FIT601-P603"
        )
    )
)

# The positions of the tags in drawings. Water runs from left to right along y = 0. Standby pumps and dosing pumps are
# below that line, analysers above it. The valve MV301, where the backwash from stage 6 enters, is above stage 3.
POSITIONS: Final = MappingProxyType(
    {
        **{"MV101": (0.0, 0.0), "FIT101": (1.0, 1.0), "LIT101": (2.0, 0.0), "P101": (3.0, 0.0), "P102": (3.0, -1.0)},
        **{"FIT201": (5.0, 0.0), "MV201": (8.0, 0.0), "AIT201": (5.0, 1.0), "AIT202": (6.0, 1.0), "AIT203": (7.0, 1.0)},
        **{"P201": (5.0, -1.0), "P203": (6.0, -1.0), "P205": (7.0, -1.0)},
        **{"P202": (5.0, -2.0), "P204": (6.0, -2.0), "P206": (7.0, -2.0)},
        **{"LIT301": (10.0, 0.0), "P302": (11.0, 0.0), "P301": (11.0, -1.0), "FIT301": (12.0, 0.0)},
        **{"DPIT301": (13.0, 1.0), "MV302": (14.0, 0.0), "MV301": (13.0, 2.0), "MV303": (13.0, -1.0)},
        **{"MV304": (14.0, -1.0), "LIT401": (16.0, 0.0), "P402": (17.0, 0.0), "P401": (17.0, -1.0)},
        **{"FIT401": (18.0, 0.0), "AIT401": (18.0, 1.0), "UV401": (19.0, 0.0), "P403": (20.0, -1.0)},
        **{"P404": (20.0, -2.0), "AIT402": (20.0, 1.0), "AIT501": (22.0, 1.0), "AIT502": (23.0, 1.0)},
        **{"AIT503": (24.0, 1.0), "P501": (23.0, 0.0), "P502": (23.0, -1.0), "FIT501": (24.0, 0.0)},
        **{"PIT501": (25.0, 0.0), "FIT502": (26.0, 1.0), "AIT504": (27.0, 2.0), "PIT502": (27.0, 1.0)},
        **{"FIT503": (26.0, -1.0), "FIT504": (25.0, -2.0), "PIT503": (27.0, -1.0)},
        **{"P601": (29.0, 1.0), "P602": (29.0, -1.0), "FIT601": (30.0, 0.0), "P603": (30.0, -1.0)},
    }
)
