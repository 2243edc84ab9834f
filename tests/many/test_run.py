"""A run that is read again: rows, explanations, summaries."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import graphfaith as gf
from fragile_model import FEATURES, NODES, make_graph, make_model
from graphfaith import DataError, InputError, UnfinishedRunWarning
from graphfaith.explanation.faithfulness import faithfulness_by_kind, faithfulness_of
from graphfaith.many import job as job_module
from graphfaith.many.ranking import Sums
from graphfaith.model import target as target_module
from written_run import write_run

BAD = [7, 30]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    torch.save(make_graph(BAD), folder / "graph.pt")
    job = gf.ManyJob(folder / "graph.pt", "fragile_model:load_fragile", samples=100, top_edges=5, top_features=3)
    write_run(folder / "run", job, range(NODES))
    return gf.Run(folder / "run")


def test_a_run_has_its_rows(run):
    assert len(run) == NODES
    assert run.is_finished
    assert "40 of 40 rows" in repr(run)
    rows = list(run)
    assert [row["node"] for row in rows] == list(range(NODES))
    assert rows[3] == run.row(3)
    frame = run.to_pandas(["node", "status"])
    assert frame[frame["status"] == "failed"]["node"].tolist() == BAD
    assert sum(batch.num_rows for batch in run.batches(["node"])) == NODES
    with pytest.raises(InputError, match="has no column 'nod': its columns are node, class"):
        run.to_pandas(["node", "nod"])


def test_an_explanation_has_what_was_kept_and_says_that_it_is_not_all(run):
    graph, row = make_graph(BAD), run.row(12)
    kept, model = run[12], make_model()
    explainer = gf.explainer_for(model, run.job.open().load_around(12), samples=100)
    whole = explainer(graph["x"], graph["edge_index"], index=12)
    assert isinstance(kept, gf.SignedExplanation)
    assert int(kept.index) == 12
    assert int(kept.target[12]) == row["class"]
    top = kept.top_edges()
    assert [(e.source, e.sink) for e in top] == [(e["source"], e["target"]) for e in row["edges"]]
    assert len(top) == 5 < row["edges_total"]
    entries = kept.edge_mask != 0
    torch.testing.assert_close(kept.edge_mask[entries], whole.edge_mask[entries], rtol=1e-8, atol=0)
    torch.testing.assert_close(kept.edge_stderr[entries], whole.edge_stderr[entries], rtol=1e-6, atol=0)
    columns = (whole.node_mask * graph["x"]).sum(dim=0)
    there = kept.node_mask[0] != 0
    assert int(there.sum()) == 3
    torch.testing.assert_close(kept.node_mask[0, there], columns[there], rtol=1e-8, atol=0)
    known = faithfulness_of(kept)
    assert known.is_estimate
    assert known.relative == row["relative"]
    assert known.record.relative == row["p_relative"]
    assert f"all {row['edges_total']} edges, of which the 5 strongest are here" in str(known)
    assert set(faithfulness_by_kind(kept)) == {"edges", "features"}
    assert faithfulness_by_kind(kept)["features"] is None
    kept.edge_mask *= 2
    assert faithfulness_of(kept) is None


def test_on_a_large_graph_an_explanation_is_on_what_the_node_depends_on(tmp_path, monkeypatch):
    graph, generator = make_graph(), torch.Generator().manual_seed(2)
    loops = torch.arange(0, NODES, 2).repeat(2, 1)
    extra = torch.cat([graph["edge_index"], loops], dim=1)
    edges = extra[:, torch.randperm(extra.size(1), generator=generator)]
    weight = torch.rand(edges.size(1), generator=generator, dtype=torch.float64)
    gf.pack_graph({**graph, "edge_index": edges, "edge_weight": weight}, tmp_path / "packed")
    job = gf.ManyJob(tmp_path / "packed", "fragile_model:load", samples=100, top_edges=12, top_features=3)
    write_run(tmp_path / "run", job, [12, 13])
    run = gf.Run(tmp_path / "run")
    for node in (12, 13):  # with a self-loop of the user's, and without
        whole = run[node]
        with monkeypatch.context() as patch:
            for module in (job_module, target_module):
                patch.setattr(module, "LARGE", 0)
            part = run[node]
        assert len(part.x) == 7  # the ring's nodes up to three hops away, as the degrees of those two away count
        assert torch.equal(part.x, whole.x[part.n_id])
        assert torch.equal(part.n_id[part.edge_index], edges[:, part.e_id])
        for name in ("edge_mask", "edge_stderr", "edge_weight"):
            assert torch.equal(part[name], whole[name][part.e_id]), name
        for name in ("self_loop_score", "self_loop_stderr"):
            assert torch.equal(part[name], whole[name][part.n_id]), name
            assert int((part[name] != 0).sum()) == int((whole[name] != 0).sum()) > 0
        assert int((part.edge_mask != 0).sum()) == int((whole.edge_mask != 0).sum()) > 3
        assert torch.equal(part.node_mask, whole.node_mask)
        row = run.row(node)
        output = make_model()(part.x, part.edge_index, edge_weight=part.edge_weight)[part.index.item()]
        assert float(output.detach()[part.target[part.index]]) == pytest.approx(row["value"], rel=1e-12)
        assert [e.names for e in part.top_edges(12)] == [(str(e["source"]), str(e["target"])) for e in row["edges"]]
        assert str(faithfulness_of(part)) == str(faithfulness_of(whole))
        gf.page(part, tmp_path / "page.html")
        assert f"looked at for node {node}</h1>" in (tmp_path / "page.html").read_text()


def test_an_explanation_that_was_kept_whole_does_not_say_so(tmp_path):
    torch.save(make_graph(), tmp_path / "graph.pt")
    job = gf.ManyJob(tmp_path / "graph.pt", "fragile_model:load", samples=100, top_features=0)
    write_run(tmp_path / "run", job, range(20))
    kept = gf.Run(tmp_path / "run")[4]
    assert "strongest" not in str(faithfulness_of(kept))
    assert kept.get("node_mask") is None
    # It can be scored as any explanation of PyG.
    measured = gf.general_unfaithfulness(job.open().explainer, kept, "U(A,0.5)", num_samples=200, seed=1)
    assert measured.relative == pytest.approx(faithfulness_of(kept).relative, rel=0.5)


def test_a_page_shows_a_row(run, tmp_path):
    run.page(12, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "strongest are here" in text
    assert "not measured" in text


def test_what_is_not_there_is_said(run):
    with pytest.raises(InputError, match="not in"):
        run[NODES]
    with pytest.raises(InputError, match=r"could not be explained: .*finite"):
        run[7]
    with pytest.raises(InputError, match="whole number"):
        run["a"]


def kept_scores(run, of, key):
    """The scores of all explained nodes by class and key, with a 0 for every node that has not kept one."""
    rows = [row for row in run if row["status"] == "ok"]
    keys = {key(entry) for row in rows for entry in row[of]}
    found = {}
    for group in {row["class"] for row in rows}:
        own = [{key(entry): entry["score"] for entry in row[of]} for row in rows if row["class"] == group]
        found |= {(group, one): np.array([scores.get(one, 0.0) for scores in own]) for one in keys}
    return found


@pytest.mark.parametrize("of", ["features", "edges"])
def test_means_and_errors_by_class_are_those_over_nodes(run, of):
    def key(entry):
        return (entry["index"],) if of == "features" else (entry["source"], entry["target"])

    ranking, right = getattr(run, of)(top=1000), kept_scores(run, of, key)
    assert len(ranking) == sum(bool((scores != 0).any()) for scores in right.values())
    assert ranking.to_pandas().shape[0] == len(ranking)
    for row in ranking.rows():
        named = (row["feature"],) if of == "features" else (row["source"], row["target"])
        scores = right[row["class"], named]
        assert row["explained"] == len(scores)
        assert row["holding"] == np.count_nonzero(scores)
        for name, values in (("mean_size", np.abs(scores)), ("mean", scores)):
            assert row[name] == pytest.approx(values.mean(), rel=1e-12)
            if len(values) > 1:
                assert row[f"{name}_stderr"] == pytest.approx(values.std(ddof=1) / math.sqrt(len(values)), rel=1e-6)
    for group in np.unique(ranking.columns["class"]):
        sizes = ranking.columns["mean_size"][ranking.columns["class"] == group]
        assert (np.diff(sizes) <= 0).all()


def test_a_ranking_of_all_nodes_has_names_and_no_more_rows_than_asked_for(run):
    names = [f"word {i}" for i in range(FEATURES)]
    ranking = run.features(by=None, top=2, names=names)
    assert ranking.columns["rank"].tolist() == [1, 2]
    assert ranking.columns["explained"].tolist() == [NODES - len(BAD)] * 2
    assert ranking.rows()[0]["name"] == names[ranking.rows()[0]["feature"]]
    assert "word" in str(ranking)
    assert "->" in str(run.edges(top=1))
    with pytest.raises(InputError, match="by must be"):
        run.features(by="node")


def test_classes_have_their_names(run):
    classes = ["Theory", "Neural Networks", "Rules"]
    ranking = run.features(top=1, classes=classes)
    assert ranking.columns["class_name"].tolist() == [classes[i] for i in ranking.columns["class"]]
    assert f"class {ranking.columns['class'][0]}, {classes[ranking.columns['class'][0]]} (" in str(ranking)
    assert "class_name" in run.edges(top=1, classes=classes).columns
    assert "class_name" not in run.features(by=None, classes=classes).columns
    assert "class_name" not in run.features().columns
    with pytest.raises(InputError, match="classes must be a list of at least"):
        run.features(classes=classes[:1])
    with pytest.raises(InputError, match="names must be a list of at least"):
        run.features(names=["one word"])


def test_cora_s_classes_and_words_are_looked_at_by_the_benchmark_of_the_docs(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import run_words

    write_run(tmp_path / "run", gf.ManyJob("cora", method="saliency"), range(0, 2708, 20))
    run = gf.Run(tmp_path / "run")
    assert "class 3, Neural Networks (" in str(run.features())
    assert run[20].class_names[3] == "Neural Networks"
    monkeypatch.setattr(sys, "argv", ["run_words.py", str(tmp_path / "run")])
    run_words.main()
    told = capsys.readouterr().out
    assert "| 3 Neural Networks (818) |" in told
    assert "Not to be trusted" in told


def test_sums_do_not_depend_on_how_they_come(monkeypatch):
    rng = np.random.default_rng(0)
    keys, scores = rng.integers(0, 5, (300, 2)), rng.integers(-9, 9, 300).astype(float)
    found = []
    for size in (300, 7):
        sums = Sums(1)
        monkeypatch.setattr("graphfaith.many.ranking._PENDING", size)
        sums.count(keys[:, 0])
        for i in range(0, 300, size):
            sums.add(keys[i : i + size], scores[i : i + size])
        found.append(sums.rank(3))
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name])


def test_sums_are_merged_seldom(monkeypatch):
    monkeypatch.setattr("graphfaith.many.ranking._PENDING", 10)
    sums, sizes, real = Sums(1), [], Sums.merge
    monkeypatch.setattr(Sums, "merge", lambda self: (real(self), sizes.append(len(self.keys))))
    for i in range(200):  # No key comes twice.
        sums.add(np.stack([np.zeros(10, np.int64), np.arange(10 * i, 10 * i + 10)], axis=1), np.ones(10))
    assert sum(sizes) < 3 * 2000


def test_untrusted_nodes_are_those_above_the_limit_and_those_that_failed(run):
    rows = list(run)
    limit = float(np.median([row["relative"] for row in rows if row["relative"] is not None]))
    found = run.untrusted(limit)
    right = [row["node"] for row in rows if row["status"] == "failed" or row["relative"] > limit]
    assert found["node"].tolist() == right
    assert [why for node, why in zip(found["node"], found["why"], strict=True) if node in BAD] == ["failed"] * 2
    assert run.untrusted(10.0)["node"].tolist() == BAD
    unsure = run.untrusted(limit, errors=2)
    rows = {row["node"]: row for row in run}
    may = {
        n
        for n, row in rows.items()
        if row["relative"] and row["relative"] <= limit < row["relative"] + 2 * row["relative_stderr"]
    }
    assert may
    assert set(unsure["node"].tolist()) == set(found["node"].tolist()) | may
    assert {why for node, why in zip(unsure["node"].tolist(), unsure["why"], strict=True) if node in may} == {
        f"may be more than {limit:g} unexplained"
    }


def test_methods_without_a_number_are_not_trusted(tmp_path):
    job = gf.ManyJob("ba-shapes", method="saliency")
    write_run(tmp_path / "run", job, range(400, 404))
    assert set(gf.Run(tmp_path / "run").untrusted()["why"]) == {"not measured"}
    assert faithfulness_of(gf.Run(tmp_path / "run")[401]) is None


def write_features(folder, job, scores, classes):
    """Write a run whose rows have given scores of features."""
    from graphfaith.many.rows import schema

    rows = [
        {"node": i, "class": classes[i], "status": "ok", "edges": [], "features": [
            {"index": c, "score": s} for c, s in enumerate(own) if s]}
        for i, own in enumerate(scores)
    ]  # fmt: skip
    (folder / "explanations").mkdir(parents=True)
    plan = {"job": job.settings(), "nodes": {"count": len(rows)}}
    (folder / "plan.json").write_text(json.dumps({"plan": plan, "digest": "x"}))
    (folder / "done.json").write_text(json.dumps({"digest": "x"}))
    table = pa.Table.from_pylist(rows, schema=schema().with_metadata({b"graphfaith.plan": b"x"}))
    pa.parquet.write_table(table, folder / "explanations" / "part-00000000.parquet")


def test_cohorts_are_the_kinds_of_explanations_that_there_are(tmp_path):
    rng = np.random.default_rng(1)
    kinds = rng.choice(3, 120, p=[0.5, 0.3, 0.2])
    middles = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 0], [0, 0, 0, 0, 1, 1]])
    # Scores of one kind are of any size, but of one direction.
    scores = (middles[kinds] + 0.05 * rng.standard_normal((120, 6))) * rng.uniform(0.1, 10, (120, 1))
    write_features(tmp_path / "run", gf.ManyJob("ba-shapes"), scores.tolist(), kinds.tolist())
    run = gf.Run(tmp_path / "run")
    found = run.cohorts(3, seed=5)
    assert found.sizes.tolist() == sorted(np.bincount(kinds).tolist(), reverse=True)
    assert [len(set(kinds[found.cohort == i])) for i in range(3)] == [1, 1, 1]
    assert found.spread < 0.05
    assert (found.classes > 0).sum() == 3
    first = [row["feature"] for row in found.features.rows() if row["cohort"] == 0 and row["rank"] <= 2]
    assert sorted(first) == np.flatnonzero(middles[kinds[found.cohort == 0][0]]).tolist()
    np.testing.assert_array_equal(run.cohorts(3, seed=5).cohort, found.cohort)
    with pytest.raises(InputError, match="at least as many"):
        run.cohorts(121)


def test_cohorts_need_features(tmp_path):
    write_features(tmp_path / "run", gf.ManyJob("ba-shapes"), [[0.0], [0.0]], [0, 1])
    with pytest.raises(InputError, match="top_features"):
        gf.Run(tmp_path / "run").cohorts(2)


def test_a_run_that_is_not_finished_says_so(tmp_path):
    torch.save(make_graph(), tmp_path / "graph.pt")
    job = gf.ManyJob(tmp_path / "graph.pt", "fragile_model:load", method="saliency")
    write_run(tmp_path / "run", job, range(8), block=4, upto=1)
    with pytest.warns(UnfinishedRunWarning, match="4 of 8 rows; it is not finished"):
        run = gf.Run(tmp_path / "run")
    with pytest.raises(InputError, match="not yet"):
        run.row(6)
    assert len(run) == 4


def test_damaged_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no plan\.json"):
        gf.Run(tmp_path)
    torch.save(make_graph(), tmp_path / "graph.pt")
    job = gf.ManyJob(tmp_path / "graph.pt", "fragile_model:load", method="saliency")
    folder = tmp_path / "run"
    write_run(folder, job, range(4))
    part = folder / "explanations" / "part-00000000.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:-20])
    with pytest.raises(DataError, match="damaged"):
        gf.Run(folder)
    part.write_bytes(content)
    torch.save(make_graph([1]), tmp_path / "graph.pt")
    other = gf.ManyJob(tmp_path / "graph.pt", "fragile_model:load_fragile", method="saliency")
    with pytest.raises(DataError, match="has changed"):
        gf.Run(folder, other)[2]
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**plan, "digest": "other"}))
    with pytest.raises(DataError, match="another run"):
        gf.Run(folder)
    (folder / "plan.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        gf.Run(folder)


def test_no_damaged_number_is_read(tmp_path):
    torch.save(make_graph(), tmp_path / "graph.pt")
    job = gf.ManyJob(tmp_path / "graph.pt", "fragile_model:load", method="saliency")
    write_run(tmp_path / "run", job, range(8))
    run = gf.Run(tmp_path / "run")
    part = run.parts[0].path
    content, right = part.read_bytes(), [row["value"] for row in run]
    column = next(
        one
        for one in (pq.read_metadata(part).row_group(0).column(i) for i in range(10))
        if one.path_in_schema == "value"
    )
    first = column.dictionary_page_offset or column.data_page_offset
    refused = 0
    for place in range(first, first + column.total_compressed_size, 3):
        part.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        try:
            found = [value for batch in run.batches(["value"]) for value in batch.column("value").to_pylist()]
        except DataError:
            refused += 1
            with pytest.raises(DataError, match=part.name):
                run.row(3)
        else:
            assert found == right
    assert refused > column.total_compressed_size / 6


def test_a_run_is_read_from_anywhere_and_a_moved_graph_is_the_same(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/faraway.py").write_text("from fragile_model import load")
    torch.save(make_graph(), tmp_path / "home/graph.pt")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path / "home")
    words = {"model": "faraway:load", "method": "saliency"}
    write_run(tmp_path / "run", gf.ManyJob("graph.pt", **words), range(8), upto=0)
    (tmp_path / "home/graph.pt").rename(tmp_path / "moved.pt")
    write_run(tmp_path / "run", gf.ManyJob("../moved.pt", **words), range(8))
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path / "home")])
    monkeypatch.delitem(sys.modules, "faraway")
    job_module._open.cache_clear()
    assert int(gf.Run(tmp_path / "run")[3].index) == 3


def test_the_query_of_the_docs_gives_the_ranking_of_the_features(run):
    import duckdb

    page = (Path(__file__).parents[2] / "docs" / "many.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    found = duckdb.connect().execute(query.replace("run/", f"{run.folder}/")).fetchall()
    columns = run.features(by="class", top=FEATURES).columns
    wanted = dict(zip(zip(columns["class"], columns["feature"], strict=True), columns["mean_size"], strict=True))
    assert {(group, word): size for group, word, size in found} == pytest.approx(wanted)
    assert [size for group, _, size in found if group == found[0][0]] == sorted(
        (size for group, _, size in found if group == found[0][0]), reverse=True
    )


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    import builtins
    import sys

    job, real = gf.ManyJob("ba-shapes", method="saliency"), builtins.__import__

    def without(name, *rest, **options):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *rest, **options)

    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(builtins, "__import__", without)
    for ask in (lambda: job.table([1]), job.check):
        with pytest.raises(InputError, match=r"pip install 'graphfaith\[many\]'"):
            ask()


def test_a_run_on_a_packed_graph_has_the_same_explanations(tmp_path):
    torch.save(make_graph(), tmp_path / "graph.pt")
    gf.pack_graph(make_graph(), tmp_path / "packed")
    kept = []
    for name in ("graph.pt", "packed"):
        write_run(tmp_path / f"run-{name}", gf.ManyJob(tmp_path / name, "fragile_model:load", samples=40), range(4))
        kept.append(gf.Run(tmp_path / f"run-{name}")[2])
    for name in ("edge_mask", "self_loop_score", "node_mask", "edge_stderr"):
        assert torch.equal(kept[0][name], kept[1][name])
    assert kept[0].edge_index.equal(kept[1].edge_index)
