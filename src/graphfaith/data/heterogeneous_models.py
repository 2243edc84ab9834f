"""Models of the heterogeneous data sets: convolutions of each edge type side by side."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphConv, HeteroConv, SAGEConv

from ..graph.kinds import EdgeType

Features = dict[str, Tensor]
Edges = dict[EdgeType, Tensor]


class ShapesModel(nn.Module):
    """Three rounds of weighted sums over the neighbours of each edge type, which are L2-normalised and concatenated.

    Its forward takes edge weights by type, so that A is the edge weight.
    """

    def __init__(self, data: HeteroData, num_classes: int = 3, hidden_channels: int = 20) -> None:
        super().__init__()
        widths = {name: data[name].x.size(1) for name in data.node_types}
        convs = []
        for _ in range(3):
            layers = {
                kind: GraphConv((widths[kind[0]], widths[kind[2]]), hidden_channels, aggr="add")
                for kind in data.edge_types
            }
            convs.append(HeteroConv(layers, aggr="sum"))
            widths = dict.fromkeys(widths, hidden_channels)
        self.convs, self.readout = nn.ModuleList(convs), nn.Linear(3 * hidden_channels, num_classes)

    def forward(self, x_dict: Features, edge_index_dict: Edges, edge_weight_dict: Edges | None = None) -> Tensor:
        """Return the class logits of the circles."""
        given: dict[str, Edges] = {} if edge_weight_dict is None else {"edge_weight_dict": edge_weight_dict}
        seen = []
        for conv in self.convs:
            rows = conv(x_dict, edge_index_dict, **given)
            x_dict = {name: F.normalize(h, dim=-1).relu() for name, h in rows.items()}
            seen.append(x_dict["circle"])
        logits: Tensor = self.readout(torch.cat(seen, dim=-1))
        return logits


class BibliographyModel(nn.Module):
    """Two rounds of means over the neighbours of each edge type, with dropout between them.

    Its forward takes no edge weights: an edge whose entry of A is 0 is removed.
    """

    def __init__(self, data: HeteroData, num_classes: int = 7, hidden_channels: int = 32, dropout: float = 0.5) -> None:
        super().__init__()
        widths = {name: data[name].x.size(1) for name in data.node_types}
        first = {kind: SAGEConv((widths[kind[0]], widths[kind[2]]), hidden_channels) for kind in data.edge_types}
        second = {kind: SAGEConv(hidden_channels, hidden_channels) for kind in data.edge_types}
        self.conv1, self.conv2 = HeteroConv(first, aggr="sum"), HeteroConv(second, aggr="sum")
        self.readout, self.dropout = nn.Linear(hidden_channels, num_classes), dropout

    def forward(self, x_dict: Features, edge_index_dict: Edges) -> Tensor:
        """Return the class logits of the papers."""
        h = {
            name: F.dropout(rows.relu(), self.dropout, self.training)
            for name, rows in self.conv1(x_dict, edge_index_dict).items()
        }
        papers = self.conv2(h, edge_index_dict)["paper"].relu()
        logits: Tensor = self.readout(F.dropout(papers, self.dropout, self.training))
        return logits
