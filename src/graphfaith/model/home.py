"""Where a model lives: it is run there, and its output comes back to the processor.

Graphs, draws, fits and the compiled core are on the processor. A model may be on any device that torch knows. What it
is called with is sent there, and what it returns is sent back; autograd follows both ways. For many perturbed graphs
that is one transfer of all their entries of A, or of all their features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from .._base.errors import InputError

PROCESSOR = torch.device("cpu")


def home_of(model: torch.nn.Module) -> torch.device:
    """Return the device of a model's first parameter, or else of its first buffer, or else that of the processor.

    >>> home_of(torch.nn.Linear(2, 3))
    device(type='cpu')
    """
    for tensors in (model.parameters(), model.buffers()):
        for tensor in tensors:
            return tensor.device
    return PROCESSOR


def check_home(model: torch.nn.Module, given: Mapping[str, Any]) -> None:
    """Raise an :class:`InputError` if a model and the tensors that it is called with are not all on one device.

    A model without parameters and buffers is at home everywhere.
    """
    home = home_of(model)
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    if home == PROCESSOR and all(tensor.device == PROCESSOR for tensor in tensors.values()):
        return
    own = [tensor.device for many in (model.parameters(), model.buffers()) for tensor in many]
    if len(set(own)) > 1:
        named = " and ".join(sorted(set(map(str, own))))
        raise InputError(f"the model is on {named}: move all of it to one device, by model.to({str(home)!r})")
    if not own:
        home = next(iter(tensors.values())).device
    for name, tensor in tensors.items():
        if tensor.device != home:
            raise InputError(
                f"the model is on {home} and {name} on {tensor.device}: move both to one device, by "
                f"data.to({str(home)!r}) or model.to({str(tensor.device)!r})"
            )


def send(value: Any, home: torch.device) -> Any:
    """Return a tensor on a device, which autograd follows; anything else as it is."""
    return value.to(home) if isinstance(value, Tensor) and value.device != home else value


def fetch(value: Any) -> Any:
    """Return a tensor on the processor, which autograd follows; anything else as it is."""
    return send(value, PROCESSOR)


def fetch_all(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return named values with their tensors on the processor."""
    return {name: fetch(value) for name, value in values.items()}


def run_at_home(model: torch.nn.Module, home: torch.device, inputs: Iterable[Any], named: Mapping[str, Any]) -> Any:
    """Run a model where it lives, and return its output on the processor."""
    if home == PROCESSOR:
        return model(*inputs, **named)
    return fetch(model(*(send(value, home) for value in inputs), **{k: send(v, home) for k, v in named.items()}))
