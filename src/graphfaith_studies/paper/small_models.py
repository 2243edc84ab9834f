"""Small graphs and networks on which the paper's propositions can be checked."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from graphfaith.model.target import Target

NODES, EDGES, FEATURES, HIDDEN, CLASSES = 12, 48, 4, 6, 3


class SmallGCN(nn.Module):
    r"""ReLU(N(A) ... ReLU(N(A) X W_0) ... W_{M-1}), in double precision.

    With ``normalize``, self-loops are added and N(A) divides by degrees; otherwise N(A) = A. Without ``relu`` there are
    no activations. With ``positive`` weights every unit is on wherever X and A are positive.
    """

    def __init__(
        self,
        depth: int,
        *,
        normalize: bool,
        relu: bool = True,
        positive: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        sizes = [FEATURES, *[HIDDEN] * (depth - 1), CLASSES]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.convs = nn.ModuleList(
                GCNConv(a, b, normalize=normalize, add_self_loops=normalize, bias=bias) for a, b in pairwise(sizes)
            )
            self.double()
            with torch.no_grad():
                for parameter in self.parameters():
                    if parameter.dim() == 1:  # The biases of GCNConv are zero by default.
                        parameter.copy_(0.3 * torch.rand(len(parameter), dtype=torch.float64))
                    if positive:
                        parameter.abs_().add_(0.1)
        self.relu = relu
        self.eval()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the output of the last layer, [n, classes]."""
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight)
            x = x.relu() if self.relu else x
        return x

    def pattern(self, x: Tensor, edge_index: Tensor, hop: Tensor) -> Tensor:
        """Return which units are on, among those that affect F.

        In the first layer these are the units of nodes up to M - 1 hops away, in the second up to M - 2, and so on.
        ``hop`` is the distance of each node from the explained one, [n].
        """
        states, depth = [], len(self.convs)
        with torch.no_grad():
            for layer, conv in enumerate(self.convs):
                x = conv(x, edge_index)
                states.append((x[hop < depth - layer] > 0).flatten())
                x = x.relu()
        return torch.cat(states)


def small_graph(*, positive: bool = False) -> tuple[Tensor, Tensor]:
    """Return features and edges of a random directed graph without self-loops and without repeated edges."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.tensor([(s, t) for s in range(NODES) for t in range(NODES) if s != t])
    edges = pairs[torch.randperm(len(pairs), generator=generator)[:EDGES]].T.contiguous()
    x = torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64)
    return (x.abs() + 0.1 if positive else x), edges


def small_target(model: SmallGCN, *, positive: bool = False, node: int | None = None) -> Target:
    """Return F, the largest output of a node.

    The default node is the one whose largest output is the largest of all, so that this output unit is on.
    """
    x, edges = small_graph(positive=positive)
    with torch.no_grad():
        outputs = model(x, edges)
    chosen = int(outputs.max(dim=1).values.argmax()) if node is None else node
    return Target(model, x, edges, chosen, int(outputs[chosen].argmax()))
