"""What the tests share: small graphs and models, and an implementation of the paper written only for comparison."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import reference.py

settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("nightly", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

needs_data = pytest.mark.skipif(
    "GRAPHFAITH_DATA" not in os.environ, reason="needs the Cora and CiteSeer files; set GRAPHFAITH_DATA"
)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
