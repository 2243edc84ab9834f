"""Models behind an adapter: that take a graph or an adjacency matrix, or return several outputs; compiled models."""

from __future__ import annotations

import copy
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT, GCN, GCNConv

import graphfaith as gf
from graphfaith.model.stance import run_as_written

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support", "ignore:Sparse invariant checks")
NODES = 12
NODE = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class Outputs(NamedTuple):
    raw: Tensor
    hidden: Tensor


class OfData(torch.nn.Module):
    """A model of a whole graph that returns several outputs."""

    def __init__(self, kind=GCN, form=tuple, reads_position=False):
        super().__init__()
        self.inner, self.form, self.reads_position = kind(3, 5, 2, out_channels=3), form, reads_position

    def forward(self, data):
        more = {"edge_weight": data.edge_weight} if isinstance(self.inner, GCN) else {}
        x = data.x + data.pos if self.reads_position else data.x
        out = self.inner(x, data.edge_index, **more)
        if self.form is dict:
            return {"hidden": out.sin(), "raw": out}
        return Outputs(out, out.sin()) if self.form is Outputs else (out.sin(), out)


class Matrix(torch.nn.Module):
    """A model that multiplies with the adjacency matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)

    def forward(self, x, adj_t):
        return self.second(adj_t @ (adj_t @ self.first(x)).tanh())


class Edges(Matrix):
    """The same by sums over edges."""

    def gather(self, x, edge_index, edge_weight):
        return torch.zeros_like(x).index_add(0, edge_index[1], edge_weight.view(-1, 1) * x[edge_index[0]])

    def forward(self, x, edge_index, edge_weight=None):
        weight = x.new_ones(edge_index.size(1)) if edge_weight is None else edge_weight
        return self.second(self.gather(self.gather(self.first(x), edge_index, weight).tanh(), edge_index, weight))


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().double().eval()


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randint(0, NODES, (2, 26), generator=generator)
    edges = torch.unique(drawn[:, drawn[0] != drawn[1]], dim=1)
    x, pos = torch.randn(2, NODES, 3, generator=generator).double()
    return Data(x=x, edge_index=edges, pos=pos)


@pytest.mark.parametrize("kind", [GCN, GAT], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("form", "output"), [(tuple, 1), (Outputs, "raw"), (dict, "raw"), (tuple, lambda out: out[1])])
def test_a_model_of_data_with_several_outputs_is_explained_as_its_inner_one(data, kind, form, output):
    model = seeded(lambda: OfData(kind, form))
    adapted = gf.adapt(model, takes="data", output=output)
    near = "U(A,0.5)" if kind is GCN else "B(A,0.5)"
    own, right = (
        gf.explain(one, data, 3, method="kec", neighborhood=near, samples=20, test_samples=20)
        for one in (adapted, model.inner)
    )
    assert own.edge_route == right.edge_route == ("weight" if kind is GCN else "removal")
    torch.testing.assert_close(own.edge_mask, right.edge_mask)
    torch.testing.assert_close(own.node_mask, right.node_mask)
    assert own.unfaithfulness.relative == pytest.approx(right.unfaithfulness.relative)


def test_fields_of_a_graph_that_a_model_reads(data):
    model = seeded(lambda: OfData(reads_position=True))
    adapted = gf.adapt(model, takes="data", output=1, fields=("pos",))
    found = gf.explain(adapted, data, 3, method="saliency", test_samples=20)
    moved = Data(x=data.x + data.pos, edge_index=data.edge_index)
    right = gf.explain(model.inner, moved, 3, method="saliency", test_samples=20)
    torch.testing.assert_close(found.edge_mask, right.edge_mask)
    with pytest.raises(gf.ModelError, match="reads the field 'pos', which the graph does not have"):
        gf.explain(adapted, Data(x=data.x, edge_index=data.edge_index), 3)


def test_one_of_several_outputs_of_a_model_of_tensors(data):
    class Both(GCN):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            return out, out.exp()

    model = seeded(lambda: Both(3, 5, 2, out_channels=3))
    plain = copy.deepcopy(model)
    plain.__class__ = GCN
    explanations = [gf.explain(one, data, 3, method="saliency") for one in (gf.adapt(model, output=0), plain)]
    torch.testing.assert_close(explanations[0].edge_mask, explanations[1].edge_mask)
    other = gf.explain(gf.adapt(model, output=1), data, 3, method="saliency", mode="multiclass_classification")
    assert not torch.allclose(other.edge_mask, explanations[0].edge_mask)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo], ids=str)
def test_a_model_that_multiplies_with_the_adjacency_is_explained_on_its_entries(data, layout):
    adapted = gf.adapt(seeded(Matrix), takes="adjacency", layout=layout)
    found = gf.explain(adapted, data, 3, num_hops=2, samples=100, test_samples=20)
    right = gf.explain(seeded(Edges), data, 3, num_hops=2, samples=100, test_samples=20)
    assert found.edge_route == "weight"
    torch.testing.assert_close(found.edge_mask, right.edge_mask, rtol=1e-5, atol=1e-8)


def test_convolutions_that_are_given_a_matrix(data):
    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(3, 4), GCNConv(4, 3)

        def forward(self, x, adj_t):
            assert adj_t.layout == torch.sparse_csr
            return self.second(self.first(x, adj_t).tanh(), adj_t)

    adapted = gf.adapt(seeded(Convolutions), takes="adjacency")
    target = gf.Target(adapted, data.x, data.edge_index, 3)
    samples = gf.UniformEdges(0.5).sample(target.computation_graph, 5)
    with torch.no_grad():
        alone = torch.stack([target(weight=weight) for weight in samples.weight])
    torch.testing.assert_close(target.value - target.changes(samples), alone)


def test_a_graph_that_has_a_matrix_in_place_of_edges(data):
    weight = torch.linspace(0.2, 1.5, data.num_edges).double()
    adj_t = torch.sparse_coo_tensor(data.edge_index.flip(0), weight, (NODES, NODES)).coalesce()
    model = seeded(lambda: GCN(3, 5, 2, out_channels=3))
    right = gf.explain(
        model, Data(x=data.x, edge_index=data.edge_index, edge_weight=weight), 3, method="saliency", test_samples=20
    )

    def by_ends(explanation):
        ends = zip(*explanation.edge_index.tolist(), strict=True)
        return dict(zip(ends, explanation.edge_mask.tolist(), strict=True))

    class Coordinates:  # as torch_sparse's SparseTensor, which is not there for this version of torch
        def coo(self):
            return *adj_t.indices(), adj_t.values()

    for matrix in (adj_t, adj_t.to_sparse_csr(), adj_t.to_sparse_csc(), Coordinates()):
        found = gf.explain(model, Data(x=data.x, adj_t=matrix), 3, method="saliency", test_samples=20)
        assert by_ends(found) == pytest.approx(by_ends(right))
    ones = torch.sparse_coo_tensor(adj_t.indices(), torch.ones_like(weight), adj_t.shape)
    explanation = gf.explain(seeded(lambda: GAT(3, 5, 2, out_channels=3)), Data(x=data.x, adj_t=ones), 3)
    assert explanation.edge_route == "removal"  # a model without weights takes no values of 1


def test_what_needs_an_adapter_is_told_so_in_one_line(data):
    explainer = Explainer(seeded(OfData), gf.KEC("U(A,0.5)"), "model", NODE, "attributes", "object")
    line = r'OfData.forward takes \'data\' alone: explain graphfaith.adapt\(model, takes="data"\) instead'
    with pytest.raises(gf.UnsupportedError, match=line):
        explainer(data.x, data.edge_index, index=3)
    with pytest.raises(gf.UnsupportedError, match=line):
        gf.explain(seeded(OfData), data, 3)
    assert not explainer.algorithm.supports(explainer.model)
    adj_t = torch.sparse_coo_tensor(data.edge_index, torch.ones(data.num_edges), (NODES, NODES)).to_sparse_csr()
    explainer = Explainer(seeded(Matrix), gf.KEC("U(A,0.5)", num_hops=2), "model", NODE, "attributes", "object")
    with pytest.raises(gf.UnsupportedError, match=r"this is a sparse matrix \(sparse_csr\): pass edge_index, edge_wei"):
        explainer(data.x, adj_t, index=3)
    with pytest.raises(gf.UnsupportedError, match=r"one tensor \(got tuple\): explain graphfaith.adapt\(model, output"):
        gf.explain(gf.adapt(seeded(OfData), takes="data"), data, 3)
    with pytest.raises(gf.ModelError, match="returns 2 outputs: output= must be 0 to 1"):
        gf.explain(gf.adapt(seeded(OfData), takes="data", output=2), data, 3)
    with pytest.raises(gf.ModelError, match="returns no output 'logits': there are hidden, raw"):
        gf.explain(gf.adapt(seeded(lambda: OfData(form=dict)), takes="data", output="logits"), data, 3)
    for wrong in ({"takes": "graph"}, {"output": 1.5}, {"fields": ("pos",)}, {"layout": torch.strided}):
        with pytest.raises(gf.InputError):
            gf.adapt(seeded(OfData), **wrong)
    for fields in ("pos", (3,)):
        with pytest.raises(gf.InputError, match="fields must be names of tensors"):
            gf.adapt(seeded(OfData), takes="data", fields=fields)
    for matrix in (torch.eye(3), torch.ones(2, 3).to_sparse()):
        with pytest.raises(gf.InputError, match="a sparse matrix"):
            gf.edges_of(matrix)
    with pytest.raises(gf.UnsupportedError, match=r"\(got dict\): explain graphfaith.adapt\(model, output='hidden'\)"):
        gf.explain(gf.adapt(seeded(lambda: OfData(form=dict)), takes="data"), data, 3)
    with pytest.raises(
        gf.ModelError, match=r"edge_index for 'adj_t'.*explain graphfaith.adapt\(model, takes=\"adjacency"
    ):
        gf.explain(seeded(Matrix), data, 3, num_hops=2)
    for layout in (torch.sparse_csr, torch.sparse_csc):
        explainer = gf.explainer_for(seeded(lambda: GCN(3, 5, 2, out_channels=3)), data, method="kec")
        with pytest.raises(gf.UnsupportedError, match="pass edge_index, edge_weight"):
            gf.explain_all(explainer, data.x, adj_t.to_sparse_coo().double().to_sparse(layout=layout))


def test_pyg_cannot_mask_a_matrix_which_is_said(data):
    adapted = gf.adapt(seeded(Matrix), takes="adjacency")
    with pytest.raises(
        gf.UnsupportedError, match="GNNExplainer masks messages along edges, and this model takes a matr"
    ):
        gf.explain(adapted, data, 3, num_hops=2, method="gnnexplainer")
    assert not gf.PGExplainer().supports(adapted)
    assert gf.Saliency().supports(adapted)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torchscript_is_refused_in_one_line(data):
    scripted = torch.jit.script(seeded(lambda: torch.nn.Linear(3, 3)))
    with pytest.raises(gf.UnsupportedError, match="TorchScript does not allow: explain the model it was made of"):
        gf.explain(scripted, data, 3, num_hops=1)


def test_threads_leave_the_compiler_as_it_was():
    compiled = torch.compile(torch.nn.ReLU(), backend=lambda module, inputs: seen.append(module) or module.forward)
    seen, first, second = [], run_as_written(), run_as_written()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # A thread that came first may end first.
    compiled(torch.ones(2))
    assert not seen
    second.__exit__(None, None, None)
    compiled(torch.ones(2))
    assert seen


@pytest.mark.parametrize(("kind", "way"), [(GCN, "model"), (GAT, "in place"), (GAT, "layer")])
def test_compiled_models_are_run_through_their_original(data, kind, way):
    compiled = []

    def refuse(module, inputs):
        compiled.append(module)
        return module.forward

    plain = seeded(lambda: kind(3, 5, 2, out_channels=3))
    model = copy.deepcopy(plain)
    if way == "model":
        model = torch.compile(model, backend=refuse)
    elif way == "in place":
        model.compile(backend=refuse)
    else:
        model.act = torch.compile(model.act, backend=refuse)
    own, right = (gf.explain(one, data, 3, samples=100, test_samples=20) for one in (model, plain))
    assert not compiled
    assert torch.equal(own.edge_mask, right.edge_mask)
    assert torch.equal(own.node_mask, right.node_mask)
    assert own.unfaithfulness.relative == right.unfaithfulness.relative
    many = [
        list(gf.explain_nodes(gf.explainer_for(one, data, method="kec"), data.x, data.edge_index, [3, 4]))
        for one in (model, plain)
    ]
    assert all(torch.equal(a.edge_mask, b.edge_mask) for a, b in zip(*many, strict=True))
    assert not compiled
    with torch.no_grad():
        model(data.x, data.edge_index)
    assert compiled, "outside of an explanation the model is compiled as before"
