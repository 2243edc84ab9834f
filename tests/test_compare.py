"""Methods side by side: whose Delta is the lowest, node by node, and several runs in one table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith.compare import compare
from reference import make_case

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

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
            methods,
            near,
            fit_samples=60,
            num_samples=50,
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
    (alone,) = compare(case.model, data, [1], ["saliency"], [gf.UniformEdges(0.5)], num_samples=20)
    assert alone.lowest == 1
    twice = compare(case.model, data, [1], ["saliency", "saliency"], [gf.UniformEdges(0.5)], num_samples=20)
    assert [row.lowest for row in twice] == [1, 1]


def test_several_runs_make_one_table(rows, capsys, tmp_path):
    plain = [row.as_json() for row in rows]
    pooled = columns.pooled(plain)
    assert len(pooled) == 8
    for one in pooled:
        own = [r for r in rows if (r.method, r.neighborhood) == (one["method"], one["neighborhood"])]
        values = torch.tensor([value for row in own for value in row.by_node], dtype=torch.float64)
        assert one["places"] == 12
        assert one["model_seeds"] == [0, 1]
        assert one["unfaithfulness"] == pytest.approx(float(values.mean()))
        assert one["stderr"] == pytest.approx(float(values.std()) / 12**0.5)
        assert one["lowest"] == pytest.approx(sum(row.lowest for row in own) / 2)
    first = next(one for one in pooled if one["method"] == "anchored-kec")
    assert first["beaten_by_first"] == 1
    columns.print_table(pooled)
    out = capsys.readouterr().out
    assert "| anchored-kec | **" in out
    assert "| the best other method |" in out
    assert "| mean Delta(p) of kec / its own |" in out
    with pytest.raises(SystemExit, match="not every method was scored"):
        columns.pooled([row for row in plain if row["method"] != "kec" or row["model_seed"] == 0])
