"""Explain a classifier of whole graphs: apply every method to BA-2Motifs and compare how well it finds the motif.

python examples/graph_classification.py [--graphs 30] [--quick]
"""

import argparse
import time

import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.data.ba_2motifs import ba_2motifs
from graphfaith.metric import pool, pool_ratio
from graphfaith_studies.showcase import train_motif_classifier

NEAR = "B(A,0.2)"
CONFIG = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
METHODS = {
    "KEC": lambda: gf.KEC(NEAR, num_samples=200),
    "KEC auto": lambda: gf.KEC(NEAR, num_samples=200, normalization="auto"),
    "Linear": lambda: gf.Linear(NEAR, num_samples=200),
    "Saliency": gf.Saliency,
    "IG (zero)": gf.IntegratedGradients,
    "IG (random)": lambda: gf.IntegratedGradients(baseline="random"),
    "IG (full)": lambda: gf.IntegratedGradients(baseline="full"),
    "GNNExplainer": lambda: gf.GNNExplainer(hard=True),
    "GNNExplainer (soft)": gf.GNNExplainer,
    "PGExplainer": lambda: gf.PGExplainer(keep=0.2),
}


def format_mean(values):
    """Return the mean over graphs and its standard error as text."""
    mean, error = pool([values])
    return f"{mean:.2f}" if error is None else f"{mean:.2f} ± {error:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=30, help="how many graphs to explain")
    parser.add_argument("--pooling", default="attention", choices=("mean", "max", "attention"))
    parser.add_argument("--quick", action="store_true", help="use a small data set and three graphs, as a quick test")
    args = parser.parse_args()
    torch.set_num_threads(1)
    count, available, epochs = (3, 200, 30) if args.quick else (args.graphs, 1000, 60)
    trained = train_motif_classifier(ba_2motifs(available), pooling=args.pooling, epochs=epochs)
    model, batch = trained.model, Batch.from_data_list(trained.graphs.test)
    with torch.no_grad():
        prediction = model(batch.x, batch.edge_index, batch=batch.batch).argmax(dim=1)
    graphs = (prediction == batch.y).nonzero().view(-1).tolist()[:count]
    print(f"Test accuracy {100 * trained.test_accuracy:.1f} %, {len(graphs)} graphs explained.\n")

    graph_of_edge = batch.batch[batch.edge_index[0]]
    print(f"| method | AUC of the motif | relative Delta in {NEAR} | seconds a graph |\n|---|---|---|---|")
    for name, method in METHODS.items():
        explainer = Explainer(model, method(), "model", CONFIG, "attributes", "object")
        auc, scores = [], []
        if name != "PGExplainer":  # What is compiled at the first graph is not counted.
            list(gf.explain_nodes(explainer, batch.x, batch.edge_index, graphs[:1], batch=batch.batch))
        started = time.process_time()
        if name == "PGExplainer":
            # PGExplainer has one network for all graphs. It is trained on graphs that are not explained here.
            others = [graph for graph in range(len(batch.y)) if graph not in graphs][:count]
            inputs = {"target": prediction, "batch": batch.batch}
            explainer.algorithm.train_on(model, batch.x, batch.edge_index, others, **inputs)
        explanations = list(gf.explain_nodes(explainer, batch.x, batch.edge_index, graphs, batch=batch.batch))
        seconds = (time.process_time() - started) / len(graphs)
        for graph, explanation in zip(graphs, explanations, strict=True):
            in_graph = graph_of_edge == graph
            auc.append(roc_auc_score(batch.motif_edge[in_graph], explanation.edge_mask[in_graph].abs()))
            scores.append(gf.general_unfaithfulness(explainer, explanation, NEAR, num_samples=500, seed=1))
        ratio, error = pool_ratio([[s.value for s in scores]], [[s.delta_zero for s in scores]])
        print(f"| {name} | {format_mean(auc)} | {ratio:.2g} ± {error:.1g} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
