"""Explain your own model on the command line: a graph attention network that predicts the line of a machine.

cd examples
python own_model.py                                                     # trains and writes graph.pt and the weights
graphfaith explain --model own_model:load --data graph.pt --node 10     # calls load() below
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch_geometric.data import Data
from torch_geometric.nn import GAT
from torch_geometric.utils import stochastic_blockmodel_graph

FEATURES = ["heat", "noise", "power", "speed", "age"]
WEIGHTS = Path(__file__).with_name("own_model.safetensors")


def build() -> GAT:
    return GAT(len(FEATURES), 8, num_layers=2, out_channels=3, heads=2)


def load() -> GAT:
    """Return the trained model; the weights come from a safetensors file, which cannot contain code."""
    model = build()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def make_graph() -> Data:
    """Return three lines of twenty machines, connected mostly inside a line; two of the five readings show the line."""
    y = torch.arange(3).repeat_interleave(20)
    x = 0.5 * torch.randn(60, len(FEATURES))
    x[:, 0] += y - 1
    x[:, 1] -= y - 1
    wires = stochastic_blockmodel_graph([20, 20, 20], torch.full((3, 3), 0.02) + 0.15 * torch.eye(3))
    names = [f"machine {i}" for i in range(60)]
    return Data(x=x, edge_index=wires, y=y, node_names=names, feature_names=FEATURES)


def train(data: Data) -> GAT:
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    graph = make_graph()
    save_file(train(graph).state_dict(), WEIGHTS)
    torch.save(graph, WEIGHTS.with_name("graph.pt"))
    correct = (load()(graph.x, graph.edge_index).argmax(dim=-1) == graph.y).float().mean()
    print(f"graph.pt and {WEIGHTS.name} written; {100 * float(correct):.0f} % of the machines are classified correctly")
