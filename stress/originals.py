"""One undamaged file of each kind that the library and its studies read, and how each is read.

Every kind has a reader that returns what was read as plain values, so that two readings can be compared.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from families import make_model
from torch import Tensor
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith._base.checksum import checksum_of
from graphfaith.data import models
from graphfaith.data.graph_file import read_graph
from graphfaith.data.planetoid import FOLDERS, SHA256
from graphfaith.data.verified import Published, cache_folder
from graphfaith_studies.paper import results
from graphfaith_studies.paper.journal import Journal
from graphfaith_studies.plant import loader, study, training, truth
from graphfaith_studies.plant.forecaster import Forecaster
from graphfaith_studies.plant.series import Windows
from graphfaith_studies.swat.attacks import ATTACKS
from graphfaith_studies.swat.files import write_csv
from graphfaith_studies.swat.schedule import Schedule
from graphfaith_studies.swat.simulation import simulate
from graphfaith_studies.swat.tags import SWAT

RESULTS = Path(__file__).parents[1] / "docs" / "results"
CORA = "file of Cora"  # the only kind that a machine may not have
Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Original:
    """A kind of file: its name in a folder, its content, and how it is read.

    ``free`` says that the format has no checksum and the file is the user's own, so that damage can turn it into
    another valid file that nobody can tell from one that was meant. ``partial`` says that a reader may leave out
    entries at the end, because their work is then done again.
    """

    kind: str
    name: str
    content: bytes
    read: Read
    free: bool = False
    partial: bool = False


@cache
def make_originals() -> dict[str, Original]:
    """Return the originals by kind."""
    logging.getLogger("graphfaith.data.models").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        found = [
            *_graphs(Path(folder)),
            *_explanations(Path(folder)),
            *_of_studies(Path(folder)),
            *_stored(Path(folder)),
        ]
    return {original.kind: original for original in found}


# Graphs -----------------------------------------------------------------------------------------------------------


def make_graph(num_nodes: int = 12) -> Data:
    """Return a small graph with everything that a file may hold."""
    generator = torch.Generator().manual_seed(5)
    ends = torch.randint(num_nodes, (2, 3 * num_nodes), generator=generator)
    ends = torch.unique(ends[:, ends[0] != ends[1]], dim=1).contiguous()
    data = Data(x=torch.rand(num_nodes, 3, generator=generator), edge_index=ends)
    data.edge_weight = torch.rand(ends.size(1), generator=generator)
    return data


def _graphs(folder: Path) -> list[Original]:
    data = make_graph()
    tensors = {"x": data.x, "edge_index": data.edge_index, "edge_weight": data.edge_weight}
    names = {"node_names": [f"n{i}" for i in range(12)], "feature_names": ["a", "b", "c"]}
    files: dict[str, bytes] = {}
    for name, value, new in (
        ("Data.pt", data, True),
        ("dictionary.pt", {**tensors, **names}, True),
        ("old.pt", tensors, False),
    ):
        stream = io.BytesIO()
        torch.save(value, stream, _use_new_zipfile_serialization=new)
        files[name] = stream.getvalue()
    arrays = {key: value.numpy() for key, value in tensors.items()} | {
        key: np.array(value) for key, value in names.items()
    }
    for name, store in (("graph.npz", np.savez), ("packed.npz", np.savez_compressed)):
        store(folder / name, **arrays)
        files[name] = (folder / name).read_bytes()
    texts = {key: json.dumps(value) for key, value in names.items()}
    files["graph.safetensors"] = safetensors.torch.save(tensors, texts)
    return [Original(f"graph {name}", name, content, _read_graph, free=True) for name, content in files.items()]


def _read_graph(path: Path) -> Any:
    return _plain(read_graph(path).to_dict())


# Explanations -----------------------------------------------------------------------------------------------------


def _explanations(folder: Path) -> list[Original]:
    data, found = make_graph(), []
    model = make_model("GCN", "node", 3, 3, 2, seed=1)
    for method, near in (
        ("anchored-kec", "U(X,0.3r)xB(A,0.5)"),
        ("kec", "U(A,0.5)"),
        ("linear", "B(A,0.5)"),
        ("saliency", "U(A,0.5)"),
    ):
        explanation = gf.explain(model, data, 2, method=method, neighborhood=near, samples=40, test_samples=60)
        explanation.seconds = 0.25  # a measured time would give another file on every run
        path = folder / f"{method}.safetensors"
        gf.save(explanation, path)
        found.append(Original(f"explanation by {method}", path.name, path.read_bytes(), _read_explanation))
    return found


def _read_explanation(path: Path) -> Any:
    again = path.with_name("again.safetensors")
    gf.save(gf.load(path), again)
    return again.read_bytes()


# What the studies keep --------------------------------------------------------------------------------------------

MARKS = {"format": 1, "seed": 0, "size": {"normal_days": 0.5}, "what": "deviation", "version": "0", "data": "0a1b"}
HEADER = {"experiment": "table1", "size": {"name": "quick", "thin": 10}, "graphfaith": "0", "format": 1}


def _of_studies(folder: Path) -> list[Original]:
    attacked = simulate(0.002, seed=1, attacks=Schedule.of([a for a in ATTACKS if a.number == 1], seed=0))
    write_csv(attacked, folder / "attack.csv")
    text = (folder / "attack.csv").read_text().splitlines(keepends=True)[:30]
    (folder / "attack.csv").write_text("".join(text))
    lines = [
        "attack,start,stop,tags",
        "1,2015-12-28T10:29:14,2015-12-28T10:44:53,MV101",
        "2,2015-12-28T10:51:08,2015-12-28T10:58:30,P102 P101",
    ]
    row = {"forecast_gain": 0.31, "alarms": [{"event": {"attack": 8, "accused": "P601"}, "found": {"kec": 0.25}}]}
    marked = {**row, "marks": MARKS}
    result = json.dumps({**marked, "checksum": checksum_of(json.dumps(marked))}) + "\n"
    with Journal(folder / "j.journal.jsonl", HEADER).load() as journal:
        for node in range(4):
            journal.add(f"cora/0/{node}/", {"kec": [0.125 * node, 3.5], "saliency": [1.0, None]}, 0.5)
    return [
        Original("recording .csv", "attack.csv", (folder / "attack.csv").read_bytes(), _read_recording, free=True),
        Original("recording .xlsx", "attack.xlsx", _make_workbook(text), _read_recording, free=True),
        Original("truth .csv", "truth.csv", ("\n".join(lines) + "\n").encode(), _read_truth, free=True),
        Original("checkpoint of a training", "forecaster.safetensors", _make_checkpoint(folder), _resume),
        Original("result of a study", "result.json", result.encode(), lambda path: study._read_result(path, MARKS)),
        Original(
            "journal of a run",
            "j.journal.jsonl",
            (folder / "j.journal.jsonl").read_bytes(),
            _read_journal,
            partial=True,
        ),
        *(
            Original(f"rows of {name}", f"{name}.json", (RESULTS / f"{name}.json").read_bytes(), _read_page, free=True)
            for name in ("illustration", "efficiency")
        ),
    ]


def _make_workbook(text: list[str]) -> bytes:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    for line in text:
        sheet.append([_cell(cell) for cell in line.rstrip("\n").split(",")])
    stream = io.BytesIO()
    book.save(stream)
    # The time at which it was made is taken out, so that every run damages the same bytes.
    plain = io.BytesIO()
    with zipfile.ZipFile(stream) as made, zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED) as fixed:
        for name in made.namelist():
            content = re.sub(rb"\d{4}-\d\d-\d\dT[0-9:]{8}Z", b"2020-01-01T00:00:00Z", made.read(name))
            fixed.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return plain.getvalue()


def _cell(cell: str) -> str | float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return cell


def _read_recording(path: Path) -> Any:
    recording = loader.load(SWAT, path, show=False)
    return [recording.times.tolist(), recording.readings.tolist(), recording.labels.tolist(), recording.gaps]


def _read_truth(path: Path) -> Any:
    return [repr(attack) for attack in truth.read_truth(SWAT, path)]


def _windows(count: int, seed: int) -> Windows:
    generator = torch.Generator().manual_seed(seed)
    return Windows(torch.arange(count), torch.rand(count, 51, SWAT.window, generator=generator))


def _train(epochs_before: int, path: Path) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        model = Forecaster(SWAT)
    plan = training.Plan(epochs=3, batch_size=8)
    stop = _Stop(epochs_before)
    try:
        errors = training.train(model, _windows(16, 0), _windows(8, 1), plan, path, each=stop)
    except InterruptedError:
        return None
    return [errors, _plain(dict(model.state_dict()))]


@dataclass
class _Stop:
    """Interrupts a training after a number of epochs."""

    after: int

    def __call__(self, epoch: int, share: float) -> None:  # noqa: ARG002
        if epoch == self.after:
            raise InterruptedError


def _make_checkpoint(folder: Path) -> bytes:
    path = folder / "forecaster.safetensors"
    _train(2, path)
    return path.read_bytes()


def _resume(path: Path) -> Any:
    return _train(0, path)


def _read_journal(path: Path) -> Any:
    with Journal(path, HEADER) as journal:
        journal.load()
        return {key: [journal.results[key], journal.seconds[key]] for key in journal.results}


def _read_page(path: Path) -> Any:
    """Make the page of the results; the description of the run beside them is undamaged."""
    shutil.copy(RESULTS / f"{path.stem}.run.json", path.with_name(f"{path.stem}.run.json"))
    results.page(path.parent, path.with_name("page.md"))
    return path.with_name("page.md").read_bytes()


# What the library keeps or has downloaded -------------------------------------------------------------------------


def _stored(folder: Path) -> list[Original]:
    _load_trained(folder)
    path = next((folder / "graphfaith" / "models").iterdir())
    found = [Original("stored trained model", path.name, path.read_bytes(), _read_trained)]
    given = os.environ.get("GRAPHFAITH_DATA")
    source = Path(given or cache_folder() / "planetoid") / FOLDERS["cora"] / "ind.cora.test.index"
    if source.is_file():
        found.append(Original(CORA, source.name, source.read_bytes(), _read_verified))
    return found


def _load_trained(cache_home: Path) -> Any:
    """Return the model of BA-Shapes after a training of two epochs, which is quick to repeat."""
    before, schedule = os.environ.get("XDG_CACHE_HOME"), models.schedule_for
    os.environ["XDG_CACHE_HOME"] = str(cache_home)
    models.schedule_for = lambda _: models.Schedule(2, 0.01, 0.0)
    try:
        fit = models.load_trained("ba-shapes")
    finally:
        models.schedule_for = schedule
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
    return [fit.test_accuracy, _plain(dict(fit.model.state_dict()))]


def _read_trained(path: Path) -> Any:
    with tempfile.TemporaryDirectory(dir=path.parent) as home:
        place = Path(home, "graphfaith", "models")
        place.mkdir(parents=True)
        shutil.copy(path, place / path.name)
        return _load_trained(Path(home))


def _read_verified(path: Path) -> Any:
    published = Published(path.name, "", "", SHA256[path.name], None)
    return published.check(path.read_bytes(), path, "replace it")


def _plain(values: dict[str, Any]) -> Any:
    return {
        key: (str(value.dtype), list(value.shape), value.double().numpy().tobytes())
        if isinstance(value, Tensor)
        else value
        for key, value in values.items()
    }
