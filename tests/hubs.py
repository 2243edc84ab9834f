"""A graph with a hub, as a person meets it: few links that matter, and many that say little."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from graphfaith.facade import Subject

FEATURES = ["gene", "network", "<b>word</b>", "learning"]
HOSTILE = '"><img src=x onerror="window.hit = 1">'


def hub_subject() -> Subject:
    """Node 0 has eight neighbours, of which node 1 has 60 more; the model's class at node 0 hangs by a thread."""
    torch.manual_seed(2)
    near = torch.tensor([[0] * 8, list(range(1, 9))])
    far = torch.tensor([[1] * 60, list(range(9, 69))])
    chain = torch.tensor([[2, 3, 4], [3, 69, 70]])
    ends = torch.cat([near, far, chain], dim=1)
    data = Data(x=torch.rand(71, 4).round(decimals=2), edge_index=torch.cat([ends, ends.flip(0)], dim=1))
    data.x[0, 3] = 0.0
    data.feature_names = FEATURES
    data.node_names = [HOSTILE if node == 5 else str(node) for node in range(71)]
    data.class_names = ["Genes", "Rules", "Nets"]
    model = GCN(4, 16, num_layers=2, out_channels=3).eval()
    with torch.no_grad():
        output = model(data.x, data.edge_index)[0]
        best, second = output.topk(2).indices.tolist()
        model.convs[-1].bias[second] += 0.999 * (output[best] - output[second])
    return Subject(model, data)
