"""What the tests of several rooms share: every method, made small, and called by PyG's own Explainer."""

from __future__ import annotations

import pytest
from torch_geometric.explain import Explainer

import graphfaith as gf
from reference import Case

METHODS = {
    "anchored-kec": lambda near="U(A,0.5)": gf.AnchoredKEC(near, num_samples=60),
    "kec": lambda near="U(A,0.5)": gf.KEC(near, num_samples=30),
    "linear": lambda near="U(A,0.5)": gf.Linear(near, num_samples=30),
    "saliency": lambda near=None: gf.Saliency(),
    "ig-zero": lambda near=None: gf.IntegratedGradients(steps=10),
    "ig-random": lambda near=None: gf.IntegratedGradients(steps=10, baseline="random"),
    "ig-full": lambda near=None: gf.IntegratedGradients(steps=10, baseline="full"),
    "gnnexplainer": lambda near=None: gf.GNNExplainer(hard=True, epochs=5),
    "gnnexplainer-soft": lambda near=None: gf.GNNExplainer(epochs=5),
    "pgexplainer": lambda near=None: gf.PGExplainer(epochs=2, keep=0.4),
    "subgraphx": lambda near=None: gf.SubgraphX(max_nodes=3, num_samples=10, rollouts=3),
    "shapley": lambda near=None: gf.Shapley(num_samples=110),
}
SIGNED = ["anchored-kec", "kec", "linear", "saliency", "ig-zero", "ig-random", "ig-full"]
captum_speaks = pytest.mark.filterwarnings("ignore:Input Tensor")
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


def explainer_of(model, algorithm, node="attributes", edge="object", config=CONFIG, kind="model"):
    return Explainer(
        model,
        algorithm=algorithm,
        explanation_type=kind,
        node_mask_type=node,
        edge_mask_type=edge,
        model_config=config,
    )


def explain(case: Case, algorithm, **options):
    call = explainer_of(case.model, algorithm, **options)
    return call, call(case.x, case.edge_index, index=case.node, **case.kwargs)


def by_slope(algorithm):
    """Return a method whose scores are derivatives; those of AnchoredKEC are shares, if nothing else is said."""
    if hasattr(algorithm, "reading"):
        algorithm.reading = "slope"
    return algorithm
