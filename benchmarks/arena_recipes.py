"""Validation accuracy of the recipes that the networks of the arena may be trained by.

    python benchmarks/arena_recipes.py

The recipe is chosen for all heterophilous graphs and families together: the smallest whose mean validation accuracy is
within one percent of the best one. Test nodes are not looked at, and no explanation is.
"""

from __future__ import annotations

import argparse
import sys

import torch

from graphfaith.data import HETEROPHILOUS_DATASETS, load_dataset
from graphfaith_studies.arena.networks import FAMILIES, RECIPES, train_network


def main(arguments: list[str]) -> None:
    """Print a line for each recipe: its validation accuracy in each contest, and their mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    contests = [(dataset, family) for dataset in HETEROPHILOUS_DATASETS for family in FAMILIES]
    print("| recipe | mean |", " | ".join(f"{dataset} {family}" for dataset, family in contests), "|")
    print("|:--|" + "--:|" * (1 + len(contests)))
    for recipe in RECIPES[::-1]:
        found = []
        for name, family in contests:
            found.append(train_network(family, load_dataset(name), options.seed, recipe)[1])
            print(recipe, name, family, found[-1], file=sys.stderr, flush=True)
        own = "with" if recipe.own else "without"
        name = f"{own} own weights, {recipe.hidden} hidden, {recipe.epochs} epochs"
        numbers = [sum(found) / len(found), *found]
        print(f"| {name} |", " | ".join(f"{number:.3f}" for number in numbers), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
