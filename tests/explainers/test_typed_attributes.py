"""Attributes of edges by type: moved by the range of their type, scored, measured and stored."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GATConv, HeteroConv

import graphfaith as gf
from graphfaith.facade import Options, TypedSubject
from graphfaith.view.report import explanation_row
from typed_toys import SIZES, TYPES, as_data, graph

NODE = 5
WIDTHS = {TYPES[0]: (2,), TYPES[1]: (3,), TYPES[4]: ()}  # the other types have no attributes
SPREAD = {TYPES[0]: 1.0, TYPES[1]: 10.0, TYPES[4]: 0.1}
FEW = {"samples": 100, "test_samples": 50}


class Attributed(torch.nn.Module):
    """Two layers whose attention and messages of some edge types see attributes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        widths = {name: width for name, (_, width) in SIZES.items()}
        layers = []
        for _ in range(2):
            convs = {}
            for kind in TYPES:
                edges = {"edge_dim": max(1, *WIDTHS[kind], 0)} if kind in WIDTHS else {}
                convs[kind] = GATConv((widths[kind[0]], widths[kind[2]]), 5, add_self_loops=False, **edges)
            layers.append(HeteroConv(convs))
            widths = dict.fromkeys(widths, 5)
        self.convs, self.readout = torch.nn.ModuleList(layers), torch.nn.Linear(5, 3)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.6)

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        given = {kind: rows.reshape(len(rows), -1).tanh() for kind, rows in edge_attr_dict.items()}
        for conv in self.convs:
            x_dict = {name: rows.tanh() for name, rows in conv(x_dict, edge_index_dict, edge_attr_dict=given).items()}
        return self.readout(x_dict["paper"])


@pytest.fixture
def data():
    found, generator = as_data(*graph()), torch.Generator().manual_seed(4)
    for kind, shape in WIDTHS.items():
        count = found[kind].edge_index.size(1)
        found[kind].edge_attr = SPREAD[kind] * torch.rand(count, *shape, generator=generator)
    return found


@pytest.fixture
def model():
    return Attributed().eval()


def subject_of(model, data):
    return TypedSubject(model, data, None, "node", None, None, Options())


def test_every_type_moves_in_its_own_range(model, data):
    subject = subject_of(model, data)
    target = subject.target(NODE)
    part, near = target.computation_graph, gf.parse_neighborhood("U(E,0.2r)")
    moved = near.sample(part, 200, seed=0).attributes.double()
    assert moved.shape[2] == 3
    for place, kind in enumerate(subject.joint.kinds.edge_types):
        rows = moved[:, part.edge_kind == place]
        width = data[kind].edge_attr[0].numel() if kind in WIDTHS else 0
        assert not bool(rows[:, :, width:].any())
        if kind in WIDTHS:
            reach = 0.2 * float(data[kind].edge_attr.max() - data[kind].edge_attr.min())
            assert 0.9 * reach < float(rows.abs().max()) <= reach * (1 + 1e-6)
    dropped = gf.parse_neighborhood("B(E,0.5)").sample(part, 50, seed=0).attributes
    assert bool(((dropped == 0) | (dropped == part.attributes)).all())


@pytest.mark.parametrize("text", ["U(E,0.2r)", "B(E,0.5)xB(A,0.5)"])
def test_f_at_samples_is_that_of_one_call_each(model, data, text):
    subject = subject_of(model, data)
    target = subject.target(NODE)
    part, kinds = target.computation_graph, subject.joint.kinds
    samples = gf.parse_neighborhood(text).sample(part, 6, seed=1)
    changes = target.changes(samples)
    x, edges, given = data.x_dict, data.edge_index_dict, data.edge_attr_dict
    label = int(target.labels)
    with torch.no_grad():
        before = model(x, edges, given)[NODE, label]
        for s in range(6):
            attributes, kept = {}, {}
            for place, kind in enumerate(kinds.edge_types):
                own = ((part.edge_kind == place) & (part.edge_id >= 0)).nonzero().view(-1)
                ids = part.edge_id[own] - kinds.edge_start[place]
                there = torch.ones(edges[kind].size(1), dtype=torch.bool)
                if samples.edges is not None:
                    there[ids] = samples.edges[s, own] == 0
                kept[kind] = edges[kind][:, there]
                if kind in WIDTHS:
                    rows = given[kind].clone()
                    width = rows[0].numel()
                    rows[ids] -= samples.attributes[s, own, :width].reshape(-1, *rows.shape[1:])
                    attributes[kind] = rows[there]
            after = model(x, kept, attributes)[NODE, label]
            assert float(changes[s]) == pytest.approx(float(before - after), abs=2e-5)
    assert bool((changes.abs() > 1e-4).any())


def test_the_gradient_is_that_of_the_dictionaries(model, data):
    explanation = gf.explain(model, data, NODE, method="saliency", neighborhood="U(E,0.2r)", test_samples=50)
    given = {kind: rows.clone().requires_grad_() for kind, rows in data.edge_attr_dict.items()}
    out = model(data.x_dict, data.edge_index_dict, given)[NODE]
    out[int(out.argmax())].backward()
    for kind in TYPES:
        if kind in WIDTHS:
            found = explanation[kind].edge_attr_score
            torch.testing.assert_close(found.reshape(given[kind].shape), given[kind].grad, rtol=1e-4, atol=1e-6)
        else:
            assert "edge_attr_score" not in explanation[kind]
    strongest = explanation.top_attributes(1)[0]
    assert explanation_row(explanation, 1)["edge_attributes"] == [strongest._asdict()]
    rows = explanation[strongest.edge_type].edge_attr_score
    assert abs(strongest.score) == max(float(explanation[kind].edge_attr_score.abs().max()) for kind in WIDTHS)
    ends = data[strongest.edge_type].edge_index.T.tolist()
    assert float(rows[ends.index([strongest.source, strongest.sink]), strongest.column]) == strongest.score


@pytest.mark.parametrize("method", ["anchored-kec", "kec", "linear", "ig-zero", "ig-random", "gnnexplainer-soft"])
def test_methods_explain_and_are_scored(model, data, method, tmp_path):
    explanation = gf.explain(model, data, NODE, method=method, neighborhood="U(E,0.2r)xU(A,0.2)", **FEW)
    assert explanation.unfaithfulness.value >= 0
    scored = method in ("anchored-kec", "linear", "ig-zero", "ig-random")
    for kind in WIDTHS:
        count, width = data[kind].edge_attr.reshape(len(data[kind].edge_attr), -1).shape
        assert ("edge_attr_score" in explanation[kind]) == scored
        if scored:
            assert explanation[kind].edge_attr_score.shape == (count, width)
    if method in ("anchored-kec", "linear"):
        assert explanation.unfaithfulness.relative < 0.3
    gf.save(explanation, tmp_path / "saved.safetensors")
    back = gf.load(tmp_path / "saved.safetensors")
    if scored:
        assert back.top_attributes(3) == explanation.top_attributes(3)
        assert back.unfaithfulness == explanation.unfaithfulness


def test_one_type_is_explained_as_a_homogeneous_graph(data):
    """The same draws, samples and fit, so the same Delta: the range of the only type is that of the graph."""
    plain = GATConv(4, 3, edge_dim=2, add_self_loops=False)
    torch.nn.init.normal_(plain.att_edge)

    class One(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = plain

        def forward(self, x, edge_index, edge_attr):
            return self.conv(x, edge_index, edge_attr=edge_attr)

    class Typed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = HeteroConv({TYPES[0]: plain})

        def forward(self, x_dict, edge_index_dict, edge_attr_dict):
            return self.convs(x_dict, edge_index_dict, edge_attr_dict=edge_attr_dict)["paper"]

    x, ends, attributes = data["paper"].x, data[TYPES[0]].edge_index, data[TYPES[0]].edge_attr
    one = Data(x=x, edge_index=ends, edge_attr=attributes)
    typed = HeteroData()
    typed["paper"].x, typed[TYPES[0]].edge_index, typed[TYPES[0]].edge_attr = x, ends, attributes
    node = int(ends[1].bincount().argmax())
    for method in ("linear", "saliency", "ig-random"):
        asked = {"method": method, "neighborhood": "U(E,0.5r)", **FEW}
        wanted, found = gf.explain(One().eval(), one, node, **asked), gf.explain(Typed().eval(), typed, node, **asked)
        assert found.unfaithfulness.value == pytest.approx(wanted.unfaithfulness.value, rel=1e-4), method
        torch.testing.assert_close(found[TYPES[0]].edge_attr_score, wanted.edge_attr_score, rtol=1e-3, atol=1e-5)


def test_ids_of_bonds_by_type_are_given_as_they_are(data):
    class Looked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.rows = Attributed(), torch.nn.Embedding(4, 2)

        def forward(self, x_dict, edge_index_dict, edge_attr_dict):
            given = {kind: torch.zeros(edge_index_dict[kind].size(1), *WIDTHS[kind]) for kind in WIDTHS}
            return self.inner(x_dict, edge_index_dict, {**given, TYPES[0]: self.rows(edge_attr_dict[TYPES[0]])})

    for kind in WIDTHS:
        del data[kind].edge_attr
    data[TYPES[0]].edge_attr = torch.arange(data[TYPES[0]].edge_index.size(1)) % 4
    explanation = gf.explain(Looked().eval(), data, NODE, **FEW)
    assert any(bool(explanation[kind].edge_mask.any()) for kind in TYPES)
    with pytest.raises(gf.InputError, match=r"whole numbers, ids of categories, are given as they are"):
        gf.explain(Looked().eval(), data, NODE, neighborhood="U(E,0.2r)")


def test_ranges_that_are_not_there_are_refused(model, data):
    for kind in WIDTHS:
        data[kind].edge_attr.fill_(2.0)
    with pytest.raises(gf.InputError, match="is 0, so that nothing would move"):
        gf.explain(model, data, NODE, neighborhood="U(E,0.2r)")
