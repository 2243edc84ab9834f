"""The one reader of explanations: the rules by which lists, files, graphs and pictures read the same scores."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.config import ModelConfig

import graphfaith as gf
from graphfaith.explanation.scores import explained_nodes, names_of, num_nodes_of, read_scores
from graphfaith.facade import Subject

PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])
MASK = torch.tensor([0.5, -2.0, 1.0])


def path(**fields):
    return Explanation(**{"edge_index": PATH, "edge_mask": MASK, **fields})


class TestNumberOfNodes:
    def test_is_that_of_the_first_field_that_knows(self):
        fields = {
            "num_nodes": 9,
            "x": torch.ones(8, 2),
            "self_loop_score": torch.ones(7),
            "node_mask": torch.ones(6, 1),
            "node_names": list("abcde"),
        }
        for name, count in zip(list(fields), (9, 8, 7, 6, 5), strict=True):
            assert num_nodes_of(path(**fields)) == count
            del fields[name]
        assert num_nodes_of(path()) == 4

    def test_names_that_do_not_fit_the_scores_are_named(self):
        with pytest.raises(gf.InputError, match="node_names must be a list of 6 names"):
            read_scores(path(node_mask=torch.ones(6, 1), node_names=list("abcde")))

    def test_the_one_row_of_a_mask_on_columns_counts_nothing(self):
        assert num_nodes_of(path(node_mask=torch.ones(1, 2))) == 4
        assert num_nodes_of(Explanation(node_mask=torch.ones(1, 2))) == 1
        assert num_nodes_of(path(node_mask=torch.ones(1, 2), node_names=list("abcdefg"))) == 7

    def test_an_explained_node_without_edges_counts(self):
        assert num_nodes_of(path(index=6)) == 7
        assert num_nodes_of(path(index=torch.tensor([-1]))) == 4
        pairs = path(index=6)
        pairs._model_config = ModelConfig("regression", "graph")
        assert num_nodes_of(pairs) == 4  # this index is one of graphs

    def test_a_count_is_known_or_only_that_of_the_ids(self):
        assert read_scores(path(x=torch.ones(5, 1))).num_nodes_known
        assert not read_scores(path()).num_nodes_known
        assert num_nodes_of(Explanation(edge_index=PATH[:, :0])) == 0

    @pytest.mark.parametrize("fields", [{"x": 3}, {"self_loop_score": torch.tensor(1.0)}])
    def test_fields_without_rows_are_named(self, fields):
        with pytest.raises(gf.InputError, match="must have one row a node"):
            num_nodes_of(path(**fields))


class TestNumbers:
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("field", ["edge_mask", "self_loop_score", "node_mask"])
    def test_scores_that_are_not_finite_are_refused_by_lists_and_pictures_alike(self, value, field):
        scores = torch.full((3,) if field == "edge_mask" else (4, 1), value)
        explanation = path(**{field: scores})
        read = gf.top_nodes if field == "node_mask" else gf.top_edges
        for ask in (read, gf.signed_subgraph, gf.to_networkx, gf.page, gf.figure):
            with pytest.raises(gf.InputError, match=f"{field} holds NaN or Inf"):
                ask(explanation)

    def test_features_that_are_not_finite_make_no_score(self):
        x = torch.ones(4, 2)
        x[1, 1] = torch.inf
        with pytest.raises(gf.InputError, match="node_mask times x holds NaN or Inf"):
            gf.top_nodes(path(x=x, node_mask=torch.ones(4, 2)))


class TestLoops:
    def looped(self, **fields):
        edges = torch.tensor([[0, 1, 1], [1, 1, 1]])
        return Explanation(edge_index=edges, num_nodes=3, **fields)

    def test_a_loop_of_the_graph_counts_once(self):
        loops = torch.tensor([-2.0, 5.0, 0.0], dtype=torch.float64)  # as precise as they are read
        both = self.looped(edge_mask=torch.tensor([1.0, 5.0, 0.5]), self_loop_score=loops)
        scores = read_scores(both)
        assert scores.loop.tolist() == [-2.0, 5.5, 0.0]  # two edges of the graph, as one small circle
        assert (scores.edge_index.tolist(), scores.edge.tolist()) == ([[0], [1]], [1.0])
        assert sum(edge.score for edge in gf.top_edges(both)) == sum(scores.loop) + sum(scores.edge)
        assert both.self_loop_score.tolist() == [-2.0, 5.0, 0.0]

    def test_an_edge_score_of_zero_holds_too(self):
        both = self.looped(edge_mask=torch.tensor([1.0, 0.0, 0.0]), self_loop_score=torch.tensor([0.0, 5.0, 0.0]))
        assert read_scores(both).loop.tolist() == [0.0, 0.0, 0.0]
        assert gf.top_edges(both) == [(0, 1, 1.0)]

    def test_without_scores_of_edges_those_of_loops_hold(self):
        loops = self.looped(self_loop_score=torch.tensor([0.0, 5.0, 0.0]))
        assert read_scores(loops).loop.tolist() == [0.0, 5.0, 0.0]
        assert read_scores(loops).edge is None
        assert read_scores(self.looped()).loop is None
        assert read_scores(self.looped(edge_mask=torch.ones(3))).loop.tolist() == [0.0, 2.0, 0.0]

    def test_a_scored_loop_is_drawn_as_strong_as_it_is(self):
        torch.manual_seed(0)
        from torch_geometric.nn import GCN

        edges = torch.tensor([[0, 1, 1, 2, 1], [1, 0, 2, 1, 1]])
        model = GCN(2, 4, num_layers=2, out_channels=2).eval()
        explanation = Subject(model, Data()).explainer("saliency")(torch.rand(3, 2), edges, index=1)
        assert explanation.edge_mask[4] == explanation.self_loop_score[1] != 0
        assert read_scores(explanation).loop[1] == pytest.approx(float(explanation.edge_mask[4]))


class TestExplained:
    def at_edges(self, **fields):
        explanation = path(index=torch.tensor([2]), **fields)
        explanation._model_config = ModelConfig("regression", "edge")
        return explanation

    def test_at_edge_level_without_pairs_to_judge_the_edges_are_the_pairs(self):
        assert explained_nodes(self.at_edges(target=torch.zeros(3))).tolist() == [2, 3]
        assert read_scores(self.at_edges(target=torch.zeros(3))).explained == (2, 3)
        assert explained_nodes(self.at_edges(target=torch.zeros(5))).tolist() == []  # rows of something else

    def test_each_node_is_explained_once(self):
        pairs = torch.tensor([[0, 1, 3], [1, 2, 3]])
        assert read_scores(self.at_edges(edge_label_index=pairs)).explained == (3,)

    @pytest.mark.parametrize("index", ["one", {"a": 1}, 1.5])
    def test_what_is_no_index_is_named(self, index):
        with pytest.raises(gf.InputError, match="index must"):
            read_scores(path(index=index))


class TestNames:
    def test_names_of_features_are_checked_against_the_columns(self):
        with pytest.raises(gf.InputError, match=r"feature_names must be a list of 2 names \(got 3\)"):
            read_scores(path(x=torch.ones(4, 2), feature_names=list("abc")))
        with pytest.raises(gf.InputError, match=r"feature_names must be a list of 2 names \(got 3\)"):
            read_scores(path(node_mask=torch.ones(1, 2), feature_names=list("abc")))
        with pytest.raises(gf.InputError, match="feature_names must be a list of names"):
            read_scores(path(feature_names="abc"))

    def test_names_of_columns_that_are_not_there_are_kept(self):
        named = path(node_mask=torch.ones(4, 1), feature_names=list("abc"))
        assert names_of(named, "feature_names") == list("abc")
        assert read_scores(named).feature is None


class TestMasks:
    X = torch.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0], [3.0, 3.0]])
    SCORES = torch.tensor([[1.0, -3.0], [0.0, 1.0], [-2.0, 9.0], [0.0, 0.0]])

    def test_of_every_feature(self):
        scores = read_scores(path(x=self.X, node_mask=self.SCORES))
        assert scores.node.tolist() == [-5.0, 1.0, -2.0, 0.0]
        assert scores.feature.tolist() == [-1.0, -5.0]

    def test_of_every_feature_without_x_there_is_no_score_of_a_node(self):
        for ask in (read_scores, gf.top_nodes):
            with pytest.raises(gf.InputError, match="needs an x of the same shape"):
                ask(path(node_mask=self.SCORES))

    @pytest.mark.parametrize("x", [None, X, X[:, :1]])
    @pytest.mark.parametrize("flat", [False, True])
    def test_of_one_column_are_scores_of_nodes_whatever_x_is(self, x, flat):
        mask = self.SCORES[:, 0] if flat else self.SCORES[:, :1]
        scores = read_scores(path(x=x, node_mask=mask))
        assert scores.node.tolist() == [1.0, 0.0, -2.0, 0.0]
        assert scores.feature is None

    def test_of_one_row_are_scores_of_features(self):
        columns = path(x=self.X, node_mask=torch.tensor([[1.0, -2.0]]))
        assert read_scores(columns).node is None
        assert read_scores(columns).feature.tolist() == [1.0, -2.0]
        with pytest.raises(gf.InputError, match="node_mask_type"):
            gf.top_nodes(columns)

    def test_ones_of_a_method_that_scores_edges_alone_are_no_scores(self):
        ones = path(x=self.X, node_mask=torch.ones(4, 2), features_scored=False)
        assert (read_scores(ones).node, read_scores(ones).feature) == (None, None)
        for ask in (gf.top_nodes, gf.node_scores, gf.top_features):
            with pytest.raises(gf.InputError, match="need a method that scores features"):
                ask(ones)
        assert gf.signed_subgraph(ones, 1).node_id.tolist() == [1, 2]
        assert all("score" not in data for _, data in gf.to_networkx(ones).nodes(data=True))

    def test_scores_that_are_no_tensor_are_named(self):
        with pytest.raises(gf.InputError, match="edge_mask must be a tensor"):
            read_scores(path(edge_mask=[1.0, 2.0, 3.0]))

    def test_only_explanations_are_read(self):
        with pytest.raises(gf.InputError, match="explanation of PyG"):
            read_scores(SimpleNamespace(edge_index=PATH, edge_mask=MASK))
