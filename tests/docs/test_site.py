"""The site: it builds without a warning, opens without a network, and everything it shows runs."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
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


def test_every_public_name_has_an_entry(site):
    entries = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for module, names in (("public", gf.__all__), ("metric", graphfaith.metric.__all__)):
        for name in names:
            if name != "__version__":
                found = re.findall(rf'id="graphfaith\.(?:{module}|public)\.{name}"', entries)
                assert len(found) == 1, f"{name} has {len(found)} entries"
    assert entries.count("<math") > 10  # Equations are drawn by the browser itself.
    assert ":class:`" not in entries
    assert "``" not in re.sub(r"<[^>]+>", "", entries)


def test_every_public_name_has_an_example():
    """The examples run with all others of the docstrings."""
    for module in (gf, graphfaith.metric):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                assert ">>> " in (inspect.getdoc(thing) or ""), f"{module.__name__}.{name}"


@pytest.mark.parametrize("page", ["index.html", "concepts.html", "reference/explain.html", "howto/own-model.html"])
def test_a_page_opens_from_disk_without_a_request_and_axe_finds_nothing_serious(site, browser, page):
    with watched(browser, color_scheme="light") as one:
        one.page.goto((site / page).as_uri())
        one.page.wait_for_selector("h1")
        assert all(address.startswith(("file://", "data:", "blob:")) for address in one.requests)
        assert one.complaints == []
        assert serious(one.page) == []


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


def shorter(code):
    """A cell with the numbers of its short form: ``nodes = "all"  # shorter: "0:9"``."""
    return re.sub(r"^(\w+) = .*?  # shorter: (.*)$", r"\1 = \2", code, flags=re.M)


QUICK = ("first-node",)  # the others are run by make nightly


@needs_data
@pytest.mark.parametrize(
    "notebook",
    [path if path.stem in QUICK else pytest.param(path, marks=pytest.mark.nightly) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_tutorial_runs(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    torch.manual_seed(0)
    names = {"__name__": "tutorial"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # A notebook shows them; they are not what it is about.
        for cell in nbformat.read(notebook, as_version=4).cells:
            if cell.cell_type == "code":
                exec(compile(shorter(cell.source), notebook.name, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_is_short_and_was_run(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert 5 <= len(cells) <= 16
    assert len(code) <= 8
    assert cells[0].source.startswith("# ")
    assert "\n**" in cells[0].source  # one message at the top
    for number, cell in enumerate(code, start=1):
        assert cell.execution_count == number
        assert not any(output.output_type == "error" for output in cell.outputs)
    assert any(output.output_type == "stream" for cell in code for output in cell.outputs)
    assert "/tmp" not in notebook.read_text()


def test_every_page_begins_with_one_message():
    """The first paragraph after the title is one sentence or two in bold."""
    for page in (*HOWTO, *(DOCS / f"{name}.md" for name in ("concepts", "methods", "neighborhoods", "cite"))):
        title, _, rest = page.read_text().partition("\n\n")
        assert title.startswith("# ")
        assert rest.startswith("**"), page.name
