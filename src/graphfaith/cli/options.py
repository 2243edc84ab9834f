"""Options that several commands share, with their help texts and what a shell completes them to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from . import names


def completing(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return the function that completes the beginning of a word to the names that are known.

    >>> completing(["kec", "saliency"])("k")
    ['kec']
    """
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


AnyDataset = Annotated[
    str | None,
    typer.Option(
        help=f"One of {', '.join(names.DATASETS)}; {names.DATASET} if left out.",
        autocompletion=completing(names.DATASETS),
    ),
]
AnyGraph = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help=f"One of {', '.join((*names.DATASETS, *names.TYPED_DATASETS))}; {names.DATASET} if left out.",
        autocompletion=completing((*names.DATASETS, *names.TYPED_DATASETS)),
    ),
]
NodeType = Annotated[
    str | None,
    typer.Option(
        help="Of a graph of several types: the type of nodes that your model's output is of; found out if left out."
    ),
]
Methods = Annotated[
    list[str],
    typer.Option(
        "--method",
        help=f"One of {', '.join(names.METHODS)}, or 'all' (without subgraphx and shapley). May be repeated.",
        autocompletion=completing((*names.METHODS, "all")),
    ),
]
FewMethods = Annotated[
    list[str],
    typer.Option(
        "--method",
        help="The first methods; may be repeated, up to six.",
        autocompletion=completing(names.METHODS),
    ),
]
Neighborhoods = Annotated[
    list[str],
    typer.Option(
        "--neighborhood",
        help="E.g. U(A,0.5), B(A,0.5), U(X,0.2r)xU(A,0.2) or 'all'; may be repeated.",
        autocompletion=completing(names.NEIGHBORHOODS),
    ),
]
FitSamples = Annotated[
    str,
    typer.Option(
        "--samples", help="How many samples anchored-kec, kec and linear are fitted on; auto is for anchored-kec only."
    ),
]
TestSamples = Annotated[int, typer.Option(help="How many samples to score with, other than those of the fit.")]
Seed = Annotated[int, typer.Option(help="Seed of the samples for the fit; the scores use this seed plus 1.")]
ModelSeed = Annotated[int, typer.Option(help="Seed of the training of the model.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the rows to this file (.json).")]
OwnModel = Annotated[
    str | None, typer.Option("--model", help="Your own model: module:function, where the function returns it.")
]
OwnData = Annotated[Path | None, typer.Option("--data", help="The graph for your model (.pt, .safetensors or .npz).")]
Level = Annotated[
    str,
    typer.Option(
        help="What a row of your model's output belongs to: node, edge or graph.",
        autocompletion=completing(names.LEVELS),
    ),
]
Mode = Annotated[
    str,
    typer.Option(help=f"The task of your model: {', '.join(names.MODES)}.", autocompletion=completing(names.MODES)),
]
ReturnType = Annotated[
    str,
    typer.Option(
        help="What your model returns: raw, probs or log_probs.", autocompletion=completing(names.RETURN_TYPES)
    ),
]
NumHops = Annotated[int | None, typer.Option(help="How many hops messages go; counted from the layers if left out.")]
Edges = Annotated[
    str,
    typer.Option(
        help="What A is: weight (of edges), removal (of edges), mask (of messages), or auto.",
        autocompletion=completing(names.EDGES),
    ),
]
DeviceName = Annotated[
    str | None, typer.Option(help="Where the model is run, e.g. cuda or mps; the processor if left out.")
]
MaxMemory = Annotated[str | None, typer.Option(help="Refuse work that needs more memory than this, e.g. '2 GB'.")]
