"""Graphs from disk: what a process that explains nodes of one holds, takes and reads, whatever the size of the graph.

    python benchmarks/packed.py --folder /some/disk/with/20/GB

makes a random graph of 10^4 and one of 10^7 nodes, each with five times as many edges and 128 features, as arrays
(``x.npy``, ``edge_index.npy``), packs both, and explains 200 random nodes of each in a process of its own. With
``--power-law`` the ends of edges are drawn by a power law, so that there are hubs; as a node's own computation graph
is a sizeable part of such a graph, nodes with at most ``--reach`` entries in theirs are explained. Private
memory is what /proc/self/smaps_rollup calls Anonymous: pages of mapped files, which all processes share, are not in it.
Times are processor times, the least of the repeats, with that of the system for pages that it has to fetch. All files
are removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from graphfaith.graph.packed import PackedGraph

FEATURES, DEGREE, NODES = 128, 5, 200


def private() -> int:
    """Return the private memory of this process, in bytes."""
    with open("/proc/self/smaps_rollup") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


def bytes_read() -> int:
    """Return what this process has made the system read from disks, in bytes."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))


class Peak:
    """The most private memory of this process while it is measured."""

    def __enter__(self) -> Peak:
        self.most, self._stop = private(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.most = max(self.most, private())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def draw_ends(random: np.random.Generator, nodes: int, count: int, power: float) -> np.ndarray:
    """Return random nodes; with a power above 0, node i is drawn about as often as (i + 1)^-power says."""
    if not power:
        return random.integers(0, nodes, count)
    # The inverse of the distribution's integral; ids are scattered, so that hubs are anywhere.
    rank = (1 + random.random(count) * (nodes ** (1 - power) - 1)) ** (1 / (1 - power)) - 1
    return rank.astype(np.int64) * 2_654_435_761 % nodes


def make_arrays(folder: Path, nodes: int, power: float) -> None:
    """Write the features and edges of a random graph, piece by piece."""
    random, folder_edges = np.random.default_rng(0), nodes * DEGREE
    folder.mkdir()
    with open(folder / "x.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (nodes, FEATURES)}
        np.lib.format.write_array_header_1_0(file, header)
        for first in range(0, nodes, 1 << 17):
            file.write(random.random((min(nodes - first, 1 << 17), FEATURES), dtype=np.float32).data)
    index = np.lib.format.open_memmap(folder / "edge_index.npy", "w+", np.int64, (2, folder_edges))
    for first in range(0, folder_edges, 1 << 21):
        some = slice(first, min(folder_edges, first + (1 << 21)))
        first_end, second_end = (draw_ends(random, nodes, some.stop - some.start, power) for _ in range(2))
        index[0, some], index[1, some] = (
            first_end,
            np.where(first_end == second_end, (first_end + 1) % nodes, second_end),
        )
    index.flush()


def pack(arrays: str, folder: str, memory: str) -> dict[str, float]:
    """Pack a graph, and return how much memory and time that took."""
    from graphfaith.data.edge_lists import open_arrays
    from graphfaith.graph.packing import write_graph

    before, start = private(), time.process_time()
    with Peak() as peak:
        write_graph(folder, *open_arrays(arrays), max_memory=memory)
    return {"seconds": time.process_time() - start, "own_bytes": peak.most - before, "private_bytes": peak.most}


def choose_nodes(graph: PackedGraph, count: int, reach: int) -> list[int]:
    """Return random nodes whose computation graphs for two hops have at most ``reach`` nodes and edges."""
    from graphfaith.graph.parts import Parts

    random, chosen = np.random.default_rng(1), {}
    while len(chosen) < count:
        node = int(random.integers(graph.num_nodes))
        if len(Parts.around(graph, [node], 2, largest=reach)):
            chosen[node] = True
    return list(chosen)


def explain(folder: str, method: str, repeats: int, reach: int) -> dict[str, float]:
    """Explain random nodes of a packed graph, and return what that took and read."""
    import torch
    from torch_geometric.explain import Explainer
    from torch_geometric.nn import GCN

    import graphfaith as gf

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GCN(FEATURES, 16, 2, out_channels=4).eval()
    algorithm = {"kec": gf.KEC, "anchored-kec": gf.AnchoredKEC}[method]("U(A,0.5)", num_samples=200)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    start = time.process_time()
    graph = gf.open_graph(folder)
    explainer = Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type="object",
        edge_mask_type="object",
        model_config=config,
    )
    opened = time.process_time() - start
    chosen = np.reshape(choose_nodes(graph, (repeats + 1) * NODES, reach), (repeats + 1, NODES)).tolist()
    for name in graph.about["files"]:  # so that what follows reads from the disk
        with open(graph.folder / f"{name}.npy", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start, before = time.process_time(), private()
    with Peak() as proof:
        gf.explain_all(explainer, graph, nodes=chosen[0][:1], progress=False)
    first = time.process_time() - start
    read, cold, warm = bytes_read(), [], []
    with Peak() as peak:
        for number, nodes in enumerate(chosen):
            for kept in (cold, warm):  # The second time, all that is read of the files is in memory.
                start = time.process_time()
                gf.explain_all(explainer, graph, nodes=nodes, progress=False)
                kept.append(time.process_time() - start)
                if number == 0 and kept is cold:
                    read = bytes_read() - read
    return {
        "open_seconds": opened,
        "first_seconds": first,
        "first_bytes": proof.most - before,
        "ms_a_node": 1000 * min(warm) / NODES,
        "cold_ms_a_node": 1000 * min(cold) / NODES,
        "private_bytes": peak.most,
        "read_kb_a_node": read / 1024 / NODES,
    }


def run(*arguments: object) -> dict[str, float]:
    """Run a part of this file in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    """Make, pack and explain both graphs, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="where to write the graphs")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**4, 10**7])
    parser.add_argument("--memory", default="500 MB", help="for packing")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--power-law", type=float, default=0.0, metavar="POWER", help="of the degrees, 0.8 for example")
    parser.add_argument("--reach", type=int, default=20_000, help="nodes and edges that explained nodes may depend on")
    parser.add_argument("--methods", nargs="+", default=["kec", "anchored-kec"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="packed-", dir=given.folder))
    found: dict[str, dict[str, float]] = {}
    try:
        for nodes in given.nodes:
            make_arrays(place / f"arrays-{nodes}", nodes, given.power_law)
            packed = place / f"packed-{nodes}"
            took = run("pack", place / f"arrays-{nodes}", packed, given.memory)
            shutil.rmtree(place / f"arrays-{nodes}")
            found[f"pack {nodes}"] = took
            print(
                f"{nodes:>9} nodes packed: {took['seconds']:.1f} s, private memory at most "
                f"{took['private_bytes'] / 1e6:.0f} MB, {took['own_bytes'] / 1e6:.0f} of them for packing",
                flush=True,
            )
        for method in given.methods:
            run("explain", packed, method, 1, given.reach)  # compiles what is not compiled yet
            for nodes in given.nodes:
                options = method, given.repeats, given.reach
                took = found[f"{method} {nodes}"] = run("explain", place / f"packed-{nodes}", *options)
                print(
                    f"{nodes:>9} nodes, {method}: open {took['open_seconds']:.3f} s, first node "
                    f"{took['first_seconds']:.2f} s and {took['first_bytes'] / 1e6:.0f} MB, "
                    f"{took['ms_a_node']:.2f} ms a node "
                    f"({took['cold_ms_a_node']:.2f} when they are first read), private "
                    f"{took['private_bytes'] / 1e6:.0f} MB, {took['read_kb_a_node']:.0f} kB read a node",
                    flush=True,
                )
            few, many = (found[f"{method} {nodes}"] for nodes in (given.nodes[0], given.nodes[-1]))
            ratios = {name: many[name] / few[name] for name in ("private_bytes", "ms_a_node")}
            print(
                f"{method}: private memory {ratios['private_bytes']:.2f}, time a node {ratios['ms_a_node']:.2f} times"
            )
    finally:
        shutil.rmtree(place)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["pack"]:
        print(json.dumps(pack(*sys.argv[2:5])))
    elif sys.argv[1:2] == ["explain"]:
        print(json.dumps(explain(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:6]))))
    else:
        main()
