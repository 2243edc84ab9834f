"""Training with early stopping on held-out normal data, and with a checkpoint after every epoch.

The random numbers of an epoch depend only on the seed and the number of the epoch. A training that was stopped and
resumed therefore ends with exactly the same weights as a training without a stop.
"""

from __future__ import annotations

import hashlib
import json
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
from graphfaith._base.checksum import checksum_of
from graphfaith._base.errors import DataError, ModelError
from graphfaith._base.expansion import safetensors_header
from graphfaith._base.files import read_file, write_file

from ..showcase.training import seeded
from .series import Windows

_KEY: Final = "graphfaith"
_CHUNK: Final = 4096  # windows that are forecast at a time outside of training


@dataclass(frozen=True)
class Plan:
    """The settings of a training, which ends after ``patience`` epochs without a lower error on held-out data."""

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
    """The state of a training: ``errors`` on held-out data, one per epoch, and the weights with the lowest error."""

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
    """Train ``model`` to minimise the mean square error, and return the error on ``held_out`` after each epoch.

    The model gets the weights with the lowest error. It must have a method ``forecast`` that returns the readings
    [S, n] that it expects at the end of windows [S, n, window]. ``checkpoint`` is a .safetensors file, which is written
    after each epoch. If it exists, the training resumes from it; its model, plan and data must be the same. ``each`` is
    called after every epoch with the number of the epoch and the error divided by the error of persistence.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=plan.learning_rate)
    marks = _marks_of(model, data, held_out, plan)
    state = State([], {})
    if checkpoint is not None and checkpoint.exists():
        state = _read_checkpoint(checkpoint, model, optimiser, marks)
    persistence = held_out.persistence_error()
    while len(state.errors) < plan.epochs and not _has_stalled(state.errors, plan.patience):
        epoch = len(state.errors)
        for group in optimiser.param_groups:  # The learning rate falls along half a cosine towards a tenth.
            group["lr"] = plan.learning_rate * (0.55 + 0.45 * _cosine(epoch / plan.epochs))
        with seeded((plan.seed * 1_000_003 + epoch) % 2**63):  # Dropout draws, too.
            _train_epoch(model, data, plan.batch_size, optimiser)
        error = error_of(model, held_out)
        if not error < float("inf"):
            raise ModelError(f"the error after epoch {epoch + 1} is not a finite number; use a lower learning_rate")
        if not state.errors or error < min(state.errors):
            state.best = {name: value.detach().clone() for name, value in model.state_dict().items()}
        state.errors.append(error)
        if checkpoint is not None:
            _write_checkpoint(checkpoint, model, optimiser, state, marks)
        if each is not None:
            each(epoch + 1, error / persistence)
    model.load_state_dict(state.best)
    model.eval()
    return state.errors


def _train_epoch(model: nn.Module, data: Windows, batch_size: int, optimiser: torch.optim.Optimizer) -> None:
    model.train()
    for batch in torch.randperm(len(data)).split(batch_size):  # type: ignore[no-untyped-call]
        x = data.x[batch]
        loss = F.mse_loss(_forecast(model, x), x[..., -1])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def forecast_all(model: nn.Module, windows: Windows) -> Tensor:
    """Return the forecasts [S, n] of the model for all windows."""
    model.eval()
    with torch.no_grad():
        return torch.cat([_forecast(model, x) for x in windows.x.split(_CHUNK)])  # type: ignore[no-untyped-call]


def error_of(model: nn.Module, windows: Windows) -> float:
    """Return the mean square error of the forecasts over tags and steps."""
    return float((forecast_all(model, windows) - windows.y).double().square().mean())


def _forecast(model: Any, x: Tensor) -> Tensor:
    forecast: Tensor = model.forecast(x)
    return forecast


def _cosine(share: float) -> float:
    return float(torch.cos(torch.tensor(torch.pi * share)))


def _has_stalled(errors: list[float], patience: int) -> bool:
    return len(errors) > patience and min(errors[-patience:]) > min(errors[:-patience])


# Checkpoints ------------------------------------------------------------------------------------------------------


def _marks_of(model: nn.Module, data: Windows, held_out: Windows, plan: Plan) -> dict[str, Any]:
    """Return the properties that a checkpoint and the training that resumes from it must share."""
    digest = hashlib.sha256()
    for windows in (data, held_out):
        digest.update(windows.x.contiguous().numpy().data)
    return {"model": type(model).__name__, "plan": asdict(plan), "data": digest.hexdigest()}


def _write_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, state: State, marks: dict[str, Any]
) -> None:
    tensors = {f"now.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best.items()}
    for number, values in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in values.items()}
    # safetensors refuses tensors that share memory, so that each tensor is copied.
    copies = {key: value.detach().clone() for key, value in tensors.items()}
    about = {**marks, "errors": state.errors}
    about["checksum"] = checksum_of(json.dumps(about), copies)
    write_file(path, safetensors.torch.save(copies, {_KEY: json.dumps(about, allow_nan=False)}))


def _read_checkpoint(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, marks: dict[str, Any]) -> State:
    """Load the checkpoint into the model and the optimiser, and return the state of the training."""
    content = read_file(path, "cannot resume from")
    try:
        text = safetensors_header(content)
        tensors = safetensors.torch.load(content)
        header = json.loads(text)
        metadata = json.loads(header["__metadata__"][_KEY])
        checksum = metadata.pop("checksum")
        errors = [float(error) for error in metadata["errors"]]
    except (
        SafetensorError,
        ArithmeticError,
        AttributeError,
        KeyError,
        RuntimeError,
        TypeError,
        ValueError,
        DataError,
    ) as error:
        raise DataError(
            f"cannot resume from '{path}': it is not a checkpoint of a training; remove the file"
        ) from error
    if checksum != checksum_of(json.dumps(metadata), tensors):
        raise DataError(f"cannot resume from '{path}': it is damaged, its checksum is wrong; remove the file")
    for name, mark in json.loads(json.dumps(marks)).items():
        if metadata.get(name) != mark:
            raise DataError(
                f"cannot resume from '{path}': its {name} is not the {name} of this training; "
                "remove the file, or use another folder"
            )
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
        raise DataError(f"cannot resume from '{path}': its weights do not fit this model; remove the file") from error
    return State(errors, best)
