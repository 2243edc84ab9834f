"""A job: what is explained how, told by paths and plain values, and its rows as a pure function of the nodes."""

from __future__ import annotations

import copy
import json
import os
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

from .._base.checks import check_count, check_seed
from .._base.errors import (
    DataError,
    GraphfaithError,
    InputError,
    MemoryLimitError,
    ModelError,
    UnsupportedError,
    describe_error,
    show,
)
from .._base.memory import format_size
from ..data import DATASETS, load_dataset
from ..data.graph_file import read_graph
from ..data.models import load_trained
from ..data.own_model import check_name, load_model
from ..explainers import explain_all
from ..explainers.base import Samples
from ..explainers.methods import method_named
from ..explainers.records import Records
from ..explanation.digest import digest_of
from ..facade import Options
from ..facade.fitting import METHOD, NEIGHBORHOOD
from ..facade.subject import neighborhood_on, prepare
from ..graph.excerpt import cut_out
from ..graph.graph import Int64
from ..graph.packed import HEADER, Column, PackedGraph, check_packed
from ..model.arguments import arguments_for
from ..model.call import Edges
from ..model.home import check_device, home_of
from ..model.inference import find_task, run_typed
from ..model.target import LARGE
from ..model.task import Task
from ..sampling.edges import RemovedEdges
from ..sampling.neighborhood import Product, parse_neighborhood
from .code import digest_of_model
from .extra import import_extra
from .plan import CHECKED
from .rows import failed_rows, rows_of, schema

Target = Literal["predicted", "labels"]

_EXCERPT = 1024  # nodes
_NO_MEMORY = re.compile("(can't allocate|not enough) memory")  # as torch says it


@dataclass(frozen=True)
class ManyJob:
    """A graph, a model and a method, by which nodes are explained in blocks, each block as a table.

    A job is made of names and plain values, so that it can be sent to other processes. Each of them opens the graph and
    the model when it first needs them, and keeps them.

    Args:
        graph: the folder of a packed graph (:func:`graphfaith.pack_graph`), the name of a data set of graphfaith, or a
            file with a graph (.pt, .safetensors or .npz).
        model: a function as ``module:function`` that returns the model; a data set has one of its own.
        method: the name of a method, as on the command line.
        neighborhood: where explanations have to follow the model, as text.
        samples: how many perturbed graphs to fit on; "auto" lets AnchoredKEC choose.
        seed: names the samples.
        top_edges: how many edges of each explanation are kept, the strongest ones.
        top_features: how many columns of X of each explanation are kept.
        target: which class is explained: that which the model predicts, or "labels", the graph's own.
        mode, return_type: what the output of the model means; found out if None.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
        model_seed: of the training of a data set's own model.
        folder: where the module of the model is looked for; the current folder if None.
        device: where the model is run, such as "cuda"; where it is when it is made if None.
        whole_graph: whether the model is run on the whole of a packed graph if that is small. If not, it is only run on
            what a node depends on, as on a large one. :func:`graphfaith.explain_many` does so by itself if the model
            ends its process on the whole graph.

    >>> job = ManyJob("ba-shapes", method="saliency", top_edges=3)
    >>> table = job.table([400, 401])
    >>> table.column("node").to_pylist(), table.column("status").to_pylist(), len(table.column("edges")[0])
    ([400, 401], ['ok', 'ok'], 3)
    """

    graph: str
    model: str | None = None
    method: str = METHOD
    neighborhood: str = NEIGHBORHOOD
    samples: Samples = 200
    seed: int = 0
    top_edges: int = 50
    top_features: int = 20
    target: Target = "predicted"
    mode: str | None = None
    return_type: str | None = None
    num_hops: int | None = None
    edges: Edges = "auto"
    max_memory: int | str | None = None
    model_seed: int = 0
    folder: str | None = None
    device: str | None = None
    whole_graph: bool = True

    def __post_init__(self) -> None:
        """Check what can be checked without opening anything."""
        check_count(self.top_edges, "top_edges", least=0)
        check_count(self.top_features, "top_features", least=0)
        check_seed(self.seed)
        check_seed(self.model_seed)
        if self.target not in get_args(Target):
            raise InputError(f"target must be one of {', '.join(get_args(Target))} (got {show(self.target)})")
        if not isinstance(self.neighborhood, str):
            raise InputError(f"a job has its neighborhood as text, such as 'U(A,0.5)' (got {show(self.neighborhood)})")
        if self.device is not None:
            object.__setattr__(self, "device", str(check_device(self.device)))
        if self.mode is not None:
            Task(self.mode, self.return_type or "raw")
        near = parse_neighborhood(self.neighborhood)
        method_named(self.method).make_for(near, self.samples, self.seed, **asdict(self._options()))
        self._keep_paths()

    def _keep_paths(self) -> None:
        """Make paths whole, because another process may work in another folder."""
        if not isinstance(self.graph, str | os.PathLike):
            raise InputError(f"graph must be the name of a data set or of a file (got {show(self.graph)})")
        if self.graph not in DATASETS:
            path = Path(self.graph).absolute()
            if not path.exists():
                known = ", ".join(DATASETS)
                raise InputError(
                    f"there is no graph {show(os.fspath(self.graph))}: give a folder, a file, or one of {known}"
                )
            if self.model is None:
                raise InputError("model must be given as module:function; only data sets have a model of their own")
            object.__setattr__(self, "graph", str(path))
        if self.model is not None:
            check_name(self.model)
            object.__setattr__(self, "folder", str(Path(self.folder or os.getcwd()).absolute()))
        else:
            object.__setattr__(self, "folder", None)

    def open(self) -> Opened:
        """Return the graph and the model, which a process opens once and keeps."""
        return _open(self, _stamp(self.graph))

    def _options(self) -> Options:
        return Options(self.num_hops, self.edges, self.max_memory)

    @property
    def num_nodes(self) -> int:
        """How many nodes the graph has."""
        return self.open().num_nodes

    def settings(self) -> dict[str, Any]:
        """Return everything that the rows depend on beside the graph and the model themselves, as plain values.

        Where the model is run is no part of it: a run may go on on another device, which rounds in another way.
        """
        apart = {"device", *self.places()}
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in apart}

    def places(self) -> dict[str, str]:
        """Return where the graph is, unless it is a data set, and where the module of the model is looked for."""
        places = {} if self.graph in DATASETS else {"graph": self.graph}
        return places if self.folder is None else {**places, "folder": self.folder}

    def digests(self) -> dict[str, str]:
        """Return digests of the graph and of the model: of its parameters and buffers, and of what it is made of."""
        return self.open().digests

    def check(self) -> None:
        """Open the graph and the model, and raise an error if they cannot be explained by this method.

        The nodes that are tried are the first, the middle and the last one.
        """
        errors: list[GraphfaithError] = []
        for place in range(CHECKED):
            try:
                return self.check_at(place)
            except GraphfaithError as error:  # One node may be at fault, but hardly all of them.
                errors.append(error)
        raise errors[0]

    def check_at(self, place: int) -> None:
        """Raise an error if the node at a place, 0 for the first one up to 2 for the last one, cannot be explained."""
        import_extra("pyarrow")
        opened = self.open()
        opened.check_node(place * (opened.num_nodes - 1) // (CHECKED - 1))

    def verify(self) -> None:
        """Read every file of a packed graph, and raise a :class:`DataError` if one is not what was packed."""
        if not os.path.isdir(self.graph):
            raise InputError(f"only a packed graph has digests of its files, and '{self.graph}' is none")
        PackedGraph(self.graph).verify()

    def settled(self, died: tuple[str, ...] = ()) -> ManyJob:
        """Return the job with what is found out by running the model said: mode, return_type and whole_graph.

        A process that opens it does not run the model. ``died`` says how earlier processes ended that were asked the
        same: the first runs the model on the whole graph, or on an excerpt of a large one, the others on ever smaller
        excerpts of a packed graph, because fewer nodes have fewer among them that kill.
        """
        if not died:
            self._warn_of_copies()
            task = self.open().try_whole()
            return replace(self, mode=task.mode, return_type=task.return_type)
        if not os.path.isdir(self.graph):
            raise ModelError(
                f"the process that ran the model on the whole graph died ({died[-1]}): pack the graph (`graphfaith "
                "graph pack`), and the model is run on what each node depends on"
            )
        model, graph = _load(self)
        assert isinstance(graph, PackedGraph)
        excerpt = _excerpt(model, graph, max(1, _EXCERPT // 16 ** len(died)), seed=len(died))
        task = find_task(model, excerpt.to(home_of(model)), "node", self.mode, self.return_type)
        whole = self.whole_graph and graph.loaded_bytes > LARGE  # A large one is never run as a whole.
        return replace(self, mode=task.mode, return_type=task.return_type, whole_graph=whole)

    def _warn_of_copies(self) -> None:
        """Say that a large file is better packed: each worker has a copy of its own, of packed graphs none has."""
        if self.graph not in DATASETS and os.path.isfile(self.graph) and os.path.getsize(self.graph) > LARGE:
            warnings.warn(
                f"each worker loads '{self.graph}' as a whole ({format_size(os.path.getsize(self.graph))}): pack it "
                "(`graphfaith graph pack`), and workers share its pages",
                stacklevel=2,
            )

    def table(self, ids: Iterable[int] | Int64 | Tensor) -> Any:
        """Return the explanations of nodes, one row for each in their order, as a ``pyarrow.Table``.

        Nodes are explained together. If that raises, the halves are explained by themselves, and so on; a node that
        cannot be explained alone is a row with the status "failed" and the error. The table is a pure function of the
        job and the ids, but for the milliseconds. What the machine is to blame for, a file that cannot be read or
        memory that it has not, is raised: it says nothing about the nodes.
        """
        arrow, opened = import_extra("pyarrow"), self.open()
        nodes = _check_ids(ids, opened.num_nodes)
        pieces = [failed_rows(nodes[:0], ""), *(table for table in self._explain(opened, nodes))]
        return arrow.concat_tables(pieces).combine_chunks()

    @property
    def schema(self) -> Any:
        """The columns of the table, as a ``pyarrow.Schema``, which Spark asks for."""
        return schema()

    def failed_table(self, ids: Iterable[int] | Int64 | Tensor, error: str) -> Any:
        """Return the rows of nodes that could not be explained."""
        return failed_rows(np.array(list(ids), dtype=np.int64), error)

    def _explain(self, opened: Opened, nodes: Int64) -> Iterator[Any]:
        """Yield tables of nodes that were explained together, or that could not be explained."""
        if not len(nodes):
            return
        started = time.perf_counter()
        try:
            records = opened.explain(nodes, self.top_features)
            milliseconds = 1000 * (time.perf_counter() - started) / len(nodes)
            yield rows_of(records, self.top_edges, milliseconds)
        except Exception as error:  # Anything may go wrong at a node, and the others must not suffer from it.
            _raise_if_of_machine(error)
            if len(nodes) == 1:
                yield failed_rows(nodes, describe_error(error), 1000 * (time.perf_counter() - started))
                return
            half = len(nodes) // 2
            yield from self._explain(opened, nodes[:half])
            yield from self._explain(opened, nodes[half:])


@dataclass(frozen=True, eq=False)
class Opened:
    """The graph and the model of a job, in one process."""

    explainer: Explainer
    task: Task
    digests: dict[str, str]  # of the graph and of the model, as it was before it was run
    graph: Data | PackedGraph
    labels: Tensor | Column | None  # the class of every node, if not the predicted one is explained
    arguments: dict[str, Tensor]  # of the model, beside the graph

    @property
    def num_nodes(self) -> int:
        """How many nodes the graph has."""
        return int(self.graph.num_nodes)

    def check_node(self, node: int) -> None:
        """Raise an error if the model cannot be explained at a node."""
        given = (self.graph, None) if isinstance(self.graph, PackedGraph) else (self.graph.x, self.graph.edge_index)
        self.explainer.algorithm.target(self.explainer.model, *given, node, self.labels, self.arguments)

    def try_whole(self) -> Task:
        """Return the task, after running the model on a packed graph that is small, as every target of it would."""
        if isinstance(self.graph, PackedGraph) and self.graph.loaded_bytes <= LARGE:
            data = Data(**self.graph.tensors()).to(home_of(self.explainer.model))
            run_typed(
                self.explainer.model, data.x, data.edge_index, arguments_for(self.explainer.model, data), self.task
            )
        return self.task

    def explain(self, nodes: Int64, top_features: int) -> Records:
        """Return the records of nodes."""
        given: dict[str, Any] = {"progress": False, "top_features": top_features, **self.arguments}
        given["nodes"] = torch.from_numpy(nodes)
        if isinstance(self.graph, PackedGraph):  # It knows its labels.
            return explain_all(self.explainer, self.graph, **given)
        given["target"] = self.labels
        return explain_all(self.explainer, self.graph.x, self.graph.edge_index, **given)

    def load_around(self, node: int) -> Data:
        """Return the whole graph, with what the model takes beside it; if it is large, what the node depends on.

        That has ``n_id`` and ``e_id``, the numbers of its nodes and edges in the whole graph.
        """
        if not isinstance(self.graph, PackedGraph):
            return self.graph
        if self.graph.loaded_bytes <= LARGE:
            return Data(**self.graph.tensors())
        target = self.explainer.algorithm.target(self.explainer.model, self.graph, None, node, self.labels, {})
        return cut_out(self.graph, target.computation_graph)


@lru_cache(maxsize=4)
def _open(job: ManyJob, _stamp: tuple[int, ...]) -> Opened:
    """Open the graph and the model of a job, once in a process, and again if the file of the graph has changed."""
    model, graph = _load(job)
    if job.device is not None:
        model = model.to(job.device)
    home = home_of(model)
    if not isinstance(graph, PackedGraph):  # which stays in its files, and goes to the device part by part
        graph = copy.copy(graph).to(home)
    near, arguments = parse_neighborhood(job.neighborhood), {}
    if isinstance(graph, PackedGraph):
        labels, excerpt = graph.labels, _excerpt(model, graph).to(home)
        removal = near.second if isinstance(near, Product) else near
        if isinstance(removal, RemovedEdges) and not removal.paired:
            raise UnsupportedError("to see if a packed graph is undirected would take a scan: write R(A,5,paired)")
    else:
        graph = excerpt = prepare(model, graph)
        labels, near, arguments = graph.get("y"), neighborhood_on(graph, job.neighborhood), arguments_for(model, graph)
    # Before the model is run, which may change what it is: it may count its calls.
    digests = {"graph": _digest_of_graph(graph, arguments, labels), "model": digest_of_model(model)}
    task = find_task(model, excerpt, "node", job.mode, job.return_type)
    if job.target == "labels":
        if task.mode == "regression":
            raise InputError("target='labels' is for classifiers: this model is one of regression")
        if labels is None or len(labels) != graph.num_nodes:
            raise InputError("target='labels' needs a graph with y, the class of every node")
    explainer = Explainer(
        model,
        algorithm=method_named(job.method).make_for(near, job.samples, job.seed, **asdict(job._options())),
        explanation_type="phenomenon" if job.target == "labels" else "model",
        # Scores of whole columns, so that where features move their error bars and their number are those of columns.
        node_mask_type="common_attributes" if job.top_features else None,
        edge_mask_type="object",
        model_config=task.model_config,
    )
    return Opened(explainer, task, digests, graph, labels if job.target == "labels" else None, arguments)


def _stamp(graph: str) -> tuple[int, ...]:
    """Return what changes with a file, or with the header of a packed graph; a data set does not change."""
    if graph in DATASETS:
        return ()
    path = Path(graph)
    try:
        if path.is_dir():
            check_packed(path)
            path = path / HEADER
        found = path.stat()
    except OSError as error:
        raise DataError(f"cannot read the graph '{graph}': {error.strerror or error}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _raise_if_of_machine(error: BaseException) -> None:
    """Raise what the machine is to blame for, also if a model was only the first to meet it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryLimitError):
            return
        if isinstance(cause, MemoryError) or (isinstance(cause, RuntimeError) and _NO_MEMORY.search(str(cause))):
            raise MemoryError(describe_error(cause)) from error
        if isinstance(cause, OSError):
            raise error
        cause = cause.__cause__


def _load(job: ManyJob) -> tuple[torch.nn.Module, Data | PackedGraph]:
    if job.graph in DATASETS and job.model is None:
        trained = load_trained(job.graph, seed=job.model_seed)
        return trained.model, trained.data
    assert job.model is not None
    model = load_model(job.model, job.folder).eval()
    if job.graph in DATASETS:
        return model, load_dataset(job.graph)
    if os.path.isdir(job.graph):
        return model, PackedGraph(job.graph, whole=job.whole_graph)
    return model, read_graph(job.graph)


def _digest_of_graph(graph: Data | PackedGraph, arguments: Mapping[str, Tensor], labels: Tensor | Column | None) -> str:
    """Return a digest of the graph; of a packed one, of its header and of some pages of each file.

    The header has the digests of all files when they were packed, which would have to be read to be compared.
    """
    if isinstance(graph, PackedGraph):
        return digest_of(_as_bytes(json.dumps([graph.about, graph.sample_digests()], sort_keys=True)))
    known = labels if isinstance(labels, Tensor) else None
    return digest_of(graph.x, graph.edge_index, *arguments.values(), known)


def _excerpt(model: torch.nn.Module, graph: PackedGraph, count: int = _EXCERPT, seed: int | None = None) -> Data:
    """Return a small graph of some nodes of a large one, by which the meaning of the model's output is found out.

    They are at equal distances, or, if a seed is given, drawn by it.
    """
    places = np.linspace(0, 1, count) if seed is None else np.random.default_rng(seed).random(count)
    nodes = np.unique((places * (graph.num_nodes - 1)).astype(np.int64))
    x, ring = graph.features(nodes), torch.arange(len(nodes))
    dtypes = {str(p.dtype) for p in model.parameters() if p.is_floating_point()} or {str(x.dtype)}
    if dtypes != {str(x.dtype)}:
        raise InputError(
            f"the features in '{graph.folder}' are {x.dtype}, and the model has {', '.join(sorted(dtypes))}: convert "
            "the model, or pack features of its precision"
        )
    data = Data(x=x, edge_index=torch.stack([ring, ring.roll(1)]))
    if graph.is_weighted:
        data.edge_weight = torch.ones(len(nodes), dtype=x.dtype)
    if graph.labels is not None:
        data.y = graph.labels[torch.from_numpy(nodes)]
    return data


def _as_bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray(text, "utf-8"), dtype=torch.uint8)


def _check_ids(ids: Iterable[int] | Int64 | Tensor, count: int) -> Int64:
    """Return ids of nodes as an array, each of them once."""
    nodes = ids if isinstance(ids, np.ndarray) else np.array(list(ids))
    if nodes.ndim != 1 or (len(nodes) and nodes.dtype.kind not in "iu"):
        raise InputError(f"ids must be a list of whole numbers (got {show(ids)})")
    nodes = nodes.astype(np.int64)
    wrong = nodes[(nodes < 0) | (nodes >= count)]
    if len(wrong):
        raise InputError(f"node {wrong[0]} is out of range: the graph has nodes 0 to {count - 1}")
    if len(np.unique(nodes)) != len(nodes):
        raise InputError("each node may be among the ids only once")
    return nodes
