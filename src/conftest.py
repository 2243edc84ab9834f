"""Examples in docstrings draw the same weights every time, and what one of them registers no other one knows."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _registries(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphfaith.explainers import methods
    from graphfaith.sampling import neighborhood

    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))
    monkeypatch.setattr(neighborhood, "_NOTATIONS", dict(neighborhood._NOTATIONS))
