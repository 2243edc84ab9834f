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
for near in ("U(A,0.5)", "B(A,0.5)"):
    for hard in (True, False):
        for silent in ("drop", "keep"):
            explainer = Explainer(
                cora.model,
                algorithm=gf.GNNExplainer(hard=hard, silent=silent),
                explanation_type="model",
                node_mask_type="attributes",
                edge_mask_type="object",
                model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
            )
            mean, error = pool(
                [
                    [
                        gf.general_unfaithfulness(
                            explainer, explainer(cora.data.x, cora.data.edge_index, index=v), near
                        ).value
                        for v in nodes
                    ]
                ]
            )
            kind = "hard" if hard else "soft"
            print(f"{near} {kind} {silent}: {mean:.3g} ± {error:.2g}")
