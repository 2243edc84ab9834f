"""The command line: ``graphfaith demo | explain | score | reproduce | bench``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch_geometric.data import Data

from . import __version__, archive
from .arguments import (
    check_nodes,
    check_numbers,
    free_path,
    methods_of,
    neighborhoods_of,
    parse_nodes,
    samples_of,
    source_of,
)
from .bench.command import bench as run_bench
from .bench.run import TABLES
from .comparison import ALL_METHODS, METHODS, Row, Samples, compare
from .datasets import DATASETS, MOTIF_DATASETS
from .errors import GraphfaithError, InputError, OutputError, UnsupportedError
from .graph_file import NAMES, read_graph
from .models import Trained, trained
from .neighborhood import parse_neighborhood
from .output import check_output
from .own_model import arguments_for, in_precision_of, load_model
from .paper.command import command as run_reproduce
from .paper.experiments import EXPERIMENTS
from .progress import track
from .report import explanation_row, print_explanation, print_rows, write_json
from .subject import Options, Subject
from .target import Target
from .task import RETURN_TYPES, Task
from .view import figure

UsageError: Any = typer.BadParameter.__mro__[1]  # typer brings its own click from 0.26 on, and does not name this one

PAPER_NODES = {
    "ba-shapes": "400:700:5",
    "tree-cycles": "511:871:6",
    "tree-grid": "511:1231:12",
    "cora": "0:1000:5",
    "citeseer": "0:1000:5",
}
SHOWN = 40  # nodes in a picture: more of BA-Shapes than that is a tangle
PICTURED = ("anchored-kec", "kec", "saliency", "gnnexplainer-soft")

out = Console()
err = Console(stderr=True)
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Explain graph neural networks, and say how far each explanation can be trusted.",
)

Dataset = Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")]
Methods = Annotated[
    list[str],
    typer.Option("--method", help=f"Repeat, or 'all', which is every one but subgraphx: {', '.join(METHODS)}."),
]
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
    """Train on BA-Shapes, explain a dozen motif nodes with every method but subgraphx, and compare.

    \b
    Example:
      graphfaith demo --out demo
    """
    check_numbers(1, seed, 0)
    outputs = [] if json_file is None else [check_output(json_file, (".json",))]
    _make_folder(folder)
    results, picture = folder / "results.json", folder / "explanations.png"
    outputs.append(check_output(results, (".json",)))
    check_output(picture, (".png",))
    fit = _train("ba-shapes", 0)
    nodes, near = list(range(400, 700, 25)), ["U(A,0.5)", "B(A,0.5)"]
    rows = _compare(fit, nodes, list(ALL_METHODS), near, seed=seed)
    print_rows(out, rows)
    for path in outputs:
        write_json(path, [row.as_json() for row in rows])
    # A hub's neighbourhood does not fit in a picture: draw the node with the smallest one.
    shown = min(
        nodes, key=lambda node: Target(fit.model, fit.data.x, fit.data.edge_index, node).computation_graph.num_nodes
    )
    subject = Subject(fit.model, fit.data)
    explanations = [subject.explain(shown, method, "B(A,0.5)", seed=seed) for method in PICTURED]
    figure(explanations, picture, max_nodes=SHOWN)
    typer.echo(f"\nRows: {results}\nNode {shown} explained by {', '.join(PICTURED)}: {picture}")


@app.command()
def explain(
    node: Annotated[int, typer.Option("--node", "--index", help="The node to explain, or the edge or graph.")],
    dataset: Annotated[str | None, typer.Option(help=f"One of {', '.join(DATASETS)}; cora if left out.")] = None,
    model: Annotated[str | None, typer.Option(help="Your own model: module:function, which returns it.")] = None,
    data: Annotated[Path | None, typer.Option(help="The graph for it: a .pt, .safetensors or .npz file.")] = None,
    method: Methods = ["anchored-kec"],  # noqa: B006
    neighborhood: Neighborhoods = ["U(A,0.5)"],  # noqa: B006
    level: Annotated[str, typer.Option(help="What a row of your model's output is: node, edge or graph.")] = "node",
    mode: Annotated[str, typer.Option(help=f"Of your model: {', '.join(RETURN_TYPES)}.")] = Task.mode,
    return_type: Annotated[str, typer.Option(help="Of your model: raw, probs or log_probs.")] = Task.return_type,
    num_hops: Annotated[int | None, typer.Option(help="How far messages go; counted if left out.")] = None,
    edges: Annotated[str, typer.Option(help="What A is: weight, mask (of messages), or auto.")] = "auto",
    max_memory: Annotated[str | None, typer.Option(help="Refuse work that takes more, e.g. '2 GB'.")] = None,
    top: Annotated[int, typer.Option(help="How many edges and features to print.")] = 10,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
    figure_file: Annotated[Path | None, typer.Option("--figure", help="Where to draw it (.png, .pdf or .svg).")] = None,
    save_file: Annotated[Path | None, typer.Option("--save", help="Also keep the explanation (.safetensors).")] = None,
) -> None:
    """Explain one node: its strongest edges and features with their signs, a JSON and a figure.

    \b
    Examples:
      graphfaith explain --dataset cora --node 42 --neighborhood "U(A,0.5)" --samples auto
      graphfaith explain --model mymodule:load --data graph.pt --node 10
    """
    task, options = Task(mode, return_type, level), Options(num_hops, edges, max_memory)
    dataset = source_of(dataset, model, data, task, model_seed)
    methods = methods_of(method)
    count = samples_of(samples, methods)
    check_numbers(test_samples, seed, model_seed)
    if top < 1:
        raise InputError(f"--top must be at least 1 (got {top})")
    graph = None if data is None else read_graph(data)
    near = neighborhoods_of(neighborhood, dataset, graph)
    stem = f"{Path(dataset).stem}-{node}" if level == "node" else f"{Path(dataset).stem}-{level}-{node}"
    json_file, figure_file = json_file or free_path(stem, ".json"), figure_file or free_path(stem, ".png")
    json_path, figure_path = check_output(json_file, (".json",)), check_output(figure_file, (".png", ".pdf", ".svg"))
    if save_file is not None:
        check_output(save_file, (".safetensors",))
        if len(near) * len(methods) > 1:
            raise InputError("--save keeps one explanation: name one --method and one --neighborhood")
    if graph is not None and model is not None:
        subject = _own(model, graph, dataset, node, task, options)
        settings: dict[str, Any] = {"dataset": dataset, "model": model}
    else:
        check_nodes(dataset, [node])
        fit = _train(dataset, model_seed)
        subject = Subject(fit.model, fit.data, task, options)
        settings = {"dataset": dataset, "model_seed": model_seed}
    rows, explanations = [], []
    if "all" in method:
        methods = _supported(subject, methods)
    for text in near:
        for name in methods:
            explanation = subject.explain(node, name, text, count, test_samples, seed)
            explanations.append(explanation)
            print_explanation(out, explanation, dataset, top)
            how = {"method": name, "neighborhood": text, "seed": seed, "fit_samples": count}
            rows.append(explanation_row(explanation, top, **settings, **how))
    write_json(json_path, rows)
    figure(explanations, figure_path, max_nodes=SHOWN)
    typer.echo(f"\nScores: {json_file}\nFigure: {figure_file}")
    if save_file is not None:
        archive.save(explanations[0], save_file)
        typer.echo(f"Explanation: {save_file}")


@app.command()
def score(
    dataset: Dataset = "ba-shapes",
    nodes: Annotated[
        str | None, typer.Option(help="start:stop:step, or a list as in 3,5,8; the paper's if left out.")
    ] = None,
    method: Methods = ["all"],  # noqa: B006
    neighborhood: Neighborhoods = ["U(A,0.5)"],  # noqa: B006
    samples: FitSamples = "200",
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
    methods, near = methods_of(method), neighborhoods_of(neighborhood, dataset)
    count = samples_of(samples, methods)
    check_numbers(test_samples, seed, model_seed)
    chosen = parse_nodes(PAPER_NODES[dataset] if nodes is None else nodes)
    path = None if json_file is None else check_output(json_file, (".json",))
    check_nodes(dataset, chosen)
    fit = _train(dataset, model_seed)
    rows = _compare(fit, chosen, methods, near, count, test_samples, seed)
    print_rows(out, rows)
    if path is not None:
        write_json(path, [row.as_json() for row in rows])
        typer.echo(f"\nRows: {json_file}")


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(EXPERIMENTS)}.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the nodes.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results; results/paper, or results/quick.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes at work; one a core, at most 8, if left out.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Measure anew what is there already.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Instead: write this .md page of the results in --out.")
    ] = None,
) -> None:
    """Remake tables and figures of the paper, its value beside ours; goes on where it was stopped.

    \b
    Examples:
      graphfaith reproduce table1 --quick
      graphfaith reproduce --all --out results/paper
      graphfaith reproduce --page results/paper.md --out results/paper
    """
    folder = folder or Path("results") / ("quick" if quick else "paper")
    options = {"everything": everything, "quick": quick, "restart": restart}
    run_reproduce(names or [], folder, **options, workers=workers, page=page)


@app.command()
def bench(
    dataset: Annotated[list[str], typer.Option(help=f"Repeat; all if left out: {', '.join(TABLES)}.")] = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="Every figure in two minutes, from fewer nodes.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Also say where KEC's time goes.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Instead: time and memory against every size.")] = False,
    threads: Annotated[bool, typer.Option("--threads", help="Instead: two threads against two processes.")] = False,
    figure_file: Annotated[
        Path | None, typer.Option("--figure", help="Where to draw --growth (.png, .pdf or .svg).")
    ] = None,
    json_file: Json = None,
) -> None:
    """Time every method here and its peers in turns: medians, ratios, and the bars they have to reach.

    \b
    Examples:
      graphfaith bench --quick --json bench.json
      graphfaith bench --growth --figure growth.png
    """
    options = {"quick": quick, "profile": profile, "growth": growth, "threads": threads}
    run_bench(out, dataset, **options, figure=figure_file, json_file=json_file)


# Work -------------------------------------------------------------------------------------------------------------


def _train(dataset: str, seed: int) -> Trained:
    fit = trained(dataset, seed=seed, progress=True)
    _say(f"{dataset}: test accuracy {100 * fit.test_accuracy:.1f} %")
    return fit


def _compare(
    fit: Trained,
    nodes: Sequence[int],
    methods: Sequence[str],
    near: Sequence[str],
    samples: Samples = 200,
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
        train_jointly=fit.name in MOTIF_DATASETS,
        progress=lambda items: track(list(items), "explaining", "nodes", show=True),
    )


def _own(model: str, graph: Data, label: str, index: int, task: Task, options: Options) -> Subject:
    """The user's model on the user's graph, tried once; says what it was called with."""
    made = load_model(model)
    subject = Subject(made, in_precision_of(made, graph), task, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subject.target(index)
    for warning in caught:
        _say(f"note: {warning.message}")
    given = ["x", "edge_index", *arguments_for(made, graph)]
    unused = sorted(set(graph.keys()) - {*given, *NAMES})
    size = f"{len(graph.x)} nodes, {graph.edge_index.size(1)} edges, {graph.x.size(1)} features"
    _say(f"{label}: {size}; the model is given {', '.join(given)}" + f" (not {', '.join(unused)})" * bool(unused))
    return subject


def _supported(subject: Subject, methods: Sequence[str]) -> list[str]:
    """Of all methods those that can explain such a model; says which cannot."""
    found = []
    for name in methods:
        try:
            subject.explainer(name, "U(A,0.5)")
        except UnsupportedError as error:
            _say(f"note: {name} is left out: {error}")
        else:
            found.append(name)
    return found


def _say(text: str) -> None:
    err.print(text, highlight=False, markup=False, soft_wrap=True)


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
    _say(f"error: {message}")
    sys.exit(2)
