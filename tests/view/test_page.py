"""The page as a file: what it holds, what it forbids, and how large it gets."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources

import pytest
import torch
from matplotlib.text import Text
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith._base.errors import InputError, OutputError
from graphfaith.explanation.faithfulness import record_unfaithfulness
from graphfaith.surrogate.estimate import format_share
from graphfaith.view.content import MOST_EDGES, page_data
from graphfaith.view.layout import lay_out
from graphfaith.view.page import as_script

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def small(**fields: object) -> Explanation:
    default = {"edge_index": PATH, "edge_mask": torch.tensor([0.5, 0.5, -2.0, 0.0]), "index": 1}
    return Explanation(**(default | fields))


def data_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


class TestPolicy:
    def test_names_the_style_and_the_script_that_are_there_and_nothing_else(self) -> None:
        text = gf.page(small())
        policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
        rules = dict(part.split(" ", 1) for part in policy.split("; "))
        parts = {
            "style-src": [r"<style>(.*?)</style>", r"<template.*?<style>(.*?)</style>"],
            "script-src": [r"<script>(.*?)</script>", r'<script type="text/plain" id="code">(.*?)</script>'],
        }
        for kind, patterns in parts.items():
            inside = [re.search(pattern, text, re.S)[1] for pattern in patterns]
            digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in inside]
            assert rules[kind] == " ".join(f"'sha256-{digest}'" for digest in digests)
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert "connect-src" not in rules
        assert "unsafe" not in policy

    def test_no_address_of_anything_else(self) -> None:
        addresses = set(re.findall(r"https?://[^\s\"'<>)]+", gf.page(small())))
        assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nothing fetches

    @pytest.mark.parametrize("label", ["</script><script>alert(1)</script>", "<!--", "&amp;", "\u2028", "\ud800"])
    def test_a_label_cannot_leave_the_data(self, label: str) -> None:
        text = gf.page(small(node_names=[label, "b", "c"]), title=label)
        assert len(re.findall("</script", text, re.I)) == 3
        assert "<!--" not in text
        assert text.isascii()
        text.encode()
        assert data_of(text)["names"][1] == "b"

    def test_json_survives_the_escapes(self) -> None:
        value = {"a": "</script>&<!--", "b": [1.5, None]}
        assert json.loads(as_script(value)) == value


class TestFirstPaint:
    def test_what_the_model_answered_is_there_without_the_script(self) -> None:
        one = small(node_names=["a", "<i>é</i>", "c"])
        text, data = gf.page(one), data_of(gf.page(one))
        body = html.unescape(text[text.index("<body>") : text.index('<script type="application/json"')])
        assert data["headline"]
        for key in ("title", "headline", "near_words", "about"):
            assert data[key] in body
        assert "<i>" not in text
        # Only the few lines that wait for the paint are read before it.
        assert len(re.search(r"<script>(.*?)</script>", text, re.S)[1]) < 600

    def test_only_comments_and_indents_are_left_out_of_the_script(self) -> None:
        assets = resources.files("graphfaith.view").joinpath("assets")
        kept = []
        for file in assets.iterdir():
            if file.name.endswith(".js"):
                text = file.read_text(encoding="utf-8")
                # A text of several lines would lose what looks like a comment or an indent in it.
                assert all(line.count("`") % 2 == 0 for line in text.splitlines()), file.name
                kept += [line.strip() for line in text.splitlines() if not line.strip().startswith("//")]
        code = re.search(r'id="code">(.*?)</script>', gf.page(small()), re.S)[1]
        assert set(code.splitlines()[2:-1]) <= set(kept)
        assert "//" in "".join(kept)  # behind statements

    def test_a_page_stores_nothing_that_its_script_does_not_read(self) -> None:
        torch.manual_seed(0)
        ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
        data = Data(x=torch.rand(6, 3), edge_index=ring, node_kinds=list("CCOCCN"), edge_orders=[1] * 6)
        explanation = gf.explain(GCN(3, 4, num_layers=2, out_channels=3), data, 2, neighborhood="B(A,0.5)")
        text = gf.page([explanation, explanation])
        code = re.search(r'id="code">(.*?)</script>', text, re.S)[1]

        def fields_of(value: object) -> set[str]:
            if isinstance(value, dict):
                return set(value) | {name for one in value.values() for name in fields_of(one)}
            return {name for one in value for name in fields_of(one)} if isinstance(value, list) else set()

        found = fields_of(data_of(text))
        assert {"what_if", "trust", "kinds", "folds", "absent"} <= found
        assert {name for name in found if not re.search(rf"[.{{ (\"]{name}\b", code)} == set()


class TestData:
    def test_scores_can_be_had_back(self) -> None:
        one = small(node_mask=torch.tensor([[3.0], [0.0], [-1.5]]), self_loop_score=torch.tensor([0.0, 1.0, 0.0]))
        data = data_of(gf.page(one))
        panel = data["panels"][0]
        assert data["edges"] == [[0, 1], [1, 2]]
        assert [value * panel["edge_scale"] for value in panel["edges"]] == [1.0, -2.0]
        assert [value * panel["node_scale"] for value in panel["nodes"]] == [3.0, 0.0, -1.5]
        assert [value * panel["edge_scale"] for value in panel["loops"]] == [0.0, 1.0, 0.0]

    def test_unfaithfulness_and_neighbourhood(self) -> None:
        one = small()
        record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "U(A,0.5)", 1))
        trust = data_of(gf.page(one))["panels"][0]["trust"]
        (row,) = trust["rows"]
        assert (row["relative"], row["stderr"], row["text"]) == (0.0763, 0.0091, "7.6 % ± 0.9 %")
        assert trust["estimate"] is False
        assert trust["text"].endswith("of how the model reacts when every edge weight may move by up to 1/2.")

    def test_a_number_of_another_neighbourhood_than_that_of_the_fit_says_so(self) -> None:
        one = small(neighborhood="B(A,0.5)")
        record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "U(A,0.5)", 1))
        assert lay_out(one).panels[0].subtitle == "B(A,0.5) · 7.6 % ± 0.9 % unexplained in U(A,0.5)"
        assert "may move by up to 1/2" in data_of(gf.page(one))["panels"][0]["trust"]["text"]

    def test_a_number_is_shown_only_beside_the_scores_it_is_of(self) -> None:
        torch.manual_seed(0)
        model = GCN(2, 4, num_layers=2, out_channels=2).eval()
        shares = {}
        for method in ("kec", "anchored-kec"):
            explainer = gf.explainer_for(model, Data(x=torch.rand(3, 2), edge_index=PATH), method=method, samples=60)
            explanation = explainer(torch.rand(3, 2), PATH, index=1)
            shares[method] = [data_of(gf.page(explanation))["panels"][0]["trust"]]
            score = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=50)
            shares[method].append(data_of(gf.page(explanation))["panels"][0]["trust"])
            assert shares[method][1]["rows"][0]["relative"] == pytest.approx(score.scores.relative, rel=1e-3)
            assert shares[method][1]["estimate"] is False
            explanation.edge_mask[0] += 1.0
            shares[method].append(data_of(gf.page(explanation))["panels"][0]["trust"])
        assert shares["kec"][::2] == [None, None]
        unscored, _, edited = shares["anchored-kec"]
        assert "by the method's own estimate from few samples" in unscored["text"]
        assert unscored["estimate"] is True
        assert edited is None

    def test_the_bar_is_that_of_the_scores_and_the_rest_is_said_beside_it(self) -> None:
        torch.manual_seed(0)
        ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
        data = Data(x=torch.rand(6, 3), edge_index=ring)
        explanation = gf.explain(GCN(3, 4, num_layers=2, out_channels=3), data, 2, neighborhood="B(A,0.5)")
        record, (panel,) = explanation.unfaithfulness, page_data([explanation])["panels"]
        rows = {row["key"]: row for row in panel["trust"]["rows"]}
        assert rows["scores"]["relative"] == pytest.approx(record.scores.relative, rel=1e-3)
        assert rows["scores"]["relative"] > 1.1 * record.relative
        assert rows["scores"]["text"] == format_share(record.scores.relative, record.scores.relative_stderr)
        assert rows["best"]["relative"] == pytest.approx(record.floor, rel=1e-3)
        assert rows["whole"]["text"] == format_share(record.relative, record.relative_stderr)
        title = " ".join(text.get_text() for text in gf.figure(explanation).findobj(Text))
        assert format_share(record.scores.relative, record.scores.relative_stderr) in title

    def test_features_of_one_name_stay_apart(self) -> None:
        one = small(x=torch.ones(3, 3), node_mask=torch.tensor([[1.0, -4.0, 2.0]]), feature_names=["a", "a", "b"])
        features = data_of(gf.page([one, one]))["features"]
        assert features == [
            {"name": "a", "column": 1, "absent": False, "x": [1.0], "values": [-4.0, -4.0]},
            {"name": "b", "column": 2, "absent": False, "x": [1.0], "values": [2.0, 2.0]},
            {"name": "a", "column": 0, "absent": False, "x": [1.0], "values": [1.0, 1.0]},
        ]

    def test_a_method_of_edges_alone_scores_no_node(self) -> None:
        torch.manual_seed(0)
        model = GCN(2, 4, num_layers=2, out_channels=2).eval()
        explainer = gf.explainer_for(model, Data(x=torch.rand(3, 2), edge_index=PATH), method="pgexplainer")
        explanation = explainer(torch.eye(3)[:, :2], PATH, index=1)
        assert (explanation.node_mask == 1).any()  # which PyG asks for
        data = data_of(gf.page(explanation))
        assert data["panels"][0]["node_scale"] == 0
        assert data["features"] == []

    def test_titles(self) -> None:
        assert data_of(gf.page(small()))["title"] == "What the model looked at for node 1"
        assert data_of(gf.page(small(node_names=["a", "pump", "c"])))["title"] == "What the model looked at for pump"
        data = data_of(gf.page([small(), small()], titles=["one", "two"], title="Mine"))
        assert (data["title"], [panel["title"] for panel in data["panels"]]) == ("Mine", ["one", "two"])

    def test_the_same_explanations_give_the_same_page(self) -> None:
        assert gf.page(small()) == gf.page(small())


class TestSize:
    def test_a_dense_graph_keeps_its_strongest_edges(self) -> None:
        count = 300
        edge_index = torch.combinations(torch.arange(count)).T
        scores = torch.randn(edge_index.size(1), generator=torch.Generator().manual_seed(0))
        dense = Explanation(
            edge_index=edge_index, edge_mask=scores, index=0, node_names=["n" * 60 for _ in range(count)]
        )
        text = gf.page([dense] * 4, titles=list("abcd"))
        assert len(text.encode()) < 1_000_000
        data = data_of(text)
        assert len(data["edges"]) == MOST_EDGES
        assert f"{MOST_EDGES} of {edge_index.size(1)} edges" in data["about"]
        weakest = min(abs(value) for value in data["panels"][0]["edges"]) * data["panels"][0]["edge_scale"]
        assert int((scores.abs() > weakest * 1.001).sum()) <= MOST_EDGES

    def test_a_graph_of_100000_nodes_is_stored_as_far_as_it_is_shown(self) -> None:
        torch.manual_seed(0)
        # Later nodes hang on earlier ones, mostly on the first: a few of them see thousands of others.
        ends = torch.stack([torch.arange(1, 100_000), (torch.arange(1, 100_000) * torch.rand(99_999) ** 3).long()])
        edge_index = torch.cat([ends, ends.flip(0)], dim=1)
        model = GCN(8, 8, num_layers=2, out_channels=3).eval()
        explainer = gf.explainer_for(model, Data(x=torch.rand(100_000, 8), edge_index=edge_index), method="saliency")
        explanations = [explainer(torch.rand(100_000, 8), edge_index, index=5) for _ in range(4)]
        text = gf.page(explanations)
        data = data_of(text)
        assert len(text.encode()) < 1_000_000
        assert len(data["names"]) == 300
        assert re.search(r"300 of \d{4,} nodes", data["about"])

    def test_long_names_of_wide_letters(self) -> None:
        count = 300
        ends = torch.stack([torch.arange(1, count), torch.zeros(count - 1, dtype=torch.long)])
        draw = torch.Generator().manual_seed(0)
        names = ["\U0001f6b0" * 190 + str(i) for i in range(count)]
        four = [
            Explanation(
                edge_index=ends, edge_mask=torch.randn(count - 1, generator=draw), index=0, node_names=names,
                x=torch.ones(count, count), node_mask=torch.randn(count, count, generator=draw), feature_names=names,
            )
            for _ in range(4)
        ]  # fmt: skip
        text = gf.page(four)
        assert len(text.encode()) < 1_000_000
        assert len(data_of(text)["features"]) == 100

    def test_too_many_panels(self) -> None:
        with pytest.raises(InputError, match=r"at most 12 panels \(got 13\)"):
            page_data([small()] * 13)


class TestFile:
    def test_is_what_is_returned(self, tmp_path) -> None:
        text = gf.page(small(), tmp_path / "x.html")
        assert (tmp_path / "x.html").read_bytes() == text.encode()
        assert [path.name for path in tmp_path.iterdir()] == ["x.html"]

    def test_only_html(self, tmp_path) -> None:
        with pytest.raises(InputError, match=r"end the name in \.html"):
            gf.page(small(), tmp_path / "x.pdf")

    def test_a_folder_that_is_not_there(self, tmp_path) -> None:
        with pytest.raises(OutputError, match="does not exist"):
            gf.page(small(), tmp_path / "no" / "x.html")

    def test_a_failure_leaves_the_old_file(self, tmp_path) -> None:
        (tmp_path / "x.html").write_text("old")
        with pytest.raises(InputError, match="NaN"):
            gf.page(small(edge_mask=torch.full((4,), torch.nan)), tmp_path / "x.html")
        assert (tmp_path / "x.html").read_text() == "old"


class TestNotebook:
    def test_a_frame_that_may_run_scripts_and_nothing_else(self) -> None:
        shown = gf.page(small())._repr_html_()
        assert re.findall(r'sandbox="([^"]*)"', shown) == ["allow-scripts"]
        assert html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1]) == gf.page(small())
        assert shown.count("<") == 2  # all of the page is within the attribute

    def test_an_explanation_shows_itself(self) -> None:
        one = gf.SignedExplanation(**small().to_dict())
        assert one._repr_html_() == gf.page(one)._repr_html_()

    def test_one_without_a_graph_is_shown_as_text(self) -> None:
        assert gf.SignedExplanation()._repr_html_() is None

    def test_its_text_is_short(self) -> None:
        assert re.fullmatch(r"<a page of [\d,]+ bytes: .*>", repr(gf.page(small())))


class TestKinds:
    """Scores of what the samples never moved are marked, wherever they stand."""

    def scored(self, *near: str) -> Explanation:
        one = small(node_mask=torch.tensor([[3.0], [0.0], [-1.5]]), x=torch.ones(3, 1))
        for text in near:
            record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, text, 1))
        return one

    @pytest.mark.parametrize(
        ("near", "edges", "features"),
        [
            ((), "not measured", "not measured"),
            (("U(A,0.5)",), "", "not measured"),
            (("U(X,0.2r)",), "not measured", ""),
            (("U(X,0.2r)xU(A,0.2)",), "", ""),
            (("U(X,0.2r)", "U(A,0.5)"), "", "7.6 % ± 0.9 % unexplained in U(X,0.2r)"),
        ],
    )
    def test_a_panel_notes_what_is_not_measured(self, near: tuple[str, ...], edges: str, features: str) -> None:
        panel = data_of(gf.page(self.scored(*near)))["panels"][0]
        assert panel["notes"] == {"edges": edges, "features": features}
        # As in a figure, what nobody has measured is not drawn beside what was measured.
        painted = [not note.startswith("not") or not near for note in (edges, features)]
        assert panel["painted"] == dict(zip(("edges", "features"), painted, strict=True))
        notes = zip((edges, features), painted, strict=True)
        marks = [f" ({note}{'' if drawn else ', not drawn'})" if note else "" for note, drawn in notes]
        assert bool(panel["carried_text"]) == painted[0]
        assert panel["scale"] == f"Largest scores: edges ±2{marks[0]}, nodes ±3{marks[1]}."

    @pytest.mark.parametrize(
        ("route", "words"), [("weight", "by its weight"), ("removal", "removed"), ("mask", "counted")]
    )
    def test_a_panel_says_how_the_model_took_the_edges(self, route: str, words: str) -> None:
        one = self.scored()
        one.edge_route = route
        assert words in data_of(gf.page(one))["panels"][0]["scale"]


def test_beside_a_picture_of_a_part_the_number_is_said_to_be_of_all_scores() -> None:
    hub = torch.stack([torch.zeros(80, dtype=torch.long), torch.arange(1, 81)])
    one = Explanation(
        edge_index=torch.cat([hub, hub.flip(0)], 1), edge_mask=torch.linspace(1, 2, 80).repeat(2), index=0
    )
    record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "U(A,0.5)", 1))
    panel = data_of(gf.page(one))["panels"][0]
    assert panel["carried_text"].startswith("these ")
    assert panel["trust"]["rows"][0]["name"] == "all scores"
    assert panel["trust"]["text"].startswith("All scores together explain about 92 % of how the model")
    assert panel["trust"]["text"].endswith(". Only a part of them is drawn.")
    whole = data_of(gf.page(one, fold=False))["panels"][0]
    assert whole["trust"]["rows"][0]["name"] == "these scores"
    assert whole["trust"]["text"].startswith("These scores explain about 92 %")
    assert "drawn" not in whole["trust"]["text"]


def test_beside_the_first_edges_of_many_the_number_is_said_to_be_of_all_scores() -> None:
    ends = torch.combinations(torch.arange(60)).T
    one = Explanation(edge_index=ends, edge_mask=torch.linspace(1, 2, ends.size(1)), index=0)
    record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "U(A,0.5)", 1))
    panel = data_of(gf.page(one, fold=False))["panels"][0]
    assert int(panel["carried_text"].split()[1]) < ends.size(1)
    assert panel["trust"]["rows"][0]["name"] == "all scores"


def test_what_nobody_has_measured_neither_chooses_nor_enlarges_what_is_drawn() -> None:
    hub = torch.stack([torch.zeros(80, dtype=torch.long), torch.arange(1, 81)])
    features = torch.zeros(81, 1)
    features[80] = 50.0
    one = Explanation(
        edge_index=torch.cat([hub, hub.flip(0)], 1), edge_mask=torch.linspace(2, 1, 80).repeat(2), index=0,
        x=torch.ones(81, 1), node_mask=features,
    )  # fmt: skip
    record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "U(A,0.5)", 1))
    by_edges = data_of(gf.page(one))
    assert by_edges["relevance"][80] == pytest.approx(0.5)
    assert any(80 in fold["members"] for fold in by_edges["folds"])
    record_unfaithfulness(one, gf.Unfaithfulness(0.012, 0.001, 0.0763, 0.0091, 0.157, 500, "U(X,0.2r)", 1))
    del one["measurements"]
    by_features = data_of(gf.page(one))
    assert by_features["relevance"][1] == 0
    assert by_features["relevance"][80] == 1
    assert not any(80 in fold["members"] for fold in by_features["folds"])


def test_without_scripts_the_words_and_the_strongest_edges_can_be_read() -> None:
    one = small()
    one.node_names = ["<b>", "b", "c"]
    text = gf.page([one, small()], titles=["<i>", "two"])
    read = re.search("<noscript>(.*)</noscript>", text, re.S)[1]
    assert read.count("<h2>") == 2
    assert "&lt;i&gt;" in read
    assert "<b>" not in read
    assert read.count("Not measured.") == 2
    assert re.search(r"<li>[^<]*: [+-]2</li>", read)
