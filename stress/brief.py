"""Every registered method in a short form: the same code with fewer samples, steps and epochs."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphfaith.explainers import GNNExplainer, IntegratedGradients, PGExplainer, SubgraphX
from graphfaith.explainers.methods import method_named, method_names, register_method

SHORT: dict[type, dict[str, Any]] = {
    GNNExplainer: {"epochs": 3},
    PGExplainer: {"epochs": 2},
    IntegratedGradients: {"steps": 5},
    SubgraphX: {"max_nodes": 3, "num_samples": 4, "rollouts": 2, "max_evaluations": 200},
}
PREFIX = "brief "


def brief_methods() -> list[str]:
    """Register a short form of each method, and return their names."""
    names = [name for name in method_names() if not name.startswith(PREFIX)]
    for name in names:
        method = method_named(name)
        register_method(PREFIX + name, partial(method.make, **SHORT.get(method.kind, {})), in_all=False)
    return [PREFIX + name for name in names]
