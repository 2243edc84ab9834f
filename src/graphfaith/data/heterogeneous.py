"""Heterogeneous graphs: BA-Shapes with types, whose motifs are known, and Cora as a graph of papers and words."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from .ba_shapes import ba_shapes
from .motifs import make_generator
from .planetoid import planetoid

NUM_BASE, HOUSE = 300, 5
WORD_FEATURES = 32
_TYPES = ("circle", "square")
_WIDTHS = {"circle": 4, "square": 3}


def hetero_ba_shapes(seed: int = 0) -> HeteroData:
    """Generate BA-Shapes with circles and squares, in which the class of a circle depends on the types around it.

    The graph is that of :func:`ba_shapes`. Nodes of the base are circles or squares at random. In every second house
    the roof is a circle and in the others a square; the middle is always of circles and the bottom of squares. Circles
    are of class 1 in the middle of a house with a round roof, of class 2 as its roof, and else of class 0: a house with
    a square roof is a decoy. All features are 1. Edges have the type of their ends, as ("circle", "to", "square"), and
    ``edge_label`` is 1 for those of houses with a round roof.

    Circles have ``y``, ``train_mask``, ``val_mask`` and ``test_mask``. The same seed gives the same tensors.

    Example:
        >>> data = hetero_ba_shapes()
        >>> data["circle"].y.bincount().tolist()[1:], len(data.edge_types)
        ([80, 40], 4)
    """
    plain = ba_shapes(seed)
    rng = make_generator(seed)
    square = [rng.random() < 0.5 for _ in range(NUM_BASE)]
    label = [0] * NUM_BASE
    for house in range((plain.num_nodes - NUM_BASE) // HOUSE):
        decoy = house % 2 == 1
        square += [False, False, True, True, decoy]
        label += [0] * HOUSE if decoy else [1, 1, 0, 0, 2]
    kind = torch.tensor(square).long()
    place = torch.zeros(plain.num_nodes, dtype=torch.int64)
    for number in range(len(_TYPES)):
        place[kind == number] = torch.arange(int((kind == number).sum()))
    data = HeteroData()
    for number, name in enumerate(_TYPES):
        data[name].x = torch.ones(int((kind == number).sum()), _WIDTHS[name])
    circles = kind == 0
    data["circle"].y = torch.tensor(label)[circles]
    for name in ("train_mask", "val_mask", "test_mask"):
        data["circle"][name] = plain[name][circles]
    source, sink = plain.edge_index
    # A house with a round roof has its number: an edge counts if it is one of a house, and of such a one.
    is_true = (plain.edge_label > 0) & (((source - NUM_BASE) // HOUSE) % 2 == 0)
    for a, first in enumerate(_TYPES):
        for b, second in enumerate(_TYPES):
            own = (kind[source] == a) & (kind[sink] == b)
            data[first, "to", second].edge_index = torch.stack([place[source[own]], place[sink[own]]])
            data[first, "to", second].edge_label = is_true[own].float()
    return data


def cora_bibliography() -> HeteroData:
    """Load Cora as a heterogeneous graph: papers that cite papers, and words that papers contain.

    Papers have one feature, which is 1, their class ``y`` and the public split; the words of a paper are no features
    here, but its neighbours. A word has 32 numbers that say with which others it occurs (latent semantic analysis).
    Edge types are ("paper", "cites", "paper"), in both directions as in Cora's files, ("word", "in", "paper") and
    ("paper", "contains", "word"). The files are those of :func:`planetoid`.

    Example:
        >>> cora = cora_bibliography()
        >>> cora["paper"].num_nodes, cora["word"].num_nodes
        (2708, 1433)
    """
    cora = planetoid("cora", normalize=False)
    paper, word = cora.x.nonzero().unbind(1)
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.ones(len(cora.x), 1), cora.y
    for name in ("train_mask", "val_mask", "test_mask"):
        data["paper"][name] = cora[name]
    data["word"].x = word_vectors(cora.x)
    data["paper", "cites", "paper"].edge_index = cora.edge_index
    data["word", "in", "paper"].edge_index = torch.stack([word, paper])
    data["paper", "contains", "word"].edge_index = torch.stack([paper, word])
    data.class_names = cora.class_names
    return data


def word_vectors(contains: Tensor, width: int = WORD_FEATURES) -> Tensor:
    """Return sqrt(n) V, where V are the ``width`` leading right singular vectors of ``contains`` [papers, n words].

    With random vectors of length 1 in their place the same model was hardly better than the largest class. The sign of
    a singular vector is arbitrary: its largest entry is positive here.

    >>> word_vectors(torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 2).square()
    tensor([[1.5000, 0.0000],
            [1.5000, 0.0000],
            [0.0000, 3.0000]])
    """
    counts = contains.double()
    _, vectors = torch.linalg.eigh(counts.T @ counts)  # in the order of rising eigenvalues
    leading = vectors.flip(1)[:, :width]
    largest = leading.gather(0, leading.abs().argmax(dim=0, keepdim=True))
    scaled: Tensor = leading * largest.sign() * len(leading) ** 0.5
    return scaled.float()


HETEROGENEOUS_DATASETS: dict[str, Callable[[int], HeteroData]] = {
    "hetero-ba-shapes": hetero_ba_shapes,
    "cora-bibliography": lambda seed: cora_bibliography(),  # noqa: ARG005
}
"""Generated and downloaded graphs with several types of nodes, and the functions that make them from a seed."""
LABELLED = {"hetero-ba-shapes": "circle", "cora-bibliography": "paper"}  # the type of nodes that has classes


def training_data(name: str, data: HeteroData) -> Data:
    """Return what a model is trained on: features and edges by type, and the classes of the nodes that have some."""
    labelled = data[LABELLED[name]]
    masks = {key: labelled[key] for key in ("train_mask", "val_mask", "test_mask")}
    return Data(x=data.x_dict, edge_index=data.edge_index_dict, y=labelled.y, **masks)
