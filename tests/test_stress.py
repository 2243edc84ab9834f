"""The stress suite itself: small forms of its parts, and planted faults that it has to report."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import torch

import graphfaith as gf
from graphfaith.explainers import AnchoredKEC

SUITE = Path(__file__).parents[1] / "stress"


@pytest.fixture(autouse=True)
def _suite(monkeypatch):
    monkeypatch.syspath_prepend(str(SUITE))


# Fuzzed graphs ----------------------------------------------------------------------------------------------------


def seed_of(method, through_pyg):
    """Return the seed of a graph that this method explains well."""
    import fuzz

    for seed in range(5000):
        case = fuzz.Case(seed).make()
        wanted = case.method == f"brief {method}" and case.through_pyg == through_pyg and case.data.num_edges > 3
        if wanted and fuzz.try_seed(seed).kind == fuzz.EXPLAINED:
            return seed
    raise AssertionError("no such seed")


def test_fuzzed_graphs_are_explained_or_refused(monkeypatch):
    import fuzz

    monkeypatch.setattr(fuzz, "COUNT", 80)
    (row,) = fuzz.run(quick=True, seed=0, workers=0)
    assert row.outcome.startswith("finite and the same twice")  # and not with a failure
    assert row.count == "8"


@pytest.mark.parametrize("method", ["pgexplainer", "subgraphx"])
def test_an_explanation_of_edges_alone_is_no_refusal(method):
    seed_of(method, True)


# A finding each: double precision, whole numbers, a model that raises on perturbed graphs, an output that is constant.
@pytest.mark.parametrize("seed", [19, 125, 324, 20041, 20078])
def test_an_earlier_finding_stays_mended(seed):
    import fuzz

    assert not fuzz.try_seed(seed).failed


def test_a_part_of_the_live_view_that_fails_is_a_failed_row():
    import live
    from table import has_failed

    def fail():
        raise AssertionError("the owner\nwas refused")

    row = live._judge("requests", fail)
    assert has_failed(row)
    assert "the owner was refused" in row.outcome


def test_a_seed_names_a_graph():
    import fuzz

    first, second = (fuzz.Case(31).make() for _ in range(2))
    assert first.words == second.words
    assert torch.equal(first.data.edge_index, second.data.edge_index)
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True))


def test_an_explanation_that_is_not_finite_is_reported(monkeypatch):
    import fuzz

    seed, explain = seed_of("saliency", False), fuzz.Case.explain

    def planted(case):
        explanation = explain(case)
        explanation.edge_mask = torch.full_like(explanation.edge_mask, torch.nan)
        return explanation

    monkeypatch.setattr(fuzz.Case, "explain", planted)
    monkeypatch.setattr(fuzz, "COUNT", 10)
    outcome = fuzz.try_seed(seed)
    assert (outcome.kind, outcome.failed) == (fuzz.NOT_FINITE, True)
    assert str(seed) in outcome.detail


def fail_raw(method, target):
    raise KeyError(f"planted in {method.method} for {target.name}")


def fail_in_a_coat(method, target):
    try:
        fail_raw(method, target)
    except KeyError as error:
        raise gf.ModelError(f"the model cannot be explained: {error}") from error


@pytest.mark.parametrize("through_pyg", [False, True])
@pytest.mark.parametrize(("fail", "kind"), [(fail_raw, "RAW"), (fail_in_a_coat, "COATED")], ids=["raw", "coat"])
def test_a_raw_exception_is_reported_even_in_a_typed_coat(monkeypatch, through_pyg, fail, kind):
    import fuzz

    seed = seed_of("anchored-kec", through_pyg)
    monkeypatch.setattr(AnchoredKEC, "fit", fail)
    outcome = fuzz.try_seed(seed)
    assert (outcome.kind, outcome.failed) == (getattr(fuzz, kind), True)
    assert "planted" in outcome.detail


def test_two_calls_that_differ_are_reported(monkeypatch):
    import fuzz

    seed, explain, calls = seed_of("linear", False), fuzz.Case.explain, []

    def planted(case):
        explanation = explain(case)
        calls.append(1)
        explanation.edge_mask = explanation.edge_mask + len(calls)
        return explanation

    monkeypatch.setattr(fuzz.Case, "explain", planted)
    assert fuzz.try_seed(seed).kind == fuzz.DIFFERS


@pytest.mark.parametrize("text", ["two\nlines of text", "short", "x" * 5000])
def test_an_error_that_is_not_one_short_line_is_reported(monkeypatch, text):
    import fuzz

    class Planted(gf.InputError):
        def __str__(self):
            return text

    def planted(case):
        raise Planted

    monkeypatch.setattr(fuzz.Case, "explain", planted)
    assert fuzz.try_seed(3).kind == fuzz.UNCLEAR


def test_a_changed_model_is_reported(monkeypatch):
    import fuzz

    seed, explain = seed_of("saliency", False), fuzz.Case.explain

    def planted(case):
        explanation = explain(case)
        case.model.train(not case.model.training)
        next(case.model.parameters()).data.add_(1)
        return explanation

    monkeypatch.setattr(fuzz.Case, "explain", planted)
    assert fuzz.try_seed(seed).kind == fuzz.CHANGED


# Damaged files ----------------------------------------------------------------------------------------------------


def test_damaged_files_are_refused_or_read_as_before(monkeypatch):
    import files

    monkeypatch.setattr(files, "make_bombs", lambda canary: {})  # they need a limit of memory
    damaged, made = files.run(quick=True, seed=0, workers=0, seconds=2.0)
    assert "refused in one line" in damaged.outcome
    assert files.RAN in damaged.outcome
    assert made.count == "0"


@pytest.mark.parametrize("fault", ["raises", "differs", "two lines"])
def test_a_reader_that_fails_is_reported(monkeypatch, fault):
    import dataclasses

    import files
    import originals

    class Planted(gf.DataError):
        def __str__(self):
            return "this is an error\nof two lines"

    def read(path):
        if path.read_bytes() == good.content:
            return {"a": 1}
        if fault == "raises":
            raise KeyError("planted")
        if fault == "two lines":
            raise Planted
        return {"a": 2}

    good = dataclasses.replace(originals.make_originals()["explanation by kec"], read=read, kind=f"planted {fault}")
    monkeypatch.setattr(files, "make_originals", lambda: {good.kind: good})
    kinds = {"raises": files.RAW, "differs": files.SILENT, "two lines": files.UNCLEAR}
    outcome = files.try_seed(12)
    assert (outcome.kind, outcome.failed) == (kinds[fault], True)


def test_code_that_runs_is_reported(monkeypatch):
    import pickle

    import files

    bombs = files.make_bombs

    def planted(canary):
        name, write, _ = bombs(canary)["a bare pickle as .pt"]
        return {"planted": (name, write, lambda path: pickle.loads(path.read_bytes()))}

    monkeypatch.setattr(files, "make_bombs", planted)
    assert files.try_seed(files.BOMBS).kind == files.RAN


def test_pickled_code_is_refused():
    import files

    names = list(files.make_bombs(Path("canary")))
    for name in ("code in a .pt", "code in an old .pt", "a bare pickle as .pt", "code in an array .npz"):
        assert files.try_seed(files.BOMBS + names.index(name)) == (files.REFUSED, False, "")


# Threads, disks and kills -----------------------------------------------------------------------------------------


def test_threads_through_explain_agree():
    import threads

    outcomes = threads.try_together("GCN", "gf.explain", "saliency", seed=1)
    assert {outcome.kind for outcome in outcomes.values()} == {threads.SAME}
    assert len(outcomes) == 16


def test_a_thread_that_gets_something_else_is_reported(monkeypatch):
    import threading

    import threads

    def planted(model, data, method, node, seed):
        explanation = threads.explain_here(model, data, method, node, seed)
        if threading.current_thread() is not threading.main_thread() and node == 3:
            explanation.edge_mask = explanation.edge_mask + 1
        return explanation

    monkeypatch.setitem(threads.WAYS, "planted", planted)
    outcomes = threads.try_together("GCN", "planted", "saliency", seed=0)
    wrong = [name for name, outcome in outcomes.items() if outcome.kind == threads.WRONG]
    assert len(wrong) == 2
    assert all("node 3" in name for name in wrong)


@pytest.mark.parametrize("suffix", [".json", ".journal.jsonl", ".safetensors", ".png", ".pdf", ".html", ".csv", ".md"])
def test_half_of_a_file_is_recognised(suffix):
    import safetensors.torch
    from commands import find_damage
    from matplotlib.figure import Figure

    from graphfaith.view.figure import render

    whole = {
        ".json": b'[\n{"a": 1}\n]\n',
        ".journal.jsonl": b'{"a": 1}\n{"b": 2}\n',
        ".safetensors": safetensors.torch.save({"x": torch.ones(9)}),
        ".html": b"<html><body>text</body></html>\n",
        ".csv": b"a,b\n1,2\n",
        ".md": b"# Title\n\ntext\n",
    }
    content = whole.get(suffix) or render(Figure(), suffix)
    assert find_damage(f"x{suffix}", content) == ""
    if suffix == ".journal.jsonl":  # the end of a journal may be missing, a line within may not
        assert find_damage(f"x{suffix}", content[:-3]) == ""
        content = b'{"a"\n' + content
    assert find_damage(f"x{suffix}", content if suffix == ".journal.jsonl" else content[: -len(content) // 5])


def test_results_are_compared_without_their_times(tmp_path):
    from kills import LONG, Story, compare, results_in

    for place, seconds, value in (("a", 1.0, 5), ("b", 2.0, 5), ("c", 1.0, 6)):
        (tmp_path / place / "out").mkdir(parents=True)
        (tmp_path / place / "out" / "r.json").write_text(json.dumps([{"seconds_per_node": seconds, "value": value}]))
    expected = results_in(tmp_path / "a" / "out")
    for place, problems in (("b", 0), ("c", 1)):
        story = Story(LONG[0])
        compare(story, tmp_path / place, expected)
        assert len(story.problems) == problems


# The crew and the table -------------------------------------------------------------------------------------------


def test_seeds_that_kill_or_block_their_process_are_reported():
    from crew import BLOCKED, DIED, Crew

    from trying import misbehave

    outcomes = Crew(misbehave, "again {}", workers=1, seconds=120.0, patience=1.0).try_all(range(5))
    assert [outcome.kind for outcome in outcomes.values()] == ["answered", DIED, BLOCKED, "answered", "answered"]


def test_the_time_of_a_crew_is_bounded():
    from crew import Crew
    from table import Outcome, summarise

    def slow(seed):
        time.sleep(0.05)
        return Outcome("right")

    outcomes = Crew(slow, "again {}", workers=0, seconds=0.2).try_all(range(1000))
    assert 1 <= len(outcomes) < 20
    assert "of 1,000 (time ran out)" in summarise("tries", 1000, outcomes).count


def test_rows_of_one_part_are_renewed_and_others_stay(tmp_path):
    from table import renew

    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n<!-- table: begin -->\n\n| tried | how many | what came out |\n|---|---:|---|\n| a | 1 | old |\n"
        "| b | 2 | kept |\n\nMade by all.\n\n<!-- table: end -->\n"
    )
    for outcome in ("new", "newer"):
        renew(page, [("a", "3", outcome), ("c", "4", outcome)], "letters", f"Made {outcome}.")
    assert page.read_text() == (
        "# Page\n\n<!-- table: begin -->\n\n| tried | how many | what came out |\n|---|---:|---|\n| a | 3 | newer |\n"
        "| b | 2 | kept |\n| c | 4 | newer |\n\nMade by all.\n\nThe rows of letters: Made newer.\n\n"
        "<!-- table: end -->\n"
    )


def test_the_table_is_printed_and_written_also_when_a_part_fails(monkeypatch, tmp_path, capsys):
    import run
    from table import Row

    rows = {"fuzz": Row("graphs", "3", "right 3"), "files": Row("files", "2", "FAILED: raw exception 1 (7)")}
    monkeypatch.setattr(run, "run_part", lambda name, quick, seed: ([rows[name]], 1.0))
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- table: begin -->\nold\n<!-- table: end -->\n\nAfter.\n")
    command = ["run.py", "--only", "fuzz", "--only", "files", "--table", str(page), "--json", str(tmp_path / "r.json")]
    monkeypatch.setattr(sys, "argv", command)
    assert run.main() == 1
    assert "| files | 2 | FAILED: raw exception 1 (7) |" in capsys.readouterr().out
    text = page.read_text()
    assert text.startswith("# Page\n\n<!-- table: begin -->\n\n| tried |")
    assert text.endswith("<!-- table: end -->\n\nAfter.\n")
    assert "old" not in text
    assert len(json.loads((tmp_path / "r.json").read_text())["rows"]) == 2
    rows["files"] = Row("files", "2", "right 2")
    assert run.main() == 0


def test_a_part_that_raises_or_is_missing_is_a_failed_row(monkeypatch, tmp_path):
    import fuzz
    import run
    from table import has_failed

    def planted(quick, seed):
        raise RuntimeError("planted")

    monkeypatch.setattr(fuzz, "run", planted)
    for name in ("fuzz", "no_such_part"):
        run.do_part(name, True, 0, tmp_path / "rows.json")
        (row,) = json.loads((tmp_path / "rows.json").read_text())
        assert has_failed(row)


def test_every_part_is_a_module():
    import run

    missing = [name for name in run.PARTS if not (SUITE / f"{name}.py").is_file()]
    assert missing == []
