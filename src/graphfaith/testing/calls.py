"""Checks of the arguments that an algorithm accepts: indices, unusual but valid inputs, other tasks, invalid inputs."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .bench import (
    CLASSES,
    ISOLATED,
    NODE_LEVEL,
    NODES,
    Bench,
    Case,
    Net,
    OfGraph,
    OfPairs,
    Probabilities,
    Violation,
    make_case,
    require,
    require_same,
    require_usable,
    scores_of,
    seed_everything,
    with_index,
)

# Indices --------------------------------------------------------------------------------------------------------------


def index_int_or_tensor(bench: Bench) -> None:
    """index=0 and index=tensor([0]) are the same call, through the Explainer and without it."""
    case = make_case()
    expected = bench.score(case)
    require_same(bench.score(with_index(case, torch.tensor([0]))), expected, "index=tensor([0])")
    algorithm = bench.make()
    bench.connect(case.model, algorithm)
    if bench.kind == "phenomenon":
        seed_everything()
        explanation = algorithm(case.model, case.x, case.edge_index, target=case.target, index=0)
        require_same(scores_of(explanation), expected, "index=0 given to the algorithm itself")


def joint_index(bench: Bench) -> None:
    """A tensor of several indices is explained jointly, in one explanation."""
    case = make_case(index=torch.tensor([0, 7, 3]))
    require_usable(bench.score(case), case, bench.masks)


def joint_index_any_order(bench: Bench) -> None:
    """The order of the indices that are explained jointly does not matter."""
    case = make_case(index=torch.tensor([0, 7, 3]))
    scores = bench.score(with_index(case, torch.tensor([7, 3, 0])))
    require_same(scores, bench.score(case), "with the indices in another order", tolerance=1e-3)


def joint_index_duplicates(bench: Bench) -> None:
    """An index that occurs twice is either explained or refused by a ValueError with a message."""
    case = make_case(index=torch.tensor([0, 7, 0]))
    try:
        scores = bench.score(case)
    except ValueError as error:
        require(bool(str(error).strip()), "the ValueError has no message")
        # Several different indices have to be accepted: only the duplicate may be the reason for the refusal.
        bench.score(make_case(index=torch.tensor([0, 7])))
    else:
        require_usable(scores, case, bench.masks)


def index_none(bench: Bench) -> None:
    """index=None explains all outputs jointly and gives the same scores as an index of all nodes."""
    case = make_case(index=None)
    scores = bench.score(case)
    require_usable(scores, case, bench.masks)
    require_same(
        bench.score(with_index(case, torch.arange(NODES))), scores, "with an index of all nodes", tolerance=1e-3
    )


# Unusual but valid inputs ---------------------------------------------------------------------------------------------


def isolated_node(bench: Bench) -> None:
    """A node without edges can be explained."""
    case = make_case(index=ISOLATED)
    require_usable(bench.score(case), case, bench.masks)


def no_edges(bench: Bench) -> None:
    """A graph without edges can be explained."""
    case = replace(make_case(), edge_index=torch.empty(2, 0, dtype=torch.long))
    require_usable(bench.score(case), case, bench.masks)


def self_loops(bench: Bench) -> None:
    """Self-loops in edge_index, of some or of all nodes, are explained like the other edges."""
    for looped in (torch.tensor([1, 0, 5]), torch.arange(NODES).flip(0)):
        case = make_case()
        edge_index = torch.cat([torch.stack([looped, looped]), case.edge_index], dim=1)
        case = replace(case, edge_index=edge_index)
        require_usable(bench.score(case), case, bench.masks)


def non_contiguous_inputs(bench: Bench) -> None:
    """Inputs that are not contiguous in memory give the same scores."""
    case = make_case()
    strided = replace(case, x=case.x.T.contiguous().T, edge_index=case.edge_index.T.contiguous().T)
    require_same(bench.score(strided), bench.score(case), "with strided inputs")


def inputs_that_require_grad(bench: Bench) -> None:
    """x and edge_weight that require a gradient are explained, and their .grad stays empty."""
    case = make_case(weighted=True)
    expected = bench.score(case)
    owned = {"x": case.x.requires_grad_(), "edge_weight": case.kwargs["edge_weight"].requires_grad_()}
    explanation = bench.explain(case)
    for name, tensor in owned.items():
        require(tensor.grad is None, f"{name}.grad was filled")
        require(tensor.requires_grad, f"{name} no longer requires a gradient")
    for name, mask in scores_of(explanation).items():
        require(not mask.requires_grad, f"{name} requires a gradient")
    scores = {name: mask.detach() for name, mask in scores_of(explanation).items()}
    require_same(scores, expected, "with inputs that require a gradient")


def under_no_grad(bench: Bench) -> None:
    """The scores are the same inside torch.no_grad()."""
    case = make_case()
    expected = bench.score(case)
    with torch.no_grad():
        scores = bench.score(case)
    require_same(scores, expected, "inside torch.no_grad()")


def under_inference_mode(bench: Bench) -> None:
    """The scores are the same inside torch.inference_mode(), and outside it for tensors made inside it."""
    case = make_case(weighted=True)
    expected = bench.score(case)
    with torch.inference_mode():
        inference_case = replace(
            case,
            x=case.x.clone(),
            edge_index=case.edge_index.clone(),
            kwargs={name: value.clone() for name, value in case.kwargs.items()},
        )
        require_same(bench.score(inference_case), expected, "inside torch.inference_mode()")
    require_same(bench.score(inference_case), expected, "with tensors made in torch.inference_mode()")


def read_only_inputs(bench: Bench) -> None:
    """Tensors in read-only memory, such as a mapped file, are explained and not written to."""
    case = make_case()
    expected = bench.score(case)
    arrays = [case.x.numpy().copy(), case.edge_index.numpy().copy()]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        x, edge_index = (torch.from_numpy(array) for array in arrays)
    require_same(bench.score(replace(case, x=x, edge_index=edge_index)), expected, "with read-only inputs")
    for name, array, copy in zip(("x", "edge_index"), arrays, before, strict=True):
        require(np.array_equal(array, copy), f"the read-only {name} was written to")


# Other tasks ----------------------------------------------------------------------------------------------------------


def _check_task(bench: Bench, case: Case, **config: str) -> None:
    require_usable(bench.score(case, config={**NODE_LEVEL, **config}), case, bench.masks)


def regression(bench: Bench) -> None:
    """A model that returns one number for each node is explained."""
    case = make_case(lambda: Net(1))
    with torch.no_grad():
        case = replace(case, target=case.model(case.x, case.edge_index))
    _check_task(bench, case, mode="regression")


def binary_classification(bench: Bench) -> None:
    """A model that returns the probability of class 1 for each node is explained."""
    case = make_case(lambda: Probabilities(1))
    _check_task(bench, replace(case, target=case.target % 2), mode="binary_classification", return_type="probs")


def class_probabilities(bench: Bench) -> None:
    """A model that returns the probabilities of the classes for each node is explained."""
    _check_task(bench, make_case(Probabilities), return_type="probs")


def edge_level(bench: Bench) -> None:
    """A model that returns a row for each pair of nodes is explained."""
    pairs = torch.tensor([[0, 3, 9], [4, 1, 10]])
    case = replace(make_case(OfPairs), kwargs={"edge_label_index": pairs}, target=torch.tensor([0, 2, 1]), index=1)
    _check_task(bench, case, task_level="edge")


def graph_level(bench: Bench) -> None:
    """A model that returns a row for the graph is explained, with the same scores for index=0 and index=None."""
    case = replace(make_case(OfGraph), target=torch.tensor([CLASSES - 1]))
    _check_task(bench, case, task_level="graph")
    config = {**NODE_LEVEL, "task_level": "graph"}
    scores, expected = bench.score(with_index(case, None), config=config), bench.score(case, config=config)
    require_same(scores, expected, "index=None")


# Invalid inputs -------------------------------------------------------------------------------------------------------


def _require_refusal(bench: Bench, case: Case, what: str, other: type[Exception] = ValueError) -> None:
    """Raise a :class:`Violation` unless the algorithm itself refuses the call by a ValueError or ``other``.

    The call is made without PyG's ``Explainer``, which might raise an error before or after the algorithm.
    """
    bench.require_phenomenon()
    call = bench.prepare_call(case)
    try:
        call()
    except (ValueError, other) as error:
        require(bool(str(error).strip()), f"{what}: the {type(error).__name__} has no message")
    except Exception as error:
        raise Violation(f"{what} raises {type(error).__name__}, not ValueError: {error}") from error
    else:
        raise Violation(f"{what} is accepted without an error")


def _replace_edge_end(case: Case, row: int, value: int) -> Case:
    edge_index = case.edge_index.clone()
    edge_index[row, 3] = value
    return replace(case, edge_index=edge_index)


def refuses_nan_in_x(bench: Bench) -> None:
    """An x with NaN raises a ValueError."""
    case = make_case()
    x: Tensor = case.x.clone()
    x[1, 1] = torch.nan
    _require_refusal(bench, replace(case, x=x), "x with NaN")


def refuses_unknown_node_in_edges(bench: Bench) -> None:
    """An edge from or to a node that does not exist raises a ValueError or an IndexError."""
    case = make_case()
    too_large = _replace_edge_end(case, 0, NODES)
    _require_refusal(bench, too_large, f"edge_index with node {NODES} in a graph of {NODES} nodes", IndexError)
    _require_refusal(bench, _replace_edge_end(case, 1, -1), "edge_index with node -1", IndexError)


def refuses_float_edges(bench: Bench) -> None:
    """An edge_index of floating-point numbers raises a ValueError or a TypeError."""
    case = make_case()
    _require_refusal(bench, replace(case, edge_index=case.edge_index.float()), "edge_index of floats", TypeError)


def refuses_wrong_shapes(bench: Bench) -> None:
    """An edge_index, an x or an edge_weight of the wrong shape raises a ValueError."""
    case = make_case(weighted=True)
    _require_refusal(bench, replace(case, edge_index=case.edge_index.T), "edge_index of shape [edges, 2]")
    _require_refusal(bench, replace(case, x=case.x[:-1]), "x with a row too few")
    _require_refusal(
        bench, replace(case, kwargs={"edge_weight": case.kwargs["edge_weight"][:-1]}), "a short edge_weight"
    )


def refuses_unknown_index(bench: Bench) -> None:
    """An index beyond the last node raises a ValueError or an IndexError."""
    _require_refusal(bench, make_case(index=NODES), f"index={NODES} of {NODES} nodes", IndexError)


CHECKS = (
    index_int_or_tensor,
    joint_index,
    joint_index_any_order,
    joint_index_duplicates,
    index_none,
    isolated_node,
    no_edges,
    self_loops,
    non_contiguous_inputs,
    inputs_that_require_grad,
    under_no_grad,
    under_inference_mode,
    read_only_inputs,
    regression,
    binary_classification,
    class_probabilities,
    edge_level,
    graph_level,
    refuses_nan_in_x,
    refuses_unknown_node_in_edges,
    refuses_float_edges,
    refuses_wrong_shapes,
    refuses_unknown_index,
)
