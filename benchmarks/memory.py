"""Compare what ``max_memory`` estimates with the memory that an explanation takes.

``python benchmarks/memory.py`` prints a table: for each case the least limit that is not refused, which is the estimate
of the need, and the peak memory under that limit and under larger ones. Each figure is measured in a new process. The
peak is the growth of the resident memory while a node is explained; it includes the index of the graph, but neither the
graph nor what Python and torch take. The table is to show that every peak is below its limit, and that the estimate is
at most about twice the peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT, GCN, GIN

import graphfaith as gf
from graphfaith._base.memory import format_size, parse_memory
from graphfaith_studies.bench.peak import MEGABYTE, measure_peak

CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
FAMILIES = {"GCN": GCN, "GIN": GIN, "GAT": GAT}

METHODS: dict[str, Callable[[str, int, int | None], Any]] = {
    "Saliency": lambda _near, _count, limit: gf.Saliency(max_memory=limit),
    "IG": lambda _near, _count, limit: gf.IntegratedGradients(steps=10, max_memory=limit),
    "KEC": lambda near, count, limit: gf.KEC(near, num_samples=count, max_memory=limit),
    "AnchoredKEC": lambda near, count, limit: gf.AnchoredKEC(near, num_samples=count, max_memory=limit),
    "Linear": lambda near, count, limit: gf.Linear(near, num_samples=count, max_memory=limit),
    "GNNExplainer": lambda _near, _count, limit: gf.GNNExplainer(epochs=3, max_memory=limit),
}

# graph, size, family, method, neighbourhood, samples
CASES: list[tuple[str, int, str, str, str, int]] = [
    *(("hub", 10**6, "GCN", method, "U(A,0.5)", 20) for method in ("Saliency", "KEC", "AnchoredKEC", "Linear")),
    *(("star", 10**5, "GCN", method, "U(A,0.5)", 20) for method in ("Saliency", "IG", "KEC", "AnchoredKEC", "Linear")),
    *(("hub", 10**5, "GIN", method, "B(A,0.5)", 20) for method in ("Saliency", "KEC", "AnchoredKEC", "Linear")),
    *(("star", 10**5, "GAT", method, "U(A,0.5)", 20) for method in ("KEC", "AnchoredKEC", "GNNExplainer")),
    *(("hub", 10**5, "GCN", method, "U(X,0.2r)xU(A,0.2)", 20) for method in ("KEC", "AnchoredKEC", "Linear")),
    ("hub", 10**4, "GAT", "AnchoredKEC", "U(X,0.2r)", 60),
    ("ring", 30, "GCN", "Linear", "U(A,0.5)", 40_000),
    ("ring", 30, "GCN", "Linear", "U(X,0.2r)xU(A,0.2)", 2_000),
    ("tangle", 3_000, "GCN", "Linear", "U(A,0.5)", 2_000),
]


def make_graph(kind: str, size: int) -> tuple[Tensor, Tensor]:
    """Return features and edges: a hub with ``size`` in-edges, the same in both directions, a ring, or random edges."""
    generator = torch.Generator().manual_seed(0)
    if kind in ("hub", "star"):
        edges = torch.stack([torch.arange(1, size + 1), torch.zeros(size, dtype=torch.long)])
        edges = edges if kind == "hub" else torch.cat([edges, edges.flip(0)], dim=1)
        return torch.rand(size + 1, 4, generator=generator), edges
    at = torch.arange(size)
    if kind == "ring":
        return torch.rand(size, 4, generator=generator), torch.stack([at, (at + 1) % size])
    edges = torch.randint(0, size, (2, 4 * size), generator=generator)
    return torch.rand(size, 4, generator=generator), edges[:, edges[0] != edges[1]]


def explain_graph(x: Tensor, edges: Tensor, family: str, algorithm: Any) -> None:
    """Explain node 0 by an algorithm, with classes that are given, so that only the algorithm runs the model."""
    torch.manual_seed(0)
    model = FAMILIES[family](4, 16, num_layers=2, out_channels=3).eval()
    explainer = Explainer(model, algorithm, "phenomenon", CONFIG, "attributes", "object")
    explainer(x, edges, target=torch.zeros(len(x), dtype=torch.long), index=0)


def measure(case: list[Any], limit: int | None) -> dict[str, Any]:
    """Return the peak megabytes of a case under a limit, or the need that it is refused with."""
    kind, size, family, method, near, count = case
    explain_graph(*make_graph("ring", 8), family, METHODS[method](near, 20, None))  # What happens once is not counted.
    x, edges = make_graph(kind, size)
    try:
        peak = measure_peak(lambda: explain_graph(x, edges, family, METHODS[method](near, count, limit)))
    except gf.MemoryLimitError as error:
        return {"refused": str(error)}
    return {"peak": peak}


def measure_apart(case: tuple[Any, ...], limit: int | None) -> dict[str, Any]:
    """Return :func:`measure`, run in a new process."""
    command = [sys.executable, __file__, "--one", json.dumps([case, limit])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def find_need(case: tuple[Any, ...]) -> int:
    """Return the least limit that is not refused, within the rounding of the refusals of smaller ones."""
    limit = 1
    while True:
        result = measure_apart(case, limit)
        if "refused" not in result:
            return limit
        need = parse_memory(result["refused"].partition("needs about ")[2].partition(", more than")[0].rstrip("bytes "))
        assert need is not None
        limit = max(limit + 1, need + need // 20 + 1)  # the message has two digits


def main() -> None:
    """Print the table, or measure one case if the command line says which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="a case and a limit as JSON, measured in this process")
    parser.add_argument("--only", default="", help="a part of the names of the cases to measure")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    print(f"{'case':58} {'need':>8} {'peak':>8} {'need/peak':>9}  peaks under larger limits")
    for case in CASES:
        kind, size, family, method, near, count = case
        name = f"{kind} {size}, {family}, {method}, {near}, {count} samples"
        if options.only not in name:
            continue
        need = find_need(case)
        peak = measure_apart(case, need)["peak"] * MEGABYTE
        larger = []
        for limit in (2 * need, None):
            found = measure_apart(case, limit)["peak"] * MEGABYTE
            over = " OVER" if limit is not None and found > limit else ""
            larger.append(f"{format_size(found)} of {'no limit' if limit is None else format_size(limit)}{over}")
        over = " OVER" if peak > need else ""
        print(
            f"{name:58} {format_size(need):>8} {format_size(peak):>8}{over} {need / peak:9.2f}  {'; '.join(larger)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
