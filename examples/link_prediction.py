"""Explain a link predictor on Cora: which edges make the model predict that two papers cite each other?

python examples/link_prediction.py [--links 20] [--quick]
"""

import argparse
import time

import torch
from torch_geometric.explain import Explainer
from torch_geometric.utils import degree

import graphfaith as gf
from graphfaith.metric import pool_ratio, unfaithfulness_of
from graphfaith_studies.showcase import train_link_predictor

NEAR = ("U(A,0.5)", "B(A,0.5)")
CONFIG = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"}
METHODS = {
    "KEC": lambda near: gf.KEC(near, num_samples=200),
    "KEC, 1000 samples": lambda near: gf.KEC(near, num_samples=1000),
    "Saliency": lambda _near: gf.Saliency(),
    "IG (zero)": lambda _near: gf.IntegratedGradients(),
    "IG (random)": lambda _near: gf.IntegratedGradients(baseline="random"),
    "IG (full)": lambda _near: gf.IntegratedGradients(baseline="full"),
    "GNNExplainer": lambda _near: gf.GNNExplainer(hard=True),
    "GNNExplainer (soft)": lambda _near: gf.GNNExplainer(),
}


def format_relative(scores):
    """Return mean Delta(p) / mean Delta(0) and its standard error over links as text."""
    ratio, error = pool_ratio([[s.value for s in scores]], [[s.delta_zero for s in scores]])
    return f"{ratio:.2g} ± {error:.2g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=20, help="how many links to explain")
    parser.add_argument(
        "--quick", action="store_true", help="train for ten epochs and explain two links, as a quick test"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    count = 2 if args.quick else args.links
    trained = train_link_predictor(epochs=10 if args.quick else 150)
    model, test = trained.model, trained.links.test
    pairs = {"edge_label_index": test.edge_label_index}
    with torch.no_grad():
        logits = model(test.x, test.edge_index, **pairs)
    hits = ((logits > 0) & (test.edge_label == 1)).nonzero().view(-1)
    if args.quick:  # Links between papers with few neighbours are explained fastest.
        ends = degree(test.edge_index[1], test.num_nodes)[test.edge_label_index[:, hits]]
        hits = hits[(ends == 2).all(dim=0)]
    links = hits[torch.linspace(0, len(hits) - 1, count).long()]
    print(f"Test AUC {trained.test_auc:.3f}; {count} of the {len(hits)} test links that are found are explained.\n")

    cells, seconds, explained = {name: [] for name in METHODS}, dict.fromkeys(METHODS, 0.0), {}
    for near in NEAR:
        for name, method in METHODS.items():
            if name in explained and not name.startswith("KEC"):
                continue  # Only KEC depends on the neighbourhood.
            explainer = Explainer(model, method(near), "model", CONFIG, "attributes", "object")
            list(gf.explain_nodes(explainer, test.x, test.edge_index, links[:1], **pairs))  # Compiling is not counted.
            started = time.process_time()
            explained[name] = list(gf.explain_nodes(explainer, test.x, test.edge_index, links, **pairs))
            seconds[name] = (time.process_time() - started) / count
        scores = []
        for link, *explanations in zip(links.tolist(), *explained.values(), strict=True):
            target = gf.Target(model, test.x, test.edge_index, link, mode=CONFIG["mode"], level="edge", **pairs)
            scores.append(
                unfaithfulness_of(target, [e.difference_model for e in explanations], near, num_samples=500, seed=1)
            )
        for name, column in zip(explained, zip(*scores, strict=True), strict=True):
            cells[name].append(format_relative(column))
    print("| method | " + " | ".join(f"relative Delta in {near}" for near in NEAR) + " | seconds a link |")
    print("|---|---|---|---|")
    for name in METHODS:
        print(f"| {name} | {' | '.join(cells[name])} | {seconds[name]:.3f} |")

    link, explanation = int(links[0]), explained["KEC, 1000 samples"][0]
    source, sink = test.edge_label_index[:, link].tolist()
    print(f"\nThe link {source} - {sink} (logit {logits[link]:.2f}): its strongest edges by KEC in {NEAR[1]}.\n")
    print("| edge | score |\n|---|---|")
    for edge in gf.top_edges(explanation, 5):
        print(f"| {edge.source} -> {edge.sink} | {edge.score:+.3f} |")


if __name__ == "__main__":
    main()
