"""Explanations of one model take turns, those that PyG's ``Explainer`` makes among them.

``Explainer.__call__`` runs the model outside of its algorithm: it switches to eval mode, predicts, and switches back.
If another thread explains the same model meanwhile, the prediction is made with that thread's masks, so that another
class may be explained; or that thread is switched to train mode in the middle of its work; or the mode to switch back
to is read while that thread has changed it, and the model stays in eval mode. An algorithm cannot prevent any of that,
because it is called too late. Importing graphfaith therefore makes PyG's ``Explainer`` wait until nobody else explains
the model.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer

from .._base.errors import ModelError
from ..explanation.origin import remember_origin
from ..explanation.signed import SignedExplanation
from ..explanation.typed import TypedExplanation
from ..graph.graph import check_ends
from ..model.call import check_output
from ..model.lock import locked
from ..model.record import evaluating, forget_run, note_run
from .base import FaithfulExplainer

_RUN_THE_MODEL = ("__call__", "get_prediction", "get_masked_prediction")


def take_turns() -> None:
    """Let the methods of PyG's ``Explainer`` that run the model do so one thread at a time; calling it twice is once.

    With a method of graphfaith, an ``Explainer`` also checks the graph before it runs the model, and its output
    afterwards; it turns what the model raises into a :class:`~graphfaith.ModelError`, and restores the mode of every
    module. With other algorithms it does nothing new but wait.
    """
    for name in _RUN_THE_MODEL:
        method = getattr(Explainer, name)
        if not hasattr(method, "waits"):
            setattr(Explainer, name, _make_wait(method))


def _make_wait(method: Callable[..., Any]) -> Callable[..., Any]:
    explains, predicts = method.__name__ == "__call__", method.__name__ == "get_prediction"
    signature = inspect.signature(method)

    @functools.wraps(method)
    def wait_and_run(explainer: Explainer, *args: Any, **kwargs: Any) -> Any:
        model: torch.nn.Module = explainer.model
        algorithm = explainer.algorithm
        if not isinstance(algorithm, FaithfulExplainer):
            with locked(model):
                return method(explainer, *args, **kwargs)
        if explains:
            bound = signature.bind(explainer, *args, **kwargs).arguments
            given = bound["x"], bound["edge_index"]
            algorithm.check_call(model, *given)
        try:
            with evaluating(model):
                result = method(explainer, *args, **kwargs)
                if predicts and len(args) == 2 and isinstance(result, Tensor) and isinstance(args[0], Tensor):
                    note_run(model, *args, kwargs, result)  # The algorithm need not run it on the same graph again.
                elif not explains:
                    forget_run(model)  # A prediction with masks is another one.
        except ModelError:
            # To look at all edges takes time on a large graph, so it is done when a model has failed on them.
            check_ends(*(given if explains else (*args, None, None)[:2]))
            raise
        if not explains:
            check_output(result)  # PyG reads the class from it next
        elif isinstance(result, SignedExplanation | TypedExplanation):
            remember_origin(result, explainer)
        return result

    wait_and_run.waits = True  # type: ignore[attr-defined]
    return wait_and_run
