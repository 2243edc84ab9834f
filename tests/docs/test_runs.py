"""A table of the docs is what a command printed: the run is committed, and the command stands beside the table."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "<!-- run: " in page.read_text())
KEPT = {path.stem: json.loads(path.read_text()) for path in sorted((DOCS / "runs").glob("*.json"))}
# The others are figures without their page, which their own command writes: tests/docs/test_measured.py has them.
RUNS = {name: run for name, run in KEPT.items() if "command" in run}


def recorder():
    """docs/record.py, which is no package."""
    spec = importlib.util.spec_from_file_location("record", DOCS / "record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORD = recorder()


def places(text):
    """Each place for a run: where it begins, its name, which of the run's tables, and what stands in it."""
    found = [(one.start(), one["name"], one["table"], one.group()) for one in RECORD.PLACE.finditer(text)]
    assert len(found) == text.count("<!-- run: ") <= text.count("<!-- end -->")
    assert not any("<!--" in one[-1] for one in found), "a place has no end of its own"
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_what_its_commands_printed(page):
    assert RECORD.fill(page.read_text()) == page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_stands_above_its_table(page):
    text = page.read_text()
    for start, name, _, _ in places(text):
        above = " ".join(text[:start].split())
        assert " ".join(RUNS[name]["command"].split()) in above, f"{page.name}: {name}"


def test_every_run_that_is_kept_is_shown():
    shown = {name for page in PAGES for _, name, _, _ in places(page.read_text())}
    assert shown == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_command_that_was_recorded_can_be_run_again(name):
    """The script of the command is there, and so are the versions with which it ran."""
    first, second, *_ = RUNS[name]["command"].split()
    assert first == "graphfaith" or (DOCS.parent / second).is_file()
    assert set(RUNS[name]["versions"]) == {"python", *RECORD.PACKAGES}


def show(name, monkeypatch, capsys):
    """What the command of a run prints that shows stored rows."""
    script, *words = RUNS[name]["command"].split()[1:]
    spec = importlib.util.spec_from_file_location(f"shown_{name}", DOCS.parent / script)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.chdir(DOCS.parent)
    monkeypatch.setattr(sys, "argv", [script, *words])
    module.main()
    return [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if " --from " in run["command"]])
def test_a_table_of_stored_rows_is_that_of_the_rows(name, monkeypatch, capsys):
    assert show(name, monkeypatch, capsys) == RUNS[name]["printed"]


def test_stored_rows_are_those_of_runs():
    used = {run["command"].split(" --from ")[1] for run in RUNS.values() if " --from " in run["command"]}
    assert used == {str(path.relative_to(DOCS.parent)) for path in (DOCS / "runs" / "rows").iterdir()}


def test_a_changed_digit_is_seen():
    text = (DOCS / "tasks.md").read_text()
    _, _, _, shown = places(text)[0]
    digit = re.search(r"\| 0\.(\d)", shown).start(1)
    changed = shown[:digit] + str((int(shown[digit]) + 1) % 10) + shown[digit + 1 :]
    assert RECORD.fill(text.replace(shown, changed)) == text
