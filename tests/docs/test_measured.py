"""Every table of numbers in README and the docs is that of a run which is kept, and compared with it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphfaith_studies.bench.sections import sections_of
from graphfaith_studies.bench.tables import fill_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUNS = DOCS / "runs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TABLE = re.compile(r"^ *\|.*\n *\|[-:| ]+\|\n(?P<rows>(?: *\|.*(?:\n|\Z))+)", flags=re.M)
NUMBER = re.compile(r"[*≤≥<>=~ −-]*\d")
# What stands between such marks is written by a command. Beside each is the test that compares it with the run.
MARKS = {
    ("run", "end"): "tests/docs/test_runs.py::test_a_page_has_what_its_commands_printed",
    ("bench", "end"): "tests/docs/test_measured.py::test_a_page_has_the_tables_of_the_run_that_is_kept",
    ("packed", "end"): "tests/docs/test_measured.py::test_a_page_has_the_tables_of_the_run_that_is_kept",
    ("many", "end"): "tests/docs/test_measured.py::test_a_page_has_the_tables_of_the_run_that_is_kept",
    ("table: begin", "table: end"): "tests/docs/test_measured.py::test_a_page_has_the_tables_of_the_run_that_is_kept",
    ("tables", "end of tables"): "tests/test_readme.py::test_the_numbers_of_the_case_study_are_those_of_its_run",
    (
        "arena: agreement",
        "/arena",
    ): "tests/docs/test_measured.py::test_what_the_tables_of_measures_take_from_the_arena_is_there",
    ("peers", "end"): "tests/docs/test_figures.py::test_every_cell_about_peers_names_what_it_was_read_from",
}
# Pages that have no marks, because a test compares all of the page, or all of its rows, with the run.
WHOLE = {
    "README.md": "tests/docs/test_figures.py::test_the_table_of_readme_is_that_of_the_run",
    "docs/anchored.md": "tests/docs/test_measured.py::test_a_page_has_no_row_but_those_that_its_command_prints",
    "docs/arena.md": "tests/docs/test_figures.py::test_the_page_of_the_arena_is_what_its_command_writes",
    "docs/readings.md": "tests/docs/test_measured.py::test_a_page_has_no_row_but_those_that_its_command_prints",
    "docs/results.md": "tests/studies/paper/test_paper_tables.py::test_the_results_in_the_docs_are_those_of_the_rows",
}
# Rows of pages with other rows that are kept; the page says so.
ROWS_NOT_KEPT = {
    "readings": ("| each edge alone | 0.00548", "| own top five | 0.0371", "| the five of largest effect | 0.0408")
}
# The runs that pages with marks of their own are written from, and the commands that write them.
FROM = {
    "bench": ("docs/speed.md", "graphfaith bench --from docs/runs/bench.json --page docs/speed.md"),
    "many": ("docs/scale.md", "python benchmarks/many.py --from docs/runs/many.json --page docs/scale.md"),
    "packed-5": ("docs/scale.md", "python benchmarks/packed.py --from docs/runs/packed-5.json --page docs/scale.md"),
    "packed-10": ("docs/scale.md", "python benchmarks/packed.py --from docs/runs/packed-10.json --page docs/scale.md"),
    "stress": ("docs/reliability.md", "python stress/run.py --from docs/runs/stress.json --table docs/reliability.md"),
}
# Those of them that were not kept when their pages were written. They are to be measured anew; then the entry goes.
FILES_NOT_KEPT = {"stress"}


def tables_of(text):
    """Where each table of numbers begins, and its first line."""
    for table in TABLE.finditer(text):
        rows = [line.strip().strip("|").split("|")[1:] for line in table["rows"].splitlines()]
        cells = [cell.strip() for row in rows for cell in row]
        if cells and 2 * sum(NUMBER.match(cell) is not None for cell in cells) >= len(cells):
            yield table.start(), table.group().splitlines()[0].strip()


def unmarked(text):
    """The first lines of the tables of numbers that stand between no marks."""
    spans = []
    for begin, end in MARKS:
        for found in re.finditer(rf"<!-- {begin}\b.*?<!-- {end} -->", text, flags=re.S):
            spans.append(found.span())  # noqa: PERF401  # Two loops read better than one line of three.
    return [head for start, head in tables_of(text) if not any(a <= start < b for a, b in spans)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_of_numbers_is_compared_with_a_run(page):
    name = str(page.relative_to(ROOT))
    assert name in WHOLE or unmarked(page.read_text()) == []


def test_the_tests_that_are_named_are_there():
    for named in {*MARKS.values(), *WHOLE.values()}:
        file, _, test = named.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), named


def test_a_table_that_somebody_types_is_seen():
    typed = "Figures:\n\n| a | b |\n|---|---|\n| x | 1 |\n| y | 2.5 ± 0.1 |\n"
    assert unmarked(typed) == ["| a | b |"]
    assert unmarked("<!-- run: x -->\n" + typed + "<!-- end -->\n") == []
    assert unmarked("| a | b |\n|---|---|\n| x | a word |\n") == []


def written(kind, text):
    """The page's text with its tables written from the run that is kept, as the command of ``FROM`` writes them."""
    document = json.loads((RUNS / f"{kind}.json").read_text())
    if kind == "bench":
        return fill_page(text, sections_of(document))
    folder, script = ("stress", "run") if kind == "stress" else ("benchmarks", kind.partition("-")[0])
    spec = importlib.util.spec_from_file_location(f"{folder}_{script}", ROOT / folder / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if kind == "stress":
        return module.filled(text, document)
    if script == "packed":
        return module.filled(text, module.sections_of(document))
    return module.filled(text, {name: section(document) for name, section in module.SECTIONS.items()})


@pytest.mark.parametrize("kind", FROM)
def test_a_page_has_the_tables_of_the_run_that_is_kept(kind, monkeypatch):
    page, command = FROM[kind]
    text = (ROOT / page).read_text()
    assert " ".join(command.split()) in " ".join(text.split()), f"{page} does not say: {command}"
    if kind in FILES_NOT_KEPT:
        assert not (RUNS / f"{kind}.json").exists(), f"{kind}.json is kept now: take it from the list"
        pytest.skip(f"docs/runs/{kind}.json was not kept")
    monkeypatch.syspath_prepend(str(ROOT / "stress"))
    assert written(kind, text) == text


def rows_printed_for(page, benchmark_named, capsys):
    if page == "anchored":
        benchmark_named("columns").main([str(DOCS / "anchored.json")])
    else:
        kept = [word for path in sorted((DOCS / "readings").glob("*.json")) for word in ("--from", str(path))]
        benchmark_named("readings").main(kept)
    return set(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("page", ["anchored", "readings"])
def test_a_page_has_no_row_but_those_that_its_command_prints(page, benchmark_named, capsys):
    printed = rows_printed_for(page, benchmark_named, capsys)
    text = (DOCS / f"{page}.md").read_text()
    text = re.sub(r"<!-- run: .*?<!-- end -->", "", text, flags=re.S)  # Those have a test of their own.
    excused, rows = ROWS_NOT_KEPT.get(page, ()), 0
    for table in TABLE.finditer(text):
        cells = [cell for row in table["rows"].splitlines() for cell in row.strip("|").split("|")[1:]]
        if 2 * sum(NUMBER.match(cell.strip()) is not None for cell in cells) >= len(cells):
            for row in table["rows"].splitlines():
                assert row in printed or row.startswith(excused), f"{page}.md: {row}"
                rows += 1
    assert rows > 50


def test_what_the_tables_of_measures_take_from_the_arena_is_there():
    block = re.search(
        r"<!-- arena: agreement -->(.*?)<!-- /arena -->", (DOCS / "measures-tables.md").read_text(), flags=re.S
    )
    arena = set((DOCS / "arena.md").read_text().splitlines())
    rows = [line for line in block[1].splitlines() if line.startswith("|")]
    assert len(rows) > 20
    for row in rows:
        assert row in arena, row


@pytest.mark.parametrize("degree", [5, 10])
def test_the_command_on_packed_graphs_shows_and_fills_what_is_kept(degree, tmp_path):
    """What the page says to call: it prints the tables of a run, and puts them into the page that has them already."""
    page = tmp_path / "scale.md"
    kept = (DOCS / "scale.md").read_text()
    page.write_text(kept)
    source = RUNS / f"packed-{degree}.json"
    command = [sys.executable, ROOT / "benchmarks" / "packed.py", "--from", source, "--page", page]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert page.read_text() == kept
    rows = [line for line in printed.splitlines() if line.startswith(("| kec: ", "| anchored-kec: "))]
    assert len(rows) >= 10
    assert set(rows) <= set(kept.splitlines())


def test_figures_of_packed_graphs_that_miss_their_aims_are_named(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import packed

    small = {"open_seconds": 0.1, "first_seconds": 0.5, "alone_ms": 4.0, "random_ms_a_node": 1.0, "near_ms_a_node": 1.0}
    small["private_bytes"] = 4e8
    cold = {**small, "first_seconds": 1.2, "alone_ms": 6.0, "private_bytes": 5e8}
    found = {"kec 1000 warm": small, "kec 50000 warm": {**small, "alone_ms": 5.0}, "kec 50000 cold": cold}
    said = packed.misses_of({"found": found, "methods": ["kec"], "nodes": [1000, 50000]}).splitlines()
    assert said == [
        "- Warm, a node takes 1.00 to 1.25 times as long as in the small graph, which is warm. Missed: nothing.",
        "- Cold, a node takes 1.00 to 1.50 times as long as in the small graph, which is warm. Missed: kec's memory "
        "(1.25 times), kec's first node (1.3 s), kec's time of a node by itself (1.50 times).",
    ]
