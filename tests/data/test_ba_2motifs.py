"""BA-2Motifs has the structure described in the literature, and its ground truth is exactly the motif."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from graphfaith._base.errors import InputError
from graphfaith.data.ba_2motifs import ba_2motifs, splits

HOUSE = nx.house_graph()
RING = nx.cycle_graph(5)


@pytest.fixture(scope="module")
def graphs():
    return ba_2motifs(60, seed=1)


def as_networkx(edge_index: torch.Tensor) -> nx.Graph:
    return nx.Graph(edge_index.t().tolist())


def same(first, second) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first.keys())  # noqa: SIM118


class TestGraphs:
    def test_counts(self, graphs):
        for graph in graphs:
            assert graph.x.shape == (25, 10)
            assert graph.x.dtype == torch.float
            assert torch.equal(graph.x, torch.full_like(graph.x, 0.1))
            # There are 19 edges of the tree, 6 of a house or 5 of a ring, and 1 to the motif, each in both directions.
            assert graph.num_edges == 2 * (19 + (6 if graph.y == 0 else 5) + 1)
            assert graph.is_coalesced()
            assert graph.is_undirected()
            assert not graph.has_self_loops()
            assert graph.validate()

    def test_classes_are_balanced(self, graphs):
        assert len(graphs) == 60
        assert sum(int(graph.y) for graph in graphs) == 30
        assert all(graph.y.shape == (1,) for graph in graphs)
        assert sum(int(graph.y) for graph in ba_2motifs()) == 500

    def test_motif_is_a_house_or_a_ring(self, graphs):
        assert not nx.is_isomorphic(HOUSE, RING)
        for graph in graphs:
            motif = as_networkx(graph.edge_index[:, graph.motif_edge])
            assert nx.is_isomorphic(motif, (HOUSE, RING)[int(graph.y)])
            assert graph.motif_edge.dtype == torch.bool
            assert graph.motif_node.nonzero().view(-1).tolist() == sorted(motif) == [20, 21, 22, 23, 24]

    def test_motif_hangs_by_one_edge_on_a_tree(self, graphs):
        for graph in graphs:
            whole = as_networkx(graph.edge_index)
            assert nx.is_connected(whole)
            base = whole.subgraph(range(20))
            assert nx.is_tree(base)
            assert len(base) == 20
            crossing = [edge for edge in whole.edges if (edge[0] < 20) != (edge[1] < 20)]
            assert len(crossing) == 1
            # The edge to the base adds 1 to the degree of the first node, which is 3 in a house and 2 in a ring.
            degrees = sorted(whole.degree[node] for node in range(20, 25))
            assert degrees == ([2, 2, 2, 3, 4] if graph.y == 0 else [2, 2, 2, 2, 3])

    def test_base_and_place_vary_and_have_hubs(self, graphs):
        assert len({tuple(graph.edge_index.view(-1).tolist()) for graph in graphs}) == 60
        hangers = {
            int(graph.edge_index[0][(graph.edge_index[1] == 20) & (graph.edge_index[0] < 20)]) for graph in graphs
        }
        assert len(hangers) > 10
        # By preferential attachment the first nodes have many neighbours; the last has one, or two with a motif.
        degrees = torch.stack([torch.bincount(graph.edge_index[0], minlength=25) for graph in graphs]).double()
        assert degrees[:, :2].mean() > 3
        assert degrees[:, 19].mean() < 1.5

    def test_a_batch_keeps_the_ground_truth(self, graphs):
        batch = Batch.from_data_list(graphs)
        assert batch.motif_edge.shape == (batch.num_edges,)
        assert torch.equal(batch.motif_node[batch.edge_index].all(dim=0), batch.motif_edge)
        assert batch.y.shape == (60,)


class TestSeed:
    def test_decides_every_bit(self):
        assert all(same(*pair) for pair in zip(ba_2motifs(10, seed=3), ba_2motifs(10, seed=3), strict=True))
        others = zip(ba_2motifs(10, seed=3), ba_2motifs(10, seed=4), strict=True)
        assert not any(torch.equal(first.edge_index, second.edge_index) for first, second in others)

    def test_more_graphs_begin_with_the_same(self):
        assert all(same(*pair) for pair in zip(ba_2motifs(5), ba_2motifs(9)[:5], strict=True))

    def test_global_random_state_is_neither_read_nor_changed(self):
        results = []
        for global_seed in (0, 1):
            random.seed(global_seed)
            np.random.seed(global_seed)  # noqa: NPY002
            torch.manual_seed(global_seed)
            before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
            results.append(splits(ba_2motifs(20)).train)
            after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
            assert before == after
        assert all(same(*pair) for pair in zip(*results, strict=True))


class TestSplits:
    def test_each_graph_is_in_one_part_and_classes_are_balanced(self, graphs):
        parts = splits(graphs)
        assert [len(part) for part in parts] == [48, 6, 6]
        assert {id(graph) for part in parts for graph in part} == {id(graph) for graph in graphs}
        assert [sum(int(graph.y) for graph in part) for part in parts] == [24, 3, 3]

    def test_classes_are_mixed_within_a_part(self, graphs):
        labels = [int(graph.y) for graph in splits(graphs).train]
        assert 4 < sum(labels[:24]) < 20

    def test_seed_decides(self, graphs):
        def places(seed):
            return [[graphs.index(graph) for graph in part] for part in splits(graphs, seed)]

        assert places(3) == places(3)
        assert set(places(3)[2]) != set(places(4)[2])


@pytest.mark.parametrize("wrong", [{"num_graphs": 0}, {"seed": -1}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is {next(iter(wrong.values()))}"):
        ba_2motifs(**wrong)
    with pytest.raises(InputError, match="-1"):
        splits([], seed=-1)
