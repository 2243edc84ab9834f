"""How many entries of A the computation graph of a Cora node holds: ours, and PyG's 3-hop subgraph with its self-loops.

python examples/computation_graph_size.py
"""

from torch_geometric.utils import k_hop_subgraph

from graphfaith import ComputationGraph
from graphfaith.data import load_dataset
from graphfaith.graph.graph import Graph

data = load_dataset("cora")
graph, nodes = Graph.of(data.x, data.edge_index), range(0, 1000, 20)
ours = [int(ComputationGraph.around(graph, v, 2).felt.sum()) for v in nodes]
parts = [k_hop_subgraph(v, 3, data.edge_index) for v in nodes]
print(sum(ours) / len(nodes), sum(len(p[0]) + p[1].size(1) for p in parts) / len(nodes))
