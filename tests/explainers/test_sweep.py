"""Many nodes explained together are explained as each is alone."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer
from torch_geometric.explain.config import ModelConfig
from torch_geometric.utils import to_undirected

import graphfaith as gf
from conftest import needs_data
from graphfaith.data.models import load_trained
from graphfaith.explainers import many, sweep
from graphfaith.explanation.digest import scores_digest
from reference import TwoLayerGCN, cases

CLASSIFIER = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
NODES, FEATURES, CLASSES = 24, 4, 3
LABELS = torch.arange(NODES) % CLASSES
# An object, a digest of the scores down to their last bit, and limits that tests change on purpose.
NOT_COMPARED = ("difference_model", "scores_digest", "settings")

ROUNDING = 1e-13  # where F cannot change, as at a node without edges, scores are nothing else


def explainer_of(model, algorithm=None, kind="model", config=CLASSIFIER, masks=("attributes", "object"), **options):
    return Explainer(model, algorithm or gf.KEC("U(A,0.5)", num_samples=40), kind, config, *masks, **options)


def graph(seed=0, nodes=NODES, edges=50, features=FEATURES, undirected=False, dtype=torch.float64):
    """A random graph with a few loops, and two nodes that have no edge at all."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, nodes - 2, (2, edges), generator=generator)
    edge_index = torch.unique(edge_index[:, edge_index[0] != edge_index[1]], dim=1)
    if undirected:
        edge_index = to_undirected(edge_index)
    edge_index = torch.cat([edge_index, torch.tensor([[1, 4, 7], [1, 4, 7]])], dim=1)
    return torch.randn(nodes, features, generator=generator, dtype=dtype), edge_index


def ring(nodes=NODES):
    """Connected, and small to each of its nodes."""
    at = torch.arange(nodes)
    edges = torch.cat([torch.stack([at, (at + 1) % nodes]), torch.stack([(at + 1) % nodes, at])], dim=1)
    return torch.randn(nodes, FEATURES, generator=torch.Generator().manual_seed(0)).double(), edges


def seeded(make, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double().eval()


def gcn():
    return seeded(lambda: TwoLayerGCN(FEATURES))


def explain(explainer, x, edges, nodes=None, **options):
    return list(gf.explain_nodes(explainer, x, edges, nodes, progress=False, **options))


def size(tensor):
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def apart(found, right):
    return size(found - right)


def assert_same(found, right, tolerance=1e-9):
    assert type(found) is type(right)
    assert sorted(found.keys()) == sorted(right.keys())
    assert found._model_config == right._model_config
    assert found._model_args == right._model_args
    for name in set(right.keys()) - set(NOT_COMPARED):
        mine, other = found[name], right[name]
        if isinstance(other, torch.Tensor):
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype), name
            if name.endswith(("_mask", "_score")) and mine.is_floating_point():
                assert apart(mine, other) <= tolerance * size(other) + ROUNDING, name
            else:
                assert torch.equal(mine, other), name
        elif isinstance(other, float):
            assert mine == pytest.approx(other, rel=1e-6, abs=1e-12), name
        else:
            assert mine == other, name
    p, q = found.difference_model, right.difference_model
    assert p.normalization == q.normalization
    assert torch.equal(p.graph.nodes, q.graph.nodes)
    assert torch.equal(p.graph.edge_id, q.graph.edge_id)
    assert apart(p.weights, q.weights) <= tolerance * size(q.weights) + ROUNDING


def assert_together_is_alone(explainer, x, edges, nodes=None, tolerance=1e-9, **options):
    together = explain(explainer, x, edges, nodes, together=True, **options)
    alone = explain(explainer, x, edges, nodes, together=False, **options)
    assert len(together) == len(alone) > 0
    for mine, other in zip(together, alone, strict=True):
        assert_same(mine, other, tolerance)
    return together


class Spy:
    """Counts sweeps, and the blocks and batches of nodes they are made in."""

    def __init__(self, monkeypatch):
        self.nodes, self.blocks, self.batches = [], [], []
        explanations, init, fit = sweep.Sweep.explanations, sweep.Block.__init__, sweep.Block.fit

        def spied(own, nodes):
            self.nodes.append(list(nodes))
            return explanations(own, nodes)

        def block(own, algorithm, joint, nodes):
            init(own, algorithm, joint, nodes)
            self.blocks.append(list(nodes))

        def batch(own, parts, *rest):
            self.batches.append(len(parts))
            return fit(own, parts, *rest)

        monkeypatch.setattr(sweep.Sweep, "explanations", spied)
        monkeypatch.setattr(sweep.Block, "__init__", block)
        monkeypatch.setattr(sweep.Block, "fit", batch)


@pytest.fixture
def spy(monkeypatch):
    return Spy(monkeypatch)


# The same answers -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::graphfaith._base.errors.ReachWarning")
@settings(max_examples=40)
@given(
    cases,
    st.sampled_from(["symmetric", "row", "none", "auto"]),
    st.sampled_from(["U(A,0.5)", "B(A,0.5)"]),
    st.booleans(),
)
def test_together_is_as_alone_on_any_graph(case, normalization, near, undirected):
    edges, kwargs = case.edge_index, case.kwargs
    if undirected:
        assume(edges.size(1) > 0)
        edges, weight = (
            to_undirected(edges, kwargs.get("edge_weight"), len(case.x), "max")
            if kwargs
            else (
                to_undirected(edges, num_nodes=len(case.x)),
                None,
            )
        )
        kwargs = {"edge_weight": weight} if kwargs else {}
    explainer = explainer_of(case.model, gf.KEC(near, num_samples=30, normalization=normalization, threshold=1e-3))
    found = [explain(explainer, case.x, edges, together=way, **kwargs) for way in (True, False)]
    for mine, other in zip(*found, strict=True):
        if normalization == "auto" and mine.normalization != other.normalization:  # a tie, which rounding decides
            assert mine.in_sample_error == pytest.approx(other.in_sample_error, rel=1e-6, abs=1e-12)
        else:
            assert_same(mine, other, 1e-8)


@pytest.mark.parametrize("undirected", [False, True], ids=["directed", "undirected"])
@pytest.mark.parametrize("near", ["U(A,0.5)", "B(A,0.5)"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.GCN(FEATURES, 6, 2, CLASSES, act="tanh"),
        lambda: pyg.GAT(FEATURES, 6, 2, CLASSES, act="tanh"),
        lambda: pyg.GraphSAGE(FEATURES, 6, 2, CLASSES, act="tanh"),
        lambda: pyg.GIN(FEATURES, 6, 2, CLASSES, act="tanh", norm=None),
        lambda: pyg.GCN(FEATURES, 6, 3, CLASSES),
    ],
    ids=["GCN", "GAT", "SAGE", "GIN", "deep"],
)
def test_together_is_as_alone_for_many_kinds_of_layers(make, near, undirected):
    x, edges = graph(1, undirected=undirected)
    assert_together_is_alone(explainer_of(seeded(make), gf.KEC(near, num_samples=40)), x, edges)


@pytest.mark.parametrize("normalization", ["symmetric", "row", "none", "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_together_is_as_alone_whatever_n_is(normalization, weighted):
    x, edges = graph(2, features=40)  # more than nodes in reach: features are looked at in a basis
    weight = torch.linspace(0.2, 1.7, edges.size(1)).double()
    model = seeded(lambda: TwoLayerGCN(40))
    explainer = explainer_of(model, gf.KEC("U(A,0.5)", num_samples=60, normalization=normalization))
    found = assert_together_is_alone(explainer, x, edges, **({"edge_weight": weight} if weighted else {}))
    assert all(one._model_args == (["edge_weight"] if weighted else []) for one in found)
    if normalization != "auto":
        assert {one.normalization for one in found} == {normalization}


@pytest.mark.parametrize(
    "masks",
    [("object", "object"), ("common_attributes", "object"), ("attributes", None), (None, "object")],
)
def test_masks_of_every_kind(masks):
    x, edges = graph(4)
    found = assert_together_is_alone(explainer_of(gcn(), masks=masks), x, edges)
    assert ("node_mask" in found[0]) == (masks[0] is not None)
    assert ("edge_mask" in found[0]) == (masks[1] is not None)


def test_thresholds_are_applied():
    x, edges = graph(4)
    explainer = explainer_of(gcn(), threshold_config={"threshold_type": "topk", "value": 3})
    found = assert_together_is_alone(explainer, x, edges)
    assert all((one.edge_mask != 0).sum() <= 3 for one in found)


def test_classes_that_are_given():
    x, edges = graph(5)
    explainer = explainer_of(gcn(), kind="phenomenon")
    found = assert_together_is_alone(explainer, x, edges, target=LABELS)
    assert all(torch.equal(one.target, LABELS) for one in found)
    assert "prediction" not in found[0]


@pytest.mark.parametrize(
    ("mode", "return_type", "outputs"),
    [
        ("binary_classification", "raw", 1),
        ("binary_classification", "probs", 1),
        ("regression", "raw", 1),
        ("regression", "raw", 2),
        ("multiclass_classification", "log_probs", 3),
    ],
)
def test_tasks_of_every_kind(mode, return_type, outputs):
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = TwoLayerGCN(FEATURES, outputs)

        def forward(self, x, edge_index, edge_weight=None):
            out = self.inner(x, edge_index, edge_weight)
            return {"probs": out.sigmoid(), "log_probs": out.log_softmax(-1), "raw": out}[return_type]

    config = {"mode": mode, "task_level": "node", "return_type": return_type}
    x, edges = graph(6)
    found = assert_together_is_alone(explainer_of(seeded(Head), config=config), x, edges)
    if mode == "binary_classification":
        assert len(found[0].target.unique()) == 2  # both signs of F are there
    assert found[0]._model_config == ModelConfig(**config)


def test_weights_are_perturbed_by_the_messages_as_well():
    x, edges = graph(7)
    explainer = explainer_of(gcn(), gf.KEC("B(A,0.5)", num_samples=40, edges="mask"))
    found = assert_together_is_alone(explainer, x, edges)
    assert found[0].edge_route == "mask"


def test_models_without_edge_weight_and_with_other_arguments():
    class Attributed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = pyg.GATConv(FEATURES, 5, edge_dim=2), pyg.GATConv(5, CLASSES, edge_dim=2)

        def forward(self, x, edge_index, edge_attr):
            return self.second(self.first(x, edge_index, edge_attr).tanh(), edge_index, edge_attr)

    x, edges = graph(8)
    attributes = torch.randn(edges.size(1), 2, generator=torch.Generator().manual_seed(0)).double()
    found = assert_together_is_alone(explainer_of(seeded(Attributed)), x, edges, edge_attr=attributes)
    assert found[3].edge_attr is attributes


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        ([9, 2, 17, 0], [9, 2, 17, 0]),
        ([5, 5, 3, 5], [5, 5, 3, 5]),
        (torch.tensor([8, 1]), [8, 1]),
        (torch.arange(NODES) % 7 == 3, [3, 10, 17]),
        (range(20, 3, -5), [20, 15, 10, 5]),
        (iter([4, 6]), [4, 6]),
        (7, [7]),
        (None, list(range(NODES))),
    ],
    ids=["unordered", "repeated", "tensor", "mask", "range", "iterator", "one", "all"],
)
def test_nodes_come_as_they_are_named(nodes, named):
    x, edges = graph(9)
    explainer = explainer_of(gcn())
    found = explain(explainer, x, edges, nodes, together=True)
    assert [one.index.tolist() for one in found] == [[node] for node in named]
    for one, node in zip(found, named, strict=True):
        assert_same(one, explainer(x, edges, index=node))


def test_what_a_score_is_of_is_known_to_the_explanation():
    x, edges = graph(9)
    for one in explain(explainer_of(gcn()), x, edges, [3, 8], together=True):
        assert one.scores_digest == scores_digest(one, one.difference_model.graph)


@pytest.mark.parametrize("normalization", ["symmetric", "auto"])
def test_unfaithfulness_is_that_of_an_explanation_made_alone(normalization):
    x, edges = graph(10)
    explainer = explainer_of(gcn(), gf.KEC("U(A,0.5)", num_samples=40, normalization=normalization))
    nodes = [0, 5, 11, 23]
    pair = (explain(explainer, x, edges, nodes, together=way) for way in (True, False))
    for mine, other in zip(*pair, strict=True):
        a, b = (gf.general_unfaithfulness(explainer, one, "B(A,0.3)", num_samples=50) for one in (mine, other))
        assert a.value == pytest.approx(b.value, rel=1e-6, abs=1e-12)


# Blocks and memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1, 41 * 8 * 45, 41 * 8 * 70])
def test_blocks_do_not_change_answers(monkeypatch, spy, room):
    x, edges = graph(11)
    explainer = explainer_of(gcn())
    right = explain(explainer, x, edges, together=True)
    assert spy.blocks == [list(range(NODES))]
    monkeypatch.setattr(sweep, "CHUNK_BYTES", room)
    spy.blocks.clear()
    for mine, other in zip(explain(explainer, x, edges, together=True), right, strict=True):
        assert_same(mine, other)
    assert [node for block in spy.blocks for node in block] == list(range(NODES))
    assert len(spy.blocks) == NODES if room == 1 else 1 < len(spy.blocks) < NODES


@pytest.mark.parametrize("near", [True, False])
def test_blocks_are_as_large_as_their_joint_graph_may_be(monkeypatch, spy, near):
    x, edges = ring(200)
    entries = 90
    monkeypatch.setattr(sweep, "CHUNK_BYTES", 41 * 8 * entries)
    nodes = list(range(200)) if near else torch.randperm(200, generator=torch.Generator().manual_seed(0)).tolist()
    explain(explainer_of(gcn()), x, edges, nodes, together=True)
    assert [node for block in spy.blocks for node in block] == nodes
    sizes = list(map(len, spy.blocks))
    # Two layers see five nodes and two more in degrees: 7 nodes, 10 edges and 7 loops. Of nodes in a row, each further
    # one adds one node, two edges and one loop, and of nodes that are far apart all of them.
    assert max(sizes) <= (entries if near else 2 * entries // 17)
    assert sizes[0] >= (18 if near else 4)


@pytest.mark.parametrize("limit", ["_ENTRIES", "_NUMBERS"])
@pytest.mark.parametrize("count", [1, 60, 10**6])
def test_batches_do_not_change_answers(monkeypatch, spy, limit, count):
    x, edges = graph(12)
    explainer = explainer_of(gcn())
    monkeypatch.setattr(sweep, "_FIRST", 2)
    monkeypatch.setattr(sweep, limit, count)
    assert_together_is_alone(explainer, x, edges)
    assert sum(spy.batches) == NODES
    if count == 1:
        assert set(spy.batches) == {1}
    else:
        assert spy.batches[0] <= 2
        assert (spy.batches == [2, NODES - 2]) == (count == 10**6)


def test_a_batch_ends_where_parts_become_large(monkeypatch, spy):
    # The first nodes have no neighbours, so that they say nothing of the size of the others.
    x, edges = (
        torch.rand(60, FEATURES).double(),
        torch.randint(20, 60, (2, 300), generator=torch.Generator().manual_seed(0)),
    )
    edges = edges[:, edges[0] != edges[1]]
    monkeypatch.setattr(sweep, "_ENTRIES", 1000)
    explain(explainer_of(gcn()), x, edges, together=True)
    assert sum(spy.batches) == 60
    assert max(spy.batches[2:]) < 12


def test_parts_that_do_not_fit_in_memory_are_explained_alone(monkeypatch):
    x, edges = graph(14)
    explainer = explainer_of(gcn())
    right = explain(explainer, x, edges, together=False)
    monkeypatch.setattr(sweep, "_ROOM", 1)
    for mine, other in zip(explain(explainer, x, edges, together=True), right, strict=True):
        assert torch.equal(mine.edge_mask, other.edge_mask)


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_do_not_change_answers(threads):
    x, edges = graph(13)
    explainer = explainer_of(gcn())
    one = explain(explainer, x, edges, together=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        several = explain(explainer, x, edges, together=True)
    finally:
        torch.set_num_threads(before)
    for mine, other in zip(several, one, strict=True):
        assert torch.equal(mine.edge_mask, other.edge_mask)
        assert torch.equal(mine.node_mask, other.node_mask)


@pytest.mark.parametrize("limit", ["_ENTRIES", "_NUMBERS"])
@pytest.mark.parametrize("threshold", [1e-4, 1e-9])
def test_threads_and_batches_do_not_change_records(monkeypatch, limit, threshold):
    # Some parts have more rows than a panel of the core. With the first threshold it leaves out singular values, and
    # with the second one it leaves parts in which features are equal to the general fit.
    x, edges = graph(17, nodes=90, edges=260, features=60)
    x[:40] = x[0] if threshold < 1e-6 else x[:40]
    model = seeded(lambda: TwoLayerGCN(60))
    explainer = explainer_of(model, gf.KEC("U(A,0.5)", num_samples=50, threshold=threshold))
    others, fit_given = [], gf.KEC.fit_given
    monkeypatch.setattr(gf.KEC, "fit_given", lambda *given: others.append(0) or fit_given(*given))
    right, before = gf.explain_all(explainer, x, edges, progress=False), torch.get_num_threads()
    assert (0 < len(others) < 90) == (threshold < 1e-6)
    monkeypatch.setattr(sweep, limit, 3000)
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        try:
            found = gf.explain_all(explainer, x, edges, progress=False)
        finally:
            torch.set_num_threads(before)
        for name in ("index", "edge_start", "source", "sink", "edge_id", "score", "node", "node_score"):
            assert getattr(found, name).tolist() == getattr(right, name).tolist(), name


def test_a_model_that_reads_the_memory_of_features_is_explained_together(spy):
    class Reader(TwoLayerGCN):
        def forward(self, x, edge_index, edge_weight=None):
            return super().forward(x + 0 * torch.from_numpy(x.detach().numpy()), edge_index, edge_weight)

    x, edges = graph(18)
    found = list(sweep_batches(seeded(lambda: Reader(FEATURES)), x, edges))
    assert all(batch.proven.all() for batch in found)


def sweep_batches(model, x, edges):
    asked = many._Asked.of(
        explainer_of(model, gf.KEC("U(A,0.5)", num_samples=40, edges="weight")), x, edges, None, None, {}
    )
    return many._sweep(asked).batches(asked.rows)


def test_little_memory_makes_blocks_smaller(spy):
    x, edges = ring(200)
    algorithm = gf.KEC("U(A,0.5)", num_samples=100)
    explainer = explainer_of(gcn(), algorithm)
    right = explain(explainer, x, edges, together=False)
    assert len(explain(explainer, x, edges, together=True)) == len(spy.blocks[0]) == 200
    spy.blocks.clear()
    algorithm.max_memory = 800_000
    found = explain(explainer, x, edges, together=True)
    assert len(spy.blocks) > 2
    for mine, other in zip(found, right, strict=True):
        assert_same(mine, other)


def test_a_block_that_is_refused_is_halved(monkeypatch, spy):
    x, edges = ring(64)
    explainer = explainer_of(gcn())
    right = explain(explainer, x, edges, together=False)
    make = sweep.Block.__init__

    def refusing(own, algorithm, joint, nodes):
        if len(nodes) > 10:
            raise gf.MemoryLimitError("too many")
        make(own, algorithm, joint, nodes)

    monkeypatch.setattr(sweep.Block, "__init__", refusing)
    found = explain(explainer, x, edges, together=True)
    assert [node for block in spy.blocks for node in block] == list(range(64))
    assert {len(block) for block in spy.blocks} == {8}
    for mine, other in zip(found, right, strict=True):
        assert_same(mine, other)


def test_memory_is_refused_together_if_it_is_for_one_node():
    x, edges = ring(60)
    refused = {}
    for limit in range(20_000, 400_000, 20_000):
        said = []
        for together in (False, True):
            explainer = explainer_of(gcn(), gf.KEC("U(A,0.5)", num_samples=40, max_memory=limit))
            try:
                assert len(explain(explainer, x, edges, [3, 30, 50, 59], together=together)) == 4
                said.append(None)
            except gf.MemoryLimitError as error:
                said.append(str(error))
        assert (said[0] is None) == (said[1] is None), (limit, said)
        refused[limit] = said[0]
    assert None in refused.values()
    assert any(refused.values())


# Which way is chosen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "together", "swept"),
    [
        (sweep.AT_LEAST - 1, None, False),
        (sweep.AT_LEAST, None, True),
        (NODES, None, True),
        (NODES, False, False),
        (1, True, True),
        (2, True, True),
    ],
)
def test_many_nodes_are_explained_together(spy, count, together, swept):
    x, edges = graph(13)
    found = explain(explainer_of(gcn()), x, edges, range(count), together=together)
    assert spy.nodes == ([list(range(count))] if swept else [])
    assert len(found) == count


@pytest.mark.parametrize("near", ["U(X,0.2r)", "U(X,0.2r)xU(A,0.5)"])
def test_more_nodes_are_needed_where_features_move(spy, near):
    x, edges = ring(60)
    least = sweep.AT_LEAST * sweep.WITH_FEATURES
    for count in (least - 1, least):
        assert len(explain(explainer_of(gcn(), gf.KEC(near, num_samples=10)), x, edges, range(count))) == count
    assert spy.nodes == [list(range(least))]


class OwnFit(gf.KEC):
    def fit(self, target):
        return super().fit(target)


class OwnSolve(gf.KEC):
    def solve(self, *given):
        return super().solve(*given)


class OwnScores(gf.KEC):
    def scores(self, p):
        return super().scores(p)


class OwnName(gf.KEC):
    method = "mine"


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        (gf.Saliency(), "Saliency is fitted to one node at a time"),
        (gf.Linear("U(A,0.5)", num_samples=20), "Linear is fitted to one node at a time"),
        (OwnFit("U(A,0.5)", num_samples=20), "OwnFit is fitted to one node at a time"),
        (OwnSolve("U(A,0.5)", num_samples=20), "OwnSolve is fitted"),
        (OwnScores("U(A,0.5)", num_samples=20), "OwnScores is fitted"),
    ],
    ids=["saliency", "linear", "fit", "solve", "scores"],
)
def test_what_cannot_be_explained_together_is_not(spy, algorithm, reason):
    x, edges = graph(13)
    explainer = explainer_of(gcn(), algorithm)
    with pytest.raises(gf.UnsupportedError, match=f"these nodes cannot be explained together: .*{reason}"):
        gf.explain_nodes(explainer, x, edges, together=True)
    for one, node in zip(explain(explainer, x, edges), range(NODES), strict=True):
        assert torch.equal(one.edge_mask, explainer(x, edges, index=node).edge_mask)
    assert not spy.nodes


def test_a_kec_by_another_name_is_still_one(spy):
    x, edges = graph(13)
    found = assert_together_is_alone(explainer_of(gcn(), OwnName("U(A,0.5)", num_samples=30)), x, edges)
    assert {one.method for one in found} == {"mine"}


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = TwoLayerGCN(FEATURES)

    def forward(self, x, edge_index, edge_weight=None, edge_label_index=None, batch=None):
        h = self.inner(x, edge_index, edge_weight)
        return pyg.global_add_pool(h, batch) if batch is not None else (h[edge_label_index[0]] * h[edge_label_index[1]])


@pytest.mark.parametrize("level", ["edge", "graph"])
def test_links_and_graphs_are_explained_one_by_one(spy, level):
    x, edges = graph(13)
    at = torch.arange(NODES)
    kwargs = {"edge_label_index": torch.stack([at, at.flip(0)])} if level == "edge" else {"batch": at // 2}
    x, edges = (x, edges) if level == "edge" else (torch.cat([x, x]), torch.cat([edges, edges + NODES], dim=1))
    if level == "graph":
        kwargs = {"batch": torch.arange(2 * NODES) // NODES}
    explainer = explainer_of(seeded(Pairs), config={**CLASSIFIER, "task_level": level})
    with pytest.raises(gf.UnsupportedError, match=f"these {level}s cannot be .*: rows of the output are {level}s, not"):
        gf.explain_nodes(explainer, x, edges, together=True, **kwargs)
    rows = range(NODES) if level == "edge" else [0, 1] * 8
    assert len(explain(explainer, x, edges, rows, **kwargs)) >= sweep.AT_LEAST
    assert not spy.nodes


class LooksAtAll(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES)
        self.norm = norm

    def forward(self, x, edge_index, edge_weight=None):
        x = self.first(x, edge_index, edge_weight)
        x = x + x.mean(dim=0) if self.norm is None else self.norm(x)
        return self.second(x.tanh(), edge_index, edge_weight)


@pytest.mark.parametrize("norm", [None, pyg.GraphNorm(6)], ids=["mean", "GraphNorm"])
def test_a_model_that_looks_at_the_whole_graph_is_explained_one_by_one(spy, norm):
    x, edges = ring()
    explainer = explainer_of(seeded(lambda: LooksAtAll(norm)))
    with pytest.raises(gf.UnsupportedError, match="LooksAtAll looks at the whole graph for every node: together=True"):
        explain(explainer, x, edges, together=True)
    for mine, other in zip(explain(explainer, x, edges), explain(explainer, x, edges, together=False), strict=True):
        assert torch.equal(mine.edge_mask, other.edge_mask)
        assert torch.equal(mine.node_mask, other.node_mask)
    assert not spy.nodes


class Deep(nn.Module):
    """Its reach is two hops by its layers, and three at nodes with a flag."""

    def __init__(self, always=False):
        super().__init__()
        self.first, self.second, self.always = pyg.GCNConv(FEATURES, FEATURES), pyg.GCNConv(FEATURES, CLASSES), always

    def forward(self, x, edge_index, edge_weight=None):
        once = self.first(x, edge_index, edge_weight)
        far = self.second(self.first(once, edge_index, edge_weight), edge_index, edge_weight)
        flagged = torch.ones_like(x[..., :1]) if self.always else (x[..., :1] == 7).to(x.dtype)
        return self.second(once, edge_index, edge_weight) + flagged * far


def test_a_reach_that_is_too_short_is_the_same_error():
    x, edges = ring()
    said = []
    for together in (True, False):
        with pytest.raises(gf.ModelError, match=r"node 0 is the same .* Pass num_hops=3$") as error:
            explain(explainer_of(seeded(lambda: Deep(always=True))), x, edges, together=together)
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "nodes",
    [
        [18, 19, 20],
        None,
    ],
    ids=["some", "all"],
)
def test_a_reach_that_is_too_short_at_one_node_is_found_together(nodes):
    x, edges = ring()
    x[20, 0] = 7
    for together in (False, True):
        with pytest.raises(gf.ModelError, match=r"go further than 2 hops.* Pass num_hops=3$"):
            explain(explainer_of(seeded(Deep)), x, edges, nodes, together=together)


class LooksAtAllOnce(nn.Module):
    """At nodes with a flag it looks at the whole graph, and at no other."""

    def __init__(self):
        super().__init__()
        self.inner = TwoLayerGCN(FEATURES)

    def forward(self, x, edge_index, edge_weight=None):
        flagged = (x[..., :1] == 7).to(x.dtype)
        return self.inner(x, edge_index, edge_weight) + flagged * x.mean(dim=(-2, -1), keepdim=True)


@pytest.mark.parametrize("nodes", [[18, 19, 20], [*range(21)]], ids=["some", "all before it"])
def test_a_node_at_which_the_model_looks_at_the_whole_graph(nodes):
    x, edges = ring()
    x[20, 0] = 7
    alone = explain(explainer_of(seeded(LooksAtAllOnce)), x, edges, nodes, together=False)
    found = explain(explainer_of(seeded(LooksAtAllOnce)), x.clone(), edges, nodes, together=True)
    for mine, other in zip(found, alone, strict=True):
        assert (mine.edge_mask - other.edge_mask).abs().max() <= 1e-9 * other.edge_mask.abs().max(), mine.index


# What is left behind ----------------------------------------------------------------------------------------------


class Counting(TwoLayerGCN):
    calls = 0

    def forward(self, *given, **named):
        type(self).calls += 1
        return super().forward(*given, **named)


def test_nothing_is_computed_before_it_is_asked_for(monkeypatch, spy):
    monkeypatch.setattr(Counting, "calls", 0)
    x, edges = graph(14)
    model = seeded(lambda: Counting(FEATURES))
    found = gf.explain_nodes(explainer_of(model, kind="phenomenon"), x, edges, target=LABELS, progress=False)
    assert Counting.calls == 0
    first = next(found)
    assert Counting.calls > 0
    assert first.index.tolist() == [0]
    assert spy.blocks == [list(range(NODES))]
    Counting.calls = 0
    gf.explain_nodes(explainer_of(model), x, edges, progress=False)
    assert Counting.calls == 1  # the model's own prediction


def test_later_blocks_wait_until_they_are_asked_for(monkeypatch, spy):
    monkeypatch.setattr(sweep, "CHUNK_BYTES", 41 * 8 * 60)
    x, edges = graph(14)
    found = gf.explain_nodes(explainer_of(gcn()), x, edges, progress=False, together=True)
    next(found)
    assert len(spy.blocks) == 1
    size = len(spy.blocks[0])
    assert size < NODES
    for _ in range(size):
        next(found)
    assert len(spy.blocks) == 2


def state(model):
    return [
        (module.training, sorted(vars(module)), {name: id(value) for name, value in module._parameters.items()})
        for module in model.modules()
    ]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", [lambda: TwoLayerGCN(FEATURES), lambda: pyg.GAT(FEATURES, 5, 2, CLASSES, dropout=0.5)])
def test_the_model_is_left_as_it_was(monkeypatch, training, make):
    monkeypatch.setattr(sweep, "CHUNK_BYTES", 41 * 8 * 60)
    x, edges = graph(15)
    model = seeded(make).train(training)
    right = explain(explainer_of(copy.deepcopy(model).eval()), x, edges, together=False)
    explainer = explainer_of(model)
    explainer(x, edges, index=0)  # PyG leaves what it likes
    before = state(model)
    found = gf.explain_nodes(explainer, x, edges, progress=False, together=True)
    for mine, other in zip(found, right, strict=True):
        assert state(model) == before
        assert (mine.edge_mask - other.edge_mask).abs().max() <= 1e-9 * other.edge_mask.abs().max() + 1e-15
    abandoned = gf.explain_nodes(explainer, x, edges, progress=False, together=True)
    next(abandoned)
    next(abandoned)
    assert state(model) == before
    del abandoned
    assert state(model) == before
    assert torch.is_grad_enabled()


def test_iterators_side_by_side_do_not_mix():
    x, edges = graph(16)
    one, two = (
        explainer_of(gcn(), gf.KEC("U(A,0.5)", num_samples=30)),
        explainer_of(gcn(), gf.KEC("B(A,0.3)", num_samples=50, seed=4)),
    )
    both = zip(*(gf.explain_nodes(e, x, edges, progress=False, together=True) for e in (one, two)), strict=True)
    for place, (mine, other) in enumerate(both):
        assert_same(mine, one(x, edges, index=place))
        assert_same(other, two(x, edges, index=place))


# Cora -------------------------------------------------------------------------------------------------------------


@needs_data
def test_nodes_of_cora_together_and_alone():
    cora = load_trained("cora")
    x, edges = cora.data.x, cora.data.edge_index
    explainer = explainer_of(cora.model, gf.KEC("U(A,0.5)"))
    nodes = list(range(0, 2700, 90))
    deltas = []
    for way in (True, False):
        found = explain(explainer, x, edges, nodes, together=way)
        deltas.append(
            [gf.general_unfaithfulness(explainer, one, "U(A,0.5)", num_samples=100, seed=9).value for one in found]
        )
        if way:
            together = found
    for mine, other in zip(together, found, strict=True):
        for name in ("node_mask", "edge_mask", "self_loop_score"):
            assert (mine[name] - other[name]).abs().max() <= 1e-4 * other[name].abs().max()
        assert mine.in_sample_error == pytest.approx(other.in_sample_error, rel=1e-3, abs=1e-9)
    assert sum(deltas[0]) == pytest.approx(sum(deltas[1]), rel=1e-3)
    assert deltas[0] == pytest.approx(deltas[1], rel=1e-3, abs=1e-8)


def test_many_is_what_is_exported():
    assert gf.explain_nodes is many.explain_nodes


def test_a_model_that_changes_in_the_middle_is_explained_as_it_is_then(monkeypatch):
    monkeypatch.setattr(sweep, "_FIRST", 3)
    x, edges = graph(15)
    model = gcn()
    explainer = explainer_of(model, kind="phenomenon")
    found = gf.explain_nodes(explainer, x, edges, target=LABELS, progress=False, together=True)
    before = [next(found) for _ in range(3)]
    with torch.no_grad():
        model.convs[0].lin.weight.mul_(2.0)
    after = list(found)
    right = explain(explainer, x, edges, range(3, NODES), together=False, target=LABELS)
    for mine, other in zip(after, right, strict=True):
        assert_same(mine, other)
    changed = explain(explainer, x, edges, range(3), together=False, target=LABELS)
    assert any(not torch.allclose(mine.edge_mask, other.edge_mask) for mine, other in zip(before, changed, strict=True))
