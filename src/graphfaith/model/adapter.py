"""Models that are not called as ``model(x, edge_index, ...)`` or do not return one tensor, made so that they are.

A model may take a whole graph, ``forward(data)``, or an adjacency matrix in place of ``edge_index``, and it may return
several outputs. An adapter stands in front of it: it has the same layers and parameters, and can be explained.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from .._base.errors import InputError, ModelError, show

Takes = Literal["tensors", "data", "adjacency"]
Output = int | str | Callable[[Any], Tensor] | None


def adapt(
    model: torch.nn.Module,
    *,
    takes: Takes = "tensors",
    output: Output = None,
    fields: tuple[str, ...] = (),
    layout: torch.layout = torch.sparse_csr,
) -> Adapter:
    """Return a model that is called with tensors and returns one, for a model that is not.

    Args:
        model: the trained model. Its parameters are shared, not copied.
        takes: what its forward takes: "tensors", as ``forward(x, edge_index, ...)``; "data", as ``forward(data)``; or
            "adjacency", as ``forward(x, adj_t, ...)``, where ``adj_t[i, j]`` is the weight of the edge from j to i. A
            heterogeneous model is given ``HeteroData``, or dictionaries of both.
        output: which output is explained, if there are several: its place in a tuple or list, its key in a dictionary,
            the name of its field, or a function of what the model returns.
        fields: names of further tensors of the graph that a model which takes ``data`` reads, such as "pos".
        layout: the layout of ``adj_t``: ``torch.sparse_csr``, ``torch.sparse_csc`` or ``torch.sparse_coo``.

    >>> from torch_geometric.nn import GCN
    >>> class OfData(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv = GCN(2, 4, num_layers=2, out_channels=3)
    ...     def forward(self, data):
    ...         out = self.conv(data.x, data.edge_index, data.edge_weight)
    ...         return out, out.softmax(dim=-1)
    >>> model = adapt(OfData(), takes="data", output=0)
    >>> model(torch.rand(4, 2), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])).shape
    torch.Size([4, 3])
    """
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"model must be a torch.nn.Module (got {type(model).__name__})")
    if takes not in get_args(Takes):
        raise InputError(f"takes must be one of {', '.join(get_args(Takes))} (got {show(takes)})")
    if isinstance(output, bool) or not (output is None or isinstance(output, int | str) or callable(output)):
        raise InputError(f"output must be a place, a name or a function (got {show(output)})")
    if isinstance(fields, str) or not all(isinstance(name, str) for name in fields):
        raise InputError(f'fields must be names of tensors, such as ("pos",) (got {show(fields)})')
    if fields and takes != "data":
        raise InputError('fields= are those of a graph that a model takes whole: use takes="data"')
    if layout not in _TO_LAYOUT:
        raise InputError(f"layout must be one of {', '.join(map(str, _TO_LAYOUT))} (got {show(layout)})")
    return Adapter(model, takes, output, tuple(fields), layout)


class Adapter(torch.nn.Module):
    """A model behind an adapter; :func:`adapt` makes it."""

    def __init__(
        self, model: torch.nn.Module, takes: Takes, output: Output, fields: tuple[str, ...], layout: torch.layout
    ) -> None:
        super().__init__()
        self.model, self.takes, self.output, self.fields, self.layout = model, takes, output, fields, layout

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_weight: Any = None,
        edge_attr: Any = None,
        batch: Any = None,
        **more: Any,
    ) -> Tensor:
        """Return one output of the model for a graph that is given as tensors, or as dictionaries of these by type."""
        named = {"edge_weight": edge_weight, "edge_attr": edge_attr, "batch": batch, **more}
        given = {name: value for name, value in named.items() if value is not None}
        if self.takes == "data":
            out = self.model(_as_graph(x, edge_index, given))
        elif self.takes == "adjacency" and isinstance(x, Mapping):
            weights = given.pop("edge_weight", {})
            matrices = {
                kind: make_adjacency(ends, weights.get(kind), x[kind[0]], self.layout, len(x[kind[2]]))
                for kind, ends in edge_index.items()
            }
            out = self.model(x, matrices, **given)
        elif self.takes == "adjacency":
            adjacency = make_adjacency(edge_index, given.pop("edge_weight", None), x, self.layout)
            out = self.model(x, adjacency, **given)
        else:
            out = self.model(x, edge_index, **given)
        return self._pick(out)

    def _pick(self, out: Any) -> Tensor:
        """Return the output that is explained; an error names those that there are."""
        if self.output is None or callable(self.output):
            picked: Tensor = out if self.output is None else self.output(out)
        elif isinstance(self.output, str):
            known = list(out) if isinstance(out, Mapping) else [key for key in dir(out) if not key.startswith("_")]
            if self.output not in known:
                there = f": there are {', '.join(map(str, known))}" if isinstance(out, Mapping) else ""
                raise ModelError(f"{type(self.model).__name__} returns no output {self.output!r}{there}")
            picked = out[self.output] if isinstance(out, Mapping) else getattr(out, self.output)
        elif not isinstance(out, tuple | list) or not -len(out) <= self.output < len(out):
            name, several = type(self.model).__name__, isinstance(out, tuple | list)
            there = f"{len(out)} outputs" if several else f"{type(out).__name__}, which has no numbered outputs"
            raise ModelError(f"{name} returns {there}" + (f": output= must be 0 to {len(out) - 1}" if several else ""))
        else:
            picked = out[self.output]
        return picked


def _as_graph(x: Any, edge_index: Any, given: Mapping[str, Any]) -> Data | HeteroData:
    """Return a graph with these tensors, or dictionaries of them by type."""
    if not isinstance(x, Mapping):
        return Data(x=x, edge_index=edge_index, **given)
    data = HeteroData()
    for name, parts in {"x": x, "edge_index": edge_index, **given}.items():
        if not isinstance(parts, Mapping):
            data[name] = parts
            continue
        for kind, part in parts.items():
            data[kind][name.removesuffix("_dict")] = part
    return data


_TO_LAYOUT: dict[torch.layout, Callable[[Tensor], Tensor]] = {
    torch.sparse_csr: Tensor.to_sparse_csr,
    torch.sparse_csc: Tensor.to_sparse_csc,
    torch.sparse_coo: lambda adjacency: adjacency,
}


def make_adjacency(
    edge_index: Tensor, edge_weight: Tensor | None, x: Tensor, layout: torch.layout, sinks: int | None = None
) -> Tensor:
    """Return A as a sparse matrix, [N, N], in which ``A[i, j]`` is the weight of the edge from j to i.

    ``x`` is of the nodes that edges begin at; ``sinks`` is how many others they end at, if they are of another type.
    """
    weight = x.new_ones(edge_index.size(1), dtype=None if x.is_floating_point() else torch.get_default_dtype())
    weight = weight if edge_weight is None else edge_weight
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CS[RC] tensor support is in beta")
        # The ends of the edges were checked when the graph was.
        matrix = torch.sparse_coo_tensor(
            edge_index.flip(0), weight, (len(x) if sinks is None else sinks, len(x)), check_invariants=False
        )
        return _TO_LAYOUT[layout](matrix.coalesce())


def edges_of(adjacency: Any, *, rectangular: bool = False) -> tuple[Tensor, Tensor | None]:
    """Return ``edge_index`` and ``edge_weight`` of a sparse matrix whose entry [i, j] is that of the edge from j to i.

    That is how PyG's ``adj_t`` is laid out. The matrix is one of ``torch.sparse``, in any layout, or a ``SparseTensor``
    of torch_sparse; one of those has no weights if it was made without. ``rectangular`` allows one between two types of
    nodes, [sinks, sources].

    >>> adjacency = torch.tensor([[0.0, 0.5], [0.0, 0.0]]).to_sparse()
    >>> edges_of(adjacency)
    (tensor([[1],
            [0]]), tensor([0.5000]))
    """
    shape: Any = adjacency.sizes() if hasattr(adjacency, "sizes") else getattr(adjacency, "shape", ())
    if len(shape) == 2 and shape[0] != shape[1] and not rectangular:
        raise InputError(
            f"a sparse matrix [nodes, nodes] is needed (got shape {list(shape)}); rectangular=True allows one between "
            "two types of nodes"
        )
    if isinstance(adjacency, Tensor) and adjacency.layout != torch.strided and adjacency.dim() == 2:
        coordinates = adjacency.to_sparse(layout=torch.sparse_coo).coalesce()
        sink, source = coordinates.indices()
        return torch.stack([source, sink]), coordinates.values()
    if hasattr(adjacency, "coo"):
        sink, source, value = adjacency.coo()
        return torch.stack([source, sink]), value
    raise InputError(f"a sparse matrix [nodes, nodes] is needed (got {type(adjacency).__name__})")


def reason_to_adapt(model: torch.nn.Module, edge_index: Any = None) -> str | None:
    """Return why a model or the edges it is called with need an adapter, and which; None if they do not."""
    if isinstance(edge_index, Mapping):
        reasons = (reason_to_adapt(model, ends) for ends in edge_index.values())
        return next((reason for reason in reasons if reason is not None), None)
    if hasattr(edge_index, "coo") and not isinstance(edge_index, Tensor):
        return _CONVERT.format(kind=type(edge_index).__name__)
    if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        return _CONVERT.format(kind=str(edge_index.layout).removeprefix("torch."))
    if isinstance(model, torch.jit.ScriptModule):
        return "changes layers while a model runs, which TorchScript does not allow: explain the model it was made of"
    code = _plain_code(model.forward)
    if code is not None and code.co_argcount > 2:  # nearly always, and a signature takes far longer
        return None
    parameters = list(inspect.signature(model.forward).parameters.values())
    several = [one for one in parameters if one.kind != one.KEYWORD_ONLY]
    if len(several) == 1 and several[0].kind not in (several[0].VAR_POSITIONAL, several[0].VAR_KEYWORD):
        name = several[0].name
        return (
            f"calls model(x, edge_index, ...), and {type(model).__name__}.forward takes {name!r} alone: explain "
            'graphfaith.adapt(model, takes="data") instead'
        )
    return None


def _plain_code(forward: Any) -> CodeType | None:
    """Return the code of a method that says itself what it takes; None of one that wraps another, for example."""
    function = forward.__func__ if type(forward) is MethodType else None
    return function.__code__ if type(function) is FunctionType and not vars(function) else None


_CONVERT = (
    "explains the entries of edge_index, and this is a sparse matrix ({kind}): pass edge_index, edge_weight = "
    'graphfaith.edges_of(adj_t), and graphfaith.adapt(model, takes="adjacency") if the model needs the matrix itself'
)
