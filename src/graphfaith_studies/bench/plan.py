"""How much a run of the bench does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Sizes of a run; those of the methods are the ones their users would pick, in a quick run too."""

    nodes: int = 50  # a data set
    ba_shapes_nodes: int = 20  # where most of the graph is in reach of each
    slow_nodes: int = 50  # of these, for contenders that take a tenth of a second or more
    whole_graph_nodes: int = 3  # of these, for GNNExplainer on all of Cora
    whole_graph_elsewhere: int = 1  # the same on other data sets; it takes half a minute a node on CiteSeer
    repetitions: int = 7
    slow_repetitions: int = 2
    all_nodes_repetitions: int = 3  # of explaining every node of Cora
    sample_of_all: int = 271  # nodes that stand for every node of Cora
    scored_nodes: int = 50  # whose held-out Delta is measured
    samples: int = 200
    many_samples: int = 1500
    test_samples: int = 500
    gnn_epochs: int = 100
    pg_epochs: int = 30
    ig_steps: int = 50
    large: int = 10**6  # nodes of the large graph, whose memory is measured


FULL = Plan()
QUICK = Plan(
    nodes=10,
    ba_shapes_nodes=4,
    slow_nodes=3,
    whole_graph_nodes=1,
    whole_graph_elsewhere=0,
    repetitions=3,
    slow_repetitions=1,
    all_nodes_repetitions=1,
    scored_nodes=10,
    sample_of_all=51,
)
