"""Compare GNNExplainer on Cora with and without the edges that carry no message; the paper drops them.

python examples/silent_edges.py [start:stop:step]
"""

import sys

import torch
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith._base.selection import parse_nodes
from graphfaith.data.models import load_trained
from graphfaith.metric import pool

torch.set_num_threads(1)
cora = load_trained("cora")
nodes = parse_nodes(sys.argv[1] if len(sys.argv) > 1 else "0:1000:5")
NEAR = ("U(A,0.5)", "B(A,0.5)")


def mean_delta(near: str, hard: bool, silent: str) -> str:
    """Delta(p) of GNNExplainer over the nodes, with its error."""
    explainer = Explainer(
        cora.model,
        algorithm=gf.GNNExplainer(hard=hard, silent=silent),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    found = (explainer(cora.data.x, cora.data.edge_index, index=node) for node in nodes)
    mean, error = pool([[gf.general_unfaithfulness(explainer, explanation, near).value for explanation in found]])
    return f"{mean:.3g} ± {error:.2g}"


print(f"| GNNExplainer | {' | '.join(NEAR)} |\n|---|---|---|")
for kind, hard in (("hard", True), ("soft", False)):
    for silent in ("drop", "keep"):
        print(f"| {kind}, {silent} | {' | '.join(mean_delta(near, hard, silent) for near in NEAR)} |", flush=True)
