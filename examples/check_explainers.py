"""Run `check_explainer` on algorithms of PyG and of graphfaith, and print which checks each of them fails."""

import logging
import warnings

from torch_geometric.explain import algorithm as pyg

import graphfaith as gf
from graphfaith.testing import check_explainer

EXPLAINERS = {
    "graphfaith KEC": lambda: gf.KEC("U(A,0.5)", num_samples=50),
    "graphfaith GNNExplainer": lambda: gf.GNNExplainer(epochs=5),
    "PyG GNNExplainer": lambda: pyg.GNNExplainer(epochs=5),
    "PyG CaptumExplainer, Saliency": lambda: pyg.CaptumExplainer("Saliency"),
    "PyG CaptumExplainer, IntegratedGradients": lambda: pyg.CaptumExplainer("IntegratedGradients"),
    "PyG DummyExplainer": pyg.DummyExplainer,
}


def main() -> None:
    print("| algorithm | passed | not applicable | failed | which |")
    print("|---|---|---|---|---|")
    for name, make in EXPLAINERS.items():
        results = check_explainer(make, raises=False)
        failed = [result.name for result in results if result.passed is False]
        passed, not_applicable = (sum(result.passed is kind for result in results) for kind in (True, None))
        print(f"| {name} | {passed} | {not_applicable} | {len(failed)} | {', '.join(failed)} |")


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # PyG also logs an error for every input that it does not support
    warnings.simplefilter("ignore")
    main()
