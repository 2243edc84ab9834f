"""The method matrix says what is true: every method is asked for every kind of explanation it claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN, global_mean_pool

import graphfaith as gf
from graphfaith.explainers.methods import method_names

PAGE = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()


def claims():
    """The second table, as {method: {column: cell}}."""
    table = re.findall(r"^\|.*\|$", PAGE.split("## What each explains")[1], flags=re.M)
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    found = {}
    for row in rows:
        for text in re.findall(r"`([^`]+)`", row[0]):
            stem, star, _ = text.partition("*")
            for name in method_names():
                if name == stem or (star and name.startswith(stem)):
                    found[name] = dict(zip(head[1:], row[1:], strict=True))
    return found


CLAIMS = claims()


class Net(torch.nn.Module):
    """A network of nodes, or of whole graphs; ``frozen`` hides its derivatives."""

    def __init__(self, level="node", out=3, frozen=False):
        super().__init__()
        torch.manual_seed(0)
        self.gcn, self.level, self.frozen = GCN(3, 6, num_layers=2, out_channels=out), level, frozen

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        code = self.gcn(x, edge_index, edge_weight)
        code = code.detach() if self.frozen else code
        return global_mean_pool(code, batch) if self.level == "graph" else code


class Links(Net):
    def forward(self, x, edge_index, edge_label_index, edge_weight=None):
        code = self.gcn(x, edge_index, edge_weight)
        return (code[edge_label_index[0]] * code[edge_label_index[1]]).sum(-1)


def graph():
    torch.manual_seed(1)
    ring = torch.arange(6)
    ends = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], 1)
    return Data(x=torch.rand(6, 3), edge_index=ends)


CALLS = {
    "node": lambda method: gf.explain(Net(), graph(), 1, method=method, **FEW),
    "link": lambda method: gf.explain(
        Links(), graph(), edge=(0, 2), method=method, mode="binary_classification", **FEW
    ),
    "whole graph": lambda method: gf.explain(Net("graph"), graph(), graph=0, method=method, **FEW),
    "regression": lambda method: gf.explain(Net(out=1), graph(), 1, method=method, mode="regression", **FEW),
    "no gradients": lambda method: gf.explain(Net(frozen=True), graph(), 1, method=method, **FEW),
}
FEW = {"samples": 40, "test_samples": 20}


def test_every_method_is_in_both_tables():
    assert set(CLAIMS) == set(method_names())
    first = PAGE.split("## What each explains")[0]
    assert set(re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", first, flags=re.M)) != set()
    for name in method_names():
        assert f"`{name}`" in first, name


def test_costs_are_those_that_were_measured():
    """The ratios of the first table are those of Cora in speed.md, of the median times, within two fifths."""
    speed = (Path(__file__).parents[2] / "docs" / "speed.md").read_text()
    cora = re.search(r"<!-- bench: cora -->.*?<!-- ", speed, flags=re.S).group()
    rows = re.findall(r"^\| ([\w-]+) \| \d+ \| ([\d.,]+) \|", cora, flags=re.M)
    median = {name: float(ms.replace(",", "")) for name, ms in rows}
    said = re.findall(r"^\| `([\w-]+)`.*\| about (\d+) times (KEC|Saliency)'s[ ,|]", PAGE, flags=re.M)
    assert len(said) == 4
    for name, times, other in said:
        measured = median[name] / median[other.lower()]
        assert 0.6 * measured < float(times) < 1.4 * measured, f"{name}: {measured:.1f} times {other}'s"


@pytest.mark.parametrize("method", method_names())
def test_a_method_explains_what_the_matrix_says(method):
    says = CLAIMS[method]
    for column, call in CALLS.items():
        try:
            explanation = call(method)
        except gf.GraphfaithError:
            assert says[column] == "no", f"{method} cannot do: {column}"
        else:
            speaks = explanation.edge_mask.unique().numel() > 1  # and not the same of every edge
            assert says[column] == "no" or speaks, f"{method} says nothing of: {column}"
            assert says[column] != "no" or not speaks, f"{method} can do: {column}"
            if column == "node":
                has_error = explanation.get("estimate") is not None or explanation.get("edge_stderr") is not None
                assert says["error bar of its own"] == ("yes" if has_error else "no"), method
    moved = gf.explain(Net(), graph(), 1, method=method, neighborhood="U(X,0.2r)", **FEW)
    scored = moved.get("node_mask") is not None and moved.node_mask.unique().numel() > 2
    assert says["features"].startswith("yes" if scored or method == "shapley" else "no"), method


def test_shapley_scores_features_if_it_is_asked_to():
    assert 'of="features"' in CLAIMS["shapley"]["features"]
    explainer = Explainer(
        Net(),
        algorithm=gf.Shapley(of="features", num_samples=40),
        explanation_type="model",
        node_mask_type="attributes",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    assert explainer(graph().x, graph().edge_index, index=1).node_mask.any()
