"""The command line: ``graphfaith demo | explain | view | score | reproduce | bench | swat``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

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
from .comparison import ALL_METHODS, Row, Samples, compare
from .datasets import MOTIF_DATASETS
from .errors import GraphfaithError, InputError, OutputError
from .graph_file import read_graph
from .live.command import serve
from .live.desk import Desk, check_methods
from .live.server import check_loopback, check_port
from .models import Trained
from .neighborhood import parse_neighborhood
from .options import (
    AnyDataset,
    Dataset,
    Edges,
    FewMethods,
    FitSamples,
    Json,
    Level,
    MaxMemory,
    Methods,
    Mode,
    ModelSeed,
    Neighborhoods,
    NumHops,
    OwnData,
    OwnModel,
    ReturnType,
    Seed,
    TestSamples,
)
from .output import check_output
from .paper.command import command as run_reproduce
from .paper.experiments import EXPERIMENTS
from .progress import track
from .report import explanation_row, print_explanation, print_rows, write_json
from .source import open_subject, say, supported, train
from .subject import Options, Subject
from .swat.command import app as swat_app
from .target import Target
from .task import Task
from .view import figure
from .view import page as write_page

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
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Explain graph neural networks, and say how far each explanation can be trusted.",
)
app.add_typer(swat_app, name="swat")


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
    results, picture, page_file = (
        folder / f"{name}" for name in ("results.json", "explanations.png", "explanations.html")
    )
    outputs.append(check_output(results, (".json",)))
    check_output(picture, (".png",))
    check_output(page_file, (".html",))
    fit = train("ba-shapes", 0)
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
    write_page(explanations, page_file, max_nodes=SHOWN)
    typer.echo(f"\nRows: {results}\nNode {shown} explained by {', '.join(PICTURED)}: {picture}")
    typer.echo(f"The same as a page, to open in a browser: {page_file}")


@app.command()
def explain(
    node: Annotated[int, typer.Option("--node", "--index", help="The node to explain, or the edge or graph.")],
    dataset: AnyDataset = None,
    model: OwnModel = None,
    data: OwnData = None,
    method: Methods = ["anchored-kec"],  # noqa: B006
    neighborhood: Neighborhoods = ["U(A,0.5)"],  # noqa: B006
    level: Level = "node",
    mode: Mode = Task.mode,
    return_type: ReturnType = Task.return_type,
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    top: Annotated[int, typer.Option(help="How many edges and features to print.")] = 10,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
    figure_file: Annotated[Path | None, typer.Option("--figure", help="Where to draw it (.png, .pdf or .svg).")] = None,
    page_file: Annotated[Path | None, typer.Option("--page", help="Also write a page to open (.html).")] = None,
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
    if page_file is not None:
        check_output(page_file, (".html",))
    if save_file is not None:
        check_output(save_file, (".safetensors",))
        if len(near) * len(methods) > 1:
            raise InputError("--save keeps one explanation: name one --method and one --neighborhood")
    subject = open_subject(dataset, model, graph, node, task, options, model_seed)
    settings = {"dataset": dataset, **({"model_seed": model_seed} if model is None else {"model": model})}
    rows, explanations = [], []
    if "all" in method:
        methods = supported(subject, methods)
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
    if page_file is not None:
        write_page(explanations, page_file)
        typer.echo(f"Page: {page_file}")
    if save_file is not None:
        archive.save(explanations[0], save_file)
        typer.echo(f"Explanation: {save_file}")


@app.command()
def view(
    node: Annotated[int, typer.Option("--node", "--index", help="Where to begin: a node, or an edge or a graph.")] = 0,
    dataset: AnyDataset = None,
    model: OwnModel = None,
    data: OwnData = None,
    method: FewMethods = ["anchored-kec", "kec", "saliency"],  # noqa: B006
    neighborhood: Annotated[str, typer.Option(help="Where to begin, e.g. U(A,0.5) or B(A,0.5).")] = "U(A,0.5)",
    level: Level = "node",
    mode: Mode = Task.mode,
    return_type: ReturnType = Task.return_type,
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    host: Annotated[str, typer.Option(help="A loopback address; no other machine can be let in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where to listen; any port that is free if 0.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Also open it in the browser.")] = False,
) -> None:
    """Look around: a page on this machine that explains whatever node you pick, until Ctrl-C.

    \b
    Examples:
      graphfaith view --dataset cora --node 42
      graphfaith view --model mymodule:load --data graph.pt
    """
    task, options = Task(mode, return_type, level), Options(num_hops, edges, max_memory)
    dataset = source_of(dataset, model, data, task, model_seed)
    methods = check_methods(method)
    count = samples_of(samples, methods)
    check_numbers(test_samples, seed, model_seed)
    check_loopback(host)
    check_port(port)
    graph = None if data is None else read_graph(data)
    near = neighborhoods_of([neighborhood], dataset, graph)
    subject = open_subject(dataset, model, graph, node, task, options, model_seed)
    desk = Desk(subject, dataset, samples=count, test_samples=test_samples, seed=seed)
    serve(desk, desk.ask(node, methods, near[0]), host=host, port=port, browser=browser)


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
    fit = train(dataset, model_seed)
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
        say("stopped")
    sys.exit(code or 0)


def _stop(message: str) -> None:
    say(f"error: {message}")
    sys.exit(2)
