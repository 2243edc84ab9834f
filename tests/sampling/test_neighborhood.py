import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphfaith import (
    BernoulliEdges,
    InputError,
    Neighborhood,
    UniformEdges,
    UniformFeatures,
    parse_neighborhood,
    register_neighborhood,
)
from graphfaith._base import memory
from graphfaith.graph import ComputationGraph
from graphfaith.graph.graph import Graph
from graphfaith.sampling import draw_edges, draw_features
from graphfaith.sampling.perturbations import Perturbations

NODES, FEATURES = 12, 4
NEAR = {
    "uniform": UniformEdges(0.5),
    "bernoulli": BernoulliEdges(0.3),
    "features": UniformFeatures(0.2),
    "product": UniformFeatures(0.2) * BernoulliEdges(0.5),
}

sigmas = st.floats(min_value=0, max_value=1e30, exclude_min=True, allow_nan=False)
probabilities = st.floats(min_value=0, max_value=1, exclude_min=True)
edge_factors = sigmas.map(UniformEdges) | probabilities.map(BernoulliEdges)
feature_factors = sigmas.map(UniformFeatures)
products = st.tuples(feature_factors, edge_factors).map(lambda pair: pair[0] * pair[1])
neighborhoods = edge_factors | feature_factors | products


def tensors(seed=0, dtype=torch.float64, weight=None):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NODES, (2, 30), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.cat([edges[:, :9], torch.tensor([[3], [3]]), edges[:, 9:]], dim=1)
    x = torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    return x, edges, None if weight is None else torch.full((edges.size(1),), weight, dtype=dtype)


def computation_graph(node=0, num_hops=2, made=None, **options):
    made = tensors() if made is None else made
    return ComputationGraph.around(Graph(*made), node, num_hops, **options)


# Text


@given(neighborhoods)
def test_parse_undoes_str(near):
    assert parse_neighborhood(str(near)) == near
    assert str(parse_neighborhood(str(near))) == str(near)


@given(products, st.sampled_from(["x", "×", "*"]), st.lists(st.sampled_from(["", " ", "\t", "\n "]), min_size=9))
def test_space_and_signs_of_multiplication(near, sign, spaces):
    first, second = str(near.first), str(near.second)
    text = f"{first} {sign} {second}".replace("(", f"{spaces[0]}({spaces[1]}").replace(",", f"{spaces[2]},{spaces[3]}")
    text = text.replace(")", f"{spaces[4]}){spaces[5]}").replace("r", f"{spaces[6]}r{spaces[7]}")
    assert parse_neighborhood(spaces[8] + text) == near
    assert parse_neighborhood(f"{second}{sign}{first}") == near


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("U(A,0.5)", UniformEdges(0.5)),
        ("B(A,0.5)", BernoulliEdges(0.5)),
        ("U(X,0.2r)", UniformFeatures(0.2)),
        ("U(X,0.5r)xU(A,0.5)", UniformFeatures(0.5) * UniformEdges(0.5)),
        ("U(X,0.2r)xB(A,1)", UniformFeatures(0.2) * BernoulliEdges(1.0)),
        ("U(A,0.1234567)", UniformEdges(0.1234567)),
        ("U(A,1e-07)", UniformEdges(1e-7)),
        ("U(A,1e+22)", UniformEdges(1e22)),
    ],
)
def test_text(text, near):
    assert str(near) == text
    assert parse_neighborhood(text) == near


@pytest.mark.parametrize(("text", "near"), [("U(A,.5)", UniformEdges(0.5)), ("B(A,5e-1)", BernoulliEdges(0.5))])
def test_other_ways_to_write_a_number(text, near):
    assert parse_neighborhood(text) == near


UNREADABLE = [
    "",
    " ",
    "x",
    "U",
    "UA0.5",
    "U(A)",
    "U(A,)",
    "U(A,0.5",
    "U A,0.5)",
    "U(A,0.5))",
    "U(A;0.5)",
    "U(A,zero)",
    "U(A,1e)",
    "U(A,--1)",
    "U(A,1.2.3)",
    "U(A,0.5,0.5)",
    "U(A,0.5r)",
    "B(A,0.5r)",
    "U(X,0.5)",
    "U(X,r)",
    "B(X,0.5r)",
    "N(A,0.5)",
    "U(Y,0.5)",
    "u(a,0.5)",
    "U(A,0x10)",
    "U(A,nan)",
    "U(A,inf)",
    "U(A,0.5)x",
    "xU(A,0.5)",
    "U(X,0.2r)+U(A,0.5)",
    "U(X,0.2r)xxU(A,0.5)",
    "U(X,0.2r)xU(A,0.2)xU(A,0.2)",
    "U(X,0.2r)U(A,0.2)",
    "U(A,1 2)",
    "U(A,٣)",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_unreadable_text_is_named(text):
    with pytest.raises(InputError) as caught:
        parse_neighborhood(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["U(A,0)", "U(A,-0.5)", "B(A,1.5)", "B(A,0)", "U(X,-1r)", "U(A,1e999)"])
def test_text_with_a_sigma_out_of_range(text):
    with pytest.raises(InputError, match="sigma"):
        parse_neighborhood(text)


@pytest.mark.parametrize("text", ["U(A,0.2)xU(A,0.2)", "U(A,0.2)xB(A,0.2)", "U(X,0.2r)xU(X,0.1r)"])
def test_text_of_a_product_of_two_of_a_kind(text):
    with pytest.raises(InputError, match="one neighbourhood of features and one of edges"):
        parse_neighborhood(text)


@pytest.mark.parametrize("text", [None, 3, 0.5, UniformEdges(0.5), b"U(A,0.5)", ["U(A,0.5)"]])
def test_what_is_no_text(text):
    with pytest.raises(InputError, match="text"):
        parse_neighborhood(text)


# Sigma and products


@pytest.mark.parametrize("kind", [UniformEdges, BernoulliEdges, UniformFeatures])
@pytest.mark.parametrize("sigma", [0, 0.0, -0.1, -1, math.nan, math.inf, -math.inf, True, "0.5", None, [0.5], 1j])
def test_sigma_is_checked(kind, sigma):
    with pytest.raises(InputError, match="sigma") as caught:
        kind(sigma)
    assert kind.__name__ in str(caught.value)
    assert repr(sigma) in str(caught.value)


def test_a_probability_is_at_most_one():
    assert BernoulliEdges(1).sigma == 1
    with pytest.raises(InputError, match=r"at most 1 .*1\.0001"):
        BernoulliEdges(1.0001)
    assert UniformEdges(1.5).sigma == 1.5
    assert UniformFeatures(2).sigma == 2


@pytest.mark.parametrize("sigma", [np.float64(0.5), np.float32(0.5), 1, np.int64(1)])
def test_sigma_of_other_kinds_of_number(sigma):
    for kind in (UniformEdges, BernoulliEdges, UniformFeatures):
        assert parse_neighborhood(str(kind(sigma))) == kind(float(sigma))


def test_the_order_of_a_product_means_nothing():
    a, x = UniformEdges(0.5), UniformFeatures(0.2)
    assert a * x == x * a
    assert str(a * x) == str(x * a) == "U(X,0.2r)xU(A,0.5)"
    assert hash(a * x) == hash(x * a)
    part = computation_graph()
    first, second = (a * x).sample(part, 5, seed=3), (x * a).sample(part, 5, seed=3)
    assert torch.equal(first.edges, second.edges)
    assert torch.equal(first.features, second.features)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (UniformEdges(0.5), UniformEdges(0.5)),
        (UniformEdges(0.5), BernoulliEdges(0.5)),
        (UniformFeatures(0.2), UniformFeatures(0.2)),
        (UniformFeatures(0.2) * UniformEdges(0.5), UniformEdges(0.5)),
        (UniformFeatures(0.2), UniformFeatures(0.2) * UniformEdges(0.5)),
        (Neighborhood(), UniformEdges(0.5)),
    ],
)
def test_products_that_mean_nothing(first, second):
    with pytest.raises(InputError, match="product"):
        first * second


def test_a_product_with_something_else():
    with pytest.raises(TypeError):
        UniformEdges(0.5) * 3


def test_a_product_draws_what_its_factors_draw():
    part = computation_graph()
    near = UniformFeatures(0.2) * BernoulliEdges(0.5)
    both = near.sample(part, 5, seed=1)
    assert torch.equal(both.features, UniformFeatures(0.2).sample(part, 5, seed=1).features)
    assert torch.equal(both.edges, BernoulliEdges(0.5).sample(part, 5, seed=1).edges)
    assert near.perturbs_features
    assert near.perturbs_edges


def test_what_is_not_perturbed_is_none():
    part = computation_graph()
    edges, features = UniformEdges(0.5).sample(part, 3), UniformFeatures(0.5).sample(part, 3)
    assert edges.features is None
    assert edges.x is None
    assert features.edges is None
    assert features.weight is None
    assert len(edges) == len(features) == 3


# U(A, sigma)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 3.0])
@pytest.mark.parametrize("weight", [None, 0.0, 0.1, 1.0, 50.0])
def test_uniform_edges_stay_in_range(sigma, weight):
    part = computation_graph(made=tensors(weight=weight))
    drawn = UniformEdges(sigma).sample(part, 400, seed=2)
    assert drawn.edges.dtype == torch.float64
    assert drawn.edges.shape == (400, part.num_edges)
    assert drawn.edges.abs().max() <= sigma
    assert (drawn.edges <= part.weight).all()
    assert (drawn.edges[:, ~part.felt] == 0).all()
    assert (drawn.weight[:, ~part.felt] == 1).all()
    assert drawn.weight.min() >= 0
    assert torch.equal(drawn.weight, part.weight.double() - drawn.edges)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_edges_of_tiny_and_odd_weights(dtype):
    x, edges, _ = tensors(dtype=dtype)
    weight = torch.logspace(-30, 1, edges.size(1), dtype=dtype)
    part = computation_graph(made=(x, edges, weight))
    assert UniformEdges(0.7).sample(part, 300).weight.min() >= 0


def test_uniform_edges_are_uniform():
    part = computation_graph(made=tensors(weight=2.0), loop_weight=2.0)
    eps = UniformEdges(0.5).sample(part, 1000, seed=4).edges
    assert part.felt.sum() == part.num_edges - 1
    assert (eps[:, ~part.felt] == 0).all()
    drawn = eps[:, part.felt].numpy()
    assert stats.kstest(drawn.ravel(), "uniform", args=(-0.5, 1.0)).pvalue > 1e-4
    pvalues = [stats.kstest(column, "uniform", args=(-0.5, 1.0)).pvalue for column in drawn.T]
    assert min(pvalues) > 1e-3 / len(pvalues)
    correlation = np.corrcoef(drawn.T)[np.triu_indices(drawn.shape[1], 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(1000)


def test_uniform_edges_are_clipped_where_the_weight_is_small():
    part = computation_graph(made=tensors(weight=0.1))
    plain = ~part.is_loop
    eps = UniformEdges(0.5).sample(part, 2000, seed=1).edges[:, plain]
    gone = (eps == 0.1).double().mean().item()
    assert gone == pytest.approx(0.4, abs=0.02)
    assert eps.min() < -0.49
    rest = eps[eps < 0.1].numpy()
    assert stats.kstest(rest, "uniform", args=(-0.5, 0.6)).pvalue > 1e-4


def test_an_edge_without_weight_can_only_gain():
    part = computation_graph(made=tensors(weight=0.0))
    eps = UniformEdges(0.5).sample(part, 1000).edges[:, ~part.is_loop]
    assert eps.max() == 0
    assert (eps < 0).double().mean().item() == pytest.approx(0.5, abs=0.02)


# B(A, sigma)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 0.9])
def test_bernoulli_drops_at_its_rate(sigma):
    part = computation_graph(made=tensors(weight=1.5))
    drawn = BernoulliEdges(sigma).sample(part, 1500, seed=3)
    dropped = drawn.edges != 0
    assert torch.equal(drawn.edges, dropped * part.weight)
    assert torch.equal(drawn.weight, ~dropped * part.weight)
    assert part.felt.sum() == part.num_edges - 1
    assert not dropped[:, ~part.felt].any()
    felt = dropped[:, part.felt]
    assert stats.binomtest(int(felt.sum()), felt.numel(), sigma).pvalue > 1e-4
    for column in felt.T:
        assert stats.binomtest(int(column.sum()), len(column), sigma).pvalue > 1e-4 / part.num_edges


def test_bernoulli_of_one_drops_all():
    part = computation_graph()
    left = BernoulliEdges(1).sample(part, 50).weight
    assert (left[:, part.felt] == 0).all()
    assert (left[:, ~part.felt] == 1).all()
    assert not part.felt.all()


def test_bernoulli_drops_more_with_a_larger_sigma():
    part = computation_graph()
    drops = [BernoulliEdges(sigma).sample(part, 50).edges != 0 for sigma in (0.2, 0.5, 0.8)]
    assert all(bool((few <= many).all()) for few, many in pairwise(drops))


# U(X, sigma r)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_features(dtype):
    x, edges, _ = tensors(dtype=dtype)
    part = computation_graph(made=(x, edges))
    bound = 0.25 * float(x.max() - x.min())
    drawn = UniformFeatures(0.25).sample(part, 300, seed=6)
    assert drawn.features.shape == (300, *part.x.shape)
    assert drawn.features.dtype == dtype
    seen = drawn.features[:, : part.num_visible].double().numpy()
    assert np.abs(seen).max() <= bound * (1 + 1e-6)
    assert np.abs(seen).max() > 0.99 * bound
    assert stats.kstest(seen.ravel(), "uniform", args=(-bound, 2 * bound)).pvalue > 1e-4
    assert torch.equal(drawn.x, part.x - drawn.features)


def test_the_range_is_that_of_the_whole_graph():
    path = torch.tensor([[1, 2, 3, 4, 5], [0, 1, 2, 3, 4]])
    x = torch.linspace(0, 1, 12, dtype=torch.float64).view(6, 2).clone()
    x[5] = torch.tensor([-40.0, 60.0])
    part = computation_graph(0, 1, made=(x, path))
    assert 5 not in part.nodes
    largest = UniformFeatures(0.1).sample(part, 500).features.abs().max().item()
    assert 9.5 < largest <= 10.0


def test_the_outermost_node_is_not_perturbed():
    path = torch.tensor([[1, 2, 3], [0, 1, 2]])
    x = torch.linspace(0, 1, 8, dtype=torch.float64).view(4, 2)
    part = computation_graph(0, 1, made=(x, path))
    assert part.num_nodes == 3
    assert part.num_visible == 2
    drawn = UniformFeatures(0.5).sample(part, 20)
    assert (drawn.features[:, 2:] == 0).all()
    assert torch.equal(drawn.x[:, 2:], part.x[2:].expand(20, -1, -1))
    assert (drawn.features[:, :2] != 0).all()


def test_both_precisions_draw_the_same():
    single, double = (
        UniformFeatures(0.2).sample(computation_graph(made=tensors(dtype=dtype)), 20).features
        for dtype in (torch.float32, torch.float64)
    )
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-6)


def test_features_that_do_not_vary():
    made = torch.full((4, 2), 3.5), torch.tensor([[1, 2], [0, 1]])
    part = computation_graph(0, 1, made=made)
    for near in (UniformFeatures(0.2), UniformFeatures(0.2) * UniformEdges(0.5)):
        with pytest.raises(InputError, match=r"U\(X,0\.2r\).*3\.5"):
            near.sample(part, 3)
        with pytest.raises(InputError, match=r"U\(X,0\.2r\).*3\.5"):
            list(near.chunks(part, 3))
    assert len(UniformEdges(0.5).sample(part, 3)) == 3


# Loops that the model does not read


@pytest.mark.parametrize("near", [UniformEdges(0.5), BernoulliEdges(1.0)], ids=str)
@pytest.mark.parametrize(
    ("node", "options", "read"),
    [
        (3, {"loop_weight": None}, [3]),  # the only loop that is written down
        (0, {"loop_weight": None}, [3]),
        (0, {"degrees": False}, [0]),  # here it is too far away
        (0, {"degrees": False, "loop_weight": None}, []),
        (0, {}, [0, 3]),
    ],
)
def test_only_entries_that_are_read_are_perturbed(near, node, options, read):
    part = computation_graph(node, 1, tensors(weight=1.5), **options)
    assert 3 in part.nodes
    assert part.nodes[part.felt[part.is_loop]].tolist() == read
    assert part.felt[~part.is_loop].all()
    assert not part.felt.all()
    drawn = near.sample(part, 30)
    assert (drawn.edges[:, ~part.felt] == 0).all()
    assert (drawn.weight[:, ~part.felt] == 1).all()
    assert (drawn.edges[:, part.felt] != 0).all()


# Nothing matters but the seed, the sample, and the place in the whole graph


def same(first, second):
    return all(
        (a is None and b is None) or torch.equal(a, b)
        for a, b in ((first.features, second.features), (first.edges, second.edges))
    )


def joined(parts):
    parts = list(parts)
    return [
        None if getattr(parts[0], name) is None else torch.cat([getattr(part, name) for part in parts])
        for name in ("features", "edges")
    ]


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("size", [1, 3, 7, 20, 1000])
def test_chunk_size_changes_nothing(name, size):
    part = computation_graph()
    whole = NEAR[name].sample(part, 20, seed=9)
    features, edges = joined(NEAR[name].chunks(part, 20, seed=9, size=size))
    assert features is whole.features is None or torch.equal(features, whole.features)
    assert edges is whole.edges is None or torch.equal(edges, whole.edges)


@pytest.mark.parametrize("name", NEAR)
def test_start_changes_nothing(name):
    part = computation_graph()
    whole, later = NEAR[name].sample(part, 20, seed=9), NEAR[name].sample(part, 5, seed=9, start=12)
    if whole.edges is not None:
        assert torch.equal(later.edges, whole.edges[12:17])
    if whole.features is not None:
        assert torch.equal(later.features, whole.features[12:17])


@pytest.mark.parametrize("name", NEAR)
def test_two_runs_are_equal_and_two_seeds_differ(name):
    part = computation_graph()
    near = NEAR[name]
    assert same(near.sample(part, 10, seed=5), near.sample(part, 10, seed=5))
    assert not same(near.sample(part, 10, seed=5), near.sample(part, 10, seed=6))
    assert same(near.sample(part, 10), near.sample(part, 10, seed=0))
    assert not same(near.sample(part, 10), near.sample(part, 10, start=10))


@pytest.mark.parametrize("degrees", [True, False])
def test_two_nodes_share_their_draws(degrees):
    made = tensors(weight=1.0)
    first = computation_graph(0, 2, made)
    near = UniformFeatures(0.2) * UniformEdges(0.5)
    drawn = near.sample(first, 6, seed=11)
    places = {int(i): place for place, i in enumerate(first.edge_id) if not first.is_loop[place]}
    loops = {int(u): first.num_plain + k for k, u in enumerate(first.nodes)}
    nodes = {int(u): k for k, u in enumerate(first.nodes[: first.num_visible])}
    shared_edges = shared_loops = shared_nodes = unfelt_loops = 0
    for node in range(1, NODES):
        other = computation_graph(node, 2, made, degrees=degrees)
        also = near.sample(other, 6, seed=11)
        for place, i in enumerate(other.edge_id[: other.num_plain].tolist()):
            if i in places:
                shared_edges += 1
                assert torch.equal(also.edges[:, place], drawn.edges[:, places[i]])
        for place, u in enumerate(other.nodes.tolist(), other.num_plain):
            if not other.felt[place]:
                unfelt_loops += 1
                assert (also.edges[:, place] == 0).all()
            elif u in loops and first.felt[loops[u]]:
                shared_loops += 1
                assert torch.equal(also.edges[:, place], drawn.edges[:, loops[u]])
        for k, u in enumerate(other.nodes[: other.num_visible].tolist()):
            if u in nodes:
                shared_nodes += 1
                assert torch.equal(also.features[:, k], drawn.features[:, nodes[u]])
    assert min(shared_edges, shared_loops, shared_nodes, unfelt_loops) > 5


def test_a_loop_draws_the_same_whether_it_is_written_or_implied():
    x, path = torch.eye(3).double(), torch.tensor([[1, 2], [0, 1]])
    implied = computation_graph(0, 1, (x, path))
    written = computation_graph(0, 1, (x, torch.cat([path, torch.tensor([[2, 1], [2, 1]])], dim=1)))
    assert implied.edge_id.tolist() == [0, 1, -1, -1, -1]
    assert written.edge_id.tolist() == [0, 1, -1, 3, 2]
    assert implied.felt.tolist() == written.felt.tolist() == [True, True, True, True, False]
    near = UniformEdges(0.5)
    eps = near.sample(implied, 9).edges
    assert torch.equal(eps, near.sample(written, 9).edges)
    assert (eps[:, :4] != 0).all()
    assert (eps[:, 4] == 0).all()


def test_edges_elsewhere_change_nothing():
    x, edges, _ = tensors()
    part = computation_graph(0, 1, (x, edges))
    outside = torch.ones(edges.size(1), dtype=torch.bool)
    outside[part.edge_id[part.edge_id >= 0]] = False
    assert outside.sum() > 3
    moved, far = edges.clone(), [u for u in range(NODES) if u not in part.nodes.tolist()]
    moved[:, outside] = torch.tensor([[far[0]], [far[1]]])
    again = computation_graph(0, 1, (x, moved))
    assert torch.equal(part.edge_id, again.edge_id)
    near = UniformFeatures(0.2) * UniformEdges(0.5)
    assert same(near.sample(part, 8), near.sample(again, 8))


def test_edges_loops_and_features_are_drawn_apart():
    path = torch.tensor([[1, 0], [0, 1]])
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    part = computation_graph(0, 1, (x, path, torch.ones(2, dtype=torch.float64)))
    drawn = (UniformFeatures(0.5) * UniformEdges(0.5)).sample(part, 4000)
    assert part.felt.all()
    variables = torch.cat([drawn.edges, drawn.features.flatten(1)], dim=1)
    correlation = torch.corrcoef(variables.T)[*torch.triu_indices(variables.size(1), variables.size(1), 1)]
    assert correlation.abs().max() < 4.5 / math.sqrt(4000)


def test_the_numbers_of_a_seed_are_pinned():
    x, path = torch.eye(3).double(), torch.tensor([[1, 2], [0, 1]])
    part = computation_graph(0, 1, (x, path))
    drawn = (UniformFeatures(0.5) * UniformEdges(0.5)).sample(part, 2, seed=1)
    edges = [
        [-0.3905258175218478, -0.22960823320318013, -0.27781705383677036, -0.2258790765190497],
        [0.2877431098604575, 0.182225962751545, 0.3231225594645366, -0.21741556224878877],
    ]
    features = [[0.3715437, -0.4619315, -0.3800105], [0.4849855, -0.4920873, -0.1067955]]
    np.testing.assert_allclose(drawn.edges[:, :4].numpy(), edges, rtol=0, atol=1e-12)
    assert part.edge_index.tolist() == [[1, 2, 0, 1, 2], [0, 1, 0, 1, 2]]
    assert drawn.edges[:, 4].tolist() == [0, 0]  # the loop of node 2 is not read
    np.testing.assert_allclose(drawn.features[:, 1].numpy(), features, rtol=0, atol=1e-6)


# How many


@pytest.mark.parametrize("near", NEAR.values(), ids=list(NEAR))
@pytest.mark.parametrize("num_samples", [0, -1, 1.5, 2.0, True, "3", None])
def test_the_number_of_samples_is_checked(near, num_samples):
    part = computation_graph()
    with pytest.raises(InputError, match="num_samples") as caught:
        near.sample(part, num_samples)
    assert repr(num_samples) in str(caught.value)
    with pytest.raises(InputError, match="num_samples"):
        list(near.chunks(part, num_samples))


@pytest.mark.parametrize("seed", [-1, 0.5, 2**64, "0", None, True])
def test_the_seed_is_checked(seed):
    part = computation_graph()
    with pytest.raises(InputError, match="seed"):
        UniformEdges(0.5).sample(part, 3, seed)
    with pytest.raises(InputError, match="seed"):
        list(UniformEdges(0.5).chunks(part, 3, seed))


def test_numpy_counts():
    assert len(UniformEdges(0.5).sample(computation_graph(), np.int64(4), np.int64(2))) == 4


@pytest.mark.parametrize("size", [0, -1])
def test_the_size_of_a_chunk_is_checked(size):
    with pytest.raises(InputError, match="size"):
        list(UniformEdges(0.5).chunks(computation_graph(), 3, size=size))


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("limit", [1, 30_000, 200_000, 10**9])
def test_chunks_are_bounded(monkeypatch, name, limit):
    part = computation_graph()
    near = NEAR[name]
    whole = near.sample(part, 60, seed=2)
    monkeypatch.setattr(memory, "CHUNK_BYTES", limit)
    chunks = list(near.chunks(part, 60, seed=2))
    assert sum(map(len, chunks)) == 60
    for chunk in chunks:
        held = sum(t.numel() * t.element_size() for t in (chunk.features, chunk.edges, chunk.x) if t is not None)
        assert len(chunk) == 1 or held <= limit
    if limit == 1:
        assert [len(chunk) for chunk in chunks] == [1] * 60
    if limit == 30_000:
        assert len(chunks) > 1
    if limit == 10**9:
        assert len(chunks) == 1
    features, edges = joined(chunks)
    assert features is whole.features is None or torch.equal(features, whole.features)
    assert edges is whole.edges is None or torch.equal(edges, whole.edges)


def test_wide_models_get_smaller_chunks(monkeypatch):
    part = computation_graph()
    monkeypatch.setattr(memory, "CHUNK_BYTES", 10**6)
    narrow, wide = (len(next(UniformEdges(0.5).chunks(part, 10**4, width=width))) for width in (16, 256))
    assert 1 <= wide < narrow
    assert wide * part.num_edges * 256 * 8 <= 10**6


def test_chunks_are_drawn_as_they_are_asked_for():
    chunks = UniformEdges(0.5).chunks(computation_graph(), 10**9, size=5)
    assert len(next(chunks)) == len(next(chunks)) == 5


@pytest.mark.parametrize("size", [1e40, 1e-46])
def test_features_in_double_precision_may_have_any_range(size):
    x, path = torch.eye(3).double() * size, torch.tensor([[1, 2], [0, 1]])
    drawn = UniformFeatures(0.5).sample(computation_graph(0, 1, (x, path)), 50).features[:, :2]
    assert 0.4 * size < drawn.abs().max() < 0.5 * size


def test_a_class_that_is_defined_again_takes_the_place_of_the_first():
    def define(scale):
        @register_neighborhood
        @dataclass(frozen=True)
        class Scaled(Neighborhood):
            share: float
            notation = "Z(A,{share})"
            perturbs_edges = True

            def edges(self, graph, samples, seed):
                return scale * draw_edges(graph, samples, seed)

        return Scaled

    first, second = define(1.0), define(2.0)
    assert type(parse_neighborhood("Z(A,0.5)")) is second is not first


@pytest.mark.parametrize("notation", ["Q(A)", "Q(A,{other})", "Q(x,{share})", ""])
def test_a_notation_has_to_name_the_fields(notation):
    @dataclass(frozen=True)
    class Odd(Neighborhood):
        share: float

    Odd.notation = notation
    with pytest.raises(InputError, match="the notation of Odd must name each of its fields"):
        register_neighborhood(Odd)


@pytest.mark.parametrize("text", ["U(A,0.5)", "B(A,0.25)", "U(X,1e-05r)", "U(X,0.2r)xB(A,0.3)"])
def test_public_draws_are_those_of_the_paper_s_neighbourhoods(text):
    assert str(parse_neighborhood(text)) == text
    x, edge_index = torch.rand(5, 2), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    part = ComputationGraph.around(Graph.of(x, edge_index), 4, 4)
    samples = np.arange(7)
    drawn = draw_edges(part, samples, 3)
    assert drawn.shape == (7, part.num_edges)
    expected = torch.minimum(0.5 * (2 * drawn - 1), part.weight.double()) * part.felt
    assert torch.equal(UniformEdges(0.5).edges(part, samples, 3), expected)
    assert draw_features(part, samples, 3).shape == (7, *part.x.shape)
    assert torch.equal(draw_edges(part, samples[3:], 3), drawn[3:])


def test_a_subclass_that_draws_in_another_way_is_asked():
    class Still(UniformEdges):
        def edges(self, graph, samples, seed):
            return 0 * super().edges(graph, samples, seed)

    x, path = torch.ones(3, 1), torch.tensor([[1, 2], [0, 1]])
    part = ComputationGraph.around(Graph.of(x, path), 0, 1)
    assert UniformEdges(0.5).sample(part, 4).edges.abs().sum() > 0
    samples = Still(0.5).sample(part, 4)
    assert not samples.edges.any()
    assert torch.equal(samples.weight_with_own, part.weight.double().expand(5, -1))


@given(sigma=st.floats(0.1, 3), seed=st.integers(0, 99))
def test_entries_that_are_drawn_along_are_those_of_the_moves(sigma, seed):
    x, path = torch.ones(4, 1), torch.tensor([[1, 2, 3], [0, 1, 2]])
    part = ComputationGraph.around(Graph.of(x, path), 0, 1)
    samples = UniformEdges(sigma).sample(part, 9, seed)
    plain = Perturbations(part, None, samples.edges)
    assert torch.equal(samples.weight_with_own, plain.weight_with_own)
    assert torch.equal(samples.edges, UniformEdges(sigma).edges(part, np.arange(9), seed))
