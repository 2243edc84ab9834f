"""Keep what every method computes, and compare it later: a change of the code's form must not change a number.

Scores and Delta(p) of every method in four neighbourhoods at 40 nodes (links, graphs) of five models: the paper's GCNs
on BA-Shapes and Cora, a GAT on Cora, a graph classifier and a link predictor.

    python benchmarks/same_numbers.py keep before.npz
    python benchmarks/same_numbers.py compare before.npz

Models in single precision show what a user sees. In double precision (``--double``) the rounding of F is out of the
way, so that a difference is one of the method.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GAT

import graphfaith as gf
from graphfaith.data.models import load_trained, train
from graphfaith_studies.showcase import train_link_predictor, train_motif_classifier

COUNT, SAMPLES, SCORED = 40, 60, 100
EDGES = ("U(A,0.5)", "B(A,0.5)", "U(A,0.2)", "B(A,0.2)")
BOTH = ("U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.5r)xU(A,0.5)")
FITTED = {
    "AnchoredKEC": lambda near: gf.AnchoredKEC(near, num_samples=SAMPLES, seed=0),
    "KEC": lambda near: gf.KEC(near, num_samples=SAMPLES, seed=0),
    "KEC auto": lambda near: gf.KEC(near, num_samples=SAMPLES, seed=0, normalization="auto", solver="ridge"),
    "Linear": lambda near: gf.Linear(near, num_samples=SAMPLES, seed=0),
}
OTHERS = {
    "Saliency": lambda: gf.Saliency(),
    "IG (zero)": lambda: gf.IntegratedGradients(steps=10, baseline="zero"),
    "IG (random)": lambda: gf.IntegratedGradients(steps=10, baseline="random", seed=0),
    "IG (full)": lambda: gf.IntegratedGradients(steps=10, baseline="full"),
    "GNNExplainer": lambda: gf.GNNExplainer(hard=True, epochs=20, seed=0),
    "GNNExplainer (soft)": lambda: gf.GNNExplainer(epochs=20, seed=0),
    "PGExplainer": lambda: gf.PGExplainer(epochs=5, seed=0),
    "SubgraphX": lambda: gf.SubgraphX(max_evaluations=500, seed=0),
}


class Subject(NamedTuple):
    """A model on a graph, the rows of its output to explain, and PyG's words for what they are."""

    model: torch.nn.Module
    x: torch.Tensor
    edge_index: torch.Tensor
    rows: list[int]
    near: tuple[str, ...]
    mode: str = "multiclass_classification"
    level: str = "node"
    kwargs: Mapping[str, Any] = MappingProxyType({})


def subjects() -> Iterator[tuple[str, Subject]]:
    shapes, cora = load_trained("ba-shapes"), load_trained("cora")
    yield "ba-shapes", Subject(shapes.model, shapes.data.x, shapes.data.edge_index, _spread(range(300, 700)), EDGES)
    rows = _spread(range(2708))
    yield "cora", Subject(cora.model, cora.data.x, cora.data.edge_index, rows, BOTH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        attention = GAT(cora.data.num_features, 8, num_layers=2, out_channels=7, heads=2)
    train(attention, cora.data, epochs=20)
    yield "gat", Subject(attention, cora.data.x, cora.data.edge_index, rows, BOTH)
    motifs = train_motif_classifier(epochs=10)
    batch = Batch.from_data_list(motifs.graphs.test[:COUNT])
    yield (
        "graphs",
        Subject(
            motifs.model,
            batch.x,
            batch.edge_index,
            list(range(COUNT)),
            EDGES,
            level="graph",
            kwargs={"batch": batch.batch},
        ),
    )
    links = train_link_predictor(epochs=30)
    test = links.links.test
    chosen = _spread(range(test.edge_label_index.size(1)))
    yield (
        "links",
        Subject(
            links.model,
            test.x,
            test.edge_index,
            chosen,
            BOTH,
            "binary_classification",
            "edge",
            {"edge_label_index": test.edge_label_index},
        ),
    )


def _spread(rows: range) -> list[int]:
    return [rows[place * len(rows) // COUNT] for place in range(COUNT)]


def numbers(double: bool, only: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Scores and Delta, by what they are of; ``double`` takes rounding out of the comparison."""
    for name, subject in subjects():
        if only and name not in only:
            continue
        if double:
            subject = subject._replace(model=subject.model.double(), x=subject.x.double())
        for near in subject.near:
            for method, make in FITTED.items():
                print(name, near, method, file=sys.stderr)
                yield from _of(f"{name} | {near} | {method}", subject, make(near), (near,))
        for method, make_other in OTHERS.items():
            print(name, method, file=sys.stderr)
            yield from _of(f"{name} | {method}", subject, make_other(), subject.near)


def _of(key: str, subject: Subject, algorithm: Any, nears: tuple[str, ...]) -> Iterator[tuple[str, np.ndarray]]:
    config = {"mode": subject.mode, "task_level": subject.level, "return_type": "raw"}
    try:
        explainer = Explainer(subject.model, algorithm, "model", config, "attributes", "object")
    except gf.UnsupportedError:
        return
    generator = torch.Generator().manual_seed(0)
    along = torch.randn(subject.x.size(1), 3, generator=generator, dtype=torch.float64)
    found: dict[str, list[np.ndarray]] = {}
    for row in subject.rows:
        explanation = explainer(subject.x, subject.edge_index, index=row, **subject.kwargs)
        # Features are many: three random sums over the columns of a node stand for its scores.
        nodes = explanation.node_mask.double() @ along
        for part, scores in (
            ("nodes", nodes),
            ("edges", explanation.edge_mask),
            ("loops", explanation.self_loop_score),
        ):
            values = scores.double().flatten()
            places = values.nonzero().view(-1)
            found.setdefault(part, []).append(values[places].numpy())
            found.setdefault(f"{part}, where", []).append(places.double().numpy())
        for near in nears:
            score = gf.general_unfaithfulness(explainer, explanation, near, num_samples=SCORED, seed=1)
            found.setdefault(f"Delta in {near}", []).append(np.array([score.value, score.stderr, score.relative]))
        if explanation.get("estimate") is not None:
            found.setdefault("estimate", []).append(np.array([explanation.estimate.value, explanation.estimate.stderr]))
    for part, values in found.items():
        yield f"{key} | {part}", np.concatenate(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("keep", "compare"))
    parser.add_argument("file")
    parser.add_argument("--double", action="store_true", help="run the models in double precision")
    parser.add_argument("--only", nargs="*", default=[], help="names of models: ba-shapes, cora, gat, graphs, links")
    parser.add_argument("--tolerance", type=float, default=1e-12, help="of the largest number of its kind")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if args.what == "keep":
        np.savez_compressed(args.file, **dict(numbers(args.double, args.only)))
        return
    equal, near, others = 0, 0, []
    with np.load(args.file) as before:
        left = {key for key in before.files if not args.only or key.split(" | ")[0] in args.only}
        for key, now in numbers(args.double, args.only):
            left.discard(key)
            was = before[key] if key in before.files else np.zeros(0)
            if was.shape == now.shape and np.array_equal(was, now, equal_nan=True):
                equal += 1
                continue
            gap = np.inf
            if was.shape == now.shape:
                scale = np.abs(was[np.isfinite(was)]).max(initial=0.0)
                gap = float(np.abs(np.nan_to_num(now - was)).max() / scale) if scale else np.inf
            near += gap <= args.tolerance
            if gap > args.tolerance:
                others.append((key, gap))
    for key, gap in others:
        print(f"{key}: {gap:.2g}")
    for key in sorted(left):
        print(f"{key}: is gone")
    print(f"{equal} bit-equal, {near} within {args.tolerance:g}, {len(others)} others, {len(left)} gone")
    sys.exit(1 if others or left else 0)


if __name__ == "__main__":
    main()
