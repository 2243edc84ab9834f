"""Graphs from files: the formats, the error messages, and a proof that no code in a file is ever run."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import warnings
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.storage import NodeStorage

from graphfaith._base.errors import DataError, GraphfaithError, InputError
from graphfaith.cli import application
from graphfaith.data import graph_file
from graphfaith.data.graph_file import read_any_graph, read_graph, read_tensors
from graphfaith.data.own_model import load_model

X = torch.tensor([[0.5, 1.0], [2.0, -1.0], [0.0, 3.0]])
EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])
PLAIN = {"x": X, "edge_index": EDGES}


# Files that are read ----------------------------------------------------------------------------------------------

FULL = {
    **PLAIN,
    "edge_weight": torch.tensor([1.0, 0.5, 2.0]),
    "edge_attr": torch.tensor([[1.0], [2.0], [3.0]]),
    "batch": torch.tensor([0, 0, 1]),
    "edge_label_index": torch.tensor([[0], [2]]),
    "y": torch.tensor([1, 0, 1]),
    "pos": torch.rand(3, 2),
}
NODES, FEATURES = ["pump", "tank", "valve"], ["heat", "noise"]


def save_pt(path, fields, **options):
    torch.save(Data(**fields, node_names=NODES, feature_names=FEATURES), path, **options)


def save_npz(path, fields):
    np.savez(path, **{key: value.numpy() for key, value in fields.items()}, node_names=NODES, feature_names=FEATURES)


def save_safetensors(path, fields):
    save_file(dict(fields), path, {"node_names": json.dumps(NODES), "feature_names": json.dumps(FEATURES)})


WRITERS = {
    "data.pt": save_pt,
    "legacy.pt": lambda path, fields: save_pt(path, fields, _use_new_zipfile_serialization=False),
    "dictionary.pt": lambda path, fields: torch.save({**fields, "node_names": NODES, "feature_names": FEATURES}, path),
    "graph.npz": save_npz,
    "graph.safetensors": save_safetensors,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_brings_the_same_graph(tmp_path, name):
    WRITERS[name](tmp_path / name, FULL)
    data = read_graph(tmp_path / name)
    assert set(data.keys()) == {*FULL, "node_names", "feature_names"}
    for key, value in FULL.items():
        assert data[key].dtype == value.dtype
        assert torch.equal(data[key], value), key
    assert data.node_names == NODES
    assert data.feature_names == FEATURES


def test_reading_leaves_what_torch_allows_as_it_was(tmp_path):
    before = set(torch.serialization.get_safe_globals())
    torch.save(Data(**PLAIN), tmp_path / "graph.pt")
    read_graph(tmp_path / "graph.pt")
    assert set(torch.serialization.get_safe_globals()) == before
    assert Data in before


def test_numbers_are_made_fit_to_compute_with(tmp_path):
    np.savez(
        tmp_path / "counts.npz",
        x=np.array([[1, 0], [2, 5]], dtype=np.uint8),
        edge_index=np.array([[0], [1]], dtype=np.int32),
        edge_weight=np.array([3]),
        batch=np.zeros(2, dtype=np.int16),
    )
    data = read_graph(tmp_path / "counts.npz")
    assert data.x.dtype == data.edge_weight.dtype == torch.float32
    assert data.x.tolist() == [[1, 0], [2, 5]]
    assert data.edge_index.dtype == data.batch.dtype == torch.int64
    np.savez(tmp_path / "big_endian.npz", x=np.eye(2, dtype=">f8"), edge_index=np.array([[0], [1]], dtype=">i4"))
    data = read_graph(tmp_path / "big_endian.npz")
    assert data.x.dtype == torch.float64  # The precision is not changed here, because it depends on the model.
    assert data.edge_index.tolist() == [[0], [1]]
    trained = torch.nn.Parameter(torch.eye(2, dtype=torch.bfloat16))
    torch.save(Data(x=trained, edge_index=EDGES[:, :1]), tmp_path / "table.pt")
    data = read_graph(tmp_path / "table.pt")
    assert type(data.x) is torch.Tensor
    assert data.x.dtype == torch.float32
    assert not data.x.requires_grad


def test_what_is_no_tensor_is_left_out(tmp_path):
    extra = {"num_nodes": torch.tensor(7), "_mapping": X, "two words": X, 5: X, "year": 1999, "nested": {"x": X}}
    torch.save({**PLAIN, **extra, "pos": X}, tmp_path / "graph.pt")
    assert set(read_graph(tmp_path / "graph.pt").keys()) == {"x", "edge_index", "pos"}


# Graphs of several types ------------------------------------------------------------------------------------------


def typed():
    data = HeteroData()
    data["pump"].x, data["tank"].x = torch.tensor([[1, 2]]), torch.eye(2, dtype=torch.float64)
    data["pump", "fills", "tank"].edge_index = torch.tensor([[0, 0], [0, 1]], dtype=torch.int32)
    data["pump", "fills", "tank"].edge_attr = torch.tensor([[3], [4]])
    data["tank"].node_names, data["pump"].feature_names = ["north", "south"], ["heat", "noise"]
    data.class_names, data.year, data.pos = ["low", "high"], 1999, torch.ones(2)
    return data


def test_hetero_data_is_read(tmp_path):
    torch.save(typed(), tmp_path / "plant.pt")
    data = read_any_graph(tmp_path / "plant.pt")
    assert type(data) is HeteroData
    assert data.metadata() == (["pump", "tank"], [("pump", "fills", "tank")])
    assert data["pump"].x.dtype == torch.float32
    assert torch.equal(data["tank"].x, torch.eye(2, dtype=torch.float64))
    edges = data["pump", "fills", "tank"]
    assert edges.edge_index.dtype == torch.int64
    assert edges.edge_attr.tolist() == [[3.0], [4.0]]
    assert (data["tank"].node_names, data["pump"].feature_names) == (["north", "south"], ["heat", "noise"])
    assert data.class_names == ["low", "high"]
    assert torch.equal(data._global_store.pos, torch.ones(2))
    assert "year" not in data._global_store
    torch.save(Data(**PLAIN), tmp_path / "graph.pt")
    assert type(read_any_graph(tmp_path / "graph.pt")) is Data
    with pytest.raises(DataError, match="it holds a HeteroData, and this is for graphs with one type of nodes"):
        read_graph(tmp_path / "plant.pt")


def spoiled(change):
    data = typed()
    change(data)
    return data


SPOILED = {
    "an edge to nowhere": (lambda data: data["tank"].update({"x": X[:1], "node_names": None}), "names node 1"),
    "NaN": (lambda data: data["tank"].update({"x": torch.full((2, 2), torch.nan)}), "x['tank'][0, 0] is nan"),
    "edges of reals": (
        lambda data: data["pump", "fills", "tank"].update({"edge_index": torch.rand(2, 2)}),
        "edge_index must hold whole numbers",
    ),
    "names": (lambda data: data["tank"].update({"node_names": ["one"]}), "1 names for 2 nodes"),
    "no edges": (lambda data: data._edge_store_dict.clear(), "the graph is empty"),
    "a type that is no text": (
        lambda data: data._node_store_dict.update({5: NodeStorage(_parent=data)}),
        "of type 5: types are named by texts",
    ),
    "a store that is none": (lambda data: data.__dict__.update({"_edge_store_dict": X}), "the graph is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_hetero_data_that_is_no_graph_is_refused(tmp_path, case):
    change, message = SPOILED[case]
    torch.save(spoiled(change), tmp_path / "plant.pt")
    with pytest.raises(DataError) as caught:
        read_any_graph(tmp_path / "plant.pt")
    assert message in str(caught.value)


# Files that are refused -------------------------------------------------------------------------------------------

BAD = {
    "no x": ({"edge_index": EDGES}, "it has no tensor 'x' (it has edge_index)"),
    "nothing": ({}, "it has no tensor 'x' (it has no tensors)"),
    "no edges": ({"x": X}, "it has no tensor 'edge_index'"),
    "edges sideways": ({**PLAIN, "edge_index": torch.zeros(3, 4).long()}, "edge_index must be a tensor of shape [2,"),
    "edges of reals": ({**PLAIN, "edge_index": EDGES.double()}, "edge_index must hold whole numbers (got torch.float6"),
    "an edge to nowhere": ({**PLAIN, "edge_index": EDGES + 1}, "edge_index names node 3, but the graph has nodes 0 to"),
    "NaN": ({**PLAIN, "x": X.masked_fill(X == 3, torch.nan)}, "x[2, 1] is nan"),
    "infinity": ({**PLAIN, "x": X.masked_fill(X == 3, torch.inf)}, "x[2, 1] is inf"),
    "weights": ({**PLAIN, "edge_weight": torch.ones(2)}, "edge_weight must have one number for each of the 3 edges"),
    "a negative weight": ({**PLAIN, "edge_weight": -torch.ones(3)}, "edge 0 has weight -1"),
    "attributes": (
        {**PLAIN, "edge_attr": torch.ones(2, 1)},
        "edge_attr must have 3 rows, one for each edge (got shape [2, 1])",
    ),
    "NaN in attributes": ({**PLAIN, "edge_attr": torch.full((3, 1), torch.nan)}, "edge_attr holds a number that is"),
    "batch": ({**PLAIN, "batch": torch.zeros(2).long()}, "batch must have shape [3], the graph of each node (got [2])"),
    "batch of reals": ({**PLAIN, "batch": torch.zeros(3)}, "batch must hold whole numbers"),
    "batch without end": ({**PLAIN, "batch": torch.tensor([0, 0, 10**12])}, "batch holds numbers outside 0 to 2"),
    "pairs": (
        {**PLAIN, "edge_label_index": torch.zeros(3, 1).long()},
        "edge_label_index must have shape [2, pairs] (got [3,",
    ),
    "pairs to nowhere": ({**PLAIN, "edge_label_index": EDGES + 1}, "edge_label_index holds numbers outside 0 to 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("suffix", [".pt", ".npz", ".safetensors"])
def test_a_graph_that_is_none_is_refused_by_name(tmp_path, case, suffix):
    fields, message = BAD[case]
    path = tmp_path / f"graph{suffix}"
    if suffix == ".pt":
        torch.save(fields, path)
    elif suffix == ".npz":
        np.savez(path, **{key: value.numpy() for key, value in fields.items()})
    else:
        save_file({key: value.contiguous() for key, value in fields.items()}, path)
    with pytest.raises(DataError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(f"cannot read the graph '{path}': {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"node_names": ["a", "b"]}, "2 names for 3 nodes"),
        ({"feature_names": ["a"]}, "1 names for 2 features"),
        ({"node_names": ["a", "b", 3]}, "a name must be a text (got 3)"),
        ({"node_names": "abc"}, "names of nodes must be a list"),
        ({"node_names": X}, "names of nodes must be a list"),
    ],
)
def test_names_have_to_fit(tmp_path, names, message):
    torch.save({**PLAIN, **names}, tmp_path / "graph.pt")
    with pytest.raises(DataError, match=message.replace("(", r"\(").replace(")", r"\)")):
        read_graph(tmp_path / "graph.pt")


def test_a_file_that_is_not_there_or_has_no_known_format(tmp_path):
    (tmp_path / "folder.pt").mkdir()
    (tmp_path / "graph.csv").write_text("0,1")
    for name, error, message in [
        ("none.pt", DataError, "there is no such file"),
        ("folder.pt", DataError, "it is a folder"),
        ("graph.csv", InputError, "use a .pt, .safetensors or .npz file"),
        ("none.pkl", InputError, "use a .pt, .safetensors or .npz file"),
    ]:
        with pytest.raises(error, match=message):
            read_graph(tmp_path / name)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    torch.save(PLAIN, tmp_path / "graph.pt")
    (tmp_path / "graph.pt").chmod(0)
    with pytest.raises(DataError, match="Permission denied"):
        read_graph(tmp_path / "graph.pt")


@pytest.mark.parametrize("name", WRITERS)
@given(st.data())
def test_a_damaged_file_never_gets_past_a_typed_error(tmp_path_factory, name, data):
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"damaged-{name}"
    WRITERS[name](path, PLAIN)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    message = ""
    try:
        read_graph(path)  # It may succeed, because not every bit matters.
    except GraphfaithError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("suffix", [".pt", ".npz", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"x", b"a graph\n", b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x93NUMPY\x01\x00"])
def test_files_of_other_kinds(tmp_path, suffix, content):
    (tmp_path / f"graph{suffix}").write_bytes(content)
    with pytest.raises(DataError, match="cannot read the graph"):
        read_graph(tmp_path / f"graph{suffix}")


def test_what_is_no_single_graph_is_refused_with_advice(tmp_path):
    graph = Data(**PLAIN)
    for value, message in [
        ([graph, graph], "it holds a list, not one Data or a dictionary of tensors: save a dictionary"),
        ((graph, None), "it holds a tuple"),
        (X, "it holds a Tensor"),
        (Batch.from_data_list([graph, graph]), "it names torch_geometric.data.batch."),
        ({**PLAIN, "a": np.ones(2)}, "it names numpy"),
    ]:
        torch.save(value, tmp_path / "graph.pt")
        with pytest.raises(DataError) as caught:
            read_graph(tmp_path / "graph.pt")
        assert f"graph.pt': {message}" in str(caught.value)
        assert "save a dictionary of plain tensors" in str(caught.value)


def test_files_with_sparse_tensors_say_what_to_store_instead(tmp_path):
    typed = HeteroData()
    typed["a"].x, typed["a", "to", "a"].adj_t = X, torch.eye(len(X)).to_sparse()
    for graph, read in [({**PLAIN, "a": X.to_sparse()}, read_graph), (typed, read_any_graph)]:
        torch.save(graph, tmp_path / "graph.pt")
        with pytest.raises(
            DataError, match=r"it holds a sparse tensor .*: store edge_index in place of adj_t, by type"
        ):
            read(tmp_path / "graph.pt")


def test_a_graph_of_several_types_is_no_file_of_tensors_and_has_rows_of_features(tmp_path):
    typed = HeteroData()
    typed["a"].x, typed["a"].feature_names = torch.rand(3), ["f"]
    typed["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
    torch.save(typed, tmp_path / "graph.pt")
    with pytest.raises(DataError, match=r"cannot read the truth .*: it holds a HeteroData, and not tensors"):
        read_tensors(tmp_path / "graph.pt", "the truth")
    with pytest.raises(DataError, match=r"x of 'a' must be \[nodes, features\] \(got \[3\]\)"):
        read_any_graph(tmp_path / "graph.pt")


def test_a_data_with_odd_insides_is_refused(tmp_path):
    for state in [{}, {"_store": None}, {"_store": {"_mapping": PLAIN}}, {"_store": Data()}]:
        odd = Data(**PLAIN)
        odd.__dict__.clear()
        odd.__dict__.update(state)
        torch.save(odd, tmp_path / "graph.pt")
        with pytest.raises(DataError, match="cannot read the graph"):
            read_graph(tmp_path / "graph.pt")


# Files that would run code ----------------------------------------------------------------------------------------


class Runs:
    """An object whose pickle calls ``function``, which leaves a mark, when it is unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def payloads(mark):
    return {
        "os.system": Runs(os.system, f"touch '{mark}'"),
        "exec": Runs(exec, f"open({str(mark)!r}, 'w').close()"),
        "os.mkdir": Runs(os.mkdir, str(mark)),
    }


def zip_of(content, name="archive/data.pkl"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return buffer.getvalue()


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def object_array(value):
    buffer = io.BytesIO()
    np.savez(buffer, x=X.numpy(), edge_index=EDGES.numpy(), y=np.array([value], dtype=object))
    return buffer.getvalue()


# The ways to hide a payload in a file: the name of the file, and a function that makes its content.
CORPUS = {
    "torch.save": ("a.pt", saved),
    "torch.save, legacy": ("a.pt", lambda value: saved(value, _use_new_zipfile_serialization=False)),
    "torch.save, protocol 4": ("a.pt", lambda value: saved(value, pickle_protocol=4)),
    "a raw pickle": ("a.pt", pickle.dumps),
    "a raw pickle, protocol 0": ("a.pt", lambda value: pickle.dumps(value, protocol=0)),
    "a raw pickle in a zip": ("a.pt", lambda value: zip_of(pickle.dumps(value, protocol=2))),
    "in a Data": ("a.pt", lambda value: saved(Data(**PLAIN, extra=value))),
    "in a Data, legacy": ("a.pt", lambda v: saved(Data(**PLAIN, extra=v), _use_new_zipfile_serialization=False)),
    "in a dictionary": ("a.pt", lambda value: saved({**PLAIN, "extra": value})),
    "deep in a dictionary": ("a.pt", lambda value: saved({**PLAIN, "extra": [{"deep": (value,)}]})),
    "an array of objects": ("a.npz", object_array),
    "a pickle called npz": ("a.npz", pickle.dumps),
    "torch.save called npz": ("a.npz", saved),
    "a pickle in an npz": ("a.npz", lambda value: zip_of(pickle.dumps(value), "x.npy")),
    "a pickle called safetensors": ("a.safetensors", pickle.dumps),
    "torch.save called safetensors": ("a.safetensors", saved),
}


def unpickle_carelessly(content):
    """Read a file as a program would that trusts its files."""
    attempts = [
        lambda: torch.load(io.BytesIO(content), weights_only=False),
        lambda: pickle.loads(content),
        lambda: np.load(io.BytesIO(content), allow_pickle=True)["y"],
        lambda: pickle.loads(zipfile.ZipFile(io.BytesIO(content)).read("x.npy")),
    ]
    for attempt in attempts:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attempt()
        except Exception:  # The file has another format, or the result of the payload cannot be used.
            continue


@pytest.mark.parametrize("payload", ["os.system", "exec", "os.mkdir"])
@pytest.mark.parametrize("how", CORPUS)
def test_nothing_in_a_file_is_run(tmp_path, monkeypatch, capsys, how, payload):
    mark = tmp_path / "mark"
    name, write = CORPUS[how]
    path = tmp_path / name
    path.write_bytes(write(payloads(mark)[payload]))
    with pytest.raises(DataError) as caught:
        read_graph(path)
    assert not mark.exists()
    if name == "a.pt":
        named = f"{payload.removeprefix('os.')}, which no graph needs and which could run code; nothing was run"
        assert named in str(caught.value)

    # The command line must refuse the file too, as the graph and as the model.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fine.py").write_text("from torch.nn import Identity as load\n")
    torch.save(PLAIN, tmp_path / "fine.pt")
    for model, graph, message in [
        ("fine:load", name, "cannot read the graph"),
        (name, "fine.pt", "is a file of weights and was not opened"),
        (f"{name}:load", "fine.pt", "is a file of weights and was not opened"),
        (str(path), "fine.pt", "is a file of weights and was not opened"),
    ]:
        arguments = ["explain", "--model", model, "--data", graph, "--node", "0"]
        monkeypatch.setattr(sys, "argv", ["graphfaith", *arguments])
        with pytest.raises(SystemExit) as stop:
            application.main()
        assert stop.value.code == 2
        assert message in capsys.readouterr().err.replace("\n", " ")
    assert not mark.exists()

    unpickle_carelessly(path.read_bytes())
    assert mark.exists(), "the file is harmless, so the test proves nothing"


@pytest.mark.parametrize("payload", ["os.system", "exec", "os.mkdir"])
@pytest.mark.parametrize("how", [how for how, (name, _) in CORPUS.items() if name == "a.pt"])
def test_torch_would_not_run_it_either(tmp_path, monkeypatch, how, payload):
    """Without the check of names, the restricted unpickler of torch still refuses the file."""
    monkeypatch.setattr(graph_file, "_refuse_code", lambda content: None)
    mark = tmp_path / "mark"
    (tmp_path / "a.pt").write_bytes(CORPUS[how][1](payloads(mark)[payload]))
    with pytest.raises(DataError, match="cannot read the graph"):
        read_graph(tmp_path / "a.pt")
    assert not mark.exists()


@contextmanager
def opened_files():
    """Yield a list of all files that are opened inside the block, by any function.

    An audit hook cannot be removed, so it is switched off at the end.
    """
    opened, watching = [], True

    def hook(event, arguments):
        if watching and event == "open":
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)
    yield opened
    watching = False


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".PKL", ".safetensors"])
def test_a_file_as_model_is_not_opened(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(pickle.dumps(payloads(tmp_path / "mark")["exec"]))
    monkeypatch.chdir(tmp_path)
    with opened_files() as opened:
        for name in (str(path), f"{path}:load", f"weights{suffix}", f"weights{suffix}:load"):
            with pytest.raises(
                InputError, match="was not opened: give a function as module:function that builds the model"
            ):
                load_model(name)
        assert opened == []
        path.read_bytes()
        assert opened == [str(path)]
    assert not (tmp_path / "mark").exists()


def test_classes_that_torch_would_allow_are_refused_too(tmp_path):
    """PyG allows torch to read some of its classes that no graph file needs."""
    from torch_geometric.data import TemporalData
    from torch_geometric.loader import ClusterData

    for cls in (TemporalData, ClusterData):
        torch.save({**PLAIN, "extra": cls.__new__(cls)}, tmp_path / "graph.pt")
        assert cls in torch.serialization.get_safe_globals()
        with pytest.raises(DataError, match=f"it names torch_geometric.*{cls.__name__}"):
            read_graph(tmp_path / "graph.pt")


def test_a_zip_with_a_second_pickle_is_refused(tmp_path):
    for name in ("archive/more/data.pkl", "other/data.pkl", "archive/constants.pkl"):
        content = io.BytesIO(saved(PLAIN))
        with zipfile.ZipFile(content, "a") as archive:
            archive.writestr(name, pickle.dumps(1))
        (tmp_path / "graph.pt").write_bytes(content.getvalue())
        with pytest.raises(DataError, match=r"not one written by torch\.save"):
            read_graph(tmp_path / "graph.pt")


def test_a_zip_behind_a_pickle_does_not_hide_it(tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "graph.pt").write_bytes(pickle.dumps(payloads(mark)["exec"]) + saved(PLAIN))
    with pytest.raises(DataError, match=r"it names builtins\.exec"):
        read_graph(tmp_path / "graph.pt")
    assert not mark.exists()
