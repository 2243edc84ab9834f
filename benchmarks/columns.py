"""One table from several runs of ``graphfaith score``, such as one for each model seed.

Rows are methods, columns neighbourhoods; a cell is the mean of Delta(p) over nodes and model seeds with its standard
error over both (``graphfaith.metric.pool``). Below stand the shares of nodes at which the first method is at least as
good as the best of the others, and as each of them, and how many times lower its mean is than that of KEC. The last
table has a line for each data set. A file that ``--json`` has written holds Delta(p) at every node, and can be read
again like those of ``graphfaith score``.

    for seed in 0 1 2; do
      graphfaith score --dataset cora --neighborhood all --model-seed $seed --json cora-$seed.json
    done
    python benchmarks/columns.py cora-*.json
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from graphfaith._base.files import write_file
from graphfaith.metric import pool
from graphfaith.view.report import finite_rows


def pooled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each data set, neighbourhood and method, over all nodes and model seeds that every one of them has."""
    found: list[dict[str, Any]] = []
    for dataset, near in dict.fromkeys((row["dataset"], row["neighborhood"]) for row in rows):
        own = [row for row in rows if (row["dataset"], row["neighborhood"]) == (dataset, near)]
        methods = list(dict.fromkeys(row["method"] for row in own))
        values = {method: by_place([row for row in own if row["method"] == method]) for method in methods}
        places = list(values[methods[0]])
        if any(list(other) != places for other in values.values()):
            raise SystemExit(f"{dataset}, {near}: not every method was scored at the same nodes and model seeds")
        table = np.array([[values[method][place] for place in places] for method in methods])
        # Delta(0), which is the same for all of them.
        zeros = [row["unfaithfulness"] / row["relative"] for row in own if row["relative"]]
        zero = np.mean(zeros) if zeros else math.nan
        seeds, nodes = (sorted({place[kind] for place in places}) for kind in (0, 1))
        if len(places) != len(seeds) * len(nodes):
            raise SystemExit(f"{dataset}, {near}: not every node was scored in every model seed")
        for at, method in enumerate(methods):
            others = np.delete(table, at, axis=0)
            by_node = table[at].reshape(len(seeds), len(nodes))
            mean, error = pool(by_node)
            found.append(
                {
                    "dataset": dataset,
                    "neighborhood": near,
                    "method": method,
                    "unfaithfulness": mean,
                    "stderr": error,
                    "relative": mean / float(zero),
                    "lowest": float((table[at] <= others.min(axis=0)).mean()) if len(others) else 1.0,
                    "beaten_by_first": float((table[0] <= table[at]).mean()),
                    "places": len(places),
                    "model_seeds": seeds,
                    "nodes": nodes,
                    "by_node": [[float(f"{value:.5g}") for value in line] for line in by_node.tolist()],
                }
            )
    return found


def pooled_again(row: dict[str, Any]) -> dict[str, Any]:
    """A row that was pooled before, with the mean and the error of the numbers that it kept.

    Without the numbers at nodes no error can be told: to count pairs of a node and a training as independent would
    make it several times too small.
    """
    if row.get("by_node") is None:
        return {**row, "stderr": None, "by_node": None}
    mean, error = pool(row["by_node"])
    return {**row, "unfaithfulness": mean, "stderr": error}


def with_kept(row: dict[str, Any], kept: dict[tuple[str, str, str], dict[str, Any]]) -> dict[str, Any]:
    """A row that was pooled without keeping the numbers at nodes, with those of another run of the same thing."""
    other = kept.get((row["dataset"], row["neighborhood"], row["method"]))
    if row.get("by_node") is not None or other is None or other["model_seeds"] != row["model_seeds"]:
        return row
    mean, _ = pool(other["by_node"])
    if not math.isclose(mean, row["unfaithfulness"], rel_tol=1e-3) or np.size(other["by_node"]) != row["places"]:
        return row  # It is the same thing only if it has the same mean.
    return {**row, "nodes": other["nodes"], "by_node": other["by_node"]}


def by_place(rows: list[dict[str, Any]]) -> dict[tuple[int, int], float]:
    """Delta(p) by model seed and node."""
    found = {}
    for row in rows:
        for node, value in zip(row.get("nodes") or [row["node"]], row["by_node"], strict=True):
            if (row["model_seed"], node) in found:
                raise SystemExit(f"{row['method']} was scored twice at node {node} of model seed {row['model_seed']}")
            found[row["model_seed"], node] = value
    return dict(sorted(found.items()))


def gap_to_next(rows: list[dict[str, Any]], first: str, near: str) -> str:
    """The least mean of the other methods, less that of the first, in units of its error over nodes and trainings."""
    at = {row["method"]: row for row in rows if row["neighborhood"] == near}
    others = [row for method, row in at.items() if method != first]
    if not others:
        return "-"
    best = min(others, key=lambda row: row["unfaithfulness"])
    if best["by_node"] is None or at[first]["by_node"] is None:
        return "-"
    gap, error = pool(np.array(best["by_node"]) - np.array(at[first]["by_node"]))
    return f"{gap / error:.1f} ({best['method']})" if error else "-"


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the pooled rows of one data set in Markdown; "-" stands where a method was not scored in a column."""
    near = list(dict.fromkeys(row["neighborhood"] for row in rows))
    cells = {(row["method"], row["neighborhood"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    print(f"\n{rows[0]['dataset']}, {rows[0]['places']} pairs of a node and a model seed\n")
    print("| Delta(p) | " + " | ".join(near) + " |\n|---|" + "---|" * len(near))
    lowest = {text: min(row["unfaithfulness"] for row in rows if row["neighborhood"] == text) for text in near}
    for method in methods:
        shown = []
        for text in near:
            one = cells.get((method, text))
            if one is None:
                shown.append("-")
                continue
            error = "" if one["stderr"] is None else " ± {:g}".format(float(f"{one['stderr']:.1g}"))
            number = f"{one['unfaithfulness']:.3g}{error} ({one['relative']:.2g})"
            shown.append(f"**{number}**" if one["unfaithfulness"] == lowest[text] else number)
        print(f"| {method} | " + " | ".join(shown) + " |")
    first = methods[0]
    print(f"\n| nodes at which {first} is at least as good as | " + " | ".join(near) + " |\n|---|" + "---|" * len(near))
    print(
        "| the best other method | " + " | ".join(f"{100 * cells[first, text]['lowest']:.0f} %" for text in near) + " |"
    )
    for method in methods[1:]:
        found = [cells.get((method, text)) for text in near]
        shares = ["-" if one is None else f"{100 * one['beaten_by_first']:.0f} %" for one in found]
        print(f"| {method} | " + " | ".join(shares) + " |")
    gaps = [gap_to_next(rows, first, text) for text in near]
    print("| the next best mean, less its own, in errors of that | " + " | ".join(gaps) + " |")
    if "kec" in methods and first != "kec":
        times = [cells["kec", text]["unfaithfulness"] / cells[first, text]["unfaithfulness"] for text in near]
        print("| mean Delta(p) of kec / its own | " + " | ".join(f"{one:.3g}" for one in times) + " |")


def overview_row(rows: list[dict[str, Any]]) -> str:
    """One line for a data set: what the first method and the best other leave, and at how many nodes it is the best."""
    first = rows[0]["method"]
    own, others, shares, lowest = [], [], [], 0
    for near in dict.fromkeys(row["neighborhood"] for row in rows):
        at = {row["method"]: row for row in rows if row["neighborhood"] == near}
        one = at.pop(first)
        best = min(at.values(), key=lambda row: row["unfaithfulness"])
        own.append(100 * one["relative"])
        others.append(100 * best["relative"])
        shares.append(100 * one["lowest"])
        lowest += one["unfaithfulness"] < best["unfaithfulness"]
    ends = [f"{min(some):.2g} to {max(some):.2g} %" for some in (own, others)]
    return (
        f"| {rows[0]['dataset']} | "
        + " | ".join([*ends, f"{lowest} of {len(own)}", f"{min(shares):.0f} to {max(shares):.0f} %"])
        + " |"
    )


def print_overview(rows: list[dict[str, Any]]) -> None:
    """Print a line for each data set in which the first method has rivals."""
    datasets = [
        [row for row in rows if row["dataset"] == name] for name in dict.fromkeys(row["dataset"] for row in rows)
    ]
    lines = [overview_row(some) for some in datasets if len({row["method"] for row in some}) > 1]
    if lines:
        print(f"\n| share of F's change that is left | {rows[0]['method']} | best other | lowest mean | best at |")
        print("|---|---|---|---|---|")
        print("\n".join(lines))


def main(arguments: list[str]) -> None:
    """Read the files, print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="what graphfaith score --json, or this script, has written")
    parser.add_argument("--json", type=Path, help="also write the pooled rows to this file")
    parser.add_argument(
        "--kept", nargs="*", type=Path, default=[], help="results of graphfaith reproduce, for rows without their nodes"
    )
    options = parser.parse_args(arguments)
    results = [row for file in options.kept for row in json.loads(file.read_text()) if row["protocol"] == "held-out"]
    kept = {(row["dataset"], row["neighborhood"], row["method"]): row for row in results}
    read = [row for file in options.files for row in json.loads(file.read_text())]
    rows = [pooled_again(with_kept(row, kept)) for row in read if "model_seeds" in row]
    rows += pooled([row for row in read if "model_seeds" not in row])
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        print_table([row for row in rows if row["dataset"] == dataset])
    print_overview(rows)
    if options.json is not None:
        lines = ",\n".join(json.dumps(row, allow_nan=False) for row in finite_rows(rows))  # a row a line
        write_file(options.json, f"[\n{lines}\n]\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
