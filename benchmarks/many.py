"""What a run over many nodes costs beside the explanations: workers, rows, files, Ray.

    python benchmarks/many.py [--quick] [--turns 5] [--engine local --engine ray] [--json docs/runs/many.json]
    python benchmarks/many.py --from docs/runs/many.json --page docs/scale.md    # measures nothing, writes the tables

All nodes of Cora with AnchoredKEC, in blocks, by one process, by two workers of each engine, in turns. Engines are
started before, and every worker has done a block, so that starting is measured apart. --page writes the tables between
the markers of a page; a test compares the page with the file. It takes about six minutes on two idle cores; ratios of a
busy machine say little.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import platform
import re
import statistics
import tempfile
import time
from importlib import metadata
from pathlib import Path

import graphfaith as gf
from graphfaith._base.files import write_file
from graphfaith._base.heap import keep_free_memory
from graphfaith._base.threads import use_one_thread
from graphfaith.many import job as job_module
from graphfaith.many.engines import ENGINES, open_engine
from graphfaith.many.folder import RunFolder
from graphfaith.many.nodes import choose_nodes
from graphfaith.many.parts import DRAFTS, PARTS
from graphfaith.many.plan import Plan
from graphfaith.many.work import Outcome, Task, do

WORKERS = PASSES = 2  # a turn does every block as often as there are workers
BLOCK, QUICK = 170, 60  # nodes of a block: sixteen blocks of Cora, so that two workers end together
BARS = {"two workers": 1.8, "processor": 1.1, "rows and files": 0.05, "bytes": 1500}
NODES = 10**9  # of the plan
SHARES, HUBS = ((0.45, 0.55), (0.9, 0.95), (0.99, 1.0)), 100  # of nodes, by the size of their computation graphs
_MARKED = re.compile(r"<!-- many: ([a-z-]+) -->\n(.*?)<!-- end -->", re.DOTALL)


class Stopwatch:
    """The processor time that is spent in a function."""

    def __init__(self, function):
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments, **words):
        began = time.process_time()
        try:
            return self.function(*arguments, **words)
        finally:
            self.seconds += time.process_time() - began


def run_alone(job, tasks):
    """Do tasks in this process; returns seconds, processor seconds, those of the files, and those of the rows."""
    rows = Stopwatch(job_module.rows_of)
    job_module.rows_of = rows
    try:
        began = time.monotonic()
        outcomes = [do(job, job.digests(), task) for task in tasks]
        seconds = time.monotonic() - began
    finally:
        job_module.rows_of = rows.function
    return seconds, sum(one.processor for one in outcomes), sum(one.writing for one in outcomes), rows.seconds


def run_on(engine, tasks):
    """Do tasks on an engine; returns seconds and processor seconds."""
    left, under_way, used = list(tasks), 0, 0.0
    began = time.monotonic()
    while left or under_way:
        while left and engine.has_room():
            engine.submit(left.pop(0))
            under_way += 1
        _, outcome = engine.wait()
        assert isinstance(outcome, Outcome)
        used += outcome.processor
        under_way -= 1
    return time.monotonic() - began, used


def work_apart(pipe, job, tasks):
    """Do tasks whenever the pipe asks, knowing nothing of an engine or of the process beside."""
    use_one_thread()
    keep_free_memory()  # as workers do
    run_alone(job, tasks[:1])
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while pipe.recv():
            run_alone(job, tasks)
            pipe.send("done")


class Apart:
    """Processes that each do all tasks, without an engine: what two processors of this machine can give."""

    def __init__(self, job, tasks):
        context = multiprocessing.get_context("spawn")
        self.pipes = []
        for number in range(WORKERS):
            ours, theirs = context.Pipe()
            context.Process(target=work_apart, args=(theirs, job, tasks[:: 1 - 2 * number]), daemon=True).start()
            self.pipes.append(ours)
        self.wait()

    def wait(self):
        for pipe in self.pipes:
            pipe.recv()

    def run(self):
        """Return the seconds until each has done all tasks; one goes backwards, so that they seldom write one file."""
        began = time.monotonic()
        for pipe in self.pipes:
            pipe.send(True)
        self.wait()
        return time.monotonic() - began


def warm(engine, tasks):
    """Let every worker do a block: a worker that is busy leaves the next one to another."""
    run_on(engine, tasks[: 2 * WORKERS])


def memory_below(pid):
    """Return the bytes of all processes that a process has started, shared ones divided among those that share them."""
    parents, total = {}, 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    for one in parents:
        above = one
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and one != pid:
            with contextlib.suppress(OSError):
                found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{one}/smaps_rollup").read_text(), re.MULTILINE)
                total += 1024 * int(found[1]) if found else 0
    return total


def measure_hubs(job, tasks):
    """Return what nodes cost by the size of their computation graphs: how many, entries of A, milliseconds a node."""
    tables = [job.table(task.ids).select(["node", "edges_total"]).to_pydict() for task in tasks]
    sizes = sorted((size, node) for one in tables for node, size in zip(one["node"], one["edges_total"], strict=True))
    found = []
    for low, high in SHARES:
        chosen = sizes[int(low * len(sizes)) : int(high * len(sizes))][:HUBS]
        began = time.process_time()
        job.table([node for _, node in chosen])
        used = time.process_time() - began
        found.append((low, high, sum(size for size, _ in chosen) / len(chosen), 1000 * used / len(chosen)))
    return found


def measure(engines, turns, quick):
    """Return all figures."""
    use_one_thread()
    keep_free_memory()  # as workers do
    job = gf.ManyJob("cora", method="anchored-kec")
    nodes = choose_nodes("0:600" if quick else "all", job.num_nodes)
    plan = Plan.of(job, nodes, QUICK if quick else BLOCK)
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        folder = RunFolder(Path(root), plan)
        for name in (PARTS, DRAFTS):
            (folder.path / name).mkdir()
        tasks = [Task(folder.part(number), plan.ids(number)) for number in range(plan.num_blocks)]
        run_alone(job, tasks[:1])
        started, opened = {}, {}
        for name in engines:
            before, began = memory_below(os.getpid()), time.monotonic()
            opened[name] = stack.enter_context(open_engine(name, job, plan.digests, WORKERS, None))
            ready = time.monotonic() - began
            empty = memory_below(os.getpid()) - before
            warm(opened[name], tasks)
            started[name] = {
                "start_seconds": ready,
                "start_bytes": empty,
                "ready_seconds": time.monotonic() - began,
                "working_bytes": memory_below(os.getpid()) - before,
            }
        apart = Apart(job, tasks)
        alone, ceiling, shared = [], [], {name: [] for name in engines}
        for _ in range(turns):
            # A worker that has no block left waits for the other at the end, which is a few percent of 16 blocks, and
            # nothing of the hundreds that a long run has. Twice as many blocks halve it.
            alone.append(run_alone(job, PASSES * tasks))
            ceiling.append(apart.run())
            for name in engines:
                shared[name].append(run_on(opened[name], PASSES * tasks))
        size = sum(path.stat().st_size for path in (folder.path / PARTS).iterdir())
        hubs = measure_hubs(job, tasks)
    count, done = len(nodes), PASSES * len(nodes)
    best = min(alone, key=lambda one: one[1])
    return {
        "machine": {
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "python": platform.python_version(),
            "versions": {name: metadata.version(name) for name in ("graphfaith", "torch", "pyarrow", "ray")},
        },
        "samples": job.samples,
        "nodes": count,
        "block": plan.block,
        "turns": turns,
        "milliseconds": 1000 * min(one[0] for one in alone) / done,
        "processor_ms": 1000 * best[1] / done,
        "writing_share": best[2] / best[1],
        "rows_share": best[3] / best[1],
        "bytes": size / count,
        "ceiling": statistics.median(one[0] / two for one, two in zip(alone, ceiling, strict=True)),
        "hubs": hubs,
        "engines": {
            name: {
                # Ratios of one turn, because a busy machine is busy for both.
                "speedup": statistics.median(one[0] / two[0] for one, two in zip(alone, shared[name], strict=True)),
                "speedups": [one[0] / two[0] for one, two in zip(alone, shared[name], strict=True)],
                "processor_ratio": min(two[1] for two in shared[name]) / best[1],
                **started[name],
            }
            for name in engines
        },
    }


def figures(found):
    """Return the table of figures against their bars."""
    lines = ["| figure | bar | value | reached |", "|---|---|---|---|"]

    def add(name, bar, value, text, reached):
        lines.append(f"| {name} | {bar} | {text.format(value)} | {'yes' if reached else 'no'} |")

    for name, one in found["engines"].items():
        bar, value = BARS["two workers"], one["speedup"]
        add(f"{WORKERS} workers / one process, start excluded, {name}", f">= {bar}", value, "{:.2f}", value >= bar)
        bar, value = BARS["processor"], one["processor_ratio"]
        add(f"processor time a node / of one process, {name}", f"<= {bar}", value, "{:.2f}", value <= bar)
    lines.append(f"| {WORKERS} processes without an engine / one process | - | {found['ceiling']:.2f} | - |")
    bar, value = BARS["rows and files"], found["rows_share"] + found["writing_share"]
    add("rows and Parquet, share of the time", f"<= {bar:.0%}", 100 * value, "{:.1f} %", value <= bar)
    add("bytes an explanation", f"<= {BARS['bytes']:,}", found["bytes"], "{:,.0f}", found["bytes"] <= BARS["bytes"])
    return "\n".join(lines) + "\n"


def message(found):
    """Return in a sentence how much more two workers do than one process."""
    said = [f"{one['speedup']:.2f} times ({name})" for name, one in found["engines"].items()]
    return f"Two workers do the work of one process {' and '.join(said)}; {BARS['two workers']} was asked for.\n"


def costs(found):
    """Return the table of what it takes to start."""
    lines = ["| engine | started after | every worker has done a block after | memory, started | memory, working |"]
    lines += ["|---|---|---|---|---|"]
    for name, one in found["engines"].items():
        times = f"{one['start_seconds']:.1f} s | {one['ready_seconds']:.1f} s"
        lines.append(f"| {name} | {times} | {one['start_bytes'] / 1e6:.0f} MB | {one['working_bytes'] / 1e6:.0f} MB |")
    return "\n".join(lines) + "\n"


def machine(found):
    """Return a line about the run."""
    on = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in on["versions"].items())
    return (
        f"{found['nodes']:,} nodes of Cora, AnchoredKEC with {found['samples']} samples, blocks of "
        f"{found['block']}: {found['processor_ms']:.2f} ms of processor time a node, {found['turns']} turns on "
        f"{on['cores']} cores, load {on['load']:.1f} at the end; python {on['python']}, {versions}.\n"
    )


def turns(found):
    """Return what the turns gave, which says how far a figure near its bar is to be trusted."""
    lines = []
    for name, one in found["engines"].items():
        low, high, bar = min(one["speedups"]), max(one["speedups"]), BARS["two workers"]
        verdict = "reaches" if one["speedup"] >= bar else f"misses by {bar - one['speedup']:.2f}"
        lines.append(f"- {name} {verdict} its bar of {bar}; the {found['turns']} turns gave {low:.2f} to {high:.2f}.")
    lines.append(
        f"- Two bare processes that share nothing and have no engine, in the same turns, were {found['ceiling']:.2f} "
        "times as fast as one: with both processors busy each is slower than one alone."
    )
    return "\n".join(lines) + "\n"


def hubs(found):
    """Return the table of what large computation graphs cost."""
    lines = [
        "| nodes by the size of their computation graph | entries of A | ms of processor time a node |",
        "|---|---|---|",
    ]
    for low, high, size, milliseconds in found["hubs"]:
        lines.append(f"| {low:.0%} to {high:.0%} | {size:,.0f} | {milliseconds:.1f} |")
    return "\n".join(lines) + "\n"


def plan(found):
    """Return the table of what 10^9 nodes take at this rate."""
    hours, rows = NODES * found["processor_ms"] / 3.6e6, NODES * found["bytes"]
    lines = ["| 10^9 explanations like those of Cora | |", "|---|---|"]
    lines.append(f"| core-hours | {hours:,.0f} |")
    lines += [f"| on {cores:,} cores | {hours / cores:,.1f} hours |" for cores in (1024,)]
    lines.append(f"| Parquet | {rows / 1e12:.2f} TB in {math.ceil(NODES / 2000):,} parts of 2,000 rows |")
    return "\n".join(lines) + "\n"


SECTIONS = {
    "message": message,
    "machine": machine,
    "figures": figures,
    "costs": costs,
    "turns": turns,
    "hubs": hubs,
    "plan": plan,
}


def filled(content, texts):
    """Return a page with each section between its markers, and the rest of it as it is."""
    marked = {name for name, _ in _MARKED.findall(content)}
    if not marked <= set(texts) or not marked:
        raise SystemExit(
            f"a page must mark places by <!-- many: figures --> and <!-- end --> (it has {sorted(marked)})"
        )
    return _MARKED.sub(lambda found: f"<!-- many: {found[1]} -->\n{texts[found[1]]}<!-- end -->", content)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="600 nodes and one turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this engine; may be repeated")
    parser.add_argument("--page", type=Path, help="also write the tables into this page")
    parser.add_argument("--json", type=Path, help="also write all figures into this file")
    parser.add_argument("--from", type=Path, dest="source", help="measure nothing, show what --json has written")
    chosen = parser.parse_args()
    if chosen.source is not None:
        found = json.loads(chosen.source.read_text(encoding="utf-8"))
    else:
        found = measure(chosen.engine or ENGINES, 1 if chosen.quick else chosen.turns, chosen.quick)
    if chosen.json is not None:
        write_file(chosen.json, (json.dumps(found, indent=1) + "\n").encode())
    texts = {name: section(found) for name, section in SECTIONS.items()}
    print("\n".join(texts.values()))
    if chosen.page is not None:
        write_file(chosen.page, filled(chosen.page.read_text(encoding="utf-8"), texts).encode())


if __name__ == "__main__":
    main()
