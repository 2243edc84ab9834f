"""Graphs from disk: what a process that explains nodes of one holds, takes and reads, whatever the size of the graph.

    python benchmarks/packed.py --folder /some/disk/with/20/GB --page docs/scale.md
    python benchmarks/packed.py --folder /some/disk/with/20/GB --page docs/scale.md --degree 10 --methods anchored-kec

    python benchmarks/packed.py --from docs/runs/packed-5.json --page docs/scale.md    # measures nothing

makes a random graph of 10^4 and one of 10^7 nodes, each with five times as many edges and 128 features, as arrays
(``x.npy``, ``edge_index.npy``), packs both, and explains 200 random nodes of each at a time, in processes of their
own, which do what a worker of ``explain_many`` does: ``ManyJob.table``, rows and all. One has the files in the page
cache before it begins ("warm": they have been read once, and there is memory for them), another has none of them there
("cold": every page comes from the disk when it is first asked for). In both, no node was looked at before by the
process, so that each page is also one that the process has to map. Computation graphs of 200 random nodes overlap in
the small graph and not in the large one, where more entries of A are drawn and computed for each; so nodes are also
explained one by one, where nothing is shared in either, and 200 nodes of one neighbourhood together, whose computation
graphs overlap in both. With ``--power-law`` the ends of edges are drawn by a power law, so that there are hubs; as a
node's own computation graph is a sizeable part of such a graph, nodes with at most ``--reach`` entries in theirs are
explained. Private memory is what /proc/self/status calls RssAnon: pages of mapped files, which all processes share,
are not in it. (Not that of smaps_rollup: the system walks all mapped files to count it, in the time of the process.)
Times are processor times, the least of the repeats, with that of the system for pages that it has to fetch. All files
are removed at the end. ``--page`` writes a table between the markers of a page that are named by the degree, and, of
graphs with ten edges a node, what 10^9 nodes would take.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch.nn import Module

    from graphfaith.graph.packed import PackedGraph

FEATURES, NODES = 128, 200
PAGES, MOST_READ = 2000, 2 << 30  # that are read to see how fast the disk is
COMMAND, DEGREE_OF_PLAN = "python benchmarks/packed.py", 10
MACHINES, CORES = 64, 16  # of the plan for 10^9 nodes


def private() -> int:
    """Return the private memory of this process, in bytes."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon:"))


def bytes_read() -> int:
    """Return what this process has made the system read from disks, in bytes."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))


class Usage(NamedTuple):
    """What this process has taken so far: seconds of its own, of the system for it, and of the clock, and faults.

    A fault is a page of a mapped file that the process asks for the first time.
    """

    user: float
    system: float
    clock: float
    faults: int

    @classmethod
    def now(cls) -> Usage:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(used.ru_utime, used.ru_stime, time.monotonic(), used.ru_minflt + used.ru_majflt)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(one - before for one, before in zip(self, other, strict=True)))


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


def make_arrays(folder: Path, nodes: int, degree: int, power: float) -> None:
    """Write the features and edges of a random graph, piece by piece."""
    random, folder_edges = np.random.default_rng(0), nodes * degree
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


def choose_near(graph: PackedGraph, count: int, seed: int) -> list[int]:
    """Return a random node and the nodes that its messages come from, the nearest ones first."""
    start = np.load(graph.folder / "start.npy", mmap_mode="r")
    order = [int(np.random.default_rng(seed).integers(graph.num_nodes))]
    known, place = set(order), 0
    while len(order) < count and place < len(order):
        node, place = order[place], place + 1
        for source in graph.source[start[node] : start[node + 1]].tolist():
            if source not in known:
                known.add(source)
                order.append(source)
    return order[:count]


def set_cache(folder: str, state: str) -> None:
    """Read the files of a graph into the page cache, or drop them from it."""
    for path in Path(folder).iterdir():
        with open(path, "rb", buffering=0) as file:
            if state == "cold":
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while state == "warm" and file.read(1 << 24):
                pass


def load() -> Module:
    """Return the model, as a job asks for it."""
    import torch
    from torch_geometric.nn import GCN

    torch.manual_seed(0)
    return GCN(FEATURES, 16, 2, out_channels=4)


def explain(folder: str, method: str, state: str, nodes: str) -> dict[str, float]:
    """Explain nodes of a packed graph that is "warm" or "cold", and return what that took and read."""
    import graphfaith as gf
    from graphfaith._base.heap import keep_free_memory
    from graphfaith._base.threads import use_one_thread
    from graphfaith.graph.computation_graph import ComputationGraph
    from graphfaith.many.extra import import_extra

    # As workers do: the threads of a BLAS would wait for each other by spinning, and freed memory is kept.
    use_one_thread()
    keep_free_memory()
    import_extra("pyarrow")
    # The run's own look at the model has found out what its output means, before workers begin.
    task = {"mode": "multiclass_classification", "return_type": "raw"}
    job = gf.ManyJob(folder, "packed:load", method=method, samples=200, folder=str(Path(__file__).parent), **task)
    start = time.process_time()
    opened = job.open()
    ready = time.process_time() - start
    chosen = json.loads(Path(nodes).read_text())
    set_cache(folder, state)
    start, before, read = time.process_time(), private(), bytes_read()
    with Peak() as proof:
        job.table(chosen["alone"][:1])
    first, first_read = time.process_time() - start, bytes_read() - read
    found: dict[str, float] = {}
    graph, hops = opened.graph, opened.explainer.algorithm.num_hops or 2
    with Peak() as peak:
        for kind in ("random", "near"):
            took, read = [], bytes_read()
            for some in chosen[kind]:
                before_it = Usage.now()
                job.table(some)
                took.append(Usage.now() - before_it)
            read = bytes_read() - read
            least = min(took, key=lambda one: one.user + one.system)
            joint = ComputationGraph.around(graph, np.sort(chosen[kind][0]), hops)
            found |= {
                f"{kind}_ms_a_node": 1000 * (least.user + least.system) / NODES,
                f"{kind}_system_ms_a_node": 1000 * least.system / NODES,
                f"{kind}_faults_a_node": least.faults / NODES,
                f"{kind}_entries_a_node": joint.num_edges / NODES,
                f"{kind}_read_kb_a_node": read / 1024 / NODES / len(chosen[kind]),
            }
        alone: list[float] = []
        for node in chosen["alone"][1:]:
            start = time.process_time()
            job.table([node])
            alone.append(time.process_time() - start)
    return {
        "open_seconds": ready,
        "first_seconds": first,
        "first_bytes": proof.most - before,
        "first_kb_read": first_read / 1024,
        "alone_ms": 1000 * float(np.median(alone)),
        "private_bytes": peak.most,
        **found,
    }


def measure_disk(folder: Path) -> dict[str, float]:
    """Return how fast a file of a graph is read that the page cache has not: from end to end, and page by page."""
    path, page = folder / "x.npy", 4096
    size = path.stat().st_size
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # The system does not read ahead.
        places = np.random.default_rng(2).permutation(size // page)[:PAGES].tolist()
        began = time.monotonic()
        for place in places:
            os.pread(file.fileno(), page, place * page)
        pages = len(places) / (time.monotonic() - began)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        began, done = time.monotonic(), 0
        while done < MOST_READ and (piece := file.read(1 << 24)):
            done += len(piece)
        return {"pages_a_second": pages, "bytes_a_second": done / (time.monotonic() - began)}


def sections_of(document: dict[str, Any]) -> dict[str, str]:
    """Return the tables of a page, by the names of their places, from what ``--json`` has written."""
    degree, found = document["degree"], document["found"]
    sections = {f"degree-{degree}": table_of(document)}
    if degree == DEGREE_OF_PLAN and "anchored-kec" in document["methods"]:
        sections["plan"] = plan_of(found, document["nodes"][-1], degree)
    else:
        sections[f"misses-{degree}"] = misses_of(document)
    return sections


def misses_of(document: dict[str, Any]) -> str:
    """Return which figures of the largest graph miss their bars, warm and cold, in words."""
    found, methods = document["found"], document["methods"]
    few, many = document["nodes"][0], document["nodes"][-1]
    lines = []
    for state in ("warm", "cold"):
        missed, times = [], []
        for method in methods:
            small, large = found[f"{method} {few} warm"], found[f"{method} {many} {state}"]
            memory = large["private_bytes"] / small["private_bytes"]
            ready = large["open_seconds"] + large["first_seconds"]
            missed += [f"{method}'s memory ({memory:.2f} times)"] if memory > BARS["memory"] else []
            missed += [f"{method}'s first node ({ready:.1f} s)"] if ready > BARS["ready"] else []
            for name, what in OF_A_NODE.items():
                ratio = large[name] / small[name]
                times.append(ratio)
                missed += [f"{method}'s time of {what} ({ratio:.2f} times)"] if ratio > BARS["node"] else []
        span = f"a node takes {min(times):.2f} to {max(times):.2f} times as long as in the small graph, which is warm"
        lines.append(f"- {state.capitalize()}, {span}. Missed: {', '.join(missed) or 'nothing'}.")
    return "\n".join(lines) + "\n"


def table_of(document: dict[str, Any]) -> str:
    """Return the figures of the smallest and the largest graph as a table, with what was run and where."""
    found, methods = document["found"], document["methods"]
    few, many = document["nodes"][0], document["nodes"][-1]
    lines = [
        f"| | {few:,} nodes, warm | {many:,} nodes, warm | ratio | cold | ratio |",
        "|---|---|---|---|---|---|",
    ]
    rows = (
        ("opening graph and model", "open_seconds", "{:.3f} s", 1),
        ("first node, with all that is found out of the model", "first_seconds", "{:.2f} s", 1),
        ("a node by itself", "alone_ms", "{:.1f} ms", 1),
        ("a node, 200 random ones together", "random_ms_a_node", "{:.2f} ms", 1),
        ("a node, 200 of one neighbourhood together", "near_ms_a_node", "{:.2f} ms", 1),
        ("private memory at most", "private_bytes", "{:.0f} MB", 1e-6),
        ("entries of A a node, 200 random ones together", "random_entries_a_node", "{:.0f}", 1),
        ("entries of A a node, 200 of one neighbourhood", "near_entries_a_node", "{:.0f}", 1),
    )
    for method in methods:
        which = ((few, "warm"), (many, "warm"), (many, "cold"))
        small, warm, cold = (found[f"{method} {count} {state}"] for count, state in which)
        for what, name, text, unit in rows:
            cells = [text.format(unit * one[name]) for one in (small, warm, cold)]
            ratios = [f"{one[name] / small[name]:.2f}" for one in (warm, cold)]
            lines.append(f"| {method}: {what} | {cells[0]} | {cells[1]} | {ratios[0]} | {cells[2]} | {ratios[1]} |")
        each, first = f"{cold['random_read_kb_a_node']:.0f} kB", f"{cold['first_kb_read'] / 1024:.0f} MB"
        lines.append(f"| {method}: read from the disk for a node, 200 random ones together | | | | {each} | |")
        lines.append(f"| {method}: read from the disk until the first node is explained | | | | {first} | |")
    pack, disk = found[f"pack {many}"], found["disk"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines += [
        "",
        f"Packing the large graph took {pack['seconds']:.0f} s of processor time and {pack['private_bytes'] / 1e6:.0f} "
        f"MB of private memory at most, {pack['own_bytes'] / 1e6:.0f} of them for packing. The disk read "
        f"{disk['bytes_a_second'] / 1e6:,.0f} MB/s from end to end, and {disk['pages_a_second']:,.0f} pages of 4 kB a "
        f"second here and there, one at a time. Made by `{document['made_by']}`, load {document['load']:.1f} at the "
        f"end on {document['cores']} cores, {versions}.",
    ]
    return "\n".join(lines) + "\n"


def plan_of(found: dict[str, dict[str, float]], nodes: int, degree: int) -> str:
    """Return the table of what 10^9 nodes with so many edges each would take: a hundredth of that was measured."""
    warm, cold = (found[f"anchored-kec {nodes} {state}"] for state in ("warm", "cold"))
    ms = [one["random_ms_a_node"] for one in (warm, cold)]
    hours, cores, disk = [1e9 * one / 3.6e6 for one in ms], MACHINES * CORES, found["disk"]
    # Features in single precision and two starts; of an edge a pair of 8 bytes each, a sink of 4 and a slot of 8.
    copied, read = 1e9 * (4 * FEATURES + 16 + degree * 28), 1e9 * 1024 * cold["random_read_kb_a_node"]
    each = read / MACHINES
    fetching = each / 4096 / disk["pages_a_second"] / 3600
    rows = {
        "ms of processor time a node, AnchoredKEC, warm; cold": f"{ms[0]:.1f}; {ms[1]:.1f}",
        "core-hours, warm; cold": f"{hours[0]:,.0f}; {hours[1]:,.0f}",
        f"on {MACHINES} machines of {CORES} cores, warm; cold": f"{hours[0] / cores:.1f}; {hours[1] / cores:.1f} hours",
        "a copy of the graph on each machine, without weights": f"{copied / 1e9:,.0f} GB",
        "to read a copy from end to end at this disk's rate": f"{copied / disk['bytes_a_second'] / 3600:.1f} hours",
        "read here and there, if every page comes from a disk": f"{read / 1e12:,.0f} TB, {each / 1e12:.1f} a machine",
        "to read that at this disk's rate, a page at a time": f"{fetching:,.1f} hours",
    }
    title = f"10^9 explanations, {degree} edges a node: {warm['random_entries_a_node']:,.0f} entries of A each"
    return "\n".join([f"| {title} | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows.items())]) + "\n"


def filled(content: str, texts: dict[str, str]) -> str:
    """Return a page with each section between its markers, and the rest as it is."""
    for name, text in texts.items():
        begin, end = f"<!-- packed: {name} -->\n", "<!-- end -->"
        head, mark, tail = content.partition(begin)
        if not mark or end not in tail:
            raise SystemExit(f"the page must mark a place by {begin.strip()} and {end}")
        content = f"{head}{begin}{text}{end}{tail.partition(end)[2]}"
    return content


def write_page(path: Path, document: dict[str, Any]) -> None:
    """Put the sections of a run into a page."""
    path.write_text(filled(path.read_text(encoding="utf-8"), sections_of(document)), encoding="utf-8")


def run(*arguments: object) -> dict[str, float]:
    """Run a part of this file in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def merge(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Return the least times of two processes, and the most of everything else."""
    return {
        name: (min if "seconds" in name or "ms" in name.split("_") else max)(value, other[name])
        for name, value in one.items()
    }


# The aims: private memory and the time of a node as ratios to the small graph, and seconds until the first node.
BARS = {"memory": 1.2, "ready": 1.0, "node": 1.3}
OF_A_NODE = {
    "alone_ms": "a node by itself",
    "random_ms_a_node": "200 random nodes together",
    "near_ms_a_node": "200 nodes of one neighbourhood",
}


def main() -> None:
    """Make, pack and explain both graphs, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="where to write the graphs")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**4, 10**7])
    parser.add_argument("--degree", type=int, default=5, help="edges for each node")
    parser.add_argument("--memory", default="500 MB", help="for packing")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--rounds", type=int, default=1, help="processes for each graph, in turns: the least time counts"
    )
    parser.add_argument("--states", nargs="+", choices=("warm", "cold"), default=["warm", "cold"])
    parser.add_argument("--power-law", type=float, default=0.0, metavar="POWER", help="of the degrees, 0.8 for example")
    parser.add_argument("--reach", type=int, default=20_000, help="nodes and edges that explained nodes may depend on")
    parser.add_argument("--methods", nargs="+", default=["kec", "anchored-kec"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="also write the tables into this page")
    parser.add_argument("--from", type=Path, dest="source", help="measure nothing, show what --json has written")
    given = parser.parse_args()
    if given.source is not None:
        document = json.loads(given.source.read_text(encoding="utf-8"))
        print("\n".join(sections_of(document).values()))
        if given.page is not None:
            write_page(given.page, document)
        return
    place = Path(tempfile.mkdtemp(prefix="packed-", dir=given.folder))
    found: dict[str, dict[str, float]] = {}
    try:
        for nodes in given.nodes:
            make_arrays(place / f"arrays-{nodes}", nodes, given.degree, given.power_law)
            packed = place / f"packed-{nodes}"
            took = run("pack", place / f"arrays-{nodes}", packed, given.memory)
            shutil.rmtree(place / f"arrays-{nodes}")
            found[f"pack {nodes}"] = took
            sets = place / f"nodes-{nodes}.json"
            run("choose", packed, given.repeats, given.reach, sets)
            print(
                f"{nodes:>9} nodes packed: {took['seconds']:.1f} s, private memory at most "
                f"{took['private_bytes'] / 1e6:.0f} MB, {took['own_bytes'] / 1e6:.0f} of them for packing",
                flush=True,
            )
        for method in given.methods:
            run("explain", packed, method, "warm", sets)  # compiles what is not compiled yet
            for _, nodes, state in itertools.product(range(given.rounds), given.nodes, given.states):
                options = method, state, place / f"nodes-{nodes}.json"
                took, name = run("explain", place / f"packed-{nodes}", *options), f"{method} {nodes} {state}"
                found[name] = merge(found.get(name, took), took)
            for nodes, state in itertools.product(given.nodes, given.states):
                took = found[f"{method} {nodes} {state}"]
                print(
                    f"{nodes:>9} nodes, {method}, {state}: open {took['open_seconds']:.3f} s, first node "
                    f"{took['first_seconds']:.2f} s, {took['first_bytes'] / 1e6:.0f} MB and "
                    f"{took['first_kb_read']:.0f} kB read, one by one {took['alone_ms']:.2f} ms at the median, "
                    f"together {took['random_ms_a_node']:.2f} ms ({took['random_system_ms_a_node']:.2f} of the system "
                    f"for {took['random_faults_a_node']:.0f} faults), {took['random_entries_a_node']:.0f} entries of A "
                    f"and {took['random_read_kb_a_node']:.0f} kB read a node, of one neighbourhood "
                    f"{took['near_ms_a_node']:.2f} ms and {took['near_entries_a_node']:.0f} entries, "
                    f"private {took['private_bytes'] / 1e6:.0f} MB",
                    flush=True,
                )
            # The last graph is compared with each of the others: in the smallest one computation graphs overlap.
            for fewer, state in itertools.product(given.nodes[:-1], given.states):
                few, many = found[f"{method} {fewer} {given.states[0]}"], found[f"{method} {given.nodes[-1]} {state}"]
                names = "private_bytes", "alone_ms", "random_ms_a_node", "random_entries_a_node"
                memory, one, time_each, entries = (many[name] / few[name] for name in names)
                near, near_entries = (many[name] / few[name] for name in ("near_ms_a_node", "near_entries_a_node"))
                print(
                    f"{method}, {given.nodes[-1]} nodes {state} / {fewer} {given.states[0]}: private memory "
                    f"{memory:.2f}, time of a node one by one {one:.2f}, together {time_each:.2f} times, where it has "
                    f"{entries:.2f} times the entries of A; of one neighbourhood {near:.2f} times, where it has "
                    f"{near_entries:.2f} times the entries"
                )
        found["disk"] = measure_disk(place / f"packed-{given.nodes[-1]}")
        disk = found["disk"]
        print(f"disk: {disk['bytes_a_second'] / 1e6:.0f} MB/s, {disk['pages_a_second']:.0f} pages a second")
    finally:
        shutil.rmtree(place)
    options = [word for word in sys.argv[1:] if word not in ("--folder", str(given.folder))]
    document = {
        "made_by": f"{COMMAND} {shlex.join(options)}",
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "versions": {name: metadata.version(name) for name in ("graphfaith", "torch")},
        **{name: getattr(given, name) for name in ("nodes", "degree", "methods")},
        "found": found,
    }
    if given.json is not None:
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if given.page is not None:
        write_page(given.page, document)


if __name__ == "__main__":
    command, *words = sys.argv[1:] or [""]
    if command == "pack":
        print(json.dumps(pack(*words)))
    elif command == "choose":
        from graphfaith import open_graph

        graph, repeats, reach = open_graph(words[0]), *map(int, words[1:3])
        chosen = choose_nodes(graph, (repeats + 1) * NODES, reach)
        sets = {
            "random": [chosen[i :: repeats + 1] for i in range(repeats)],
            "alone": chosen[repeats :: repeats + 1],
            "near": [choose_near(graph, NODES, seed) for seed in range(repeats)],
        }
        Path(words[3]).write_text(json.dumps(sets))
        print("{}")
    elif command == "explain":
        print(json.dumps(explain(*words)))
    else:
        main()
