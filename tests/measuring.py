"""Units of the paper's experiments at toy size, each measured once in a run of the tests."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphfaith._base.files import write_file
from graphfaith_studies.paper.experiment import TOY, Experiment, Size, Unit
from graphfaith_studies.paper.experiments import EXPERIMENTS

Measure = Callable[[Experiment, Unit, Size], Any]


def measure_once(experiment: Experiment, unit: Unit, measure: Measure | None = None) -> Any:
    """Return the result of a unit; another test, or another process of this run, may have measured it already.

    The result is kept as JSON beside the models of this run, as a journal keeps it.
    """
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "measured"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment.name}_{unit.key.replace('/', '_')}.json"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            result = (measure or type(experiment).measure)(experiment, unit, TOY)
            write_file(path, json.dumps(result, allow_nan=False).encode())
    return json.loads(path.read_text())


@contextmanager
def remembered() -> Iterator[None]:
    """Let a run of the experiments take each unit that was measured already."""
    with pytest.MonkeyPatch.context() as patch:
        # One experiment may inherit from another, so all are asked before the first one is changed.
        for kind, usual in {type(experiment): type(experiment).measure for experiment in EXPERIMENTS.values()}.items():

            def measure(self: Experiment, unit: Unit, size: Size, usual: Measure = usual) -> Any:
                assert size is TOY
                return measure_once(self, unit, usual)

            patch.setattr(kind, "measure", measure)
        yield
