"""What the tests of figures of merit share: small models of every level and mode, with a graph and an explanation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.explain.algorithm import DummyExplainer
from torch_geometric.nn import GAT, GCN, SAGEConv, global_mean_pool


class GraphModel(torch.nn.Module):
    def __init__(self, out: int = 3) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(SAGEConv(a, b, bias=False) for a, b in ((4, 6), (6, out)))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        x = torch.tanh(3 * self.convs[0](x, edge_index))
        return 3 * global_mean_pool(self.convs[1](x, edge_index), batch)


class LinkModel(torch.nn.Module):
    def __init__(self, features: int = 4) -> None:
        super().__init__()
        self.conv = SAGEConv(features, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        z = torch.tanh(self.conv(x, edge_index))
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=1)


def small_graph(seed: int = 0, nodes: int = 12, edges: int = 30) -> Data:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, nodes, (2, edges), generator=generator)
    index = index[:, index[0] != index[1]]
    index = torch.unique(torch.cat([index, index.flip(0)], dim=1), dim=1)
    return Data(x=torch.randn(nodes, 4, generator=generator), edge_index=index)


def setting(name: str, seed: int = 0) -> tuple[torch.nn.Module, Data, dict[str, str], int]:
    """A model, its graph, PyG's config and a row: gcn, gat, graph, link (binary) and regression."""
    data = small_graph(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        models = {
            "gcn": lambda: (GCN(4, 8, 2, 3), ("multiclass_classification", "node")),
            "gat": lambda: (GAT(4, 8, 2, 3), ("multiclass_classification", "node")),
            "regression": lambda: (GCN(4, 8, 2, 1), ("regression", "node")),
            "graph": lambda: (GraphModel(), ("multiclass_classification", "graph")),
            "link": lambda: (LinkModel(), ("binary_classification", "edge")),
        }
        model, (mode, level) = models[name]()
    if name == "link":
        data.edge_label_index = torch.tensor([[0, 1, 2], [3, 4, 5]])
    if name == "graph":
        data.batch = torch.arange(data.num_nodes) // 4
        data.edge_index = data.edge_index[:, data.batch[data.edge_index[0]] == data.batch[data.edge_index[1]]]
    return model.eval(), data, {"mode": mode, "task_level": level, "return_type": "raw"}, 0 if name == "graph" else 2


def arguments(data: Data) -> dict[str, Tensor]:
    return {name: data[name] for name in ("edge_label_index", "batch") if name in data}


def explained(name: str, seed: int = 0, index: int | None = -1, algorithm=None, nodes="attributes", kind="model"):
    """An Explainer and an explanation of it; by default by random masks."""
    model, data, config, row = setting(name, seed)
    explainer = Explainer(
        model,
        algorithm=algorithm or DummyExplainer(),
        explanation_type=kind,
        node_mask_type=nodes,
        edge_mask_type="object",
        model_config=config,
    )
    words = arguments(data)
    if kind == "phenomenon":
        out = model(data.x, data.edge_index, **words).detach()
        words["target"] = (out > 0).long() if out.dim() == 1 else out.roll(1, dims=-1).argmax(dim=-1)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        row = row if index == -1 else index
        return explainer, explainer(data.x, data.edge_index, index=row, **words)
