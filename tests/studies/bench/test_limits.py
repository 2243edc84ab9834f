"""Tests of the limits: the sizes of computation graphs, the operations counted from them, and the machine's rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.utils import k_hop_subgraph

from graphfaith_studies.bench.case import generate_case
from graphfaith_studies.bench.limits import measure_calls
from graphfaith_studies.bench.rates import Rates, measure_rates
from graphfaith_studies.bench.work import (
    Shape,
    Work,
    shape_of_all,
    shapes_of,
    shared_work,
    work_of_anchored_fit,
    work_of_feature_fit,
    work_of_fit,
    work_of_model,
    work_of_shares,
)

UNIT = Rates(1.0, 1.0, 1.0, 1.0)
PATH = Shape(nodes=(1, 3, 5), into=(3, 8, 12), entries=12, nonzeros=20, widths=(4, 3, 2))


def test_rates_are_positive():
    rates = measure_rates(trials=2)
    assert rates.moved > 1e7
    # Which of them is the fastest is not asked here: beside other work it may be any.
    assert min(rates.looped, rates.product, rates.product_single) > 1e7
    assert list(rates.as_json().values()) == pytest.approx(
        [rate / 1e9 for rate in (rates.moved, rates.looped, rates.product, rates.product_single)]
    )


def test_bytes_and_operations_overlap():
    rates = Rates(moved=10.0, looped=2.0, product=4.0, product_single=8.0)
    assert Work(moved=100, looped=2, product=4, product_single=8).seconds(rates) == 10
    assert Work(moved=10, looped=2, product=4, product_single=8).seconds(rates) == 3


def test_shapes_are_those_of_the_computation_graphs():
    case = generate_case(120, [0, 7, 60])
    widths = (16, 16, 4)
    for node, shape in zip(case.nodes, shapes_of(case, case.nodes), strict=True):
        reach = [len(k_hop_subgraph(node, k, case.data.edge_index, num_nodes=120)[0]) for k in range(3)]
        assert shape.nodes == tuple(reach)
        part = case.target(node).computation_graph
        assert shape.entries == part.num_edges
        assert shape.into[0] == int((part.edge_index[1] == 0).sum())
        assert shape.into[-1] == int((part.hop[part.edge_index[1]] <= 2).sum())
        assert shape.nonzeros == 16 * reach[-1]
        assert shape.widths == widths
        assert shape.spans == (min(reach[1], 16), min(reach[2], 16))
    whole = shape_of_all(case)
    assert whole.nodes[-1] == 120
    assert whole.entries == case.data.num_edges + 120


def test_matrix_products_of_the_model_are_those_that_torch_counts():
    case = generate_case(120, [0])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        case.model(case.data.x, case.data.edge_index)
    assert work_of_model(shape_of_all(case), 1).product_single == counter.get_total_flops()


def test_only_the_first_layer_is_shared_where_edges_move():
    once, both = work_of_model(PATH, 1), work_of_model(PATH, 2)
    assert once.product_single == 2 * 5 * 4 * 3 + 2 * 3 * 3 * 2  # X W of 5 nodes, H W of 3
    assert both.product_single - once.product_single == 2 * 3 * 3 * 2
    moved = work_of_model(PATH, 2, features=True)
    assert moved.product_single == 2 * once.product_single


def test_the_products_of_a_fit_with_many_unknowns():
    wide = replace(PATH, nodes=(1, 100, 300), nonzeros=1000, widths=(1000, 3, 2))
    assert sum(wide.spans) == 400
    work = work_of_fit(wide, 200)
    features = sum(2 * 200 * (count**2 / 2) for count in (100, 300))  # times a triangular matrix
    normal = 200**2 * 400 + 200**3 / 3  # fewer samples than unknowns
    assert work.product == pytest.approx(features + normal + 300**3 / 3)  # and the coordinates of X
    assert work_of_feature_fit(PATH, 50).product == 8**2 * 50 + 8**3 / 3


@pytest.mark.parametrize("work_of", [work_of_fit, work_of_feature_fit, work_of_anchored_fit])
def test_more_samples_are_more_work(work_of):
    some, more = (work_of(PATH, count).seconds(UNIT) for count in (100, 200))
    assert 1.3 * some < more < 2.5 * some


def test_the_work_of_shares_is_of_samples_of_p():
    more, wide = replace(PATH, entries=24), replace(PATH, entries=10**5, into=(3, 8, 10**5))
    products = [work_of_shares(shape, 200).product for shape in (PATH, more)]
    # 1024 samples along ten directions; products of 12 and of 24 units in pairs, of which 30 are compared.
    alone = 183 * 11 * 2
    assert products[0] == 2 * 1024 * (12 * 10 + 12**2 / 2 + 30**2 / 2) + alone * 12
    assert products[1] == 2 * 1024 * (24 * 10 + 24**2 / 2 + 30**2 / 2) + alone * 24
    assert work_of_shares(wide, 200).product < 1e5 / 12 * products[0]  # There are fewer samples of more entries.


def test_the_draws_of_shares_are_shared_too():
    case = generate_case(500, [0])
    with_shares, without = (shared_work(case, 50, shares=shares) for shares in (True, False))
    assert with_shares.looped > 2 * without.looped
    assert with_shares.product_single == without.product_single


def test_what_all_nodes_share_grows_with_the_graph():
    small, large = (shared_work(generate_case(count, [0]), 50).seconds(UNIT) for count in (500, 5000))
    assert large / small == pytest.approx(10, rel=0.02)


def test_a_pass_backwards_takes_longer_than_a_call():
    forward, backward = measure_calls(generate_case(120, [0, 60]), repetitions=5)
    assert 0 < forward < backward < 1
