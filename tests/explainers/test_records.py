"""Explanations of many nodes as arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith import InputError
from graphfaith.explainers import many, sweep
from graphfaith.explainers.columns import StrongestColumns
from graphfaith.explainers.records import Records
from graphfaith.explanation.faithfulness import faithfulness_of
from graphfaith.graph.computation_graph import ComputationGraph
from graphfaith.graph.graph import Graph
from reference import make_case

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
NODES = 24


def asked(algorithm, *, nodes="attributes", weighted=True, seed=3):
    case = make_case(seed=seed, nodes=NODES, edges=60, features=5, weighted=weighted, loops=True)
    torch.manual_seed(1)
    model = GCN(5, 6, 2, out_channels=3).to(case.x.dtype)
    explainer = Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type=nodes,
        edge_mask_type="object",
        model_config=CONFIG,
    )
    kwargs = {} if case.edge_weight is None else {"edge_weight": case.edge_weight}
    return explainer, case.x, case.edge_index, kwargs


def assert_same(records, explanations, tolerance=1e-9):
    assert len(records) == len(explanations)
    for i, explanation in enumerate(explanations):
        assert records.index[i] == int(explanation.index)
        part = explanation.difference_model.graph
        own = slice(*records.edge_start[i : i + 2])
        felt = part.felt.numpy()
        assert records.edge_id[own].tolist() == part.edge_id.numpy()[felt].tolist()
        assert records.source[own].tolist() == part.ends[0].numpy()[felt].tolist()
        assert records.sink[own].tolist() == part.ends[1].numpy()[felt].tolist()
        right = explanation.difference_model.gradient()[1].numpy()[felt]
        scale = max(1e-6, np.abs(right).max())
        np.testing.assert_allclose(records.score[own], right, atol=tolerance * scale)
        given = records.edge_id[own] >= 0
        mask = explanation.edge_mask[torch.from_numpy(records.edge_id[own][given])]
        np.testing.assert_allclose(records.score[own][given], mask, atol=tolerance * scale)
        nodes = slice(*records.node_start[i : i + 2])
        assert records.node[nodes].tolist() == part.nodes[: part.num_visible].tolist()
        scores = gf.node_scores(explanation)[part.nodes[: part.num_visible]]
        np.testing.assert_allclose(
            records.node_score[nodes], scores, atol=tolerance * max(1e-6, float(scores.abs().max()))
        )
        assert records.numbers["in_sample_error"][i] == pytest.approx(explanation.in_sample_error, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"normalization": "auto"}, {"normalization": "row"}])
def test_records_are_the_explanations_of_all_nodes(weighted, options):
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=60, **options), weighted=weighted)
    records = gf.explain_all(explainer, x, edges, progress=False, **kwargs)
    alone = list(gf.explain_nodes(explainer, x, edges, progress=False, together=False, **kwargs))
    assert_same(records, alone)
    assert records.about["method"] == "KEC"
    assert records.about["settings"]["neighborhood"] == "U(A,0.5)"


def test_nodes_that_are_not_proven_are_explained_alone(monkeypatch):
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=60))
    right = gf.explain_all(explainer, x, edges, progress=False, **kwargs)
    fit, seen = sweep.Block.fit, []

    def doubting(own, parts, first, proven, *rest):
        proven[1::3] = False
        seen.append(int(proven.sum()))
        return fit(own, parts, first, proven, *rest)

    monkeypatch.setattr(sweep.Block, "fit", doubting)
    found = gf.explain_all(explainer, x, edges, progress=False, **kwargs)
    assert 0 < sum(seen) < NODES
    for name, values in right.columns().items():
        np.testing.assert_allclose(found.columns()[name], values, rtol=1e-7, atol=1e-9)
    assert found.node.tolist() == right.node.tolist()


@pytest.mark.parametrize("algorithm", [gf.Saliency(), gf.AnchoredKEC("U(A,0.5)", num_samples=30)])
def test_any_method_has_records(algorithm):
    explainer, x, edges, kwargs = asked(algorithm)
    records = gf.explain_all(explainer, x, edges, [5, 2], progress=False, **kwargs)
    one, two = gf.explain_nodes(explainer, x, edges, [5, 2], progress=False, **kwargs)
    assert records.index.tolist() == [5, 2]
    for i, explanation in enumerate((one, two)):
        own = slice(*records.edge_start[i : i + 2])
        given = records.edge_id[own] >= 0
        mask = explanation.edge_mask[torch.from_numpy(records.edge_id[own][given])]
        np.testing.assert_allclose(records.score[own][given], mask, rtol=1e-6, atol=1e-9)
        if isinstance(algorithm, gf.AnchoredKEC):
            for of, record in (("", explanation.estimate.scores), ("p_", explanation.estimate)):
                assert records.numbers[f"{of}delta"][i] == record.value
                assert records.numbers[f"{of}stderr"][i] == record.stderr
                assert records.numbers[f"{of}relative"][i] == record.relative
                assert records.numbers[f"{of}relative_stderr"][i] == record.relative_stderr
    assert ("relative" in records.numbers) == isinstance(algorithm, gf.AnchoredKEC)


def test_without_a_node_mask_there_are_no_nodes():
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=20), nodes=None)
    for nodes in (None, [3, 4]):
        records = gf.explain_all(explainer, x, edges, nodes, progress=False, **kwargs)
        assert not len(records.node)
        assert records.node_start.tolist() == [0] * (len(records) + 1)


def test_tables():
    pandas = pytest.importorskip("pandas")
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=20))
    records = gf.explain_all(explainer, x, edges, progress=False, **kwargs)
    table = records.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table) == ["index", "source", "sink", "edge_id", "score", "score_stderr"]
    assert len(table) == records.edge_start[-1]
    assert table[table["index"] == 7]["score"].tolist() == records.score[slice(*records.edge_start[7:9])].tolist()
    assert list(records.to_pandas("nodes")) == ["index", "node", "node_score"]
    for wrong in ("feature", [], None):
        with pytest.raises(InputError, match='"edges", "nodes", "features" or "explained"'):
            records.to_pandas(wrong)
    assert list(records.to_pandas("explained")) == ["index", "label", "value", "in_sample_error", "samples"]
    assert "24 explained" in repr(records)
    assert records == records
    assert len({records}) == 1


def test_arrow_is_asked_for_by_name_if_it_is_not_there(monkeypatch):
    import builtins

    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=20))
    records = gf.explain_all(explainer, x, edges, [1], progress=False, **kwargs)
    real = builtins.__import__

    def without(name, *rest, **options):
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="pip install pyarrow"):
        records.to_arrow()


def test_records_are_written_and_read(tmp_path):
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=20))
    records = gf.explain_all(explainer, x, edges, progress=False, **kwargs)
    path = tmp_path / "records.safetensors"
    records.save(path)
    loaded = Records.load(path)
    assert loaded.about == records.about
    for name in (*records.columns(), *records.columns("nodes"), "edge_start", "node_start"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(records, name))
    assert loaded.numbers["in_sample_error"].tolist() == records.numbers["in_sample_error"].tolist()
    before = path.read_bytes()
    with pytest.raises(InputError, match="no file"):
        Records.load(tmp_path / "other")
    (tmp_path / "wrong").write_bytes(b"wrong")
    with pytest.raises(InputError, match="not a file of records"):
        Records.load(tmp_path / "wrong")
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, tmp_path / "else")
    with pytest.raises(InputError, match="not a file of records"):
        Records.load(tmp_path / "else")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"score": None}, "lacks score"),
        ({"source": np.zeros(3, np.int64)}, "edge_start"),
        ({"edge_start": np.array([0, 10**12])}, "edge_start"),
        ({"index": np.zeros((2, 2), np.int64)}, "index must be"),
        ({"score": np.zeros(4, np.float16)}, "score must be"),
        ({"value": np.zeros(2)}, "1 values and labels"),
        ({"feature_start": np.array([0, 1])}, "feature_start"),
        ({"numbers.x": np.zeros(7)}, "numbers of each kind"),
        ({"about": "[]"}, "about"),
        ({"about": "{"}, "not a file of records"),
        ({"about": None}, "about"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(tmp_path, wrong, said):
    from safetensors.numpy import save_file

    arrays = {name: np.zeros(0, np.int64) for name in ("source", "sink", "edge_id", "node", "feature")}
    real = "score", "score_stderr", "node_score", "feature_score", "feature_stderr", "feature_value"
    arrays |= {name: np.zeros(0) for name in real}
    arrays |= {"index": np.array([4]), "label": np.array([1]), "value": np.array([0.5])}
    arrays |= {f"{of}_start": np.zeros(2, np.int64) for of in ("edge", "node", "feature")}
    about = {"format": "graphfaith records 2", "about": "{}"}
    path = tmp_path / "records"
    save_file(arrays, path, metadata=about)
    assert len(Records.load(path)) == 1
    for name, value in wrong.items():
        of = about if name == "about" else arrays
        of.pop(name, None)
        if value is not None:
            of[name] = value
    save_file(arrays, path, metadata=about)
    with pytest.raises(InputError, match=said):
        Records.load(path)


def test_a_graph_without_edges_and_a_single_column_have_records():
    explainer, x, _, _ = asked(gf.KEC("U(A,0.5)", num_samples=20), weighted=False)
    none = torch.empty(2, 0, dtype=torch.int64)
    records = gf.explain_all(explainer, x, none, progress=False)
    assert records.source.tolist() == records.sink.tolist() == list(range(NODES))
    case = make_case(seed=3, nodes=NODES, edges=60, features=1)
    single = Explainer(
        GCN(1, 6, 2, out_channels=3).to(case.x.dtype),
        gf.KEC("U(A,0.5)", num_samples=40),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    every = gf.explain_all(single, case.x, case.edge_index, progress=False)
    few = gf.explain_all(single, case.x, case.edge_index, range(10), progress=False)
    np.testing.assert_allclose(every.node_score[: len(few.node)], few.node_score, rtol=1e-6, atol=1e-9)


def test_what_records_cannot_hold_is_refused_first():
    from torch_geometric.explain import GNNExplainer

    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=20))
    explainer.threshold_config = Explainer(
        explainer.model, gf.Saliency(), explanation_type="model", edge_mask_type="object", model_config=CONFIG,
        threshold_config=("topk", 3),
    ).threshold_config  # fmt: skip
    with pytest.raises(InputError, match="threshold_config"):
        gf.explain_all(explainer, x, edges, **kwargs)
    bare = Explainer(
        explainer.model, gf.Saliency(), explanation_type="model", node_mask_type="attributes", model_config=CONFIG
    )
    with pytest.raises(InputError, match="edge_mask_type"):
        gf.explain_all(bare, x, edges, **kwargs)
    theirs = Explainer(
        explainer.model, GNNExplainer(), explanation_type="model", edge_mask_type="object", model_config=CONFIG
    )
    with pytest.raises(InputError, match="GNNExplainer"):
        gf.explain_all(theirs, x, edges, **kwargs)


def test_what_is_wrong_is_said_before_work_begins():
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=20))
    with pytest.raises(InputError, match="99"):
        gf.explain_all(explainer, x, edges, [99], **kwargs)
    with pytest.raises(InputError, match="Explainer is needed"):
        gf.explain_all(3, x, edges)


def together_and_alone(explainer, x, edges, kwargs, **options):
    found = gf.explain_all(explainer, x, edges, progress=False, **options, **kwargs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "AT_LEAST", 10**9)
        return found, gf.explain_all(explainer, x, edges, progress=False, **options, **kwargs)


@pytest.mark.parametrize(
    "algorithm",
    [
        gf.KEC("U(A,0.5)", num_samples=60),
        gf.KEC("B(A,0.5)", num_samples=60, normalization="auto"),
        gf.AnchoredKEC("U(A,0.5)", num_samples=60),
        gf.AnchoredKEC("B(A,0.5,paired)", num_samples=60),
        gf.AnchoredKEC("U(A,0.5)", num_samples=60, reading="slope"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("mask", ["attributes", "common_attributes"])
def test_all_that_a_row_needs_is_the_same_together_and_alone(algorithm, mask):
    explainer, x, edges, kwargs = asked(algorithm, nodes=mask)
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.4] = 0
    found, right = together_and_alone(explainer, x, edges, kwargs, top_features=3)
    for of in ("edges", "features", "explained"):
        columns = right.columns(of)
        assert list(found.columns(of)) == list(columns)
        for name, values in columns.items():
            size = np.nan_to_num(np.abs(values)).max(initial=1e-9)
            np.testing.assert_allclose(found.columns(of)[name], values, rtol=1e-7, atol=1e-9 * size, err_msg=name)
    out = explainer.get_prediction(x, edges, **kwargs)
    assert found.label.tolist() == out.argmax(dim=1).tolist()
    np.testing.assert_allclose(found.value, out.amax(dim=1), rtol=1e-12)
    is_share = isinstance(algorithm, gf.AnchoredKEC) and algorithm.reading == "share"
    assert np.isnan(found.score_stderr).all() != is_share


@pytest.mark.parametrize("algorithm", [gf.KEC("U(A,0.5)", num_samples=60), gf.AnchoredKEC("U(A,0.5)", num_samples=60)])
def test_scores_of_columns_are_those_of_pyg(algorithm):
    explainer, x, edges, kwargs = asked(algorithm, nodes="common_attributes")
    records = gf.explain_all(explainer, x, edges, progress=False, top_features=2, **kwargs)
    for i, explanation in enumerate(gf.explain_nodes(explainer, x, edges, progress=False, together=False, **kwargs)):
        own = slice(*records.feature_start[i : i + 2])
        order = explanation.node_mask[0].abs().argsort(descending=True)[:2]
        assert records.feature[own].tolist() == order.tolist()
        np.testing.assert_allclose(records.feature_score[own], explanation.node_mask[0, order], rtol=1e-8)
        assert records.feature_value[own].tolist() == x[i, order].tolist()


def test_columns_have_error_bars_where_features_move():
    explainer, x, edges, kwargs = asked(gf.AnchoredKEC("U(X,0.2r)", num_samples=60), nodes="common_attributes")
    records = gf.explain_all(explainer, x, edges, [4], progress=False, top_features=3, **kwargs)
    alone = explainer(x, edges, index=4, **kwargs)
    np.testing.assert_allclose(records.feature_score, alone.node_mask[0, records.feature], rtol=1e-8)
    np.testing.assert_allclose(records.feature_stderr, alone.node_stderr[0, records.feature], rtol=1e-8)
    assert (records.feature_stderr > 0).all()
    features, x, edges, kwargs = asked(gf.AnchoredKEC("U(X,0.2r)", num_samples=60))
    assert np.isnan(
        gf.explain_all(features, x, edges, [4], progress=False, top_features=3, **kwargs).feature_stderr
    ).all()


def test_masks_on_columns_are_their_scores():
    explainer, x, edges, kwargs = asked(gf.GNNExplainer(), nodes="common_attributes")
    records = gf.explain_all(explainer, x, edges, [4], progress=False, top_features=2, **kwargs)
    mask = explainer(x, edges, index=4, **kwargs).node_mask[0]
    assert records.feature.tolist() == mask.abs().argsort(descending=True)[:2].tolist()
    np.testing.assert_allclose(records.feature_score, mask[records.feature], rtol=1e-6)


@pytest.mark.parametrize(("algorithm", "mask"), [(gf.KEC("U(A,0.5)"), "object"), (gf.GNNExplainer(), "attributes")])
def test_scores_of_columns_need_a_mask_of_them(algorithm, mask):
    explainer, x, edges, kwargs = asked(algorithm, nodes=mask)
    with pytest.raises(InputError, match="common_attributes"):
        gf.explain_all(explainer, x, edges, top_features=3, **kwargs)
    with pytest.raises(InputError, match="top_features"):
        gf.explain_all(explainer, x, edges, top_features=-1, **kwargs)


def test_equal_columns_are_in_their_order_and_columns_of_zeros_are_left_out():
    _, x, edges, _ = asked(gf.KEC("U(A,0.5)"), weighted=False)
    x[:, 1], x[:, 2] = x[:, 3], 0
    slopes = torch.rand(NODES, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slopes[:, 1] = -slopes[:, 3]
    part = ComputationGraph.around(Graph.of(x, edges), [4], 2)
    found = StrongestColumns.of_one(part, slopes[part.nodes], None, 5, as_mask=False)
    right = (part.x * slopes[part.nodes])[: part.num_visible].sum(dim=0)
    order = found.column[0, : found.counts[0]].tolist()
    assert sorted(order) == [0, 1, 3, 4]
    assert order.index(3) == order.index(1) + 1
    np.testing.assert_allclose(found.score[0, :4], right[order], rtol=1e-12)
    assert (np.diff(np.abs(found.score[0, :4])) <= 0).all()


@pytest.mark.parametrize("mask", ["attributes", "object", None])
def test_a_record_becomes_the_explanation_of_its_node(mask):
    explainer, x, edges, kwargs = asked(gf.KEC("U(A,0.5)", num_samples=60), nodes=mask)
    records = gf.explain_all(explainer, x, edges, progress=False, **kwargs)
    alone = explainer(x, edges, index=7, **kwargs)
    found = records.explanation(7, x, edges)
    assert found.validate()
    assert (found.index, found.method) == (7, "KEC")
    torch.testing.assert_close(found.edge_mask, alone.edge_mask, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(found.self_loop_score, alone.self_loop_score, rtol=1e-8, atol=1e-12)
    assert found.self_loop_score.any()
    if mask is None:
        assert found.get("node_mask") is None
    else:
        torch.testing.assert_close(found.node_scores(), alone.node_scores(), rtol=1e-8, atol=1e-12)
    assert [e[:2] for e in found.top_edges(5)] == [e[:2] for e in alone.top_edges(5)]
    assert faithfulness_of(found) is None


def test_a_record_is_of_its_own_graph():
    explainer, x, edges, kwargs = asked(gf.Saliency())
    records = gf.explain_all(explainer, x, edges, [7, 5], progress=False, **kwargs)
    with pytest.raises(InputError, match=r"4 was not explained: the 2 explained ones are in records\.index"):
        records.explanation(4, x, edges)
    for wrong in ((x[:3], edges), (x, edges[:, :2]), (x, edges.flip(0))):
        with pytest.raises(InputError, match="the records are not of this graph"):
            records.explanation(7, *wrong)


@pytest.mark.parametrize("algorithm", [gf.KEC("U(A,0.5)", num_samples=60), gf.AnchoredKEC("U(X,0.2r)", num_samples=60)])
def test_there_are_no_more_columns_than_those_of_x(monkeypatch, algorithm):
    rooms = []
    none = StrongestColumns.none
    monkeypatch.setattr(StrongestColumns, "none", lambda size, most: rooms.append(most) or none(size, most))
    explainer, x, edges, kwargs = asked(algorithm, nodes="common_attributes")
    records = gf.explain_all(explainer, x, edges, progress=False, top_features=10**9, **kwargs)
    assert set(rooms) == {5}
    assert np.diff(records.feature_start).max() == 5
