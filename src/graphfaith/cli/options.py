"""Options that several commands have, each with its help."""

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
    typer.Option("--method", help=f"Repeat, or 'all', which is every one but subgraphx: {', '.join(method_names())}."),
]
FewMethods = Annotated[list[str], typer.Option("--method", help="Where to begin; repeat, at most six.")]
Neighborhoods = Annotated[
    list[str], typer.Option("--neighborhood", help="Repeat, or 'all': e.g. U(A,0.5), B(A,0.5), U(X,0.2r)xU(A,0.2).")
]
FitSamples = Annotated[
    str,
    typer.Option(
        "--samples", help="Samples that AnchoredKEC, KEC and Linear are fitted on; or auto, for anchored-kec alone."
    ),
]
TestSamples = Annotated[int, typer.Option(help="Samples to score with, drawn apart from the fit.")]
Seed = Annotated[int, typer.Option(help="Names the samples; scores are drawn with the next seed.")]
ModelSeed = Annotated[int, typer.Option(help="Seed the model is trained with.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the rows to this file.")]
AnyDataset = Annotated[str | None, typer.Option(help=f"One of {', '.join(DATASETS)}; cora if left out.")]
OwnModel = Annotated[str | None, typer.Option("--model", help="Your own model: module:function, which returns it.")]
OwnData = Annotated[Path | None, typer.Option("--data", help="The graph for it: a .pt, .safetensors or .npz file.")]
Level = Annotated[str, typer.Option(help="What a row of your model's output is: node, edge or graph.")]
Mode = Annotated[str, typer.Option(help=f"Of your model: {', '.join(RETURN_TYPES)}.")]
ReturnType = Annotated[str, typer.Option(help="Of your model: raw, probs or log_probs.")]
NumHops = Annotated[int | None, typer.Option(help="How far messages go; counted if left out.")]
Edges = Annotated[str, typer.Option(help="What A is: weight, mask (of messages), or auto.")]
MaxMemory = Annotated[str | None, typer.Option(help="Refuse work that takes more, e.g. '2 GB'.")]
