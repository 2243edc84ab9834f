"""The command line: ``graphfaith demo | explain | score``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch_geometric.explain import Explanation

from . import __version__
from .checks import check_count, check_node, check_seed
from .comparison import METHODS, Row, compare, explainer_for
from .datasets import DATASETS, load_dataset
from .errors import GraphfaithError, InputError, OutputError
from .models import Trained, trained
from .neighborhood import Neighborhood, parse_neighborhood
from .output import check_output
from .report import explanation_row, print_explanation, print_rows, write_json
from .target import Target
from .unfaithfulness import general_unfaithfulness
from .view import figure

T = TypeVar("T")
UsageError: Any = typer.BadParameter.__mro__[1]  # typer brings its own click from 0.26 on, and does not name this one

EDGE_NEIGHBORHOODS = ("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)")
FEATURE_NEIGHBORHOODS = ("U(X,0.2r)", "U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)")
PAPER_NODES = {"ba-shapes": "400:700:5", "cora": "0:1000:5", "citeseer": "0:1000:5"}
SHOWN = 40  # nodes in a picture: more of BA-Shapes than that is a tangle
PICTURED = ("kec", "saliency", "gnnexplainer-soft")

out = Console()
err = Console(stderr=True)
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Explain graph neural networks, and say how far each explanation can be trusted.",
)

Dataset = Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")]
Methods = Annotated[list[str], typer.Option("--method", help=f"Repeat, or 'all': {', '.join(METHODS)}.")]
Neighborhoods = Annotated[
    list[str], typer.Option("--neighborhood", help="Repeat, or 'all': e.g. U(A,0.5), B(A,0.5), U(X,0.2r)xU(A,0.2).")
]
Samples = Annotated[int, typer.Option(help="Samples that KEC and Linear are fitted on.")]
TestSamples = Annotated[int, typer.Option(help="Samples to score with, drawn apart from the fit.")]
Seed = Annotated[int, typer.Option(help="Names the samples; scores are drawn with the next seed.")]
ModelSeed = Annotated[int, typer.Option(help="Seed the model is trained with.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the rows to this file.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Options of the command itself."""
    if version:
        typer.echo(f"graphfaith {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("demo"),
    seed: Seed = 0,
    json_file: Json = None,
) -> None:
    """Train on BA-Shapes, explain a dozen motif nodes with every method, and compare.

    \b
    Example:
      graphfaith demo --out demo
    """
    _check_numbers(1, 1, seed, 0)
    outputs = [] if json_file is None else [check_output(json_file, (".json",))]
    _make_folder(folder)
    results, picture = folder / "results.json", folder / "explanations.png"
    outputs.append(check_output(results, (".json",)))
    check_output(picture, (".png",))
    fit = _train("ba-shapes", 0)
    nodes, near = list(range(400, 700, 25)), ["U(A,0.5)", "B(A,0.5)"]
    rows = _compare(fit, nodes, list(METHODS), near, seed=seed)
    print_rows(out, rows)
    for path in outputs:
        write_json(path, [row.as_json() for row in rows])
    # A hub's neighbourhood does not fit in a picture: draw the node with the smallest one.
    shown = min(
        nodes, key=lambda node: Target(fit.model, fit.data.x, fit.data.edge_index, node).computation_graph.num_nodes
    )
    explanations = [_explain(fit, shown, method, "B(A,0.5)", seed=seed) for method in PICTURED]
    figure(explanations, picture, max_nodes=SHOWN)
    typer.echo(f"\nRows: {results}\nNode {shown} explained by {', '.join(PICTURED)}: {picture}")


@app.command()
def explain(
    node: Annotated[int, typer.Option(help="The node to explain.")],
    dataset: Dataset = "cora",
    method: Methods = ["kec"],  # noqa: B006
    neighborhood: Neighborhoods = ["U(A,0.5)"],  # noqa: B006
    top: Annotated[int, typer.Option(help="How many edges and features to print.")] = 10,
    samples: Samples = 200,
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
    figure_file: Annotated[Path | None, typer.Option("--figure", help="Where to draw it (.png, .pdf or .svg).")] = None,
) -> None:
    """Explain one node: its strongest edges and features with their signs, a JSON and a figure.

    \b
    Example:
      graphfaith explain --dataset cora --node 42 --method kec --neighborhood "U(A,0.5)"
    """
    methods, near = _methods(method), _neighborhoods(neighborhood, dataset)
    _check_numbers(samples, test_samples, seed, model_seed)
    if top < 1:
        raise InputError(f"--top must be at least 1 (got {top})")
    json_file = json_file or _free(f"{dataset}-{node}", ".json")
    figure_file = figure_file or _free(f"{dataset}-{node}", ".png")
    json_path, figure_path = check_output(json_file, (".json",)), check_output(figure_file, (".png", ".pdf", ".svg"))
    _check_nodes(dataset, [node])
    fit = _train(dataset, model_seed)
    rows, explanations = [], []
    for text in near:
        for name in methods:
            explanation = _explain(fit, node, name, text, samples, test_samples, seed)
            explanations.append(explanation)
            print_explanation(out, explanation, dataset, node, top)
            rows.append(explanation_row(explanation, dataset, name, text, node, samples, seed, model_seed, top))
    write_json(json_path, rows)
    figure(explanations, figure_path, max_nodes=SHOWN)
    typer.echo(f"\nScores: {json_file}\nFigure: {figure_file}")


@app.command()
def score(
    dataset: Dataset = "ba-shapes",
    nodes: Annotated[
        str | None, typer.Option(help="start:stop:step, or a list as in 3,5,8; the paper's if left out.")
    ] = None,
    method: Methods = ["all"],  # noqa: B006
    neighborhood: Neighborhoods = ["U(A,0.5)"],  # noqa: B006
    samples: Samples = 200,
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
) -> None:
    """Score methods on nodes: Delta(p) with its error bar over nodes, relative Delta, seconds a node.

    \b
    Example:
      graphfaith score --dataset cora --nodes 0:1000:50 --method kec --method saliency --neighborhood all
    """
    methods, near = _methods(method), _neighborhoods(neighborhood, dataset)
    _check_numbers(samples, test_samples, seed, model_seed)
    chosen = parse_nodes(PAPER_NODES[dataset] if nodes is None else nodes)
    path = None if json_file is None else check_output(json_file, (".json",))
    _check_nodes(dataset, chosen)
    fit = _train(dataset, model_seed)
    rows = _compare(fit, chosen, methods, near, samples, test_samples, seed)
    print_rows(out, rows)
    if path is not None:
        write_json(path, [row.as_json() for row in rows])
        typer.echo(f"\nRows: {json_file}")


# Reading arguments ------------------------------------------------------------------------------------------------


def parse_nodes(text: str) -> list[int]:
    """Nodes written as ``start:stop:step`` or as a list.

    >>> parse_nodes("0:10:4")
    [0, 4, 8]
    >>> parse_nodes("3,5,3")
    [3, 5]
    """
    try:
        if ":" in text:
            parts = [int(part) for part in text.split(":")]
            found = list(range(*parts)) if len(parts) in (2, 3) else []
        else:
            found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise InputError(
            f"cannot read the nodes {text!r}: write start:stop:step, as in 0:1000:50, or a list, as in 3,5,8"
        )
    return list(dict.fromkeys(found))


def _methods(names: Sequence[str]) -> list[str]:
    chosen = list(METHODS) if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        if name not in METHODS:
            raise InputError(f"unknown method {name!r}: known are {', '.join(METHODS)}, and all")
    return chosen


def _neighborhoods(texts: Sequence[str], dataset: str) -> list[str]:
    if dataset not in DATASETS:
        raise InputError(f"unknown dataset {dataset!r}: known are {', '.join(DATASETS)}")
    if "all" in texts:
        # The features of BA-Shapes are all ones, so there is no range to perturb them in.
        return list(
            EDGE_NEIGHBORHOODS
            if dataset == "ba-shapes"
            else FEATURE_NEIGHBORHOODS[:1] + EDGE_NEIGHBORHOODS + FEATURE_NEIGHBORHOODS[1:]
        )
    near: list[Neighborhood] = [parse_neighborhood(text) for text in texts]
    for one in near:
        if dataset == "ba-shapes" and one.perturbs_features:
            raise InputError(
                f"{one}: the features of ba-shapes are constant; use a neighbourhood of edges, as U(A,0.5)"
            )
    return list(dict.fromkeys(str(one) for one in near))


def _check_nodes(dataset: str, nodes: Sequence[int]) -> None:
    count = load_dataset(dataset).num_nodes
    for node in nodes:
        check_node(node, count)


def _free(stem: str, suffix: str) -> Path:
    """A name in this folder that is not taken: nothing is overwritten that the user did not name."""
    number, path = 1, Path(stem + suffix)
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}{suffix}")
    return path


def _check_numbers(samples: int, test_samples: int, seed: int, model_seed: int) -> None:
    check_count(samples, "samples")
    check_count(test_samples, "test_samples")
    check_seed(seed)
    check_seed(seed + 1)
    check_seed(model_seed)


# Work -------------------------------------------------------------------------------------------------------------


def _train(dataset: str, seed: int) -> Trained:
    fit = trained(dataset, seed=seed, progress=True)
    err.print(f"{dataset}: test accuracy {100 * fit.test_accuracy:.1f} %", highlight=False)
    return fit


def _compare(
    fit: Trained,
    nodes: Sequence[int],
    methods: Sequence[str],
    near: Sequence[str],
    samples: int = 200,
    test_samples: int = 500,
    seed: int = 0,
) -> list[Row]:
    return compare(
        fit.model,
        fit.data,
        nodes,
        methods,
        [parse_neighborhood(text) for text in near],
        dataset=fit.name,
        fit_samples=samples,
        num_samples=test_samples,
        seed=seed,
        model_seed=fit.seed,
        train_jointly=fit.name == "ba-shapes",
        progress=_progress,
    )


def _explain(
    fit: Trained, node: int, method: str, near: str, samples: int = 200, test_samples: int = 500, seed: int = 0
) -> Explanation:
    explainer = explainer_for(fit.model, method, near, samples=samples, seed=seed)
    started = time.perf_counter()
    explanation = explainer(fit.data.x, fit.data.edge_index, index=node)
    explanation.seconds = time.perf_counter() - started
    explanation.unfaithfulness = general_unfaithfulness(explainer, explanation, near, test_samples, seed + 1)
    return explanation


def _progress(items: Iterable[T]) -> Iterator[T]:
    columns = (
        TextColumn("explaining"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("nodes,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        yield from bar.track(list(items))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder '{folder}': {error.strerror or error}") from error


def main() -> None:
    """Run the command; a mistake in its arguments is one line and exit code 2."""
    if "OMP_NUM_THREADS" not in os.environ:
        # Computation graphs are small: a second thread gains little, and on a busy machine waiting for it costs dear.
        torch.set_num_threads(1)
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        _stop(" ".join(error.format_message().split()))
    except GraphfaithError as error:
        _stop(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:  # typer turns an interrupt into this code
        err.print("stopped")
    sys.exit(code or 0)


def _stop(message: str) -> None:
    err.print(f"error: {message}", highlight=False, markup=False, soft_wrap=True)
    sys.exit(2)
