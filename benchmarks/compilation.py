"""What compiling the core costs on a machine where it was never used, in seconds of the processor.

Every line is what its step takes in the same process after the steps above it, with an empty cache, and then the same
in a new process that finds the machine code of the first one on disk. The first step, in both, also loads what Python
loads when it is first used, and proves the model on its parts.

python benchmarks/compilation.py
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.data import load_dataset

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
STEPS = [
    ("KEC, one node", gf.KEC, "U(A,0.5)", False),
    ("KEC, all nodes together", gf.KEC, "U(A,0.5)", True),
    ("KEC, edges removed", gf.KEC, "B(A,0.5)", False),
    ("KEC, features moved", gf.KEC, "U(X,0.2r)", False),
    ("AnchoredKEC, one node", gf.AnchoredKEC, "U(A,0.5)", False),
    ("AnchoredKEC, all nodes together", gf.AnchoredKEC, "U(A,0.5)", True),
    ("AnchoredKEC, features moved", gf.AnchoredKEC, "U(X,0.2r)", False),
]


def measure():
    """Return the seconds that each step takes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data, taken = load_dataset("cora"), []
    model = GCN(data.num_features, 16, 2, out_channels=7).eval()
    for _, algorithm, near, together in STEPS:
        started = time.process_time()
        explainer = Explainer(model, algorithm(near), "model", CONFIG, "attributes", "object")
        if together:
            gf.explain_all(explainer, data.x, data.edge_index, range(20), progress=False)
        else:
            list(gf.explain_nodes(explainer, data.x, data.edge_index, [3], progress=False, together=False))
        taken.append(time.process_time() - started)
    return taken


def measure_in_new_process(folder):
    """Return what :func:`measure` finds in a new process whose machine code is kept in this folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main():
    """Print the table."""
    if "--child" in sys.argv:
        print(json.dumps(measure()))
        return
    with tempfile.TemporaryDirectory() as folder:
        first, again = measure_in_new_process(folder), measure_in_new_process(folder)
    print("| step | first on a machine (s) | in a new process (s) |\n|---|---|---|")
    for (name, *_), one, other in zip(STEPS, first, again, strict=True):
        print(f"| {name} | {one:.1f} | {other:.2f} |")
    print(f"| all | {sum(first):.1f} | {sum(again):.2f} |")


if __name__ == "__main__":
    main()
