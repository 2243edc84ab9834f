"""The site: it builds without a warning, opens without a network, and everything it shows runs."""

from __future__ import annotations

import inspect
import os
import re
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import nbformat
import pytest
import torch

import graphfaith as gf
import graphfaith.data
import graphfaith.metric
import graphfaith.testing
from browsing import serious, watched
from conftest import needs_data

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HOWTO = sorted((DOCS / "howto").glob("*.md"))
MODULES = (graphfaith.metric, graphfaith.data, graphfaith.testing)  # public beside graphfaith itself
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
# Where the site may lead to. Nothing is loaded from there.
OUTSIDE = ("https://arxiv.org/", "https://github.com/google-research/", "https://doi.org/")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built once; --strict makes a broken link, a missing page or a bad docstring an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", out]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_nothing_is_loaded_from_elsewhere(site):
    loading = re.compile(r"""<(?:script|img|iframe|source|video)[^>]+src=["']?(https?:[^"'> ]+)""")
    styles = re.compile(
        r"""<link[^>]+rel=["']?(?:stylesheet|preconnect|dns-prefetch|icon)["']?[^>]*href=["']?(https?:[^"'> ]+)"""
    )
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text()
        assert loading.findall(text) + styles.findall(text) == [], page.name
        for address in re.findall(r'href="(https?://[^"]+)"', text):
            assert address.startswith(OUTSIDE), f"{page.name} leads to {address}"


def test_links_between_folders_of_the_docs_are_links_of_the_site(site):
    upwards = 0
    for page in sorted(DOCS.glob("*/*.md")) + NOTEBOOKS:
        text = page.read_text()
        shown = (site / page.relative_to(DOCS)).with_suffix(".html").read_text()
        for path in re.findall(r"\]\(\.\./([\w/-]+)\.md", text):
            assert f'href="../{path}.html' in shown, f"{page.name} does not lead to {path}"
            upwards += 1
    assert upwards > 20


def test_every_public_name_has_an_entry(site):
    entries = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for of in (gf, *MODULES):
        module = of.__name__.partition(".")[2] or "public"
        for name in of.__all__:
            if name != "__version__":
                found = re.findall(
                    rf'doc-object doc-(\w+)">\s*<h2 id="graphfaith\.(?:{module}|public)\.(?:{name}\.)?{name}"', entries
                )
                assert len(found) == 1, f"{name} has {len(found)} entries"
                kinds = ("function", "class") if callable(getattr(of, name)) else ("attribute",)
                assert found[0] in kinds, f"{name} is shown as a {found[0]}"
    assert entries.count("<math") > 10  # Equations are drawn by the browser itself.
    assert ":class:`" not in entries
    assert "METHOD" not in entries  # A reader is told what the default is, not what it is called inside.
    assert "anchored-kec" in entries
    assert "``" not in re.sub(r"<[^>]+>", "", entries)


def test_every_public_name_has_an_example():
    """The examples run with all others of the docstrings."""
    for module in (gf, *MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                assert ">>> " in (inspect.getdoc(thing) or ""), f"{module.__name__}.{name}"


PAGES = (
    "index",
    "concepts",
    "methods",
    "speed",
    "results",
    "howto/own-model",
    "reference/explain",
    "tutorials/compare",
)


@pytest.mark.parametrize(
    ("page", "scheme"),
    [*((page, "light") for page in PAGES), *((page, "dark") for page in ("methods", "reference/explain"))],
)
def test_a_page_opens_from_disk_without_a_request_and_axe_finds_nothing_serious(site, browser, page, scheme):
    with watched(browser, color_scheme=scheme) as one:
        one.page.goto((site / f"{page}.html").as_uri())
        one.page.wait_for_selector("h1")
        assert all(address.startswith(("file://", "data:", "blob:")) for address in one.requests)
        assert one.complaints == []
        for closed in one.page.locator("details:not([open]) > summary").all()[:3]:
            closed.click()  # What is behind a fold is read as well.
        assert serious(one.page) == []


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(site, browser, scheme):
    with watched(browser, color_scheme=scheme) as one:
        for page in sorted(set(site.rglob("*.html")) - {site / "404.html"}):
            one.page.goto(page.as_uri())
            one.page.wait_for_selector("h1")
            one.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            assert serious(one.page) == [], page.name


@pytest.mark.parametrize(
    "page", ["index", "concepts", "methods", "anchored", "results", "reference/metric", "reference/methods"]
)
def test_a_page_fits_a_phone(site, browser, page):
    with watched(browser) as one:
        one.page.set_viewport_size({"width": 390, "height": 844})
        one.page.goto((site / f"{page}.html").as_uri())
        one.page.wait_for_selector("h1")
        assert one.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_long_tables_of_numbers_are_behind_a_fold(site):
    folded = 0
    for page in sorted(site.rglob("*.html")):
        text = page.read_text()
        folded += text.count("rows)</summary>")
        shown = re.sub(r"<details.*?</details>", "", text, flags=re.S)
        for table in re.findall(r"<table>.*?</table>", shown, flags=re.S):
            rows = table.split("<tr>")[2:]
            cells = [cell for row in rows for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.S)[1:]]
            numbers = sum(re.match(r"(?:<strong>)?-?\d", cell) is not None for cell in cells)
            assert len(rows) <= 7 or 2 * numbers < len(cells), f"{page.name}: {table[:200]}"
    assert folded > 50
    assert "<summary>" not in (site / "methods.html").read_text()  # What a page is about is not hidden.
    assert "<summary>" not in (site / "neighborhoods.html").read_text()


def test_search_works_from_disk(site, browser):
    with watched(browser) as one:
        one.page.goto((site / "index.html").as_uri())
        one.page.locator("input.md-search__input").click()
        one.page.keyboard.type("counterfactual", delay=20)
        found = one.page.locator(".md-search-result__item a.md-search-result__link").first
        found.wait_for(timeout=20_000)
        assert "counterfactual" in found.inner_text().lower()
        assert all(address.startswith(("file://", "data:", "blob:")) for address in one.requests)


@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.stem)
def test_a_how_to_runs_as_it_stands(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
    names = {"__name__": page.stem}
    exec(compile("".join(blocks), page.name, "exec", dont_inherit=True), names)
    assert "Delta" in capsys.readouterr().out or "verdict" in names


@needs_data
def test_the_page_on_counterfactuals_runs_and_prints_what_it_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "counterfactuals.md").read_text(), flags=re.S)
    exec(compile(code, "counterfactuals.md", "exec", dont_inherit=True), {"__name__": "counterfactuals"})
    found, edges, features = capsys.readouterr().out.splitlines()
    assert found == re.search(r"print\(found\) +# (.*)", code).group(1)
    assert edges.startswith("[(1725, 2413), (2413, 2415)] 2 1 ")
    assert "becomes" in features


def test_the_page_on_shapley_values_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "shapley.md").read_text(), flags=re.S)
    names = {"__name__": "shapley"}
    exec(compile(code, "shapley.md", "exec", dont_inherit=True), names)
    of_nodes = names["explanation"]
    assert "ScoredEdge" in capsys.readouterr().out
    assert float(of_nodes.node_mask.sum()) == pytest.approx(of_nodes.value_of_all - of_nodes.value_of_none, rel=1e-4)


def shorter(code):
    """A cell with the numbers of its short form: ``nodes = "all"  # shorter: "0:9"``."""
    return re.sub(r"^(\w+) = .*?  # shorter: (.*)$", r"\1 = \2", code, flags=re.M)


@pytest.mark.parametrize("length", ["short", pytest.param("long", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "notebook",
    [pytest.param(path, marks=needs_data) if path.stem == "molecules" else path for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_tutorial_runs(notebook, length, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    torch.manual_seed(0)
    names = {"__name__": "tutorial"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A notebook shows them; they are not what it is about.
        for cell in nbformat.read(notebook, as_version=4).cells:
            if cell.cell_type == "code":
                code = shorter(cell.source) if length == "short" else cell.source
                exec(compile(code, notebook.name, "exec", dont_inherit=True), names)


@needs_data
@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_takes_no_longer_than_it_says(notebook, tmp_path):
    """Each in a process of its own, as a reader runs it, in less than a minute on two cores.

    Where others work on the machine, the clock counts their work too; then the processor's time has to be less.
    """
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    script = tmp_path / f"{notebook.stem}.py"
    script.write_text("\n\n".join(cells))
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "MPLBACKEND": "agg", "COLUMNS": "120"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{notebook.stem}: {seconds:.0f} s, {processor:.0f} s of the processor")
    assert min(seconds, processor) < 60
    # What the page shows is what is printed, but for digits and for tables, which are as wide as the screen.
    printed = {masked(line) for line in done.stdout.splitlines()}
    for line in shown_by(notebook):
        assert masked(line) in printed, line


def test_the_table_of_tutorials_has_each_and_none_takes_a_minute():
    rows = re.findall(
        r"^\| \[.*\]\(([\w-]+)\.md\) \| (\d+) \| (\d+) \|$", (DOCS / "tutorials" / "index.md").read_text(), re.M
    )
    assert {name for name, _, _ in rows} == {path.stem for path in NOTEBOOKS}
    for name, cells, seconds in rows:
        assert int(cells) == len(nbformat.read(DOCS / "tutorials" / f"{name}.ipynb", as_version=4).cells)
        assert int(seconds) < 60


def shown_by(notebook):
    """The lines that a notebook shows under its cells, without those of tables that are drawn."""
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    texts = [output.text for cell in cells for output in cell.outputs if output.output_type == "stream"]
    return [line for text in texts for line in text.splitlines() if line.strip() and not set(line) & set("│┃┏┡└")]


def masked(line):
    return " ".join(re.sub(r"[-+−]?\d[\d.]*(?:e[-+]?\d+)?", "#", line).split())


def test_the_tutorial_on_checks_shows_as_many_as_there_are():
    (shown,) = [line for line in shown_by(DOCS / "tutorials" / "own-explainer.ipynb") if "checks passed" in line]
    assert shown == f"{len(graphfaith.testing.CHECKS) - 1} of {len(graphfaith.testing.CHECKS)} checks passed"


def test_a_notebook_can_be_downloaded_from_its_page(site):
    for notebook in NOTEBOOKS:
        assert (site / "tutorials" / notebook.name).read_bytes() == notebook.read_bytes()
        assert f'href="{notebook.name}"' in (site / "tutorials" / f"{notebook.stem}.html").read_text()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_is_short_and_was_run(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert 5 <= len(cells) <= 10
    assert len(code) <= 8
    assert cells[0].source.startswith("# ")
    assert "\n**" in cells[0].source  # one message at the top
    for number, cell in enumerate(code, start=1):
        assert cell.execution_count == number
        assert not any(output.output_type == "error" for output in cell.outputs)
    assert any(output.output_type == "stream" for cell in code for output in cell.outputs)
    assert "/tmp" not in notebook.read_text()


def test_every_page_begins_with_one_message():
    """The first paragraph after the title begins with a sentence or two in bold."""
    for page in sorted({*HOWTO, *DOCS.glob("*.md")}):
        title, _, rest = page.read_text().partition("\n\n")
        assert title.startswith("# ")
        assert rest.startswith("**"), page.name
