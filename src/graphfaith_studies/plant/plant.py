"""A plant: its tags in the order of the files, which of them are neighbours, and where they are in drawings.

A tag is the name of a sensor or of an actuator. Everything that differs from plant to plant is in a plant file (TOML),
so that no other module of this package knows a tag by its name. `Plant.named` reads one of the files that belong to
the package, `read_plant` a file of the user.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graphfaith._base.errors import DataError, InputError
from graphfaith._base.files import read_file

if TYPE_CHECKING:
    from torch import Tensor

_SUFFIX: Final = ".toml"
_MOST: Final = 10_000  # tags; a plan with more could not be drawn


@dataclass(frozen=True)
class Kind:
    """What a tag measures or does.

    An actuator has ``states``, the words for its readings. A sensor has none. ``possible`` has the smallest and the
    largest reading that the instrument can give, ``usual`` those between which the median of a long recording lies.
    Readings are rounded to multiples of ``resolution``, unless it is 0.
    """

    name: str
    unit: str = ""
    states: Mapping[int, str] = field(default_factory=dict)
    possible: tuple[float, float] = (-math.inf, math.inf)
    usual: tuple[float, float] = (-math.inf, math.inf)
    resolution: float = 0.0


@dataclass(frozen=True)
class Tag:
    """One tag: its kind, the part of the plant it belongs to, its place in drawings, and a note on its control."""

    name: str
    kind: Kind
    part: str
    at: tuple[float, float]
    note: str = ""

    @property
    def is_actuator(self) -> bool:
        """Whether the tag is an actuator, whose readings are states."""
        return bool(self.kind.states)


@dataclass(frozen=True)
class Layout:
    """The layout of a plant's files: the names of two columns, the words of the label, and the order in dates.

    A file may have no labels, unless the plant file names their column (``needs_label``): then a column that is not
    there is a mistake.
    """

    time: str = "time"
    label: str = "label"
    needs_label: bool = False
    normal: tuple[str, ...] = ("normal",)
    attack: tuple[str, ...] = ("attack",)
    day_first: bool = True


@dataclass(frozen=True)
class Plant:
    """A plant with its ``tags`` and ``edges``, which are pairs of columns of neighbours.

    ``period``, ``step``, ``quiet``, ``recovery`` and ``longest_gap`` are in seconds: a row of a file, a step of a
    series (the median of its rows), what separates two alarms, what the plant needs after a disturbance, and what may
    be missing in a file. A forecast sees ``window`` steps.

    >>> plant = Plant.named("swat")
    >>> len(plant), len(plant.edges), plant.column("DPIT301")
    (51, 79, 16)
    >>> plant["P101"].kind.states[2], plant["P101"].part
    ('on', 'raw water')
    """

    name: str
    title: str
    parts: tuple[str, ...]
    tags: tuple[Tag, ...]
    edges: tuple[tuple[int, int], ...]
    edge_kinds: tuple[str, ...]
    layout: Layout
    period: int
    step: int
    window: int
    quiet: int
    recovery: int
    longest_gap: int

    @classmethod
    def named(cls, name: str) -> Plant:
        """Return a plant whose file belongs to this package."""
        folder = resources.files(__package__).joinpath("plants")
        known = sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))
        if name not in known:
            raise InputError(
                f"there is no plant {name!r}; give one of {', '.join(known)}, or the path of a plant file "
                f"that ends in {_SUFFIX}"
            )
        return _parse_plant(folder.joinpath(name + _SUFFIX).read_text(encoding="utf-8"), name, f"plant {name!r}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tags, in the order of the columns."""
        return tuple(tag.name for tag in self.tags)

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.tags)

    def __getitem__(self, name: str) -> Tag:
        return self.tags[self.column(name)]

    def column(self, name: str) -> int:
        """Return the column of a tag, counted from 0."""
        try:
            return self._columns[name]
        except KeyError:
            raise InputError(f"unknown tag {name!r}; the tags are {', '.join(self.names)}") from None

    @cached_property
    def arrows(self) -> Tensor:
        """The edges in both directions, [2, 2m]: first all edges as they are, then all of them turned round."""
        import torch  # Loading it takes seconds, which commands that only read a plant do not need.

        ends = torch.tensor(self.edges, dtype=torch.long).T
        return torch.cat([ends, ends.flip(0)], dim=1)

    @cached_property
    def adjacency(self) -> Tensor:
        """The matrix [n, n] with 1 where two tags are neighbours."""
        import torch

        matrix = torch.zeros(len(self), len(self))
        matrix[self.arrows[1], self.arrows[0]] = 1.0
        return matrix

    def every(self, period: int) -> Plant:
        """Return the plant for recordings with a row every ``period`` seconds.

        Its step is at least as long as this plant's, and a multiple of the period. What separates alarms, the time to
        recover and the longest gap are as many steps as before, and at least one.
        """
        step = -(-self.step // period) * period
        lengths = {
            name: max(getattr(self, name) // self.step, 1) * step for name in ("quiet", "recovery", "longest_gap")
        }
        return replace(self, period=period, step=step, **lengths)

    @property
    def actuators(self) -> tuple[int, ...]:
        """The columns of the actuators."""
        return tuple(number for number, tag in enumerate(self.tags) if tag.is_actuator)


def read_plant(path: str | os.PathLike[str]) -> Plant:
    """Read a plant file; an error message names the entry that is wrong, and says what would be right."""
    source = Path(path)
    if source.suffix.lower() != _SUFFIX:
        raise InputError(f"cannot read '{path}': a plant file ends in {_SUFFIX}")
    try:
        text = read_file(source, "cannot read").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read '{path}': it is not text in UTF-8") from error
    return _parse_plant(text, source.stem, f"'{path}'")


def find_plant(name: str) -> Plant:
    """Return the plant of a name, or of the path of a plant file."""
    return read_plant(name) if name.lower().endswith(_SUFFIX) else Plant.named(name)


# Reading a plant file ---------------------------------------------------------------------------------------------


def _parse_plant(text: str, name: str, where: str) -> Plant:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"cannot read {where}: it is not TOML ({error})") from error
    table = _Table(content, where)
    parts = table.words("parts")
    layout = _parse_layout(table.table("files", {}))
    clock = table.table("time")
    period = clock.count("row")
    step = clock.count("step", period)
    kinds = {kind: _parse_kind(kind, entry) for kind, entry in table.table("kinds").tables()}
    tags = tuple(_parse_tag(tag, entry, kinds, parts) for tag, entry in table.table("tags").tables())
    if not 2 <= len(tags) <= _MOST:
        raise table.error("tags", f"a plant has 2 to {_MOST} tags (got {len(tags)})")
    _check_places(tags, table)
    edges = _parse_edges(table.table("edges"), tuple(tag.name for tag in tags))
    if step % period:
        raise clock.error("step", f"a step is a multiple of a row, which is {period} s (got {step})")
    plant = Plant(
        name=name,
        title=table.text("title", name),
        parts=parts,
        tags=tags,
        edges=tuple(pair for pair, _ in edges),
        edge_kinds=tuple(kind for _, kind in edges),
        layout=layout,
        period=period,
        step=step,
        window=clock.count("window", 5),
        quiet=clock.count("quiet", 12 * step),
        recovery=clock.count("recovery", 60 * step),
        longest_gap=clock.count("longest_gap", 12 * step),
    )
    clock.finish()
    table.finish()
    return plant


def _parse_layout(table: _Table) -> Layout:
    default = Layout()
    layout = Layout(
        time=table.text("time", default.time),
        label=table.text("label", default.label),
        needs_label="label" in table,
        normal=table.words("normal", default.normal),
        attack=table.words("attack", default.attack),
        day_first=table.flag("day_first", default.day_first),
    )
    table.finish()
    return layout


def _parse_kind(name: str, table: _Table) -> Kind:
    states = {}
    for key, word in table.table("states", {}).texts():
        if not key.isdecimal():
            raise table.error("states", f"a state is a whole number, 0 or more (got {key!r})")
        states[int(key)] = word
    kind = Kind(
        name, table.text("unit", ""), states, table.pair("possible"), table.pair("usual"), table.size("resolution")
    )
    for key, (low, high) in (("possible", kind.possible), ("usual", kind.usual)):
        if not low < high:
            raise table.error(key, f"the first number must be less than the second (got {low:g} and {high:g})")
    table.finish()
    return kind


def _parse_tag(name: str, table: _Table, kinds: Mapping[str, Kind], parts: tuple[str, ...]) -> Tag:
    word, part = table.text("kind"), table.text("part", parts[0])
    if word not in kinds:
        raise table.error("kind", f"{word!r} is not one of the kinds {', '.join(kinds)}")
    if part not in parts:
        raise table.error("part", f"{part!r} is not one of the parts {', '.join(parts)}")
    general = kinds[word]
    kind = Kind(
        general.name,
        table.text("unit", general.unit),
        general.states,
        table.pair("possible", general.possible),
        table.pair("usual", general.usual),
        general.resolution,
    )
    at = table.pair("at", None)
    tag = Tag(name, kind, part, at, table.text("note", ""))
    table.finish()
    return tag


def _parse_edges(table: _Table, names: tuple[str, ...]) -> list[tuple[tuple[int, int], str]]:
    columns = {name: number for number, name in enumerate(names)}
    edges: dict[tuple[int, int], str] = {}
    found = []
    for kind in table:
        for text in table.words(kind):
            ends = text.split()
            if len(ends) != 2 or ends[0] == ends[1]:
                raise table.error(kind, f"an edge is two different tags with a space between them (got {text!r})")
            for end in ends:
                if end not in columns:
                    raise table.error(kind, f"the edge {text!r} has the unknown tag {end!r}")
            pair = columns[ends[0]], columns[ends[1]]
            if pair in edges or pair[::-1] in edges:
                raise table.error(kind, f"the edge {text!r} is there twice")
            edges[pair] = kind
            found.append((pair, kind))
    if not found:
        raise table.error("", "a plant needs at least one edge")
    return found


def _check_places(tags: tuple[Tag, ...], table: _Table) -> None:
    seen: dict[tuple[float, float], str] = {}
    for tag in tags:
        if tag.at in seen:
            raise table.error(f"tags.{tag.name}.at", f"{seen[tag.at]} is already at {list(tag.at)}")
        seen[tag.at] = tag.name


class _Table:
    """A table of a plant file. Its methods take an entry each, and check it; `finish` refuses what nobody took."""

    def __init__(self, content: Mapping[str, Any], where: str, path: str = "") -> None:
        self._content, self._where, self._path = dict(content), where, path
        self._taken: set[str] = set()

    def error(self, key: str, what: str) -> DataError:
        name = ".".join(part for part in (self._path, key) if part)
        return DataError(f"cannot read {self._where}: {name}: {what}" if name else f"cannot read {self._where}: {what}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def finish(self) -> None:
        for key in self._content:
            if key not in self._taken:
                raise self.error(key, "there is no such entry in a plant file")

    def _take(self, key: str, default: Any) -> Any:
        self._taken.add(key)
        if key in self._content:
            return self._content[key]
        if default is None:
            raise self.error(key, "this entry is missing")
        return default

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> _Table:
        value = self._take(key, default)
        if not isinstance(value, dict):
            raise self.error(key, "this must be a table")
        return _Table(value, self._where, f"{self._path}.{key}" if self._path else key)

    def tables(self) -> list[tuple[str, _Table]]:
        return [(key, self.table(key)) for key in self._content]

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"this must be a text (got {value!r})")
        return value

    def texts(self) -> list[tuple[str, str]]:
        return [(key, self.text(key)) for key in self._content]

    def words(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._take(key, default)
        if not isinstance(value, list | tuple) or not value or not all(isinstance(word, str) for word in value):
            raise self.error(key, "this must be a list of texts")
        return tuple(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"this must be true or false (got {value!r})")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self._take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(key, f"this must be a whole number, 1 or more (got {value!r})")
        return value

    def size(self, key: str) -> float:
        value = self._take(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
            raise self.error(key, f"this must be a number, 0 or more (got {value!r})")
        return float(value)

    def pair(self, key: str, default: tuple[float, float] | None = (-math.inf, math.inf)) -> tuple[float, float]:
        value = self._take(key, default)
        numbers = (
            [v for v in value if isinstance(v, int | float) and not math.isnan(v)]
            if isinstance(value, list | tuple)
            else []
        )
        if len(numbers) != 2 or len(value) != 2 or (default is None and not all(map(math.isfinite, numbers))):
            raise self.error(key, f"this must be two numbers (got {value!r})")
        return float(numbers[0]), float(numbers[1])
