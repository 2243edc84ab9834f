"""Checks of algorithms on a heterogeneous graph: two types of nodes, of different widths, and three of edges."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer, HeteroExplanation
from torch_geometric.nn import HeteroConv, SAGEConv

from .bench import CLASSES, NODE_LEVEL, Bench, NotApplicable, require, seed_everything

_SIZES = {"item": (8, 3), "user": (5, 2)}
# Item 0 is explained. Messages reach it from items 1 and 2 and from user 0, and over these from items 3 and 4 and from
# user 1. Items 6 and 7 and users 3 and 4 are too far away.
_EDGES = {
    ("item", "follows", "item"): ((1, 0), (2, 0), (3, 1), (4, 2), (6, 3), (7, 6)),
    ("user", "buys", "item"): ((0, 0), (1, 1), (3, 6)),
    ("item", "bought_by", "user"): ((4, 0), (5, 1), (7, 3), (7, 4)),
}
_FAR = {"item": (6, 7), "user": (3, 4)}


class TypedNet(torch.nn.Module):
    """Two layers of means over the neighbours of each edge type, with tanh between them, and a row for each item."""

    def __init__(self) -> None:
        super().__init__()
        widths = {name: width for name, (_, width) in _SIZES.items()}
        first = {kind: SAGEConv((widths[kind[0]], widths[kind[2]]), 4) for kind in _EDGES}
        second = {kind: SAGEConv((4, 4), CLASSES) for kind in _EDGES}
        self.first, self.second = HeteroConv(first), HeteroConv(second)

    def forward(self, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]) -> Tensor:
        """Return one row of outputs for each item."""
        hidden = {name: rows.tanh() for name, rows in self.first(x_dict, edge_index_dict).items()}
        out: Tensor = self.second(hidden, edge_index_dict)["item"]
        return out


def make_typed() -> tuple[TypedNet, dict[str, Tensor], dict[Any, Tensor]]:
    """Return the model, its features and its edges, the same ones in every call."""
    seed_everything(5)
    model = TypedNet().eval()
    x = {name: torch.rand(size) + 0.1 for name, size in _SIZES.items()}
    return model, x, {kind: torch.tensor(pairs).T.contiguous() for kind, pairs in _EDGES.items()}


def _explain(bench: Bench, algorithm: Any = None, **changed: Any) -> HeteroExplanation:
    """Explain item 0; algorithms that do not know graphs of several types are not checked."""
    model, x, edges = changed.get("given") or make_typed()
    algorithm = bench.make() if algorithm is None else algorithm
    claims = getattr(algorithm, "explains_types", None)
    if claims is False:
        raise NotApplicable("it explains graphs of one type")
    masks = bench.masks
    config = {"node_mask_type": masks[0], "edge_mask_type": masks[1], "model_config": NODE_LEVEL}
    explainer = Explainer(model, algorithm=algorithm, explanation_type=bench.kind, **config)
    target = {"target": model(x, edges).argmax(dim=-1)} if bench.kind == "phenomenon" else {}
    seed_everything()
    try:
        explanation = explainer(x, edges, index=0, **target)
    except Exception as error:
        if claims:
            raise
        raise NotApplicable(f"it does not explain graphs of several types: {type(error).__name__}") from error
    require(isinstance(explanation, HeteroExplanation), f"the result is a {type(explanation).__name__}")
    return explanation


def _masks_of(explanation: HeteroExplanation) -> dict[Any, Tensor]:
    found = {
        (name, key): mask
        for name in ("node_mask", "edge_mask")
        for key, mask in explanation.collect(name, True).items()
    }
    return {key: mask.detach().clone() for key, mask in found.items() if mask is not None}


def _require_alike(masks: dict[Any, Tensor], expected: dict[Any, Tensor], when: str) -> None:
    require(masks.keys() == expected.keys(), f"{when}, there are masks of other types")
    for key, mask in masks.items():
        require(torch.allclose(mask, expected[key], rtol=1e-4, atol=1e-6), f"{when}, the mask of {key} is another one")


def types_masks_fit(bench: Bench) -> None:
    """A graph of several types gets a HeteroExplanation, with finite masks that fit each type."""
    masks = _masks_of(_explain(bench))
    require(bool(masks), "there is no mask at all")
    for (name, key), mask in masks.items():
        require(bool(torch.isfinite(mask).all()), f"the {name} of {key} is not finite")
        if name == "edge_mask":
            require(len(mask) == len(_EDGES[key]), f"the edge_mask of {key} has {len(mask)} entries")
        else:
            rows, columns = _SIZES[key]
            fits = mask.size(0) in (1, rows) and mask.size(1) in (1, columns)
            require(fits, f"the node_mask of {key} has shape {list(mask.shape)}")
    require(any(bool(mask.any()) for mask in masks.values()), "all scores are 0")


def types_same_seed(bench: Bench) -> None:
    """Two new algorithms give the same masks on a graph of several types."""
    _require_alike(_masks_of(_explain(bench)), _masks_of(_explain(bench)), "the second time")


def types_inputs_unchanged(bench: Bench) -> None:
    """Features, edges and parameters of a graph of several types are left as they were."""
    given = make_typed()
    before = copy.deepcopy((given[1], given[2], given[0].state_dict()))
    _explain(bench, given=given)
    for now, then in zip((given[1], given[2], given[0].state_dict()), before, strict=True):
        for key, value in then.items():
            require(torch.equal(now[key], value), f"{key} was changed")
    _require_alike(_masks_of(_explain(bench, given=given)), _masks_of(_explain(bench)), "with the model used before")


def types_far_nodes(bench: Bench) -> None:
    """On a graph of several types, features that are further away than messages go have no effect on the scores."""
    given = make_typed()
    expected = _masks_of(_explain(bench, given=given))
    model, x, edges = make_typed()
    with torch.no_grad():
        for name, nodes in _FAR.items():
            # The range of all features, in which some methods draw, has to stay the same.
            x[name][list(nodes)] = x[name][list(nodes)].flip(0)
    found = _masks_of(_explain(bench, given=(model, x, edges)))
    for (name, key), mask in found.items():
        near = [i for i in range(len(mask)) if name == "edge_mask" or i not in _FAR[key]]
        if len(mask) > 1:
            same = torch.allclose(mask[near], expected[name, key][near], rtol=1e-4, atol=1e-6)
            require(same, f"the {name} of {key} depends on nodes that no message comes from")


def types_refuses_nan(bench: Bench) -> None:
    """NaN among the features of a type raises a ValueError, or shows as NaN in the masks."""
    model, x, edges = make_typed()
    _explain(bench)  # It is another matter if these graphs are not explained at all.
    x["user"][2, 1] = float("nan")
    refusal: BaseException | None
    try:
        masks = _masks_of(_explain(bench, given=(model, x, edges)))
    except ValueError as error:
        refusal = error
    except NotApplicable as error:  # The algorithm does not say whether it explains such graphs, but it did above.
        refusal = error.__cause__
    else:
        require(any(bool(torch.isnan(mask).any()) for mask in masks.values()), "NaN in x was not noticed")
        return
    require(isinstance(refusal, ValueError), f"NaN in x raises {type(refusal).__name__}, not ValueError: {refusal}")
    require(bool(str(refusal).strip()), "NaN in x: the ValueError has no message")


CHECKS = (types_masks_fit, types_same_seed, types_inputs_unchanged, types_far_nodes, types_refuses_nan)
