"""The house's order: a room imports only from rooms above it, and the library never from the studies."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
# In the order of the walk. A room may import from itself and from those before it.
ROOMS = (
    *("_base", "graph", "sampling", "model", "surrogate", "explanation", "metric", "explainers"),
    *("facade", "view", "judging", "testing", "data", "many", "cli"),
)
# An explanation shows itself in a notebook as a page, which is made further down.
ALLOWED = {("explanation.signed", "view")}
MODULES = sorted((SRC / "graphfaith").rglob("*.py"))


def imported(path: Path) -> list[str]:
    """Full names of the modules that a file imports, wherever in the file it does."""
    package = path.relative_to(SRC).parent.parts
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def room_of(name: str) -> str | None:
    """The room of a module of the library; None for the root and for other packages."""
    parts = name.split(".")
    return parts[1] if parts[0] == "graphfaith" and len(parts) > 1 and parts[1] in ROOMS else None


def test_every_module_of_the_library_is_in_a_room():
    for path in MODULES:
        first = path.relative_to(SRC / "graphfaith").parts[0]
        assert first in (*ROOMS, "__init__.py", "__main__.py", "public.py"), f"{path} is in no room"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: ".".join(path.relative_to(SRC).with_suffix("").parts))
def test_a_room_imports_only_from_rooms_above_it(path):
    module = ".".join(path.relative_to(SRC / "graphfaith").with_suffix("").parts)
    own = module.split(".")[0]
    for name in imported(path):
        assert not name.startswith("graphfaith_studies"), f"{module} imports {name}: the library knows no study"
        room = room_of(name)
        if own not in ROOMS or room is None or (module, room) in ALLOWED:
            continue
        assert ROOMS.index(room) <= ROOMS.index(own), f"{module} imports {name}, which is further down"


def test_what_is_allowed_is_needed():
    for module, room in ALLOWED:
        path = (SRC / "graphfaith").joinpath(*module.split(".")).with_suffix(".py")
        assert any(room_of(name) == room for name in imported(path))


def test_studies_import_the_library_by_its_name():
    for path in (SRC / "graphfaith_studies").rglob("*.py"):
        for name in imported(path):
            assert not name.startswith("tests"), f"{path} imports {name}"


def test_importing_the_library_brings_in_nothing_that_only_some_need():
    unwanted = "graphfaith_studies", "matplotlib", "typer", "rich", "networkx", "sklearn", "captum", "pandas"
    code = f"""
import sys, torch_geometric.explain, torch_geometric.nn
before = set(sys.modules)
import graphfaith, graphfaith.view
graphfaith.explain  # Names are loaded when they are used.
from graphfaith.explanation import archive, faithfulness
print(sorted(name for name in set(sys.modules) - before if name.split('.')[0] in {unwanted!r}))
print([name for name in ('matplotlib', 'rich', 'sklearn', 'typer') if name in sys.modules])
# A module that is imported later does not take the place of the function of its name.
import graphfaith.view.figure, graphfaith.view.page
print(*(callable(one) for one in (graphfaith.figure, graphfaith.page, graphfaith.show, graphfaith.view.page)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[]", "[]", "True True True True"]
