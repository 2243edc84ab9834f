"""AnchoredKEC's own estimate of Delta(p), which costs no sample more, against Delta(p) on samples it has not seen.

python benchmarks/calibration.py [--column "cora U(A,0.5)"] [--nodes 10] [--figure docs/calibration.png] [--quick]

With --counts it asks from how many samples on the estimate is right, and shows beside it what KEC leaves on the samples
that it was fitted to, which is no estimate:

python benchmarks/calibration.py --counts --nodes 20
"""

import argparse
import io
import math
import statistics

import numpy as np
import torch
from ingredients import COLUMNS, columns_of, spread_over, table
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import spearmanr

import graphfaith as gf
from graphfaith._base.files import check_output, write_file
from graphfaith._base.progress import track
from graphfaith.data.models import load_trained
from graphfaith.metric import unfaithfulness_of
from graphfaith.view.report import write_json

NODES = {"ba-shapes": range(400, 700, 5), "cora": range(0, 1000, 10)}
FIT, HELD_OUT = 200, 2000  # samples, of seeds 0 and 1
MARKERS = "osD^v<>Ph*X"
COLOURS = (*(f"C{number}" for number in range(10)), "black")
QUICK = 4  # nodes
COUNTS = (12, 25, 50, 75, 100, 200, 400)  # samples of the fit
COUNTED = [(name, near) for name in ("ba-shapes", "cora") for near in ("U(A,0.5)", "B(A,0.5)")] + [
    ("cora", "U(X,0.2r)")
]


def measure(columns, count=None, held_out=HELD_OUT):
    """Both numbers for each node of each column, fitted on 200 samples and on as many as "auto" takes."""
    made = {dataset: load_trained(dataset) for dataset, _ in columns}
    work = [(dataset, near, node) for dataset, near in columns for node in spread_over(NODES[dataset], count)]
    results = []
    for dataset, near, node in track(work, "calibrating", "nodes"):
        data = made[dataset].data
        target = gf.Target(made[dataset].model, data.x, data.edge_index, node)
        models = [gf.AnchoredKEC(near, num_samples=samples).fit(target) for samples in (FIT, "auto")]
        scores = unfaithfulness_of(target, models, near, num_samples=held_out, seed=1)
        for drawn, p, score in zip((FIT, "auto"), models, scores, strict=True):
            said = p.estimate
            results.append(
                {
                    "dataset": dataset,
                    "neighborhood": near,
                    "node": node,
                    "num_samples": drawn,
                    "fit_samples": p.fit_samples,
                    "chosen": p.chosen,
                    "estimate": said.value,
                    "estimate_stderr": said.stderr,
                    "estimate_relative": said.relative,
                    "estimate_relative_stderr": said.relative_stderr,
                    "held_out": score.value,
                    "held_out_stderr": score.stderr,
                    "held_out_relative": score.relative,
                    "held_out_relative_stderr": score.relative_stderr,
                    "held_out_samples": held_out,
                }
            )
    return results


def measure_counts(columns, counts, count=None, held_out=HELD_OUT):
    """Both numbers of AnchoredKEC and of KEC, at each node and for each number of samples."""
    made = {dataset: load_trained(dataset) for dataset, _ in columns}
    work = [(dataset, near, node) for dataset, near in columns for node in spread_over(NODES[dataset], count)]
    results = []
    for dataset, near, node in track(work, "counting", "nodes"):
        data = made[dataset].data
        target = gf.Target(made[dataset].model, data.x, data.edge_index, node)
        anchored = [gf.AnchoredKEC(near, num_samples=samples).fit(target) for samples in counts]
        kec = [gf.KEC(near, num_samples=samples).fit(target) for samples in counts]
        scores = unfaithfulness_of(target, [*anchored, *kec], near, num_samples=held_out, seed=1)
        for method, models, found in (("anchored-kec", anchored, scores), ("kec", kec, scores[len(counts) :])):
            for samples, p, score in zip(counts, models, found, strict=False):
                said = p.estimate if method == "anchored-kec" else None
                zero = score.delta_zero or math.nan
                results.append(
                    {
                        "method": method,
                        "dataset": dataset,
                        "neighborhood": near,
                        "node": node,
                        "num_samples": samples,
                        "estimate": p.in_sample_error if said is None else said.value,
                        "estimate_relative": p.in_sample_error / zero if said is None else said.relative,
                        "estimate_relative_stderr": 0.0 if said is None else said.relative_stderr,
                        "held_out": score.value,
                        "held_out_relative": score.relative,
                        "held_out_relative_stderr": score.relative_stderr,
                        "held_out_samples": held_out,
                        "chosen": "kec" if said is None else p.chosen,
                    }
                )
    return results


def count_table(results, counts):
    """For each number of samples: the estimate over what is held out, ratio of means; the worst column; coverage."""
    rows = []
    for samples in counts:
        cells = [str(samples)]
        for method in ("anchored-kec", "kec"):
            own = [one for one in results if (one["method"], one["num_samples"]) == (method, samples)]
            columns = dict.fromkeys((one["dataset"], one["neighborhood"]) for one in own)
            found = [
                agreement([one for one in own if (one["dataset"], one["neighborhood"]) == column]) for column in columns
            ]
            medians, means = ([one[key] for one in found] for key in ("median_ratio", "ratio_of_means"))
            cells += [f"{statistics.fmean(medians):.2f}", f"{min(medians):.2f}", f"{min(means):.2f}"]
            if method == "anchored-kec":
                cells += [f"{100 * statistics.fmean(one['within_two_errors'] for one in found):.0f} %"]
                cells += [f"{100 * min(one['within_two_errors'] for one in found):.0f} %"]
                cells += [f"{statistics.fmean(one['mean_relative'] for one in found):.2g}"]
                cells += [f"{statistics.fmean(one['mean_held_out'] for one in found):.2g}"]
        rows.append(cells)
    head = ["samples", "median ratio", "its least column", "ratio of means, least column"]
    head += ["within 2 errors", "its least column", "estimate", "held out"]
    head += ["KEC in sample: median ratio", "its least column", "ratio of means, least column"]
    return table(head, rows)


def agreement(results):
    """How well the two agree in a column; a node whose F does not change has no ratio and no place in an order."""
    said, held = (np.array([one[key] for one in results]) for key in ("estimate", "held_out"))
    relative, other = (np.array([one[f"{key}_relative"] for one in results]) for key in ("estimate", "held_out"))
    errors = np.array([math.hypot(*(one[f"{k}_relative_stderr"] for k in ("estimate", "held_out"))) for one in results])
    moves = (relative > 0) & (other > 0) & np.isfinite(relative) & np.isfinite(other)
    varied = len(set(relative[moves])) > 1 and len(set(other[moves])) > 1
    inside = (relative == other) | (np.abs(relative - other) <= 2 * errors)
    return {
        "nodes": len(results),
        "ratio_of_means": float(said.mean() / held.mean()) if held.any() else math.nan,
        "median_ratio": float(np.median(relative[moves] / other[moves])) if moves.any() else math.nan,
        "rank_correlation": float(spearmanr(relative[moves], other[moves]).statistic) if varied else math.nan,
        "within_two_errors": float(inside.mean()),
        "mean_relative": float(relative[moves].mean()) if moves.any() else math.nan,
        "mean_held_out": float(other[moves].mean()) if moves.any() else math.nan,
        "simpler": sum(one["chosen"] != "anchored" for one in results),
    }


def as_tables(results, columns):
    """The table of 200 samples, and that of "auto"."""
    first, second = [], []
    for dataset, near in columns:
        own = [one for one in results if (one["dataset"], one["neighborhood"]) == (dataset, near)]
        fixed, auto = ([one for one in own if one["num_samples"] == drawn] for drawn in (FIT, "auto"))
        found, name = agreement(fixed), f"{dataset} {near}"
        first.append(
            [
                *(name, str(found["nodes"]), f"{found['ratio_of_means']:.2f}", f"{found['median_ratio']:.2f}"),
                *(f"{found['rank_correlation']:.2f}", f"{100 * found['within_two_errors']:.0f} %"),
                str(found["simpler"]),
            ]
        )
        found, used = agreement(auto), [one["fit_samples"] for one in auto]
        second.append(
            [
                *(name, f"{statistics.median(used):.0f}", str(max(used)), f"{100 * found['mean_relative']:.2g} %"),
                *(f"{100 * found['mean_held_out']:.2g} %", f"{found['median_ratio']:.2f}"),
                f"{100 * found['within_two_errors']:.0f} %",
            ]
        )
    head = ["neighbourhood", "nodes", "ratio of means", "median ratio", "rank correlation", "within 2 errors"]
    other = ["neighbourhood", "samples (median)", "samples (most)", "estimate", "held out", "median ratio"]
    return table([*head, "gradient or 0"], first), table([*other, "within 2 errors"], second)


def draw(results, columns, path):
    """Write the picture: a point a node, estimated against held-out relative Delta; the format follows the name."""
    drawn = Figure(figsize=(7.2, 5.0), layout="constrained")
    FigureCanvasAgg(drawn)
    panel = drawn.subplots()
    panel.set(xscale="log", yscale="log", box_aspect=1)
    panel.set(xlabel="relative Δ on held-out samples", ylabel="relative Δ, leave-one-out estimate")
    ends = []
    for dataset, near in columns:
        points = [
            (one["held_out_relative"], one["estimate_relative"])
            for one in results
            if (one["dataset"], one["neighborhood"], one["num_samples"]) == (dataset, near, FIT)
        ]
        points = [both for both in points if min(both) > 0 and math.isfinite(max(both))]
        ends += [number for both in points for number in both]
        place = COLUMNS.index((dataset, near))  # a column looks the same whichever others are drawn
        panel.plot(
            *zip(*points, strict=True) if points else ((), ()),
            marker=MARKERS[place],
            color=COLOURS[place],
            linestyle="",
            markersize=4,
            alpha=0.6,
            label=f"{dataset} {near}",
        )
    limits = (min(ends) / 1.5, max(ends) * 1.5) if ends else (1e-3, 1)
    panel.plot(limits, limits, color="tab:gray", linewidth=1)
    panel.set(xlim=limits, ylim=limits)
    panel.grid(visible=True, which="major", alpha=0.3)
    drawn.legend(loc="outside right upper", fontsize=8, frameon=False)
    buffer = io.BytesIO()
    drawn.savefig(buffer, format=path.suffix[1:].lower(), dpi=150, bbox_inches="tight")
    write_file(path, buffer.getvalue())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--column", action="append", help='e.g. "cora U(A,0.5)" (may be repeated); all if left out')
    parser.add_argument("--nodes", type=int, help="how many nodes of each data set")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="samples to compare with")
    parser.add_argument("--figure", help="draw both numbers of every node in this file, e.g. docs/calibration.png")
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--quick", action="store_true", help="a few nodes of each data set, to see that it runs")
    parser.add_argument("--counts", action="store_true", help=f"fit on {', '.join(map(str, COUNTS))} samples")
    args = parser.parse_args(arguments)
    path = None if args.json is None else check_output(args.json, (".json",))
    picture = None if args.figure is None else check_output(args.figure, (".png", ".pdf", ".svg"))
    torch.set_num_threads(1)
    if args.counts:
        columns = columns_of(args.column) if args.column else COUNTED
        results = measure_counts(columns, COUNTS, args.nodes or (QUICK if args.quick else None), args.held_out)
        print(f"Estimate / held out ({args.held_out} samples), means over {len(columns)} columns:\n")
        print(count_table(results, COUNTS))
        if path is not None:
            write_json(path, results)
        return
    columns = columns_of(args.column)
    results = measure(columns, args.nodes or (QUICK if args.quick else None), args.held_out)
    fixed, auto = as_tables(results, columns)
    print(f"Fitted on {FIT} samples, compared with {args.held_out} others (ratio: estimate / held out):\n\n{fixed}")
    print(f'\nnum_samples="auto", means of relative Delta over nodes:\n\n{auto}')
    if path is not None:
        write_json(path, results)
    if picture is not None:
        draw(results, columns, picture)


if __name__ == "__main__":
    main()
