"""The amount of work of a run of the bench."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The sizes of a run.

    The methods' own parameters (samples, epochs, steps) are typical of their use and are the same in a quick run.
    """

    nodes: int = 50  # explained on each data set
    ba_shapes_nodes: int = 20  # fewer, because most of the graph is in reach of each node
    slow_nodes: int = 50  # for contenders that take a tenth of a second or more
    whole_graph_nodes: int = 3  # for GNNExplainer on the whole graph of Cora
    whole_graph_elsewhere: int = 1  # on other data sets; CiteSeer takes half a minute per node
    repetitions: int = 7
    slow_repetitions: int = 2
    all_nodes_repetitions: int = 3  # repetitions of explaining every node of Cora
    anchored_nodes: int | None = None  # nodes of Cora that AnchoredKEC explains together; None is all of them
    sample_of_all: int = 271  # nodes explained one by one, to be compared with all nodes of Cora
    scored_nodes: int = 50  # nodes whose held-out Delta is measured
    samples: int = 200
    many_samples: int = 1500
    test_samples: int = 500
    gnn_epochs: int = 100
    pg_epochs: int = 30
    ig_steps: int = 50
    large: int = 10**6  # nodes of the large graph, where memory is measured
    large_sweep: int = 10**5  # nodes of the graph that is explained whole


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
    anchored_nodes=300,
    large_sweep=20_000,
)
