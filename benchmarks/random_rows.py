"""The random explainer beside KEC and AnchoredKEC by Delta, and how long the judge takes.

    python benchmarks/random_rows.py           # Delta on Cora, CiteSeer and BA-Shapes, in every neighbourhood
    python benchmarks/random_rows.py --time    # all figures of merit of ten methods on twenty nodes of Cora
    python benchmarks/random_rows.py --tops    # the largest scores and the largest magnitudes as what is inside

Differences are paired: each method explains the same predictions, on the same samples. The time is that of one process
with one thread; seconds of the processor are beside it, because they do not count what other programs take.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

import torch

import graphfaith as gf
from graphfaith.cli.names import JUDGED
from graphfaith.data.models import load_trained
from graphfaith.facade.subject import expand_neighborhoods

NODES = {"cora": range(0, 1000, 100), "citeseer": range(0, 1000, 100), "ba-shapes": range(400, 700, 30)}
OWN = ("anchored-kec", "kec")
TWENTY = range(0, 1000, 50)  # nodes of Cora
OF_DISTANCES = ("sufficiency", "necessity", "gef")


def compare() -> None:
    """Print Delta of the random explainer and of the library's methods, as a table in Markdown."""
    print("| data set | neighbourhood | anchored-kec | kec | random | random less anchored-kec | random less kec |")
    print("|:--|:--|--:|--:|--:|--:|--:|")
    for dataset, nodes in NODES.items():
        fit = load_trained(dataset)
        nears = expand_neighborhoods(["all"], dataset, constant=dataset == "ba-shapes")
        verdict = gf.judge(fit.model, fit.data, OWN, nodes, ["delta"], neighborhoods=nears, dataset=dataset)
        for near in nears:
            values = [f"{verdict.row(name, 'delta', near).value:.3g}" for name in (*OWN, "random")]
            less = [verdict.difference("random", name, "delta", near) for name in OWN]
            pairs = [f"{one.value:.3g} ± {one.stderr:.1g}" for one in less]
            print(f"| {dataset} | {near} | {' | '.join([*values, *pairs])} |", flush=True)


def measure_time() -> None:
    """Print how long all figures of merit of ten methods take on twenty nodes of Cora."""
    fit, nodes = load_trained("cora"), TWENTY
    start, used = time.perf_counter(), time.process_time()
    verdict = gf.judge(fit.model, fit.data, JUDGED, nodes, "all", dataset="cora")
    seconds, own = time.perf_counter() - start, time.process_time() - used
    measures = len({measure for measure, _ in verdict.columns})
    print("| predictions | methods | figures of merit | seconds | of the processor | load of the machine |")
    print("|--:|--:|--:|--:|--:|--:|")
    load = f"{os.getloadavg()[1]:.1f} on {os.cpu_count()} cores"
    print(f"| {len(nodes)} | {len(verdict.methods)} | {measures} | {seconds:.0f} | {own:.0f} | {load} |")


def compare_tops() -> None:
    """Print the measures that are distances with the largest magnitudes inside, and with the largest scores."""
    fit = load_trained("cora")
    verdicts = {
        by: gf.judge(fit.model, fit.data, OWN[:1], TWENTY, OF_DISTANCES, by=by, dataset="cora")
        for by in ("magnitude", "score")
    }
    print("| figure of merit | inside are the largest | anchored-kec | random | anchored-kec less random |")
    print("|:--|:--|--:|--:|--:|")
    for measure in OF_DISTANCES:
        for by, verdict in verdicts.items():
            rows = [verdict.row(name, measure) for name in (OWN[0], "random")]
            less = verdict.difference(OWN[0], "random", measure)
            cells = [f"{one.value:.3f} ± {one.stderr:.1g}" for one in (*rows, less)]
            print(f"| {measure} | {by}s | {' | '.join(cells)} |")


def main() -> None:
    """Read the arguments and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--time", action="store_true", help="measure the time of all figures of merit on Cora")
    parser.add_argument("--tops", action="store_true", help="compare what is inside by score and by magnitude")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    (measure_time if asked.time else compare_tops if asked.tops else compare)()


if __name__ == "__main__":
    main()
