"""Kinds of models against PyG: F's changes as graphfaith has them, and from one run of the model on the whole graph for
each sample. A kind is right, or refused for the reason that the list names; everything else is a fault.

python benchmarks/model_kinds.py [--kind NAME] [--near NEIGHBOURHOOD] [--samples 20] [--json FILE]
"""

import argparse
import re
import sys
import warnings
from dataclasses import dataclass

import torch
from ingredients import table
from kinds import FEATURES, KINDS, NODES, restore_flags
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import sort_edge_index

from graphfaith._base.errors import GraphfaithError
from graphfaith._base.files import check_output
from graphfaith._base.progress import track
from graphfaith.model.target import Target
from graphfaith.sampling.neighborhood import as_neighborhood
from graphfaith.sampling.perturbations import Perturbations
from graphfaith.view.report import write_json

NEAR = ("U(A,0.5)", "B(A,0.5)", "U(X,0.2r)", "U(X,0.5r)xU(A,0.5)")
SAMPLES = 20
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}  # of the change and of F


@dataclass(frozen=True)
class Whole:
    """A graph and the node that is explained."""

    x: torch.Tensor
    edge_index: torch.Tensor
    weight: torch.Tensor | None
    node: int
    first: int | None = None  # a node that is explained before


def graph_of(kind):
    """A random graph of the kind that a model asks for; the node with most neighbours is explained."""
    generator, count = torch.Generator().manual_seed(0), NODES
    near = torch.rand(count, count, generator=generator) < 3 / count
    near = (near if kind == "directed" else near | near.T).fill_diagonal_(False)
    if kind == "alone":
        near[0] = near[:, 0] = False
    edge_index = near.nonzero().T.contiguous()
    node = int(torch.bincount(edge_index[1]).argmax())
    weight = None
    if kind == "loops":
        looped = torch.unique(torch.cat([torch.arange(0, count, 3), torch.tensor([node])]))
        edge_index = torch.cat([edge_index, looped.repeat(2, 1)], dim=1)
        edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]
    elif kind == "duplicates":
        edge_index = torch.cat([edge_index, edge_index[:, ::4]], dim=1)
    elif kind == "weighted":
        weight = 3 * torch.rand(edge_index.size(1), generator=generator, dtype=torch.float64)
    elif kind == "sorted":
        edge_index = sort_edge_index(edge_index, sort_by_row=False)
    x = torch.randn(count, FEATURES, generator=generator, dtype=torch.float64)
    return Whole(x, edge_index, weight, node, 0 if kind == "alone" else None)


# One run of the model for each sample --------------------------------------------------------------------------------


def run_by_weight(model, x, edge_index, weight):
    """The output for these edge weights."""
    return model(x, edge_index, edge_weight=weight)


def run_by_mask(model, x, edge_index, weight):
    """The output if messages are multiplied by these weights, by PyG's own means."""
    set_masks(model, weight, edge_index, apply_sigmoid=False)
    try:
        return model(x, edge_index)
    finally:
        clear_masks(model)
        for module in model.modules():
            module._parameters.pop("_edge_mask", None)


def run_by_removal(model, x, edge_index, weight):
    """The output on the graph without the edges of weight 0; a loop that layers add stays, and its message is 0."""
    layers = [module for module in model.modules() if isinstance(module, MessagePassing)]
    adds_loops = all(getattr(layer, "add_self_loops", False) for layer in layers)
    kept = (weight != 0) | (adds_loops & (edge_index[0] == edge_index[1]))
    edge_index, weight = edge_index[:, kept], weight[kept]
    return model(x, edge_index) if bool((weight == 1).all()) else run_by_mask(model, x, edge_index, weight)


RUNS = {"weight": run_by_weight, "removal": run_by_removal, "mask": run_by_mask}  # how A is read


def changes_one_by_one(model, graph, target, drawn, *, as_given=False):
    """F(X, A) - F(X - eps_X, A - eps_A) for each sample, from runs of the model on the whole graph.

    ``as_given`` leaves it to the model's layers to add self-loops; otherwise all of them are given with the edges.
    """
    part, dtype = target.computation_graph, next(model.parameters()).dtype
    x, edge_index, visible = graph.x.to(dtype), graph.edge_index, part.nodes[: part.num_visible]
    plain, entries, added = (
        places.nonzero().view(-1)
        for places in (
            edge_index[0] != edge_index[1],
            part.felt & (part.edge_id >= 0),
            part.felt & (part.edge_id < 0),
        )
    )
    ones = torch.ones(edge_index.size(1), dtype=dtype)
    given = ones if graph.weight is None else graph.weight.to(dtype)
    found = []
    with torch.no_grad():
        out = model(x, edge_index) if graph.weight is None else model(x, edge_index, edge_weight=given)
        own = target.task.value(out[[graph.node]], target.labels)
        for sample in range(len(drawn)):
            moved, weight, edges = x.clone(), given.clone(), edge_index
            loops = torch.full((len(x),), target.call.loop_weight or 1.0, dtype=dtype)
            if drawn.features is not None:
                moved[visible] -= drawn.features[sample, : len(visible)]
            if drawn.edges is not None:
                now = (part.weight.double() - drawn.edges[sample]).to(dtype)
                weight[part.edge_id[entries]] = now[entries]
                loops[part.nodes[part.edge_index[0, added]]] = now[added]
            if target.adds_loops and not as_given:
                # Edges first and then every loop, which is the order in which PyG's layers have them.
                is_loop = edge_index[0] == edge_index[1]
                loops[edge_index[0, is_loop]] = weight[is_loop]
                edges = torch.cat([edge_index[:, plain], torch.arange(len(x)).repeat(2, 1)], dim=1)
                weight = torch.cat([weight[plain], loops])
            out = RUNS[target.route](model, moved, edges, weight)
            found.append(own - target.task.value(out[[graph.node]], target.labels))
    return torch.stack(found).double()


def keep_added_loops(drawn):
    """The same samples, with the self-loops that layers add as they are."""
    part = drawn.graph
    moved = drawn.edges.masked_fill(part.edge_id < 0, 0.0)
    return Perturbations(part, drawn.features, moved)


def weighs_none_as_ones(model, graph):
    """Whether weights of 1 are to the model what none are; not so for GCNConv(improved=True)."""
    x = graph.x.to(next(model.parameters()).dtype)
    ones = torch.ones(graph.edge_index.size(1), dtype=x.dtype)
    with torch.no_grad():
        return graph.weight is not None or torch.allclose(
            model(x, graph.edge_index), model(x, graph.edge_index, edge_weight=ones)
        )


# A kind --------------------------------------------------------------------------------------------------------------


def make(kind):
    """A model of this kind, always with the same parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        model = kind.make()
        single = any(p.dtype == torch.float32 for p in model.parameters()) and "single" in kind.name
        return (model if single else model.double()).eval()


def try_kind(kind, near, samples=SAMPLES):
    """A row of the table: what came out for a kind of model in a neighbourhood."""
    restore_flags()
    graph, model, row = graph_of(kind.graph), make(kind), {"kind": kind.name, "near": near}
    dtype = next(model.parameters()).dtype
    given = {} if graph.weight is None else {"edge_weight": graph.weight.to(dtype)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = graph.x.to(dtype)
            if graph.first is not None:
                Target(model, x, graph.edge_index, graph.first, **given, **kind.options)
            target = Target(model, x, graph.edge_index, graph.node, **given, **kind.options)
            if kind.toggle is not None:
                target.changes(as_neighborhood(near).sample(target.computation_graph, 2))
                kind.toggle(model)
                target = Target(model, x, graph.edge_index, graph.node, **given, **kind.options)
            drawn = as_neighborhood(near).sample(target.computation_graph, samples)
            found = {
                "at once": target.changes(drawn),
                "one by one": torch.cat([target.changes(drawn[i : i + 1]) for i in range(samples)]),
            }
            batching, expected = target.batching, changes_one_by_one(model, graph, target, drawn)
            deviation = max(float((values - expected).abs().max()) for values in found.values())
            adds_loops = target.route == "weight" and target.adds_loops and drawn.edges is not None
            if adds_loops and weighs_none_as_ones(model, graph):
                plain = keep_added_loops(drawn)
                right = changes_one_by_one(model, graph, target, plain, as_given=True)
                deviation = max(deviation, float((target.changes(plain) - right).abs().max()))
    except GraphfaithError as error:
        is_true = kind.refused is not None and re.search(kind.refused, str(error)) is not None
        return {**row, "outcome": "refused" if is_true else "REFUSED", "reason": str(error)}
    except Exception as error:  # what is not refused must not fail
        return {**row, "outcome": "CRASH", "reason": f"{type(error).__name__}: {error}"[:300]}
    finally:
        restore_flags()
    change = float(expected.abs().max())
    allowed = TOLERANCE[dtype] * (change + abs(target.value))
    # A neighbourhood in which nothing happens is no part of the list: then A is not what the model reads.
    outcome = "right" if change > 0 and deviation <= allowed else "WRONG"
    return {
        **row,
        "outcome": outcome,
        "route": target.route,
        "nodes": target.computation_graph.num_nodes,
        "batching": batching,
        "deviation": deviation / change if change else deviation,
        "change": change,
    }


def as_cells(row):
    """A line of the table."""
    if "reason" in row:
        return [row["kind"], row["near"], "", "", "", "", f"{row['outcome']}: {row['reason']}"]
    numbers = [row["route"], str(row["nodes"]), row["batching"], f"{row['deviation']:.0e}"]
    return [row["kind"], row["near"], *numbers, row["outcome"]]


def is_fault(row):
    """Whether what came out is neither right nor a refusal for a true reason."""
    return row["outcome"] not in ("right", "refused")


def count_kinds(rows):
    """What came out in a few lines: how many kinds, and cases, are right, refused, both, or something else."""
    outcomes = {}
    for row in rows:
        outcomes.setdefault(row["kind"], []).append(row)
    right = [own for own in outcomes.values() if all(row["outcome"] == "right" for row in own)]
    refused = [own for own in outcomes.values() if all(row["outcome"] == "refused" for row in own)]
    both = [own for own in outcomes.values() if {row["outcome"] for row in own} == {"right", "refused"}]
    ways = {way: sum(any(row["route"] == way for row in own) for own in right) for way in ("weight", "removal")}
    lines = [[f"right in every neighbourhood ({ways['weight']} by weight, {ways['removal']} by removal)", right]]
    for own in both:
        where = [" and ".join(row["near"] for row in own if row["outcome"] == one) for one in ("right", "refused")]
        lines.append([f"{own[0]['kind']}: right in {where[0]}, refused in {where[1]}", [own]])
    lines.append(["refused for the reason that the list names", refused])
    known = [own for _, kinds in lines for own in kinds]
    lines.append(["anything else", [own for own in outcomes.values() if own not in known]])
    return [[what, str(len(kinds)), str(sum(map(len, kinds)))] for what, kinds in lines]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=[kind.name for kind in KINDS], metavar="NAME")
    parser.add_argument("--near", action="append", help="a neighbourhood; four of them if left out")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--json", help="also write the figures to this file")
    args = parser.parse_args(arguments)
    path = None if args.json is None else check_output(args.json, (".json",))
    torch.set_num_threads(1)
    chosen = [kind for kind in KINDS if not args.kind or kind.name in args.kind]
    work = [(kind, near) for kind in chosen for near in args.near or NEAR]
    rows = [try_kind(kind, near, args.samples) for kind, near in track(work, "trying models", "cases")]
    head = ["kind", "neighbourhood", "route", f"nodes of {NODES}", "batching", "deviation / change", "outcome"]
    print(table(head, [as_cells(row) for row in rows]))
    print("\n" + table(["", "kinds", "cases"], count_kinds(rows)))
    faults = sum(map(is_fault, rows))
    right, refused = (sum(row["outcome"] == outcome for row in rows) for outcome in ("right", "refused"))
    print(f"\n{len(chosen)} kinds, {len(rows)} cases: {right} right, {refused} refused, {faults} faults")
    if path is not None:
        write_json(path, rows)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
