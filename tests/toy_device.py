"""A device made of Python code: its tensors lie on the processor, but say that they are elsewhere.

Every operation is done on the processor and its result is wrapped again, so that models run forward and backward. An
operation that is given tensors of two devices raises, as it does on an accelerator, and so does reading a tensor as an
array. A transfer that was forgotten therefore fails in a test on a machine without an accelerator.
"""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NAME = "toy"
transfers = {"to": 0, "from": 0}  # copies to the device and back, which tests may count
has_double = True  # MPS, for example, has no numbers of double precision
free = 4 * 2**30  # bytes that the device says are free
_library: list[torch.library.Library] = []


class _Module(_DummyBackendModule):
    """What torch asks of a device beside its operations: it draws its random numbers on the processor."""

    def get_rng_state(self, device):
        return torch.get_rng_state()

    def set_rng_state(self, state, device):
        torch.set_rng_state(state)

    def mem_get_info(self, device):
        return free, 8 * 2**30


class ToyTensor(torch.Tensor):
    """A tensor that reports the toy device and holds one of the processor."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> ToyTensor:
        if held.dtype == torch.float64 and not has_double:
            raise TypeError(f"Cannot convert to {NAME}: it has no float64. Use float32 instead")
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(NAME, 0),
            requires_grad=held.requires_grad,
        )
        made.held = held.detach()
        return made

    def __repr__(self) -> str:
        return f"{self.held!r} on {NAME}"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def run(func, args, kwargs):
    """Do an operation on the processor, and wrap what it returns."""
    given, _ = tree_flatten((args, kwargs))
    elsewhere = [one for one in given if isinstance(one, torch.Tensor) and not isinstance(one, ToyTensor) and one.dim()]
    wanted = kwargs.get("device")
    name = func._schema.name
    if name in ("aten::_to_copy", "aten::_copy_from", "aten::copy_"):
        return _copy(func, args, kwargs)
    if elsewhere:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! "
            f"(in {name})"
        )
    if wanted is not None:
        kwargs = {**kwargs, "device": "cpu" if torch.device(wanted).type == NAME else wanted}
    out = func(*tree_map(_unwrap, args), **tree_map(_unwrap, kwargs))
    if func._schema.is_mutable:
        flat_args = [one for one in given if isinstance(one, ToyTensor)]
        by_held = {id(one.held): one for one in flat_args}
        return tree_map(lambda one: by_held.get(id(one), _wrap(one)) if isinstance(one, torch.Tensor) else one, out)
    stays = wanted is not None and torch.device(wanted).type != NAME
    return out if stays else tree_map(_wrap, out)


def _copy(func, args, kwargs):
    name = func._schema.name
    if name == "aten::_to_copy":
        source, device = args[0], kwargs.get("device")
        to_toy = isinstance(source, ToyTensor) if device is None else torch.device(device).type == NAME
        kwargs = {key: value for key, value in kwargs.items() if key != "device"}
        out = func(_unwrap(source), **kwargs)
        transfers["to"] += to_toy and not isinstance(source, ToyTensor)
        transfers["from"] += not to_toy and isinstance(source, ToyTensor)
        return _wrap(out) if to_toy else out
    if name == "aten::_copy_from":
        source, into = args[0], args[1]
        _unwrap(into).copy_(_unwrap(source))
        return into
    into, source = args[0], args[1]
    _unwrap(into).copy_(_unwrap(source))
    return into


def _wrap(value):
    return ToyTensor(value) if isinstance(value, torch.Tensor) and not isinstance(value, ToyTensor) else value


def _unwrap(value):
    if isinstance(value, ToyTensor):
        return value.held
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


def install() -> torch.device:
    """Register the device, once in a process."""
    if not _library:
        _setup_privateuseone_for_python_backend(NAME, _Module())
        library = torch.library.Library("aten", "IMPL")
        _library.append(library)

        def factory(name: str):
            namespace, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, namespace), overload or "default")

            def make(*args, **kwargs):
                kwargs = {**kwargs, "device": "cpu"}
                return ToyTensor(op(*args, **kwargs))

            return make

        for name in ("empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step"):
            library.impl(name, factory(name), "PrivateUse1")

        def to_copy(tensor, **kwargs):
            return _copy(torch.ops.aten._to_copy.default, (tensor,), kwargs)

        def copy_from(source, into, non_blocking=False):
            return _copy(torch.ops.aten._copy_from.default, (source, into), {})

        library.impl("_to_copy", to_copy, "PrivateUse1")
        library.impl("_copy_from", copy_from, "PrivateUse1")
    return torch.device(NAME, 0)
