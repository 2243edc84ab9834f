"""Try `check_explainer` on PyG's own algorithms, and on two of graphfaith's: which checks does each one fail?"""

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
        passed, beside = (sum(result.passed is kind for result in results) for kind in (True, None))
        print(f"| {name} | {passed} | {beside} | {len(failed)} | {', '.join(failed)} |")


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # PyG says there, too, what it does not support
    warnings.simplefilter("ignore")
    main()
