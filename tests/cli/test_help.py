"""The commands as a newcomer meets them: help, version, completion, defaults; and none of it loads torch."""

from __future__ import annotations

import inspect
import os
import resource
import subprocess
import sys
from typing import get_args

import pytest
import typer

from graphfaith import __version__
from graphfaith.cli import application, names
from graphfaith.data import DATASETS, HETEROGENEOUS_DATASETS
from graphfaith.explainers.methods import method_names
from graphfaith.facade.subject import EDGE_NEIGHBORHOODS, FEATURE_NEIGHBORHOODS, METHOD, NEIGHBORHOOD
from graphfaith.judging import hearing
from graphfaith.judging.measures import MEASURES
from graphfaith.judging.peers import PEERS
from graphfaith.many.engines import ENGINES
from graphfaith.model.call import Edges
from graphfaith.model.task import LEVELS, RETURN_TYPES, Task
from graphfaith.sampling import parse_neighborhood
from graphfaith_studies.bench import command as bench
from graphfaith_studies.paper import command as paper
from graphfaith_studies.paper.request import ARENA, EXPERIMENTS, KEPT

HEAVY = ("torch", "torch_geometric", "numba", "scipy", "matplotlib")


def leaves(command, path=()):
    """Every command that does something, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        return {path: command}
    return {words: leaf for name, one in below.items() for words, leaf in leaves(one, (*path, name)).items()}


LEAVES = leaves(typer.main.get_command(application.app))


def test_names_in_help_are_those_of_what_there_is():
    assert names.DATASETS == DATASETS
    assert tuple(HETEROGENEOUS_DATASETS) == names.TYPED_DATASETS
    assert names.DATASET in DATASETS
    assert set(names.METHODS) <= set(method_names())
    assert set(method_names()) - set(names.METHODS) <= set(method_names()[len(names.METHODS) :])  # those of others
    assert (names.METHOD, names.NEIGHBORHOOD) == (METHOD, NEIGHBORHOOD)
    assert {*EDGE_NEIGHBORHOODS, *FEATURE_NEIGHBORHOODS} < set(names.NEIGHBORHOODS)
    assert all(parse_neighborhood(text) for text in names.NEIGHBORHOODS if text != "all")
    assert tuple(PEERS) == names.PEERS
    assert (names.JUDGED, names.JUDGED_IN) == (hearing.METHODS, hearing.NEIGHBORHOODS)
    assert tuple(MEASURES) == names.MEASURES
    assert tuple(RETURN_TYPES) == names.MODES
    assert RETURN_TYPES[names.MODES[0]] == names.RETURN_TYPES
    assert (names.MODES[0], names.RETURN_TYPES[0], names.LEVELS[0]) == (Task.mode, Task.return_type, Task.level)
    assert names.LEVELS == LEVELS
    assert get_args(Edges) == names.EDGES
    assert names.ENGINES == ENGINES
    assert (*EXPERIMENTS, ARENA.name, KEPT.name) == paper.NAMES
    assert ARENA.name == paper.ARENA
    assert bench.TABLES[0] in DATASETS


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_an_example_of_itself(words):
    text = LEAVES[words].help or ""
    assert f"graphfaith {' '.join(words)} " in text
    assert "\b\n" in text  # The examples keep their lines.


def test_every_command_takes_the_same_data_set_if_it_is_told_none():
    given = [one for leaf in LEAVES.values() for one in leaf.params if one.name == "dataset" and not one.multiple]
    assert len(given) >= 5
    for one in given:
        assert one.default is None
        assert f"{names.DATASET} if left out" in one.help or "in place of --data" in one.help


def test_every_command_that_explains_takes_a_model_of_the_user():
    for name in ("explain", "score", "judge", "view", "explain-many"):
        options = {word for one in LEAVES[name,].params for word in one.opts}
        assert {"--dataset", "--model", "--data", "--num-hops", "--edges", "--max-memory"} <= options, name


def start(*arguments, **variables):
    """Run the command in a new process that says at its end which heavy packages it has loaded."""
    code = f"""
import atexit, sys
sys.argv = ["graphfaith", *{arguments!r}]
atexit.register(lambda: print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr))
from graphfaith.cli.application import main
main()
"""
    environment = {**os.environ, "COLUMNS": "120", **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--version"], f"graphfaith {__version__}"),
        ([], "graphfaith explain --dataset ba-shapes --node 650"),
        (["explain", "--help"], "graphfaith explain --model mymodule:load --data graph.pt --node 10"),
        (["judge", "--help"], "characterization"),
        (["swat", "run", "--help"], "graphfaith swat run --quick"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_version_load_nothing_heavy(arguments, text):
    done = start(*arguments)
    assert (done.returncode, done.stderr) == (0, "\n")
    assert text in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("words", [("--version",), ("--help",)], ids=" ".join)
def test_version_and_help_take_less_than_a_second_beyond_pythons_own_start(words):
    def seconds(*command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Of the processor, because the clock counts what other tests take of the machine at the same time.
    own, python = (
        min(seconds(*command) for _ in range(3)) for command in (("-m", "graphfaith", *words), ("-c", "pass"))
    )
    assert own - python < 1


def test_a_shell_completes_words_and_loads_nothing_heavy():
    done = start(_GRAPHFAITH_COMPLETE="complete_bash", COMP_WORDS="graphfaith explain --dataset co", COMP_CWORD="3")
    assert done.stderr == "\n"
    assert done.stdout.split() == ["cora", "cornell", "cora-bibliography"]


def test_importing_the_library_waits_for_torch_until_a_name_is_used():
    code = """
import sys
import graphfaith
print('torch' in sys.modules, graphfaith.__version__ != '', 'explain' in dir(graphfaith))
from graphfaith import *
print(callable(explain), graphfaith.metric.__name__, hasattr(graphfaith, 'nothing'))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True", "graphfaith.metric", "False"]


def test_a_command_whose_packages_are_missing_says_which(monkeypatch, capsys):
    def needy() -> None:
        """Need something."""
        raise ModuleNotFoundError("No module named 'sklearn.metrics'", name="sklearn.metrics")

    loaded = application._after_loading(needy, "swat run")
    assert inspect.getdoc(loaded) == "Need something."
    with pytest.raises(
        application.InputError, match=r"'graphfaith swat run' needs sklearn: pip install 'graphfaith\[st"
    ):
        loaded()

    def broken() -> None:
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    with pytest.raises(ModuleNotFoundError):
        application._after_loading(broken, "explain")()
