"""The plant file of C-Town, written from the EPANET model of the network (``ctown_map.inp``).

The model has hundreds of junctions, and 43 tags are read. Two tags are neighbours if

- they belong to the same pump or valve (its flow and its state);
- one is the flow through a pump or valve, and the other the pressure at one of its ends;
- water can run from one instrument to the other through pipes, on the shortest way past no other instrument;
- the model's controls switch the pump or valve by the level of the tank;
- they are the states of pumps side by side, which take water from the same place and are wired to the same PLC.

An end of a pump without an instrument of its own is taken for the instrument nearest to it, if that is within
`STATION` metres of pipe. Two pumps have no control in the model. They get the tank whose level their PLC receives, and
to which they pump. `python -m graphfaith_studies.batadal.network ctown_map.inp` prints the plant file.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import networkx as nx

from graphfaith._base.errors import DataError
from graphfaith._base.files import read_file

STATION: Final = 20.0  # metres of pipe; pumps of a station are 5 to 12 m apart, stations at least 10 m from the next
TANKS: Final = tuple(f"T{number}" for number in range(1, 8))
DEVICES: Final = (*(f"PU{number}" for number in range(1, 12)), "V2")
JUNCTIONS: Final = ("J280", "J269", "J300", "J256", "J289", "J415", "J302", "J306", "J307", "J317", "J14", "J422")
# Which pumps and valves each PLC switches, and the levels that it reads or that other PLCs send to it, as in the files
# of the program that simulated the attacks (epanetCPA, scenarios/ctown).
PLCS: Final = {
    "PLC1": (("PU1", "PU2", "PU3"), ("T1",)),
    "PLC3": (("PU4", "PU5", "PU6", "PU7", "V2"), ("T2", "T3", "T4")),
    "PLC5": (("PU8", "PU9", "PU10", "PU11"), ("T5", "T7")),
}


@dataclass(frozen=True)
class Control:
    """A rule of the model: ``device`` opens when the level of ``tank`` is below ``low``, and closes above ``high``."""

    device: str
    tank: str
    low: float
    high: float


@dataclass(frozen=True)
class Network:
    """An EPANET model, as far as it is needed: pipes with lengths, the ends of pumps and valves, and the controls."""

    pipes: nx.Graph
    ends: dict[str, tuple[str, str]]
    controls: tuple[Control, ...]


def read_network(path: Path) -> Network:
    """Read an EPANET model (.inp)."""
    sections: dict[str, list[list[str]]] = {}
    name = ""
    for line in read_file(path, "cannot read").decode("latin-1").splitlines():
        text = line.partition(";")[0].strip()
        if text.startswith("["):
            name = text.strip("[]").upper()
        elif text:
            sections.setdefault(name, []).append(text.split())
    try:
        pipes = nx.Graph()
        for row in sections["PIPES"]:
            if (
                row[-1].upper() != "CLOSED"
            ):  # A check valve (CV) lets water through in one direction: it is a pipe here.
                pipes.add_edge(row[1], row[2], length=float(row[3]))
        ends = {row[0]: (row[1], row[2]) for row in (*sections["PUMPS"], *sections["VALVES"])}
        for device, pair in ends.items():
            if device not in DEVICES:  # A valve without a tag, which reduces pressure, is a piece of pipe.
                pipes.add_edge(*pair, length=0.0)
        controls = tuple(_read_controls(sections["CONTROLS"]))
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"cannot read '{path}': it is not an EPANET model of C-Town ({error})") from error
    missing = [node for node in (*TANKS, *JUNCTIONS) if node not in pipes] + [d for d in DEVICES if d not in ends]
    if missing:
        raise DataError(f"cannot read '{path}': it is not a model of C-Town; it has no {missing[0]}")
    return Network(pipes, ends, controls)


def _read_controls(rows: Sequence[Sequence[str]]) -> Iterator[Control]:
    """Join the two rules of each device: LINK x OPEN IF NODE t BELOW a, and LINK x CLOSED IF NODE t ABOVE b."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        found.setdefault((row[1], row[5]), {})[row[6].upper()] = float(row[7])
    for (device, tank), limits in found.items():
        yield Control(device, tank, limits["BELOW"], limits["ABOVE"])


# Neighbours -------------------------------------------------------------------------------------------------------


def find_edges(network: Network) -> dict[str, list[tuple[str, str]]]:
    """Return the neighbours among the tags, by kind."""
    tags = {tank: f"L_{tank}" for tank in TANKS} | {node: f"P_{node}" for node in JUNCTIONS}
    marked = set(tags) | {end for device in DEVICES for end in network.ends[device]}
    near = {node: _find_instrument(network, node, tags) for node in marked}
    pipes: dict[frozenset[str], tuple[str, str]] = {}  # each pair once
    for first in sorted(marked, key=_order):
        lengths, ways = nx.single_source_dijkstra(network.pipes, first, weight="length")
        for second in sorted(marked & set(lengths), key=_order):
            pair = near[first], near[second]
            if _order(first) < _order(second) and pair[0] != pair[1] and not marked & set(ways[second][1:-1]):
                pipes.setdefault(frozenset(pair), (tags[pair[0]], tags[pair[1]]))
    controlled = [(f"S_{rule.device}", f"L_{rule.tank}") for rule in (*network.controls, *_guess_controls(network))]
    return {
        "same device": [(f"S_{device}", f"F_{device}") for device in DEVICES],
        "pump or valve": [(f"F_{name}", tags[near[end]]) for name in DEVICES for end in network.ends[name]],
        "pipe": list(pipes.values()),
        "control": sorted(controlled, key=lambda pair: DEVICES.index(pair[0][2:])),
        "same station": [(f"S_{first}", f"S_{second}") for first, second in _find_stations(network, near)],
    }


def _find_instrument(network: Network, node: str, tags: dict[str, str]) -> str:
    if node in tags:
        return node
    lengths: dict[str, float] = nx.single_source_dijkstra_path_length(
        network.pipes, node, cutoff=STATION, weight="length"
    )
    return min((other for other in lengths if other in tags), key=lambda other: lengths[other])


def _guess_controls(network: Network) -> Iterator[Control]:
    """Yield the tank to which a device without a control in the model pumps, of those whose level its PLC receives."""
    ruled = {rule.device for rule in network.controls}
    for devices, tanks in PLCS.values():
        for device in devices:
            if device not in ruled:
                zone = nx.node_connected_component(network.pipes, network.ends[device][1])
                yield from (Control(device, tank, 0.0, 0.0) for tank in tanks if tank in zone)


def _find_stations(network: Network, near: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of devices, one after the other, that take water from the same instrument and have the same PLC."""
    for devices, _ in PLCS.values():
        for first, second in itertools.pairwise(devices):
            if near[network.ends[first][0]] == near[network.ends[second][0]]:
                yield first, second


def _order(node: str) -> tuple[int, int | str]:
    """Tanks first, then the junctions with instruments, then the others by name; sets have no order of their own."""
    known = (*TANKS, *JUNCTIONS)
    return (0, known.index(node)) if node in known else (1, node)


# The plan ---------------------------------------------------------------------------------------------------------

# The plan is a scheme: the map's coordinates put the instruments of a station on one spot. The source is on the left,
# and each station is a row: suction pressure, pumps (state, flow), discharge pressure, tanks.
_STATIONS: Final = (
    (0.0, 1.0, ("J280", "J269"), ("PU1", "PU2", "PU3"), ()),
    (9.0, 7.5, ("J307", "J317"), ("PU10", "PU11"), ("T6", "T7")),
    (9.0, 5.0, ("J302", "J306"), ("PU8", "PU9"), ("T5",)),
    (9.0, 0.0, ("J300", "J256"), ("PU4", "PU5"), ("T3",)),
    (9.0, -2.5, ("J289", "J415"), ("PU6", "PU7"), ("T4",)),
)
_OTHERS: Final = {
    "L_T1": (5.5, 4.5), "P_J14": (4.5, 0.0), "S_V2": (5.5, 1.0), "F_V2": (5.5, 0.0), "P_J422": (6.5, 0.0),
    "L_T2": (7.5, -1.5),
}  # fmt: skip
_PARTS: Final = {
    "source and tank 1": ("T1", "PU1", "PU2", "PU3", "J280", "J269"),
    "tank 2": ("T2", "V2", "J14", "J422"),
    "tank 3": ("T3", "PU4", "PU5", "J300", "J256"),
    "tank 4": ("T4", "PU6", "PU7", "J289", "J415"),
    "tank 5": ("T5", "PU8", "PU9", "J302", "J306"),
    "tanks 6 and 7": ("T6", "T7", "PU10", "PU11", "J307", "J317"),
}


def find_places() -> dict[str, tuple[float, float]]:
    """Return the place of every tag in the plan."""
    places = dict(_OTHERS)
    for x, y, (suction, discharge), pumps, tanks in _STATIONS:
        middle = y - (len(pumps) - 1) / 2
        places[f"P_{suction}"], places[f"P_{discharge}"] = (x, middle), (x + 3.0, middle)
        for row, pump in enumerate(pumps):
            places[f"S_{pump}"], places[f"F_{pump}"] = (x + 1.0, y - row), (x + 2.0, y - row)
        for row, tank in enumerate(tanks):
            places[f"L_{tank}"] = (x + 4.0, y - row if len(tanks) > 1 else middle)
    return places


_HEAD: Final = """\
# C-Town, the water network of the BATADAL competition: 7 tanks, 11 pumps, a valve, 43 tags in the order of the files.
# Made from the network's EPANET model by `python -m graphfaith_studies.batadal.network ctown_map.inp`.
title = "C-Town (BATADAL)"
parts = [{parts}]

[time]
row = 3600 # seconds between two rows of a file
step = 3600 # seconds of a step
window = {window} # steps before a forecast that the forecaster sees
quiet = {quiet} # seconds; what is further apart belongs to two alarms: the network repeats itself every day
recovery = {recovery} # seconds that the plant needs after a disturbance: the levels of tanks follow the day
longest_gap = 10800 # seconds that may be missing in a file

[files]
time = "DATETIME"
label = "ATT_FLAG"
normal = ["0", "0.0", "0.00"]
attack = ["1", "1.0", "1.00"]
day_first = true

# `resolution` is that of the competition's files, whose readings have two digits. The year without attacks was given
# with nine, which no instrument has: it is rounded as well.
[kinds.level]
unit = "m"
resolution = 0.01
possible = [-0.5, 20.0]
usual = [0.0, 7.0]

[kinds.flow]
unit = "L/s"
resolution = 0.01
possible = [-500.0, 500.0]

[kinds.pressure]
unit = "m"
resolution = 0.01
possible = [-50.0, 300.0]

[kinds.pump]
states = {{ 0 = "off", 1 = "on" }}

[kinds.valve]
states = {{ 0 = "closed", 1 = "open" }}
"""


def format_plant(network: Network) -> str:
    """Return the plant file of C-Town as text."""
    places, edges = find_places(), find_edges(network)
    part_of = {thing: part for part, things in _PARTS.items() for thing in things}
    lines = [
        _HEAD.format(parts=", ".join(f'"{part}"' for part in _PARTS), window=12, quiet=24 * 3600, recovery=24 * 3600),
        "[tags]",
    ]
    rules = {rule.device: rule for rule in network.controls}
    for tag in list_tags():
        letter, _, thing = tag.partition("_")
        kind = {"L": "level", "F": "flow", "P": "pressure", "S": "valve" if thing == "V2" else "pump"}[letter]
        x, y = places[tag]
        note = ""
        if letter == "S" and thing in rules:
            rule = rules[thing]
            verbs = ("opens", "closes") if thing == "V2" else ("starts", "stops")
            note = (
                f', note = "{verbs[0]} when L_{rule.tank} reads less than {rule.low:g} m and {verbs[1]} above '
                f'{rule.high:g} m"'
            )
        elif letter == "S":
            note = ', note = "is a standby; the network\'s controls do not use it"'
        lines.append(f'{tag} = {{ kind = "{kind}", part = "{part_of[thing]}", at = [{x}, {y}]{note} }}')
    lines += ["", "[edges]"]
    for kind, pairs in edges.items():
        lines.append(f'"{kind}" = [' if " " in kind else f"{kind} = [")
        lines += [f'    "{first} {second}",' for first, second in pairs]
        lines.append("]")
    return "\n".join(lines) + "\n"


def list_tags() -> list[str]:
    """Return the 43 tags in the order of the files."""
    devices = [f"{letter}_{device}" for device in DEVICES for letter in "FS"]
    return [*(f"L_{tank}" for tank in TANKS), *devices, *(f"P_{node}" for node in JUNCTIONS)]


if __name__ == "__main__":
    sys.stdout.write(format_plant(read_network(Path(sys.argv[1]))))
