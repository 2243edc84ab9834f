"""KEC and Saliency on many families of models, each trained on Cora: how much of F's change is left unexplained.

python benchmarks/families.py [--family GCN --family GAT] [--samples 1000] [--threshold 0.01] [--edges mask] [--quick]
"""

import argparse
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.explain import Explainer
from torch_geometric.utils import degree

import graphfaith as gf
from graphfaith.data import load_dataset
from graphfaith.metric import pool_ratio, unfaithfulness_of
from graphfaith.sampling.neighborhood import as_neighborhood

NEAR = ("U(A,0.5)", "B(A,0.5)")
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


class Net(nn.Module):
    """Layers with dropout before and ReLU between them; ``takes`` names what they take beside x and edge_index."""

    def __init__(self, *layers, takes=None, into=None, residual=False):
        super().__init__()
        self.layers, self.into, self.takes, self.residual = nn.ModuleList(layers), into, takes, residual

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        given = {"edge_weight": edge_weight, "edge_attr": edge_attr}
        x = x if self.into is None else self.into(F.dropout(x, 0.5, self.training))
        for i, layer in enumerate(self.layers):
            x = F.dropout(x.relu() if i else x, 0.5, self.training)
            out = layer(x, edge_index, **({self.takes: given[self.takes]} if self.takes else {}))
            x = out + x if self.residual and out.shape == x.shape else out
        return x


class Gated(pyg.MessagePassing):
    """A layer of one's own: the mean of messages, each times a gate that looks at both ends."""

    def __init__(self, fan_in, fan_out):
        super().__init__(aggr="mean")
        self.own, self.other, self.gate = nn.Linear(fan_in, fan_out), nn.Linear(fan_in, fan_out), nn.Linear(fan_in, 1)

    def forward(self, x, edge_index):
        return self.own(x) + self.propagate(edge_index, x=self.other(x), gate=self.gate(x))

    def message(self, x_j, gate_i, gate_j):
        return x_j * (gate_i + gate_j).sigmoid()


def families(data):
    """A function that makes an untrained model, for each family."""
    d, h, c = data.num_features, 16, int(data.y.max()) + 1
    degrees = torch.bincount(degree(data.edge_index[1], data.num_nodes).long())
    weighted = {"takes": "edge_weight"}

    def mlp(a, b):
        return nn.Sequential(nn.Linear(a, h), nn.ReLU(), nn.Linear(h, b))

    def pna(a, b):
        return pyg.PNAConv(a, b, ["mean", "max"], ["identity", "amplification"], degrees)

    def two(layer, first=d, **options):
        return lambda: Net(layer(first, h), layer(h, c), into=nn.Linear(d, h) if first == h else None, **options)

    def heads(layer, takes=None, **options):
        return lambda: Net(layer(d, 8, heads=2, **options), layer(16, c, heads=1, **options), takes=takes)

    return {
        "GCN": two(pyg.GCNConv, **weighted),
        "GAT": heads(pyg.GATConv),
        "GATv2": heads(pyg.GATv2Conv),
        "SAGE mean": two(pyg.SAGEConv),
        "SAGE max": two(lambda a, b: pyg.SAGEConv(a, b, aggr="max")),
        "GIN": two(lambda a, b: pyg.GINConv(mlp(a, b))),
        "GraphConv": two(pyg.GraphConv, **weighted),
        "APPNP": lambda: Net(pyg.APPNP(3, 0.1), into=mlp(d, c), **weighted),
        "SGConv": lambda: Net(pyg.SGConv(h, c, K=2), into=nn.Linear(d, h), **weighted),
        "TAGConv": two(lambda a, b: pyg.TAGConv(a, b, K=2), first=h, **weighted),
        "ChebConv": two(lambda a, b: pyg.ChebConv(a, b, K=2), **weighted),
        "TransformerConv": heads(pyg.TransformerConv),
        "PNA": two(pna, first=h),
        "GCN + BatchNorm": lambda: pyg.GCN(d, h, 2, c, dropout=0.5, norm="batch"),
        "GCN + jumping": lambda: pyg.GCN(d, h, 2, c, dropout=0.5, jk="cat"),
        "GCN + residual": two(pyg.GCNConv, first=h, residual=True, **weighted),
        "GAT + edge_attr": heads(pyg.GATConv, takes="edge_attr", edge_dim=1),
        "custom": two(Gated),
    }


def train(model, data, extra, epochs):
    """The share of test nodes that are classified right after so many epochs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model.train()(data.x, data.edge_index, **extra)
        F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    with torch.no_grad():
        right = model.eval()(data.x, data.edge_index, **extra).argmax(dim=1) == data.y
    return float(right[data.test_mask].double().mean())


def route_in(explanation, near):
    """How A reaches the model in this neighbourhood: "weight", or "mask" (factors of messages), or "removal".

    On the route "removal" only entries that are 0 are removed, so where none is dropped A is a mask.
    """
    drops = as_neighborhood(near).drops_edges
    return "mask" if explanation.edge_route == "removal" and not drops else explanation.edge_route


def compare(model, data, extra, nodes, near, edges, **options):
    """KEC's explanations, its seconds a node, what "auto" chose most often, and {method: (relative Delta, error)}."""
    kec, auto = (gf.KEC(near, normalization=one, edges=edges, **options) for one in ("symmetric", "auto"))
    made, seconds, scores, found = {}, [], [], {}
    for name, algorithm in {"KEC": kec, "KEC auto": auto, "Saliency": gf.Saliency(edges=edges)}.items():
        explainer = Explainer(model, algorithm, "model", CONFIG, "attributes", "object")
        made[name], started = [], time.process_time()
        # One at a time, because nodes that are explained together have no seconds of their own.
        one_by_one = {"progress": False, "together": False}
        for explanation in gf.explain_nodes(explainer, data.x, data.edge_index, nodes, **one_by_one, **extra):
            made[name].append(explanation)
            seconds += [time.process_time() - started] if name == "KEC" else []
            started = time.process_time()
    for node, *explanations in zip(nodes, *made.values(), strict=True):
        target = gf.Target(model, data.x, data.edge_index, node, edges=edges, **extra)
        scores.append(
            unfaithfulness_of(target, [e.difference_model for e in explanations], near, num_samples=500, seed=1)
        )
    for name, column in zip(made, zip(*scores, strict=True), strict=True):
        found[name] = pool_ratio([[score.value for score in column]], [[score.delta_zero for score in column]])
    return made["KEC"], seconds, statistics.mode(e.normalization for e in made["KEC auto"]), found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", action="append", help="one family (may be repeated); all if left out")
    parser.add_argument("--samples", type=int, default=200, help="samples to fit on")
    parser.add_argument("--threshold", type=float, help="of singular values, as a share of the largest one")
    parser.add_argument(
        "--edges", choices=("auto", "mask"), default="auto", help="mask: a dropped edge is silenced and still counted"
    )
    parser.add_argument("--quick", action="store_true", help="three nodes and ten epochs, to see that it runs")
    args = parser.parse_args()
    options = {"num_samples": args.samples}
    if args.threshold is not None:
        options |= {"threshold": args.threshold, "relative": True}
    torch.set_num_threads(1)
    data = load_dataset("cora")
    similar = F.cosine_similarity(data.x[data.edge_index[0]], data.x[data.edge_index[1]]).unsqueeze(1)
    nodes, epochs = (range(0, 120, 40), 10) if args.quick else (range(0, 1000, 40), 100)
    makers, verdicts, head = families(data), [], ["family", "accuracy", "route", "unknowns"]
    head += [f"{near}: {method}" for near in NEAR for method in ("KEC", "KEC auto", "Saliency")]
    print("| " + " | ".join([*head, "auto chose", "seconds a node"]) + " |\n" + "|---" * (len(head) + 2) + "|")
    for name in args.family or makers:
        torch.manual_seed(0)
        model, extra = makers[name](), {"edge_attr": similar} if name == "GAT + edge_attr" else {}
        accuracy, cells, seconds, chosen, routes = train(model, data, extra, epochs), [], [], [], []
        for near in NEAR:
            kec, taken, choice, found = compare(model, data, extra, nodes, near, args.edges, **options)
            print(f"{name}, {near}: KEC took {sum(taken):.1f} s", file=sys.stderr)
            seconds, chosen, routes = seconds + taken, [*chosen, choice], [*routes, route_in(kec[0], near)]
            cells += [f"{value:.2g} ± {error:.1g}" for value, error in found.values()]
            rivals = {f"Saliency ({found['Saliency'][0]:.2g})": found["Saliency"][0], "no change (1)": 1.0}
            for method in ("KEC", "KEC auto"):
                worse = " and ".join(rival for rival, value in rivals.items() if found[method][0] > value)
                if worse:
                    verdicts.append(f"- {name}, {near}: {method} ({found[method][0]:.2g}) is worse than {worse}")
        unknowns = statistics.median(e.num_hops * e.difference_model.graph.num_nodes for e in kec)
        row = [name, f"{100 * accuracy:.1f} %", ", ".join(routes), f"{unknowns:.0f}", *cells]
        print("| " + " | ".join([*row, ", ".join(chosen), f"{statistics.median(seconds):.3f}"]) + " |", flush=True)
    print("", *verdicts, sep="\n")


if __name__ == "__main__":
    main()
