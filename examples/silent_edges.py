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


def in_words(deltas: list[float]) -> str:
    """Their mean over the nodes, with its error."""
    mean, error = pool([deltas])
    return f"{mean:.3g} ± {error:.2g}"


def measure(near: str, hard: bool, silent: str) -> list[gf.Unfaithfulness]:
    """Delta(p) of GNNExplainer at each node."""
    explainer = Explainer(
        cora.model,
        algorithm=gf.GNNExplainer(hard=hard, silent=silent),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    found = (explainer(cora.data.x, cora.data.edge_index, index=node) for node in nodes)
    return [gf.general_unfaithfulness(explainer, explanation, near) for explanation in found]


print(f"| GNNExplainer | {' | '.join(NEAR)} |\n|---|---|---|")
for kind, hard in (("hard", True), ("soft", False)):
    for silent in ("drop", "keep"):
        columns = [measure(near, hard, silent) for near in NEAR]
        cells = [in_words([one.value for one in column]) for column in columns]
        print(f"| {kind}, {silent} | {' | '.join(cells)} |", flush=True)
# Delta(0) is of F alone: the same whatever was explained.
cells = [in_words([one.delta_zero for one in column]) for column in columns]
print(f'| p = 0, "nothing changes" | {" | ".join(cells)} |')
