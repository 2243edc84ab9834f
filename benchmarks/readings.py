"""What an explanation shows against what it knows: scores, pairs, what-if, on nodes that nothing was tuned on.

For each model and three trainings: Delta of AnchoredKEC's shares beside that of the best additive function there is, of
every other method's scores read as an additive function, of scores and ten pairs, and of p; and what p foretells for
removed edges beside occlusion and every sum of scores.

    python benchmarks/readings.py --json readings.json [--model cora] [--step 170] [--quick]
    python benchmarks/readings.py --from readings.json        # the tables again
    python benchmarks/readings.py --errors                    # the error bars of single scores

The best additive function is found by regression on so many values of F that its own error, unknowns over samples, is
below one per cent (up to 400 unknowns; above, three per cent, and the share that is fitted by chance is taken off).
Masks of GNNExplainer and PGExplainer are multiplied by the one factor that suits them best on the samples of the score,
in their favour. Held-out samples: 2,000 of another seed than the fit's.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from families import families, train

import graphfaith as gf
from graphfaith._base.files import check_output
from graphfaith._base.progress import track
from graphfaith.data import load_dataset
from graphfaith.data.models import load_trained
from graphfaith.facade.subject import Subject
from graphfaith.metric import pool, pool_ratio
from graphfaith.sampling.neighborhood import parse_neighborhood
from graphfaith.surrogate.difference import SubgraphModel
from graphfaith.surrogate.moves import Moves
from graphfaith.surrogate.readings import effects, readings_of
from graphfaith.view.report import write_json

EDGES = ("U(A,0.5)", "B(A,0.5)", "R(A,5)", "R(A,5,paired)")
FEATURES = ("B(X,0.5)", "U(X,0.2r)")
FEW = "R(A,5,paired)"
RIVALS = ("kec", "linear", "saliency", "ig-zero", "ig-random", "gnnexplainer-soft", "pgexplainer")
TEST, SEED = 2000, 4242
SMALL = 60  # entries of A, below which pairs are judged
TRAININGS = (0, 1, 2)


def nodes_of(name, step):
    """Return nodes that are in no list of the paper, nor in one that was used while this was built."""
    return list(range(407, 700, max(1, step // 8))) if name == "ba-shapes" else list(range(1017, 2700, step))


def subject_of(name, seed):
    """Return a trained model on its graph."""
    if name in ("cora", "citeseer", "ba-shapes"):
        trained = load_trained(name, seed=seed)
        return Subject(trained.model, trained.data)
    data = load_dataset("cora")
    torch.manual_seed(seed)
    model = families(data)[name]()
    train(model, data, {}, 100)
    return Subject(model, data)


def changes_of(target, samples):
    """Return F's changes, a few samples at a time."""
    return torch.cat([target.changes(samples[start : start + 200]) for start in range(0, len(samples), 200)])


def best_additive(target, near, moves, share, most):
    """Return the mean squares that the shares and the best additive function leave in the same samples.

    The best one is found by regression of F less the shares. In the same samples, because in R(A,5) most of F's change
    is in a few of them, so that two sets of samples differ more than two functions do.
    """
    units = len(moves)
    factor = 100 if units <= 400 else 30
    count = min(max(factor * units, 2000), most)
    normal, right, square = torch.zeros(units, units).double(), torch.zeros(units).double(), 0.0
    graph = target.computation_graph
    for start in range(0, count, 500):
        samples = near.sample(graph, min(500, count - start), SEED + 1, start)
        matrix = moves.of(samples)
        rest = changes_of(target, samples) - matrix @ share
        normal += matrix.T @ matrix
        right += matrix.T @ rest
        square += float(rest @ rest)
    values, vectors = torch.linalg.eigh(normal)
    kept = values > 1e-10 * values.max()
    along = vectors.T @ right
    fitted = float((along[kept].square() / values[kept]).sum())
    return square / count, (square - fitted) / (count - int(kept.sum())), count


def score_node(subject, node, text, quick, rivals, of="feature"):
    """Return relative Delta of everything in a neighbourhood, at one node."""
    near, target = parse_neighborhood(text), subject.target(node)
    graph = target.computation_graph
    samples = near.sample(graph, 300 if quick else TEST, SEED)
    change = changes_of(target, samples)
    zero = float(change.square().mean())
    if zero < 1e-12:
        return None
    p = gf.AnchoredKEC(near, seed=0).fit(target)
    readings = readings_of(p, near, of=of)
    moves = readings.additive.moves
    matrix = moves.of(samples)

    def left(values):
        return float((values - change).square().mean()) / zero

    row = {
        "node": node,
        "near": text + (" of nodes" if of == "node" else ""),
        "zero": zero,
        "units": len(moves),
        "entries": graph.num_edges,
    }
    row |= {"p": left(p.change(samples)), "share": left(matrix @ readings.additive.scores)}
    row |= {"slope": left(matrix @ moves.gather(*p.gradient())), "pairs": left(readings.paired.change(samples))}
    row["num_pairs"] = len(readings.paired)
    row["floor"] = max(0.0, row["share"] - readings.additive.excess / zero)
    if near.perturbs_edges or of == "node":  # of single features there are too many
        found = effects(p, near, graph, of)
        row["effect"] = left(matrix @ moves.gather(*(graph.x if one is None else one for one in found)))
        there, best, row["best_samples"] = best_additive(
            target, near, moves, readings.additive.scores, 2000 if quick else 60_000
        )
        row["best"], row["share_there"] = best / zero, there / zero
    for method in rivals:
        rival = subject.fit(method, node, near, samples=200, seed=0).p
        if isinstance(rival, SubgraphModel):
            weight = torch.ones(graph.num_edges) if rival.edge_mask is None else rival.edge_mask
            mask = torch.ones_like(graph.x) if rival.node_mask is None else rival.node_mask.expand_as(graph.x)
            values = matrix @ moves.gather(mask, weight)
            values = values * (float(values @ change) / max(float(values @ values), 1e-300))
        else:
            values = matrix @ moves.gather(*rival.gradient())
        row[method] = left(values)
    return row


def foretell_node(subject, node, rivals):
    """Return errors and effects of removed undirected edges: each alone, and the five of largest effect together."""
    near, target = parse_neighborhood(FEW), subject.target(node)
    graph = target.computation_graph
    moves = Moves(graph, near)
    sizes, count = moves.sizes(), len(moves)
    if count < 6:
        return None
    single = moves.perturbations(torch.diag(sizes))
    actual = changes_of(target, single)
    p = gf.AnchoredKEC(near, seed=0).fit(target)
    readings = readings_of(p, near)
    foretold = {"p": p.change, "share": readings.additive.change, "pairs": readings.paired.change}
    sums = {"slope": moves.gather(*p.gradient()), "occlusion": actual / sizes}
    sums |= {name: moves.gather(*subject.fit(name, node, near, samples=200, seed=0).p.gradient()) for name in rivals}
    foretold |= {name: (lambda samples, phi=phi: moves.of(samples) @ phi) for name, phi in sums.items()}
    row = {"node": node, "near": FEW, "units": count, "single": {"zero": float(actual.abs().mean())}, "five": {}}
    own = torch.argsort(-(readings.additive.scores * sizes).abs(), stable=True)[:5]
    for name, order in (("own", own), ("true", torch.argsort(-actual.abs(), stable=True)[:5])):
        removed = torch.zeros(1, count, dtype=torch.float64)
        removed[0, order] = sizes[order]
        together = moves.perturbations(removed)
        truth = float(changes_of(target, together)[0])
        row["five"][name] = {"zero": abs(truth)} | {
            method: abs(float(values(together)[0]) - truth) for method, values in foretold.items()
        }
    for method, values in foretold.items():
        row["single"][method] = float((values(single) - actual).abs().mean())
    return row


def measure(name, options):
    """Return the rows of a model, over its trainings and nodes."""
    rows = []
    for seed in TRAININGS[:1] if options.quick else TRAININGS:
        subject = subject_of(name, seed)
        nodes = nodes_of(name, options.step)[: 3 if options.quick else None]
        for node in track(nodes, f"{name}, training {seed}", "nodes", show=True):
            for text in options.near or EDGES:
                rivals = RIVALS if text == "B(A,0.5)" else ("kec", "linear", "saliency", "ig-random")
                rows.append(score_node(subject, node, text, options.quick, () if options.alone else rivals))
            if name in ("cora", "ba-shapes", "GAT") and not options.near:
                rows.append(foretell_node(subject, node, ("kec", "linear", "saliency")))
            if name == "cora" and not options.near:
                rows += [
                    score_node(subject, node, text, options.quick, ("saliency",), of)
                    for text in FEATURES
                    for of in ("feature", "node")
                ]
            for row in rows:
                if row is not None:
                    row.setdefault("model", name)
                    row.setdefault("seed", seed)
    return [row for row in rows if row is not None]


def check_errors():
    """Print how far shares are from the best additive function, in units of their error bars."""
    print("| model | neighbourhood | scores | rms | below 2 | rms of the 8 largest | below 2 |\n|" + "---|" * 7)
    for name in ("cora", "ba-shapes"):
        subject = subject_of(name, 0)
        for text in EDGES:
            near, every, leading = parse_neighborhood(text), [], []
            for node in nodes_of(name, 140):
                target = subject.target(node)
                moves = Moves(target.computation_graph, near)
                if not 3 < len(moves) <= 170:
                    continue
                off = errors_of_node(target, near, moves)
                every.append(off)
                leading.append(off[:8])
            cells = [
                f"{np.sqrt(np.square(part).mean()):.2f} | {100 * (np.abs(part) < 2).mean():.0f} %"
                for part in map(np.concatenate, (every, leading))
            ]
            print(f"| {name} | {text} | {sum(map(len, every))} | {' | '.join(cells)} |", flush=True)


def errors_of_node(target, near, moves):
    """Return (share - best) / error of each score, the largest first; the best has an error of its own, by 8,000 F."""
    samples = near.sample(target.computation_graph, 8000, SEED)
    matrix, change = moves.of(samples), changes_of(target, samples)
    best = torch.linalg.lstsq(matrix, change.unsqueeze(1), driver="gelsd").solution[:, 0]
    weighed = matrix * (change - matrix @ best).unsqueeze(1)
    inverse = torch.linalg.pinv(matrix.T @ matrix)
    own = (inverse @ (weighed.T @ weighed) @ inverse).diagonal().clamp(min=0)
    additive = readings_of(gf.AnchoredKEC(near, seed=0).fit(target), near).additive
    off = (additive.scores - best) / (additive.stderr.square() + own).sqrt().clamp(min=1e-12)
    return off[torch.argsort(-(best * moves.sizes()).abs(), stable=True)].numpy()


def table_of(rows, key):
    """Return [trainings][nodes] of a number, for the nodes that every training has."""
    places = {(row["seed"], row["node"]): row for row in rows}
    seeds, nodes = sorted({seed for seed, _ in places}), sorted({node for _, node in places})
    nodes = [node for node in nodes if all((seed, node) in places for seed in seeds)]
    return np.array([[key(places[seed, node]) for node in nodes] for seed in seeds])


def shown(pair):
    """Return a number with its error."""
    value, error = pair
    return f"{value:.3g}" + ("" if error is None else f" ± {error:.1g}")


def print_tables(rows):
    """Print every table."""
    scored, groups = [row for row in rows if "share" in row], {}
    for row in scored:
        groups.setdefault((row["model"], row["near"]), []).append(row)
    print(
        "| model | neighbourhood | nodes | best | share | share / best | typical | lowest at | pairs | p |\n|"
        + "---|" * 10
    )
    for (model, text), own in groups.items():
        print_one(model, text, own)
    print("\nScores and ten pairs / scores in B(A,0.5), computation graphs of up to", SMALL, "entries:\n")
    for (model, text), own in groups.items():
        few = [row for row in own if row["entries"] <= SMALL]
        if text == "B(A,0.5)" and few:
            ratio = np.mean([row["pairs"] for row in few]) / np.mean([row["share"] for row in few])
            print(f"- {model}: {ratio:.2f} ({len(few)} nodes and trainings)")
    print_rivals(groups)
    for model in dict.fromkeys(row["model"] for row in rows if "single" in row):
        print_what_if(model, [row for row in rows if "single" in row and row["model"] == model])


def print_one(model, text, rows):
    """Print relative Delta (ratio of means over nodes and trainings) of what AnchoredKEC shows and knows."""
    zero = table_of(rows, lambda row: row["zero"])

    def cell(name):
        return shown(pool_ratio(table_of(rows, lambda row: row[name] * row["zero"]), zero))

    best = ratio = typical = "–"
    if "best" in rows[0]:
        best, there = cell("best"), [row["share_there"] / row["best"] for row in rows if row["best"] > 0]
        ratio = shown(
            pool_ratio(
                *(table_of(rows, lambda row, name=name: row[name] * row["zero"]) for name in ("share_there", "best"))
            )
        )
        typical = f"{np.median(there):.3f}"
    rivals = [name for name in RIVALS if name in rows[0]]
    lowest = np.mean([all(row["share"] <= row[name] for name in rivals) for row in rows]) if rivals else np.nan
    cells = (best, cell("share"), ratio, typical, f"{100 * lowest:.0f} %", cell("pairs"), cell("p"))
    print(f"| {model} | {text} | {zero.shape[1]} x {zero.shape[0]} | " + " | ".join(cells) + " |")


def print_rivals(groups):
    """Print relative Delta of other methods' scores, read as additive functions."""
    names = ("slope", "effect", *RIVALS)
    print("\n| model | neighbourhood | share | " + " | ".join(names) + " |\n|" + "---|" * (3 + len(names)))
    for (model, text), rows in groups.items():
        zero = table_of(rows, lambda row: row["zero"])
        cells = [
            shown(pool_ratio(table_of(rows, lambda row, name=name: row[name] * row["zero"]), zero))
            if all(name in row for row in rows)
            else "–"
            for name in ("share", *names)
        ]
        print(f"| {model} | {text} | " + " | ".join(cells) + " |")


def print_what_if(model, rows):
    """Print mean absolute error over mean absolute effect of removed undirected edges."""
    methods = [name for name in rows[0]["single"] if name != "zero"]
    print(f"\n**{model}, what if undirected edges were gone** (error over effect; p fitted in {FEW})\n")
    print("| removed | " + " | ".join(methods) + " |\n|---|" + "---|" * len(methods))
    kinds = {
        "each edge alone": lambda row: row["single"],
        "own top five": lambda row: row["five"]["own"],
        "the five of largest effect": lambda row: row["five"]["true"],
    }
    for label, part in kinds.items():
        zero = table_of(rows, lambda row, part=part: part(row)["zero"])
        cells = [
            shown(pool_ratio(table_of(rows, lambda row, part=part, name=name: part(row)[name]), zero))
            for name in methods
        ]
        print(f"| {label} | " + " | ".join(cells) + " |")
    counts = table_of(rows, lambda row: row["units"])
    print(f"\n{len(rows)} nodes and trainings, {shown(pool(counts))} undirected edges in reach on average")


def main(arguments):
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", action="append", help="cora, citeseer, ba-shapes, GAT, SAGE mean or GIN (repeatable)"
    )
    parser.add_argument("--near", action="append", help="one neighbourhood (repeatable); what-if is then left out")
    parser.add_argument("--step", type=int, default=140, help="every so many nodes")
    parser.add_argument("--alone", action="store_true", help="without the other methods")
    parser.add_argument("--quick", action="store_true", help="three nodes of one training, to see that it runs")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--from", dest="source", type=Path, action="append", help="print the tables of these rows")
    parser.add_argument("--errors", action="store_true", help="only compare scores with their error bars")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.errors:
        check_errors()
        return
    if options.source:
        print_tables([row for path in options.source for row in json.loads(path.read_text())])
        return
    path = None if options.json is None else check_output(options.json, (".json",))
    rows = []
    for name in options.model or ("cora", "citeseer", "ba-shapes", "GAT", "SAGE mean", "GIN"):
        rows += measure(name, options)
        if path is not None:  # what is done is kept if the next one is interrupted
            write_json(path, rows)
    print_tables(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
