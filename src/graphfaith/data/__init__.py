"""Data sets by name. BA-Shapes, Tree-Cycles and Tree-Grid are generated, the others downloaded and verified.

`ba_2motifs` and `crippen` are sets of graphs, not one graph, so that they have functions of their own. `load_trained`
has the paper's models of the others, trained.
"""

from .ba_2motifs import ba_2motifs
from .ba_shapes import ba_shapes
from .crippen import Molecules, crippen
from .heterogeneous import HETEROGENEOUS_DATASETS, cora_bibliography, hetero_ba_shapes
from .heterophilous import heterophilous
from .models import Trained, load_trained
from .named import DATASETS, HETEROPHILOUS_DATASETS, MOTIF_DATASETS, load_dataset
from .planetoid import planetoid
from .trees import tree_cycles, tree_grid
from .verified import cache_folder

__all__ = [
    "DATASETS",
    "HETEROGENEOUS_DATASETS",
    "HETEROPHILOUS_DATASETS",
    "MOTIF_DATASETS",
    "Molecules",
    "Trained",
    "ba_2motifs",
    "ba_shapes",
    "cache_folder",
    "cora_bibliography",
    "crippen",
    "hetero_ba_shapes",
    "heterophilous",
    "load_dataset",
    "load_trained",
    "planetoid",
    "tree_cycles",
    "tree_grid",
]
