"""Methods side by side: whose Delta is the lowest, node by node, and several runs in one table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith.explainers.methods import method_named
from graphfaith.facade import compare
from graphfaith.metric.pooling import pool
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model.target import Target
from reference import make_case

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import columns


@pytest.fixture(scope="module")
def rows():
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)
    data = Data(x=case.x, edge_index=case.edge_index)
    near = [gf.UniformEdges(0.5), gf.BernoulliEdges(0.5)]
    methods = ["anchored-kec", "kec", "saliency", "ig-full"]
    return [
        row
        for seed in (0, 1)
        for row in compare(
            case.model,
            data,
            range(0, 12, 2),
            methods=methods,
            neighborhoods=near,
            samples=60,
            test_samples=50,
            seed=7 * seed,
            model_seed=seed,
        )
    ]


def test_rows_say_who_is_lowest_at_each_node(rows):
    for near in ("U(A,0.5)", "B(A,0.5)"):
        found = [row for row in rows if row.neighborhood == near and row.model_seed == 0]
        table = torch.tensor([row.by_node for row in found])
        for row, own in zip(found, table, strict=True):
            assert row.unfaithfulness == pytest.approx(sum(row.by_node) / 6)
            assert row.lowest == pytest.approx(float((own == table.min(dim=0).values).double().mean()))
            assert row.as_json()["by_node"] == row.by_node
        assert sum(row.lowest for row in found) >= 1


def test_methods_that_tie_are_both_lowest():
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)
    data = Data(x=case.x, edge_index=case.edge_index)
    (alone,) = compare(case.model, data, [1], methods="saliency", neighborhoods=gf.UniformEdges(0.5), test_samples=20)
    assert alone.lowest == 1
    gf.register_method("saliency-again", gf.Saliency, in_all=False)
    twice = compare(case.model, data, [1], methods=["saliency", "saliency-again"], test_samples=20)
    assert [row.lowest for row in twice] == [1, 1]


@pytest.mark.parametrize("method", ["anchored-kec", "kec", "linear"])
def test_scores_are_of_samples_that_the_fit_has_not_seen(method):
    """Linear with more unknowns than samples leaves nothing of its own samples: held-out scores show the truth."""
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)
    data = Data(x=case.x, edge_index=case.edge_index)
    (row,) = compare(case.model, data, [4], methods=method, samples=20, test_samples=20, seed=5)
    target = Target(case.model, case.x, case.edge_index, 4)
    p = method_named(method).make_for("U(A,0.5)", 20, 5).fit(target)
    own, other = (unfaithfulness_of(target, [p], "U(A,0.5)", num_samples=20, seed=seed)[0].value for seed in (5, 6))
    assert row.unfaithfulness == pytest.approx(other, rel=1e-9)
    assert row.unfaithfulness != pytest.approx(own, rel=1e-6)
    if method == "linear":
        assert own < 1e-6 * other


def test_rows_print_as_a_table_and_go_to_pandas(rows):
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)
    data = Data(x=case.x, edge_index=case.edge_index)
    found = compare(case.model, data, [1, 2], methods=["kec", "saliency"], test_samples=20, dataset="toy")
    lines = str(found).splitlines()
    assert lines[0].strip() == "toy, U(A,0.5), 2 nodes"
    assert any("kec" in line and f"{found[0].unfaithfulness:.3g}" in line for line in lines)
    frame = found.to_pandas()
    assert frame["method"].tolist() == ["kec", "saliency"]
    assert frame["stderr"].tolist() == [row.stderr for row in found]


def test_pairs_are_compared_as_nodes_are():
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)

    class Pairs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = case.model

        def forward(self, x, edge_index, edge_weight=None, edge_label_index=None):
            h = self.encode(x, edge_index, edge_weight)
            return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(dim=-1)

    data = Data(x=case.x, edge_index=case.edge_index, edge_label_index=torch.tensor([[0, 1, 2], [3, 4, 5]]))
    found = compare(
        Pairs(), data, [0, 2], methods=["kec", "saliency"], level="edge", mode="binary_classification", test_samples=20
    )
    assert [row.nodes for row in found] == [[0, 2], [0, 2]]


@pytest.mark.parametrize(
    ("nodes", "arguments", "message"),
    [
        ([], {}, "nothing to compare"),
        ([1], {"methods": []}, "nothing to compare"),
        ([1], {"neighborhoods": []}, "nothing to compare"),
        ([99], {}, "node 99 is out of range"),
        ([1], {"methods": ["kec", "magic"]}, "unknown method 'magic'"),
        (
            [1],
            {"samples": "auto", "methods": ["anchored-kec", "linear"]},
            "1 for Linear, which cannot choose",
        ),
    ],
)
def test_mistakes_are_said_before_any_work(nodes, arguments, message, monkeypatch):
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)
    monkeypatch.setattr("graphfaith.facade.subject.Subject.fit", lambda *_, **__: pytest.fail("work has begun"))
    with pytest.raises(gf.InputError, match=message):
        compare(case.model, Data(x=case.x, edge_index=case.edge_index), nodes, **arguments)


def test_several_runs_make_one_table(rows, capsys, tmp_path):
    plain = [row.as_json() for row in rows]
    pooled = columns.pooled(plain)
    assert len(pooled) == 8
    for one in pooled:
        own = [r for r in rows if (r.method, r.neighborhood) == (one["method"], one["neighborhood"])]
        values = torch.tensor([row.by_node for row in own], dtype=torch.float64)
        assert one["places"] == 12
        assert one["model_seeds"] == [0, 1]
        assert one["unfaithfulness"] == pytest.approx(float(values.mean()))
        assert one["stderr"] == pytest.approx(pool(values.numpy())[1])
        assert one["stderr"] > float(values.mean(dim=1).std()) / 2**0.5 - 1e-12  # trainings differ
        assert one["lowest"] == pytest.approx(sum(row.lowest for row in own) / 2)
        again = columns.pooled_again({**one, "unfaithfulness": None, "stderr": None})  # from five digits of each
        assert again["unfaithfulness"] == pytest.approx(one["unfaithfulness"], rel=1e-4)
        assert again["stderr"] == pytest.approx(one["stderr"], rel=1e-3)
        assert columns.pooled_again({**one, "by_node": None})["stderr"] is None
    first = next(one for one in pooled if one["method"] == "anchored-kec")
    assert first["beaten_by_first"] == 1
    columns.print_table(pooled)
    out = capsys.readouterr().out
    assert "| anchored-kec | **" in out
    assert "| the best other method |" in out
    assert "| mean Delta(p) of kec / its own |" in out
    with pytest.raises(SystemExit, match="not every method was scored"):
        columns.pooled([row for row in plain if row["method"] != "kec" or row["model_seed"] == 0])


def test_a_fitted_method_is_fitted_in_each_neighbourhood_and_others_once(monkeypatch):
    case = make_case(seed=3, nodes=12, edges=40, weighted=False)
    data, nears = Data(x=case.x, edge_index=case.edge_index), ["U(A,0.5)", "B(A,0.5)", gf.UniformEdges(0.5)]
    options = {"methods": ["kec", "saliency"], "test_samples": 20}
    alone = [
        row.by_node for near in nears[:2] for row in compare(case.model, data, [1, 4], neighborhoods=near, **options)
    ]
    fits, usual = [], gf.Saliency.fit
    monkeypatch.setattr(gf.Saliency, "fit", lambda self, target: fits.append(1) or usual(self, target))
    together = compare(case.model, data, [1, 4], neighborhoods=nears, **options)
    assert [row.by_node for row in together] == alone  # a neighbourhood that is named twice counts once
    assert len(fits) == 2
