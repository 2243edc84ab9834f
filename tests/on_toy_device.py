"""Models and graphs on another device than the processor: one that is made of Python code, see toy_device.py.

These tests have a process of their own (tests/model/test_home.py): autograd counts the devices when it first goes
backwards, so that this one has to be registered before.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from typer.testing import CliRunner

import graphfaith as gf
import toy_device
import typed_toys
from graphfaith._base.memory import CHUNK_BYTES
from graphfaith.cli.application import app as application
from graphfaith.data import load_dataset
from graphfaith.data.models import load_trained
from graphfaith.facade import Subject
from graphfaith.model.home import chunk_bytes, free_memory, home_of
from graphfaith.view.live.desk import Desk

NODES, FEATURES, CLASSES = 14, 5, 3
NODE = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class Classifier(torch.nn.Module):
    """A classifier of graphs."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = pyg.GCNConv(FEATURES, 6), torch.nn.Linear(6, CLASSES)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        return self.out(pyg.global_mean_pool(self.conv(x, edge_index, edge_weight).tanh(), batch))


def make(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind is Classifier:
            return kind().double().eval()
        return kind(FEATURES, 6, 2, out_channels=CLASSES).double().eval()


@pytest.fixture(scope="module")
def device():
    return toy_device.install()


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(1)
    source, sink = torch.randint(0, NODES, (2, 20), generator=generator)
    edges = torch.stack([source, sink])[:, source != sink]
    edges = torch.unique(torch.cat([edges, edges.flip(0)], dim=1), dim=1)
    return Data(x=torch.randn(NODES, FEATURES, generator=generator).double(), edge_index=edges)


def test_the_device_of_the_tests_refuses_tensors_of_another_one(device):
    there = torch.ones(3).to(device)
    assert (there + there).device == device
    assert (there.cpu() == 1).all()
    with pytest.raises(RuntimeError, match="same device"):
        there + torch.ones(3)
    with pytest.raises(RuntimeError):
        there.numpy()


METHODS = [
    gf.KEC("U(A,0.5)", num_samples=20),
    gf.KEC("U(X,0.2r)xB(A,0.5)", num_samples=20),
    gf.AnchoredKEC("U(A,0.5)", num_samples=60),
    gf.AnchoredKEC("B(A,0.5)", num_samples=60),
    gf.AnchoredKEC("U(X,0.2r)", num_samples=60),
    gf.Linear("U(A,0.5)", num_samples=20),
    gf.Saliency(),
    gf.IntegratedGradients(steps=4),
    gf.GNNExplainer(epochs=2),
    gf.SubgraphX(rollouts=2),
    gf.Shapley(num_samples=20),
]


def attend(*sizes, **named):
    """Return a network of GATv2 layers."""
    return pyg.GAT(*sizes, v2=True, **named)


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GAT, attend, pyg.GraphSAGE, Classifier], ids=lambda kind: kind.__name__)
def test_explanations_and_their_numbers_are_those_of_the_processor(device, data, kind):
    here = make(kind)
    there, elsewhere = copy.deepcopy(here).to(device), data.clone().to(device)
    config = {**NODE, "task_level": "graph"} if kind is Classifier else NODE
    index = None if kind is Classifier else 3
    for algorithm in METHODS:
        if kind is Classifier and isinstance(algorithm, gf.SubgraphX):
            continue  # which explains nodes
        found = []
        for model, graph in ((here, data), (there, elsewhere)):
            explainer = Explainer(model, algorithm, "model", config, "attributes", "object")
            explanation = explainer(graph.x, graph.edge_index, index=index)
            moved = "U(X,0.2r)" if "X" in str(getattr(algorithm, "neighborhood", "")) else "U(A,0.5)"
            number = gf.general_unfaithfulness(explainer, explanation, moved, num_samples=20, seed=1)
            found.append((explanation, number))
        (own, right), (explanation, number) = found
        for name in ("node_mask", "edge_mask", "self_loop_score"):
            assert explanation[name].device == device, algorithm
            # PyG draws the masks that GNNExplainer learns in single precision.
            torch.testing.assert_close(explanation[name].cpu(), own[name], rtol=1e-5, atol=1e-7, msg=str(algorithm))
        assert number.relative == pytest.approx(right.relative, rel=1e-5, abs=1e-9), algorithm
        assert home_of(there) == device
        assert "</html>" in gf.page([explanation])


def test_pgexplainer_trains_where_the_model_lives(device, data):
    there, elsewhere = make(pyg.GCN).to(device), data.clone().to(device)
    explainer = Explainer(there, gf.PGExplainer(epochs=2), "model", NODE, None, "object")
    explanation = explainer(elsewhere.x, elsewhere.edge_index, index=3)
    assert explanation.edge_mask.device == device
    assert gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=20).relative >= 0


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GAT], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("algorithm", [METHODS[0], METHODS[2]], ids=lambda algorithm: algorithm.method)
def test_many_nodes_together(device, data, kind, algorithm):
    here = make(kind)
    there, elsewhere = copy.deepcopy(here).to(device), data.clone().to(device)
    found = []
    for model, graph in ((here, data), (there, elsewhere)):
        explainer = Explainer(model, algorithm, "model", NODE, "attributes", "object")
        found.append(gf.explain_all(explainer, graph.x, graph.edge_index, progress=False))
    np.testing.assert_allclose(found[1].score, found[0].score, rtol=1e-6, atol=1e-9)
    explanations = gf.explain_nodes(explainer, elsewhere.x, elsewhere.edge_index, progress=False, together=True)
    assert next(explanations).edge_mask.device == device


def test_the_facade_from_explanation_to_file(device, data, tmp_path):
    there, elsewhere = make(pyg.GCN).to(device), data.clone().to(device)
    explanation = gf.explain(there, elsewhere, 3, samples=60, test_samples=40)
    source, sink = data.edge_index[:, 0].tolist()
    answer = explanation.what_if(remove=[(source, sink)], check=True)
    assert answer.actual is not None
    assert explanation.reading("slope").edge_mask.device == device
    gf.figure([explanation], tmp_path / "one.png")
    # A tensor of a real device is no subclass of torch's, which a file refuses, so that this one is moved first.
    gf.save(copy.copy(explanation).cpu(), tmp_path / "one.safetensors")
    loaded = gf.load(tmp_path / "one.safetensors")
    torch.testing.assert_close(loaded.edge_mask, explanation.edge_mask.cpu())
    compared = gf.compare(there, elsewhere, [3, 4], methods=["kec", "saliency"], samples=20, test_samples=20)
    assert "saliency" in str(compared).lower()


def test_explainers_are_judged_there(device, data):
    here = make(pyg.GCN)
    there, elsewhere = copy.deepcopy(here).to(device), data.clone().to(device)
    methods = ["kec", "saliency", "pyg-gnnexplainer", "captum-saliency", "pyg-dummy"]
    asked = {
        "measures": ["delta", "fidelity+", "sufficiency", "stability-noise", "infidelity", "roc-auc"],
        "samples": 20,
    }
    asked |= {"test_samples": 20, "draws": 10, "repeats": 1, "neighborhoods": ["U(A,0.5)"]}
    truth = torch.arange(data.num_edges) % 2
    right = gf.judge(here, data, methods, [3, 4], truth=gf.metric.Truth(edges=truth), **asked)
    found = gf.judge(there, elsewhere, methods, [3, 4], truth=gf.metric.Truth(edges=truth.to(device)), **asked)
    assert [row.errors for row in found] == [row.errors for row in right]
    for row, own in zip(found, right, strict=True):
        assert row.value == pytest.approx(own.value, rel=1e-4, abs=1e-6, nan_ok=True), (row.method, row.measure)


def count_transfers(action):
    before = dict(toy_device.transfers)
    action()
    return {way: toy_device.transfers[way] - before[way] for way in before}


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GAT, Classifier], ids=lambda kind: kind.__name__)
def test_samples_are_sent_in_one_transfer_a_chunk_and_what_they_share_is_sent_once(device, data, kind):
    there, elsewhere = make(kind).to(device), data.clone().to(device)
    level = {"level": "graph"} if kind is Classifier else {}
    target = gf.Target(there, elsewhere.x, elsewhere.edge_index, None if level else 3, **level)
    for near in ("U(A,0.5)", "U(X,0.2r)"):
        for size in (10, 200):
            samples = gf.parse_neighborhood(near).sample(target.computation_graph, size)
            target.changes(samples)
            counted = count_transfers(lambda samples=samples: target.changes(samples))
            assert counted == {"to": 1, "from": 1}, (near, size)
    if kind is pyg.GAT:  # Copies of a graph that lack edges have edges of their own, but the same features.
        samples = gf.BernoulliEdges(0.5).sample(target.computation_graph, 50)
        target.changes(samples)
        sent = []
        original = toy_device._copy

        def note(func, args, kwargs):
            sent.append(tuple(args[0].shape))
            return original(func, args, kwargs)

        toy_device._copy = note
        try:
            target.changes(samples)
        finally:
            toy_device._copy = original
        assert sent
        assert not any(len(shape) == 2 and shape[1] == FEATURES for shape in sent), sent


def test_chunks_fit_into_the_free_memory_of_the_device(device, data):
    there, elsewhere = make(pyg.GCN).to(device), data.clone().to(device)
    target = gf.Target(there, elsewhere.x, elsewhere.edge_index, 3)
    assert free_memory(device) == toy_device.free
    assert target.room(0, 1, "F") == 8 * CHUNK_BYTES  # a quarter of 4 GB is more
    toy_device.free = 2**24
    try:
        assert target.room(0, 1, "F") == 2**22
        assert chunk_bytes(torch.device("cpu")) == CHUNK_BYTES
    finally:
        toy_device.free = 4 * 2**30


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GAT, Classifier], ids=lambda kind: kind.__name__)
def test_a_device_without_double_precision(device, data, kind):
    here = make(kind).float()
    single = data.clone()
    single.x = single.x.float()
    there, elsewhere = copy.deepcopy(here).to(device), single.clone().to(device)
    index = None if kind is Classifier else 3
    config = {**NODE, "task_level": "graph"} if kind is Classifier else NODE
    toy_device.has_double = False
    try:
        with pytest.raises(TypeError, match="no float64"):
            torch.zeros(2, dtype=torch.float64).to(device)
        for algorithm in METHODS[:9]:
            found = []
            for model, graph in ((here, single), (there, elsewhere)):
                explainer = Explainer(model, algorithm, "model", config, "attributes", "object")
                explanation = explainer(graph.x, graph.edge_index, index=index)
                moved = "U(X,0.2r)" if "X" in str(getattr(algorithm, "neighborhood", "")) else "U(A,0.5)"
                number = gf.general_unfaithfulness(explainer, explanation, moved, num_samples=20, seed=1)
                found.append((explanation, number))
            (own, right), (explanation, number) = found
            assert explanation.edge_mask.dtype == torch.float32
            assert number.relative == pytest.approx(right.relative, rel=0.05, abs=2e-3), algorithm
            torch.testing.assert_close(explanation.edge_mask.cpu(), own.edge_mask, rtol=0.05, atol=2e-3)
        if kind is pyg.GCN:
            explainer = Explainer(there, METHODS[0], "model", NODE, "attributes", "object")
            assert len(gf.explain_all(explainer, elsewhere.x, elsewhere.edge_index, progress=False)) == NODES
            asked = {"measures": ["delta"], "samples": 20, "test_samples": 20, "neighborhoods": ["U(A,0.5)"]}
            verdict = gf.judge(there, elsewhere, ["kec", "pyg-gnnexplainer", "captum-saliency"], [3], **asked)
            assert not any(row.errors for row in verdict)
    finally:
        toy_device.has_double = True


class Bonds(torch.nn.Module):
    """A model that is given attributes of edges."""

    def __init__(self):
        super().__init__()
        self.conv = pyg.GINEConv(torch.nn.Linear(FEATURES, 6), edge_dim=2)
        self.out = torch.nn.Linear(6, CLASSES)

    def forward(self, x, edge_index, edge_attr):
        return self.out(self.conv(x, edge_index, edge_attr).tanh())


@pytest.fixture
def no_double(device):
    toy_device.has_double = False
    yield device
    toy_device.has_double = True


def alike(there, here, *, within=0.05):
    """Both compute F in single precision, and add in another order."""
    assert there.dtype == torch.float32
    torch.testing.assert_close(there.cpu(), here, rtol=within, atol=2e-3)


@pytest.mark.parametrize("layers", ["sage", "weighted", "hgt"])
def test_types_on_a_device_without_double_precision(no_double, layers):
    here, given = typed_toys.make(layers), typed_toys.graph()
    there = copy.deepcopy(here).to(no_double)
    away = [{name: value.to(no_double) for name, value in part.items()} for part in given]
    for algorithm in (METHODS[0], METHODS[2], METHODS[3], METHODS[4], METHODS[6]):
        found = []
        for model, parts in ((here, given), (there, away)):
            explainer = Explainer(model, algorithm, "model", NODE, "attributes", "object")
            explanation = explainer(*parts, index=5)
            moved = "U(X,0.2r)" if "X" in str(getattr(algorithm, "neighborhood", "")) else "U(A,0.5)"
            number = gf.general_unfaithfulness(explainer, explanation, moved, num_samples=20, seed=1)
            found.append((explanation, number))
        (own, right), (explanation, number) = found
        for kind in typed_toys.TYPES:
            assert explanation[kind].edge_mask.device == no_double
            alike(explanation[kind].edge_mask, own[kind].edge_mask)
        assert number.relative == pytest.approx(right.relative, rel=0.05, abs=2e-3), algorithm


def test_edge_attributes_on_a_device_without_double_precision(no_double, data):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Bonds().eval()
    graph = Data(x=data.x.float(), edge_index=data.edge_index)
    graph.edge_attr = torch.rand(data.num_edges, 2, generator=torch.Generator().manual_seed(3))
    there, elsewhere = copy.deepcopy(here).to(no_double), graph.clone().to(no_double)
    for method in ("anchored-kec", "linear", "saliency", "ig-zero"):
        asked = {"method": method, "neighborhood": "U(E,0.2r)xU(A,0.5)", "samples": 100, "test_samples": 20}
        own, found = gf.explain(here, graph, 3, **asked), gf.explain(there, elsewhere, 3, **asked)
        alike(found.edge_attr_score, own.edge_attr_score)
        alike(found.edge_mask, own.edge_mask)
        assert found.unfaithfulness.relative == pytest.approx(own.unfaithfulness.relative, rel=0.05, abs=2e-3)


def test_categories_on_a_device_without_double_precision(no_double, data):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Windows(categories=True).eval()
    x = torch.randint(0, 4, (NODES, 3), generator=torch.Generator().manual_seed(2))
    graph = Data(x=x, edge_index=data.edge_index)
    there, elsewhere = copy.deepcopy(here).to(no_double), graph.clone().to(no_double)
    for near in ("U(A,0.5)", "B(X,0.5)xU(A,0.5)"):
        asked = {"neighborhood": near, "samples": 100, "test_samples": 20}
        own, found = gf.explain(here, graph, 3, **asked), gf.explain(there, elsewhere, 3, **asked)
        alike(found.edge_mask, own.edge_mask)
        alike(found.node_mask, own.node_mask)


class Windows(torch.nn.Module):
    """A model of features [nodes, steps, channels], or of ids of categories."""

    def __init__(self, categories):
        super().__init__()
        self.table = torch.nn.Embedding(4, 6) if categories else torch.nn.Linear(6, 6)
        self.conv = pyg.GCNConv(6, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        x = self.table(x).mean(dim=1) if x.dtype == torch.int64 else self.table(x.flatten(1))
        return self.conv(x.tanh(), edge_index, edge_weight)


@pytest.mark.parametrize("categories", [False, True], ids=["windows", "categories"])
def test_features_of_another_form_there(device, data, categories):
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(0, 4, (NODES, 3), generator=generator)
    x = x if categories else torch.randn(NODES, 3, 2, generator=generator).double()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Windows(categories).double().eval()
    graph = Data(x=x, edge_index=data.edge_index)
    there, elsewhere = copy.deepcopy(here).to(device), graph.clone().to(device)
    for near in ("U(A,0.5)", "B(X,0.5)xU(A,0.5)"):
        own, found = (
            gf.explain(model, one, 3, neighborhood=near, samples=100, test_samples=20)
            for model, one in ((here, graph), (there, elsewhere))
        )
        assert found.node_mask.device == device
        torch.testing.assert_close(found.node_mask.cpu(), own.node_mask, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(found.edge_mask.cpu(), own.edge_mask, rtol=1e-5, atol=1e-7)
    if not categories:
        explanation = gf.explain(there, elsewhere, 3, method="gnnexplainer", test_samples=20)
        assert explanation.node_mask.device == device


@pytest.mark.parametrize("layers", ["sage", "weighted", "hgt"])
def test_graphs_of_several_types_there(device, layers):
    here, (x, edges) = typed_toys.make(layers, torch.float64), typed_toys.graph(torch.float64)
    there = copy.deepcopy(here).to(device)
    away = [{name: value.to(device) for name, value in given.items()} for given in (x, edges)]
    methods = METHODS[0], METHODS[2], METHODS[4], *METHODS[5:9], gf.PGExplainer(epochs=1)
    chosen = {"sage": methods, "weighted": methods[:2], "hgt": (*methods[:5], METHODS[3])}[layers]
    for algorithm in chosen:  # PyG cannot mask HGTConv.
        found = []
        for model, given in ((here, (x, edges)), (there, away)):
            nodes = None if isinstance(algorithm, gf.PGExplainer) else "attributes"
            explainer = Explainer(model, algorithm, "model", NODE, nodes, "object")
            explanation = explainer(*given, index=5)
            moved = "U(X,0.2r)" if "X" in str(getattr(algorithm, "neighborhood", "")) else "U(A,0.5)"
            number = gf.general_unfaithfulness(explainer, explanation, moved, num_samples=20, seed=1)
            found.append((explanation, number))
        (own, right), (explanation, number) = found
        for kind in typed_toys.TYPES:
            assert explanation[kind].edge_mask.device == device, algorithm
            torch.testing.assert_close(
                explanation[kind].edge_mask.cpu(), own[kind].edge_mask, rtol=1e-5, atol=1e-7, msg=str(algorithm)
            )
        assert number.relative == pytest.approx(right.relative, rel=1e-5, abs=1e-9), algorithm
        assert "</html>" in gf.page([explanation])
        if algorithm is METHODS[2]:
            assert explanation.what_if([explanation.top_edges(1)[0][:3]], check=True).actual is not None
            parts = [one.name(nodes={}).get_explanation_subgraph() for one in (own, explanation)]
            assert parts[1].node_names == parts[0].node_names
            assert parts[1].index.tolist() == parts[0].index.tolist()
            assert len(parts[1].top_edges(5)) == 5
    with pytest.raises(gf.InputError, match=r"the model is on cpu and x\['paper'\] on toy:0: move both to one device"):
        gf.explain(here, typed_toys.as_data(*away), 5)
    with pytest.raises(gf.InputError, match=r"toy:0 and edge_index\[\('paper', 'cites', 'paper'\)\] on cpu"):
        Explainer(there, METHODS[0], "model", NODE, "attributes", "object")(away[0], edges, index=5)


@pytest.mark.parametrize("conv", [pyg.RGCNConv, pyg.FastRGCNConv])
def test_relations_in_one_graph_there(device, data, conv):
    class Relational(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv(FEATURES, CLASSES, 2)

        def forward(self, x, edge_index, edge_type):
            return self.conv(x, edge_index, edge_type)

    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Relational().double().eval()
    graph = data.clone()
    graph.edge_type = torch.arange(data.num_edges) % 2
    there, elsewhere = copy.deepcopy(here).to(device), graph.clone().to(device)
    for near in ("U(A,0.5)", "B(A,0.5)"):
        asked = {"method": "kec", "neighborhood": near, "samples": 20, "test_samples": 20}
        own, found = gf.explain(here, graph, 3, **asked), gf.explain(there, elsewhere, 3, **asked)
        assert found.edge_mask.device == device
        torch.testing.assert_close(found.edge_mask.cpu(), own.edge_mask, rtol=1e-5, atol=1e-7)
        assert found.unfaithfulness.relative == pytest.approx(own.unfaithfulness.relative, rel=1e-5, abs=1e-9)


def test_edge_attributes_there(device, data):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Bonds().double().eval()
    graph = data.clone()
    graph.edge_attr = torch.rand(data.num_edges, 2, generator=torch.Generator().manual_seed(3)).double()
    there, elsewhere = copy.deepcopy(here).to(device), graph.clone().to(device)
    for method in ("anchored-kec", "linear", "saliency", "ig-zero"):
        asked = {"method": method, "neighborhood": "U(E,0.2r)xU(A,0.5)", "samples": 100, "test_samples": 20}
        own, found = gf.explain(here, graph, 3, **asked), gf.explain(there, elsewhere, 3, **asked)
        assert found.edge_attr_score.device == device
        torch.testing.assert_close(found.edge_attr_score.cpu(), own.edge_attr_score, rtol=1e-5, atol=1e-7)
        assert found.unfaithfulness.relative == pytest.approx(own.unfaithfulness.relative, rel=1e-5, abs=1e-9)
        assert gf.top_attributes(found, 1)[0][:3] == gf.top_attributes(own, 1)[0][:3]
        assert "</html>" in gf.page([found])


def test_edge_attributes_by_type_there(device):
    class Bonds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            convs = {
                kind: pyg.SAGEConv(tuple(typed_toys.SIZES[end][1] for end in kind[::2]), 4)
                for kind in typed_toys.TYPES[1:]
            }
            width = typed_toys.SIZES["paper"][1]
            self.convs = pyg.HeteroConv(
                {typed_toys.TYPES[0]: pyg.GINEConv(torch.nn.Linear(width, 4), edge_dim=2), **convs}
            )
            self.out = torch.nn.Linear(4, CLASSES)

        def forward(self, x_dict, edge_index_dict, edge_attr_dict):
            hidden = self.convs(x_dict, edge_index_dict, edge_attr_dict=edge_attr_dict)
            return self.out(hidden["paper"].tanh())

    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Bonds().double().eval()
    graph = typed_toys.as_data(*typed_toys.graph(torch.float64))
    count, generator = graph[typed_toys.TYPES[0]].edge_index.size(1), torch.Generator().manual_seed(3)
    graph[typed_toys.TYPES[0]].edge_attr = torch.rand(count, 2, generator=generator).double()
    there, elsewhere = copy.deepcopy(here).to(device), graph.clone().to(device)
    for method in ("anchored-kec", "linear", "saliency", "gnnexplainer-soft"):
        asked = {"method": method, "neighborhood": "U(E,0.2r)xU(A,0.5)", "samples": 60, "test_samples": 20}
        own, found = gf.explain(here, graph, 5, **asked), gf.explain(there, elsewhere, 5, **asked)
        assert found.unfaithfulness.relative == pytest.approx(own.unfaithfulness.relative, rel=1e-5, abs=1e-9)
        if method != "gnnexplainer-soft":
            scores = found[typed_toys.TYPES[0]].edge_attr_score
            assert scores.device == device
            torch.testing.assert_close(scores.cpu(), own[typed_toys.TYPES[0]].edge_attr_score, rtol=1e-5, atol=1e-7)
            assert found.top_attributes(1)[0][:4] == own.top_attributes(1)[0][:4]


def test_a_model_of_data_with_several_outputs_there(device, data):
    class OfData(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make(pyg.GAT)

        def forward(self, data):
            out = self.inner(data.x, data.edge_index)
            return out, out.softmax(dim=-1)

    here = OfData().eval()
    there, elsewhere = copy.deepcopy(here).to(device), data.clone().to(device)
    own, found = (
        gf.explain(gf.adapt(model, takes="data", output=0), graph, 3, samples=60, test_samples=20)
        for model, graph in ((here, data), (there, elsewhere))
    )
    assert found.edge_mask.device == device
    torch.testing.assert_close(found.edge_mask.cpu(), own.edge_mask, rtol=1e-5, atol=1e-7)


class Product(torch.nn.Module):
    """A model that multiplies with the matrix of a graph."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(FEATURES, CLASSES)

    def forward(self, x, adj_t):
        return adj_t @ (adj_t @ self.lin(x)).tanh()


def test_a_model_that_takes_a_matrix_there(device, data):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        here = Product().double().eval()
    there, elsewhere = copy.deepcopy(here).to(device), data.clone().to(device)
    for method in ("anchored-kec", "saliency"):
        asked = {"method": method, "samples": 60, "test_samples": 20, "num_hops": 2}
        own, found = (
            gf.explain(gf.adapt(model, takes="adjacency", layout=torch.sparse_coo), graph, 3, **asked)
            for model, graph in ((here, data), (there, elsewhere))
        )
        assert found.edge_mask.device == device
        torch.testing.assert_close(found.edge_mask.cpu(), own.edge_mask, rtol=1e-5, atol=1e-7)


def test_a_packed_graph_with_a_model_there(device, data, tmp_path):
    here = make(pyg.GCN)
    packed = gf.pack_graph(data, tmp_path / "packed")
    there = copy.deepcopy(here).to(device)
    for algorithm in (METHODS[0], METHODS[2], METHODS[6]):
        own, found = (
            gf.explain_all(Explainer(model, algorithm, "model", NODE, None, "object"), packed, progress=False)
            for model in (here, there)
        )
        np.testing.assert_allclose(found.score, own.score, rtol=1e-6, atol=1e-9)


def test_data_sets_commands_and_the_live_view_take_a_device(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_dataset("ba-shapes", device="toy:0").x.device == device
    with pytest.raises(gf.InputError, match="cannot use the device 'nowhere' here"):
        load_dataset("ba-shapes", device="nowhere")
    fit = load_trained("ba-shapes", device=device)
    assert home_of(fit.model) == fit.data.x.device == device
    runner, given = CliRunner(), ["--samples", "20", "--test-samples", "20"]
    shared = ["--dataset", "ba-shapes", "--method", "kec", *given]
    for arguments in (
        ["explain", "--node", "400", *shared, "--json", "there.json", "--device", "toy:0"],
        ["explain", "--node", "400", *shared, "--json", "here.json"],
        ["score", "--nodes", "400", *shared, "--device", "toy:0"],
        ["judge", "--nodes", "400", *shared, "--measure", "roc-auc", "--device", "toy:0"],
    ):
        done = runner.invoke(application, arguments)
        assert done.exit_code == 0, (done.output, done.exception)
    there, here = (json.loads((tmp_path / name).read_text())[0] for name in ("there.json", "here.json"))
    assert there["relative"] == pytest.approx(here["relative"], rel=1e-3)
    done = runner.invoke(application, ["explain", "--node", "400", *shared, "--device", "nowhere"])
    assert done.exit_code != 0
    assert "cannot use the device" in done.output + str(done.exception)
    subject = Subject(fit.model.to("cpu"), fit.data.to("cpu")).to(device)
    desk = Desk(subject, "ba-shapes", samples=20, test_samples=20)
    assert b'"index":400' in desk.page(desk.ask(400, ["kec"], "U(A,0.5)"))


def test_batch_runs_take_a_device(device):
    # The oldest versions that are tested have an older numpy than pyarrow wants.
    pytest.importorskip("pyarrow", exc_type=ImportError)
    job = gf.ManyJob("ba-shapes", method="kec", samples=20, device="toy:0")
    assert home_of(job.open().explainer.model) == device
    assert "device" not in job.settings()
    here, there = (one.table([400, 401]).column("edges").to_pylist() for one in (replace(job, device=None), job))
    assert [edge["source"] for edge in there[0][:5]] == [edge["source"] for edge in here[0][:5]]


def test_an_index_that_is_there(device, data):
    there, elsewhere = make(pyg.GCN).to(device), data.clone().to(device)
    explainer = Explainer(there, gf.Saliency(), "model", NODE, "attributes", "object")
    by_number = explainer(elsewhere.x, elsewhere.edge_index, index=3)
    by_tensor = explainer(elsewhere.x, elsewhere.edge_index, index=torch.tensor([3]).to(device))
    torch.testing.assert_close(by_tensor.edge_mask.cpu(), by_number.edge_mask.cpu())


def test_two_devices_are_refused_in_one_line(device, data):
    here = make(pyg.GCN)
    with pytest.raises(gf.InputError, match=r"the model is on cpu and x on toy:0: move both to one device"):
        gf.explain(here, data.clone().to(device), 3)
    there = copy.deepcopy(here).to(device)
    explainer = Explainer(there, gf.KEC("U(A,0.5)"), "model", NODE, "attributes", "object")
    with pytest.raises(gf.InputError, match=r"the model is on toy:0 and x on cpu"):
        explainer(data.x, data.edge_index, index=3)
    with pytest.raises(gf.InputError, match=r"toy:0 and edge_index on cpu"):
        explainer(data.x.to(device), data.edge_index, index=3)
    there.convs[1].to("cpu")
    with pytest.raises(gf.InputError, match=r"the model is on cpu and toy:0"):
        explainer(data.x.to(device), data.edge_index.to(device), index=3)
