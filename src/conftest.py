"""Examples in docstrings draw the same weights every time, and what one of them registers no other one knows."""

import os
from collections.abc import Iterator

import pytest
import torch

# Examples of data sets that are downloaded, which tests do not do.
NEED_FILES = ("planetoid", "heterophilous", "cora_bibliography", "crippen", "Molecules", "load_trained", "Trained")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the examples that need files if there are none, as the tests that need them are skipped."""
    if "GRAPHFAITH_DATA" not in os.environ:
        for item in items:
            if item.name.startswith("graphfaith.data.") and item.name.rpartition(".")[2] in NEED_FILES:
                item.add_marker(pytest.mark.skip(reason="needs files; set GRAPHFAITH_DATA"))


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what examples train apart from what the user has trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _registries(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphfaith.explainers import methods
    from graphfaith.sampling import neighborhood

    monkeypatch.setattr(methods, "_METHODS", dict(methods._METHODS))
    monkeypatch.setattr(neighborhood, "_NOTATIONS", dict(neighborhood._NOTATIONS))
