"""Does the suite on the emulated device see a forgotten transfer? Transfers are removed, one at a time, and it is run.

A transfer is a call of ``fetch``, ``fetch_all``, ``send`` or ``run_at_home``, or of a tensor's ``cpu``, wherever it
stands in the sources. Removing it leaves what was to be transferred. A copy of the sources is changed, never these.
The nightly test of ``tests/model/test_home.py`` removes those of ``TEN``; this command removes all of some files:

    python tests/forgotten_transfers.py --only model/call.py

One that can go without a failure is needless, or no test needs it: the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "graphfaith"
SUITE = ROOT / "tests" / "on_toy_device.py"
LEAVES = {"fetch": "{0}", "_fetch": "{0}", "fetch_all": "dict({0})", "send": "{0}", "run_at_home": "{0}(*{2}, **{3})"}
CALLS = "test_explanations_and_their_numbers_are_those_of_the_processor"

# Ten transfers of different kinds: the file, how the transfer begins, and the tests that have to see it.
TEN = (
    ("model/call.py", "run_at_home(self.model", f"{CALLS} and GCN"),
    ("model/call.py", "send(factors", f"{CALLS} and GAT"),
    ("model/call.py", "send(kwargs[name]", "test_graphs_of_several_types_there and sage"),
    ("model/call.py", 'send(kwargs.get("edge_type")', "test_relations_in_one_graph_there"),
    ("model/home.py", "fetch(model(", f"{CALLS} and GCN"),
    ("graph/graph.py", "tensor.detach().cpu()", f"{CALLS} and GCN"),
    ("explainers/subgraph.py", "send(graph.x", f"{CALLS} and GCN"),
    ("surrogate/attention.py", "fetch(value.detach()", f"{CALLS} and GAT"),
    ("judging/algorithm.py", 'fetch(explanation.get("edge_mask")', "test_explainers_are_judged_there"),
    ("metric/unfaithfulness.py", 'fetch(explanation.get("edge_attr_score")', "test_edge_attributes_there"),
)


@dataclass(frozen=True)
class Transfer:
    """A transfer in the sources: where it stands, how it reads, and how the file reads without it."""

    file: str
    line: int
    text: str
    without: str


def find_transfers(package: Path = PACKAGE) -> Iterator[Transfer]:
    """Yield the transfers of a package, by file and line."""
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        lines = source.splitlines(keepends=True)
        starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
        calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            left = _left_of(call, source.decode())
            if left is None:
                continue
            begin = starts[call.lineno - 1] + call.col_offset
            end = starts[call.end_lineno - 1] + call.end_col_offset
            text = " ".join(source[begin:end].decode().split())
            without = (source[:begin] + left.encode() + source[end:]).decode()
            yield Transfer(path.relative_to(package).as_posix(), call.lineno, text, without)


def _left_of(call: ast.Call, source: str) -> str | None:
    """Return what stands in place of a call that transfers; None for any other one."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cpu" and not call.args:
        return ast.get_source_segment(source, call.func.value)
    if isinstance(call.func, ast.Name) and call.func.id in LEAVES:
        given = [f"({ast.get_source_segment(source, one)})" for one in call.args]
        return f"({LEAVES[call.func.id].format(*given)})"
    return None


class Copy:
    """A copy of the sources, with what was compiled of them, in which one file at a time is another one."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "src" / "graphfaith"
        shutil.copytree(ROOT / "src", folder / "src")
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, tests: str = "") -> subprocess.CompletedProcess[str]:
        """Run the suite, or some tests of it, up to the first failure."""
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--tb=short", str(SUITE)]
        command += ["-k", tests]
        return subprocess.run(command, env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False)

    def run_without(self, transfer: Transfer, tests: str = "") -> subprocess.CompletedProcess[str]:
        """Run the suite without a transfer, and put it back."""
        path = self.package / transfer.file
        before = path.read_text()
        path.write_text(transfer.without)
        try:
            return self.run(tests)
        finally:
            path.write_text(before)


def saw_it(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether tests ran and one of them failed; a file that cannot be imported is no test that failed."""
    return done.returncode == 1 and "errors during collection" not in done.stdout and "FAILED" in done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="transfers of files whose path has this text")
    parser.add_argument("--list", action="store_true", help="name the transfers and run nothing")
    options = parser.parse_args()
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = None if options.list else Copy(Path(folder))
        for transfer in find_transfers():
            if options.only not in transfer.file:
                continue
            done = None if copy is None else copy.run_without(transfer)
            seen = done is None or saw_it(done)
            failed = [line for line in (done.stdout if done else "").splitlines() if line.startswith("FAILED")]
            words = "" if done is None else "seen    " if seen else "NOT SEEN"
            print(words, f"{transfer.file}:{transfer.line}", transfer.text, *failed, flush=True)
            unseen += not seen
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
