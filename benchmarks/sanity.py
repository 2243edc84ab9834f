"""Sanity checks of explanations: do they find the houses of BA-Shapes, do they follow the model's weights, and how much
of p is in the scores that a person sees?

python benchmarks/sanity.py [--check motifs] [--check weights] [--check scores] [--nodes 10] [--json FILE] [--quick]
"""

import argparse
import copy
import math

import numpy as np
import torch
from ingredients import spread_over, table
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import graphfaith as gf
from graphfaith._base.files import check_output
from graphfaith._base.progress import track
from graphfaith.data.models import BAShapesGCN, CitationGCN, load_trained
from graphfaith.explainers.methods import method_named
from graphfaith.facade import Subject
from graphfaith.metric import pool, unfaithfulness_of
from graphfaith.view.report import write_json

COMPARED = ("anchored-kec", "kec", "saliency")
NEAR = ("U(A,0.5)", "B(A,0.5)")
MIXED = ("U(X,0.2r)xU(A,0.2)",)
UNMOVED = "ba-shapes", MIXED[0]  # its features have no range to move in
MODEL_SEEDS = (0, 1, 2)
RANDOM_SEEDS = (1000, 1001, 1002, 1003, 1004)  # of the weights that replace trained ones
MOTIF_NODES = range(400, 700, 5)
NODES = {"ba-shapes": range(400, 700, 15), "cora": range(0, 1000, 25)}  # of the randomised models
SAMPLES = 200
FIRST_HOUSE, HOUSE = 300, 5  # the first node of a house, and how many nodes it has
QUICK = 4  # nodes


def edge_scores(model, data, nodes, method, near, labels):
    """For each node the places of the edges in its computation graph, and their scores; of the class in ``labels``."""
    algorithm = method_named(method).make_for(near, SAMPLES, 0)
    explainer = Subject(model, data, labels=labels).explainer_with(algorithm)
    for explanation in gf.explain_nodes(explainer, data.x, data.edge_index, nodes, target=labels, progress=False):
        graph = explanation.difference_model.graph
        places = graph.edge_id[: graph.num_plain]
        yield places, explanation.edge_mask[places].double().numpy()


def predicted(model, data):
    """The class of every node."""
    with torch.no_grad():
        return model.eval()(data.x, data.edge_index).argmax(dim=1)


def mean_of(values):
    """The mean of what is a number."""
    return pool([values])[0]


# Motifs -------------------------------------------------------------------------------------------------------------


def area(truth, scores):
    """The ROC-AUC, if there are edges of both kinds."""
    return float(roc_auc_score(truth, scores)) if 0 < truth.sum() < len(truth) else math.nan


def motifs(count=None, seeds=MODEL_SEEDS):
    """ROC-AUC of |score| for the edges of the node's own house, and for those of any house, at each node."""
    nodes, results = spread_over(MOTIF_NODES, count), []
    work = [(seed, near, method) for seed in seeds for near in NEAR for method in COMPARED]
    for seed, near, method in track(work, "finding motifs", "explainers"):
        made = load_trained("ba-shapes", seed=seed)
        data, labels = made.data, predicted(made.model, made.data)
        house = torch.where(data.edge_label == 1, (data.edge_index[0] - FIRST_HOUSE) // HOUSE, -1).numpy()
        own, every, right = [], [], []
        for node, (places, scores) in zip(
            nodes, edge_scores(made.model, data, nodes, method, near, labels), strict=True
        ):
            at = house[places.numpy()]
            own.append(area(at == (node - FIRST_HOUSE) // HOUSE, np.abs(scores)))
            every.append(area(at >= 0, np.abs(scores)))
            right.append(bool(labels[node] == data.y[node]))
        results.append(
            {
                "check": "motifs",
                "model_seed": seed,
                "test_accuracy": made.test_accuracy,
                "neighborhood": near,
                "method": method,
                "nodes": nodes,
                "right": right,
                "own_house": own,
                "any_house": every,
            }
        )
    return results


def motif_table(results):
    """The mean over nodes and models, with its error over both."""
    rows = []
    for near in NEAR:
        for method in COMPARED:
            found = [one for one in results if (one["neighborhood"], one["method"]) == (near, method)]
            cells = []
            for kind in ("own_house", "any_house"):
                each = ", ".join(f"{mean_of(one[kind]):.3f}" for one in found)
                mean, error = pool([one[kind] for one in found])
                cells += [f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}", each]
            rows.append([near, method, *cells])
    seeds = ", ".join(dict.fromkeys(str(one["model_seed"]) for one in results))
    head = ["neighbourhood", "method", "own house", f"models {seeds}", "any house", f"models {seeds}"]
    return table(head, rows)


# Weights ------------------------------------------------------------------------------------------------------------


def make_untrained(dataset, data, seed):
    """The data set's model as it is before training."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        fresh = BAShapesGCN() if dataset == "ba-shapes" else CitationGCN(data.num_features, int(data.y.max()) + 1)
    return fresh.eval()


def randomised(model, fresh):
    """(what was done, to which layer, the model) for each layer alone, and from the last one to the first."""
    names = [name for name, _ in model.named_children()][::-1]
    for way, groups in (
        ("alone", [(name,) for name in names]),
        ("and all after it", [tuple(names[: stop + 1]) for stop in range(1, len(names))]),
    ):
        for layers in groups:
            other = copy.deepcopy(model)
            for name in layers:
                getattr(other, name).load_state_dict(getattr(fresh, name).state_dict())
            yield way, layers[-1], other


def correlation(scores, others):
    """Spearman's rank correlation, if either has an order: F may no longer depend on A at all."""
    if len(scores) < 3 or np.ptp(scores) == 0 or np.ptp(others) == 0:
        return math.nan
    return float(spearmanr(scores, others).statistic)


def weights(count=None, datasets=("ba-shapes", "cora"), seeds=RANDOM_SEEDS):
    """Rank correlations of the scores with those of the trained model, at each node."""
    made = {dataset: load_trained(dataset) for dataset in datasets}
    work = [(dataset, near, method) for dataset in datasets for near in NEAR for method in COMPARED]
    results = []
    for dataset, near, method in track(work, "randomising", "explainers"):
        model, data = made[dataset].model, made[dataset].data
        nodes, labels = spread_over(NODES[dataset], count), predicted(model, data)
        before = list(edge_scores(model, data, nodes, method, near, labels))
        for seed in seeds:
            for way, layer, other in randomised(model, make_untrained(dataset, data, seed)):
                after = edge_scores(other, data, nodes, method, near, labels)
                pairs = [(old, new) for (_, old), (_, new) in zip(before, after, strict=True)]
                results.append(
                    {
                        "check": "weights",
                        "dataset": dataset,
                        "neighborhood": near,
                        "method": method,
                        "way": way,
                        "layer": layer,
                        "random_seed": seed,
                        "nodes": nodes,
                        "absolute": [correlation(np.abs(old), np.abs(new)) for old, new in pairs],
                        "signed": [correlation(old, new) for old, new in pairs],
                    }
                )
    return results


def weight_table(results):
    """The mean over nodes and random models, with its error over both; |scores|, and then signed ones."""
    found = {}
    for one in results:
        done = one["dataset"], one["neighborhood"], one["layer"], one["way"]
        found.setdefault(done, {}).setdefault(one["method"], []).append(one)
    rows = []
    for (dataset, near, layer, way), by_method in found.items():
        cells = []
        for method in COMPARED:
            for kind in ("absolute", "signed"):
                mean, error = pool([one[kind] for one in by_method[method]])
                cells.append(f"{mean:.2f}" if error is None else f"{mean:.2f} ± {error:.2f}")
        rows.append([dataset, near, f"{layer} {way}", *cells])
    head = [f"{method}, {kind}" for method in COMPARED for kind in ("size", "signed")]
    return table(["data", "neighbourhood", "randomised", *head], rows)


# Scores -------------------------------------------------------------------------------------------------------------


def scores(count=None, datasets=("ba-shapes", "cora")):
    """Relative Delta of each p, and of the linear function that has its scores as coefficients, at each node."""
    made = {dataset: load_trained(dataset) for dataset in datasets}
    work = [(dataset, near) for dataset in datasets for near in (*NEAR, *MIXED) if (dataset, near) != UNMOVED]
    results = []
    for dataset, near in track(work, "comparing scores", "columns"):
        model, data = made[dataset].model, made[dataset].data
        nodes = spread_over(NODES[dataset], count)
        found = {method: {"p": [], "scores": []} for method in COMPARED}
        for node in nodes:
            target = gf.Target(model, data.x, data.edge_index, node)
            models = [method_named(method).make_for(near, SAMPLES, 0).fit(target) for method in COMPARED]
            linear = [gf.LinearModel(target.computation_graph, *p.gradient()) for p in models]
            measured = unfaithfulness_of(target, [*models, *linear], near, num_samples=500)
            for at, method in enumerate(COMPARED):
                found[method]["p"].append(measured[at].relative)
                found[method]["scores"].append(measured[at + len(COMPARED)].relative)
        results += [
            {"check": "scores", "dataset": dataset, "neighborhood": near, "method": method, "nodes": nodes, **both}
            for method, both in found.items()
        ]
    return results


def score_table(results):
    """Medians over nodes: a few nodes at which F hardly changes would rule a mean of shares."""
    rows, columns = [], dict.fromkeys((one["dataset"], one["neighborhood"]) for one in results)
    for dataset, near in columns:
        own = {one["method"]: one for one in results if (one["dataset"], one["neighborhood"]) == (dataset, near)}
        cells = [f"{np.median(own[method][kind]):.2g}" for method in COMPARED for kind in ("p", "scores")]
        rows.append([dataset, near, *cells])
    head = [f"{method}, {kind}" for method in COMPARED for kind in ("p", "its scores")]
    return table(["data", "neighbourhood", *head], rows)


def plain(results):
    """The same with null for what is no number, which JSON has not."""
    return [
        {
            key: [None if isinstance(v, float) and math.isnan(v) else v for v in value]
            if isinstance(value, list)
            else value
            for key, value in one.items()
        }
        for one in results
    ]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="append", choices=("motifs", "weights", "scores"), help="one of them; all if left out"
    )
    parser.add_argument("--dataset", action="append", choices=tuple(NODES), help="whose weights are randomised")
    parser.add_argument("--nodes", type=int, help="how many nodes of each data set")
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--quick", action="store_true", help="a few nodes and one model, to see that it runs")
    args = parser.parse_args(arguments)
    path = None if args.json is None else check_output(args.json, (".json",))
    torch.set_num_threads(1)
    count, results = args.nodes or (QUICK if args.quick else None), []
    if not args.check or "motifs" in args.check:
        found = motifs(count, MODEL_SEEDS[:1] if args.quick else MODEL_SEEDS)
        print(f"ROC-AUC of |score| for the edges of a house, {len(found[0]['nodes'])} nodes:\n\n{motif_table(found)}\n")
        results += found
    if not args.check or "weights" in args.check:
        found = weights(count, args.dataset or tuple(NODES), RANDOM_SEEDS[:1] if args.quick else RANDOM_SEEDS)
        print(f"Rank correlation of edge scores with those of the trained model:\n\n{weight_table(found)}")
        results += found
    if not args.check or "scores" in args.check:
        found = scores(count, args.dataset or tuple(NODES))
        print(f"\nRelative Delta of p, and of its scores as a linear function (medians):\n\n{score_table(found)}")
        results += found
    if path is not None:
        write_json(path, plain(results))


if __name__ == "__main__":
    main()
