"""What the tests share: small graphs and models, and an implementation of the paper written only for comparison."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import reference.py
collect_ignore = ["toy_run.py"]  # a script that runs when it is imported

settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("nightly", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

needs_data = pytest.mark.skipif(
    "GRAPHFAITH_DATA" not in os.environ, reason="needs the Cora and CiteSeer files; set GRAPHFAITH_DATA"
)

# Tensors here are small: on a busy machine a second thread is waited for longer than it helps.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """Keep each trained model for the rest of this run of the tests and all its processes; the user's own stay out."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which all workers share
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield


@pytest.fixture(autouse=True)
def _registries(monkeypatch):
    """What a test registers is known to that test alone."""
    from graphfaith.explainers import methods
    from graphfaith.sampling import neighborhood

    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))
    monkeypatch.setattr(neighborhood, "_NOTATIONS", dict(neighborhood._NOTATIONS))


@pytest.fixture(scope="session")
def browser():
    from browsing import started

    with started() as found:
        yield found
