"""Scores of what a neighbourhood leaves still: how far do they follow F when it moves after all?

A method is fitted in a neighbourhood of edges, and its p is scored where features move: a little, where only the slope
of F counts, and by a fifth of their range. Beside it stands the gradient of F itself, which needs no fit, and
AnchoredKEC as its fit alone would have it, without the slope of F in what is still.

    python benchmarks/still.py [--nodes 20] [--json still.json]
"""

import argparse
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from ingredients import spread_over, table

import graphfaith as gf
from graphfaith._base.files import check_output
from graphfaith._base.progress import track
from graphfaith.data.models import load_trained
from graphfaith.explainers import anchored_kec
from graphfaith.metric import unfaithfulness_of
from graphfaith.view.report import write_json

NODES = range(0, 1000, 50)
FITTED, SCORED = ("U(A,0.5)", "B(A,0.5)"), ("U(X,0.002r)", "U(X,0.2r)")
FIT_ALONE = "AnchoredKEC, its fit alone"
METHODS = {"KEC": gf.KEC, FIT_ALONE: gf.AnchoredKEC, "AnchoredKEC": gf.AnchoredKEC}


def fit(name, near, target):
    """The p of a method."""
    if name == FIT_ALONE:
        # The compiled core anchors by itself, so that the fit has to go through the terms, where anchoring is a step.
        core = mock.patch.object(gf.AnchoredKEC, "_fit_in_core", return_value=None)
        with core, mock.patch.object(anchored_kec.Terms, "anchor", return_value=None):
            return METHODS[name](near).fit(target)
    return METHODS[name](near).fit(target)


def measure(count=None, dataset="cora"):
    """Relative Delta at each node: of each method fitted in each neighbourhood of edges, and of F's gradient."""
    made, results = load_trained(dataset), []
    for node in track(spread_over(NODES, count), "scoring", "nodes"):
        target = gf.Target(made.model, made.data.x, made.data.edge_index, node)
        models = {(name, near): fit(name, near, target) for name in METHODS for near in FITTED}
        models["the gradient of F", ""] = gf.Saliency().fit(target)
        for near in SCORED:
            scores = unfaithfulness_of(target, list(models.values()), near)
            results += [
                {"dataset": dataset, "node": node, "method": name, "fitted": fitted, "neighborhood": near}
                | {"relative": score.relative}
                for (name, fitted), score in zip(models, scores, strict=True)
            ]
    return results


def as_table(results):
    """The median and the largest share of F's change that is left, over nodes."""
    rows = []
    for name, fitted in dict.fromkeys((one["method"], one["fitted"]) for one in results):
        cells = []
        for near in SCORED:
            own = [one for one in results if (one["method"], one["fitted"]) == (name, fitted)]
            shares = [one["relative"] for one in own if one["neighborhood"] == near]
            cells += [f"{np.median(shares):.2g}", f"{max(shares):.2g}"]
        rows.append([name, fitted or "-", *cells])
    head = [f"{near}: {what}" for near in SCORED for what in ("median", "largest")]
    return table(["scores", "fitted in", *head], rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, help="how many nodes")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args(arguments)
    path = None if args.json is None else check_output(args.json, (".json",))
    torch.set_num_threads(1)
    results = measure(args.nodes)
    print(as_table(results))
    if path is not None:
        write_json(path, results)


if __name__ == "__main__":
    main()
