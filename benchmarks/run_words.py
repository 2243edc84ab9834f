"""Does a class look at the words one expects? The class summary of a run on Cora, beside what words say by themselves.

    graphfaith explain-many --dataset cora --out run/
    python benchmarks/run_words.py run/

Cora's words have no names, so that what one expects is taken from the data: how much more often a word occurs in the
papers of a class than in others (lift), and its rank by chi-square among all words, by the true labels, of which the
model has seen 140. The twenty words with the largest mean |score| of each class stand beside the twenty most frequent
words of the class and twenty words drawn at random.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import graphfaith as gf

TOP, DRAWS = 20, 200


def lifts_and_ranks(has: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much more often words occur in a class than elsewhere, and their ranks by chi-square, from 1."""
    inside, outside = has[own].sum(axis=0), has[~own].sum(axis=0)
    lift = (inside + 0.5) / (own.sum() + 1) / ((outside + 0.5) / ((~own).sum() + 1))
    total, share = inside + outside, own.mean()
    square = np.square(inside - total * share) / np.maximum(total * share * (1 - share) * (1 - total / len(has)), 1e-9)
    return lift, np.argsort(np.argsort(-square, kind="stable"), kind="stable") + 1


def describe(words: np.ndarray, lift: np.ndarray, rank: np.ndarray) -> tuple[float, float, float]:
    """The median lift and the median rank of some words, and the share of them among as many best by chi-square."""
    return float(np.median(lift[words])), float(np.median(rank[words])), float((rank[words] <= len(words)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a run on all nodes of Cora")
    run = gf.Run(parser.parse_args().run)
    data = run.job.open().graph
    has, labels = (data.x != 0).numpy(), data.y.numpy()
    table, rng, sums = run.features(by="class", top=TOP).columns, np.random.default_rng(0), []
    head = (
        f"class (papers) | strongest words: mean \\|score\\|, lift | median lift | rank | in best {TOP} | sign agrees"
    )
    others = " | ".join(f"{name}: lift | rank | in best" for name in ("frequent words", "random words"))
    print(f"| {head} | {others} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for group in range(labels.max() + 1):
        lift, rank = lifts_and_ranks(has, labels == group)
        own = table["class"] == group
        words, mean = table["feature"][own], table["mean"][own]
        agree = float((np.sign(mean) == np.sign(np.log(lift[words]))).mean())
        frequent = np.argsort(-has[labels == group].mean(axis=0), kind="stable")[:TOP]
        drawn = np.array([describe(rng.choice(len(lift), TOP, replace=False), lift, rank) for _ in range(DRAWS)])
        found = [*describe(words, lift, rank), agree, *describe(frequent, lift, rank), *drawn.mean(axis=0)]
        sums.append(found)
        shown = ", ".join(
            f"{word} ({size:.2f} ± {error:.2f}, lift {lift[word]:.1f})"
            for word, size, error in zip(
                *(table[name][own][:3] for name in ("feature", "mean_size", "mean_size_stderr")), strict=True
            )
        )
        print(f"| {group} {data.class_names[group]} ({(labels == group).sum()}) | {shown} | {line(found)} |")
    print(f"| mean | | {line(np.mean(sums, axis=0))} |\n")
    tell_more(run)


def tell_more(run: gf.Run) -> None:
    """Print what the other summaries say."""
    total = np.array([row["edges_total"] for row in run if row["status"] == "ok"])
    print(f"- {(total > run.job.top_edges).mean():.0%} of the nodes have more edges than are kept.")
    edges = run.edges(by="class", top=1).columns
    ratio = edges["mean_size"] / edges["mean_size_stderr"]
    print(
        f"- Strongest edge of each class, mean |score| in standard errors: {', '.join(f'{one:.1f}' for one in ratio)}."
    )
    cohorts = run.cohorts(len(ratio))
    pure = cohorts.classes.max(axis=1) / cohorts.sizes
    listed = ", ".join(f"{size} ({share:.0%})" for size, share in zip(cohorts.sizes, pure, strict=True))
    print(f"- Cohorts, and how much of each is of one class: {listed}; spread {cohorts.spread:.2f}.")
    counts = [f"{len(run.untrusted(limit)['node'])} nodes above {limit}" for limit in (0.5, 0.1)]
    print(f"- Not to be trusted: {', '.join(counts)}.")


def line(found: object) -> str:
    lift, rank, best, agree, *others = found  # type: ignore[misc]
    own = f"{lift:.1f} | {rank:.0f} | {best:.0%} | {agree:.0%}"
    return " | ".join([own, *(f"{others[i]:.1f} | {others[i + 1]:.0f} | {others[i + 2]:.0%}" for i in (0, 3))])


if __name__ == "__main__":
    main()
