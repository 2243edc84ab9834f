"""Heterogeneous graphs in one line: other calls, sparse matrices, neighbourhoods as text, and what is refused."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch_geometric.data import Batch, HeteroData
from torch_geometric.explain import Explainer
from torch_geometric.nn import global_mean_pool

import graphfaith as gf
from graphfaith.facade.subject import Options
from graphfaith.facade.typed import TypedSubject
from typed_toys import CONFIG, SIZES, TYPES, as_data, graph, make

NODE = 5
FEW = {"samples": 60, "test_samples": 20, "method": "kec"}


class OfData(torch.nn.Module):
    """A model of a whole graph that returns two outputs; ``weighted`` says whether it reads the weights of edges."""

    def __init__(self, inner, *, weighted=False):
        super().__init__()
        self.inner, self.weighted = inner, weighted

    def forward(self, data):
        weights = data.collect("edge_weight", True) if self.weighted else None
        more = (weights,) if weights else ()
        out = self.inner(data.x_dict, data.edge_index_dict, *more)
        return out.sin(), out


def same(one, other):
    assert one.edge_route == other.edge_route
    for kind in TYPES:
        torch.testing.assert_close(one[kind].edge_mask, other[kind].edge_mask)
    assert one.unfaithfulness.value == pytest.approx(other.unfaithfulness.value)


@pytest.mark.parametrize("name", ["sage", "weighted"])
def test_a_model_of_hetero_data_is_explained_as_the_model_inside(name):
    data, inner = as_data(*graph()), make(name)
    adapted = gf.adapt(OfData(inner, weighted=name == "weighted"), takes="data", output=1)
    same(gf.explain(adapted, data, NODE, **FEW), gf.explain(inner, data, NODE, **FEW))
    with pytest.raises(gf.UnsupportedError, match=r"takes 'data' alone: explain graphfaith.adapt\(model, takes=.data"):
        gf.explain(OfData(inner), data, NODE)


def test_weights_and_fields_of_hetero_data_reach_the_model():
    data, inner = as_data(*graph()), make("weighted")
    generator = torch.Generator().manual_seed(0)
    for kind in TYPES:
        data[kind].edge_weight = torch.rand(data[kind].edge_index.size(1), generator=generator) + 0.5
    with torch.no_grad():
        wanted = inner(data.x_dict, data.edge_index_dict, data.edge_weight_dict)
    explanation = gf.explain(gf.adapt(OfData(inner, weighted=True), takes="data", output=1), data, NODE, **FEW)
    torch.testing.assert_close(explanation.prediction, wanted)
    assert explanation.edge_route == "weight"

    class Placed(OfData):
        def forward(self, data):
            return self.inner({name: x + data[name].pos for name, x in data.x_dict.items()}, data.edge_index_dict)

    data = as_data(*graph())
    for name, x in data.x_dict.items():
        data[name].pos = torch.full_like(x, 0.3)
    model = gf.adapt(Placed(inner), takes="data", fields=("pos",))
    with torch.no_grad():
        wanted = Placed(inner)(data)
    torch.testing.assert_close(gf.explain(model, data, NODE, **FEW).prediction, wanted)
    for name in data.node_types:
        del data[name].pos
    with pytest.raises(gf.ModelError, match="'pos', which the graph does not have"):
        gf.explain(model, data, NODE)


def with_matrices(data, weights=None):
    sparse = HeteroData()
    for name, x in data.x_dict.items():
        sparse[name].x = x
    for kind, ends in data.edge_index_dict.items():
        values = torch.ones(ends.size(1)) if weights is None else weights[kind]
        size = data[kind[2]].num_nodes, data[kind[0]].num_nodes
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            matrix = torch.sparse_coo_tensor(ends.flip(0), values, size, check_invariants=False)
            sparse[kind].adj_t = matrix.coalesce().to_sparse_csr()
    return sparse


def test_rectangular_matrices_are_edges_with_weights():
    data = as_data(*graph())
    sparse = with_matrices(data)
    explanation = gf.explain(make("sage"), sparse, NODE, **FEW)
    plain = gf.explain(make("sage"), data, NODE, **FEW)
    for kind in TYPES:  # The entries of a matrix are in the order of its rows.
        order = torch.argsort(data[kind].edge_index[1] * 1000 + data[kind].edge_index[0])
        assert torch.equal(explanation[kind].edge_index, data[kind].edge_index[:, order])
    torch.testing.assert_close(explanation.prediction, plain.prediction)
    assert "adj_t" in sparse[TYPES[0]]  # The user's graph is as it was.
    weights = {kind: torch.rand(ends.size(1)) + 0.5 for kind, ends in data.edge_index_dict.items()}
    explanation = gf.explain(make("weighted"), with_matrices(data, weights), NODE, **FEW)
    with torch.no_grad():
        wanted = make("weighted")(data.x_dict, data.edge_index_dict, weights)
    torch.testing.assert_close(explanation.prediction, wanted)
    with pytest.raises(gf.InputError, match="rectangular=True"):
        gf.edges_of(sparse[TYPES[1]].adj_t)


def test_matrices_in_place_of_edges_name_the_conversion():
    sparse = with_matrices(as_data(*graph()))
    model = make("sage")
    with pytest.raises(gf.UnsupportedError, match=r"graphfaith\.edges_of"):
        gf.Saliency().check_call(model, sparse.x_dict, sparse.adj_t_dict)


class Matrices(torch.nn.Module):
    """A model that multiplies with a matrix of each edge type."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.papers = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)

    def forward(self, x_dict, adj_t_dict):
        words = (adj_t_dict[TYPES[2]] @ self.papers(x_dict["paper"])).tanh() + x_dict["word"]
        return adj_t_dict[TYPES[1]] @ self.words(words)


def test_a_model_of_matrices_is_given_them_by_type():
    data = as_data(*graph())
    model = gf.adapt(Matrices(), takes="adjacency", layout=torch.sparse_coo)
    node = int(data[TYPES[1]].edge_index[1, 0])  # a paper with a word
    explanation = gf.explain(model, data, node, num_hops=2, **FEW)
    with torch.no_grad():
        wanted = Matrices()(data.x_dict, {kind: m.to_dense() for kind, m in with_matrices(data).adj_t_dict.items()})
    torch.testing.assert_close(explanation.prediction, wanted)
    assert bool(explanation[TYPES[2]].edge_mask.any())


def test_links_are_refused_with_the_way_out():
    data = as_data(*graph())
    for asked in ((0, 1), 0):
        with pytest.raises(gf.UnsupportedError, match="links of heterogeneous graphs"):
            gf.explain(make("sage"), data, edge=asked)


def test_removal_as_text_takes_both_entries_of_an_undirected_edge():
    x, ends = graph()
    data = as_data(x, ends)
    assert gf.explain(make("sage"), data, NODE, neighborhood="R(A,3)", **FEW).neighborhood == "R(A,3)"
    there = ends[TYPES[1]]
    both = {TYPES[1]: there, TYPES[2]: there.flip(0)}
    for kind in TYPES:
        both.setdefault(kind, torch.empty(2, 0, dtype=torch.long))
    data = as_data(x, {kind: both[kind] for kind in TYPES})
    explanation = gf.explain(make("sage"), data, NODE, neighborhood="R(A,3)", **FEW)
    assert explanation.neighborhood == "R(A,3,paired)"
    assert explanation.unfaithfulness.neighborhood == "R(A,3,paired)"
    alone = gf.explain(make("sage"), data, NODE, neighborhood=gf.RemovedEdges(3), **FEW)
    assert alone.neighborhood == "R(A,3)"
    source = gf.explainer_for(make("sage"), data, method="kec", neighborhood="R(A,3)")
    assert str(source.algorithm.neighborhood) == "R(A,3,paired)"


class Looked(torch.nn.Module):
    """A model that looks the ids of all types up."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rows = torch.nn.ModuleDict({name: torch.nn.Embedding(9, width) for name, (_, width) in SIZES.items()})
        self.inner = make("sage")

    def forward(self, x_dict, edge_index_dict):
        return self.inner({name: self.rows[name](x[:, 0]) for name, x in x_dict.items()}, edge_index_dict)


def test_ids_are_replaced_by_the_most_frequent_one_of_their_own_type(tmp_path):
    """In the joint matrix most nodes have no id in a column; what stands there must not be taken for a category."""
    _, ends = graph()
    usual = {"paper": 7, "word": 5, "author": 8}
    generator = torch.Generator().manual_seed(1)
    ids = {name: torch.randint(0, 9, (count, 1), generator=generator) for name, (count, _) in SIZES.items()}
    for name, category in usual.items():
        ids[name][: len(ids[name]) // 2 + 1] = category
    model, data = Looked().eval(), as_data(ids, ends)
    # U(X,s) has no meaning there, and Linear knows each feature alone.
    explanation = gf.explain(model, data, NODE, neighborhood="B(X,0.5)", method="linear", samples=300, test_samples=200)
    assert explanation.baseline_categories.tolist() == list(usual.values())
    assert explanation.unfaithfulness.relative < 0.3
    for name, category in usual.items():
        mask, there = explanation[name].node_mask[:, 0], ids[name][:, 0] == category
        assert not bool(mask[there].any())
    strongest = explanation.top_features(1)[0]
    moved = {name: x.clone() for name, x in ids.items()}
    moved[strongest.node_type][strongest.node, 0] = usual[strongest.node_type]
    label = int(explanation.target[NODE])
    with torch.no_grad():
        change = (model(moved, ends) - model(ids, ends))[NODE, label]
    answer = explanation.what_if(set={strongest[:3]: usual[strongest.node_type]}, check=True)
    assert answer.actual == pytest.approx(float(change), abs=1e-5)
    gf.save(explanation, tmp_path / "ids.safetensors")
    back = gf.load(tmp_path / "ids.safetensors")
    assert torch.equal(back.joint().x, explanation.joint().x)
    with pytest.raises(gf.UnsupportedError, match="AnchoredKEC, KEC or Linear in"):
        Explainer(model, gf.Saliency(), "model", CONFIG, node_mask_type="attributes")(ids, ends, index=NODE)
    edges = gf.explain(model, data, NODE, test_samples=20, method="saliency")
    assert any(bool(edges[kind].edge_mask.any()) for kind in TYPES)


def test_types_that_cannot_be_one_matrix_name_the_way_out():
    x, ends = graph()
    with pytest.raises(gf.InputError, match="look their embeddings up"):
        gf.KEC("U(A,0.5)").check_call(make("sage"), {**x, "word": torch.zeros(9, 1, dtype=torch.long)}, ends)
    with pytest.raises(gf.InputError, match="rows of an embedding as its x"):
        gf.explain(make("sage"), as_data({name: x[name] for name in ("paper", "word")}, ends), NODE)


def test_attributes_of_edges_that_the_model_does_not_read_do_not_move():
    with pytest.raises(gf.InputError, match="the model is given no edge_attr of real numbers by type"):
        gf.explain(make("sage"), as_data(*graph()), NODE, neighborhood="U(E,0.2r)")


def test_methods_are_compared_as_they_explain():
    data, asked = as_data(*graph()), {"samples": 60, "test_samples": 20}
    methods = ["kec", "saliency", "gnnexplainer-soft", "gnnexplainer"]
    rows = gf.compare(make("sage"), data, [NODE, 6], methods=methods, neighborhoods=["U(A,0.5)", "B(A,0.5)"], **asked)
    assert [(row.method, row.neighborhood) for row in rows][:5] == [
        *((m, "U(A,0.5)") for m in methods),
        (methods[0], "B(A,0.5)"),
    ]
    for row in rows:
        if row.method != "gnnexplainer":  # which is made from the soft one there
            alone = gf.explain(make("sage"), data, 6, method=row.method, neighborhood=row.neighborhood, **asked)
            assert row.by_node[1] == pytest.approx(alone.unfaithfulness.value, rel=1e-5), row
    by_type = make("to_hetero").model
    rows = gf.compare(by_type, data, [8], methods="kec", node_type="word", **asked)
    alone = gf.explain(gf.OfType(by_type, "word"), data, 8, **{**asked, "method": "kec"})
    assert rows[0].by_node[0] == pytest.approx(alone.unfaithfulness.value, rel=1e-5)
    with pytest.raises(gf.UnsupportedError, match="one node at a time"):
        gf.compare(make("sage"), data, [NODE], train_jointly=True)
    with pytest.raises(gf.InputError, match="node 14 is out of range"):
        gf.compare(make("sage"), data, [14])
    with pytest.raises(gf.UnsupportedError, match="Shapley explains homogeneous graphs"):
        gf.compare(make("sage"), data, [NODE], methods="shapley")


def test_names_by_type_are_taken_from_the_graph():
    data = as_data(*graph())
    data["word"].node_names = [f"w{i}" for i in range(9)]
    data["paper"].feature_names = ["a", "b", "c", "d"]
    explanation = gf.explain(make("sage"), data, NODE, **FEW)
    assert explanation.node_names[12:16] == ["paper 12", "paper 13", "w0", "w1"]
    assert explanation.feature_names[3:5] == ["d", "word feature 0"]


class OfGraphs(torch.nn.Module):
    """Classes of graphs, from the means of their papers and of their words."""

    def __init__(self, inner):
        super().__init__()
        self.convs, self.out = inner.convs, torch.nn.Linear(10, 3)
        torch.nn.init.normal_(self.out.weight, std=0.6)

    def forward(self, x_dict, edge_index_dict, batch_dict=None):
        for conv in self.convs:
            x_dict = {name: rows.tanh() for name, rows in conv(x_dict, edge_index_dict).items()}
        batch = dict.fromkeys(x_dict) if batch_dict is None else batch_dict
        means = [global_mean_pool(x_dict[name], batch[name]) for name in ("paper", "word")]
        return self.out(torch.cat(means, dim=1))


@pytest.fixture
def graphs():
    """Three graphs, each with other features and edges."""
    torch.manual_seed(4)
    found = []
    for edges in (22, 14, 18):
        x, ends = graph(edges=edges)
        found.append(as_data({name: rows + 0.3 * torch.randn_like(rows) for name, rows in x.items()}, ends))
    return found


@pytest.fixture
def of_graphs():
    torch.manual_seed(5)
    return OfGraphs(make("sage")).eval()


def test_f_of_a_graph_of_several_types_is_the_models_row_for_it(graphs, of_graphs):
    batch = Batch.from_data_list(graphs)
    subject = TypedSubject(of_graphs.double(), batch, None, "graph", None, None, Options())
    target = subject.target(1)
    alone = {name: rows.double() for name, rows in graphs[1].x_dict.items()}
    with torch.no_grad():
        row = of_graphs(alone, graphs[1].edge_index_dict)[0]
        assert target.value == pytest.approx(float(row.max()), abs=1e-9)
        assert target.computation_graph.num_nodes == graphs[1].num_nodes
        samples = gf.parse_neighborhood("B(A,0.5)").sample(target.computation_graph, 5)
        kinds, part = target.graph.kinds, target.computation_graph
        for change, weight in zip(target.changes(samples), samples.weight, strict=True):
            gone = set(part.edge_id[(weight == 0) & (part.edge_id >= 0)].tolist())
            kept = {}
            for place, kind in enumerate(kinds.edge_types):
                there = batch[kind].edge_index
                own = torch.tensor([i not in gone for i in range(*kinds.edge_start[place : place + 2])])
                kept[kind] = there[:, own]
            x = {name: rows.double() for name, rows in batch.x_dict.items()}
            out = of_graphs(x, kept, {name: batch[name].batch for name in SIZES})
            assert float(change) == pytest.approx(float(row.max() - out[1, row.argmax()]), abs=1e-9)


@pytest.mark.parametrize("method", ["anchored-kec", "saliency", "gnnexplainer", "pgexplainer"])
def test_graphs_of_several_types_are_explained_scored_and_kept(graphs, of_graphs, method, tmp_path):
    batch = Batch.from_data_list(graphs)
    explanation = gf.explain(of_graphs, batch, graph=1, method=method, samples=100, test_samples=40)
    assert explanation.unfaithfulness.delta_zero > 0
    for name in SIZES:  # Nothing of the other graphs has a score.
        mask = explanation[name].node_mask
        assert mask is None or not mask[batch[name].batch != 1].any()
    scored = 0
    for kind in TYPES:
        inside = batch[kind[0]].batch[batch[kind].edge_index[0]] == 1
        assert not explanation[kind].edge_mask[~inside].any()
        scored += int((explanation[kind].edge_mask[inside] != 0).sum())
    assert scored > 3
    config = {**CONFIG, "task_level": "graph"}
    algorithm = gf.explainer_for(of_graphs, batch, method=method, level="graph").algorithm
    nodes = None if method == "pgexplainer" else "attributes"
    explainer = Explainer(of_graphs, algorithm, "model", config, nodes, "object")
    by_hand = explainer(batch.x_dict, batch.edge_index_dict, index=1, batch_dict=batch.batch_dict)
    assert gf.general_unfaithfulness(explainer, by_hand, "U(A,0.5)", num_samples=20).delta_zero > 0
    gf.save(explanation, tmp_path / "graph.safetensors")
    loaded = gf.load(tmp_path / "graph.safetensors")
    for kind in TYPES:
        assert torch.equal(loaded[kind].edge_mask, explanation[kind].edge_mask)
    assert loaded.unfaithfulness == explanation.unfaithfulness
    assert torch.equal(loaded["word"].batch, batch["word"].batch)
    assert "</html>" in gf.page([loaded])
    if method == "anchored-kec":
        assert explanation.unfaithfulness.relative < 0.3
        assert explanation.what_if([explanation.top_edges(1)[0][:3]], check=True).actual is not None


def test_a_graph_by_itself_needs_no_batch(graphs, of_graphs):
    whole = gf.explain(of_graphs, graphs[1], graph=0, method="saliency", test_samples=20)
    of_batch = gf.explain(of_graphs, Batch.from_data_list(graphs), graph=1, method="saliency", test_samples=20)
    for kind in TYPES:
        own = of_batch[kind].edge_mask[of_batch[kind].edge_mask != 0]
        torch.testing.assert_close(whole[kind].edge_mask[whole[kind].edge_mask != 0], own, rtol=1e-4, atol=1e-6)
    with pytest.raises(gf.GraphfaithError):
        gf.explain(of_graphs, graphs[1], graph=1, method="saliency")
