"""A regression of molecules with edge features, and what its prediction loses without an atom."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, global_add_pool

from graphfaith._base.randomness import seeded
from graphfaith._base.threads import one_thread

EPOCHS = 60
HIDDEN = 32
BATCH_SIZE = 64
LAYERS = 3


class MoleculeNet(nn.Module):
    """Three layers of GINE, which read the kinds of bonds, a sum over each molecule and a linear layer.

    >>> net = MoleculeNet(14, 5)
    >>> net(torch.rand(3, 14), torch.tensor([[0, 1], [1, 2]]), torch.rand(2, 5)).shape
    torch.Size([1])
    """

    def __init__(self, in_channels: int, edge_channels: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.atoms = nn.Linear(in_channels, hidden)
        self.convs = nn.ModuleList(
            GINEConv(
                nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden)), edge_dim=edge_channels
            )
            for _ in range(LAYERS)
        )
        self.readout = nn.Linear(hidden, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor | None = None) -> Tensor:
        """Return logP of each molecule, [B]."""
        h = self.atoms(x)
        for conv in self.convs:
            h = conv(h, edge_index, edge_attr).relu()
        found: Tensor = self.readout(global_add_pool(h, batch)).squeeze(-1)
        return found


def train_molecule_net(train: Sequence[Data], *, epochs: int = EPOCHS, seed: int = 0) -> MoleculeNet:
    """Train a network on molecules with Adam, in one thread, by the mean square of its error."""
    with seeded(seed), one_thread():
        model = MoleculeNet(train[0].num_features, train[0].edge_attr.size(1))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 3e-3, total_steps=epochs * -(-len(train) // BATCH_SIZE)
        )
        for _ in range(epochs):
            order = torch.randperm(len(train)).tolist()
            for start in range(0, len(order), BATCH_SIZE):
                batch = Batch.from_data_list([train[i] for i in order[start : start + BATCH_SIZE]])
                optimizer.zero_grad()
                loss = F.mse_loss(model(batch.x, batch.edge_index, batch.edge_attr, batch.batch), batch.y)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
    return model.eval()


def explained_variance(model: nn.Module, molecules: Sequence[Data]) -> float:
    """Return R^2 of the predictions: 1 is exact, 0 is as good as the mean."""
    batch = Batch.from_data_list(list(molecules))
    with torch.no_grad():
        out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    return float(1 - (out - batch.y).square().mean() / batch.y.var(unbiased=False))


def effects_of_atoms(model: nn.Module, molecule: Data) -> Tensor:
    """Return what the prediction loses without each atom, [n]: F less F with its features 0 and without its bonds."""
    n, (source, target) = molecule.num_nodes, molecule.edge_index
    copies = []
    for atom in range(n):
        kept = (source != atom) & (target != atom)
        x = molecule.x.clone()
        x[atom] = 0
        copies.append(Data(x=x, edge_index=molecule.edge_index[:, kept], edge_attr=molecule.edge_attr[kept]))
    batch = Batch.from_data_list(
        [Data(x=molecule.x, edge_index=molecule.edge_index, edge_attr=molecule.edge_attr), *copies]
    )
    with torch.no_grad():
        out: Tensor = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    return (out[0] - out[1:]).double()
