"""The page and the live view in two engines, Chromium and Firefox: fold, take away, undo, tally, flip and share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser
from torch_geometric.explain import Explanation

import graphfaith as gf
from engines import ChromiumReader, Firefox, FirefoxReader, Reader, started_firefox, wait
from graphfaith.explanation.signed import SignedExplanation
from graphfaith.view.live.desk import Desk, Question
from graphfaith.view.live.server import Server
from hubs import FEATURES, HOSTILE, hub_subject
from serving import serving
from showing import as_shown

SHOWN = "[...document.querySelectorAll('.panel')].map((one) => one.querySelectorAll('.node:not([hidden])').length)"
OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll(".panel:first-child .name:not([hidden])")].map((one) => one.getBoundingClientRect());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
})()"""  # noqa: E501


AWAY = """(() => {
  const [s, d] = [".stage", ".node.explained .disc"].map((one) => document.querySelector(one).getBoundingClientRect());
  return [(d.left + d.right - s.left - s.right) / 2 / s.width, (d.top + d.bottom - s.top - s.bottom) / 2 / s.height];
})()"""


@pytest.fixture(scope="module")
def explanations() -> list[SignedExplanation]:
    subject = hub_subject()
    methods = ("anchored-kec", "saliency")
    return [subject.explain(0, method, "B(A,0.5)", samples=100, test_samples=100) for method in methods]


@pytest.fixture(scope="module")
def file(explanations: list[SignedExplanation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "hub.html"
    gf.page(explanations, path)
    return path


@pytest.fixture(scope="module")
def firefox() -> Iterator[Firefox]:
    with started_firefox() as one:
        yield one


@pytest.fixture(params=["chromium", "firefox"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    """Someone at a page that must complain of nothing."""
    if request.param == "chromium":
        one: Any = ChromiumReader(request.getfixturevalue("browser"), accept_downloads=True)
    else:
        one = FirefoxReader(request.getfixturevalue("firefox"))
    yield one
    one.look("1")  # so that what the page has said by now is heard
    one.close()
    assert one.complaints == []


def text(reader: Reader, selector: str) -> str:
    return str(reader.look(f"document.querySelector({selector!r}).textContent"))


def settled(reader: Reader, places: str) -> Any:
    """Return places on the screen once two frames in a row agree: a click at a mark that still moves is lost."""
    return reader.look(
        f"""new Promise((done) => {{
          const look = (before) => requestAnimationFrame(() => {{
            const now = {places};
            if (JSON.stringify(now) === JSON.stringify(before)) done(now); else look(now);
          }});
          look(null);
        }})"""
    )


def click(reader: Reader, selector: str) -> None:
    """Click the middle of an element."""
    place = f"document.querySelector({selector!r})"
    reader.look(f"{place}.scrollIntoView({{ block: 'center' }}) ?? 0")
    box = settled(
        reader, f"(({{ left, top, width, height }}) => [left, top, width, height])({place}.getBoundingClientRect())"
    )
    reader.click(box[0] + box[2] / 2, box[1] + box[3] / 2)


def click_edge(reader: Reader, source: int, sink: int) -> None:
    """Click an edge of the first panel, a third of the way along it."""
    middles = "['%d', '%d'].map((i) => { const b = document.querySelector(`.node[data-node='${i}'] .disc`).getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })"  # noqa: E501
    reader.look("document.querySelector('.stage').scrollIntoView({ block: 'center' }) ?? 0")
    (x, y), (u, v) = settled(reader, middles % (source, sink))
    reader.click(x + (u - x) * 0.45, y + (v - y) * 0.45)


def open_file(reader: Reader, path: Path, state: str = "") -> None:
    reader.open(path.as_uri() + state)
    wait(reader, "document.querySelector('.panel') !== null")


def focus_panel(reader: Reader) -> None:
    reader.look("document.querySelector('.stage svg').focus() ?? 0")


class TestThePage:
    def test_a_fold_opens_and_closes(self, reader: Reader, file: Path) -> None:
        open_file(reader, file)
        first = reader.look(SHOWN)
        assert first[0] == first[1] <= 35
        click(reader, ".fold")
        opened = wait(reader, f"(found => found[0] > {first[0]} && found)({SHOWN})")
        assert opened[0] == opened[1] == 71
        click(reader, ".fold")
        wait(reader, f"{SHOWN}[0] === {first[0]}")
        # From the keyboard: to the fold by its direction, and Enter.
        focus_panel(reader)
        reader.press("ArrowRight")
        for _ in range(12):
            if reader.look("document.querySelector('.fold.chosen') !== null"):
                break
            fold, now = (
                reader.look(f"(b => [b.left, b.top])(document.querySelector('{one}').getBoundingClientRect())")
                for one in (".fold .disc", ".stage .chosen .disc")
            )
            across, down = fold[0] - now[0], fold[1] - now[1]
            sideways = "ArrowRight" if across > 0 else "ArrowLeft"
            upright = "ArrowDown" if down > 0 else "ArrowUp"
            reader.press(sideways if abs(across) > abs(down) else upright)
        assert "42 more" in text(reader, "#status") or "more" in text(reader, "#status")
        reader.press("Enter")
        wait(reader, f"{SHOWN}[0] === 71")
        assert "open=0" in reader.look("location.hash")

    def test_no_names_overlap_and_what_is_explained_is_in_the_middle(self, reader: Reader, file: Path) -> None:
        open_file(reader, file)
        for width in (1280, 360):
            reader.resize(width, 800)
            reader.look("new Promise((done) => setTimeout(() => done(0), 250))")
            for _ in range(2):
                assert reader.look("document.querySelectorAll('.panel:first-child .name:not([hidden])').length") > 4
                assert reader.look(OVERLAPS) == 0
                click(reader, ".fold")
                reader.look("new Promise((done) => setTimeout(() => done(0), 250))")
            assert max(map(abs, reader.look(AWAY))) < 0.1
            assert reader.look("document.documentElement.scrollWidth") <= width

    def test_the_fold_with_the_largest_sum_has_its_label(self, reader: Reader, tmp_path: Path) -> None:
        # A hub with 74 links: 54 of them are one fold, which adds up to more than the strongest link.
        pairs = torch.tensor([(0, i) for i in range(1, 75)] + [(i, 74 + i) for i in range(1, 75)]).T
        scores = torch.cat([torch.linspace(1.0, 0.3, 26), torch.full((48,), 0.08), torch.full((74,), 0.002)])
        ends = torch.cat([pairs, pairs.flip(0)], dim=1)
        gf.page(Explanation(edge_index=ends, edge_mask=scores.repeat(2), index=0), tmp_path / "crowd.html")
        open_file(reader, tmp_path / "crowd.html")
        folds = reader.look("JSON.parse(document.getElementById('data').textContent).folds")
        heaviest = max(folds, key=lambda fold: abs(fold["sums"][0]))
        assert heaviest["sums"][0] > 1
        for width in (1280, 360):
            reader.resize(width, 800)
            reader.look("new Promise((done) => setTimeout(() => done(0), 250))")
            names = reader.look("[...document.querySelectorAll('.name:not([hidden])')].map((one) => one.textContent)")
            assert any(name.startswith(f"{heaviest['count']} more") for name in names)
            assert reader.look(OVERLAPS) == 0

    def test_what_is_explained_is_in_the_middle_even_if_all_else_is_at_one_side(
        self, reader: Reader, tmp_path: Path
    ) -> None:
        gf.page(hub_subject().explain(69, "saliency", "B(A,0.5)", test_samples=20), tmp_path / "leaf.html")
        open_file(reader, tmp_path / "leaf.html")
        for width in (1280, 360):
            reader.resize(width, 800)
            assert max(map(abs, reader.look(AWAY))) < 0.1

    def test_what_if_by_mouse_and_by_keyboard(
        self, reader: Reader, file: Path, explanations: list[SignedExplanation]
    ) -> None:
        open_file(reader, file)
        click(reader, "#taking")
        click_edge(reader, 0, 5)
        wait(reader, "document.querySelectorAll('.panel:first-child .edge.gone').length === 1")
        assert HOSTILE in text(reader, "#answer")
        numbers = "[...document.querySelectorAll('#foretold [data-row=scores]')].map((one) => one.textContent)"
        expected = [
            as_shown(explanations[0].what_if([(0, 5)], by="pairs").change),
            as_shown(explanations[1].what_if([(0, 5)], by="scores").change),
        ]
        assert reader.look(numbers) == expected
        click(reader, "#taking")
        # By keyboard: the next link of the explained node, and X; then the node 2 with all its links.
        focus_panel(reader)
        reader.press("Escape")
        reader.press("ArrowRight")
        reader.press("e")
        reader.press("e")
        reader.press("x")
        both = [(0, 5), (0, 2)]
        wait(reader, "document.querySelectorAll('#gone li').length === 2")
        assert reader.look(numbers)[0] == as_shown(explanations[0].what_if(both, by="pairs").change)
        reader.look("(document.getElementById('search').value = '2', document.getElementById('find-it').click()) ?? 0")
        focus_panel(reader)
        reader.press("Delete")
        wait(reader, "document.querySelectorAll('#gone li').length === 3")
        every = [*both, (2, 3)]
        assert reader.look(numbers)[0] == as_shown(explanations[0].what_if(every, by="pairs").change)
        # A feature, from its table.
        row = "[...document.querySelectorAll('#features tbody tr')].find((one) => !one.textContent.includes('absent'))"
        reader.look(f"{row}.focus() ?? 0")
        column = FEATURES.index(reader.look(f"{row}.querySelector('bdi').textContent"))
        reader.press("x")
        wait(reader, "document.querySelectorAll('#gone li').length === 4")
        asked = explanations[0].what_if(every, {(0, column): 0.0}, by="pairs").change
        assert reader.look(numbers)[0] == as_shown(asked)
        # The self-loop of node 5, which makes a pair with the first link.
        loop = "[...document.querySelectorAll('#edges tbody tr')].find((one) => one.textContent.includes('<img') && one.textContent.includes('self-loop'))"  # noqa: E501
        reader.look(f"{loop}.focus() ?? 0")
        reader.press("x")
        wait(reader, "document.querySelectorAll('#gone li').length === 5")
        paired, alone = (
            explanations[0].what_if([*every, (5, 5)], {(0, column): 0.0}, by=by).change for by in ("pairs", "scores")
        )
        assert reader.look(numbers)[0] == as_shown(paired) != as_shown(alone)
        # And back, one after the other.
        focus_panel(reader)
        for left in (4, 3, 2, 1, 0):
            reader.press("u")
            wait(reader, f"document.querySelectorAll('#gone li').length === {left}")
        assert reader.look("document.querySelectorAll('.gone').length") == 0
        assert reader.look("[typeof window.hit, document.images.length]") == ["undefined", 0]
        assert text(reader, "#answer") == ""

    def test_state_is_in_the_address(self, reader: Reader, file: Path) -> None:
        open_file(reader, file)
        click(reader, "#pairs")
        click(reader, "#agreement button")
        focus_panel(reader)
        reader.press("ArrowRight")
        reader.press("e")
        reader.press("x")
        wait(reader, "document.querySelectorAll('#gone li').length === 1")
        state = reader.look("location.hash")
        answer = text(reader, "#answer")
        assert state == "#gone=e0-1&pairs=1&less=0.1"
        open_file(reader, file, state)
        wait(reader, "document.querySelectorAll('#gone li').length === 1")
        assert text(reader, "#answer") == answer
        assert reader.look("document.querySelectorAll('.panel').length") == 3
        assert reader.look("document.querySelectorAll('.panel:first-child .arc').length") > 0
        # What is no state of this page is left out, whatever it is.
        open_file(reader, file, "#gone=e9999-1.nx.f7777.%3Cb%3E&open=77&less=5.9&pairs=1")
        assert reader.look("document.querySelectorAll('#gone li').length") == 0

    def test_it_asks_for_nothing(self, reader: Reader, file: Path) -> None:
        open_file(reader, file)
        for selector in (".fold", "#pairs", "#agreement button", "#taking", "#theme"):
            click(reader, selector)
        click_edge(reader, 0, 5)
        wait(reader, "document.querySelectorAll('#gone li').length === 1")
        assert [url for url in reader.requests if not url.startswith(("file:", "data:", "about:"))] == []


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    desk = Desk(hub_subject(), "hub", samples=100, test_samples=50)
    start = Question(0, ("anchored-kec", "saliency"), "B(A,0.5)")
    with serving(desk, start) as one:
        yield one


class TestTheLiveView:
    def test_take_away_tally_flip_and_share(self, reader: Reader, server: Server) -> None:
        reader.open(server.url)
        wait(reader, "document.querySelectorAll('.panel').length === 2", 60)
        question = server.desk.ask(0, ["anchored-kec", "saliency"], "B(A,0.5)")
        explanation = server.desk._explained(question, lambda: True)[0][0]
        said = json.loads(server.desk.page(question))["headline"]
        assert text(reader, "#headline") == said
        assert text(reader, "#headline").startswith(str(explanation.headline().answer))
        focus_panel(reader)
        reader.press("ArrowRight")
        reader.press("e")
        reader.press("x")
        model = "document.querySelector('#foretold [data-row=model]')?.textContent"
        wait(reader, model)
        asked = explanation.what_if([(0, 1)], check=True)
        assert reader.look(model) == as_shown(asked.actual)
        p = text(reader, "#foretold [data-row=p]")
        assert p.split(" ")[0] == as_shown(asked.change)
        assert "one try so far" in text(reader, "#tally")
        reader.press("u")
        wait(reader, "document.querySelectorAll('#gone li').length === 0")
        click(reader, "#flip")
        wait(reader, "document.querySelector('#answer').classList.contains('flips')")
        found = explanation.counterfactual(5)
        assert text(reader, "#flipped") == f"{found}."
        names = server.desk.subject.data.class_names
        turns = [f"\u2068class {label} ({names[label]})\u2069" for label in (found.before, found.after)]
        assert "its answer turns from {} to {}".format(*turns) in text(reader, "#answer")
        assert "2 tries so far" in text(reader, "#tally")
        address = reader.look("location.href")
        answer = text(reader, "#answer")
        assert re.search(r"gone=e\d+-\d+", address)
        reader.open(address)
        wait(reader, model)
        assert text(reader, "#answer") == answer
        assert all(url.startswith((server.url.split("?")[0], "data:", "about:")) for url in reader.requests)


class TestTheLiveViewByMouse:
    def test_a_fold_opens_and_a_link_is_taken_away(self, reader: Reader, server: Server) -> None:
        reader.open(server.url)
        wait(reader, "document.querySelectorAll('.panel').length === 2", 60)
        first = reader.look(SHOWN)
        click(reader, ".fold")
        wait(reader, f"{SHOWN}[0] === 71")
        click(reader, ".fold")
        wait(reader, f"{SHOWN}[0] === {first[0]}")
        click(reader, "#taking")
        click_edge(reader, 0, 5)
        wait(reader, "document.querySelectorAll('.panel:first-child .edge.gone').length === 1")
        model = "document.querySelector('#foretold [data-row=model]')?.textContent"
        wait(reader, model)
        question = server.desk.ask(0, ["anchored-kec", "saliency"], "B(A,0.5)")
        asked = server.desk._explained(question, lambda: True)[0][0].what_if([(0, 5)], check=True)
        assert reader.look(model) == as_shown(asked.actual)
        assert text(reader, "#foretold [data-row=p]").split(" ")[0] == as_shown(asked.change)
        click_edge(reader, 0, 5)
        wait(reader, "document.querySelectorAll('#gone li').length === 0")
        assert "one try so far" in text(reader, "#tally")


def test_a_saved_copy_has_the_state_inside(browser: Browser, file: Path, tmp_path: Path) -> None:
    reader = ChromiumReader(browser, accept_downloads=True, offline=True)
    try:
        open_file(reader, file, "#gone=e0-5&open=0")
        wait(reader, "document.querySelectorAll('#gone li').length === 1")
        answer = text(reader, "#answer")
        with reader.page.expect_download() as found:
            click(reader, "#keep")
        assert found.value.suggested_filename == "explanation.html"
        found.value.save_as(tmp_path / "copy.html")
        open_file(reader, tmp_path / "copy.html")
        assert text(reader, "#answer") == answer
        assert reader.look(SHOWN)[0] == 71
        # The copy is the same file but for its state, so that the hashes of its policy are right.
        copy = re.sub(r' data-state="[^"]*"', "", (tmp_path / "copy.html").read_text(), count=1)
        for part in (
            r"<style>.*?</style>",
            r"<script>.*?</script>",
            r"<script type.*?</script>",
            r"<meta http-equiv.*?>",
        ):
            assert re.search(part, copy, re.S)[0] == re.search(part, file.read_text(), re.S)[0]
        assert reader.complaints == []
    finally:
        reader.close()
