"""What if: what p foretells for a changed graph, and the model's own answer on that graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

import graphfaith as gf
from explaining import explainer_of
from graphfaith.explanation.what_if import WhatIf
from graphfaith.sampling.perturbations import Perturbations
from polynomial import HOUSE, both_ways

FAR = [*HOUSE, (4, 5), (5, 6)]  # nodes 5 and 6 are out of reach of node 0
MODELS = {
    "gcn": lambda: GCN(3, 8, 2, out_channels=3),
    "gat": lambda: GAT(3, 8, 2, out_channels=3, heads=2),
    "sage": lambda: GraphSAGE(3, 8, 2, out_channels=3),
    "gin": lambda: GIN(3, 8, 2, out_channels=3),
}


def made(kind="gcn", near="R(A,3)", edge_index=None, **options):
    torch.manual_seed(1)
    model = MODELS[kind]().double().eval()
    edge_index = both_ways(FAR) if edge_index is None else edge_index
    data = Data(x=torch.rand(7, 3).double(), edge_index=edge_index, **options)
    return model, data, gf.explain(model, data, 0, neighborhood=near, test_samples=20)


def without(data, gone):
    """edge_index without these columns, as PyG means a graph without an edge."""
    keep = torch.tensor([tuple(pair) not in gone for pair in data.edge_index.T.tolist()])
    return data.edge_index[:, keep]


def output(model, x, edge_index, explanation):
    return float(model(x, edge_index)[0, int(explanation.target[0])])


@pytest.mark.parametrize("kind", sorted(MODELS))
@pytest.mark.parametrize("gone", [[(0, 1)], [(0, 2), (2, 3)]])
def test_the_models_answer_is_that_of_the_graph_without_the_edge(kind, gone):
    model, data, explanation = made(kind)
    answer = explanation.what_if(remove=gone, check=True)
    both = {*gone, *((b, a) for a, b in gone)}
    with torch.no_grad():
        after = output(model, data.x, without(data, both), explanation)
        before = output(model, data.x, data.edge_index, explanation)
    assert answer.actual == pytest.approx(after - before, abs=1e-9)
    assert abs(answer.change - answer.actual) < 0.25 * abs(answer.actual) + 5 * answer.stderr + 1e-6


@pytest.mark.parametrize("kind", ["gcn", "gat", "sage"])
def test_one_direction_alone(kind):
    model, data, explanation = made(kind)
    answer = explanation.what_if(remove=[(1, 0)], directed=True, check=True)
    with torch.no_grad():
        after = output(model, data.x, without(data, {(1, 0)}), explanation)
        before = output(model, data.x, data.edge_index, explanation)
    assert answer.actual == pytest.approx(after - before, abs=1e-9)
    assert answer.change != explanation.what_if(remove=[(1, 0)]).change


def test_in_a_directed_graph_an_edge_has_one_entry():
    one_way = torch.tensor([[1, 2, 0, 3], [0, 1, 1, 2]])
    _, _, explanation = made(edge_index=one_way)
    given = explanation.what_if(remove=[(1, 0)])
    assert given == explanation.what_if(remove=[(1, 0)], directed=True)
    assert given != explanation.what_if(remove=[(1, 0)], directed=False)  # which takes 0 -> 1 too
    with pytest.raises(gf.InputError, match="no edge from node 1 to node 2"):
        explanation.what_if(remove=[(1, 2)])
    assert explanation.what_if(remove=[(1, 2)], directed=False).change == explanation.what_if(remove=[(2, 1)]).change


def test_the_change_is_that_of_p_with_the_sign_of_after_less_before():
    _, _, explanation = made()
    p = explanation.difference_model
    part = p.graph
    hit = ((part.ends[0] == 0) & (part.ends[1] == 1)) | ((part.ends[0] == 1) & (part.ends[1] == 0))
    eps = (part.weight.double() * hit).unsqueeze(0)
    assert explanation.what_if(remove=[(0, 1)]).change == pytest.approx(
        -float(p.change(Perturbations(part, None, eps)))
    )


def test_a_self_loop_is_taken_away_by_its_node():
    _, _, explanation = made(near="B(A,0.5)")
    answer = explanation.what_if(remove=[(0, 0)], check=True)
    p = explanation.difference_model
    loop = (p.graph.is_loop & (p.graph.ends[0] == 0)).double().unsqueeze(0)
    assert answer.change == pytest.approx(-float(p.change(Perturbations(p.graph, None, loop))))
    assert answer.change != 0


def test_names_stand_for_nodes_and_features():
    _, _, explanation = made()
    by_id = explanation.what_if(remove=[(0, 1)], set={(2, 1): 0.0})
    explanation.name(nodes=list("abcdefg"), features=["red", "green", "blue"])
    assert explanation.what_if(remove=[("a", "b")], set={("c", "green"): 0.0}) == by_id
    assert explanation.what_if(remove=[(0, "b")], set={("c", 1): 0.0}) == by_id
    for wrong in ({"remove": [("a", "z")]}, {"set": {("a", "violet"): 1.0}}, {"set": {("z", "red"): 1.0}}):
        with pytest.raises(gf.InputError, match="have the name"):
            explanation.what_if(**wrong)
    explanation.name(nodes=list("aacdefg"))
    with pytest.raises(gf.InputError, match="2 nodes have the name"):
        explanation.what_if(remove=[("a", "b")])


def test_what_is_out_of_reach_changes_nothing():
    _, _, explanation = made()
    edge = explanation.what_if(remove=[(5, 6)], check=True)
    assert (edge.change, edge.actual) == (0.0, 0.0)
    feature = explanation.what_if(set={(6, 0): 9.0}, check=True)
    assert (feature.change, feature.actual) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("say what to change", {}),
        ("no edge from node 0 to node 4", {"remove": [(0, 4)]}),
        ("remove= takes pairs", {"remove": [3]}),
        ("remove= takes pairs", {"remove": [(1, 2, 3)]}),
        ("node", {"remove": [(0, 70)]}),
        ("node", {"remove": [("a", "b")]}),
        ("set= takes values by", {"set": {3: 1.0}}),
        ("feature 9 is out of range", {"set": {(0, 9): 1.0}}),
        ("the value of", {"set": {(0, 1): float("nan")}}),
        ("the value of", {"set": {(0, 1): "much"}}),
    ],
)
def test_what_means_nothing_is_refused(words, asked):
    _, _, explanation = made()
    with pytest.raises(gf.InputError, match=words):
        explanation.what_if(**asked)


@pytest.mark.parametrize("kind", ["gcn", "gat", "sage"])
def test_features_are_set_to_other_values(kind):
    model, data, explanation = made(kind, near="B(X,0.5)")
    answer = explanation.what_if(set={(0, 1): 0.0, (2, 0): 0.0}, check=True)
    x = data.x.clone()
    x[0, 1] = x[2, 0] = 0.0
    with torch.no_grad():
        after, before = (output(model, values, data.edge_index, explanation) for values in (x, data.x))
    assert answer.actual == pytest.approx(after - before, abs=1e-9)
    assert answer.change == pytest.approx(answer.actual, abs=0.3 * abs(answer.actual) + 5 * answer.stderr)
    assert explanation.what_if(set={(0, 1): float(data.x[0, 1])}).change == 0


def test_an_edge_and_a_feature_together():
    model, data, explanation = made(near="B(X,0.5)xB(A,0.5)")
    answer = explanation.what_if(remove=[(0, 1)], set={(2, 0): 0.0}, check=True)
    x = data.x.clone()
    x[2, 0] = 0.0
    with torch.no_grad():
        after = output(model, x, without(data, {(0, 1), (1, 0)}), explanation)
        before = output(model, data.x, data.edge_index, explanation)
    assert answer.actual == pytest.approx(after - before, abs=1e-9)


def test_there_is_no_error_where_no_sample_went_so_far():
    _, _, weights = made(near="U(A,0.5)")
    assert weights.what_if(remove=[(0, 1)]).stderr is None
    _, _, dropped = made(near="B(A,0.5)")
    assert dropped.what_if(remove=[(0, 1)]).stderr > 0
    assert dropped.what_if(remove=[(0, 1)], set={(0, 1): 0.0}).stderr is None  # Features never moved.
    _, _, words = made(near="B(X,0.5)")
    assert words.what_if(set={(0, 1): 0.0}).stderr is not None
    assert words.what_if(set={(0, 1): 50.0}).stderr is None


def test_the_error_is_about_the_error():
    """Over all edges, p is off by about what it says."""
    _, _, explanation = made(near="R(A,3)")
    off, said = [], []
    for pair in HOUSE:
        answer = explanation.what_if(remove=[pair], check=True)
        off.append((answer.change - answer.actual) ** 2)
        said.append(answer.stderr**2)
    assert 0.02 < (sum(off) / sum(said)) ** 0.5 < 4


def test_a_method_without_evidence_has_no_error_bar():
    torch.manual_seed(1)
    data = Data(x=torch.rand(7, 3), edge_index=both_ways(FAR))
    explanation = gf.explain(MODELS["gcn"]().eval(), data, 0, method="kec", neighborhood="B(A,0.5)", test_samples=20)
    answer = explanation.what_if(remove=[(0, 1)], check=True)
    assert answer.stderr is None
    assert answer.actual is not None


def test_the_answer_in_words():
    assert str(WhatIf(-1.1, None)) == "F would change by -1.1 (no error known)"
    assert str(WhatIf(0.25, 0.01)) == "F would change by +0.25 ± 0.01"


def test_a_silenced_message_is_not_a_removed_edge():
    model, data, dropped = made("gat", near="R(A,3)")
    assert not dropped.what_if(remove=[(0, 1)]).silenced
    call = explainer_of(model, gf.AnchoredKEC("U(A,0.5)", edges="mask"))
    explanation = call(data.x, data.edge_index, index=0)
    answer = explanation.what_if(remove=[(0, 1)])
    assert answer.silenced
    assert "if the message were 0" in str(answer)
    assert not explanation.what_if(set={(0, 1): 0.0}).silenced


def test_there_is_no_error_bar_where_no_sample_went():
    _, _, few = made(near="R(A,3)")
    assert few.what_if(remove=[(0, 1)]).stderr is not None
    assert few.what_if(remove=[(0, 1), (0, 2), (1, 2)]).stderr is not None
    assert few.what_if(remove=HOUSE).stderr is None  # more edges than in any sample
    assert few.what_if(remove=[(0, 0)]).stderr is None  # Self-loops stay.
    assert few.what_if(remove=[(1, 0)], directed=True).stderr is None  # half of an edge
    model, data, _ = made(near="B(X,0.5)")
    data.x[0, 1] = 0.0
    words = gf.explain(model, data, 0, neighborhood="B(X,0.5)", test_samples=20)
    assert words.what_if(set={(0, 0): 0.0}).stderr is not None
    assert words.what_if(set={(0, 1): 0.5}).stderr is None  # A word that was absent stays absent.
    assert words.what_if(set={(0, 0): 2 * float(data.x[0, 0])}).stderr is None  # Features only vanish.


def test_the_error_is_at_least_the_rounding_of_f():
    _, _, explanation = made(near="R(A,3)")
    p = explanation.difference_model
    assert p.evidence.noise > 0
    p.evidence = replace(p.evidence, left_out=0 * p.evidence.left_out)  # as if p were exact
    assert explanation.what_if(remove=[(0, 1)]).stderr == p.evidence.noise**0.5


def test_what_is_always_dropped_was_sampled():
    _, _, explanation = made(near="B(A,1.0)")
    assert explanation.what_if(remove=[(0, 1)], directed=True).stderr is not None
