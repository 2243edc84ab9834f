"""Options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..data import DATASETS
from ..explainers.methods import method_names
from ..model.task import RETURN_TYPES

Dataset = Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")]
Methods = Annotated[
    list[str],
    typer.Option(
        "--method",
        help=f"One of {', '.join(method_names())}, or 'all' (without subgraphx and shapley). May be repeated.",
    ),
]
FewMethods = Annotated[list[str], typer.Option("--method", help="The first methods; may be repeated, up to six.")]
Neighborhoods = Annotated[
    list[str],
    typer.Option("--neighborhood", help="E.g. U(A,0.5), B(A,0.5), U(X,0.2r)xU(A,0.2) or 'all'; may be repeated."),
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
AnyDataset = Annotated[str | None, typer.Option(help=f"One of {', '.join(DATASETS)}; cora if left out.")]
OwnModel = Annotated[
    str | None, typer.Option("--model", help="Your own model: module:function, where the function returns it.")
]
OwnData = Annotated[Path | None, typer.Option("--data", help="The graph for your model (.pt, .safetensors or .npz).")]
Level = Annotated[str, typer.Option(help="What a row of your model's output belongs to: node, edge or graph.")]
Mode = Annotated[str, typer.Option(help=f"The task of your model: {', '.join(RETURN_TYPES)}.")]
ReturnType = Annotated[str, typer.Option(help="What your model returns: raw, probs or log_probs.")]
NumHops = Annotated[int | None, typer.Option(help="How many hops messages go; counted from the layers if left out.")]
Edges = Annotated[
    str, typer.Option(help="What A is: weight (of edges), removal (of edges), mask (of messages), or auto.")
]
MaxMemory = Annotated[str | None, typer.Option(help="Refuse work that needs more memory than this, e.g. '2 GB'.")]
