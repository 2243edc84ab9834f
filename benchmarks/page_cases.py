"""The pages that `page.py` times, written into a folder: python benchmarks/page_cases.py FOLDER

Older states of this project write theirs with this script too, so it imports nothing but what the library has long had.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith.data.models import load_trained
from graphfaith.facade import Subject

METHODS = ("anchored-kec", "kec", "saliency", "gnnexplainer-soft")


def of_dataset(name: str, node: int) -> list[Explanation]:
    fit = load_trained(name)
    subject = Subject(fit.model, fit.data)
    return [subject.explain(node, method, "B(A,0.5)") for method in METHODS]


def of_a_large_graph(num_nodes: int = 100_000) -> list[Explanation]:
    torch.manual_seed(0)
    later = torch.arange(1, num_nodes)
    ends = torch.stack([later, (later * torch.rand(num_nodes - 1) ** 3).long()])
    edge_index, x = torch.cat([ends, ends.flip(0)], dim=1), torch.rand(num_nodes, 16)
    model = GCN(16, 16, num_layers=2, out_channels=4).eval()
    subject = Subject(model, Data(x=x, edge_index=edge_index))
    return [subject.explainer(method)(x, edge_index, index=5) for method in ("kec", "saliency") * 2]


def of_a_dense_graph(num_nodes: int = 300) -> list[Explanation]:
    edge_index = torch.combinations(torch.arange(num_nodes)).T
    draw = torch.Generator().manual_seed(0)
    scores = [torch.randn(edge_index.size(1), generator=draw) for _ in range(4)]
    return [Explanation(edge_index=edge_index, edge_mask=one, index=0) for one in scores]


CASES: dict[str, Callable[[], list[Explanation]]] = {
    "Cora, node 42 (13 nodes)": lambda: of_dataset("cora", 42),
    "Cora, node 1358, the largest hub": lambda: of_dataset("cora", 1358),
    "BA-Shapes, node 500 (300 of 367 nodes)": lambda: of_dataset("ba-shapes", 500),
    "a graph of 100,000 nodes (300 shown)": of_a_large_graph,
    "300 nodes, all joined (2,000 of 44,850 edges)": of_a_dense_graph,
}


def make_pages(folder: Path) -> None:
    """Write the page of every case into a folder, and beside it the seconds of processor time that took."""
    for number, make in enumerate(CASES.values()):
        explanations = make()
        started_at = time.process_time()
        gf.page(explanations, folder / f"{number}.html")
        (folder / f"{number}.txt").write_text(str(time.process_time() - started_at))


if __name__ == "__main__":
    make_pages(Path(sys.argv[1]))
