"""What is on which device; the tests on another device than the processor have a process of their own."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GCN

import forgotten_transfers as forgotten
from graphfaith.model.arguments import precision_of
from graphfaith.model.home import check_home, fetch, home_of

TESTS = Path(__file__).parent.parent


def test_everything_on_another_device():
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", str(TESTS / "on_toy_device.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    return forgotten.Copy(tmp_path_factory.mktemp("copied"))


def transfer_of(file, begins, package=forgotten.PACKAGE):
    found = [one for one in forgotten.find_transfers(package) if one.file == file and one.text.startswith(begins)]
    assert len(found) == 1, (file, begins, [one.text for one in found])
    return found[0]


@pytest.mark.parametrize(("file", "begins", "_"), forgotten.TEN)
def test_the_transfers_to_forget_are_in_the_sources(file, begins, _):
    transfer = transfer_of(file, begins)
    assert transfer.text not in transfer.without.splitlines()[transfer.line - 1]
    compile(transfer.without, file, "exec")


@pytest.mark.nightly
@pytest.mark.parametrize(("file", "begins", "tests"), forgotten.TEN)
def test_a_forgotten_transfer_is_seen(copied, file, begins, tests):
    done = copied.run_without(transfer_of(file, begins, copied.package), tests)
    assert forgotten.saw_it(done), done.stdout[-3000:] + done.stderr[-1000:]


def test_a_model_without_parameters_is_at_home_everywhere():
    model = torch.nn.ReLU()
    assert home_of(model) == torch.device("cpu")
    check_home(model, {"x": torch.zeros(2), "flag": True})
    x = torch.zeros(2)
    assert fetch(x) is x


def test_a_models_precision_is_read_while_another_thread_puts_masks_on_its_layers():
    model, ends = GCN(3, 4, 2, 2), threading.Event()
    masks = [torch.nn.Parameter(torch.ones(1)) for _ in range(40)]

    def explain():
        while not ends.is_set():
            for layer in model.convs:
                for i, mask in enumerate(masks):
                    layer.register_parameter(f"mask_{i}", mask)
                for i in range(len(masks)):
                    delattr(layer, f"mask_{i}")

    thread, before = threading.Thread(target=explain, daemon=True), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(3000):
            assert precision_of(model) == torch.float32
    finally:
        ends.set()
        sys.setswitchinterval(before)
        thread.join()
