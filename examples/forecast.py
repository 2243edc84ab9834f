"""Explain forecasts of sensor readings (regression), and compare the edge scores with the law behind the data.

python examples/forecast.py [--predictions 36] [--quick]
"""

import argparse
import time

import torch
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.data.advection import advection, expected
from graphfaith.metric import pool_ratio
from graphfaith_studies.showcase import train_forecaster

NEAR = "U(X,0.2r)xU(A,0.2)"
CONFIG = {"mode": "regression", "task_level": "node", "return_type": "raw"}
METHODS = {
    "KEC": lambda: gf.KEC(NEAR, num_samples=200),
    "KEC auto": lambda: gf.KEC(NEAR, num_samples=200, normalization="auto"),
    "Linear": lambda: gf.Linear(NEAR, num_samples=200),
    "Saliency": gf.Saliency,
    "IG (zero)": gf.IntegratedGradients,
    "IG (random)": lambda: gf.IntegratedGradients(baseline="random"),
    "IG (full)": lambda: gf.IntegratedGradients(baseline="full"),
}


def differentiate_law(data, node):
    """Return d y/d A_e for every edge e, where y is the next value of ``node`` by the law behind the data."""
    weight = torch.ones(data.num_edges, requires_grad=True)
    value = expected(data.x, data.edge_index, weight)[node, 0]
    return torch.autograd.grad(value, weight)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predictions", type=int, default=36, help="how many forecasts to explain")
    parser.add_argument("--quick", action="store_true", help="use a short recording, as a quick test")
    args = parser.parse_args()
    torch.set_num_threads(1)
    count = 4 if args.quick else args.predictions
    trained = train_forecaster(advection(num_steps=200 if args.quick else 1000), epochs=20 if args.quick else 40)
    process, model = trained.process, trained.model
    # Only nodes with two or more causes are explained. The steps are spread evenly over the test part.
    nodes = [v for v in range(len(process.pos)) if int(process.causes(v).sum()) >= 2]
    steps = process.splits()[2]
    cases = [(nodes[i * 7 % len(nodes)], steps[i * len(steps) // count]) for i in range(count)]
    truth = torch.cat([differentiate_law(process.step(step), node)[process.causes(node)] for node, step in cases])
    sizeable = truth.abs() > truth.abs().median()
    print(f"Test error {trained.test_error:.4f} (no change: {trained.persistence_error:.4f}, noise: 0.01).")
    print(f"{count} forecasts with {len(truth)} causes; sizeable are the {int(sizeable.sum())} above the median.\n")

    print("| method | signs right | correlation with the law | share off the causes | ", end="")
    print(f"relative Delta in {NEAR} | seconds |\n|---|---|---|---|---|---|")
    for name, method in METHODS.items():
        explainer = Explainer(model, method(), "model", CONFIG, "attributes", "object")
        masks, off, scores, seconds = [], [], [], 0.0
        first = process.step(cases[0][1])
        explainer(first.x, first.edge_index, index=cases[0][0])  # What is compiled is not counted.
        for node, step in cases:
            data, causes = process.step(step), process.causes(node)
            started = time.process_time()
            explanation = explainer(data.x, data.edge_index, index=node)
            seconds += time.process_time() - started
            masks.append(explanation.edge_mask[causes])
            off.append(float(explanation.edge_mask[~causes].abs().sum() / explanation.edge_mask.abs().sum()))
            scores.append(gf.general_unfaithfulness(explainer, explanation, NEAR, num_samples=500, seed=1))
        cause_scores = torch.cat(masks)
        signs = (cause_scores.sign() == truth.sign())[sizeable].double().mean()
        correlation = torch.corrcoef(torch.stack([cause_scores, truth]))[0, 1]
        ratio, error = pool_ratio([[s.value for s in scores]], [[s.delta_zero for s in scores]])
        row = [name, f"{100 * signs:.0f} %", f"{correlation:.2f}", f"{100 * sum(off) / count:.0f} %"]
        print("| " + " | ".join([*row, f"{ratio:.2g} ± {error:.1g}", f"{seconds / count:.3f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
