"""Explainers of others by name, as they are: PyG's own, and Captum's by PyG's wrapper, with their default settings.

Each works on a copy of the model, and on the computation graph of the row, on which the model answers as on the whole
graph. PGExplainer alone is given the whole graph: it reads the last layer's output at every node, which a computation
graph has right at the explained node only. SubgraphX, in PyG's own form not there, is the one of this library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.explain import algorithm as pyg

from .._base.errors import UnsupportedError
from ..model.layers import message_passing_layers
from .algorithm import Algorithm, TrainedAlgorithm
from .entrants import Entrant

SHAPLEY_SAMPLES = 5  # permutations that Captum draws; each takes one call of the model for every edge


def _captum(method: str, **options: Any) -> Callable[[torch.nn.Module], Any]:
    def make(model: torch.nn.Module) -> Any:  # noqa: ARG001
        try:
            return pyg.CaptumExplainer(method, **options)
        except ImportError as error:
            raise UnsupportedError("Captum's methods need captum: pip install captum") from error

    return make


def _graphmask(model: torch.nn.Module) -> Any:
    return pyg.GraphMaskExplainer(len(message_passing_layers(model)), log=False)


PEERS: dict[str, Callable[[], Entrant]] = {
    "pyg-gnnexplainer": lambda: Algorithm("pyg-gnnexplainer", lambda model: pyg.GNNExplainer()),  # noqa: ARG005
    "pyg-pgexplainer": lambda: TrainedAlgorithm("pyg-pgexplainer", lambda model: pyg.PGExplainer(epochs=30)),  # noqa: ARG005
    "pyg-graphmask": lambda: Algorithm("pyg-graphmask", _graphmask),
    "pyg-attention": lambda: Algorithm("pyg-attention", lambda model: pyg.AttentionExplainer(), edges_only=True),  # noqa: ARG005
    "pyg-dummy": lambda: Algorithm("pyg-dummy", lambda model: pyg.DummyExplainer()),  # noqa: ARG005
    "captum-saliency": lambda: Algorithm("captum-saliency", _captum("Saliency")),
    "captum-ig": lambda: Algorithm("captum-ig", _captum("IntegratedGradients")),
    "captum-deconvolution": lambda: Algorithm("captum-deconvolution", _captum("Deconvolution")),
    "captum-inputxgradient": lambda: Algorithm("captum-inputxgradient", _captum("InputXGradient")),
    # A score of every feature would take a call of the model for each, so that only edges are scored.
    "captum-shapley": lambda: Algorithm(
        "captum-shapley", _captum("ShapleyValueSampling", n_samples=SHAPLEY_SAMPLES), edges_only=True
    ),
}
