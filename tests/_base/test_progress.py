"""Bars appear where somebody watches and waits, once, and say times in words."""

from __future__ import annotations

import re
import sys

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

import graphfaith as gf
from graphfaith._base import progress
from graphfaith._base.progress import track
from graphfaith.sampling.neighborhood import Neighborhood
from graphfaith.testing import check_explainer


class Clock:
    """A clock that goes on by a number of seconds whenever it is read."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")

    def at(step):
        monkeypatch.setattr(progress.time, "monotonic", Clock(step))

    return at


def test_what_is_quick_has_no_bar(watched, capsys):
    watched(0.01)
    assert list(track(range(5), "counting", "sheep")) == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err == ""


def test_what_takes_more_than_a_second_has_one_in_words(watched, capsys):
    watched(0.6)
    inner = []
    for item in track(range(5), "counting", "sheep"):
        # A second bar would be drawn over the first, which is there from the second item on.
        inner += list(track([item], "shearing", "sheep", show=item > 0))
    assert inner == [0, 1, 2, 3, 4]
    shown = capsys.readouterr().err
    assert "counting" in shown
    assert "5/5 sheep" in shown
    assert "gone" in shown
    assert "second" in shown
    assert "shearing" not in shown
    assert list(track([7], "shearing", "sheep", show=True)) == [7]  # The first one is gone by now.
    assert "1/1 sheep" in capsys.readouterr().err


def test_nobody_watches_a_file(monkeypatch, capsys):
    monkeypatch.setattr(progress.time, "monotonic", Clock(9))
    assert list(track(range(3), "counting", "sheep")) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert list(track(range(3), "counting", "sheep")) == [0, 1, 2]


def test_unfaithfulness_counts_its_samples(watched, capsys, monkeypatch):
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    torch.manual_seed(0)
    explainer = Explainer(
        GCN(2, 4, num_layers=2, out_channels=3),
        algorithm=gf.Saliency(),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    explanation = explainer(torch.rand(4, 2), ring, index=1)
    watched(0.01)
    whole = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=60)
    assert capsys.readouterr().err == ""
    chunks = Neighborhood.chunks
    monkeypatch.setattr(
        Neighborhood,
        "chunks",
        lambda self, graph, count, seed, *, width, room: chunks(self, graph, count, seed, width=width, room=1),
    )
    watched(0.3)
    again = gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=60)
    assert "60/60 samples" in capsys.readouterr().err
    assert again.value == pytest.approx(whole.value)
    gf.general_unfaithfulness(explainer, explanation, "U(A,0.5)", num_samples=60, progress=False)
    assert capsys.readouterr().err == ""


@pytest.fixture
def on_terminal(monkeypatch):
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(progress, "SOON", 0.05)
    monkeypatch.setenv("COLUMNS", "120")


def test_work_without_parts_says_how_long_it_takes(on_terminal, capsys):
    with progress.waiting("thinking"):
        progress.time.sleep(0.3)
        assert progress._LINES[0].shown is not None
        with progress.waiting("dreaming"):  # One line is enough.
            progress.time.sleep(0.2)
    assert progress._LINES == []
    shown = capsys.readouterr().err
    assert re.search("thinking, .* gone", shown)
    assert "dreaming" not in shown
    with progress.waiting("blinking"):
        pass
    progress.time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_bar_of_a_part_takes_the_place_of_the_line(on_terminal, capsys):
    with progress.waiting("thinking"):
        (line,) = progress._LINES
        progress.time.sleep(0.2)
        for item in track(range(3), "counting", "sheep", show=True):
            assert line.shown is None, item
        assert line.shown is not None
    assert line.shown is None
    assert "3/3 sheep" in capsys.readouterr().err


def test_the_line_ends_with_what_fails(on_terminal):
    def fail():
        with progress.waiting("dividing"):
            progress.time.sleep(0.2)
            print(1 / 0)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert progress._LINES == []


def test_comparing_and_judging_show_a_bar_to_who_watches(watched, capsys):
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    torch.manual_seed(0)
    model, data = GCN(2, 4, num_layers=2, out_channels=3), Data(x=torch.rand(4, 2), edge_index=ring)
    watched(0.6)
    gf.compare(model, data, [0, 1, 2], methods=["saliency"], samples=20, test_samples=10)
    assert "3/3 nodes" in capsys.readouterr().err
    gf.judge(model, data, ["saliency"], [0, 1, 2], ["sparsity"], samples=20)
    shown = capsys.readouterr().err
    assert "judging" in shown
    assert "3/3 nodes" in shown
    gf.compare(model, data, [0, 1, 2], methods=["saliency"], samples=20, test_samples=10, progress=iter)
    assert capsys.readouterr().err == ""


class Slow(torch.nn.Module):
    """A model whose answers take longer than anybody waits without a word, here."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gcn = GCN(2, 4, num_layers=2, out_channels=3)

    def forward(self, x, edge_index, edge_weight=None):
        progress.time.sleep(0.1)
        return self.gcn(x, edge_index, edge_weight)


def test_what_a_reader_waits_for_says_so(on_terminal, capsys):
    ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    explanation = gf.explain(Slow().eval(), ring, 1, method="saliency", samples=20, test_samples=20)
    assert re.search("explaining by saliency, .* gone", capsys.readouterr().err)
    explanation.counterfactual(max_edges=2)
    assert re.search("looking for up to 2 edges that flip the answer, .* gone", capsys.readouterr().err)
    check_explainer(gf.Saliency, only=["inputs_unchanged", "under_no_grad", "refuses_nan_in_x"])
    assert "checks" in capsys.readouterr().err
