"""Every method on the two heterogeneous data sets: what it leaves unexplained, and whether it finds the motif.

python benchmarks/heterogeneous.py [--nodes 8] [--trainings 3] [--samples 300] [--json FILE] [--from FILE]

Relative Delta(p) is measured on samples of another seed than those of the fit, and pooled over nodes and trainings.
The error bar accounts for both. ROC-AUC is that of |score| of the edges in the computation graph against the edges of
the planted houses. "random" has scores as large as the gradient's, in random order of random sign; "zero" has none.
Rows that --json has stored are shown by --from.
"""

import argparse
import json
import sys
import warnings

import numpy as np
import torch

from graphfaith._base.errors import GraphfaithError, ReachWarning
from graphfaith._base.files import check_output, write_file
from graphfaith.data.heterogeneous import HETEROGENEOUS_DATASETS, LABELLED
from graphfaith.data.models import load_trained
from graphfaith.facade.subject import Options
from graphfaith.facade.typed import TypedSubject
from graphfaith.metric.pooling import pool, pool_ratio
from graphfaith.metric.truth import roc_auc
from graphfaith.metric.unfaithfulness import residuals_of
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.surrogate.difference import LinearModel

METHODS = (
    *("anchored-kec", "kec", "linear", "saliency", "ig-zero", "gnnexplainer-soft", "gnnexplainer", "pgexplainer"),
    *("random", "zero"),
)
NEAR = {
    "hetero-ba-shapes": ("U(A,0.5)", "B(A,0.5)"),
    "cora-bibliography": ("U(A,0.5)", "B(A,0.5)", "U(X,0.2r)"),
}


def nodes_of(name, data, count):
    """The nodes to explain: motif nodes of the houses, or test papers, evenly spread."""
    own = data[LABELLED[name]]
    which = (own.y > 0) if name == "hetero-ba-shapes" else own.test_mask
    places = which.nonzero().view(-1)
    return places[torch.linspace(0, len(places) - 1, count).long()].tolist()


def shuffled(p, seed):
    """The gradient's scores in random order, each with a random sign."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for scores in (p.phi_x, p.phi_a):
        flat = scores.flatten()
        sign = torch.randint(0, 2, flat.shape, generator=generator) * 2 - 1
        parts.append((flat[torch.randperm(len(flat), generator=generator)] * sign).view_as(scores))
    return LinearModel(p.graph, *parts)


def fit(method, subject, target, near, saliency, seed):
    """A method's p and its scores of edges."""
    if method in ("random", "zero"):
        p = shuffled(saliency, seed) if method == "random" else LinearModel(target.computation_graph)
        return p, p.phi_a
    algorithm = subject.explainer(method, near).algorithm
    p = algorithm.fit(target)
    return p, algorithm.scores(p)[1]


def run_node(name, subject, node, options):
    """Rows of one node: relative Delta's two parts by neighbourhood and method, and the motif's ROC-AUC."""
    data, rows, target = subject.data, [], subject.target(node)
    graph = target.computation_graph
    saliency = LinearModel(graph, *target.gradient())
    truth = None
    if name == "hetero-ba-shapes":
        truth = torch.cat([data[kind].edge_label for kind in data.edge_types])
    for text in NEAR[name]:
        near = as_neighborhood(text)
        fits = {}
        for method in options.methods:
            try:
                fits[method] = fit(method, subject, target, near, saliency, node)
            except GraphfaithError as error:
                print(f"{name} {node} {text} {method}: {error}", file=sys.stderr)
        left, change = residuals_of(target, [p for p, _ in fits.values()], near, num_samples=options.samples, seed=1)
        for (method, (_, scores)), residual in zip(fits.items(), left, strict=True):
            auc = None
            if truth is not None:
                plain = (graph.edge_id >= 0) & graph.felt
                marked = truth[graph.edge_id[plain]]
                auc = roc_auc(scores.double().abs()[plain], marked).value if 0 < marked.sum() < len(marked) else None
            delta, zero = float(residual.square().mean()), float(change.square().mean())
            # Five digits are kept, in memory too, so that a table is the same from the file.
            kept = {"delta": delta, "zero": zero, **({} if auc is None else {"auc": auc})}
            rows.append({"near": text, "method": method, **{key: float(f"{value:.5g}") for key, value in kept.items()}})
    return rows


def run(options):
    """All rows."""
    rows = []
    for name in options.datasets:
        for seed in range(options.trainings):
            trained = load_trained(name, seed=seed)
            data = trained.data
            subject = TypedSubject(trained.model, data, LABELLED[name], "node", None, None, Options())
            for node in nodes_of(name, data, options.nodes):
                about = {"dataset": name, "training": seed, "node": node, "accuracy": trained.test_accuracy}
                rows += [{**about, **row} for row in run_node(name, subject, node, options)]
                print(name, seed, node, file=sys.stderr, flush=True)
    return rows


def pooled(rows, read):
    """A table [trainings][nodes] of one cell."""
    trainings, nodes = (sorted({row[key] for row in rows}) for key in ("training", "node"))
    found = {(row["training"], row["node"]): read(row) for row in rows}
    return np.array([[found.get((a, b), np.nan) for b in nodes] for a in trainings], dtype=float)


def cells(rows):
    """Pooled numbers by data set, method and column."""
    found = {}
    for name in dict.fromkeys(row["dataset"] for row in rows):
        for method in dict.fromkeys(row["method"] for row in rows):
            for near in dict.fromkeys(row["near"] for row in rows if row["dataset"] == name):
                chosen = [r for r in rows if (r["dataset"], r["method"], r["near"]) == (name, method, near)]
                if not chosen:
                    continue
                tables = (pooled(chosen, lambda row: row["delta"]), pooled(chosen, lambda row: row["zero"]))
                found[name, method, near] = pool_ratio(*tables)
                aucs = pooled(chosen, lambda row: row.get("auc", np.nan))
                if not np.isnan(aucs).all():
                    found[name, method, f"AUC, {near}"] = pool(aucs)
    return found


def markdown(rows):
    """The tables of docs/heterogeneous.md."""
    found, lines = cells(rows), []
    for name in dict.fromkeys(key[0] for key in found):
        columns = list(dict.fromkeys(key[2] for key in found if key[0] == name))
        accuracy = sorted({row["accuracy"] for row in rows if row["dataset"] == name})
        lines += [f"`{name}`, test accuracy {accuracy[0]:.3f} to {accuracy[-1]:.3f}:", ""]
        lines += [f"| method | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 1)]
        for method in dict.fromkeys(key[1] for key in found if key[0] == name):
            cell = (found.get((name, method, column)) for column in columns)
            shown = ("-" if one is None else f"{one[0]:.3g} ± {one[1] or 0:.2g}" for one in cell)
            lines.append(f"| {method} | {' | '.join(shown)} |")
        lines.append("")
    return "\n".join(lines)


def main():
    """Run, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--trainings", type=int, default=3)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--json")
    parser.add_argument("--from", dest="source", help="show rows that were stored by --json")
    parser.add_argument("--datasets", nargs="+", default=list(HETEROGENEOUS_DATASETS), choices=HETEROGENEOUS_DATASETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    options = parser.parse_args()
    target = check_output(options.json, (".json",)) if options.json else None
    if options.source:
        with open(options.source, encoding="utf-8") as file:
            rows = json.load(file)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReachWarning)
            rows = run(options)
    if target is not None:
        write_file(target, json.dumps(rows, separators=(",", ":")).replace("},{", "},\n{").encode() + b"\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()
