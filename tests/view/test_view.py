"""The figure: which parts are shown, how signs and strengths are drawn, the texts, and safe writing of files."""

from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch_geometric.explain import Explanation, HeteroExplanation

import graphfaith as gf
import graphfaith.view.figure
import typed_toys
from graphfaith import Unfaithfulness
from graphfaith._base.errors import InputError, OutputError
from graphfaith.explanation.faithfulness import record_unfaithfulness
from graphfaith.explanation.scores import read_scores
from graphfaith.view import figure, show
from graphfaith.view.drawing import EXPLAINED, LABEL_SIZE, NEGATIVE, POSITIVE, _place_stars, fit
from graphfaith.view.frame import _collect_notes, format_caption, make_frame
from graphfaith.view.labels import measure_text, shorten
from graphfaith.view.layout import Layout, lay_out
from graphfaith.view.positions import place

MODULE = sys.modules["graphfaith.view.figure"]


def two_way(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor([[a, b] for a, b in pairs] + [[b, a] for a, b in pairs]).T


def star(**fields: object) -> Explanation:
    """Return an explanation of node 0, which has edges to nodes 1 and 2; node 3 has an edge to node 2."""
    default = {
        "edge_index": two_way((0, 1), (0, 2), (2, 3)),
        "edge_mask": torch.tensor([0.5, -1.0, 0.0, 0.5, -1.0, 0.0]),
        "node_mask": torch.tensor([[0.2], [0.8], [-0.4], [0.0]]),
        "index": torch.tensor(0),
    }
    return Explanation(**(default | fields))


def artist(drawn: Figure, gid: str):
    artists = [a for a in drawn.findobj() if a.get_gid() == gid]
    assert len(artists) == 1, gid
    return artists[0]


def texts(drawn: Figure) -> list[str]:
    return [t.get_text() for axes in drawn.axes for t in axes.texts]


@pytest.fixture(autouse=True)
def _no_figure_left_open():
    yield
    assert plt.get_fignums() == []


# --- the styles of nodes and edges -------------------------------------------------------------------------------


def test_the_sign_of_an_edge_is_its_colour_and_its_dash_and_its_size_the_width():
    edges = artist(figure(star(index=torch.tensor([0, 3]))), "panel0-edges")
    zero, positive, negative = range(3)  # Edges are drawn in the order of |score|.
    colours, widths = edges.get_colors(), edges.get_linewidths()
    assert tuple(colours[positive][:3]) == to_rgb(POSITIVE)
    assert tuple(colours[negative][:3]) == to_rgb(NEGATIVE)
    assert tuple(colours[zero][:3]) not in (to_rgb(POSITIVE), to_rgb(NEGATIVE))
    dashes = [pattern for _, pattern in edges.get_linestyles()]
    assert dashes[positive] is None
    assert dashes[zero] is None
    assert len(dashes[negative]) == 2
    assert widths[zero] < widths[positive] < widths[negative]


def test_the_sign_of_a_node_is_its_colour_and_its_outline_and_its_size_the_opacity():
    drawn = figure(star(edge_mask=torch.ones(6)))
    faces = artist(drawn, "panel0-nodes").get_facecolor()
    lines = artist(drawn, "panel0-outlines")
    assert tuple(faces[1]) == (*to_rgb(POSITIVE), 1.0)
    assert tuple(faces[2]) == pytest.approx((*to_rgb(NEGATIVE), 0.5))
    dashes = [pattern for _, pattern in lines.get_linestyles()]
    assert dashes[1] is None
    assert dashes[3] is None
    assert len(dashes[2]) == 2
    # In grey print the sign can still be read: the disc of a negative node is smaller than its ring.
    ratio = artist(drawn, "panel0-nodes").get_sizes() / lines.get_sizes()
    assert ratio[2] < 0.7
    assert ratio[1] == 1


def test_a_white_disc_lies_between_every_node_and_the_edges():
    drawn = figure(star())
    edges, discs, nodes = (artist(drawn, f"panel0-{name}") for name in ("edges", "discs", "nodes"))
    assert edges.get_zorder() < discs.get_zorder() < nodes.get_zorder()
    assert discs.get_facecolor().tolist() == [[1, 1, 1, 1]]
    assert np.array_equal(discs.get_offsets(), nodes.get_offsets())


def test_the_explained_node_is_grey_and_its_own_score_is_a_ring():
    drawn = figure(star())
    assert tuple(artist(drawn, "panel0-nodes").get_facecolor()[0]) == (*to_rgb(EXPLAINED), 1.0)
    ring = artist(drawn, "panel0-rings").get_edgecolor()
    assert tuple(ring[0]) == pytest.approx((*to_rgb(POSITIVE), 0.25))
    assert "0" in texts(drawn)


def test_panels_share_one_layout_and_keep_their_own_scale():
    other = star(edge_mask=-10 * torch.tensor([0.5, -1.0, 0.3, 0.5, -1.0, 0.3]), node_mask=None)
    drawn = figure([star(), other, star(index=torch.tensor(2))], titles=["a", "b", "c"])
    places = [artist(drawn, f"panel{i}-nodes").get_offsets() for i in range(3)]
    assert np.array_equal(places[0], places[1])
    assert np.array_equal(places[0], places[2])
    assert tuple(artist(drawn, "panel2-nodes").get_facecolor()[2][:3]) == to_rgb(EXPLAINED)
    assert tuple(artist(drawn, "panel2-nodes").get_facecolor()[0][:3]) == to_rgb(POSITIVE)
    assert "scale ±2 edges (not measured) · ±0.8 nodes (not measured)" in texts(drawn)
    assert "scale ±20 edges (not measured)" in texts(drawn)


def test_titles_name_method_neighbourhood_and_unfaithfulness():
    first, second = star(), star()
    first.method, first.neighborhood = "KEC", "U(A,0.5)"
    record_unfaithfulness(first, Unfaithfulness(1e-3, 1e-4, 0.0763, 0.0091, 0.0131, 500, "U(A,0.5)", 1))
    drawn = figure([first, second])
    assert "KEC" in texts(drawn)
    assert "U(A,0.5) · 7.6 % ± 0.9 % unexplained" in texts(drawn)
    assert "Explanation 2" in texts(drawn)
    assert {"mine", "yours"} <= set(texts(figure([first, second], titles=["mine", "yours"])))


def test_names_are_shown_as_they_are_and_never_as_formulas():
    names = ["<b>&0", "$x_t$", r"$\frac{1}", "a_b^c%"]
    drawn = figure(star(node_names=names, feature_names=None), titles=["$\\alpha$ <i>"])
    shown = {t.get_text(): t for axes in drawn.axes for t in axes.texts}
    for name in [*names[:3], "$\\alpha$ <i>"]:
        assert shown[name].get_parse_math() is False
    with mpl.rc_context({"text.usetex": True}):
        assert isinstance(figure(star(node_names=names)), Figure)


def test_names_that_the_font_lacks_or_that_do_not_print_still_give_a_figure(tmp_path):
    names = ["\u4e2d\u6587 \U0001f600", "a\nb\x00c", "\u05e9\u05dc\u05d5\u05dd", "x" * 500]
    figure(star(node_names=names), tmp_path / "names.png")
    figure(star(node_names=names), tmp_path / "names.svg")
    assert shorten("a\nb\x00c\udc80") == "a b c"
    assert len(shorten("x" * 500)) < 30


def test_features_are_listed_when_they_have_names():
    x = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1.0, -3.0, 0.0], [0.0, 1.0, 0.5], [2.0, 0.0, 9.0], [5.0, 5.0, 5.0]])
    given_ = star(x=x, node_mask=mask)
    assert lay_out(given_).panels[0].features == ()
    given_.feature_names = ["flow", "level <m>", "pump"]
    panel = lay_out(given_).panels[0]
    assert panel.features == (("level <m>", -1.0), ("flow", 0.6), ("pump", 0.1))
    assert panel.feature_scale == 5.0
    drawn = figure(given_)
    assert artist(drawn, "panel0-feature-0").get_width() == -1.0
    assert tuple(artist(drawn, "panel0-feature-0").get_facecolor()[:3]) == to_rgb(NEGATIVE)
    assert {"level <m>", "flow", "pump"} <= set(texts(drawn))
    assert len(lay_out(given_, max_features=1).panels[0].features) == 1


# --- scores ------------------------------------------------------------------------------------------------------


def test_a_node_scores_mask_times_x_summed():
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0], [3.0, 3.0]])
    mask = torch.tensor([[1.0, -3.0], [0.0, 1.0], [-2.0, 9.0], [0.0, 0.0]])
    layout = lay_out(star(x=x, node_mask=mask))
    assert (layout.panels[0].nodes * layout.panels[0].node_scale).tolist() == [-5.0, 1.0, -2.0]  # of nodes 0, 1 and 2


def test_opposite_edges_of_an_undirected_graph_are_merged_by_sum():
    layout = lay_out(star(edge_mask=torch.tensor([1.0, -1.0, 0.5, 2.0, -3.0, 0.0]), node_mask=None))
    assert not layout.directed
    assert layout.edges.tolist() == [[0, 1], [0, 2], [2, 3]]
    assert (layout.panels[0].edges * layout.panels[0].edge_scale).tolist() == [3.0, -4.0, 0.5]


def test_opposite_edges_of_a_directed_graph_are_both_seen():
    one_way = Explanation(
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]), edge_mask=torch.tensor([1.0, -0.5, 0.2]), index=0
    )
    layout = lay_out(one_way)
    assert layout.directed
    assert len(layout.edges) == 3
    drawn = figure(one_way)
    there, back = (np.array(s) for s in artist(drawn, "panel0-edges").get_segments()[1:][::-1])
    along = (there[-1] - there[0]) / np.linalg.norm(there[-1] - there[0])
    gap = there[6] - back[6]
    assert abs(along[0] * gap[1] - along[1] * gap[0]) > 3  # The curves are more than 3 points apart in the middle.
    assert len(artist(drawn, "panel0-arrows").get_paths()) == 3
    assert len(lay_out(one_way, directed=False).edges) == 2


def test_self_loops_are_drawn_on_the_scale_of_the_edges():
    drawn = figure(star(self_loop_score=torch.tensor([4.0, 0.0, -2.0, 0.0])))
    drawn_loops = artist(drawn, "panel0-loops")
    assert [tuple(c[:3]) for c in drawn_loops.get_colors()] == [to_rgb(NEGATIVE), to_rgb(POSITIVE)]
    assert drawn_loops.get_linestyles()[0][1] is not None
    assert "scale ±4 edges (not measured) · ±0.8 nodes (not measured)" in texts(drawn)
    # A self-loop in edge_index is drawn in the same way.
    inside = star(edge_index=torch.tensor([[0, 0], [0, 1]]), edge_mask=torch.tensor([4.0, 1.0]))
    assert lay_out(inside).panels[0].loops.tolist()[0] == 1.0


def test_an_index_of_a_graph_or_an_edge_is_not_taken_for_a_node():
    explanation = star()
    explanation._model_config = types.SimpleNamespace(task_level=types.SimpleNamespace(value="graph"))
    assert read_scores(explanation).explained == ()
    explanation._model_config.task_level.value = "edge"
    explanation.edge_label_index = torch.tensor([[2], [3]])
    assert read_scores(explanation).explained == (2, 3)
    assert read_scores(star(index=torch.tensor([False, True, False, False]))).explained == (1,)
    assert read_scores(star(index=-1)).explained == (3,)


# --- the choice of nodes -----------------------------------------------------------------------------------------


def big_star(leaves: int) -> Explanation:
    ids = torch.arange(1, leaves + 1)
    hub = torch.zeros_like(ids)
    edge_index = torch.stack([torch.cat([hub, ids]), torch.cat([ids, hub])])
    return Explanation(edge_index=edge_index, edge_mask=torch.cat([ids, ids]) / leaves, index=torch.tensor(0))


def test_at_most_300_nodes_are_shown_the_strongest_and_the_figure_says_so():
    drawn = figure(big_star(400), fold=False)
    assert len(artist(drawn, "panel0-nodes").get_offsets()) == 300
    assert any("300 of 401 shown" in t for t in texts(drawn))
    layout = lay_out(big_star(400))
    assert layout.nodes.tolist() == [0, *range(102, 401)]
    assert not any("shown" in t for t in texts(figure(big_star(20))))
    assert len(lay_out(big_star(20), max_nodes=5).nodes) == 5


def test_the_explained_node_is_shown_even_without_a_score():
    layout = lay_out(star(index=3, edge_mask=torch.tensor([1.0, 0, 0, 0, 0, 0]), node_mask=None), max_nodes=2)
    assert layout.nodes.tolist() == [0, 3]
    assert layout.panels[0].explained == (1,)
    assert layout.positions[1].tolist() == [0.0, 0.0]


def test_nodes_without_any_score_are_left_out_and_edges_between_shown_nodes_are_not():
    layout = lay_out(star(edge_mask=None, node_mask=torch.tensor([[0.0], [1.0], [2.0], [0.0]])))
    assert layout.nodes.tolist() == [0, 1, 2]
    assert layout.edges.tolist() == [[0, 1], [0, 2]]
    assert layout.panels[0].edges.tolist() == [0.0, 0.0]


def test_what_any_panel_scores_is_shown_in_every_panel():
    first = star(edge_mask=torch.tensor([1.0, 0, 0, 0, 0, 0]), node_mask=None)
    second = star(edge_mask=torch.tensor([0, 0, 1.0, 0, 0, 0]), node_mask=None)
    layout = lay_out([first, second])
    assert layout.nodes.tolist() == [0, 1, 2, 3]
    assert [panel.edges.tolist() for panel in layout.panels] == [[1, 0, 0], [0, 0, 1]]


def test_a_graph_of_a_million_nodes_is_cut_before_anything_is_made_per_node():
    count = 1_000_000
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(count, (2, 3 * count), generator=generator)
    explanation = Explanation(
        x=torch.zeros(count, 1),
        edge_index=edge_index,
        edge_mask=torch.randn(3 * count, generator=generator),
        node_mask=torch.randn(count, 1, generator=generator),
        index=torch.tensor(5),
    )
    layout = lay_out(explanation, max_nodes=50)
    assert len(layout.nodes) == len(layout.names) == len(layout.positions) == 50
    assert layout.num_scored > 990_000
    assert len(layout.edges) < 5_000
    assert len(layout.panels[0].nodes) == 50


# --- odd graphs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "explanation",
    [
        pytest.param(Explanation(edge_index=two_way((0, 1)), edge_mask=torch.ones(2)), id="plain PyG, no index"),
        pytest.param(star(edge_mask=None), id="nodes only"),
        pytest.param(star(edge_mask=torch.zeros(6), node_mask=torch.zeros(4, 1)), id="all zero"),
        pytest.param(star(edge_mask=None, node_mask=None), id="no scores"),
        pytest.param(star(edge_mask=None, node_mask=None, index=None), id="nothing at all"),
        pytest.param(star(edge_index=torch.zeros(2, 0).long(), edge_mask=torch.zeros(0)), id="no edges"),
        pytest.param(
            Explanation(x=torch.ones(1, 3), edge_index=torch.zeros(2, 0).long(), node_mask=torch.ones(1, 3), index=0),
            id="single node",
        ),
        pytest.param(
            Explanation(x=torch.ones(5, 3), edge_index=two_way((0, 1)), node_mask=torch.ones(1, 3)), id="features only"
        ),
        pytest.param(
            Explanation(edge_index=two_way((0, 1), (2, 3), (4, 5)), edge_mask=torch.ones(6), index=4), id="pieces"
        ),
        pytest.param(star(edge_mask=torch.full((6,), 1e-300, dtype=torch.float64)), id="tiny scores"),
        pytest.param(star(edge_mask=torch.full((6,), 1e300, dtype=torch.float64)), id="huge scores"),
        pytest.param(star(edge_index=torch.tensor([[0, 0, 0], [1, 1, 2]]), edge_mask=torch.ones(3)), id="multi-edge"),
        pytest.param(star(edge_mask=torch.randn(6, requires_grad=True)), id="with gradient"),
    ],
)
def test_odd_graphs_give_a_figure(explanation, tmp_path):
    drawn = figure(explanation, tmp_path / "odd.svg")
    positions = artist(drawn, "panel0-nodes").get_offsets()
    assert np.isfinite(np.asarray(positions)).all()
    assert (tmp_path / "odd.svg").stat().st_size > 1000


def test_all_zero_scores_are_said_in_words():
    drawn = figure(star(edge_mask=torch.zeros(6), node_mask=torch.zeros(4, 1)))
    assert "every score is zero" in texts(drawn)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20), st.data())
def test_every_layout_is_finite_distinct_and_centred(count, pairs, data):
    pairs = [(a % count, b % count) for a, b in pairs if a % count != b % count]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    strength = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(pairs), max_size=len(pairs))))
    centre = data.draw(st.integers(0, count - 1))
    points = place(count, edges, strength, centre)
    assert points.shape == (count, 2)
    assert np.isfinite(points).all()
    assert np.abs(points).max() <= 1
    assert points[centre].tolist() == [0, 0]
    assert len({tuple(p) for p in points.round(3).tolist()}) == count


# --- errors ------------------------------------------------------------------------------------------------------

NAN = torch.tensor([float("nan"), 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("explanation", "message"),
    [
        (star(edge_mask=NAN), "edge_mask holds NaN"),
        (star(edge_mask=NAN / 0 + torch.inf), "NaN or Inf"),
        (star(node_mask=NAN[:4, None]), "node_mask holds NaN"),
        (star(self_loop_score=NAN[:4]), "self_loop_score holds NaN"),
        (star(edge_mask=torch.ones(5)), "edge_mask must have 6 entries"),
        (star(num_nodes=4, node_mask=torch.ones(3, 1)), "node_mask must be"),
        (star(index=torch.tensor(9)), "index holds numbers outside -4 to 3"),
        (star(num_nodes=3, node_mask=None), "edge_index holds numbers outside 0 to 2"),
        (star(edge_index=torch.ones(3, 3).long()), r"must be a tensor \[2, E\]"),
        (star(node_names=["a"]), r"node_names must be a list of 4 names \(got 1\)"),
        (star(node_names="abcd"), "list of 4 names"),
        (star(edge_index=None), "edge_index is needed"),
        (star(edge_mask=[1.0] * 6), "must be a tensor"),
        ("kec", "explanation of PyG is needed"),
        ([], "list is empty"),
        ([star(), star(num_nodes=9, node_mask=None)], "same graph"),
        (Explanation(x=torch.zeros(0, 2), edge_index=torch.zeros(2, 0).long()), "no nodes"),
    ],
)
def test_bad_input_is_named(explanation, message):
    with pytest.raises(InputError, match=message):
        figure(explanation)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"titles": ["a", "b"]}, "2 titles for 1"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"max_nodes": 10**6}, "max_nodes"),
        ({"columns": 0}, "columns"),
        ({"panel_width": 0.0}, "panel_width"),
        ({"dpi": float("nan")}, "dpi"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        figure(star(), **options)


def test_an_empty_heterogeneous_explanation_is_refused():
    with pytest.raises(InputError, match="no 'x' or no 'edge_index'"):
        figure(HeteroExplanation())


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".SVG", b"<?xml")])
def test_the_suffix_decides_the_format_and_the_same_input_gives_the_same_bytes(tmp_path, suffix, magic):
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    figure([star(), star()], first)
    figure([star(), star()], str(second))
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [first.name, second.name]


def test_the_same_bytes_in_another_process_and_under_the_users_style(tmp_path):
    code = (
        "import sys, torch; from torch_geometric.explain import Explanation; from graphfaith.view import figure\n"
        "e = Explanation(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_mask=torch.tensor([1.0, -2.0]), index=1)\n"
        "figure(e, sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.svg")], check=True)
    same = Explanation(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_mask=torch.tensor([1.0, -2.0]), index=1)
    loud = {"savefig.bbox": "tight", "savefig.facecolor": "black", "text.color": "white", "lines.linewidth": 9}
    with mpl.rc_context(loud):
        figure(same, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("name", ["x.jpg", "x", "x.png.bak", ".png"])
def test_other_formats_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"\.png or \.pdf or \.svg"):
        figure(star(), tmp_path / name)


def test_places_that_cannot_be_written_are_refused_before_any_drawing(tmp_path, monkeypatch):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(MODULE, "lay_out", lambda *a, **k: pytest.fail("drew first"))
    for place_, message in [
        (tmp_path / "missing" / "x.png", "does not exist"),
        (tmp_path / "folder.png", "is a folder"),
        (tmp_path / "file" / "x.png", "does not exist"),
    ]:
        with pytest.raises(OutputError, match=message):
            figure(star(), place_)
    monkeypatch.setattr("os.access", lambda *a, **k: False)
    with pytest.raises(OutputError, match="no permission"):
        figure(star(), tmp_path / "x.png")


@pytest.mark.parametrize("where", ["os.replace", "matplotlib.figure.Figure.savefig", "os.fsync"])
def test_an_existing_file_survives_a_failure(tmp_path, monkeypatch, where):
    existing = tmp_path / "kept.png"
    existing.write_bytes(b"precious")

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(where, fail)
        with pytest.raises(OSError, match="No space left"):
            figure(star(), existing)
    assert existing.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.png"]


def test_a_failed_write_is_an_output_error(tmp_path, monkeypatch):
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OutputError, match="No space left"):
        figure(star(), tmp_path / "x.png")


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    real, link = tmp_path / "real.png", tmp_path / "link.png"
    real.write_bytes(b"old")
    link.symlink_to(real)
    figure(star(), link)
    assert link.is_symlink()
    assert real.read_bytes().startswith(b"\x89PNG")


# --- show --------------------------------------------------------------------------------------------------------


def test_show_without_a_screen_returns_the_figure_and_leaves_the_backend_alone():
    backend = mpl.get_backend()
    settings_before = dict(mpl.rcParams)
    assert isinstance(show(star()), Figure)
    assert mpl.get_backend() == backend
    assert dict(mpl.rcParams) == settings_before


def test_show_opens_a_window_where_there_are_windows(monkeypatch):
    monkeypatch.setattr(MODULE, "_has_windows", lambda: True)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.get_fignums()))
    drawn = show(star())
    assert shown == [[drawn.number]]
    plt.close(drawn)


def test_show_without_the_screen_that_the_backend_promised_still_returns_the_figure(monkeypatch):
    monkeypatch.setattr(MODULE, "_has_windows", lambda: True)

    def no_screen() -> Figure:
        raise RuntimeError("no display name and no $DISPLAY environment variable")

    monkeypatch.setattr(plt, "figure", no_screen)
    assert isinstance(show(star()), Figure)


@pytest.mark.parametrize(
    ("backend", "windows"),
    [("agg", False), ("SVG", False), ("module://matplotlib_inline.backend_inline", False), ("QtAgg", True)],
)
def test_backends_with_windows_are_told_from_those_without(monkeypatch, backend, windows):
    monkeypatch.setattr(mpl, "get_backend", lambda: backend)
    assert MODULE._has_windows() is windows


def test_show_in_a_notebook_displays_once_a_cell(monkeypatch):
    shell = types.SimpleNamespace(kernel=object(), execution_count=1)
    pictures = []

    def display(thing: object) -> None:
        if hasattr(thing, "_ipython_display_"):
            thing._ipython_display_()
        else:
            pictures.append(thing)

    fake = types.ModuleType("IPython")
    fake.get_ipython = lambda: shell
    fake.display = types.SimpleNamespace(display=display, Image=lambda data: data)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    drawn = show(star())
    display(drawn)  # IPython does the same with the last value of a cell.
    assert len(pictures) == 1
    assert pictures[0].startswith(b"\x89PNG")
    shell.execution_count = 2
    display(drawn)
    assert len(pictures) == 2


def test_no_absolute_path_or_date_is_written_into_a_picture(tmp_path):
    figure(star(), tmp_path / "a.svg")
    figure(star(), tmp_path / "a.pdf")
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()
    assert b"CreationDate" not in (tmp_path / "a.pdf").read_bytes()
    for path in tmp_path.iterdir():
        assert str(Path.home()).encode() not in path.read_bytes()


def test_positions_of_one_s_own_show_every_node_where_it_stands():
    places = [[0.0, 0.0], [10.0, 0.0], [20.0, 5.0], [30.0, 0.0]]
    layout = lay_out(star(), positions=places)
    assert layout.fixed
    assert layout.nodes.tolist() == [0, 1, 2, 3]
    spread = layout.positions - layout.positions[0]
    assert np.allclose(spread / spread[3, 0] * 30, places)
    drawn = figure(star(), positions=places)
    discs = artist(drawn, "panel0-discs").get_offsets()
    assert np.allclose(np.diff(discs[:, 0]), np.diff(discs[:, 0])[0])


@pytest.mark.parametrize(
    "positions", [[[0, 0]] * 3, [[0, 0, 0]] * 4, [[0, float("nan")]] * 4, "nowhere", [["a", "b"]] * 4]
)
def test_positions_that_will_not_do(positions):
    with pytest.raises(InputError, match=r"positions must be finite numbers \[4, 2\]"):
        lay_out(star(), positions=positions)


def test_stars():
    drawn = figure(star(), stars=[2, 3], star_means="attacked")
    assert len(artist(drawn, "panel0-stars").get_offsets()) == 2
    assert any("star: attacked" in text.get_text() for text in drawn.findobj(mpl.text.Text))
    assert 3 in lay_out(star(), stars=[3]).nodes  # A node with a star is shown even without a score.
    with pytest.raises(InputError, match="no node 9 to put a star on"):
        figure(star(), stars=[9])


def test_no_name_is_under_a_star():
    """The star is up to the left of its disc, where a neighbour has its name if nothing is in the way."""
    names = ["LIT401", "P402", "FIT401", "UV401"]
    line = star(node_names=names, node_mask=torch.tensor([[0.5], [0.5], [1.0], [0.5]]), index=torch.tensor(2))
    places = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    with_star, without = (lay_out(line, positions=places, stars=stars) for stars in ([2], []))

    def covered(layout: Layout) -> list[str]:
        geometry = fit(layout, (130.0, 80.0))
        ((x, y, radius),) = _place_stars(with_star, geometry.points, geometry.radius)
        sizes = {label.text: measure_text(label.text, LABEL_SIZE, bold=label.bold) for label in geometry.labels}
        return [
            label.text
            for label in geometry.labels
            if abs(label.x - x) < sizes[label.text][0] / 2 + 0.8 * radius
            and abs(label.y - y) < sizes[label.text][1] / 2 + 0.8 * radius
        ]

    assert "P402" in covered(without)
    assert covered(with_star) == []


def test_a_share_that_is_all_but_rounding_is_not_told():
    """Nothing is left out, and "at least 100 %" says less than nothing."""
    first, second = star(), star(edge_mask=torch.tensor([0.1, 0.2, 0.3, 0.1, 0.2, 0.3]))
    layout = lay_out([first, second])
    panels = [replace(panel, carried=share) for panel, share in zip(layout.panels, (1.0, 1 - 1e-12), strict=True)]
    assert not [note for note in _collect_notes(replace(layout, panels=tuple(panels)), "") if "carry" in note]
    panels[1] = replace(panels[1], carried=0.9)
    notes = _collect_notes(replace(layout, panels=tuple(panels)), "")
    assert "the links drawn carry at least 90 % of the scores' weight" in notes


def test_scores_that_were_not_measured_are_marked():
    one = star()
    record_unfaithfulness(one, Unfaithfulness(1e-3, 1e-4, 0.0763, 0.0091, 0.0131, 500, "U(A,0.5)", 1))
    drawn = figure(one)
    assert "scale ±2 edges · ±0.8 nodes (not measured), not drawn" in texts(drawn)
    white = artist(drawn, "panel0-nodes").get_facecolor()[1:]
    assert (white[:, :3] == 1).all()  # Scores that nobody measured would look as good as those beside them.
    record_unfaithfulness(one, Unfaithfulness(1e-3, 1e-4, 0.5, 0.01, 0.002, 500, "U(X,0.2r)", 1))
    caption = "scale ±2 edges (7.6 % ± 0.9 % unexplained in U(A,0.5)) · ±0.8 nodes"
    assert caption in texts(figure(one))


def test_labels_keep_off_the_frames_of_types_and_a_long_scale_is_not_cut():
    explanation = gf.explain(typed_toys.make("sage"), typed_toys.as_data(*typed_toys.graph()), 5, samples=60)
    layout = lay_out(explanation)
    geometry = fit(layout, (230.0, 230.0))
    side = 1.25 * geometry.radius + 2.0
    beside = [label for label in geometry.labels if not label.inside and label.node < len(layout.nodes)]
    assert len(beside) > 3
    for label in beside:
        half = np.array(measure_text(label.text, LABEL_SIZE, bold=label.bold)) / 2
        apart = np.abs(geometry.points - (label.x, label.y)) - half - side[:, None]
        is_explained = label.node in layout.panels[0].explained
        assert is_explained or (apart.max(1) > 0).all(), label
    frame = make_frame(layout, None, None)
    assert len(format_caption(layout.panels[0])) > 90
    assert " ".join(frame.captions[0]) == format_caption(layout.panels[0])
