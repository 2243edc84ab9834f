"""Tests of the paper's tables at toy size, of the conclusions from their rows, and of the page of results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from conftest import needs_data
from graphfaith._base.errors import DataError, GraphfaithError
from graphfaith.cli.application import app
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith_studies.paper import levels
from graphfaith_studies.paper.conclusions import CLAIMS, Claim, format_conclusions, judge
from graphfaith_studies.paper.experiment import FULL, QUICK, TOY, Unit
from graphfaith_studies.paper.experiments import EXPERIMENTS
from graphfaith_studies.paper.faithfulness import PROTOCOLS, Scored, to_rows
from graphfaith_studies.paper.folds import fold_tables
from graphfaith_studies.paper.levels import CHOICES, Levels
from graphfaith_studies.paper.results import page, page_text, rows_in
from graphfaith_studies.paper.run import reproduce
from graphfaith_studies.paper.setting import setting
from graphfaith_studies.paper.tables import PAPER, Table1, Table2, Table3
from measuring import measure_once, remembered
from paper_toys import Squares

ROOT = Path(__file__).parents[3]
CORE = {"dataset", "method", "neighborhood", "unfaithfulness", "stderr", "relative", "seconds_per_node", "num_samples"}


# All experiments --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Run every experiment at toy size in one folder."""
    folder = tmp_path_factory.mktemp("toy")
    with remembered(), pytest.MonkeyPatch.context() as patch:
        # At the first nodes the probability is all but 1, and looking for a point where it is not takes a minute.
        patch.setattr(levels, "NODES", range(420, 1000, 5))
        return folder, reproduce(list(EXPERIMENTS.values()), TOY, folder)


@needs_data
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_writes_rows_a_table_and_its_figures(toy, name):
    folder, rows = toy
    written = json.loads((folder / f"{name}.json").read_text())
    assert written == rows[name]
    assert written
    for row in written:
        assert "paper" in row
        assert {"dataset", "method", "neighborhood", "num_samples", "seed"} <= set(row)
        assert "node" in row or "nodes" in row
    text = (folder / f"{name}.md").read_text()
    assert text.startswith(f"# {EXPERIMENTS[name].title}\n")
    assert "|" in text
    assert "nan" not in text.lower().split()
    pictures = {path.stem for path in folder.glob(f"{name}*.png")}
    assert pictures == {path.stem for path in folder.glob(f"{name}*.pdf")}
    has_figure = {"parameters", "temperature", "samples", "illustration"}
    assert bool(pictures) == (name in has_figure)
    for path in folder.glob(f"{name}*.p[nd][gf]"):
        assert path.stat().st_size > 5000


@needs_data
def test_a_page_of_results_has_every_table_and_picture(toy, tmp_path):
    folder, rows = toy
    path = page(folder, tmp_path / "page.md")
    text = path.read_text()
    for name, experiment in EXPERIMENTS.items():
        assert f"## {experiment.title}\n" in text
        section = fold_tables(f"## {experiment.title}\n\n{experiment.to_markdown(rows[name])}\n")
        assert section.partition("\n\n")[2].rstrip() in text
    links = re.findall(r"!\[[^]]*]\(([^)]+)\)", text)
    assert len(links) == len(list(folder.glob("*.png")))
    for link in links:
        assert (path.parent / link).is_file()
    assert "Which conclusions survive" in text


def test_the_results_in_the_docs_are_those_of_the_rows(monkeypatch):
    monkeypatch.chdir(ROOT)
    folder, path = Path("docs/results"), Path("docs/results.md")
    rows = {name: rows_in(folder, name) for name in EXPERIMENTS}
    written = path.read_text()
    assert written == page_text(folder, path, rows)
    for link in re.findall(r"]\((results/[^)]+)\)", written):
        assert Path("docs", link).is_file()
    for name in EXPERIMENTS:
        assert json.loads((folder / f"{name}.run.json").read_text())["size"] == "full"
    rows["table1"][0]["unfaithfulness"] *= 1.1
    assert written != page_text(folder, path, rows)


# Tables -----------------------------------------------------------------------------------------------------------


def test_the_tables_have_the_papers_cells():
    first, second, third = Table1(), Table2(), Table3()
    assert len([unit for unit in first.units(FULL) if unit.dataset == "ba-shapes" and not unit.part]) == 3 * 60
    assert len([unit for unit in first.units(FULL) if unit.dataset == "cora" and not unit.part]) == 3 * 200
    assert len(second.units(FULL)) == 3 * 200
    assert len(third.units(FULL)) == 2 * 200
    assert len(second.units(QUICK)) == 3 * 20
    assert third.test_samples == 3000
    assert {"U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)"} <= set(first.columns["ba-shapes"])
    assert set(PAPER) | {"anchored-kec"} == set(first.methods)


def test_a_cell_is_the_score_of_its_method(tmp_path):
    table, unit = Table1(), Unit("ba-shapes", 0, 400)
    cells = {(score["neighborhood"], score["method"]): score for score in measure_once(table, unit)["scores"]}
    nodes = tuple(TOY.nodes(range(400, 700, 5)))
    here = setting("ba-shapes", 0, nodes)
    for method in ("kec", "saliency", "gnnexplainer"):
        p = here.fit(method, 400, "B(A,0.5)", samples=TOY.samples(200), seed=0).p
        for seed, protocol in enumerate(PROTOCOLS):
            score = unfaithfulness_of(here.target(400), [p], "B(A,0.5)", num_samples=TOY.samples(500), seed=seed)[0]
            assert cells["B(A,0.5)", method]["by_protocol"][protocol] == pytest.approx([score.value, score.delta_zero])


def test_hard_masks_are_soft_ones_rounded():
    here = setting("ba-shapes", 0, tuple(TOY.nodes(range(400, 700, 5))))
    fits = here.fits(["gnnexplainer-soft", "gnnexplainer"], 400, ["U(A,0.5)"])
    alone = here.fit("gnnexplainer", 400, "U(A,0.5)").p
    assert torch.equal(fits["gnnexplainer", "U(A,0.5)"].p.edge_mask, alone.edge_mask)
    assert not torch.equal(alone.edge_mask, fits["gnnexplainer-soft", "U(A,0.5)"].p.edge_mask)


def test_in_sample_scores_flatter_what_is_fitted(toy_table):
    cells = {(row["method"], row["protocol"]): row for row in toy_table if row["neighborhood"] == "U(A,0.5)"}
    assert cells["linear", "in-sample"]["unfaithfulness"] < cells["linear", "held-out"]["unfaithfulness"]
    assert cells["linear", "in-sample"]["fitted"] < cells["linear", "in-sample"]["unfaithfulness"]


@pytest.fixture(scope="module")
def toy_table(tmp_path_factory):
    table = Table1()
    results = {u: measure_once(table, u) for u in table.units(TOY) if u.dataset == "ba-shapes" and not u.part}
    return table.make_rows(results, TOY)


def test_rows_of_a_table(toy_table):
    assert len(toy_table) == 4 * 9 * 2
    for row in toy_table:
        assert set(row) >= CORE | {"protocol", "paper", "lowest", "by_node", "model_seeds", "test_accuracy"}
        assert [len(line) for line in row["by_node"]] == [len(row["nodes"])] == [2]
    papers = {(row["neighborhood"], row["method"]): row["paper"] for row in toy_table}
    assert papers["U(A,0.5)", "kec"] == 0.13
    assert papers["B(A,0.5)", "linear"] == 0.33
    assert papers["U(A,0.2)", "kec"] is None
    assert papers["U(A,0.5)", "anchored-kec"] is None
    text = Table1().to_markdown(toy_table)
    assert "| SM |" in text
    assert text.count("| held-out |") == 4


def make_scored(method, node, value, seed=0, near="U(A,0.5)"):
    return Scored("cora", seed, node, 0.8, near, method, 1.0, None, {name: [value, 10.0] for name in PROTOCOLS})


def test_rows_pool_trainings_and_nodes():
    scores = [make_scored("kec", n, 1.0 + n + s, s) for s in range(3) for n in range(4)]
    scores += [make_scored("saliency", n, 2.5, s) for s in range(3) for n in range(4)]
    rows = {row["method"]: row for row in to_rows(scores, 200, 500, 0) if row["protocol"] == "held-out"}
    assert rows["kec"]["unfaithfulness"] == pytest.approx(3.5)
    assert rows["kec"]["relative"] == pytest.approx(0.35)
    assert rows["kec"]["by_node"] == [[1.0 + n + s for n in range(4)] for s in range(3)]
    assert rows["kec"]["model_seeds"] == [0, 1, 2]
    assert rows["kec"]["lowest"] == pytest.approx(3 / 12)  # 1 + n + s <= 2.5
    assert rows["saliency"]["lowest"] == pytest.approx(9 / 12)
    assert rows["kec"]["stderr"] == pytest.approx(((5 / 3) / 4 + 1 / 3) ** 0.5)


def test_methods_with_equal_scores_are_both_lowest():
    rows = to_rows([make_scored("kec", 0, 1.0), make_scored("saliency", 0, 1.0)], 200, 500, 0)
    assert [row["lowest"] for row in rows] == [1.0] * 4


@needs_data
def test_levels_differ_by_choice(toy):
    rows = toy[1]["levels"]
    assert {row["choice"] for row in rows} == set(CHOICES)
    cells = {
        row["choice"]: row["unfaithfulness"]
        for row in rows
        if (row["dataset"], row["method"], row["neighborhood"], row["protocol"])
        == ("cora", "saliency", "B(A,0.5)", "held-out")
    }
    assert cells["raw, probability"] < cells["raw, logit"]
    assert len(set(cells.values())) == 4


@needs_data
def test_f_can_be_a_probability():
    levels, unit = Levels(), Unit("cora", 0, 0, "raw, probability")
    result = levels.measure(unit, replace(TOY, share=0.05))
    # A probability changes by at most 1, and so does Delta(0).
    assert all(0 <= score["by_protocol"]["held-out"][1] <= 1 for score in result["scores"])


# Conclusions ------------------------------------------------------------------------------------------------------


def row(method, values, protocol="held-out", near="U(A,0.5)"):
    return {
        "dataset": "cora",
        "neighborhood": near,
        "method": method,
        "protocol": protocol,
        "by_node": values,
        "unfaithfulness": float(np.mean(values)),
    }


PLACE = ("cora", "U(A,0.5)")


def test_a_verdict_compares_at_each_node():
    rows = [row("kec", [[1.0, 1.1, 0.9]]), row("saliency", [[2.0, 2.1, 1.9]]), row("linear", [[0.5, 0.6, 0.4]])]
    rows.append(row("ig-zero", [[0.0, 5.0, 0.0]]))
    claim = Claim("", ("kec",), ("saliency", "linear", "ig-zero", "ig-random"), (PLACE,), "")
    verdict = judge(claim, PLACE, rows, "held-out")
    assert verdict.right == ("SM",)
    assert verdict.wrong == (("Linear", 0.0),)
    assert verdict.level == (("IG (zero)", pytest.approx(1 / 3)),)
    assert str(verdict) == "1 of 3; undecided IG (zero) (33 %); reversed Linear (0 %)"
    assert str(judge(claim, PLACE, rows, "in-sample")) == "–"
    other = Claim("", ("saliency", "linear"), ("kec",), (PLACE,), "")
    assert str(judge(other, PLACE, rows, "held-out")) == "1 of 2; reversed SM (0 %)"


def test_a_verdict_accounts_for_trainings():
    """Nothing is decided if two trainings agree at every node and the third contradicts them at every node."""
    kec = [[1.0, 1.1, 0.9], [1.0, 1.1, 0.9], [3.0, 3.1, 2.9]]
    rows = [row("kec", kec), row("saliency", [[2.0, 2.1, 1.9]] * 3)]
    verdict = judge(Claim("", ("kec",), ("saliency",), (PLACE,), ""), PLACE, rows, "held-out")
    assert verdict.level == (("SM", pytest.approx(2 / 3)),)


def test_one_node_decides_nothing():
    rows = [row("kec", [[1.0]]), row("saliency", [[2.0]])]
    assert str(judge(Claim("", ("kec",), ("saliency",), (PLACE,), ""), PLACE, rows, "held-out")) == "–"


def test_every_claim_is_tested_in_both_protocols():
    every = [
        row(method, [[1.0, 2.0]], protocol, near) | {"dataset": dataset}
        for method in {name for claim in CLAIMS for name in (*claim.below, *claim.above)}
        for protocol in PROTOCOLS
        for dataset in ("ba-shapes", "cora", "citeseer")
        for near in {near for claim in CLAIMS for _, near in claim.columns}
    ]
    text = format_conclusions(every)
    for claim in CLAIMS:
        assert f"### {claim.text}\n" in text
        assert claim.why
        assert claim.why in text
        for dataset, near in claim.columns:
            assert f"| {dataset}, {near.lower()} |" in text.lower()
    assert text.count("| held-out | in-sample |") == len(CLAIMS)


def test_a_claim_without_rows_is_left_out():
    rows = [row(method, [[1.0, 2.0]], protocol) for method in ("kec", "saliency") for protocol in PROTOCOLS]
    text = format_conclusions(rows)
    assert "KEC is uniformly better" in text
    assert "BA-Shapes Linear" not in text


def test_the_summary_counts_the_verdicts():
    near = {"U(X,0.2r)": [[1.0, 1.1]], "U(A,0.5)": [[3.0, 3.1]], "B(A,0.5)": [[2.0, 2.0]]}
    rows = [row("ig-zero", [[2.0, 2.1]], p, n) for n in near for p in PROTOCOLS]
    rows += [row("ig-random", values, p, n) for n, values in near.items() for p in PROTOCOLS]
    text = format_conclusions(rows)
    assert "**Holds in part**: held-out, 1 of 3 comparisons are decided as claimed, 1 the other way, 1 un" in text


# The command ------------------------------------------------------------------------------------------------------


def call(*arguments: str):
    return CliRunner().invoke(app, ["reproduce", *arguments], catch_exceptions=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "unknown name 'table9': known are table1"),
        ([], "name what to reproduce"),
        (["table1", "--all"], "name what to reproduce"),
        (["table1", "--workers", "0"], "--workers must be a whole number of at least 1"),
        (["table1", "--workers", "99999999"], "--workers must be at most 256"),
        (["table1", "--page", "x.md"], "--page makes a page"),
        (["--page", "x.txt"], "end the name in .md"),
        (["--page", "x.md", "--out", "nowhere"], "'nowhere' has no results"),
    ],
)
def test_wrong_arguments_are_reported_before_any_work(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert isinstance(result.exception, GraphfaithError)
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").write_text("mine")
    result = call("propositions", "--quick", "--out", "results")
    assert "cannot make the folder 'results'" in str(result.exception)
    assert Path("results").read_text() == "mine"


def test_the_command_prints_and_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "squares", Squares())
    result = call("squares", "--quick", "--workers", "1")
    assert result.exit_code == 0, result.exception
    assert Squares.title in result.stdout
    assert "0, 1, 4, 9" in result.stdout
    assert Path("results/quick/squares.json").is_file()
    again = call("squares", "--out", "results/quick")
    assert "begun with other settings" in str(again.exception)


def test_results_that_are_damaged(tmp_path):
    (tmp_path / "table1.json").write_text("[")
    with pytest.raises(DataError, match="it is not JSON"):
        page(tmp_path, tmp_path / "page.md")
