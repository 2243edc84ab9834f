"""The benchmark scripts of AnchoredKEC, on few nodes of untrained models: what they print, write and draw."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith.data.ba_shapes import ba_shapes
from graphfaith.data.models import BAShapesGCN, CitationGCN, Trained
from graphfaith.sampling.neighborhood import as_neighborhood

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


def citations():
    """A graph with more columns than a model looks at, as Cora is."""
    generator = torch.Generator().manual_seed(0)
    count = 1001
    x = (torch.rand(count, 30, generator=generator) < 0.2).float()
    ends = torch.randint(count, (2, 1500), generator=generator)
    ends = ends[:, ends[0] != ends[1]]
    edge_index = torch.unique(torch.cat([ends, ends.flip(0)], dim=1), dim=1)
    return Data(x=x, edge_index=edge_index, y=torch.arange(count) % 3)


def made(name, seed=0):
    data = ba_shapes() if name == "ba-shapes" else citations()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = BAShapesGCN() if name == "ba-shapes" else CitationGCN(30, 3)
    return Trained(model.eval(), data, 0.5, name, seed)


@pytest.fixture
def script(monkeypatch):
    """A script by its name, with models that nobody has to train."""
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])

    def load(name):
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "load_trained", made)
        return module

    return load


def tables(printed):
    """The tables in Markdown, each a list of rows of cells."""
    found, inside = [], False
    for line in printed.splitlines():
        if line.startswith("|"):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        inside = line.startswith("|")
    for rows in found:
        assert len({len(row) for row in rows}) == 1
    return found


def target(node, name):
    one = made(name)
    return gf.Target(one.model, one.data.x, one.data.edge_index, node)


COLUMNS = ("ba-shapes B(A,0.5)", "cora U(A,0.5)", "cora U(X,0.2r)", "cora U(X,0.2r)xU(A,0.2)")


def test_ingredients(script, capsys, tmp_path):
    module, path = script("ingredients"), tmp_path / "found.json"
    asked = [part for column in COLUMNS for part in ("--column", column)]
    module.main([*asked, "--nodes", "2", "--json", str(path)])
    (rows,) = tables(capsys.readouterr().out)
    assert rows[0] == ["p", *COLUMNS]
    cells = {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows[2:]}
    assert tuple(cells) == module.ROWS
    blank = {(row, column) for row, line in cells.items() for column, cell in line.items() if cell == "-"}
    assert {row for row, column in blank if column == "ba-shapes B(A,0.5)"} == {"antithetic draws", "Sobol draws"}
    assert not {row for row, column in blank if column == "cora U(A,0.5)"}
    assert {row for row, column in blank if column == "cora U(X,0.2r)"} == {*module.OF_A, "Sobol draws"}
    found = json.loads(path.read_text())
    assert len(found) + len(blank) == len(module.ROWS) * len(COLUMNS)
    for one in found:
        assert len(one["by_node"]) == len(one["nodes"]) == 2
        assert one["unfaithfulness"] == pytest.approx(np.mean(one["by_node"]))


@pytest.mark.parametrize("column", COLUMNS)
def test_the_terms_of_ingredients_are_those_of_the_explainer(script, monkeypatch, column):
    module = script("ingredients")
    dataset, near = column.split(" ")
    near = as_neighborhood(near)
    # Rows are those of the class, and if forced those of the script.
    rows = tuple(row for row in module.OWN if module.makes_sense(row, near))
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "TRIED", {"check": ("plain", module.BLOCKS)})
    monkeypatch.setattr(module, "ROWS", (*rows, "check"))
    node = target(430 if dataset == "ba-shapes" else 50, dataset)
    by_class, by_script = module.deltas(node, near), module.deltas(node, near, forced=True)
    assert by_class["check"][0] == pytest.approx(by_class["all"][0], rel=1e-3)
    same = [row for row in rows if by_class[row][1] == "anchored"]
    assert same
    for row in same:
        assert by_script[row][0] == pytest.approx(by_class[row][0], rel=1e-3)


def test_narrowed_terms_have_the_same_products(script):
    module = script("ingredients")
    generator = torch.Generator().manual_seed(1)
    fit, other = (torch.randn(count, 40, dtype=torch.float64, generator=generator) for count in (9, 5))
    narrow, narrow_other = module.narrowed(fit, other)
    assert narrow.shape == (9, 9)
    torch.testing.assert_close(narrow @ narrow.T, fit @ fit.T)
    torch.testing.assert_close(narrow_other @ narrow.T, other @ fit.T)


def test_draws_stay_in_the_neighbourhood(script):
    module, near = script("ingredients"), as_neighborhood("U(A,0.5)")
    graph = target(430, "ba-shapes").computation_graph
    for way in ("antithetic", "sobol"):
        edges = module.Draws(way, near, graph)(np.arange(module.FIT)).edges
        assert edges.shape == (module.FIT, graph.num_edges)
        assert edges.abs().max() <= 0.5
        assert (edges[:, ~graph.felt] == 0).all()
        assert edges[:, graph.felt].std().item() == pytest.approx(0.5 / 3**0.5, rel=0.01)
    edges = module.Draws("antithetic", near, graph)(np.arange(6)).edges
    assert torch.equal(edges[::2], -edges[1::2])


def test_calibration(script, capsys, tmp_path):
    module, path, picture = script("calibration"), tmp_path / "found.json", tmp_path / "found.png"
    asked = [part for column in COLUMNS[:3] for part in ("--column", column)]
    module.main([*asked, *("--nodes", "3", "--held-out", "200", "--json", str(path), "--figure", str(picture))])
    fixed, auto = tables(capsys.readouterr().out)
    assert [row[0] for row in fixed[2:]] == [row[0] for row in auto[2:]] == list(COLUMNS[:3])
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = json.loads(path.read_text())
    assert len(found) == 3 * 3 * 2
    assert {one["fit_samples"] for one in found if one["num_samples"] == 200} == {200}
    assert all(one["fit_samples"] >= 200 for one in found)


def test_agreement_of_equal_numbers_is_perfect(script):
    module = script("calibration")
    result = {"estimate_relative_stderr": 0.0, "held_out_relative_stderr": 0.0, "chosen": "anchored"}
    results = [
        {**result, "estimate": v, "held_out": v, "estimate_relative": v, "held_out_relative": v}
        for v in (0.0, 0.1, 0.3)
    ]
    found = module.agreement(results)
    assert found["ratio_of_means"] == found["median_ratio"] == found["within_two_errors"] == 1
    assert found["rank_correlation"] == pytest.approx(1)


def test_sanity(script, capsys, tmp_path, monkeypatch):
    module, path = script("sanity"), tmp_path / "found.json"
    monkeypatch.setattr(module, "SAMPLES", 10)
    monkeypatch.setattr(module, "NEAR", ("B(A,0.5)",))
    monkeypatch.setattr(module, "make_untrained", lambda name, data, seed: made(name, seed).model)
    module.main(["--nodes", "2", "--quick", "--json", str(path)])
    motifs, weights, scores = tables(capsys.readouterr().out)
    assert [row[:2] for row in motifs[2:]] == [[near, method] for near in module.NEAR for method in module.COMPARED]
    # Each layer alone, and all but the last one with those after it.
    assert len(weights) - 2 == len(module.NEAR) * (4 + 3 + 2 + 1)
    assert len(scores) - 2 == 3  # both data sets when edges move, one when features do
    found = json.loads(path.read_text())
    bounds = {
        "motifs": ("own_house", "any_house", 0, 1),
        "weights": ("absolute", "signed", -1, 1),
        "scores": ("p", "scores", 0, math.inf),
    }
    for one in found:
        *kinds, least, most = bounds[one["check"]]
        for kind in kinds:
            assert len(one[kind]) == 2
            assert all(value is None or least <= value <= most for value in one[kind])
    # Saliency is linear: its p is its scores.
    saliency = [one for one in found if one["check"] == "scores" and one["method"] == "saliency"]
    assert all(one["p"] == pytest.approx(one["scores"]) for one in saliency)


def test_scores_that_follow_the_houses_have_the_whole_area(script):
    module = script("sanity")
    truth = np.array([True, False, True, False])
    assert module.area(truth, np.array([3.0, 1.0, 2.0, 0.0])) == 1
    assert np.isnan(module.area(truth[::2], np.ones(2)))
    assert np.isnan(module.correlation(np.arange(4.0), np.zeros(4)))
    assert module.correlation(np.arange(4.0), -np.arange(4.0)) == pytest.approx(-1)


def test_calibration_by_the_number_of_samples(script, capsys, tmp_path, monkeypatch):
    module, path = script("calibration"), tmp_path / "found.json"
    monkeypatch.setattr(module, "COUNTS", (12, 100))
    module.main(["--counts", "--column", "cora U(A,0.5)", "--nodes", "2", "--held-out", "40", "--json", str(path)])
    (rows,) = tables(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["samples", "---", "12", "100"]
    found = json.loads(path.read_text())
    assert {(one["method"], one["num_samples"]) for one in found} == {
        (method, samples) for method in ("anchored-kec", "kec") for samples in (12, 100)
    }
    p = gf.AnchoredKEC("U(A,0.5)", num_samples=12).fit(target(found[0]["node"], "cora"))
    assert found[0]["estimate"] == pytest.approx(p.estimate.value)


def test_scores_of_what_is_still(script, capsys, tmp_path):
    module, path = script("still"), tmp_path / "found.json"
    module.main(["--nodes", "2", "--json", str(path)])
    (rows,) = tables(capsys.readouterr().out)
    assert [row[0] for row in rows[2:]] == ["KEC"] * 2 + [module.FIT_ALONE] * 2 + ["AnchoredKEC"] * 2 + [
        "the gradient of F"
    ]
    found = json.loads(path.read_text())
    shares = {
        name: [one["relative"] for one in found if (one["method"], one["neighborhood"]) == (name, "U(X,0.002r)")]
        for name in (module.FIT_ALONE, "AnchoredKEC", "the gradient of F")
    }
    assert shares["AnchoredKEC"] == pytest.approx(2 * shares["the gradient of F"], rel=1e-2, abs=1e-4)
    assert shares[module.FIT_ALONE] != pytest.approx(shares["AnchoredKEC"], rel=0.1)


def test_a_column_without_a_method_has_a_dash(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    columns = importlib.import_module("columns")
    shared = {"dataset": "ring", "nodes": [0, 1], "relative": 0.5}
    rows = [
        {**shared, "method": method, "neighborhood": near, "model_seed": seed, "unfaithfulness": value, "by_node": two}
        for seed in (0, 1)
        for method, near, value, two in (
            ("anchored-kec", "U(A,0.5)", 1.5, [1.0, 2.0]),
            ("kec", "U(A,0.5)", 2.0, [3.0, 1.0]),
            ("anchored-kec", "B(A,0.5)", 3.0, [2.0, 4.0]),
            ("kec", "B(A,0.5)", 5.0, [4.0, 6.0]),
            ("subgraphx", "B(A,0.5)", 2.0, [1.0, 3.0]),
        )
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    columns.main([str(tmp_path / "rows.json")])
    printed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("|---")]
    means, shares, overview = tables("\n".join(printed))
    # Delta(0) is 3.5 and 20 / 3, the means of what the rows say. The mean is the lowest in U(A,0.5) alone.
    assert overview[1:] == [["ring", "43 to 45 %", "30 to 57 %", "1 of 2", "0 to 50 %"]]
    cells = {row[0]: row[1:] for row in means}
    assert cells["subgraphx"][0] == "-"
    assert cells["subgraphx"][1].startswith("**2 ")
    assert cells["anchored-kec"][0].startswith("**1.5 ")
    cells = {row[0]: row[1:] for row in shares}
    assert cells["subgraphx"] == ["-", "0 %"]
    assert cells["kec"] == ["50 %", "100 %"]
    assert cells["the best other method"] == ["50 %", "0 %"]
