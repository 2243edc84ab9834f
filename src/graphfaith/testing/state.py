"""Checks that an algorithm does not change the inputs, the model, the global random states or the settings of torch."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from .bench import Bench, Fragile, Net, make_case, random_states, require, require_same, seed_everything


def inputs_unchanged(bench: Bench) -> None:
    """x, edge_index, edge_weight, target and index are the same after the call, bit for bit."""
    case = make_case(weighted=True, index=torch.tensor([0]))
    before = {name: tensor.clone() for name, tensor in case.tensors().items()}
    bench.explain(case)
    for name, tensor in case.tensors().items():
        require(torch.equal(tensor, before[name]), f"{name} has changed")


def inputs_never_written(bench: Bench) -> None:
    """No input is written to, not even if it is restored, because another thread may read it meanwhile."""
    case = make_case(weighted=True, index=torch.tensor([0]))
    before = {name: tensor._version for name, tensor in case.tensors().items()}
    bench.explain(case)
    for name, tensor in case.tensors().items():
        require(tensor._version == before[name], f"{name} was written to in place")


def parameters_unchanged(bench: Bench) -> None:
    """The parameters of the model are the same after the call, bit for bit."""
    case = make_case()
    before = {name: parameter.detach().clone() for name, parameter in case.model.named_parameters()}
    bench.explain(case)
    after = dict(case.model.named_parameters())
    require(after.keys() == before.keys(), f"the parameters are now {sorted(after)}, not {sorted(before)}")
    for name, parameter in after.items():
        require(torch.equal(parameter, before[name]), f"parameter {name} has changed")


def buffers_unchanged(bench: Bench) -> None:
    """The statistics of a batch normalisation do not change, even if the model is in train mode."""
    case = make_case(lambda: Net(norm=True))
    case.model.train()
    before = {name: buffer.clone() for name, buffer in case.model.named_buffers()}
    bench.explain(case)
    for name, buffer in case.model.named_buffers():
        require(torch.equal(buffer, before[name]), f"buffer {name} has changed")


def parameter_gradients_untouched(bench: Bench) -> None:
    """The .grad and the requires_grad of every parameter do not change."""
    case = make_case()
    for place, parameter in enumerate(case.model.parameters()):
        parameter.requires_grad_(place != 1)
        parameter.grad = None if place == 2 else torch.full_like(parameter, 7.0)
    wanted = [parameter.requires_grad for parameter in case.model.parameters()]
    bench.explain(case)
    for place, (name, parameter) in enumerate(case.model.named_parameters()):
        require(parameter.requires_grad == wanted[place], f"requires_grad of {name} has changed")
        if place == 2:
            require(parameter.grad is None, f"{name} had no .grad and has one now")
        else:
            unchanged = parameter.grad is not None and bool((parameter.grad == 7.0).all())
            require(unchanged, f".grad of {name} has changed")


def _check_random_state(bench: Bench, library: str) -> None:
    call = bench.prepare_call(make_case())
    before = random_states()[library]
    call()
    require(random_states()[library] == before, f"the call draws from {library}'s global generator, or seeds it")


def torch_random_state_untouched(bench: Bench) -> None:
    """The global random state of torch is the same after the call."""
    _check_random_state(bench, "torch")


def numpy_random_state_untouched(bench: Bench) -> None:
    """The global random state of numpy is the same after the call."""
    _check_random_state(bench, "numpy")


def python_random_state_untouched(bench: Bench) -> None:
    """The global random state of Python's random module is the same after the call."""
    _check_random_state(bench, "python")


def global_seed_ignored(bench: Bench) -> None:
    """The scores depend on the seed of the algorithm and not on the global random state."""
    case = make_case()
    first, second = (bench.score(case, seed=seed) for seed in (0, 1))
    require_same(second, first, "with another global seed", tolerance=0.0)


def torch_settings_untouched(bench: Bench) -> None:
    """Grad mode, default dtype, number of threads and determinism of torch are the same after the call."""

    def read_settings() -> dict[str, Any]:
        return {
            "grad mode": torch.is_grad_enabled(),
            "default dtype": torch.get_default_dtype(),
            "number of threads": torch.get_num_threads(),
            "determinism": torch.are_deterministic_algorithms_enabled(),
        }

    call = bench.prepare_call(make_case())
    before = read_settings()
    call()
    for name, value in read_settings().items():
        require(value == before[name], f"the {name} is now {value}, not {before[name]}")


def train_mode_preserved(bench: Bench) -> None:
    """Every module keeps its mode, whether all are in train mode, all in eval mode, or some in each."""
    for wanted in ("train", "eval", "mixed"):
        case = make_case()
        call = bench.prepare_call(case)
        case.model.train(wanted != "eval")
        if wanted == "mixed":
            dict(case.model.named_children())["first"].eval()
        before = {name: module.training for name, module in case.model.named_modules()}
        call()
        for name, module in case.model.named_modules():
            now = "train" if module.training else "eval"
            require(module.training == before.get(name), f"{name or 'the model'} is now in {now} mode ({wanted} model)")


def dropout_inactive(bench: Bench) -> None:
    """A model in train mode gets the same scores as in eval mode, with dropout and batch statistics switched off."""
    case = make_case(lambda: Net(dropout=0.5, norm=True))
    expected = bench.score(case)
    case.model.train()
    require_same(bench.score(case), expected, "with the model in train mode")


def _to_comparable(value: Any) -> Any:
    """Return ``value`` in a form that can be compared; other objects are represented by the name of their type."""
    if isinstance(value, dict):
        return {key: _to_comparable(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_comparable(entry) for entry in value]
    if isinstance(value, (bool, int, float, str, type(None), torch.dtype)):
        return value
    if isinstance(value, (Tensor, torch.nn.Module)):
        return id(value)
    return type(value).__name__


def _take_snapshot(model: torch.nn.Module) -> dict[str, Any]:
    """Return every attribute, hook, mask and mode of every module."""
    return {
        f"{name or 'the model'}: {key}": copy.copy(_to_comparable(value))
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        # ``calls`` is the counter of Fragile, and ``inspector`` is a cache of PyG; both may change.
        if key not in ("calls", "inspector")
    }


def _require_unchanged(model: torch.nn.Module, before: dict[str, Any], when: str) -> None:
    after = _take_snapshot(model)
    keys_by_fault = {
        "new": sorted(after.keys() - before.keys()),
        "missing": sorted(before.keys() - after.keys()),
        "changed": sorted(key for key in after.keys() & before.keys() if after[key] != before[key]),
    }
    faults = "; ".join(f"{fault}: {', '.join(keys)}" for fault, keys in keys_by_fault.items() if keys)
    require(not faults, f"{when} attributes of modules are {faults}")


def model_left_clean(bench: Bench) -> None:
    """No mask, hook or new attribute remains on any module of the model."""
    case = make_case()
    before = _take_snapshot(case.model)
    bench.explain(case)
    _require_unchanged(case.model, before, "after the call")


def model_left_clean_after_error(bench: Bench) -> None:
    """If the model raises an error during the call, its modules do not change, and the error is not hidden."""
    for fails_at in (1, 2, 3):
        case = make_case(lambda fails_at=fails_at: Fragile(fails_at))  # type: ignore[misc]
        case.model.train()
        call = bench.prepare_call(case)
        case.model.train()
        before = _take_snapshot(case.model)
        wanted = [parameter.requires_grad for parameter in case.model.parameters()]
        raised: BaseException | None = None
        try:
            call()
        except Exception as error:
            raised = error
        if fails_at == 1 and case.model.calls:
            shown = raised is not None and Fragile.MESSAGE in f"{raised}{raised.__cause__}{raised.__context__}"
            require(shown, f"the model's own error is hidden (got {raised!r})")
        when = f"after an error in call {fails_at} of the model"
        _require_unchanged(case.model, before, when)
        same = wanted == [parameter.requires_grad for parameter in case.model.parameters()]
        require(same, f"{when} requires_grad of a parameter has changed")


def result_belongs_to_caller(bench: Bench) -> None:
    """Writing to the masks of an explanation changes neither the inputs nor a later explanation."""
    case, algorithm = make_case(weighted=True), bench.make()
    inputs = {name: tensor.clone() for name, tensor in case.tensors().items()}
    explanation = bench.explain(case, algorithm)
    expected = {name: explanation[name].clone() for name in ("node_mask", "edge_mask") if name in explanation}
    for name in expected:
        explanation[name].detach().fill_(-3.0)
    for name, tensor in case.tensors().items():
        require(torch.equal(tensor, inputs[name]), f"a mask shares its memory with {name}")
    require_same(bench.score(case, algorithm), expected, "after the first answer was written to")


def same_answer_from_new_one(bench: Bench) -> None:
    """Two algorithms made by the factory give the same scores for the same call, bit for bit."""
    case = make_case()
    require_same(bench.score(case), bench.score(case), "a second algorithm", tolerance=0.0)


def same_answer_twice(bench: Bench) -> None:
    """An algorithm gives the same scores when it is called again, bit for bit."""
    case, algorithm = make_case(), bench.make()
    first = bench.score(case, algorithm)
    require_same(bench.score(case, algorithm), first, "the second call", tolerance=0.0)


def other_node_between(bench: Bench) -> None:
    """A call for another node in between does not change the scores."""
    case, other, algorithm = make_case(), make_case(index=7), bench.make()
    first = bench.score(case, algorithm)
    bench.score(other, algorithm)
    require_same(bench.score(case, algorithm), first, "after a call for another node", tolerance=0.0)


def no_stale_answer(bench: Bench) -> None:
    """After x, edge_weight and a parameter are written to, the same algorithm explains the new values."""
    case, algorithm = make_case(weighted=True), bench.make()
    bench.score(case, algorithm)
    new = make_case(weighted=True)
    for changed in (case, new):
        with torch.no_grad():
            changed.x.mul_(-0.5)
            changed.kwargs["edge_weight"].mul_(1.5)
            next(changed.model.parameters()).add_(0.3)
    seed_everything()
    require_same(bench.score(case, algorithm), bench.score(new), "after the inputs were written to")


CHECKS = (
    inputs_unchanged,
    inputs_never_written,
    parameters_unchanged,
    buffers_unchanged,
    parameter_gradients_untouched,
    torch_random_state_untouched,
    numpy_random_state_untouched,
    python_random_state_untouched,
    global_seed_ignored,
    torch_settings_untouched,
    train_mode_preserved,
    dropout_inactive,
    model_left_clean,
    model_left_clean_after_error,
    result_belongs_to_caller,
    same_answer_from_new_one,
    same_answer_twice,
    other_node_between,
    no_stale_answer,
)
