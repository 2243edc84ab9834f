"""Draw the pictures of docs/concepts.md from one explained paper of Cora: `python docs/pictures.py concepts`.

A neighbourhood as graphs, p beside F on some of them, Delta as the distance from the diagonal, and what each reading of
an explanation foretells. Every dot is an evaluation of the model on a graph that no fit has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import networkx as nx
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import graphfaith as gf
from graphfaith.data.models import load_trained
from graphfaith.facade import Subject
from graphfaith.model.target import Target
from graphfaith.sampling import parse_neighborhood
from graphfaith.surrogate.readings import readings_of

DOCS = Path(__file__).parent
NODE = 1195  # of Cora: docs/readings.md is about it, and the 23 nodes in reach fit in a picture
NEAR = "B(A,0.5,paired)"
SHOWN = (
    ("U(A,0.5)", "U(A,0.5)", "weights move"),
    ("B(A,0.5)", NEAR, "half of the edges go"),
    ("R(A,5)", "R(A,5,paired)", "one to five edges go"),
)
TEST = 500  # samples, of another seed than that of the fit
SEED = 1
DRAWN = 4  # the seed of the graphs that are drawn
SOME = 12  # of the perturbed graphs in the picture of p beside F
INK, BLUE, ORANGE, GREY = "#22252b", "#2f4fb0", "#b4510f", "#a3a7b0"
DPI = 130
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8a8d94"}


class Foretold(NamedTuple):
    """What a function foretells of F's changes, under the name that its picture has."""

    name: str
    change: Tensor  # [S]
    colour: str

    def missed(self, actual: Tensor) -> str:
        """Relative Delta, in percent."""
        return f"{100 * float((self.change - actual).square().mean() / actual.square().mean()):.2g} %"


class Measured(NamedTuple):
    """What the pictures show: F's changes, and what two methods and the readings of the better one foretell of them."""

    target: Target
    actual: Tensor  # [S]
    methods: list[Foretold]
    readings: list[Foretold]


def measure() -> Measured:
    """Explain the node, and ask F and each explanation about the same graphs."""
    fit = load_trained("cora")
    subject = Subject(fit.model, fit.data)
    target, near = subject.target(NODE), parse_neighborhood(NEAR)
    samples = near.sample(target.computation_graph, TEST, SEED)
    p = gf.AnchoredKEC(near, num_samples=200, seed=0).fit(target)
    gradient = subject.fit("saliency", NODE, near, samples=200, seed=0).p
    ours = Foretold("AnchoredKEC", p.change(samples), BLUE)
    theirs = Foretold("the plain gradient", gradient.change(samples), ORANGE)
    read = readings_of(p, near)
    readings = [
        Foretold("these scores, added up", read.additive.change(samples), BLUE),
        Foretold(f"scores and {len(read.paired)} pairs", read.paired.change(samples), BLUE),
        Foretold("the whole p", ours.change, BLUE),
    ]
    return Measured(target, target.changes(samples), [theirs, ours], readings)


def draw_concepts() -> None:
    """The four pictures, of the same node of the same model."""
    target, actual, methods, readings = measure()
    with plt.rc_context(STYLE):
        save(draw_neighborhoods(target), "neighborhood")
        save(draw_gaps(actual, methods), "foretold")
        save(draw_scatters(actual, methods), "delta")
        save(draw_scatters(actual, readings), "readings")


def save(figure: Figure, name: str) -> None:
    figure.savefig(DOCS / f"concept-{name}.png", dpi=DPI, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_neighborhoods(target: Target) -> Figure:
    """What F depends on as it is, and one graph from each of three neighbourhoods; below, what the model says."""
    graph = target.computation_graph
    # Farther nodes count only by their degree, and one stands for all of them.
    drawn = (graph.edge_index < graph.num_visible).all(0)
    ends = [tuple(pair) for pair in graph.edge_index[:, drawn].T.tolist()]
    places = nx.kamada_kawai_layout(nx.Graph([pair for pair in ends if pair[0] != pair[1]]))
    before = float(target.value)
    figure, axes = plt.subplots(1, 1 + len(SHOWN), figsize=(9.4, 2.9), layout="constrained")
    draw_graph(axes[0], places, ends, graph.weight[drawn], graph.weight[drawn])
    axes[0].set_title("the graph as it is")
    axes[0].set_xlabel(f"the model says {before:.1f}")
    for axis, (name, text, words) in zip(axes[1:], SHOWN, strict=True):
        sample = parse_neighborhood(text).sample(graph, 1, DRAWN)
        draw_graph(axis, places, ends, graph.weight[drawn], sample.weight[0, drawn])
        axis.set_title(f"{name}\n{words}")
        after = before - float(target.changes(sample))
        axis.set_xlabel(f"it says {after:.1f}")
    return figure


def draw_graph(
    axis: Axes, places: dict[int, Sequence[float]], ends: list[tuple[int, ...]], before: Tensor, after: Tensor
) -> None:
    """Draw edges as wide as their weights, and those that are gone as dotted lines. Self-loops move too, unseen."""
    widths = {frozenset(pair): (old, new) for pair, old, new in zip(ends, before.tolist(), after.tolist(), strict=True)}
    for pair, (old, new) in widths.items():
        if len(pair) == 2:
            x, y = zip(*(places[end] for end in pair), strict=True)
            gone = new < 1e-6 * old
            axis.plot(x, y, color=GREY if gone else INK, lw=1.1 if gone else 2 * new, ls=":" if gone else "-", zorder=1)
    x, y = zip(*places.values(), strict=True)
    axis.scatter(x, y, s=22, color="white", edgecolors=INK, linewidths=0.9, zorder=2)
    axis.scatter(*places[0], s=75, color=BLUE, zorder=3)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def draw_gaps(actual: Tensor, functions: list[Foretold]) -> Figure:
    """F's change on some perturbed graphs, what each function had foretold, and the gap between the two."""
    figure, axes = plt.subplots(1, len(functions), figsize=(9.4, 2.9), sharey=True, layout="constrained")
    order = actual[:SOME].argsort()
    ranks = range(1, SOME + 1)
    for axis, one in zip(axes, functions, strict=True):
        axis.vlines(ranks, actual[order], one.change[order], color=one.colour, lw=1.2, alpha=0.7)
        axis.scatter(ranks, actual[order], s=26, color=INK, zorder=3, label="F: how much the model changed")
        axis.scatter(
            ranks, one.change[order], s=30, color="white", edgecolors=one.colour, lw=1.5, zorder=2, label="p: foretold"
        )
        axis.set(title=one.name, xlabel=f"{SOME} graphs without half of the edges", xticks=[])
        axis.legend(frameon=False, loc="upper left", fontsize=8)
    axes[0].set_ylabel("change")
    return figure


def draw_scatters(actual: Tensor, functions: list[Foretold]) -> Figure:
    """What each function foretells against what F did; the gaps to the diagonal are drawn of a few graphs."""
    values = torch.cat([actual, *(one.change for one in functions)])
    ends = float(values.min()), float(values.max())
    width = 3.15 * len(functions)
    figure, axes = plt.subplots(1, len(functions), figsize=(width, 3.3), sharey=True, layout="constrained")
    for axis, one in zip(axes, functions, strict=True):
        axis.plot(ends, ends, color="#8a8d94", lw=1)
        axis.scatter(actual, one.change, s=7, color=one.colour, alpha=0.45, linewidths=0)
        axis.vlines(actual[:SOME], actual[:SOME], one.change[:SOME], color=INK, lw=0.9)
        axis.set_title(f"{one.name}\nmisses {one.missed(actual)}")
        axis.set_xlabel("how much the model changed (F)")
        axis.set_aspect("equal")
    axes[0].set_ylabel("what was foretold (p)")
    return figure
