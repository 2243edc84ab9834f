"""``graphfaith explain``: explain one prediction by one or several methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._base.errors import InputError
from .._base.files import check_output
from .._base.progress import track, waiting
from . import names
from .options import (
    AnyGraph,
    DeviceName,
    Edges,
    FitSamples,
    Json,
    Level,
    MaxMemory,
    Methods,
    Mode,
    ModelSeed,
    Neighborhoods,
    NodeType,
    NumHops,
    OwnData,
    OwnModel,
    ReturnType,
    Seed,
    TestSamples,
)

if TYPE_CHECKING:
    from ..explanation.signed import SignedExplanation
    from ..explanation.typed import TypedExplanation
    from ..view.report import Without


def explain(
    node: Annotated[int, typer.Option("--node", "--index", help="The node (or edge, or graph) to explain.")],
    dataset: AnyGraph = None,
    model: OwnModel = None,
    data: OwnData = None,
    method: Methods = [names.METHOD],  # noqa: B006
    neighborhood: Neighborhoods = [names.NEIGHBORHOOD],  # noqa: B006
    node_type: NodeType = None,
    level: Level = "node",
    mode: Mode = names.MODES[0],
    return_type: ReturnType = names.RETURN_TYPES[0],
    num_hops: NumHops = None,
    edges: Edges = "auto",
    max_memory: MaxMemory = None,
    device: DeviceName = None,
    top: Annotated[int, typer.Option(help="How many edges and features to print.")] = 10,
    samples: FitSamples = "200",
    test_samples: TestSamples = 500,
    seed: Seed = 0,
    model_seed: ModelSeed = 0,
    json_file: Json = None,
    figure_file: Annotated[
        Path | None, typer.Option("--figure", help="File of the figure (.png, .pdf or .svg).")
    ] = None,
    page_file: Annotated[Path | None, typer.Option("--page", help="Also write a page for the browser (.html).")] = None,
    save_file: Annotated[Path | None, typer.Option("--save", help="Also save the explanation (.safetensors).")] = None,
    without: Annotated[
        list[str],
        typer.Option(help="An edge such as 3-42: say how F would change without it (several: without all of them)."),
    ] = [],  # noqa: B006
) -> None:
    """Explain one node: print its strongest edges and features with their signs, and write a JSON file and a figure.

    \b
    Examples:
      graphfaith explain --node 650
      graphfaith explain --dataset cora --node 42 --neighborhood "U(A,0.5)" --samples auto
      graphfaith explain --dataset cora --node 42 --without 42-2711
      graphfaith explain --dataset hetero-ba-shapes --node 150 --without "circle 150-square 152"
      graphfaith explain --model mymodule:load --data graph.pt --node 10
    """
    # Loading these takes seconds, which --help does not need.
    from rich.console import Console

    from ..explainers.methods import expand_methods
    from ..explanation import archive
    from ..facade import TypedSubject
    from ..model.task import Task
    from ..view import figure
    from ..view import page as write_page
    from ..view.report import explanation_row, print_explanation, write_json
    from .arguments import check_without, find_edges, free_path
    from .source import read_request, select_supported

    task, options, source = Task(mode, return_type, level), (num_hops, edges, max_memory), (dataset, model, data)
    methods = expand_methods(method)
    check_without(without, methods)
    if top < 1:
        raise InputError(f"--top must be at least 1 (got {top})")
    seeds = seed, model_seed
    asked = read_request(
        source, task, options, methods, neighborhood, samples, test_samples, seeds, device, None, node_type
    )
    dataset, near, count = asked.label, asked.near, asked.samples
    stem = f"{Path(dataset).stem}-{node}" if level == "node" else f"{Path(dataset).stem}-{level}-{node}"
    json_file, figure_file = json_file or free_path(stem, ".json"), figure_file or free_path(stem, ".png")
    check_output(json_file, (".json",))
    check_output(figure_file, (".png", ".pdf", ".svg"))
    if page_file is not None:
        check_output(page_file, (".html",))
    if save_file is not None:
        check_output(save_file, (".safetensors",))
        if len(near) * len(methods) > 1:
            raise InputError("--save writes a single explanation: give one --method and one --neighborhood")
    subject = asked.open_any(node)
    if isinstance(subject, TypedSubject):
        gone = find_edges(without, subject.named_edges, by_id=False)
    else:
        gone = find_edges(without, subject.data)
    settings = {"dataset": dataset, **({"model_seed": model_seed} if model is None else {"model": model})}
    if "all" in method:
        methods = select_supported(subject, methods)
    rows, explanations, answers, pairs = [], [], [], [(text, name) for text in near for name in methods]
    for text, name in pairs:
        subject.explainer(name, text)  # A method that cannot explain the graph is an error before any work.
    for text, name in track(pairs, "explaining", "methods", show=None if len(pairs) > 1 else False):
        with waiting(f"explaining by {name}", show=None if len(pairs) == 1 else False):
            explanation = subject.explain(node, name, text, samples=count, test_samples=test_samples, seed=seed)
        explanations.append(explanation)
        answers.append(_think_away(explanation, gone, name) if gone else None)
        details = {"method": name, "neighborhood": str(subject.near(text)), "seed": seed, "fit_samples": count}
        rows.append(explanation_row(explanation, top, answers[-1], **settings, **details))
        write_json(json_file, rows)  # Another method may fail, or be stopped.
    # Whoever reads the output may stop reading at any time, so the files are written first.
    figure(explanations, figure_file)
    if page_file is not None:
        write_page(explanations, page_file)
    if save_file is not None:
        archive.save(explanations[0], save_file)
    console = Console()
    for explanation, answer in zip(explanations, answers, strict=True):
        print_explanation(console, explanation, dataset, top, answer)
    typer.echo(f"\nScores: {json_file}\nFigure: {figure_file}")
    for what, path in (("Page", page_file), ("Explanation", save_file)):
        if path is not None:
            typer.echo(f"{what}: {path}")


def _think_away(
    explanation: SignedExplanation | TypedExplanation, edges: list[tuple[int, int]], method: str
) -> Without:
    """Return what p foretells of the graph without some edges, with the model's own answer."""
    from ..explainers.methods import method_named
    from ..view.report import Without

    fitted = method_named(method).is_fitted
    return Without(edges, explanation.what_if(remove=edges, check=True) if fitted else None)
