"""What each ingredient of AnchoredKEC is good for: Delta(p) with one alone, without it, and with what was not kept.

python benchmarks/ingredients.py [--column "cora U(A,0.5)"] [--nodes 10] [--json ingredients.json] [--forced]
[--quick]
"""

import argparse
import math

import numpy as np
import torch
from scipy.stats import qmc

import graphfaith as gf
from graphfaith._base.files import check_output
from graphfaith._base.memory import CHUNK_BYTES
from graphfaith._base.progress import track
from graphfaith.data.models import load_trained
from graphfaith.explainers import anchored_kec
from graphfaith.metric import pool
from graphfaith.sampling import Perturbations, UniformEdges
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.surrogate import terms as anchored_terms
from graphfaith.surrogate.difference import carry, curvature_of, energy
from graphfaith.surrogate.propagation import Propagation
from graphfaith.surrogate.sensitivity import Sensitivity
from graphfaith.surrogate.solve import ridge
from graphfaith.surrogate.walks import khop_rows
from graphfaith.view.report import write_json

EDGES = ("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)")
FEATURES = ("U(X,0.2r)", "U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)")
COLUMNS = [("ba-shapes", near) for near in EDGES] + [("cora", near) for near in (*EDGES, *FEATURES)]
NODES = {"ba-shapes": range(400, 700, 15), "cora": range(0, 1000, 25)}
FIT, TEST = 200, 500  # samples, of seeds 0 and 1
KIND = "symmetric"  # N, as AnchoredKEC chooses it for a network of GCNConv
MOST = 0.05  # the share of entries of A that F is asked about in the last row

# Kriging is of removed edges alone, attention of networks that have some, and the last two of inputs that have types or
# attributes of edges.
BLOCKS = tuple(block for block in anchored_terms.BLOCKS if block not in ("kriging", "attention", "attributes", "walks"))
OWN = {"all": BLOCKS}
OWN |= {f"without {name}": tuple(block for block in BLOCKS if block != name) for name in BLOCKS}
OWN |= {f"{name} alone": (name,) for name in BLOCKS}

# From the name of a row to its draws, and the terms that it has.
TRIED = {
    "N(A^k) in place of N(A)^k": ("plain", ("power", *BLOCKS[1:])),
    "and the rows of N(A)^k": ("plain", (*BLOCKS, "rows")),
    "and the entries of eps_A": ("plain", (*BLOCKS, "entries")),
    "all columns of X in place of U": ("plain", ("columns", *BLOCKS[1:])),
    "antithetic draws": ("antithetic", BLOCKS),
    "Sobol draws": ("sobol", BLOCKS),
    "gradient at the graph alone": ("local", ("khop", "degrees", "saliency", "energy")),
    f"and F on {100 * MOST:.0f} % of the entries": ("plain", (*BLOCKS, "part")),
}
NOTHING = "p = 0"
ROWS = (NOTHING, *OWN, *TRIED)
OF_A = {"without degrees", "degrees alone"}  # rows that only a change of A makes a difference to
OF_A |= {row for row, (_, terms) in TRIED.items() if {"rows", "entries", "part"}.intersection(terms)}
SHARED = {"khop", "power", "columns", "rows", "entries"}  # terms whose columns share a scale
FIRM = {"saliency", "mean", "energy", "curvature", "part"}  # terms that are shrunk less
ROUNDING = 1e-12


def makes_sense(row, near):
    """Whether a row says anything in a neighbourhood."""
    draws = TRIED[row][0] if row in TRIED else "plain"
    if draws == "sobol":
        return isinstance(near, UniformEdges)
    if draws == "antithetic":
        return "B(" not in str(near)
    return near.perturbs_edges or row not in OF_A


class Draws:
    """Samples of the fit in one of the ways to draw them, and which of them are asked for a gradient."""

    def __init__(self, way, near, graph):
        self.way, self.near, self.graph = way, near, graph
        numbers = np.arange(FIT)
        self.asked = numbers[:: anchored_kec._EVERY]
        self.rest = numbers if way == "local" else np.delete(numbers, self.asked)
        if way == "sobol":
            drawn = qmc.Sobol(graph.num_edges, scramble=True, seed=0).random_base2((FIT - 1).bit_length())
            self._cube = torch.from_numpy(drawn[:FIT])

    def __call__(self, numbers):
        """The samples of these numbers."""
        graph = self.graph
        if self.way == "sobol":
            moved = torch.minimum(self.near.sigma * (2 * self._cube[numbers] - 1), graph.weight.double())
            return Perturbations(graph, None, moved * graph.felt)
        if self.way != "antithetic":
            return self.near.numbered(graph, numbers, 0)
        drawn, sign = self.near.numbered(graph, numbers // 2, 0), torch.from_numpy(1 - 2 * (numbers % 2))
        features, edges = drawn.features, drawn.edges
        return Perturbations(
            graph,
            None if features is None else features * sign.view(-1, 1, 1).to(features.dtype),
            None if edges is None else torch.minimum(edges * sign.unsqueeze(1), graph.weight.double()),
        )

    def sensitivity(self, target):
        """What gradients say, and the entries of A with the largest E[g^2 eps^2] (None if A is still)."""
        chunk = self(self.asked)
        if self.way == "local":  # the graph as it is, a second time
            features, edges = (None if part is None else torch.zeros_like(part[:1]) for part in _parts(chunk))
            chunk = Perturbations(self.graph, features, edges)
        points = (
            None if moved is None else torch.cat([own.unsqueeze(0), moved.to(own.dtype)])
            for own, moved in ((self.graph.x, chunk.x), (self.graph.weight, chunk.weight))
        )
        _, *gradients = target.gradients(*points)
        known, most = Sensitivity.of(target, tuple(gradients), chunk), None
        if chunk.edges is not None:
            weighty = (gradients[1][1:].double() * chunk.edges).square().mean(dim=0)
            most = torch.zeros(len(weighty), dtype=torch.float64)
            most[weighty.argsort(descending=True, stable=True)[: math.ceil(MOST * len(weighty))]] = 1
        return known, most


def _parts(chunk):
    return chunk.features, chunk.edges


def chunks(target, near, numbers):
    """The numbers of samples, as many at a time as fit in memory with their terms."""
    graph = target.computation_graph
    size = max(1, CHUNK_BYTES // near.sample_bytes(graph, target.unit_width()))
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def shared_terms(target, chunk, most):
    """The terms that do not depend on which samples were asked for gradients, and F's change, [S, ...] each."""
    graph, (eps, edges) = target.computation_graph, _parts(chunk)
    spread, x = Propagation(graph, target.num_hops), graph.x.double()
    weight = graph.weight.double().unsqueeze(0)
    if edges is not None:
        weight = torch.cat([weight, chunk.weight])
    ours = spread.of(weight.T.contiguous(), KIND)
    found = {"change": target.changes(chunk)}
    found["energy"] = torch.stack([energy(part) for part in (eps, edges) if part is not None], dim=1)
    paper = khop_rows(graph, weight, target.num_hops, KIND).transpose(1, 2)
    for name, rows in (("columns", ours.rows), ("power", paper)):
        parts = 0 if edges is None else ((rows[..., :1] - rows[..., 1:]).transpose(1, 2) @ x).transpose(0, 1)
        if eps is not None:
            moved = carry(spread, rows if edges is None else rows[..., 1:], eps).double()
            moved[:, 1:] += parts
            parts = moved
        found[name] = parts  # [S, hops, d]
    if edges is not None:
        lost = ours.change()
        found["degrees"], found["rows"] = lost.moments.flatten(0, 1).T, lost.rows.flatten(0, 1).T
        found["entries"] = edges
        moved = target.evaluate(weight=graph.weight.double() - edges * most)
        found["part"] = (target.value - moved.double()).unsqueeze(1)
    return found


def own_terms(known, chunk, shared):
    """The terms that do depend on them."""
    foreseen, columns = known.foreseen(chunk), known.columns
    if foreseen.size(1) == 1:
        foreseen = foreseen.expand(-1, 2)
    return {
        "khop": (shared["columns"] @ columns).flatten(1),
        "power": (shared["power"] @ columns).flatten(1),
        "saliency": foreseen[:, :1],
        "mean": foreseen[:, 1:2],
        "curvature": curvature_of(foreseen[:, 2:], known.bend).unsqueeze(1),
    }


def together(found):
    """The terms of several chunks."""
    return {name: torch.cat([terms[name] for terms in found]) for name in found[0]}


def narrowed(fit, test):
    """At most as many columns as samples, with the same products of samples."""
    fit, test = fit.flatten(1), test.flatten(1)
    if fit.size(1) <= len(fit):
        return fit, test
    values, vectors = torch.linalg.eigh(fit @ fit.T)
    kept = values > ROUNDING * values[-1]
    root = values[kept].sqrt()
    return vectors[:, kept] * root, test @ (fit.T @ (vectors[:, kept] / root))


def fitted(names, fit, test, *, forced=False):
    """The change that a p of these terms foresees at the test samples, and what was chosen, as AnchoredKEC does it.

    ``forced`` chooses the fit, whatever its error.
    """
    parts = []
    for name in names:
        if name not in fit:
            continue
        own, other = narrowed(fit[name], test[name])
        size = own.square().mean(dim=0)
        if name in SHARED:
            size[:] = size.sum()
        else:
            size *= 1 / anchored_terms.FIRM if name in FIRM else own.size(1)
        floor = 0.0 if name in FIRM else ROUNDING**2
        scale = torch.where(size > floor, size, torch.inf).rsqrt()
        parts.append((own * scale, other * scale))
    own, other = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    change = fit["change"]
    found = ridge(own, change)
    errors = {"zero": change, "saliency": fit["saliency"][:, 0] - change, "anchored": found.left_out_residual}
    foreseen = {"zero": 0 * test["change"], "saliency": test["saliency"][:, 0], "anchored": other @ found.weights}
    chosen = "anchored" if forced else min(errors, key=lambda name: float(errors[name].square().mean()))
    return foreseen[chosen], chosen


def deltas(target, near, *, forced=False):
    """{row: (Delta(p) on held-out samples, what was chosen)} at a node."""
    graph, rows = target.computation_graph, [row for row in ROWS if makes_sense(row, near)]
    models = {}
    if not forced:
        models = {row: gf.AnchoredKEC(near, num_samples=FIT, blocks=OWN[row]).fit(target) for row in rows if row in OWN}
    draws = {TRIED[row][0]: None for row in rows if row in TRIED}
    known, fits, most = {}, {}, None
    for way in draws:
        draws[way] = Draws(way, near, graph)
        known[way], own = draws[way].sensitivity(target)
        most = own if most is None else most  # of the plain ones, which are the first
    for way, drawn in draws.items():
        found = []
        for numbers in chunks(target, near, drawn.rest):
            chunk = drawn(numbers)
            shared = shared_terms(target, chunk, most)
            found.append({**shared, **own_terms(known[way], chunk, shared)})
        fits[way] = together(found)
    tests, foreseen = {way: [] for way in draws}, {row: [] for row in models}
    for numbers in chunks(target, near, np.arange(TEST)):
        chunk = near.numbered(graph, numbers, 1)
        shared = shared_terms(target, chunk, most)
        for way in draws:
            tests[way].append({**shared, **own_terms(known[way], chunk, shared)})
        for row, p in models.items():
            foreseen[row].append(p.change(chunk))
    tests = {way: together(found) for way, found in tests.items()}
    change = tests["plain"]["change"]
    found = {NOTHING: (0 * change, "zero")}
    found |= {row: (torch.cat(foreseen[row]), p.chosen) for row, p in models.items()}
    for row in rows:
        if row not in found:
            way, names = TRIED[row] if row in TRIED else ("plain", OWN[row])
            found[row] = fitted(names, fits[way], tests[way], forced=forced)
    return {row: (float((said - change).square().mean()), chosen) for row, (said, chosen) in found.items()}


def spread_over(nodes, count):
    """So many of the nodes, evenly; all of them if there are no more."""
    nodes = list(nodes)
    return nodes if count is None or count >= len(nodes) else [nodes[len(nodes) * i // count] for i in range(count)]


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def columns_of(named):
    """The columns that were asked for, or all of them."""
    known = {f"{dataset} {near}": (dataset, near) for dataset, near in COLUMNS}
    for name in named or ():
        if name not in known:
            raise SystemExit(f"unknown column {name!r}: known are {', '.join(known)}")
    return [known[name] for name in named] if named else COLUMNS


def measure(columns, count=None, *, forced=False):
    """A result for each cell of the table."""
    work = [(dataset, near, node) for dataset, near in columns for node in spread_over(NODES[dataset], count)]
    made, found = {dataset: load_trained(dataset) for dataset, _ in columns}, {column: [] for column in columns}
    for dataset, near, node in track(work, "ingredients", "nodes"):
        model, data = made[dataset].model, made[dataset].data
        target = gf.Target(model, data.x, data.edge_index, node)
        found[dataset, near].append(deltas(target, as_neighborhood(near), forced=forced))
    results = []
    for (dataset, near), at in found.items():
        zero = sum(one[NOTHING][0] for one in at) / len(at)
        for row in at[0]:
            values = np.array([one[row][0] for one in at])
            mean, error = pool([values])
            results.append(
                {
                    "dataset": dataset,
                    "neighborhood": near,
                    "row": row,
                    "nodes": spread_over(NODES[dataset], count),
                    "unfaithfulness": mean,
                    "stderr": error,  # over nodes of one training
                    "relative": float(values.mean() / zero),
                    "simpler": sum(one[row][1] != "anchored" for one in at) if row != NOTHING else 0,
                    "by_node": values.tolist(),
                    "fit_samples": FIT,
                    "num_samples": TEST,
                }
            )
    return results


def as_table(results, columns):
    """The mean of Delta(p) over nodes, rows against neighbourhoods."""
    cells = {}
    for one in results:
        simpler = f" ({one['simpler']})" if one["simpler"] else ""
        cells[one["row"], one["dataset"], one["neighborhood"]] = f"{one['unfaithfulness']:.3g}{simpler}"
    rows = [[row, *(cells.get((row, *column), "-") for column in columns)] for row in ROWS]
    return table(["p", *(f"{dataset} {near}" for dataset, near in columns)], rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--column", action="append", help='e.g. "cora U(A,0.5)" (may be repeated); all if left out')
    parser.add_argument("--nodes", type=int, help="how many nodes of each data set")
    parser.add_argument(
        "--forced", action="store_true", help="take the fit as p even if the gradient, or p = 0, has a smaller error"
    )
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--quick", action="store_true", help="two nodes of each data set, to see that it runs")
    args = parser.parse_args(arguments)
    path = None if args.json is None else check_output(args.json, (".json",))
    torch.set_num_threads(1)
    columns = columns_of(args.column)
    results = measure(columns, args.nodes or (2 if args.quick else None), forced=args.forced)
    print(as_table(results, columns))
    nodes = {one["dataset"]: len(one["nodes"]) for one in results}
    said = ", ".join(f"{count} of {name}" for name, count in nodes.items())
    print(
        f"\nMean Delta(p) over nodes ({said}) on {TEST} samples that p was not fitted on. "
        + (
            "The fit is the p at all of them."
            if args.forced
            else "In brackets: at how many of them the gradient itself or p = 0 had a smaller leave-one-out error than "
            "the fit, and is the p."
        )
    )
    if path is not None:
        write_json(path, results)


if __name__ == "__main__":
    main()
