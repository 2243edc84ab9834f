"""``graphfaith graph``: graphs in folders of files, which are read where they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._base.errors import InputError
from . import names
from .options import completing

if TYPE_CHECKING:
    from ..graph.packed import PackedGraph

graph = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Pack a graph into a folder of files, from which explanations read what they need; say what is in one.\n\n"
    "\b\n"
    "Examples:\n"
    "  graphfaith graph pack packed --data graph.pt\n"
    "  graphfaith graph info packed",
)


@graph.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="The folder to write; it must not exist.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="A graph (.pt, .safetensors or .npz), or a folder with x.npy, edge_index.npy or edges.parquet, and, "
            "if there are such, edge_weight.npy and y.npy."
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(names.DATASETS)}, in place of --data.", autocompletion=completing(names.DATASETS)
        ),
    ] = None,
    x: Annotated[Path | None, typer.Option("--x", help="Features (.npy), for --edges.")] = None,
    edges: Annotated[
        Path | None, typer.Option(help="Edges with the columns source, target and perhaps weight (.parquet).")
    ] = None,
    y: Annotated[Path | None, typer.Option("--y", help="Labels (.npy), for --edges.")] = None,
    flow: Annotated[
        str, typer.Option(help="The flow of the model's layers: source_to_target or target_to_source.")
    ] = "source_to_target",
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            help="What else the graph has and your model does not read, e.g. edge_attr; may be repeated, or all."
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="How much memory to take, e.g. '500 MB'.")] = "500 MB",
) -> None:
    """Write a graph to a folder once, so that any number of processes can explain it without loading it.

    \b
    Examples:
      graphfaith graph pack packed --data arrays/ --memory "500 MB"
      graphfaith graph pack packed --x x.npy --edges edges.parquet
      graphfaith graph pack cora --dataset cora
    """
    # Loading these takes seconds, which --help does not need.
    from ..data import DATASETS, load_dataset
    from ..data.edge_lists import ParquetEdges, open_array, open_arrays
    from ..data.graph_file import read_graph
    from ..graph.packing import pack_graph, write_graph
    from .arguments import check_types

    if sum(given is not None for given in (data, dataset, edges)) != 1:
        raise InputError("give one of --data, --dataset and --edges")
    if (x is None) != (edges is None) or (y is not None and edges is None):
        raise InputError("--x and --edges go together, and --y goes with them")
    without = tuple(leave_out or ())
    if edges is not None and x is not None:
        labels = None if y is None else open_array(y)
        made = write_graph(folder, open_array(x), ParquetEdges.of(edges, without), labels, flow=flow, max_memory=memory)
    elif data is not None and data.is_dir():
        made = write_graph(folder, *open_arrays(data, without), flow=flow, max_memory=memory)
    elif data is not None:
        made = pack_graph(read_graph(data), folder, flow=flow, max_memory=memory, leave_out=without)
    else:
        check_types(dataset or "", None, "packed graphs have one type of nodes; graphfaith explain and score take it")
        if dataset not in DATASETS:
            raise InputError(f"unknown dataset {dataset!r}: known are {', '.join(DATASETS)}")
        made = pack_graph(load_dataset(dataset), folder, flow=flow, max_memory=memory, leave_out=without)
    typer.echo(describe(made))


@graph.command()
def info(
    folder: Annotated[Path, typer.Argument(help="A folder that 'graphfaith graph pack' has written.")],
    verify: Annotated[bool, typer.Option("--verify", help="Also read every file and compare its digest.")] = False,
) -> None:
    """Say what a packed graph holds, and with --verify whether every byte is what was packed.

    \b
    Example:
      graphfaith graph info packed --verify
    """
    from ..graph.packed import PackedGraph

    found = PackedGraph(folder)
    typer.echo(describe(found))
    if verify:
        found.verify()
        typer.echo("every file is what was packed")


def describe(packed: PackedGraph) -> str:
    """Return what a packed graph holds, in one line."""
    from .._base.memory import format_size

    size = sum(entry["bytes"] for entry in packed.about["files"].values())
    has = [name for name, given in (("weights", packed.is_weighted), ("labels", packed.labels is not None)) if given]
    loops = f"{packed.num_loops} of them self-loops, " if packed.num_loops else ""
    more = f", {' and '.join(has)}" if has else ""
    counts = f"{packed.num_nodes} nodes, {packed.num_edges} edges, {loops}{packed.num_features} features{more}"
    return f"{packed.folder.name}: {counts}; {packed.flow}; {format_size(size)}"
