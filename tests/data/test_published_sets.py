"""Heterophilous graphs and Crippen molecules are what their authors published, and are read only if they are."""

from __future__ import annotations

import io
import os
import ssl
from pathlib import Path

import numpy as np
import pytest
import torch

from graphfaith._base.errors import DataError, InputError
from graphfaith.data import HETEROPHILOUS_DATASETS, crippen, heterophilous, load_dataset
from graphfaith.data.crippen import SHA256, SOURCE, join_published
from graphfaith.data.heterophilous import load_arrays

DATA = os.environ.get("GRAPHFAITH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="needs the files; set GRAPHFAITH_DATA")
# Nodes, features, classes and undirected edges, as the README of the published folder and the papers state them.
KNOWN = {
    "texas": (183, 1703, 5, 279),
    "cornell": (183, 1703, 5, 277),
    "wisconsin": (251, 1703, 5, 450),
    "actor": (7600, 932, 5, 26659),
    "minesweeper": (10000, 7, 2, 39402),
}


@needs_data
@pytest.mark.parametrize("name", HETEROPHILOUS_DATASETS)
def test_graph_is_undirected_and_split(name):
    data, (nodes, features, classes, edges) = load_dataset(name), KNOWN[name]
    assert (data.num_nodes, data.num_features, int(data.y.max()) + 1) == (nodes, features, classes)
    assert data.num_edges == 2 * edges
    assert data.is_undirected()
    assert not data.has_self_loops()
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert bool((masks.sum(dim=0) == 1).all())
    total = data.x.sum(dim=1)
    assert bool(((total - 1).abs().minimum(total.abs()) < 1e-5).all())


@needs_data
def test_split_and_features_as_published():
    first, other = heterophilous("texas"), heterophilous("texas", split=3, normalize=False)
    assert not torch.equal(first.test_mask, other.test_mask)
    assert set(other.x.unique().tolist()) == {0.0, 1.0}
    for split in (-1, 10):
        with pytest.raises(InputError, match="split"):
            heterophilous("texas", split=split)
    with pytest.raises(InputError, match=r"'squirrel'.*texas, cornell"):
        heterophilous("squirrel")


def test_pickles_are_refused_and_so_is_anything_else_that_was_not_published(tmp_path, monkeypatch):
    buffer = io.BytesIO()
    np.savez(buffer, y=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"toy\.npz.*allow_pickle"):
        load_arrays(buffer.getvalue(), "toy.npz")
    with pytest.raises(DataError, match=r"cannot read toy\.npz"):
        load_arrays(b"PK no archive", "toy.npz")
    for name in ("heterophilous/texas.npz", "crippen/crippen.npz"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(buffer.getvalue())
    monkeypatch.setenv("GRAPHFAITH_DATA", str(tmp_path))
    for load in (lambda: heterophilous("texas"), crippen):
        with pytest.raises(DataError, match="sha256"):
            load()
    with pytest.raises(DataError, match=r"cornell\.npz.*unset GRAPHFAITH_DATA"):
        heterophilous("cornell")


@needs_data
def test_download_is_verified_and_kept(tmp_path, monkeypatch):
    assert DATA is not None
    published = Path(DATA, "heterophilous/texas.npz").read_bytes()
    served = [published[:-1], published]

    def serve(url, *, timeout, context):
        assert url == "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data/texas.npz"
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert timeout > 0
        return io.BytesIO(served.pop(0))

    monkeypatch.delenv("GRAPHFAITH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", serve)
    with pytest.raises(DataError, match="cut short or altered"):
        heterophilous("texas")
    assert heterophilous("texas").num_nodes == heterophilous("texas").num_nodes == 183
    assert (tmp_path / "graphfaith/heterophilous/texas.npz").read_bytes() == published


def save_as_published(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """Return the files as their authors published them: a dictionary for each molecule, in arrays of objects."""
    atoms, bonds = np.cumsum(arrays["num_nodes"])[:-1], np.cumsum(arrays["num_edges"])[:-1]
    nodes, edges, truth = (
        np.split(arrays[name], at) for name, at in (("x", atoms), ("edge_attr", bonds), ("atom_truth", atoms))
    )
    ends = zip(np.split(arrays["source"], bonds), np.split(arrays["target"], bonds), strict=True)
    graphs = [
        {"nodes": nodes[i], "edges": edges[i], "senders": source, "receivers": target}
        for i, (source, target) in enumerate(ends)
    ]
    saved = {
        "x_true.npz": {"datadict_list": np.array([graphs], dtype=object)},
        "true_raw_attribution_datadicts.npz": {"datadict_list": np.array([[{"nodes": each}] for each in truth])},
        "y_true.npz": {"y": arrays["y"][:, None]},
        "crippen_traintest_indices.npz": {"train_index": arrays["train"], "test_index": arrays["test"]},
    }
    files = {}
    for name, content in saved.items():
        buffer = io.BytesIO()
        np.savez(buffer, **content)
        files[name] = buffer.getvalue()
    return files


@needs_data
def test_molecules_of_the_published_files_are_those_of_the_arrays():
    assert DATA is not None
    arrays = load_arrays(Path(DATA, "crippen/crippen.npz").read_bytes(), "crippen.npz")
    joined = join_published(save_as_published(arrays))
    assert joined.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(joined[name], array, err_msg=name)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_molecules_are_downloaded_and_unpickled_only_if_they_are_the_published_ones(tmp_path, monkeypatch):
    asked, sprung = [], tmp_path / "sprung"
    buffer = io.BytesIO()
    np.savez(buffer, datadict_list=np.array([Trap(sprung)], dtype=object))

    def serve(url, **_):
        asked.append(url)
        return io.BytesIO(buffer.getvalue())

    monkeypatch.delenv("GRAPHFAITH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", serve)
    with pytest.raises(DataError, match=r"x_true\.npz.*sha256.*cut short or altered"):
        crippen()
    assert asked == [SOURCE + "x_true.npz"]
    for name in SHA256:
        (tmp_path / "crippen").mkdir(exist_ok=True)
        (tmp_path / "crippen" / name).write_bytes(buffer.getvalue())
    monkeypatch.setenv("GRAPHFAITH_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"x_true\.npz.*sha256.*unset GRAPHFAITH_DATA"):
        crippen()
    assert not sprung.exists()


@needs_data
def test_contributions_of_atoms_add_up_to_the_molecule():
    train, test = crippen()
    assert (len(train), len(test)) == (901, 226)
    for molecule in (*train, *test):
        assert molecule.validate()
        assert molecule.is_undirected()
        assert molecule.x.shape == (len(molecule.atom_truth), 14)
        assert molecule.edge_attr.shape == (molecule.num_edges, 5)
        assert float(molecule.atom_truth.sum()) == pytest.approx(float(molecule.y), abs=1e-4)
    assert any(bool((molecule.atom_truth < 0).any()) for molecule in test)
