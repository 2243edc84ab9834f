"""The page in a real browser: it draws, moves, searches, sorts and can be used by anyone, and asks for nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect
from scipy.stats import spearmanr
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.config import ModelConfig
from torch_geometric.nn import GCN

import graphfaith as gf
import typed_toys
from browsing import Watched, serious, watched
from graphfaith.explanation.faithfulness import record_unfaithfulness
from graphfaith.explanation.trust import trust_of
from graphfaith.surrogate.estimate import format_share, format_share_alone
from graphfaith.view.content import page_data
from graphfaith.view.page import render_page
from hubs import HOSTILE as HUB_HOSTILE
from hubs import hub_subject
from showing import as_shown

BLUE, RED = "rgb(33, 102, 172)", "rgb(178, 24, 43)"
HOSTILE = [
    "<script>window.hit = 1</script>",
    '"><img src=x onerror="window.hit = 1">',
    "'; window.hit = 1; '",
    "x" * 5000,
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\U0001f6b0\U0001f4a7 pump",
    "\u202egnp.exe",
    "${window.hit = 1}",
]


def share(relative: float, error: float, neighborhood: str = "U(A,0.5)") -> gf.Unfaithfulness:
    return gf.Unfaithfulness(relative, error, relative, error, 1.0, 500, neighborhood, 1)


def wheel(score: gf.Unfaithfulness | None = share(0.2, 0.05), **fields: object) -> Explanation:  # noqa: B008
    """Node 0 explained, with spokes to 1 to 5 of falling strength; two of them negative."""
    spokes = torch.tensor([[0, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
    edge_index = torch.cat([spokes, spokes.flip(0)], dim=1)
    default = {
        "edge_index": edge_index,
        "edge_mask": torch.tensor([5.0, -4.0, 3.0, -2.0, 1.0]).repeat(2),
        "node_mask": torch.tensor([[0.0], [1.0], [-0.5], [0.25], [0.0], [0.125]]),
        "index": torch.tensor(0),
        "method": "One",
        "node_names": ["hub", "b10", "b9", "b8", "b7", "b6"],
    }
    explanation = Explanation(**(default | fields))
    if score is not None:
        record_unfaithfulness(explanation, score)
    return explanation


def other() -> Explanation:
    return wheel(share(0.8, 0.1), method="Two", edge_mask=torch.tensor([-1.0, 2.0, 3.0, 4.0, 5.0]).repeat(2))


@pytest.fixture
def quiet(browser: Browser) -> Iterator[Watched]:
    """A page without any network that must ask for nothing but itself, and complain of nothing."""
    with watched(browser, offline=True) as one:
        yield one
        assert [url for url in one.requests if not url.startswith("file:")] == []
        assert len(one.requests) == 1
        assert one.complaints == []


@pytest.fixture(scope="module")
def hub() -> list[Explanation]:
    subject = hub_subject()
    return [
        subject.explain(0, method, "B(A,0.5)", samples=100, test_samples=100) for method in ("anchored-kec", "saliency")
    ]


@pytest.fixture
def two(quiet: Watched, tmp_path: Path) -> Page:
    gf.page([wheel(), other()], tmp_path / "two.html")
    return quiet.open(tmp_path / "two.html")


def centre(node: Locator) -> tuple[float, float]:
    box = node.locator(".disc").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def nodes(page: Page, panel: int) -> Locator:
    return page.locator(".panel").nth(panel).locator(".node")


def drag(page: Page, panel: int, x: float, y: float) -> None:
    box = page.locator(".stage svg").nth(panel).bounding_box()
    start = box["x"] + 8, box["y"] + 8
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + x, start[1] + y, steps=4)
    page.mouse.up()
    page.wait_for_timeout(50)  # a frame


def transforms(page: Page) -> list[str]:
    return page.eval_on_selector_all(".stage svg > g", "all => all.map((one) => one.getAttribute('transform'))")


def style(item: Locator, name: str) -> str:
    return item.evaluate(f"one => getComputedStyle(one).getPropertyValue('{name}')")


class TestPanels:
    def test_one_a_method_with_every_node_in_the_same_place(self, two: Page) -> None:
        expect(two.locator(".panel h2")).to_have_text(["One", "Two"])
        places = two.eval_on_selector_all(
            ".panel",
            "all => all.map((one) => [...one.querySelectorAll('.node')].map((n) => n.getAttribute('transform')))",
        )
        assert len(places[0]) == 6
        assert len(set(places[0])) == 6
        assert places[0] == places[1]

    def test_blue_and_solid_or_red_and_dashed(self, two: Page) -> None:
        for panel, signs in ((0, [1, -1, 1, -1, 1]), (1, [-1, 1, 1, 1, 1])):
            found = two.locator(".panel").nth(panel).locator("path.edge")
            by_strength = [1, 2, 3, 4, 5][:: -1 if panel == 0 else 1]
            # Drawn from the weakest to the strongest: one unit of width apart each time.
            widths = [float(found.nth(i).get_attribute("stroke-width")) for i in range(5)]
            assert widths == sorted(widths)
            for i in range(5):
                sign = signs[by_strength[i] - 1]
                assert style(found.nth(i), "stroke") == (BLUE if sign > 0 else RED)
                assert (style(found.nth(i), "stroke-dasharray") == "none") == (sign > 0)

    def test_the_explained_node_is_grey(self, two: Page) -> None:
        hub = nodes(two, 0).nth(0)
        assert "explained" in hub.get_attribute("class")
        colour = [int(part) for part in style(hub.locator(".fill"), "fill")[4:-1].split(",")]
        assert colour[0] == colour[1] == colour[2]

    @pytest.mark.parametrize(
        ("score", "opacities"),
        [
            (None, [1.0, 0.5, 0.25, 0.0, 0.13]),
            (share(0.2, 0.05, "U(X,0.2r)"), [1.0, 0.5, 0.25, 0.0, 0.13]),
            (share(0.2, 0.05, "U(A,0.5)"), [0.0, 0.0, 0.0, 0.0, 0.0]),
        ],
    )
    def test_opacity_is_the_node_s_share_unless_only_edges_were_measured(
        self, quiet: Watched, tmp_path: Path, score: gf.Unfaithfulness | None, opacities: list[float]
    ) -> None:
        gf.page(wheel(score), tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        fills = (nodes(page, 0).nth(i).locator(".fill") for i in range(1, 6))
        assert [float(fill.get_attribute("fill-opacity")) for fill in fills] == opacities
        are_edges_tried = score is None or score.neighborhood == "U(A,0.5)"
        assert (page.locator(".panel .edge.plus").count() > 0) == are_edges_tried

    def test_a_directed_graph_has_arrows(self, quiet: Watched, tmp_path: Path) -> None:
        one_way = Explanation(edge_index=torch.tensor([[0, 1, 2], [1, 2, 1]]), edge_mask=torch.ones(3), index=1)
        gf.page(one_way, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".head")).to_have_count(3)
        assert "\u2192" in page.locator("#edges tbody tr").first.inner_text()

    def test_one_node_alone(self, quiet: Watched, tmp_path: Path) -> None:
        gf.page(
            Explanation(edge_index=torch.empty(2, 0, dtype=torch.long), edge_mask=torch.empty(0), index=0),
            tmp_path / "x.html",
        )
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".node")).to_have_count(1)
        expect(page.locator("#share-said")).to_have_text("0 of 0")
        page.locator("#share").press("ArrowLeft")
        page.locator(".stage svg").press("ArrowRight")


class TestMoving:
    def test_all_panels_follow_a_drag(self, two: Page) -> None:
        before = centre(nodes(two, 0).nth(1)), centre(nodes(two, 1).nth(1))
        drag(two, 0, 40, 25)
        after = centre(nodes(two, 0).nth(1)), centre(nodes(two, 1).nth(1))
        for (x, y), (u, v) in zip(before, after, strict=True):
            assert (u - x, v - y) == pytest.approx((40, 25), abs=1.5)
        assert len(set(transforms(two))) == 1

    def test_only_the_first_button_drags(self, two: Page) -> None:
        still = transforms(two)
        box = two.locator(".stage svg").first.bounding_box()
        two.mouse.move(box["x"] + 8, box["y"] + 8)
        two.mouse.down(button="right")
        two.mouse.move(box["x"] + 60, box["y"] + 60, steps=3)
        two.mouse.up(button="right")
        two.wait_for_timeout(300)
        assert transforms(two) == still

    def test_two_fingers_zoom(self, two: Page) -> None:
        two.evaluate(
            """() => { const stage = document.querySelector('.stage'); const box = stage.getBoundingClientRect();
              stage.setPointerCapture = () => {};
              const fire = (kind, id, x) => stage.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerId: id,
                button: kind === 'pointermove' ? -1 : 0, clientX: box.left + x, clientY: box.top + 50 }));
              fire('pointerdown', 1, 50); fire('pointerdown', 2, 100); fire('pointermove', 2, 150);
              fire('pointerup', 2, 150); fire('pointerup', 1, 50); }"""
        )
        two.wait_for_timeout(300)
        assert "scale(2.0000)" in transforms(two)[0]
        expect(two.locator(".chosen")).to_have_count(0)

    def test_a_drag_chooses_nothing(self, two: Page) -> None:
        drag(two, 0, 40, 25)
        expect(two.locator(".chosen")).to_have_count(0)

    def test_the_wheel_zooms_about_the_pointer(self, two: Page) -> None:
        spot = centre(nodes(two, 1).nth(2))
        two.mouse.move(*spot)
        two.mouse.wheel(0, -400)  # which is for the page, as long as the reader is not in the panel
        two.wait_for_timeout(300)
        assert "scale(1.0000)" in transforms(two)[0]
        two.evaluate("scrollTo(0, 0)")
        two.locator(".stage svg").nth(1).focus()
        two.mouse.wheel(0, -400)
        two.wait_for_timeout(30)
        assert centre(nodes(two, 1).nth(2)) == pytest.approx(spot, abs=2)  # at once
        two.wait_for_timeout(300)
        assert centre(nodes(two, 1).nth(2)) == pytest.approx(spot, abs=2)  # and when it is drawn anew
        assert "scale(2.7183)" in transforms(two)[0]
        assert len(set(transforms(two))) == 1

    def test_buttons_and_keys(self, two: Page) -> None:
        still = transforms(two)[0]
        for closer, back in (("button", "button"), ("key", "key")):
            two.get_by_role("button", name="Zoom in").click() if closer == "button" else two.locator(".stage svg").nth(
                1
            ).press("+")
            two.wait_for_timeout(50)
            assert "scale(1.2500)" in transforms(two)[0]
            two.get_by_role("button", name="Show all").click() if back == "button" else two.locator(".stage svg").nth(
                0
            ).press("0")
            two.wait_for_timeout(50)
            assert transforms(two) == [still, still]


class TestChoosing:
    def test_hovering_is_shared(self, two: Page) -> None:
        two.mouse.move(*centre(nodes(two, 0).nth(1)))
        for panel in (0, 1):
            expect(nodes(two, panel).nth(1)).to_have_class("node hot")
        # The samples of both scores have moved edges alone.
        said = ("\u2068One\u2069 +1.00 (not measured)", "\u2068Two\u2069 +1.00 (not measured)")
        expect(two.locator("#status")).to_have_text(f"\u2068b10\u2069: {', '.join(said)}")
        two.mouse.move(5, 5)
        expect(two.locator(".hot")).to_have_count(0)
        expect(two.locator("#status")).to_have_text("")

    def test_a_node_is_chosen_in_every_panel_and_in_the_table(self, two: Page) -> None:
        two.mouse.click(*centre(nodes(two, 1).nth(2)))
        for panel in (0, 1):
            assert "chosen" in nodes(two, panel).nth(2).get_attribute("class")
        expect(two.locator("#nodes tr.chosen")).to_have_count(1)
        assert two.locator("#nodes tr.chosen th").inner_text() == "b9"
        two.mouse.move(5, 5)
        expect(two.locator("#status")).to_have_text(
            "\u2068b9\u2069: \u2068One\u2069 \u22120.500 (not measured), \u2068Two\u2069 \u22120.500 (not measured)"
        )

    def test_scores_that_were_not_measured_are_marked_in_tables_and_panels(self, two: Page) -> None:
        expect(two.locator("#edges thead th")).to_have_text(["Edge", "One", "Two"])
        expect(two.locator("#nodes thead th")).to_have_text(["Node", "One (not measured)", "Two (not measured)"])
        expect(two.locator(".panel").first).to_contain_text(
            "Largest scores: edges ±10, nodes ±1 (not measured, not drawn)"
        )

    def test_an_edge_is_chosen_by_a_click_near_it(self, two: Page) -> None:
        (x, y), (u, v) = centre(nodes(two, 0).nth(0)), centre(nodes(two, 0).nth(3))
        two.mouse.click((x + u) / 2 + 1, (y + v) / 2 + 1)
        expect(two.locator(".edge.chosen")).to_have_count(2)
        assert two.locator("#edges tr.chosen").inner_text().split() == ["hub", "\u2013", "b8", "+6.00", "+6.00"]

    def test_a_row_of_the_table_chooses(self, two: Page) -> None:
        two.locator("#edges tbody tr").nth(1).click()
        expect(two.locator(".edge.chosen")).to_have_count(2)

    def test_keys_go_from_node_to_node(self, two: Page) -> None:
        panel = two.locator(".stage svg").first
        panel.press("ArrowRight")
        assert "chosen" in nodes(two, 1).nth(0).get_attribute("class")  # the explained one first
        seen = {0}
        for key in ("ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowDown", "ArrowDown"):
            panel.press(key)
            seen.add(int(two.locator(".node.chosen").first.get_attribute("data-node")))
        assert len(seen) >= 4
        x = centre(two.locator(".node.chosen").first)[0]
        panel.press("ArrowRight")
        assert centre(two.locator(".node.chosen").first)[0] >= x
        panel.press("Escape")
        expect(two.locator(".chosen")).to_have_count(0)

    def test_everything_can_be_reached_with_tab(self, two: Page) -> None:
        reached = []
        for _ in range(40):
            two.keyboard.press("Tab")
            reached.append(
                two.evaluate(
                    "(d => d.id || d.getAttribute('aria-label') || d.innerText || d.tagName)(document.activeElement)"
                )
            )
        wanted = ["search", "find-it", "share", "closer", "further", "all", "theme"]
        assert reached[0] == "see-agree"
        assert reached[2:6:2] == ["All four numbers"] * 2  # each after its panel
        assert reached[5 : 5 + len(wanted)] == wanted
        assert sum("Arrow keys" in one for one in set(reached)) == 2
        assert "Copy the table of edges" in reached


class TestSearch:
    @pytest.mark.parametrize(("text", "node"), [("b9", 2), ("3", 3), ("B1", 1), ("hub", 0), (" b6 ", 5)])
    def test_by_name_id_or_part(self, two: Page, text: str, node: int) -> None:
        two.get_by_label("Find a node").fill(text)
        two.get_by_label("Find a node").press("Enter")
        assert two.locator(".node.chosen").first.get_attribute("data-node") == str(node)
        box = two.locator(".stage svg").first.bounding_box()
        two.wait_for_timeout(50)
        assert centre(nodes(two, 0).nth(node))[0] == pytest.approx(box["x"] + box["width"] / 2, abs=2)

    def test_what_is_not_there_is_said(self, two: Page) -> None:
        two.get_by_label("Find a node").fill("<b>nobody</b>")
        two.get_by_role("button", name="Find").click()
        expect(two.locator("#wrong")).to_have_text(
            "No node shown here is called \u201c\u2068<b>nobody</b>\u2069\u201d."
        )
        expect(two.locator(".chosen")).to_have_count(0)


class TestSlider:
    def test_the_weakest_edges_go_first_in_each_panel(self, two: Page) -> None:
        slider = two.get_by_label("Edges shown")
        expect(two.locator("#share-said")).to_have_text("5 of 5")
        slider.fill("40")
        expect(two.locator("#share-said")).to_have_text("2 of 5")
        for panel in (0, 1):
            left = two.locator(".panel").nth(panel).locator("path.edge:not([hidden])")
            expect(left).to_have_count(2)
            assert [left.nth(i).get_attribute("stroke-width") for i in range(2)] == ["9.4", "11.4"]
            assert two.locator(".panel").nth(panel).locator("path.edge").first.is_hidden()

    def test_by_key(self, two: Page) -> None:
        slider = two.get_by_label("Edges shown")
        slider.press("Home")
        expect(two.locator("path.edge:not([hidden])")).to_have_count(0)
        slider.press("End")
        expect(two.locator("path.edge:not([hidden])")).to_have_count(10)

    def test_a_chosen_edge_stays(self, two: Page) -> None:
        two.get_by_label("Edges shown").press("Home")
        two.locator("#edges tbody tr").nth(0).click()
        expect(two.locator("path.edge:not([hidden])")).to_have_count(2)

    def test_of_a_tangle_the_strongest_first(self, quiet: Watched, tmp_path: Path) -> None:
        edge_index = torch.combinations(torch.arange(40)).T
        gf.page(
            Explanation(edge_index=edge_index, edge_mask=torch.rand(edge_index.size(1)), index=0), tmp_path / "x.html"
        )
        page = quiet.open(tmp_path / "x.html")
        shown = int(page.locator("#share-said").inner_text().split()[0])
        assert 390 <= shown <= 410

    @pytest.mark.parametrize("size", [1.0, -1.0])
    def test_a_fold_is_labelled_with_its_own_sum(self, quiet: Watched, tmp_path: Path, size: float) -> None:
        """Two panels have two sums, so there a label has none, and the words about the fold have both."""
        rays = torch.stack([torch.zeros(80, dtype=torch.int64), torch.arange(1, 81)])
        scores = torch.cat([torch.full((10,), 5.0), size * torch.linspace(0.05, 0.01, 70)])
        star = Explanation(edge_index=torch.cat([rays, rays.flip(0)], 1), edge_mask=scores.repeat(2), index=0)
        gf.page(star, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        fold = page.evaluate("JSON.parse(document.getElementById('data').textContent).folds[0]")
        assert fold["sums"][0] == pytest.approx(2 * float(scores[[i - 1 for i in fold["members"]]].sum()))
        label = f"{len(fold['members'])} more, {as_shown(fold['sums'][0])}"
        expect(page.locator(".name:not([hidden])", has_text="more")).to_have_text(label)
        page.set_viewport_size({"width": 360, "height": 900})
        expect(page.locator(".name", has_text="more")).to_have_text(f"{len(fold['members'])} more")
        page.set_viewport_size({"width": 1280, "height": 900})
        expect(page.locator(".name", has_text="more")).to_have_text(label)
        gf.page([star, star], tmp_path / "x.html")
        page.goto("about:blank")
        quiet.requests.clear()
        page = quiet.open(tmp_path / "x.html")
        names = page.locator(".name:not([hidden])", has_text="more")
        expect(names).to_have_text([f"{len(fold['members'])} more"] * 2)

    @pytest.mark.parametrize("width", [1280, 360])
    def test_no_name_covers_a_node_or_a_name_at_first_sight(self, quiet: Watched, tmp_path: Path, width: int) -> None:
        """A tree of 200 nodes, most of them folded away, with one strong score and weak ones."""
        draw = torch.Generator().manual_seed(3)
        later = torch.arange(1, 200)
        ends = torch.stack([(later * torch.rand(199, generator=draw) ** 2).long(), later])
        scores = torch.randn(199, generator=draw) * 0.98**later
        scores[0] = 8.0
        tree = Explanation(edge_index=torch.cat([ends, ends.flip(0)], 1), edge_mask=scores.repeat(2), index=0)
        tree.node_names = [f"node {node}" for node in range(200)]
        gf.page(tree, tmp_path / "x.html")
        quiet.page.set_viewport_size({"width": width, "height": 900})
        page = quiet.open(tmp_path / "x.html")
        page.wait_for_selector(".name:not([hidden])")
        box = "(({left, top, right, bottom}) => [left, top, right, bottom])(one.getBoundingClientRect())"
        read = f"all => all.map((one) => {box})"
        names = page.eval_on_selector_all(".name:not([hidden])", read)
        discs = page.eval_on_selector_all(".node:not([hidden]):not(.explained) .disc", read)
        assert len(names) > 12
        assert len(discs) > 15

        def meet(a: list[float], b: list[float]) -> bool:
            return a[0] + 1 < b[2] and b[0] + 1 < a[2] and a[1] + 1 < b[3] and b[1] + 1 < a[3]

        assert not [(a, b) for a in names for b in discs if meet(a, b)]
        assert not [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if meet(a, b)]

    def test_an_opened_fold_has_its_links(self, quiet: Watched, tmp_path: Path) -> None:
        """A star with 900 rays, of which few matter: whoever opens a fold sees all of its links."""
        rays = torch.stack([torch.zeros(900, dtype=torch.int64), torch.arange(1, 901)])
        scores = torch.cat([torch.full((10,), 5.0), torch.linspace(0.001, 0.01, 890)])
        star = Explanation(
            edge_index=torch.cat([rays, rays.flip(0)], dim=1), edge_mask=scores.repeat(2), index=0, x=torch.ones(901, 1)
        )
        gf.page(star, tmp_path / "x.html", max_nodes=901)
        page = quiet.open(tmp_path / "x.html")
        links, said = page.locator("path.edge:not(.spoke):not([hidden])"), page.locator("#share-said")
        first = links.count()
        assert 10 <= first < 40
        expect(said).to_have_text(f"{first} of {first}")
        page.evaluate("location.hash = '#open=0'")
        expect(said).to_have_text("900 of 900")
        expect(links).to_have_count(900)
        page.get_by_label("Edges shown").fill("50")
        expect(links).to_have_count(450)
        page.evaluate("location.hash = '#open='")
        expect(said).to_have_text(f"{round(first / 2)} of {first}")
        expect(links).to_have_count(round(first / 2))


class TestTables:
    def column(self, page: Page, table: str, number: int) -> list[str]:
        return page.eval_on_selector_all(
            f"#{table} tbody tr", f"all => all.map((row) => row.children[{number}].innerText)"
        )

    def test_strongest_first_then_as_asked(self, two: Page) -> None:
        head = two.locator("#edges thead th").nth(1)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert self.column(two, "edges", 1) == ["+10.0", "+6.00", "+2.00", "\u22124.00", "\u22128.00"]
        head.get_by_role("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert self.column(two, "edges", 1) == ["\u22128.00", "\u22124.00", "+2.00", "+6.00", "+10.0"]
        assert two.locator("#edges [aria-sort=ascending]").count() == 1

    def test_names_sort_as_people_count(self, two: Page) -> None:
        two.locator("#nodes thead button").first.click()
        assert self.column(two, "nodes", 0) == ["hub", "b10", "b9", "b8", "b7", "b6"]

    def test_rows_by_key(self, two: Page) -> None:
        two.locator("#nodes").locator("xpath=..").focus()
        two.keyboard.press("ArrowDown")
        two.keyboard.press("ArrowDown")
        assert two.locator("#nodes tr.chosen").count() == 1
        assert two.evaluate("document.activeElement.classList.contains('chosen')")

    def test_a_copy_is_what_a_spreadsheet_takes(self, browser: Browser, tmp_path: Path) -> None:
        gf.page([wheel(), other()], tmp_path / "x.html")
        with watched(browser, permissions=["clipboard-read", "clipboard-write"]) as one:
            page = one.open(tmp_path / "x.html")
            page.get_by_role("button", name="Copy the table of edges").click()
            expect(page.locator("#status")).to_have_text("Edges: copied.")
            lines = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert lines[0] == "Edge\tOne\tTwo"
        assert "hub \u2013 b10\t10\t-2" in lines
        assert len(lines) == 6

    def test_without_a_clipboard_the_table_is_selected(self, two: Page) -> None:
        two.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
        two.get_by_role("button", name="Copy the table of nodes").click()
        expect(two.locator("#status")).to_have_text("Nodes: selected; copy with Ctrl+C.")
        assert "b10" in two.evaluate("getSelection().toString()")

    def test_self_loops_have_rows(self, quiet: Watched, tmp_path: Path) -> None:
        gf.page(wheel(self_loop_score=torch.tensor([0.0, 7.0, 0, 0, 0, 0])), tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        row = page.locator("#edges tbody tr", has_text="self-loop")
        assert row.inner_text().split() == ["b10", "(self-loop)", "+7.00"]
        row.click()
        expect(page.locator("#status")).to_contain_text("(self-loop): \u2068One\u2069 +7.00")

    def test_blanks_come_last(self, quiet: Watched, tmp_path: Path) -> None:
        one = wheel(x=torch.ones(6, 3), node_mask=torch.tensor([[1.0, -2.0, 3.0]]), feature_names=["a", "b", "c"])
        gf.page([one, wheel(method="Two")], tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        assert self.column(page, "features", 1) == ["1.00"] * 3  # the values of the explained node
        assert self.column(page, "features", 3) == ["", "", ""]
        page.locator("#features thead button").nth(2).click()
        assert self.column(page, "features", 2) == ["+3.00", "+1.00", "\u22122.00"]

    def test_the_value_stands_beside_the_score(self, hub: list[Explanation], quiet: Watched, tmp_path: Path) -> None:
        explanation = hub[0]
        gf.page(explanation, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        heads = page.locator("#features thead button").all_inner_texts()
        assert heads[1] == "Value"
        for name, value in zip(self.column(page, "features", 0), self.column(page, "features", 1), strict=True):
            column = explanation.feature_names.index(name.removesuffix(" (absent here)"))
            held = float(explanation.x[0, column])
            assert value == as_shown(held).removeprefix("+")
            assert name.endswith("(absent here)") == (held == 0)
        row = page.locator("#features tbody tr", has_not_text="absent").first
        row.click()
        expect(page.locator("#status")).to_contain_text(f"(here {row.locator('td').first.inner_text()})")

    def test_a_kind_without_scores_is_blank(self, quiet: Watched, tmp_path: Path) -> None:
        gf.page([wheel(), wheel(node_mask=None, method="Edges alone", x=torch.ones(6, 1))], tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        assert set(self.column(page, "nodes", 2)) == {""}


class TestAgreement:
    def test_who_says_the_same_stands_above_the_panels(self, quiet: Watched, tmp_path: Path) -> None:
        scores = torch.tensor([3.0, 2.0, 1.0, 0.5, 0.25])
        ends = torch.stack([torch.zeros(5, dtype=torch.long), torch.arange(1, 6)])
        masks = {"One": scores, "Two": 2 * scores, "Three": -scores}
        shown = [Explanation(edge_index=ends, edge_mask=mask, index=0, method=name) for name, mask in masks.items()]
        gf.page(shown, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        said = page.locator("#agree-said")
        expect(said).to_contain_text("\u2068One\u2069 and \u2068Two\u2069 say the same (rank correlation 1.00); ")
        expect(said).to_contain_text("and \u2068Three\u2069 contradict each other (rank correlation \u22121.00).")
        bottom = said.bounding_box()["y"] + said.bounding_box()["height"]
        assert bottom <= page.locator(".panel").first.bounding_box()["y"]
        page.get_by_role("button", name="Compare all").click()
        expect(page.locator("#agreement button").first).to_be_focused()

    def test_of_one_method_nothing_is_said(self, quiet: Watched, tmp_path: Path) -> None:
        gf.page(wheel(), tmp_path / "x.html")
        expect(quiet.open(tmp_path / "x.html").locator("#agree")).to_be_hidden()


class TestTrust:
    def test_a_bar_is_as_long_as_what_is_explained(self, two: Page) -> None:
        bars = two.locator(".trust rect.scores")
        assert [float(bars.nth(i).get_attribute("width")) for i in range(2)] == [80.0, 20.0]
        assert two.locator(".trust svg").count() == 2  # one bar each, however many numbers there are
        low, high = (
            float(part) for part in two.locator(".trust .whisker").nth(1).get_attribute("d").strip("M").split(" 5H")
        )
        assert (low, high) == (10.0, 30.0)
        numbers = two.locator(".trust .number")
        expect(numbers.first).not_to_be_visible()
        two.locator(".trust summary").first.click()
        expect(numbers.first).to_be_visible()
        missing = ["not measured", "not measured", "these scores are all of it"]
        first, second = "80 % (20 % \u00b1 5 % left)", "20 % (80 % \u00b1 10 % left)"
        expect(numbers).to_have_text([first, *missing, second, *missing])

    def test_not_measured_is_said_in_the_panel(self, quiet: Watched, tmp_path: Path) -> None:
        endless = gf.Unfaithfulness(0.3, 0.0, float("inf"), 0.0, 0.0, 500, "B(A,0.5)", 1)
        gf.page([wheel(), wheel(endless, method="Two"), wheel(None, method="Three")], tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".panel").nth(2).locator(".trust")).to_contain_text("not measured")
        expect(page.locator(".panel").nth(2).locator(".trust svg")).to_have_count(0)
        expect(page.locator(".panel").nth(1).locator(".trust")).to_contain_text("does not change")

    def test_an_estimate_is_marked_in_words_and_in_its_bar(self, quiet: Watched, tmp_path: Path) -> None:
        torch.manual_seed(0)
        ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        model, data = GCN(2, 4, num_layers=2, out_channels=2).eval(), Data(x=torch.rand(4, 2), edge_index=ring)
        explainer = gf.explainer_for(model, data, samples=60)
        estimated, scored = (explainer(torch.rand(4, 2), ring, index=1) for _ in range(2))
        gf.general_unfaithfulness(explainer, scored, "B(A,0.5)", num_samples=50)
        gf.page([estimated, scored], tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".trust rect.scores")).to_have_count(2)
        expect(page.locator(".panel").first.locator(".trust rect.ground.estimate")).to_have_count(1)
        expect(page.locator(".panel").nth(1).locator(".trust rect.estimate")).to_have_count(0)
        expect(page.locator(".panel").first.locator(".trust")).to_contain_text("by the method's own estimate")
        expect(page.locator(".panel").nth(1).locator(".trust rect.whole")).to_have_count(1)

    def test_numbers_are_those_of_the_explanation(self, hub: list[Explanation], quiet: Watched, tmp_path: Path) -> None:
        explanation = hub[0]
        gf.page(explanation, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        record = explanation.unfaithfulness
        left = [
            format_share(record.scores.relative, record.scores.relative_stderr),
            format_share_alone(record.floor, record.scores.relative_stderr),
            format_share(record.pairs.relative, record.pairs.relative_stderr),
            format_share(record.relative, record.relative_stderr),
        ]
        assert page.locator(".trust .number .faint").all_text_contents() == [f" ({text} left)" for text in left]
        # The bar is stacked: each part begins where the one before ends, and the last ends at what p explains.
        parts = [page.locator(f".trust rect.{key}") for key in ("scores", "pairs", "whole")]
        ends = [sum(float(part.get_attribute(name)) for name in ("x", "width")) for part in parts]
        explained = [1 - one.relative for one in (record.scores, record.pairs, record)]
        assert ends == pytest.approx([100 * max(explained[: i + 1]) for i in range(3)], abs=0.11)
        assert [float(part.get_attribute("x")) for part in parts] == pytest.approx([0.0, *ends[:2]], abs=0.11)
        best = page.locator(".trust .most").get_attribute("d")
        assert float(best.split(" ")[0][1:]) == pytest.approx(100 * (1 - record.floor), abs=0.06)
        assert page.locator("#headline").inner_text() == explanation.headline().text
        scores = {(edge.source, edge.sink): edge.score for edge in explanation.top_edges(None)}
        row = page.locator("#edges tbody tr", has_not_text="self-loop").first
        source, sink = (5 if name == HUB_HOSTILE else int(name) for name in row.locator("bdi").all_inner_texts())
        assert row.locator("td").inner_text() == as_shown(scores[source, sink] + scores[sink, source])

    @pytest.mark.parametrize(("most", "words"), [(20, "all links shown here of"), (71, "all links of")])
    def test_a_page_that_is_cut_says_whose_links_go(
        self, hub: list[Explanation], quiet: Watched, tmp_path: Path, most: int, words: str
    ) -> None:
        gf.page(hub[0], tmp_path / "x.html", max_nodes=most)
        page = quiet.open(tmp_path / "x.html")
        page.evaluate("location.hash = '#gone=n1'")
        expect(page.locator("#answer")).to_contain_text(f"Without {words} \u20681\u2069, the score")

    def test_what_is_worse_than_nothing_stays_in_its_bar(self, quiet: Watched, tmp_path: Path) -> None:
        gf.page(wheel(share(40.0, 3.0, "B(A,0.5)")), tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        assert page.locator(".trust rect.scores").get_attribute("width") == "0.0"
        expect(page.locator(".trust")).to_contain_text("no better than no scores")
        page.locator(".trust summary").click()
        bar, number = (page.locator(f".trust {part}").first.bounding_box() for part in ("svg", ".number"))
        assert bar["y"] + bar["height"] <= number["y"]


class TestHostileLabels:
    @pytest.fixture
    def page(self, quiet: Watched, tmp_path: Path) -> Page:
        count = len(HOSTILE)
        ring = torch.stack([torch.arange(count), (torch.arange(count) + 1) % count])
        one = Explanation(
            edge_index=ring, edge_mask=torch.linspace(-1, 1, count), index=0, node_names=HOSTILE, method=HOSTILE[0],
            x=torch.ones(count, count), node_mask=torch.rand(count, count), feature_names=HOSTILE,
            neighborhood=HOSTILE[1],
        )  # fmt: skip
        gf.page([one, one], tmp_path / "x.html", titles=HOSTILE[:2], title=HOSTILE[1])
        return quiet.open(tmp_path / "x.html")

    def test_are_text(self, page: Page) -> None:
        assert page.evaluate("window.hit") is None
        names = page.eval_on_selector_all("#nodes tbody th", "all => all.map((one) => one.textContent)")
        for label in (HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[4], HOSTILE[5], HOSTILE[7]):
            assert label in names
        assert page.locator("#panels script, #tables script, img").count() == 0
        assert page.locator("h1").inner_text() == HOSTILE[1]
        assert page.locator(".panel h2").first.inner_text() == HOSTILE[0]

    def test_a_long_one_does_not_widen_the_page(self, page: Page) -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert (
            max(len(name) for name in page.eval_on_selector_all("#nodes th", "all => all.map((o) => o.textContent)"))
            <= 200
        )

    def test_can_be_chosen_found_and_copied(self, page: Page) -> None:
        for label in HOSTILE[:3]:
            page.get_by_label("Find a node").fill(label)
            page.get_by_label("Find a node").press("Enter")
            expect(page.locator("#status")).to_contain_text(label)
        page.locator("#features thead button").first.click()
        assert page.evaluate("window.hit") is None

    def test_whatever_gets_in_is_not_run(self, browser: Browser, tmp_path: Path) -> None:
        gf.page(wheel(), tmp_path / "x.html")
        with watched(browser) as one:
            page = one.open(tmp_path / "x.html")
            page.evaluate(
                "() => { const s = document.createElement('script'); s.textContent = 'window.hit = 1';"
                " document.body.append(s); const i = document.createElement('img'); i.src = 'https://example.org/x.png';"
                " document.body.append(i); }"
            )
            page.wait_for_timeout(100)
            assert page.evaluate("window.hit") is None
            assert all("Content Security Policy" in complaint for complaint in one.complaints)
            assert len(one.complaints) == 2


class TestKinds:
    def test_a_molecule_has_symbols_and_orders(self, quiet: Watched, tmp_path: Path) -> None:
        """Acetic acid: CH3, C, a double bond to O and a single one to OH; a triple bond is put at the end."""
        bonds = torch.tensor([[0, 1, 1, 3], [1, 2, 3, 4]])
        orders = [1.0, 2.0, 1.5, 3.0]
        acid = Explanation(
            edge_index=torch.cat([bonds, bonds.flip(0)], dim=1), index=1,
            edge_mask=torch.tensor([1.0, -2.0, 3.0, 4.0]).repeat(2), node_kinds=["C", "C", "O", "O", "N"],
            edge_orders=orders * 2, node_mask=torch.ones(5, 1),
        )  # fmt: skip
        data = page_data(acid) | {"labels": ["C", "C1", "O", "O", "N4"]}
        (tmp_path / "x.html").write_text(render_page(data))
        page = quiet.open(tmp_path / "x.html")
        assert page.locator(".symbol").all_text_contents() == ["C", "C", "O", "O", "N"]
        lines = page.evaluate(
            "[...document.querySelector('.stage svg > g').children]"
            ".filter((one) => one.matches('.edge, g:has(> .edge)'))"
            ".map((one) => one.querySelectorAll('.edge').length || 1)"
        )
        assert lines == [1, 2, 2, 3]  # from the weakest to the strongest
        # A label is shown unless it says no more than the symbol, and can be found.
        assert set(page.locator(".name:not([hidden])").all_text_contents()) == {"C1", "N4"}
        page.get_by_label("Find a node").fill("n4")
        page.get_by_label("Find a node").press("Enter")
        expect(page.locator('.node.chosen[data-node="4"]')).to_have_count(1)

    def test_orders_without_kinds(self, quiet: Watched, tmp_path: Path) -> None:
        """They make no atoms of the nodes, and no more than four lines of a link."""
        ends = torch.tensor([[0, 0, 0], [1, 2, 3]])
        scores = torch.tensor([3.0, 2.0, 0.1])
        fields = {"edge_index": torch.cat([ends, ends.flip(0)], dim=1), "edge_mask": scores.repeat(2), "index": 0}
        gf.page(Explanation(**fields, edge_orders=[1.0, 40.0, 1.5] * 2), tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        sizes = page.eval_on_selector_all(".node .disc", "all => all.map((one) => Number(one.getAttribute('r')))")
        assert sizes[1] > sizes[2] > sizes[3]  # Atoms would all be of one size.
        expect(page.locator("path.edge")).to_have_count(1 + 4 + 2)

    @pytest.mark.parametrize("count", [1, 2])
    def test_several_panels_have_only_the_answer_above(
        self, hub: list[Explanation], quiet: Watched, tmp_path: Path, count: int
    ) -> None:
        data, said = page_data(hub[:count]), hub[0].headline()
        (tmp_path / "x.html").write_text(render_page(data))
        page = quiet.open(tmp_path / "x.html")
        assert page.locator("#headline").inner_text() == (said.text if count == 1 else f"{said.answer}.")
        reasons = page.locator(".panel .top .line").all_inner_texts()
        assert reasons == ([] if count == 1 else [one.headline().reasons for one in hub])

    def test_a_link_has_both_ends_in_the_middle(self, quiet: Watched, tmp_path: Path) -> None:
        torch.manual_seed(0)
        ends = torch.tensor([[0] * 20 + [1] * 20, list(range(2, 22)) + list(range(20, 40))])
        link = Explanation(
            edge_index=torch.cat([ends, ends.flip(0)], dim=1), edge_mask=torch.rand(40).repeat(2), index=0,
            edge_label_index=torch.tensor([[0], [1]]), node_mask=torch.rand(40, 1),
        )  # fmt: skip
        link._model_config = ModelConfig("binary_classification", "edge", "raw")
        gf.page(link, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".node.explained")).to_have_count(2)
        expect(page.locator(".asked")).to_have_count(1)
        stage = page.locator(".stage").bounding_box()
        spots = [centre(page.locator(".node.explained").nth(i)) for i in range(2)]
        for axis, side in ((0, "width"), (1, "height")):
            middle = stage["xy"[axis]] + stage[side] / 2
            assert abs(sum(spot[axis] for spot in spots) / 2 - middle) < 0.02 * stage[side]
            assert all(abs(spot[axis] - middle) < 0.25 * stage[side] for spot in spots)


class TestComparing:
    def test_a_click_on_the_matrix_draws_the_difference(
        self, hub: list[Explanation], quiet: Watched, tmp_path: Path
    ) -> None:
        gf.page(hub, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        # Both directions of an edge are one link.
        low, high = hub[0].edge_index.sort(dim=0).values
        link = torch.unique(low * hub[0].num_nodes + high, return_inverse=True)[1]
        sums = [torch.zeros(int(link.max()) + 1).double().index_add_(0, link, one.edge_mask.double()) for one in hub]
        scores = torch.stack([torch.cat([s, one.self_loop_score.double()]) for s, one in zip(sums, hub, strict=True)])
        correlation = spearmanr(*scores[:, scores.any(dim=0)]).statistic
        shown = f"{correlation:.2f}".replace("-", "\u2212")
        expect(page.locator("#agreement td button")).to_have_text([shown, shown])
        page.locator("#agreement button").first.click()
        expect(page.locator(".panel h2")).to_have_text(["AnchoredKEC", "Saliency", "AnchoredKEC less Saliency"])
        expect(page.locator("#difference-said")).to_contain_text(f"rank correlation is {shown}")
        one, other = (panel["edges"] for panel in page_data(hub)["panels"])
        signs = [a - b for a, b in zip(one, other, strict=True)]
        third = page.locator(".panel").nth(2)
        expect(third.locator(".edge.plus:not(.spoke)")).to_have_count(sum(sign > 0 for sign in signs))
        expect(third.locator(".edge.minus:not(.spoke)")).to_have_count(sum(sign < 0 for sign in signs))
        # The mark under the pointer is marked in the difference too, and the panels move together.
        page.mouse.move(*centre(nodes(page, 2).nth(0)))
        expect(page.locator(".node.hot")).to_have_count(3)
        page.get_by_role("button", name="Close").click()
        expect(page.locator(".panel")).to_have_count(2)
        expect(page.locator("#agreement button[aria-pressed=true]")).to_have_count(0)

    def test_the_difference_of_edges_is_drawn_and_says_whose_were_not_measured(
        self, quiet: Watched, tmp_path: Path
    ) -> None:
        second = wheel(share(0.8, 0.1, "U(X,0.2r)"), method="Two", edge_mask=torch.arange(5.0).repeat(2))
        gf.page([wheel(), second], tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".panel").nth(1).locator(".edge.plus, .edge.minus")).to_have_count(0)
        page.locator("#agreement button").first.click()
        expect(page.locator("#difference-said")).to_contain_text("Edge scores of \u2068Two\u2069: not measured.")
        expect(page.locator("#difference-said")).not_to_contain_text("Edge scores of \u2068One\u2069")
        assert page.locator(".panel").nth(2).locator(".edge.plus, .edge.minus").count() > 0

    def test_one_explanation_has_no_matrix(self, hub: list[Explanation], quiet: Watched, tmp_path: Path) -> None:
        gf.page(hub[0], tmp_path / "x.html")
        assert quiet.open(tmp_path / "x.html").locator("#compare").is_hidden()

    def test_arcs_have_a_sentence_each(self, hub: list[Explanation], quiet: Watched, tmp_path: Path) -> None:
        gf.page(hub[0], tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        expect(page.locator(".arc")).to_have_count(0)
        page.get_by_role("button", name="Interactions").click()
        sentences = page.locator("ol.pairs li").all_inner_texts()
        pairs = [str(pair) for pair in hub[0].interactions(hub[0].unfaithfulness.num_pairs)]
        assert len(sentences) > 2
        assert set(sentences) <= set(pairs)
        expect(page.locator(".arc")).to_have_count(len(sentences))
        page.locator("ol.pairs button").nth(1).focus()
        assert "hot" in page.locator(".arc").nth(1).get_attribute("class")


class TestWhatIf:
    @pytest.mark.parametrize("near", ["B(A,0.5)", "R(A,5)", "U(X,0.2r)xU(A,0.5)"])
    def test_any_set_is_foretold_as_by_the_api(self, quiet: Watched, tmp_path: Path, near: str) -> None:
        subject = hub_subject()
        explanation = subject.explain(0, "anchored-kec", near, samples=100, test_samples=50)
        gf.page(explanation, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        edges = [(a, b) for a, b in subject.data.edge_index.T.tolist() if a < b]
        draw = random.Random(0)
        for size in (1, 2, 3, 5, 8):
            gone, loops = draw.sample(edges[:12], size), draw.sample(range(9), size // 2)
            features = draw.sample(range(3), size % 3)
            words = [f"e{a}-{b}" for a, b in gone] + [f"l{v}" for v in loops] + [f"f{c}" for c in features]
            page.evaluate(f"location.hash = '#gone={'.'.join(words)}'")
            expect(page.locator("#gone li")).to_have_count(len(words))
            last = page.locator("#foretold dt").last.inner_text()
            by = "pairs" if "pairs" in last else "scores"
            values = {(0, column): 0.0 for column in features}
            asked = explanation.what_if([*gone, *((v, v) for v in loops)], values, by=by)
            shown = page.locator("#foretold [data-row=scores]").inner_text()
            assert shown == as_shown(asked.change)
            # How far that may be believed stands beside it, as measured.
            rows = {row.key: row.text for row in trust_of(explanation).rows}
            miss = (
                "(not measured)"
                if features and "X" not in near
                else f"(misses {rows[by]} of the model\u2019s reaction)"
            )
            assert miss in page.locator("#foretold .number").last.inner_text()

    def test_of_one_thing_p_speaks_first(self, quiet: Watched, tmp_path: Path) -> None:
        subject = hub_subject()
        explanation = subject.explain(0, "anchored-kec", "B(A,0.5)", samples=100, test_samples=50)
        gf.page(explanation, tmp_path / "x.html")
        page = quiet.open(tmp_path / "x.html")
        column = next(c for c in range(3) if subject.data.x[0, c])
        for word, remove, values in (
            ("e0-5", [(0, 5)], {}), ("l0", [(0, 0)], {}), ("n2", [(0, 2), (2, 3)], {}),
            (f"f{column}", [], {(0, column): 0.0}),
        ):  # fmt: skip
            page.evaluate(f"location.hash = '#gone={word}'")
            expect(page.locator("#gone li")).to_have_count(1)
            asked = explanation.what_if(remove, values)
            error = "" if not asked.stderr else f" \u00b1 {asked.stderr:.2g}"
            first = page.locator("#foretold dt").first
            assert first.inner_text() == "p, the model of the explanation"
            assert page.locator("#foretold [data-row]").first.inner_text() == as_shown(asked.change) + error
            assert f"to change by {as_shown(asked.change)}" in page.locator("#answer").inner_text()
        page.evaluate("location.hash = '#gone=e0-5.e0-2'")
        expect(page.locator("#gone li")).to_have_count(2)
        expect(page.locator("#foretold [data-row=p]")).to_have_count(0)
        assert "which misses" in page.locator("#answer").inner_text()


class TestFrame:
    @pytest.mark.parametrize("width", [282, 320, 620, 1100])
    def test_it_fits_at_any_width(self, hub: list[Explanation], browser: Browser, tmp_path: Path, width: int) -> None:
        (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><body>{gf.page(hub[0])._repr_html_()}</body>")
        with watched(browser) as one:
            one.page.set_viewport_size({"width": width, "height": 900})
            one.page.goto((tmp_path / "notebook.html").as_uri())
            frame = one.page.frames[1]
            frame.wait_for_selector(".panel")
            one.page.wait_for_timeout(300)
            disc = frame.evaluate(
                "(({ top, bottom, left, right }) => [left, top, right, bottom])"
                "(document.querySelector('.node.explained .disc').getBoundingClientRect())"
            )
            wide, high = frame.evaluate("[innerWidth, innerHeight]")
            assert disc[0] > 0
            assert disc[1] > 0
            assert disc[2] < wide
            assert disc[3] < high
            assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
            # What the sandbox forbids is not offered, and the rest works.
            assert frame.locator("#keep").is_hidden()
            frame.locator(".stage svg").press("ArrowRight")
            frame.locator(".stage svg").press("e")
            frame.locator(".stage svg").press("x")
            expect(frame.locator("#gone li")).to_have_count(1)
            assert one.complaints == []


class TestForEveryone:
    @pytest.mark.parametrize("width", [1280, 360])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing_serious(
        self, hub: list[Explanation], browser: Browser, tmp_path: Path, scheme: str, width: int
    ) -> None:
        gf.page(hub, tmp_path / "x.html")
        with watched(browser, color_scheme=scheme, bypass_csp=True) as one:  # so that axe itself may run
            one.page.set_viewport_size({"width": width, "height": 800})
            page = one.open(tmp_path / "x.html")
            assert serious(page) == []
            # Now with everything that a reader can add: arcs, a difference, an open fold, and something gone.
            for name in ("Interactions", "Clicks take away"):
                page.get_by_role("button", name=name).click()
            page.locator("#agreement button").first.click()
            page.locator("#nodes tbody tr").nth(1).click()
            page.locator(".stage svg").first.press("ArrowRight")
            page.locator(".stage svg").first.press("e")
            page.locator(".stage svg").first.press("x")
            expect(page.locator("#gone li")).to_have_count(2)
            assert serious(page) == []

    def test_it_has_landmarks_and_a_language(self, two: Page) -> None:
        for role in ("main", "banner", "contentinfo", "search"):
            expect(two.get_by_role(role)).to_have_count(1)
        assert two.locator("html").get_attribute("lang") == "en"

    def test_light_and_dark(self, browser: Browser, tmp_path: Path) -> None:
        gf.page(wheel(), tmp_path / "x.html")
        for scheme, first in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 27)")):
            with watched(browser, color_scheme=scheme) as one:
                page = one.open(tmp_path / "x.html")
                assert style(page.locator("body"), "background-color") == first
                page.get_by_role("button", name="Light or dark").click()
                assert style(page.locator("body"), "background-color") != first

    def test_on_a_telephone(self, browser: Browser, tmp_path: Path) -> None:
        two = [wheel(method="GNNExplainer (soft)"), wheel(method="AnchoredKEC", neighborhood="U(X,0.5r)xU(A,0.5)")]
        gf.page([*two, *two], tmp_path / "x.html")
        with watched(browser, bypass_csp=True) as one:
            one.page.set_viewport_size({"width": 360, "height": 740})
            page = one.open(tmp_path / "x.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            assert page.locator(".trust svg").first.bounding_box()["width"] > 200
            assert serious(page) == []

    def test_it_prints(self, two: Page) -> None:
        two.get_by_role("button", name="Light or dark").click()
        assert style(two.locator("body"), "color") == "rgb(236, 236, 236)"
        two.emulate_media(media="print", color_scheme="dark")
        assert style(two.locator("body"), "color") == "rgb(0, 0, 0)"
        assert style(two.locator("path.edge").first, "stroke") in (BLUE, RED)
        assert two.locator("#find").is_hidden()
        assert two.locator(".panel").first.is_visible()
        pdf = two.pdf()
        assert pdf.startswith(b"%PDF")
        assert 1 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 3

    def test_without_scripts_it_says_so(self, browser: Browser, tmp_path: Path) -> None:
        gf.page(wheel(), tmp_path / "x.html")
        with watched(browser, java_script_enabled=False) as one:
            one.page.goto((tmp_path / "x.html").as_uri())
            assert "not letting run" in one.page.inner_text("main")


class TestTypes:
    """A graph of several types of nodes: each has a shape and a colour of its own, which the legend names."""

    @pytest.fixture
    def typed(self, quiet: Watched, tmp_path: Path) -> Page:
        data = typed_toys.as_data(*typed_toys.graph())
        explanation = gf.explain(typed_toys.make("sage"), data, 5, samples=60, test_samples=20)
        gf.page(explanation, tmp_path / "typed.html")
        return quiet.open(tmp_path / "typed.html")

    def test_the_legend_names_every_type_beside_its_shape(self, typed: Page) -> None:
        keys = typed.locator("#type-note .type-key")
        expect(keys).to_have_text(["paper", "word", "author"])
        expect(keys.first).to_be_visible()
        shapes = [keys.nth(i).locator(".type") for i in range(3)]
        assert [one.evaluate("one => one.tagName") for one in shapes] == ["circle", "path", "path"]
        assert [corners(one) for one in shapes[1:]] == [4, 3]
        assert len({style(one, "stroke") for one in shapes}) == 3

    def test_every_node_has_the_shape_of_its_type(self, typed: Page) -> None:
        kinds = {"paper": (0, "circle", 0), "word": (1, "path", 4), "author": (2, "path", 3)}
        seen = set()
        for i in range(nodes(typed, 0).count()):
            node = nodes(typed, 0).nth(i)
            kind = node.locator("title").text_content().split()[0]
            place, tag, count = kinds[kind]
            shape = node.locator(".type")
            expect(shape).to_have_count(1)
            assert f"type-{place}" in shape.get_attribute("class")
            assert shape.evaluate("one => one.tagName") == tag
            assert corners(shape) == count
            # The disc with the score lies within the shape.
            assert shape.bounding_box()["width"] > node.locator(".disc").bounding_box()["width"]
            seen.add(kind)
        assert seen == set(kinds)

    def test_names_cover_no_shape_of_another_node(self, typed: Page) -> None:
        boxes = [nodes(typed, 0).nth(i).locator(".type").bounding_box() for i in range(nodes(typed, 0).count())]
        named = 0
        for name in typed.locator(".panel").first.locator("text.name:not([hidden])").all():
            box, owner = name.bounding_box(), name.text_content()
            for i, other in enumerate(boxes):
                if nodes(typed, 0).nth(i).locator("title").text_content() != owner:
                    across = min(box["x"] + box["width"], other["x"] + other["width"]) - max(box["x"], other["x"])
                    up = min(box["y"] + box["height"], other["y"] + other["height"]) - max(box["y"], other["y"])
                    assert min(across, up) < 1.5, (owner, i)
            named += 1
        assert named > 3

    def test_a_page_of_one_type_has_no_shapes(self, two: Page) -> None:
        expect(two.locator(".type")).to_have_count(0)
        expect(two.locator("#type-note")).to_be_empty()

    def test_it_has_no_serious_faults_of_accessibility(self, typed: Page) -> None:
        assert serious(typed) == []


def corners(shape: Locator) -> int:
    """How many corners a shape has; 0 of a circle."""
    return (shape.get_attribute("d") or "").replace("M", "L").count("L")
