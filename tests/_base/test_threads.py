"""Explanations do not depend on the number of threads of torch, numpy and scipy, and do not change it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from graphfaith._base import threads
from graphfaith._base.threads import one_thread


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


# One thread -------------------------------------------------------------------------------------------------------


def test_there_is_one_thread_inside_and_as_many_as_before_afterwards():
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_nothing_is_done_when_it_is_not_asked_for():
    with one_thread(False):
        assert torch.get_num_threads() == 2
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread(False):
                assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 2


def test_it_lasts_until_the_outermost_is_left():
    with one_thread():
        with one_thread(), one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def leave_by_an_error():
    with one_thread(), one_thread():
        raise KeyError


def test_an_error_leaves_as_many_as_before():
    with pytest.raises(KeyError):
        leave_by_an_error()
    assert torch.get_num_threads() == 2
    with one_thread():
        assert torch.get_num_threads() == 1


def test_one_thread_that_was_set_by_the_user_stays():
    torch.set_num_threads(1)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1


def overlapping(*, used_before):
    """Return the number of torch's threads in two Python threads; the first one enters and leaves first."""
    ready, first_in, second_in, first_out = (threading.Event() for _ in range(4))
    counts = {}

    def second():
        if used_before:
            torch.get_num_threads()  # From now on torch has a setting for this thread.
        ready.set()
        first_in.wait(10)
        with one_thread():
            counts["second, inside"] = torch.get_num_threads()
            second_in.set()
            first_out.wait(10)
        counts["second, afterwards"] = torch.get_num_threads()

    worker = threading.Thread(target=second)
    worker.start()
    ready.wait(10)
    with one_thread():
        first_in.set()
        second_in.wait(10)
        counts["first, inside"] = torch.get_num_threads()
    first_out.set()
    worker.join(10)
    counts["first, afterwards"] = torch.get_num_threads()
    return counts


def test_two_threads_at_once():
    assert overlapping(used_before=True) == {
        "first, inside": 1,
        "first, afterwards": 2,
        "second, inside": 1,
        "second, afterwards": 2,
    }


# The libraries of numpy and scipy ---------------------------------------------------------------------------------


@pytest.fixture
def blas(monkeypatch):
    """Two threads in every BLAS, and a function that tells the numbers; at the end they are as before."""
    monkeypatch.setattr(threads, "_BLAS", threads._Blas())
    with threadpool_limits(2, user_api="blas"):
        yield lambda: {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_blas_has_one_thread_inside_and_as_many_as_before_afterwards(blas):
    assert blas() == {2}
    with one_thread():
        assert blas() == {1}
        with one_thread():
            assert blas() == {1}
        assert blas() == {1}
        with one_thread(False):
            assert blas() == {1}
    assert blas() == {2}
    with pytest.raises(KeyError):
        leave_by_an_error()
    assert blas() == {2}


def test_a_blas_has_one_thread_until_the_last_python_thread_has_left(blas):
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with one_thread():
            entered.set()
            leave.wait(10)

    worker = threading.Thread(target=stay)
    with one_thread():
        worker.start()
        entered.wait(10)
    assert blas() == {1}
    leave.set()
    worker.join(10)
    assert blas() == {2}


def test_a_layout_has_one_thread(blas, monkeypatch):
    from graphfaith.view.positions import place

    seen = []
    for name in ("eigh", "svd"):
        whole = getattr(np.linalg, name)
        monkeypatch.setattr(
            np.linalg, name, lambda *given, whole=whole, **more: (seen.append(blas()), whole(*given, **more))[1]
        )
    place(5, np.array([[0, 1], [1, 2], [2, 3], [3, 4]]), np.ones(4), centre=2)
    assert seen == [{1}, {1}]
    assert blas() == {2}


def test_a_command_has_one_thread_unless_it_is_told_otherwise(blas, monkeypatch, capsys):
    from graphfaith.cli.application import main

    # What only prints help or a version loads no library that has threads.
    monkeypatch.setattr(sys, "argv", ["graphfaith", "graph", "info", "no-such-folder"])
    for given, expected in (("2", 2), (None, 1)):
        if given is None:
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        else:
            monkeypatch.setenv("OMP_NUM_THREADS", given)
        with pytest.raises(SystemExit):
            main()
        assert (blas(), torch.get_num_threads()) == ({expected}, expected)


def test_a_worker_has_one_thread(monkeypatch):
    from graphfaith._base.workers import open_pool

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    with open_pool(1) as pool:
        libraries = pool.submit(threadpool_info).result()
        assert pool.submit(torch.get_num_threads).result() == 1
    assert {library["num_threads"] for library in libraries if library["user_api"] == "blas"} == {1}


# Explanations -----------------------------------------------------------------------------------------------------

SCRIPT = """
import copy, json, sys
import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN
import graphfaith as gf

torch.manual_seed(0)
N, D = 2708, 700
half = torch.randint(0, N, (2, 5300))
half = half[:, half[0] != half[1]]
edges = torch.unique(torch.cat([half, half.flip(0)], dim=1), dim=1)
x = (torch.rand(N, D) < 0.02).float()
model = GCN(D, 16, 2, 7).eval()
labels = torch.randint(0, 7, (N,))
config = dict(mode="multiclass_classification", task_level="node", return_type="raw")
nodes = [5, 2700]

def explainer(algorithm):
    return Explainer(copy.deepcopy(model), algorithm, "phenomenon", config, "attributes", "object")

def run():
    features, results, counts = x.clone(), {}, []
    for name, algorithm in {"kec": gf.KEC("U(A,0.5)", num_samples=100), "features": gf.KEC("U(X,0.2r)", num_samples=20),
                            "linear": gf.Linear("B(A,0.5)", num_samples=100), "saliency": gf.Saliency()}.items():
        asked = explainer(algorithm)
        for way in ([False, True] if name == "kec" else [False]):
            made = gf.explain_nodes(asked, features, edges, nodes, target=labels, progress=False, together=way)
            for node, explanation in zip(nodes, made):
                counts.append(torch.get_num_threads())
                key = f"{name} {'together' if way else 'alone'} {node}"
                results[key] = [explanation.node_mask, explanation.edge_mask, explanation.self_loop_score]
                results[key].append(gf.general_unfaithfulness(asked, explanation, "U(A,0.5)", num_samples=50).value)
                counts.append(torch.get_num_threads())
    return results, counts

def same(a, b):
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

torch.set_num_threads(1)
one, _ = run()
torch.set_num_threads(2)
two, counts = run()
differing = [key for key in one if not all(map(same, one[key], two[key]))]

class Fails(GCN):
    fails = False
    def forward(self, x, edge_index, edge_weight=None):
        if self.fails:
            raise KeyError("no")
        return super().forward(x, edge_index, edge_weight=edge_weight)

odd = Fails(D, 16, 2, 7).eval()
asked = Explainer(odd, gf.KEC("U(A,0.5)", num_samples=20), "phenomenon", config, "attributes", "object")
asked(x, edges, target=labels, index=3)
odd.fails = True
try:
    asked(x, edges, target=labels, index=4)
    error = None
except Exception as raised:
    error = type(raised).__name__
print(json.dumps(dict(keys=sorted(one), differing=differing, counts=sorted(set(counts)), error=error,
                      after=torch.get_num_threads(), sizes=[float(v[1].abs().max()) for v in one.values()])))
"""


@pytest.fixture(scope="module")
def results():
    source = str(Path(threads.__file__).parents[2])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        # A thread that has nothing to do sleeps, so that it takes no time from the other tests.
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        timeout=600,  # Threads that wait for each other are slow on a busy machine.
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_threads_do_not_change_a_bit_of_an_explanation(results):
    assert len(results["keys"]) == 10
    assert min(results["sizes"]) > 0
    assert results["differing"] == []


def test_torch_has_as_many_threads_after_an_explanation(results):
    assert results["counts"] == [2]


def test_torch_has_as_many_threads_after_an_error(results):
    assert results["error"] is not None
    assert results["after"] == 2
