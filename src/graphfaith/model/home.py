"""Where a model lives: it is run there, and its output comes back to the processor.

Graphs, draws, fits and the compiled core are on the processor. A model may be on any device that torch knows. What it
is called with is sent there, and what it returns is sent back; autograd follows both ways. For many perturbed graphs
that is one transfer of all their entries of A, or of all their features; what they share is sent once and kept there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from .._base.errors import InputError, show
from .._base.memory import CHUNK_BYTES

PROCESSOR = torch.device("cpu")

_LOG = logging.getLogger(__name__)
_FEWEST_BYTES, _MOST_CHUNKS = 1 << 20, 8


def home_of(model: torch.nn.Module) -> torch.device:
    """Return the device of a model's first parameter, or else of its first buffer, or else that of the processor.

    >>> home_of(torch.nn.Linear(2, 3))
    device(type='cpu')
    """
    for tensors in (model.parameters(), model.buffers()):
        for tensor in tensors:
            return tensor.device
    return PROCESSOR


def parameters_of(model: torch.nn.Module) -> list[Tensor]:
    """Return a model's parameters, also while another thread explains it.

    A mask is a parameter of its layer as long as it is there, and ``model.parameters()`` fails if one comes or goes
    while they are gone through.

    >>> [tuple(one.shape) for one in parameters_of(torch.nn.Linear(2, 3))]
    [(3, 2), (3,)]
    """
    return [one for module in model.modules() for one in list(module._parameters.values()) if one is not None]


def check_device(device: torch.device | str) -> torch.device:
    """Return a device that torch can use on this machine; raise an :class:`InputError` for any other one.

    >>> check_device("cpu")
    device(type='cpu')
    """
    try:
        made = torch.device(device)
        torch.empty(0, device=made)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).strip().split("\n")[0][:160]
        raise InputError(
            f"torch cannot use the device {show(str(device))} here: {reason or type(error).__name__}"
        ) from None
    return made


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device; None for the processor, and where torch cannot tell.

    >>> free_memory(PROCESSOR) is None
    True
    """
    if device == PROCESSOR:
        return None
    own: Any = getattr(torch, device.type, None)
    try:
        if hasattr(own, "mem_get_info"):
            return int(own.mem_get_info(device)[0])
        if hasattr(own, "recommended_max_memory"):  # which MPS has in place of it
            return int(own.recommended_max_memory()) - int(own.driver_allocated_memory())
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None and hasattr(accelerator, "get_memory_info"):
            return int(accelerator.get_memory_info(device)[0])
    except (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError):
        _LOG.debug("the free memory of %s is not known", device)
    return None


def chunk_bytes(device: torch.device) -> int:
    """Return how many bytes a chunk of samples may take on a device: a quarter of what is free, within limits.

    A device with much memory takes more at once than the processor, because each call costs it time; but samples are
    drawn on the processor, which must hold them too.
    """
    free = free_memory(device)
    return CHUNK_BYTES if free is None else max(_FEWEST_BYTES, min(_MOST_CHUNKS * CHUNK_BYTES, free // 4))


def check_home(model: torch.nn.Module, given: Mapping[str, Any]) -> None:
    """Raise an :class:`InputError` if a model and the tensors that it is called with are not all on one device.

    A model without parameters and buffers is at home everywhere.
    """
    home = home_of(model)
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    if home == PROCESSOR and all(tensor.device == PROCESSOR for tensor in tensors.values()):
        return
    own = [tensor.device for many in (parameters_of(model), model.buffers()) for tensor in many]
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


def check_typed_home(model: torch.nn.Module, **given: Any) -> None:
    """Do the same for dictionaries of tensors by type, such as ``x`` and ``edge_index`` of a heterogeneous graph."""
    check_home(
        model,
        {
            f"{name}[{key!r}]": tensor
            for name, tensors in given.items()
            if isinstance(tensors, Mapping)
            for key, tensor in tensors.items()
        },
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


class Kept:
    """Tensors on the device of a model that are the same for every sample: each is sent there once.

    >>> kept, x = Kept(PROCESSOR, [torch.ones(2)]), torch.ones(2)
    >>> kept(x) is x                                     # nothing has to be sent to the processor
    True
    """

    def __init__(self, home: torch.device, tensors: Iterable[Any]) -> None:
        self._home = home
        # The tensors are held too, because another one could get the identity of one that is gone.
        self._own = {} if home == PROCESSOR else {id(one): [one] for one in tensors if isinstance(one, Tensor)}

    def __call__(self, value: Any) -> Any:
        """Return a value on the device if it is one of the tensors; any other one as it is."""
        pair = self._own.get(id(value)) if self._own else None
        if pair is None:
            return value
        if len(pair) == 1:
            pair.append(send(value, self._home))
        return pair[1]
