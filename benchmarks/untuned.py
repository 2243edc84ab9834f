"""Every method on models that AnchoredKEC was not tuned on: GAT, SAGE and GIN (or other families), trained on Cora.

The rows are those of ``graphfaith score``, with the family in place of the data set, so that ``columns.py`` makes a
table of them:

    for seed in 0 1 2; do
      python benchmarks/untuned.py --model-seed $seed --json untuned-$seed.json
    done
    python benchmarks/columns.py untuned-*.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from families import families, train

from graphfaith._base.files import check_output
from graphfaith._base.progress import track
from graphfaith.data import load_dataset
from graphfaith.explainers.methods import expand_methods, method_names
from graphfaith.facade import compare
from graphfaith.facade.subject import expand_neighborhoods
from graphfaith.view.report import write_json


def main(arguments: list[str]) -> None:
    """Train each family, score every method on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", help="one family of families.py (may be repeated)")
    parser.add_argument("--method", action="append", choices=method_names(), help="one method (may be repeated)")
    parser.add_argument("--neighborhood", action="append", help="one neighbourhood (may be repeated)")
    parser.add_argument("--model-seed", type=int, default=0, help="of the training")
    parser.add_argument("--step", type=int, default=40, help="every so many of the first 1000 nodes")
    parser.add_argument("--quick", action="store_true", help="three nodes and ten epochs, to see that it runs")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    options = parser.parse_args(arguments)
    path = None if options.json is None else check_output(options.json, (".json",))
    near = options.neighborhood or expand_neighborhoods(["all"], "cora", constant=False)
    torch.set_num_threads(1)
    data, rows = load_dataset("cora"), []
    makers = families(data)
    nodes, epochs = (range(0, 120, 40), 10) if options.quick else (range(0, 1000, options.step), 100)
    for name in options.family or ("GAT", "SAGE mean", "GIN"):
        torch.manual_seed(options.model_seed)
        model = makers[name]()
        accuracy = train(model, data, {}, epochs)
        print(f"{name}: test accuracy {100 * accuracy:.1f} %", file=sys.stderr)
        found = compare(
            model,
            data,
            nodes,
            methods=expand_methods(options.method or ["all"]),
            neighborhoods=near,
            dataset=name,
            model_seed=options.model_seed,
            progress=lambda items, name=name: track(list(items), f"explaining {name}", "nodes", show=True),
        )
        rows += found
        print(found)
        if path is not None:  # what is done is kept if the next one is interrupted
            write_json(path, [row.as_json() for row in rows])


if __name__ == "__main__":
    main(sys.argv[1:])
