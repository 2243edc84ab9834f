"""Models and graphs on another device than the processor: one that is made of Python code, see toy_device.py.

These tests have a process of their own (tests/model/test_home.py): autograd counts the devices when it first goes
backwards, so that this one has to be registered before.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

import graphfaith as gf
import toy_device
from graphfaith.model.home import home_of

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
    asked = {"measures": ["delta", "fidelity+", "sufficiency", "stability-noise", "infidelity"], "samples": 20}
    asked |= {"test_samples": 20, "draws": 10, "repeats": 1, "neighborhoods": ["U(A,0.5)"]}
    right = gf.judge(here, data, methods, [3, 4], **asked)
    found = gf.judge(there, elsewhere, methods, [3, 4], **asked)
    assert [row.errors for row in found] == [row.errors for row in right]
    for row, own in zip(found, right, strict=True):
        assert row.value == pytest.approx(own.value, rel=1e-4, abs=1e-6, nan_ok=True), (row.method, row.measure)


def test_samples_are_sent_in_one_transfer_a_chunk(device, data):
    there, elsewhere = make(pyg.GCN).to(device), data.clone().to(device)
    target = gf.Target(there, elsewhere.x, elsewhere.edge_index, 3)
    counts = []
    for size in (10, 200):
        samples = gf.UniformEdges(0.5).sample(target.computation_graph, size)
        target.changes(samples)
        before = dict(toy_device.transfers)
        target.changes(samples)
        counts.append({way: toy_device.transfers[way] - before[way] for way in before})
    assert counts[0] == counts[1]


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
