"""Generated graphs are built as in the literature; Cora and CiteSeer are read only from the published files."""

from __future__ import annotations

import hashlib
import http.client
import io
import logging
import os
import pickle
import random
import ssl
import sys
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from graphfaith._base.errors import DataError, InputError
from graphfaith._base.selection import parse_nodes
from graphfaith.cli import application, source
from graphfaith.cli.arguments import neighborhoods_of
from graphfaith.cli.score import PAPER_NODES
from graphfaith.data import (
    DATASETS,
    HETEROGENEOUS_DATASETS,
    MOTIF_DATASETS,
    ba_shapes,
    load_dataset,
    planetoid,
    tree_cycles,
    tree_grid,
)
from graphfaith.data.models import BAShapesGCN, Trained
from graphfaith.data.planetoid import FOLDERS, SHA256, SOURCE
from graphfaith.facade.subject import EDGE_NEIGHBORHOODS

DATA = os.environ.get("GRAPHFAITH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="needs the Cora and CiteSeer files; set GRAPHFAITH_DATA")
MODULE = sys.modules[planetoid.__module__]  # The package attribute of that name is the function.
CORA_FILES = [file for file in SHA256 if file.startswith("ind.cora.")]


def published(file: str) -> bytes:
    assert DATA is not None
    return (Path(DATA) / FOLDERS[file.split(".")[1]] / file).read_bytes()


def undirected(edge_index: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(edge), max(edge)) for edge in edge_index.t().tolist()}


class TestBAShapes:
    def test_counts(self):
        data = ba_shapes()
        assert data.x.shape == (700, 10)
        assert bool((data.x == 1).all())
        assert data.y.bincount().tolist() == [300, 160, 160, 80]
        assert data.y[:300].max() == 0
        assert data.y[300:].view(80, 5).unique(dim=0).tolist() == [[1, 1, 2, 2, 3]]
        # There are 1475 edges of the base, 80 houses of 6, 80 edges to houses and 70 random ones, in both directions.
        assert data.num_edges == 2 * (1475 + 480 + 80 + 70)
        assert data.is_coalesced()
        assert data.is_undirected()
        assert not data.has_self_loops()

    def test_labelled_edges_are_the_houses(self):
        data = ba_shapes()
        graph = nx.Graph(undirected(data.edge_index[:, data.edge_label == 1]))
        houses = list(nx.connected_components(graph))
        assert sorted(sorted(house) for house in houses) == [
            list(range(first, first + 5)) for first in range(300, 700, 5)
        ]
        for house in houses:
            middle = nx.subgraph(graph, house)
            assert sorted(degree for _, degree in middle.degree) == [2, 2, 2, 3, 3]
            # The two nodes of degree 3 are the middle, and the roof is the only node connected to both of them.
            assert all((degree == 3) == (data.y[node] == 1) for node, degree in middle.degree)
            roof = max(house)
            assert all(data.y[node] == 1 for node in middle.neighbors(roof))
        assert data.edge_label.dtype == torch.float
        assert data.edge_label.sum() == 2 * 480

    def test_other_edges_are_base_attachments_and_random(self):
        data = ba_shapes()
        others = undirected(data.edge_index[:, data.edge_label == 0])
        attachments = {(3 * house, 300 + 5 * house) for house in range(80)}
        assert attachments <= others
        touching_houses = {edge for edge in others - attachments if edge[1] >= 300}
        within_base = {edge for edge in others if edge[1] < 300}
        assert 0 < len(touching_houses) <= 70
        assert len(within_base) + len(touching_houses) == 1475 + 70
        # Both ends of a random pair lie in the base with probability (3/7)^2.
        assert 1475 < len(within_base) < 1475 + 35

    def test_base_has_hubs(self):
        graph = nx.Graph(undirected(ba_shapes().edge_index))
        degrees = sorted(degree for node, degree in graph.degree if node < 300)
        assert degrees[0] >= 1
        assert degrees[150] < 10
        assert degrees[-1] > 40

    def test_split(self):
        data = ba_shapes()
        masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
        assert masks.sum(dim=1).tolist() == [560, 70, 70]
        assert bool((masks.sum(dim=0) == 1).all())
        assert data.y[data.test_mask].unique().tolist() == [0, 1, 2, 3]


TREE = nx.balanced_tree(2, 8)


@dataclass(frozen=True)
class OnTree:
    """The expected properties of a data set with motifs on a tree."""

    make: Callable[..., Data]
    motif: nx.Graph
    num_random: int
    split: list[int]

    @property
    def size(self) -> int:
        return len(self.motif)

    @property
    def firsts(self) -> range:
        return range(511, 511 + 80 * self.size, self.size)


@pytest.mark.parametrize(
    "case",
    [
        OnTree(tree_cycles, nx.cycle_graph(6), 99, [792, 99, 100]),
        OnTree(tree_grid, nx.grid_2d_graph(3, 3), 123, [984, 123, 124]),
    ],
    ids=["cycles", "grid"],
)
class TestTrees:
    def test_counts(self, case):
        data = case.make()
        num_nodes = 511 + 80 * case.size
        assert data.x.shape == (num_nodes, 10)
        assert bool((data.x == 1).all())
        assert data.y.tolist() == [0] * 511 + [1] * 80 * case.size
        # There are 510 edges of the tree, those of the motifs, 80 to the motifs and random ones, in both directions.
        assert data.num_edges == 2 * (510 + 80 * case.motif.number_of_edges() + 80 + case.num_random)
        assert data.is_coalesced()
        assert data.is_undirected()
        assert not data.has_self_loops()

    def test_labelled_edges_are_the_motifs(self, case):
        data = case.make()
        graph = nx.Graph(undirected(data.edge_index[:, data.edge_label == 1]))
        motifs = sorted(sorted(motif) for motif in nx.connected_components(graph))
        assert motifs == [list(range(first, first + case.size)) for first in case.firsts]
        assert all(nx.is_isomorphic(graph.subgraph(motif), case.motif) for motif in motifs)
        # Every node of a cycle and the corner of a grid, where it is attached, have degree 2.
        assert {graph.degree[first] for first in case.firsts} == {2}
        assert data.edge_label.dtype == torch.float
        assert data.edge_label.sum() == 2 * 80 * case.motif.number_of_edges()

    def test_other_edges_are_tree_attachments_and_random(self, case):
        data = case.make()
        others = undirected(data.edge_index[:, data.edge_label == 0])
        tree = set(TREE.edges)
        assert tree <= others
        attachments = {edge for edge in others if edge[0] < 511 and edge[1] in case.firsts}
        # Random edges may end at the first node of a motif too, so there may be more than one edge to a motif.
        assert {edge[1] for edge in attachments} == set(case.firsts)
        assert len(others) == len(tree) + 80 + case.num_random
        assert any(edge not in tree and edge[1] < 511 for edge in others)
        assert any(edge[0] >= 511 for edge in others)

    def test_motifs_hang_at_different_nodes_drawn_at_random(self, case, monkeypatch):
        monkeypatch.setattr("graphfaith.data.motifs._add_random_edges", lambda graph, count, rng: None)
        hosts = []
        for seed in (0, 1):
            data = case.make(seed=seed)
            attachments = undirected(data.edge_index[:, data.edge_label == 0]) - set(TREE.edges)
            assert sorted(first for _, first in attachments) == list(case.firsts)
            hosts.append({host for host, _ in attachments})
            assert len(hosts[-1]) == 80
            assert max(hosts[-1]) < 511
        # Two random sets of 80 out of 511 nodes share 12 or 13 nodes on average.
        assert len(hosts[0] & hosts[1]) < 40

    def test_degrees(self, case):
        graph = nx.Graph(undirected(case.make().edge_index))
        base = [graph.degree[node] for node in range(511)]
        motif = [graph.degree[node] for node in range(511, len(graph))]
        assert min(base) == 1
        assert min(motif) == 2
        # There are no hubs: a node has at most 3 neighbours in the tree or 4 in a grid, and a few other edges.
        assert max(base + motif) <= 9
        assert sum(base) + sum(motif) == 2 * graph.number_of_edges()
        assert nx.is_connected(graph)

    def test_split(self, case):
        data = case.make()
        masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
        assert masks.sum(dim=1).tolist() == case.split
        assert bool((masks.sum(dim=0) == 1).all())
        assert all(data.y[mask].unique().tolist() == [0, 1] for mask in masks)


@pytest.mark.parametrize("make", MOTIF_DATASETS.values(), ids=MOTIF_DATASETS)
class TestSeeds:
    def test_seed_decides_every_bit(self, make):
        first, again, other = make(seed=3), make(seed=3), make(seed=4)
        assert first.keys() == again.keys()
        assert all(torch.equal(first[key], again[key]) for key in first.keys())  # noqa: SIM118
        assert not torch.equal(first.edge_index, other.edge_index)
        assert not torch.equal(first.test_mask, other.test_mask)

    def test_global_random_state_is_neither_read_nor_changed(self, make):
        results = []
        for global_seed in (0, 1):
            random.seed(global_seed)
            np.random.seed(global_seed)  # noqa: NPY002
            torch.manual_seed(global_seed)
            before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
            results.append(make(seed=0))
            after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
            assert before == after
        assert torch.equal(results[0].edge_index, results[1].edge_index)
        assert torch.equal(results[0].train_mask, results[1].train_mask)

    def test_negative_seed_is_refused(self, make):
        # Python's generator treats the seed -1 as 1, so two seeds would give the same graph.
        with pytest.raises(InputError, match="-1"):
            make(seed=-1)


class TestLoadDataset:
    @pytest.mark.parametrize(
        ("name", "make"), [("ba-shapes", ba_shapes), ("tree-cycles", tree_cycles), ("tree-grid", tree_grid)]
    )
    def test_passes_the_seed_on(self, name, make):
        assert torch.equal(load_dataset(name, seed=5).edge_index, make(5).edge_index)

    def test_unknown_name_lists_the_known(self):
        with pytest.raises(InputError, match=r"'pubmed'.*ba-shapes, tree-cycles, tree-grid, cora, citeseer"):
            load_dataset("pubmed")
        with pytest.raises(InputError, match=r"'ba-shapes'.*cora, citeseer"):
            planetoid("ba-shapes")

    @needs_data
    @pytest.mark.parametrize("name", DATASETS)
    def test_every_name_loads(self, name):
        data = load_dataset(name)
        assert {"x", "edge_index", "y", "train_mask", "val_mask", "test_mask"} <= set(data.keys())
        assert data.validate()

    @needs_data
    @pytest.mark.parametrize("name", DATASETS)
    def test_features_are_constant_where_motifs_are_all_there_is(self, name):
        data = load_dataset(name)
        assert (data.x.min() == data.x.max()) == (name in MOTIF_DATASETS)


class TestCommand:
    """The command line accepts every data set and treats those with motifs differently."""

    @pytest.mark.parametrize("command", ["score", "explain"])
    def test_help_lists_them(self, command):
        text = CliRunner().invoke(application.app, [command, "--help"]).output
        assert "Oneofba-shapes,tree-cycles,tree-grid,cora,citeseer" in "".join(text.split())

    @pytest.mark.parametrize("name", MOTIF_DATASETS)
    def test_features_are_not_perturbed_where_they_are_constant(self, name):
        assert neighborhoods_of(["all"], name) == list(EDGE_NEIGHBORHOODS)
        with pytest.raises(InputError, match=f"the features of {name} are constant"):
            neighborhoods_of(["U(X,0.2r)"], name)

    def test_features_are_perturbed_elsewhere(self):
        assert neighborhoods_of(["U(X,0.2r)"], "cora") == ["U(X,0.2r)"]

    def test_every_one_has_nodes_to_score(self):
        assert set(PAPER_NODES) == {*DATASETS, *HETEROGENEOUS_DATASETS}

    @pytest.mark.parametrize("name", MOTIF_DATASETS)
    def test_scores_60_nodes_of_motifs_and_trains_pgexplainer_jointly(self, name, monkeypatch):
        calls = []

        def untrained(dataset, **options):
            data = load_dataset(dataset)
            return Trained(BAShapesGCN(), data, 0.5, dataset, options["seed"])

        def compare(subject, nodes, *others, **options):
            calls.append((subject, nodes, options))
            return []

        monkeypatch.setattr(source, "load_trained", untrained)
        monkeypatch.setattr("graphfaith.facade.comparison.compare_on", compare)
        result = CliRunner().invoke(application.app, ["score", "--dataset", name])
        assert result.exit_code == 0
        ((subject, nodes, options),) = calls
        assert nodes == list(parse_nodes(PAPER_NODES[name]))
        assert len(nodes) == 60
        assert bool((subject.data.y[nodes] > 0).all())
        assert subject.together == tuple(nodes)
        assert options["dataset"] == name


@needs_data
class TestPlanetoid:
    @pytest.mark.parametrize(
        ("name", "nodes", "edges", "features", "classes"),
        [("cora", 2708, 10556, 1433, 7), ("citeseer", 3327, 9104, 3703, 6)],
    )
    def test_counts(self, name, nodes, edges, features, classes):
        data = planetoid(name)
        assert (data.num_nodes, data.num_edges, data.num_features) == (nodes, edges, features)
        assert data.y.unique().numel() == classes
        assert data.train_mask.sum() == 20 * classes
        assert data.val_mask.sum() == 500
        assert data.test_mask.sum() == 1000
        assert data.is_undirected()

    def test_rows_sum_to_one_or_are_zero(self):
        # CiteSeer has nodes without any feature, Cora does not.
        data, raw = planetoid("citeseer"), planetoid("citeseer", normalize=False)
        empty = raw.x.sum(dim=1) == 0
        assert empty.sum() > 0
        torch.testing.assert_close(data.x.sum(dim=1), (~empty).float())
        assert torch.equal(data.x > 0, raw.x > 0)
        assert raw.x.unique().tolist() == [0, 1]

    def test_same_as_reading_the_folder_directly(self):
        from torch_geometric.io import read_planetoid_data

        assert DATA is not None
        expected = read_planetoid_data(str(Path(DATA) / "Cora/raw"), "cora")
        data = planetoid("cora", normalize=False)
        assert all(torch.equal(data[key], expected[key]) for key in expected.keys())  # noqa: SIM118


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Return an empty folder to which GRAPHFAITH_DATA points; any access to the network fails the test."""
    monkeypatch.setenv("GRAPHFAITH_DATA", str(tmp_path / "given"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", lambda *args, **kwargs: pytest.fail("asked the network"))
    folder = tmp_path / "given" / "Cora" / "raw"
    folder.mkdir(parents=True)
    return folder


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


class RunsCode:
    """An object whose pickle makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class TestGivenFolder:
    def test_malicious_pickles_never_run(self, given, tmp_path):
        marker = tmp_path / "marker"
        content = pickle.dumps(RunsCode(marker))
        for file in CORA_FILES:
            (given / file).write_bytes(content)
        with pytest.raises(DataError):
            planetoid("cora")
        assert not marker.exists()
        pickle.loads(content)
        assert marker.exists(), "the pickle of this test is harmless, so the test proves nothing"

    @needs_data
    @pytest.mark.parametrize("file", CORA_FILES)
    def test_one_altered_file_is_refused_before_any_is_parsed(self, given, file, monkeypatch):
        for name in CORA_FILES:
            (given / name).write_bytes(published(name))
        altered = bytearray(published(file))
        altered[-1] ^= 1
        (given / file).write_bytes(altered)
        monkeypatch.setattr(MODULE, "read_planetoid_data", lambda *args: pytest.fail("parsed"))
        with pytest.raises(DataError) as caught:
            planetoid("cora")
        message = str(caught.value)
        assert str(given / file) in message
        assert SHA256[file] in message
        assert hashlib.sha256(altered).hexdigest() in message
        assert SOURCE + file in message

    def test_missing_file_is_named(self, given):
        with pytest.raises(DataError, match=str(given / "ind.cora.") + ".*GRAPHFAITH_DATA"):
            planetoid("cora")

    @needs_data
    def test_folder_is_only_read_and_what_was_checked_is_what_is_parsed(self, given, tmp_path, monkeypatch):
        from torch_geometric.io import read_planetoid_data

        for file in CORA_FILES:
            (given / file).write_bytes(published(file))
        before = snapshot(given)

        def swap_then_read(folder, name):
            # An attacker could swap a file between the check and the reading.
            (given / "ind.cora.x").write_bytes(b"swapped")
            for file in CORA_FILES:
                assert hashlib.sha256((Path(folder) / file).read_bytes()).hexdigest() == SHA256[file]
            data = read_planetoid_data(folder, name)
            (given / "ind.cora.x").write_bytes(published("ind.cora.x"))
            return data

        monkeypatch.setattr(MODULE, "read_planetoid_data", swap_then_read)
        assert planetoid("cora").num_nodes == 2708
        assert snapshot(given) == before
        assert not (tmp_path / "cache").exists()


class Server:
    """A replacement of urlopen that serves `content(file)` and records the requested files."""

    def __init__(self, content) -> None:
        self.content = content
        self.asked: list[str] = []

    def __call__(self, url, *, timeout, context):
        assert url.startswith("https://raw.githubusercontent.com/kimiyoung/planetoid/")
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname
        assert timeout > 0
        file = url.rpartition("/")[2]
        self.asked.append(file)
        return io.BytesIO(self.content(file))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the folder of an empty cache, without GRAPHFAITH_DATA."""
    monkeypatch.delenv("GRAPHFAITH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "graphfaith" / "planetoid" / "Cora" / "raw"


def files_under(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


class TestDownload:
    @needs_data
    def test_each_file_once(self, cache, monkeypatch):
        server = Server(published)
        monkeypatch.setattr("urllib.request.urlopen", server)
        first = planetoid("cora")
        assert sorted(server.asked) == sorted(CORA_FILES)
        assert {path.name: path.read_bytes() for path in cache.iterdir()} == {
            file: published(file) for file in CORA_FILES
        }
        (cache / "ind.cora.y").unlink()
        second = planetoid("cora")
        assert server.asked[len(CORA_FILES) :] == ["ind.cora.y"]
        assert torch.equal(first.x, second.x)

    @needs_data
    @pytest.mark.parametrize("damage", [lambda content: content[:-100], lambda content: content + b"."])
    def test_damaged_download_leaves_nothing_behind(self, cache, monkeypatch, damage):
        monkeypatch.setattr("urllib.request.urlopen", Server(lambda file: damage(published(file))))
        with pytest.raises(DataError, match=f"{SOURCE}ind.cora.*cut short or altered"):
            planetoid("cora")
        assert files_under(cache.parents[3]) == []

    def test_malicious_download_never_runs(self, cache, monkeypatch, tmp_path):
        marker = tmp_path / "marker"
        monkeypatch.setattr("urllib.request.urlopen", Server(lambda file: pickle.dumps(RunsCode(marker))))
        with pytest.raises(DataError):
            planetoid("cora")
        assert not marker.exists()
        assert files_under(tmp_path) == []

    @pytest.mark.parametrize("error", [urllib.error.URLError("no route"), http.client.IncompleteRead(b"ab", 9)])
    def test_failing_network_says_what_to_do(self, cache, monkeypatch, error):
        def fail(*args, **kwargs):
            raise error

        monkeypatch.setattr("urllib.request.urlopen", fail)
        with pytest.raises(DataError, match=f"{SOURCE}ind.cora.*GRAPHFAITH_DATA"):
            planetoid("cora")

    def test_altered_cached_file_is_refused(self, cache, monkeypatch):
        monkeypatch.setattr("urllib.request.urlopen", lambda *args, **kwargs: pytest.fail("asked the network"))
        cache.mkdir(parents=True)
        for file in CORA_FILES:
            (cache / file).write_bytes(b"altered")
        with pytest.raises(DataError, match=f"{cache}.*{hashlib.sha256(b'altered').hexdigest()}; delete it"):
            planetoid("cora")

    @needs_data
    def test_unwritable_cache_costs_only_the_next_download(self, cache, monkeypatch, tmp_path, caplog):
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setattr("urllib.request.urlopen", Server(published))
        with caplog.at_level(logging.WARNING):
            assert planetoid("cora").num_nodes == 2708
        assert "the next run will download it again" in caplog.text

    @needs_data
    def test_full_disk_leaves_no_temporary_file(self, cache, monkeypatch):
        def full(source, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("urllib.request.urlopen", Server(published))
        monkeypatch.setattr("os.replace", full)
        assert planetoid("cora").num_nodes == 2708
        assert files_under(cache) == []
