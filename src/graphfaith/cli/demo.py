"""``graphfaith demo``: a complete comparison of methods, on a generated graph that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .._base.files import check_output, make_folder
from .._base.progress import track
from .names import DATASET
from .options import DeviceName, Json, Seed

NODES = range(400, 700, 25)  # of twelve motifs
PICTURED = ("anchored-kec", "pgexplainer", "kec", "saliency")  # the closest rival beside it


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("demo"),
    seed: Seed = 0,
    device: DeviceName = None,
    json_file: Json = None,
) -> None:
    """Train a model on BA-Shapes, explain twelve motif nodes with every method that 'all' stands for, and compare them.

    \b
    Example:
      graphfaith demo --out demo
    """
    # Loading these takes seconds, which --help does not need.
    from rich.console import Console

    from ..explainers.methods import expand_methods
    from ..facade import Options
    from ..model.home import check_device
    from ..model.task import Task
    from ..view import figure
    from ..view import page as write_page
    from ..view.report import write_json
    from .arguments import check_numbers
    from .score import compare_methods
    from .source import open_subject

    check_numbers(1, seed, 0)
    check_device("cpu" if device is None else device)
    outputs = [] if json_file is None else [check_output(json_file, (".json",))]
    make_folder(folder)
    results, picture, page_file = (
        folder / f"{name}" for name in ("results.json", "explanations.png", "explanations.html")
    )
    outputs.append(check_output(results, (".json",)))
    check_output(picture, (".png",))
    check_output(page_file, (".html",))
    nodes, near = list(NODES), ["U(A,0.5)", "B(A,0.5)"]
    subject = open_subject(DATASET, None, None, nodes[0], Task(), Options(), 0, device)
    rows = compare_methods(subject, DATASET, nodes, expand_methods(["all"]), near, seed=seed)
    for path in outputs:
        write_json(path, [row.as_json() for row in rows])
    # The computation graph of a hub is too large for a picture, so the node with the smallest one is drawn.
    shown = min(nodes, key=lambda node: subject.target(node).computation_graph.num_nodes)
    pictured = track(PICTURED, "drawing", "pictures")
    explanations = [subject.explain(shown, method, "B(A,0.5)", seed=seed) for method in pictured]
    figure(explanations, picture)
    write_page(explanations, page_file)
    # Whoever reads the output may stop reading at any time, so the files are written first.
    Console().print(rows)
    typer.echo(f"\nRows: {results}\nNode {shown} explained by {', '.join(PICTURED)}: {picture}")
    typer.echo(f"The same explanations as a page for the browser: {page_file}")
