"""Training with early stopping on held-out normal data, and a checkpoint after every epoch to go on from.

An epoch depends on the seed and its own number alone, so that a training that was stopped ends with the same weights,
bit for bit, as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from graphfaith._base.checks import check_count, check_seed
from graphfaith._base.errors import DataError, ModelError
from graphfaith._base.files import read_file, write_file

from .series import Windows

_KEY: Final = "graphfaith"
_CHUNK: Final = 4096  # windows at a time where there is nothing to learn


@dataclass(frozen=True)
class Plan:
    """How to train. ``patience`` epochs without a lower error on held-out data end it."""

    epochs: int = 12
    patience: int = 4
    batch_size: int = 256
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "batch_size"):
            check_count(getattr(self, name), name)
        check_seed(self.seed)


@dataclass
class State:
    """Where a training is: ``errors`` [epochs so far] on held-out data, and the weights with the lowest."""

    errors: list[float]
    best: dict[str, Tensor]


def train(
    model: nn.Module,
    data: Windows,
    held_out: Windows,
    plan: Plan,
    checkpoint: Path | None = None,
    each: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Minimise the mean square error; returns that on ``held_out`` after each epoch, and leaves the best weights.

    ``model`` has a ``forecast`` of [S, 51] readings from windows [S, 51, 5].
    ``checkpoint``, a .safetensors file, is written after each epoch and gone on from if it is there: its data and plan
    have to be these. ``each`` is told of every epoch and its error as a share of persistence's.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=plan.learning_rate)
    marks = _marks(model, data, held_out, plan)
    state = State([], {})
    if checkpoint is not None and checkpoint.exists():
        state = _read(checkpoint, model, optimiser, marks)
    persistence = held_out.persistence_error()
    while len(state.errors) < plan.epochs and not _tired(state.errors, plan.patience):
        epoch = len(state.errors)
        for group in optimiser.param_groups:  # half a cosine down to a tenth
            group["lr"] = plan.learning_rate * (0.55 + 0.45 * _cosine(epoch / plan.epochs))
        model.train()
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(plan.seed * 1_000_003 + epoch))
        for batch in order.split(plan.batch_size):  # type: ignore[no-untyped-call]
            loss = F.mse_loss(_forecast(model, data.x[batch]), data.y[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        error = error_of(model, held_out)
        if not error < float("inf"):
            raise ModelError(f"epoch {epoch + 1} of the training gave an error that is no number: lower learning_rate")
        if not state.errors or error < min(state.errors):
            state.best = {name: value.detach().clone() for name, value in model.state_dict().items()}
        state.errors.append(error)
        if checkpoint is not None:
            _write(checkpoint, model, optimiser, state, marks)
        if each is not None:
            each(epoch + 1, error / persistence)
    model.load_state_dict(state.best)
    model.eval()
    return state.errors


def forecasts(model: nn.Module, windows: Windows) -> Tensor:
    """[n, 51] what the model expected at every step."""
    model.eval()
    with torch.no_grad():
        return torch.cat([_forecast(model, x) for x in windows.x.split(_CHUNK)])  # type: ignore[no-untyped-call]


def error_of(model: nn.Module, windows: Windows) -> float:
    """The mean square error over tags and steps."""
    return float((forecasts(model, windows) - windows.y).double().square().mean())


def _forecast(model: Any, x: Tensor) -> Tensor:
    found: Tensor = model.forecast(x)
    return found


def _cosine(share: float) -> float:
    return float(torch.cos(torch.tensor(torch.pi * share)))


def _tired(errors: list[float], patience: int) -> bool:
    return len(errors) > patience and min(errors[-patience:]) > min(errors[:-patience])


# Checkpoints ------------------------------------------------------------------------------------------------------


def _marks(model: nn.Module, data: Windows, held_out: Windows, plan: Plan) -> dict[str, Any]:
    """What a checkpoint has to have in common with the training that goes on from it."""
    return {
        "model": type(model).__name__,
        "plan": asdict(plan),
        "data": hashlib.sha256(
            b"".join(t.numpy().tobytes() for t in (data.x, data.y, held_out.x, held_out.y))
        ).hexdigest(),
    }


def _write(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, state: State, marks: dict[str, Any]) -> None:
    tensors = {f"now.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best.items()}
    for number, values in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in values.items()}
    text = json.dumps({**marks, "errors": state.errors}, allow_nan=False)
    # Weights share no memory in a file.
    write_file(
        path, safetensors.torch.save({key: value.detach().clone() for key, value in tensors.items()}, {_KEY: text})
    )


def _read(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, marks: dict[str, Any]) -> State:
    """Put model and optimiser where the checkpoint left them."""
    content = read_file(path, "cannot go on from")
    try:
        tensors = safetensors.torch.load(content)
        header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
        found = json.loads(header["__metadata__"][_KEY])
        errors = [float(error) for error in found["errors"]]
    except (SafetensorError, KeyError, TypeError, ValueError, struct.error) as error:
        raise DataError(f"cannot go on from '{path}': it is no checkpoint of a training; remove it") from error
    for name, mark in json.loads(json.dumps(marks)).items():
        if found.get(name) != mark:
            raise DataError(f"cannot go on from '{path}': it is of another {name}; remove it, or use another folder")
    now = {key[4:]: value for key, value in tensors.items() if key.startswith("now.")}
    best = {key[5:]: value for key, value in tensors.items() if key.startswith("best.")}
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            _, number, name = key.split(".")
            moments.setdefault(int(number), {})[name] = value
    try:
        model.load_state_dict(now)
        optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
    except (RuntimeError, ValueError, KeyError) as error:
        raise DataError(f"cannot go on from '{path}': its weights are not those of this model; remove it") from error
    return State(errors, best)
