"""The live view in a real browser: the reader picks, walks, compares and keeps; mistakes are told in words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from browsing import Watched, serious, watched
from graphfaith.facade import Subject
from graphfaith.model.task import Task
from graphfaith.view.live.desk import Desk, Question
from graphfaith.view.live.server import Server
from serving import serving

NAMES = ["hub", "pump", "<i>valve</i>", "tank", "tank too", "drain"]


@pytest.fixture(scope="module")
def desk() -> Desk:
    torch.manual_seed(1)
    path = torch.tensor([[0, 0, 1, 2, 3, 4], [1, 2, 3, 3, 4, 5]])
    data = Data(x=torch.rand(6, 3), edge_index=torch.cat([path, path.flip(0)], dim=1), node_names=NAMES)
    return Desk(Subject(GCN(3, 8, num_layers=2, out_channels=3).eval(), data), "plant", samples=20, test_samples=20)


@pytest.fixture
def server(desk: Desk) -> Iterator[Server]:
    with Server(desk, desk.start(Question(0, ("kec", "saliency"), "U(A,0.5)"))) as one:
        thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield one
        finally:
            one.shutdown()
            thread.join()


@pytest.fixture
def seen(browser: Browser, server: Server) -> Iterator[Watched]:
    with watched(browser) as one:
        one.page.goto(server.url)
        one.page.wait_for_selector(".panel")
        yield one
        assert all(url.startswith((f"http://127.0.0.1:{server.port}/", "blob:")) for url in one.requests)
        # The browser itself notes an answer that is an error; the page has told it in words.
        assert [text for text in one.complaints if "Failed to load resource" not in text] == []


@pytest.fixture
def page(seen: Watched) -> Page:
    return seen.page


def explain(page: Page, node: str) -> None:
    page.get_by_label("Node", exact=True).fill(node)
    page.get_by_role("button", name="Explain", exact=True).click()


def test_it_begins_with_an_explanation(page: Page) -> None:
    expect(page.locator("h1")).to_have_text("plant, node 0 (hub)")
    expect(page.locator(".panel h2")).to_have_text(["KEC", "Saliency"])
    expect(page.locator(".panel .trust rect.scores")).to_have_count(2)
    expect(page.locator("#status")).to_contain_text("Explained in")


@pytest.mark.parametrize(
    ("text", "title"), [("3", "node 3 (tank)"), ("tank too", "node 4 (tank too)"), ("<i>valve</i>", "node 2")]
)
def test_a_node_by_id_or_label(page: Page, text: str, title: str) -> None:
    explain(page, text)
    expect(page.locator("h1")).to_contain_text(title)
    assert page.locator("h1 i").count() == 0


def test_a_neighbour_by_double_click(page: Page) -> None:
    node = page.locator(".panel").first.locator(".node", has_text="pump").locator(".disc").bounding_box()
    page.mouse.dblclick(node["x"] + node["width"] / 2, node["y"] + node["height"] / 2)
    expect(page.locator("h1")).to_contain_text("node 1 (pump)")
    assert page.get_by_label("Node", exact=True).input_value() == "pump"
    page.go_back()
    expect(page.locator("h1")).to_contain_text("node 0 (hub)")
    page.go_forward()
    expect(page.locator("h1")).to_contain_text("node 1 (pump)")


def test_a_neighbour_by_key_and_by_button(page: Page) -> None:
    page.get_by_label("Find a node").fill("tank")
    page.get_by_label("Find a node").press("Enter")
    page.get_by_role("button", name="Explain the chosen node").click()
    expect(page.locator("h1")).to_contain_text("node 3 (tank)")
    page.get_by_label("Find a node").fill("hub")
    page.get_by_label("Find a node").press("Enter")
    page.locator(".stage svg").nth(1).press("Enter")
    expect(page.locator("h1")).to_contain_text("node 0 (hub)")
    # The reader is still in the second panel, and can go on.
    assert page.evaluate("document.activeElement === document.querySelectorAll('.stage svg')[1]")


def test_a_walk_takes_what_is_ticked_and_leaves_the_slider(page: Page) -> None:
    page.get_by_label("Edges shown").fill("50")
    page.get_by_role("checkbox", name="KEC", exact=True).uncheck()
    page.get_by_label("Find a node").fill("pump")
    page.get_by_label("Find a node").press("Enter")
    page.get_by_role("button", name="Explain the chosen node").click()
    expect(page.locator("h1")).to_contain_text("node 1 (pump)")
    expect(page.locator(".panel h2")).to_have_text(["Saliency"])
    assert page.get_by_label("Edges shown").input_value() == "50"


def test_an_error_stays_while_the_pointer_wanders(page: Page) -> None:
    explain(page, "nobody")
    expect(page.locator("#wrong")).to_contain_text("nobody")
    page.locator(".panel .disc").first.hover(force=True)
    expect(page.locator("#status")).not_to_have_text("")
    expect(page.locator("#wrong")).to_contain_text("nobody")


def test_other_methods_and_another_neighbourhood(page: Page) -> None:
    page.get_by_role("checkbox", name="KEC", exact=True).uncheck()
    page.get_by_role("checkbox", name="Linear").check()
    page.get_by_role("checkbox", name="GNNExplainer (soft)").check()
    page.get_by_label("Neighbourhood").fill("B(A,0.5)")
    page.get_by_label("Neighbourhood").press("Enter")
    expect(page.locator(".panel h2")).to_have_text(["Linear", "Saliency", "GNNExplainer (soft)"])
    expect(page.locator(".trust").first).to_contain_text("when every edge is dropped with probability 1/2")


def test_an_address_can_be_kept(page: Page, seen: Watched) -> None:
    explain(page, "5")
    expect(page.locator("h1")).to_contain_text("node 5")
    page.reload()
    expect(page.locator("h1")).to_contain_text("node 5 (drain)")


@pytest.mark.parametrize(
    ("label", "text", "words"),
    [
        ("Node", "nobody", "'nobody' is not the id or the name of a node of plant"),
        ("Node", "77", "node 77 is out of range: the graph has nodes 0 to 5"),
        ("Neighbourhood", "U(Z,1)", "U(Z,1)"),
    ],
)
def test_mistakes_in_words(page: Page, label: str, text: str, words: str) -> None:
    page.get_by_label(label, exact=True).fill(text)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#wrong")).to_contain_text(words)
    expect(page.locator(".panel")).to_have_count(2)  # what was there is there still
    explain(page, "3") if label == "Node" else page.get_by_label(label).fill("U(A,0.2)")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#wrong")).to_have_text("")


def test_no_method_is_a_mistake(page: Page) -> None:
    for name in ("KEC", "Saliency"):
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#wrong")).to_have_text("Choose at least one method.")


def test_suggestions(page: Page) -> None:
    page.get_by_label("Node", exact=True).fill("tan")
    expect(page.locator("#found option")).to_have_count(2)
    assert page.eval_on_selector_all("#found option", "all => all.map((one) => one.value)") == ["tank", "tank too"]


def test_downloads(page: Page) -> None:
    explain(page, "pump")
    expect(page.locator("h1")).to_contain_text("node 1")
    with page.expect_download() as found:
        page.get_by_role("button", name="Download JSON").click()
    assert found.value.suggested_filename == "node-1.json"
    with open(found.value.path()) as file:
        assert [row["node"] for row in json.load(file)] == [1, 1]
    with page.expect_download() as found:
        page.get_by_role("button", name="Download SVG").click()
    assert found.value.suggested_filename == "node-1.svg"
    with open(found.value.path()) as file:
        assert "<svg" in file.read()


def test_the_last_question_wins(page: Page, desk: Desk, monkeypatch) -> None:
    slow, whole = threading.Event(), desk.page

    def answer(question: Question, *more: object) -> bytes:
        if question.index == 4:
            slow.wait(10)
        return whole(question, *more)

    monkeypatch.setattr(desk, "page", answer)
    explain(page, "4")
    expect(page.locator("#status")).to_contain_text("Explaining node")
    explain(page, "5")
    expect(page.locator("h1")).to_contain_text("node 5")
    slow.set()
    page.wait_for_timeout(300)
    expect(page.locator("h1")).to_contain_text("node 5")


def test_the_server_is_asked_for_the_node_and_for_lines_without_arrows(page: Page) -> None:
    """It knows all links of a node, of which the page may have some."""
    panel = page.locator(".stage svg").first
    page.get_by_label("Find a node").fill("pump")
    page.get_by_label("Find a node").press("Enter")
    for keys, fields in ((["x"], {"nodes": ["1"]}), (["u", "e", "x"], {"edges": ["0-1"], "directed": ["no"]})):
        with page.expect_response(lambda answer: "/api/what-if" in answer.url) as found:
            for key in keys:
                panel.press(key)
        asked = parse_qs(urlsplit(found.value.url).query)
        assert found.value.status == 200
        names = ("nodes", "edges", "features", "directed")
        assert {name: value for name, value in asked.items() if name in names} == fields
        expect(page.locator("#foretold [data-row=model]")).to_have_count(1)


def test_what_the_reader_has_left_is_no_alarm(page: Page, desk: Desk, monkeypatch) -> None:
    asked, slow, answered = threading.Event(), threading.Event(), desk.page

    def judge(*_: object) -> bytes:
        asked.set()
        slow.wait(10)
        return b"{}"

    def answer(*given: object) -> bytes:
        slow.wait(10)
        return answered(*given)

    monkeypatch.setattr(desk, "judge", judge)
    monkeypatch.setattr(desk, "page", answer)
    panel = page.locator(".stage svg").first
    for key in ("ArrowRight", "e", "x"):
        panel.press(key)
    expect(page.locator("#what-if")).to_have_attribute("aria-busy", "true")
    assert asked.wait(10)
    explain(page, "4")
    page.wait_for_timeout(300)
    assert page.locator("#wrong").inner_text() == ""  # at once: a second later it would be gone again
    assert "Explaining node" in page.locator("#status").inner_text()
    slow.set()
    expect(page.locator("h1")).to_contain_text("node 4")
    assert page.locator("#what-if").get_attribute("aria-busy") is None


def test_a_server_that_is_gone_is_told(browser: Browser, desk: Desk) -> None:
    with watched(browser) as one:
        with Server(desk, desk.start(Question(0, ("saliency",), "U(A,0.5)"))) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            one.page.goto(server.url)
            one.page.wait_for_selector(".panel")
            server.shutdown()
            thread.join()
        explain(one.page, "3")
        expect(one.page.locator("#wrong")).to_contain_text("Is graphfaith view still running?")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, server: Server, scheme: str, width: int) -> None:
    with watched(browser, color_scheme=scheme, bypass_csp=True) as one:
        one.page.set_viewport_size({"width": width, "height": 800})
        one.page.goto(server.url)
        one.page.wait_for_selector(".panel")
        assert serious(one.page) == []
        explain(one.page, "nobody")
        expect(one.page.locator("#wrong")).to_contain_text("nobody")
        assert serious(one.page) == []
        # With something taken away, the model's answer and the tally are there, and a bar's numbers are unfolded.
        one.page.locator("#edges tbody tr").first.click()
        one.page.locator("#take").click()
        expect(one.page.locator("#tally")).to_contain_text("one try so far")
        one.page.locator(".trust summary").first.click()
        assert serious(one.page) == []
        assert one.page.evaluate("document.documentElement.scrollWidth") <= width


def test_neighbourhoods_are_told_in_words(page: Page) -> None:
    words = {option.get_attribute("value"): option.inner_text() for option in page.locator("#nears option").all()}
    assert words["B(A,0.5)"] == "when every edge is dropped with probability 1/2"
    assert all(words.values())
    expect(page.locator("#near-said")).to_have_text("What the model does when every edge weight may move by up to 1/2.")
    # A gradient is fitted in no neighbourhood, and is measured in that of the question.
    expect(page.locator("#near-words")).to_contain_text("when every edge weight may move by up to 1/2")
    page.get_by_label("Neighbourhood").fill("B(A,0.5)")
    expect(page.locator("#near-said")).to_have_text(
        "What the model does when every edge is dropped with probability 1/2."
    )
    page.get_by_label("Neighbourhood").fill("U(A,0.07)")
    expect(page.locator("#near-said")).to_have_text("")


def test_a_number_has_no_class_that_flips(browser: Browser, desk: Desk) -> None:
    subject = Subject(desk.subject.model, desk.subject.data, Task("regression", "raw", "node"))
    other = Desk(subject, "plant", samples=20, test_samples=20)
    with serving(other, Question(0, ("kec",), "U(A,0.5)")) as server, watched(browser) as one:
        one.page.goto(server.url)
        one.page.wait_for_selector(".panel")
        expect(one.page.locator("#what-if")).to_be_visible()
        expect(one.page.locator("#flip")).to_be_hidden()


def test_that_nothing_flips_the_answer_is_said_beside_the_button(page: Page) -> None:
    expect(page.locator("#flip")).to_be_visible()
    page.route("**/api/flip*", lambda route: route.fulfill(json={"found": False, "text": "nothing found"}))
    page.get_by_role("button", name="Smallest change that flips it").click()
    expect(page.locator("#flipped")).to_have_text("Nothing found.")
    expect(page.locator("#status")).to_have_text("")
