"""What is on which device; the tests on another device than the processor have a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from graphfaith.model.home import check_home, fetch, home_of

TESTS = Path(__file__).parent.parent


def test_everything_on_another_device():
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", str(TESTS / "on_toy_device.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_a_model_without_parameters_is_at_home_everywhere():
    model = torch.nn.ReLU()
    assert home_of(model) == torch.device("cpu")
    check_home(model, {"x": torch.zeros(2), "flag": True})
    x = torch.zeros(2)
    assert fetch(x) is x
