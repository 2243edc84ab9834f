"""The arena: atoms' effects, rows of who wins and how sure, pages of unfinished runs, and one real contest."""

from __future__ import annotations

import os

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool
from typer.testing import CliRunner

from graphfaith._base.errors import InputError
from graphfaith.cli.application import app
from graphfaith.metric.pooling import pool_widened
from graphfaith_studies.arena.arena import Arena
from graphfaith_studies.arena.contests import CONTESTS, contest_named
from graphfaith_studies.arena.molecules import effects_of_atoms
from graphfaith_studies.arena.page import MARK, make_page
from graphfaith_studies.arena.text import agreement_of, format_message, format_rows
from graphfaith_studies.paper.experiment import FULL, TOY
from graphfaith_studies.paper.journal import Journal
from graphfaith_studies.paper.request import run_reproduce

needs_data = pytest.mark.skipif(not os.environ.get("GRAPHFAITH_DATA"), reason="needs the data; set GRAPHFAITH_DATA")
NAMES = ("anchored-kec", "kec", "saliency", "captum-ig", "gnnexplainer", "random", "zero")


def column(measure, near="", **tables):
    """A column as a unit returns it."""
    methods = {}
    for name, table in tables.items():
        methods[name.replace("_", "-")] = {"table": table}
    return {"measure": measure, "neighborhood": near, "methods": methods}


def results(order=1, lower=0.25):
    """Results of one contest: AnchoredKEC wins by Delta in one column and loses in the other, to the random one.

    GraphMask has one prediction of two, and Delta ``lower`` there; AnchoredKEC has 1.
    """
    won = {name.replace("-", "_"): [[float(i), 2.0 * i]] for i, name in enumerate(NAMES, start=1)}
    lost = {**won, "random": [[0.5, 0.5]]}
    more = {name: [[order * value for value in line] for line in table] for name, table in won.items()}
    found = [column(measure, "U(A,0.5)", **won) for measure in ("delta", "relative-delta")]
    found += [column(measure, "B(A,0.5)", **lost) for measure in ("delta", "relative-delta")]
    late = {"pyg_graphmask": [[lower]], "random": [[9.0]], "zero": [[7.0]]}
    late = [column("delta", "U(A,0.5)", **late)]
    found.append(column("deletion", **more))
    one = {"quality": 0.9, "rows": [3, 5], "columns": found, "late": late}
    units = {unit.key: unit for unit in Arena().units(FULL)}
    return {units["texas/0//GCN/methods"]: one}


def test_effects_of_atoms_are_those_of_an_additive_model():
    class Additive(torch.nn.Module):
        def forward(self, x, edge_index, edge_attr, batch):
            bonds = torch.zeros(len(x)).index_add(0, edge_index[1], edge_attr[:, 0])
            return global_add_pool((x @ torch.tensor([1.0, -2.0]) + bonds).unsqueeze(1), batch).squeeze(1)

    molecule = Data(
        x=torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_attr=torch.tensor([[1.0], [1.0], [0.5], [0.5]]),
    )
    # Each atom takes its own number with it, and both directions of each of its bonds.
    assert effects_of_atoms(Additive(), molecule).tolist() == [1 + 2, -2 + 2 + 1, 1 + 1]


@needs_data
def test_rows_say_who_wins_and_how_sure():
    rows = {(row["measure"], row["neighborhood"]): row for row in Arena().make_rows(results(lower=1.5), FULL)}
    won, lost = rows["delta", "U(A,0.5)"], rows["delta", "B(A,0.5)"]
    # The differences are 1 and 2; the error of two numbers is widened as everywhere.
    error = pool_widened([[1.0, 2.0]])[1]
    assert (won["winner"], won["second"], won["margin"]) == ("anchored-kec", "kec", [1.5, float(f"{error:.4g}"), 2])
    # A method on one prediction wins nothing, and is compared on that prediction alone.
    assert won["less_anchored"]["pyg-graphmask"] == [0.5, None, 1]
    assert won["partial"] == won["slow"] == ["pyg-graphmask"]
    assert won["absent"]["pyg-attention"].startswith("the model has no attention")
    assert won["values"]["random"][0] == 9.0, "random is the one of all predictions"
    assert lost["winner"] == "random"
    assert "winner" not in rows["deletion", ""]
    text = format_rows(list(rows.values()), [contest.name for contest in CONTESTS])
    assert "in 1 of 2 columns (50 %)" in text
    assert "texas GCN in B(A,0.5): random wins, 1.50 against 0.500; paired, AnchoredKEC is 1.00 ± 0.85 higher" in text
    assert "ranked above KEC or AnchoredKEC by Delta here: texas GCN in B(A,0.5) (above anchored-kec" in text
    assert "Not measured yet: tree-cycles GCN" in text
    assert "- pyg-attention on texas GCN: the model has no attention" in text
    ranks = text.split("## Every measure")[1]
    assert "| pyg-graphmask | – |" in ranks, "who lacks predictions has no rank"
    assert "wisconsin GAT" in text


@needs_data
def test_a_column_is_not_won_where_another_is_lower_on_fewer_predictions():
    rows = Arena().make_rows(results(lower=0.25), FULL)
    text = format_rows(rows, ["texas GCN"])
    assert "in 0 of 2 columns (0 %)" in text
    assert "Where only edges move, it wins 0 of 2." in text
    assert "- texas GCN in U(A,0.5): pyg-graphmask is 0.750 lower (1 shared)." in text
    assert format_message(rows).startswith("**With 1 models, 1 of them on data of others")
    assert "in 0 of 2 columns where only edges move" in format_message(rows)
    assert "lacks predictions of others wins no column" not in format_rows(
        Arena().make_rows(results(lower=2.0), FULL), []
    )


@needs_data
def test_wins_on_models_that_have_learnt_nothing_are_counted_apart():
    # 65 % of the test nodes of texas are of one class, so that 0.6 is what a constant answer is worth.
    for quality, expected in ((0.6, "in 0 of 0 columns"), (0.9, "in 1 of 2 columns")):
        found = {unit: {**one, "quality": quality} for unit, one in results(lower=2.0).items()}
        text = format_rows(Arena().make_rows(found, FULL), ["texas GCN"])
        assert f"learnt something alone, it is so {expected}" in text
        assert ("Models that have learnt nothing that shows** (texas GCN)" in text) == (quality == 0.6)


@needs_data
def test_agreement_is_of_what_is_better():
    # More is better of "deletion", and less of "delta": the same order of numbers is the opposite order of methods.
    for order, expected in ((1, -1), (-1, 1)):
        rows = [row for row in Arena().make_rows(results(order), FULL) if row["neighborhood"] != "B(A,0.5)"]
        found = agreement_of(rows)
        assert found["delta", "deletion"][0] == pytest.approx(expected)
        assert found["delta", "delta"] == (pytest.approx(1), 1)


@needs_data
def test_page_of_a_run_that_is_not_finished(tmp_path):
    folder, page = tmp_path / "run", tmp_path / "arena.md"
    folder.mkdir()
    measures = tmp_path / "measures-tables.md"
    measures.write_text(f"# Measures\n\n{MARK}\n\nafter\n")
    with Journal(folder / "arena.journal.jsonl", {"size": {"name": "full"}}) as journal:
        journal.load()
        for unit, found in results().items():
            journal.add(unit.key, found, 1.0)
    result = CliRunner().invoke(app, ["reproduce", "arena", "--page", str(page), "--out", str(folder)])
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "Not measured yet" in text
    assert "texas GCN" in text
    first = measures.read_text()
    assert first.startswith("# Measures")
    assert first.endswith("after\n")
    assert "deletion" in first
    assert "random first of all" in first
    make_page(folder, page)
    assert measures.read_text() == first, "the table is replaced, not added again"


def test_arena_is_asked_for_by_name(tmp_path):
    with pytest.raises(InputError, match=r"table1.*arena"):
        run_reproduce(["arenas"], tmp_path)
    with pytest.raises(InputError, match="--page"):
        run_reproduce(["arena", "table1"], tmp_path, page=tmp_path / "page.md")
    assert len({contest.name for contest in CONTESTS}) == len(CONTESTS)
    assert contest_named("wisconsin GAT").family == "GAT"


@needs_data
@pytest.mark.nightly
def test_molecules_are_judged_by_truth_and_by_the_model_itself():
    arena = Arena()
    units = [unit for unit in arena.units(TOY) if unit.key in ("crippen/0//GINE/methods", "crippen/0//GINE/atoms")]
    rows = {row["measure"]: row for row in arena.make_rows({unit: arena.measure(unit, TOY) for unit in units}, TOY)}
    assert rows["rank-agreement"]["learnt"]["sign-agreement"][0] > 0.7
    assert rows["rank-agreement"]["quality"][0] > 0.8
    # With half of the atoms away the shares come close to what the model loses without each.
    assert rows["own-rank-agreement"]["values"]["anchored-kec"][0] > 0.6
    assert abs(rows["rank-agreement"]["values"]["random"][0]) < 0.6
