"""Print the mean number of entries of A in the computation graph of a Cora node, and in PyG's 3-hop subgraph.

The second number includes the self-loops of the subgraph's nodes.

python examples/computation_graph_size.py
"""

from torch_geometric.utils import k_hop_subgraph

from graphfaith import ComputationGraph
from graphfaith.data import load_dataset
from graphfaith.graph.graph import Graph

data = load_dataset("cora")
graph, nodes = Graph.of(data.x, data.edge_index), range(0, 1000, 20)
entries = [int(ComputationGraph.around(graph, v, 2).felt.sum()) for v in nodes]
subgraphs = [k_hop_subgraph(v, 3, data.edge_index) for v in nodes]
print(
    sum(entries) / len(nodes),
    sum(len(subset) + edge_index.size(1) for subset, edge_index, *_ in subgraphs) / len(nodes),
)
