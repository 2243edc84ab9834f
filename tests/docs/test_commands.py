"""Every command that a page shows is read by the program it calls, and the short ones run as they stand."""

from __future__ import annotations

import argparse
import http.client
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import nbformat
import numpy as np
import pyarrow as pa
import pytest
import torch
import typer
from pyarrow import parquet
from torch_geometric.data import Data

from conftest import needs_data
from graphfaith.cli import application
from graphfaith.data import DATASETS, HETEROGENEOUS_DATASETS
from graphfaith.explainers.methods import method_names
from graphfaith.judging.peers import PEERS
from graphfaith.sampling import parse_neighborhood

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *sorted(DOCS.rglob("*.md"))]
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
PROGRAMS = ("graphfaith", "python", "make", "pip", "ray", "git", "cp", "pytest", ".venv/bin/pytest", "for", "done")
# What is shown in a block without a language and is no command: what a program prints.
PRINTED = ("Delta(p) = ", "these scores leave ", "    10000 nodes, kec, warm")
# Files and folders that are a reader's own.
OWN = ("cora-*.json", "untuned-*.json", "trees-*.json", "file.csv", "recordings", "results/")

# Commands that run here. A shorter form asks for fewer nodes or samples, and changes nothing else.
RUN = {
    "graphfaith explain --dataset cora --node 42": "",
    'graphfaith explain --dataset cora --node 1195 --neighborhood "B(A,0.5,paired)" --without 1058-1195': "",
    "graphfaith explain --model mymodule:load --data graph.pt --node 10": "",
    'graphfaith explain --dataset hetero-ba-shapes --node 155 --without "square 146-circle 155"': "",
    "graphfaith score --model mymodule:load --data graph.pt --nodes 0:50": "--nodes 0:50:25",
    "graphfaith judge --model mymodule:load --data graph.pt --nodes 0:50": "--nodes 3 --test-samples 20 --samples 40",
    "graphfaith judge --model mymodule:load --data graph.pt --nodes 0:50 --page judged.html": (
        "--nodes 3 --test-samples 20 --samples 40"
    ),
    "graphfaith judge --model mymodule:load --data graph.pt --nodes 0:50 --truth truth.npz": (
        "--nodes 3 --test-samples 20 --samples 40"
    ),
    "graphfaith explain-many --dataset cora --out run/": "--nodes 0:3",
    "graphfaith explain-many --graph packed/ --model mymodule:load --nodes flagged.txt --out run/ --workers 8": (
        "--workers 2"
    ),
    "graphfaith explain-many --graph graph.pt --model mymodel:load --out run/ --workers 2": "--nodes 0:3",
    'graphfaith graph pack packed --data arrays/ --memory "500 MB"': "",
    "graphfaith graph pack packed --x x.npy --edges edges.parquet": "",
    "graphfaith graph pack cora --dataset cora": "",
    "graphfaith graph info packed --verify": "",
    "graphfaith view --model mymodule:load --data graph.pt": "",
    "graphfaith bench --from docs/runs/bench.json --page docs/speed.md --figure docs/growth.png": "",
    "graphfaith reproduce --page docs/results.md --out docs/results": "",
    "graphfaith reproduce arena --page docs/arena.md --out docs/results": "",
    "graphfaith --help": "",
}
# Commands that do not run here, and why: they are read by the program they call, which refuses an option or a value
# that it does not know, and then stop before their work.
READ = {
    r"graphfaith judge --dataset": "train models and judge ten methods at a dozen nodes and more: minutes",
    r"graphfaith score --dataset": "all methods at all nodes of a table: an hour",
    r"graphfaith explain .*--node-type paper$": "a graph of several types; tests/cli/test_typed_commands.py has one",
    r"graphfaith view --dataset cora": "the same as view --model, which runs, with a model that is trained first",
    r"graphfaith explain-many .*--engine ray": "needs a cluster; tests/many/test_ray.py starts one of two processes",
    r"graphfaith (swat|plant) run": "trains forecasters for minutes; tests/studies has runs of seconds",
    r"graphfaith plant check --plant": "a plant of one's own; tests/studies/plant/test_plant_command.py makes one",
    r"graphfaith swat simulate": "days of a plant, second by second; tests/studies/swat/test_swat_plant.py has hours",
    r"graphfaith bench --(quick|growth|threads)": "measures times for minutes, which other tests would spoil",
    r"graphfaith reproduce (--all|(arena|kept) .*--out|\w+$)": "an hour; tests/studies has every experiment in small",
    r"graphfaith demo$": "half a minute; tests/cli/test_cli.py runs it with fewer nodes",
    r"graphfaith [\w-]+( check| pack| --page x\.html)?$": "names a command in a sentence",
    r"python (benchmarks|examples|stress|docs|tests)/": "measures for minutes, or shows what other tests compare",
    r"python -m graphfaith_studies.batadal.network": "makes the committed network from a file of the contest",
    r"make ": "calls what is tested by itself, after it has made an environment",
    r"pip install ": "changes the environment; tests/test_release.py installs the wheel into one of its own",
    r"(\.venv/bin/)?pytest ": "runs tests, among which this one is",
    r"ray job submit ": "needs a cluster",
    r"git clone ": "needs the address of a clone",
    r"cp results/bench.json": "keeps the run before it",
    r"(for seed in|done)": "belongs to the shell",
}
# Scripts that read no options, and what runs or reads them.
WITHOUT_OPTIONS = {
    "benchmarks/compilation.py": "starts processes that compile the core anew",
    "docs/batadal/update.py": "tests/test_readme.py compares the page with its run",
    "docs/swat/update.py": "tests/test_readme.py compares the page with its run",
    "examples/check_explainers.py": "checks every explainer for minutes",
    "examples/computation_graph_size.py": "walks the whole graph of Cora",
    "examples/silent_edges.py": "tests/test_readme.py runs it",
    "stress/files.py": "tests/test_stress.py runs some of its cases",
    "stress/fuzz.py": "tests/test_stress.py runs some of its cases",
    "stress/live.py": "tests/test_stress.py runs some of its cases",
}
# It imports a package that no test needs, and that only its extra (peers) installs.
NOT_IMPORTED = "benchmarks/shapley.py"
MODULE = """
import torch
from torch_geometric.nn import GCN

def load():
    torch.manual_seed(0)
    return GCN(5, 8, num_layers=2, out_channels=3).eval()
"""


class Command(NamedTuple):
    """A command as a page shows it, and whether it stands in a block, to be pasted, or is named in a sentence."""

    text: str
    in_block: bool


def without_comment(line):
    return re.sub(r"\s+#\s.*$", "", line).removeprefix("$ ").strip()


def commands_of(text):
    """Every command of a page: in blocks without a language, indented by four spaces, and in inline code."""
    found = []
    fence = re.compile(r"^( *)```(?P<language>\w*)\n(?P<body>.*?)^ *```", flags=re.S | re.M)
    for block in fence.finditer(text):
        if block["language"] in ("", "console", "bash", "sh") and not block["body"].startswith(PRINTED):
            lines = re.sub(r"\s*\\\n\s*", " ", block["body"]).splitlines()
            found += [Command(" ".join(without_comment(line).split()), True) for line in lines if line.strip()]
    rest = fence.sub("", text)
    indented = re.findall(rf"^    ((?:{'|'.join(map(re.escape, PROGRAMS[:4]))}) .*)$", rest, flags=re.M)
    found += [Command(" ".join(without_comment(line).split()), True) for line in indented]
    for inline in re.findall(r"`([^`]+)`", rest):
        words = " ".join(inline.split())
        if words.startswith(tuple(f"{name} " for name in PROGRAMS[:4] + PROGRAMS[7:8])):
            found.append(Command(words, False))
    return found


def examples_in_help():
    """The examples that the commands' own help shows."""

    def walk(command):
        for one in getattr(command, "commands", {}).values():
            yield from walk(one)
        yield from re.findall(r"^\s+(graphfaith .*)$", command.help or "", flags=re.M)

    lines = walk(typer.main.get_command(application.app))
    return [Command(" ".join(without_comment(line).split()), True) for line in lines]


def collected():
    pages = {str(page.relative_to(ROOT)): commands_of(page.read_text()) for page in PAGES}
    for notebook in NOTEBOOKS:
        cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown"]
        pages[f"docs/tutorials/{notebook.name}"] = commands_of("\n\n".join(cells))
    pages["--help"] = examples_in_help()
    return {page: found for page, found in pages.items() if found}


COMMANDS = collected()


def read_by_graphfaith(words, whole):
    """Let the real command line read the words, and stop where the command's work would begin."""
    command, reached = typer.main.get_command(application.app), []

    def stop(one):
        for below in getattr(one, "commands", {}).values():
            stop(below)
        if not hasattr(one, "commands"):
            one.callback = lambda **options: reached.append(options)

    stop(command)
    for option in command.params:
        if "completion" in (option.name or ""):  # It would write into the home of whoever runs the tests.
            option.callback = None
    try:
        command(args=list(words), standalone_mode=False)
    except application.UsageError as error:
        if whole or "Missing" not in error.format_message():
            raise
        return
    options = reached[0] if reached else {}

    def given(name):
        value = options.get(name)
        return [value] if isinstance(value, str) else list(value or ())

    assert set(given("dataset")) <= {*DATASETS, *HETEROGENEOUS_DATASETS}
    assert set(given("method")) <= {*method_names(), "all", *PEERS}
    assert all(near == "all" or parse_neighborhood(near) for near in given("neighborhood"))


class Understood(Exception):
    """A script has read its options."""


def read_by_script(words, monkeypatch):
    """Let a script's own parser read the words, and stop where its work would begin."""
    script, *options = words
    assert (ROOT / script).is_file(), script
    if script in WITHOUT_OPTIONS:
        assert "argparse" not in (ROOT / script).read_text()
        assert not any(word.startswith("-") for word in options)
        return
    if script == NOT_IMPORTED:
        assert all(f'"{word}"' in (ROOT / script).read_text() for word in options if word.startswith("--"))
        return
    read = argparse.ArgumentParser.parse_args

    def stop(self, *given, **named):
        read(self, *given, **named)
        raise Understood

    folder = (ROOT / script).parent
    before = set(sys.modules)
    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        patch.setattr(sys, "argv", list(words))
        patch.syspath_prepend(str(folder))
        patch.chdir(ROOT)
        try:
            with pytest.raises(Understood):
                runpy.run_path(str(ROOT / script), run_name="__main__")
        finally:
            for name in set(sys.modules) - before:  # benchmarks/ and stress/ have some of the same names
                if Path(getattr(sys.modules[name], "__file__", None) or "").parent == folder:
                    del sys.modules[name]


def understood(command, monkeypatch):
    """Let the program that a command calls read it, without its work; what it cannot read is an error."""
    words = shlex.split(command.text.replace("$seed", "0"))  # of a loop in the shell
    program, rest = words[0], words[1:]
    if program == "graphfaith":
        read_by_graphfaith(rest, command.in_block)
    elif program == "python" and rest[0] != "-m":
        read_by_script(rest, monkeypatch)
    elif program == "python":
        assert (ROOT / "src" / rest[1].replace(".", "/")).with_suffix(".py").is_file()
    elif program == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert all(re.search(rf"^{target}:", makefile, flags=re.M) for target in rest)
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        asked = re.findall(r"\[(.*?)\]", command.text)
        assert rest[0] == "install"
        assert all(extra in extras for extra in asked)
        assert asked == [] or ".[" in command.text, "it is installed from a clone"
    elif program.endswith("pytest"):
        assert all((ROOT / word).exists() for word in rest if "/" in word)
    elif program == "ray":
        read_by_graphfaith(rest[rest.index("--") + 2 :], command.in_block)
    elif program == "cp":
        assert rest == ["results/bench.json", "docs/runs/bench.json"]
    else:
        assert program in ("git", "for", "done"), f"nobody reads: {command.text}"


@pytest.mark.parametrize("page", COMMANDS)
def test_the_program_that_a_command_calls_understands_it(page, monkeypatch):
    for command in COMMANDS[page]:
        understood(command, monkeypatch)


def test_every_command_runs_or_has_a_reason():
    texts = [command.text for found in COMMANDS.values() for command in found]
    for page, found in COMMANDS.items():
        for text in {command.text for command in found} if page != "--help" else ():
            if text not in RUN:
                assert any(re.match(pattern, text) for pattern in READ), f"{page}: {text}"
    assert set(RUN) <= set(texts), set(RUN) - set(texts)
    for pattern in READ:
        assert any(re.match(pattern, text) for text in texts), f"no page has any longer: {pattern}"


def test_a_command_that_cannot_be_read_is_seen(monkeypatch):
    wrong = [
        "graphfaith explain --dataset cora --nod 42",
        "graphfaith explain --dataset corra --node 42",
        "graphfaith scores",
        "python benchmarks/hinges.py --tims 1",
        "make tests",
        "pip install '.[mayn]'",
        "ray job submit -- graphfaith explain-many --grap x",
    ]
    for text in wrong:
        with pytest.raises((AssertionError, SystemExit, application.UsageError)):
            understood(Command(text, True), monkeypatch)


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """What a reader has: a model in a module, a graph in a file, and in the forms that can be packed."""
    monkeypatch.chdir(tmp_path)
    for name in ("mymodule.py", "mymodel.py"):
        (tmp_path / name).write_text(MODULE)
    torch.manual_seed(0)
    edges = torch.randint(0, 60, (2, 150))
    edges = torch.unique(edges[:, edges[0] != edges[1]], dim=1)
    x = torch.rand(60, 5)
    torch.save(Data(x=x, edge_index=edges), tmp_path / "graph.pt")
    (tmp_path / "flagged.txt").write_text("3\n42\n")
    np.savez(tmp_path / "truth.npz", edges=(edges[0] < 30).numpy())
    (tmp_path / "arrays").mkdir()
    for name, array in {"x": x, "edge_index": edges}.items():
        np.save(tmp_path / "arrays" / f"{name}.npy", array.numpy())
    np.save(tmp_path / "x.npy", x.numpy())
    parquet.write_table(pa.table({"source": edges[0].numpy(), "target": edges[1].numpy()}), tmp_path / "edges.parquet")
    for name in ("docs/runs/bench.json", "docs/speed.md", "docs/results.md", "docs/arena.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(DOCS / "results", tmp_path / "docs" / "results")
    return tmp_path


def process(text, folder, **options):
    def listen_to_interrupts():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores them

    environment = {**os.environ, "COLUMNS": "120"}
    words = [sys.executable, "-m", "graphfaith", *shlex.split(text)[1:]]
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=listen_to_interrupts,
    )  # fmt: skip


def done(text, folder):
    """What a command prints, with the words of its shorter form."""
    one = process(f"{text} {RUN.get(text, '')}", folder)
    out, err = one.communicate(timeout=600)
    assert one.returncode == 0, f"{text}: {err}"
    return out


def said(text):
    """The numbers of what the first command of docs/readings.md prints: of the readings, of pairs, and of a removal."""
    text = " ".join(text.split())
    readings = re.search(r"these scores leave [^;]* unexplained in .*? the whole explanation [\d.]+ %", text).group()
    pairs = re.findall(r"overlap: together (\S+), and not the (\S+) of|other: together (\S+) more than", text)
    removal = re.search(r"F would change by (\S+) ± (\S+); the model says (\S+)", text).groups()
    found = [*re.findall(r"([\d.]+) %", readings), *(one for three in pairs for one in three if one), *removal]
    return list(map(float, found))


def marked(text):
    return pytest.param(text, marks=needs_data) if "cora" in text else text


# The others need what these make, or are stopped by a key.
PLAIN = [text for text in RUN if not re.search(" view |--graph packed/|info packed", text)]


@pytest.mark.parametrize("text", [marked(text) for text in PLAIN])
def test_a_command_runs_as_it_stands(text, reader):
    printed = done(text, reader)
    for word in shlex.split(text):
        if word.endswith((".html", ".json", ".png")):
            assert (reader / word).stat().st_size > 100
    if "--without" in text and "cora" in text:
        shown = said((DOCS / "readings.md").read_text())
        assert len(shown) == 13
        assert said(printed) == pytest.approx(shown, rel=0.15)  # the last digits are another machine's
    if "--page docs/" in text:
        (page,) = re.findall(r"--page (\S+)", text)
        assert (reader / page).read_text() == (ROOT / page).read_text()


def test_a_graph_is_packed_looked_at_and_explained(reader):
    pack, info, explain = (
        next(text for text in RUN if words in text) for words in ("arrays/", "info", "--graph packed")
    )
    done(pack, reader)
    assert "60" in done(info, reader)
    done(explain, reader)
    files = sorted((reader / "run" / "explanations").glob("*.parquet"))
    assert [node for file in files for node in parquet.read_table(file).column("node").to_pylist()] == [3, 42]


def test_the_view_answers_until_ctrl_c(reader):
    (text,) = [text for text in RUN if " view " in text]
    one = process(text, reader)
    try:
        address = urlsplit(re.search(r"http://\S+", one.stdout.readline()).group())
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
        connection.request("GET", f"{address.path}?{address.query}")
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"<!DOCTYPE html>" in answer.read()
        one.send_signal(signal.SIGINT)
        out, _ = one.communicate(timeout=30)
    finally:
        one.kill()
    assert out.endswith("stopped\n")
