"""The plant's windows as sequences: readings of several channels, [tags, steps, channels], are explained and scored."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import graphfaith as gf
from graphfaith_studies.plant.forecaster import Forecaster, Nowcaster
from graphfaith_studies.plant.plant import Plant

SHARES = torch.tensor([0.6, 0.3, 0.1])  # of a reading, in each channel
ASKED = {"mode": "regression", "samples": 60, "test_samples": 40}


class OfChannels(torch.nn.Module):
    """A model of windows whose readings are the sums of their channels."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, edge_weight=None):
        return self.model(x.sum(dim=-1), edge_index, edge_weight)


@pytest.mark.parametrize("kind", [Forecaster, Nowcaster])
def test_windows_of_several_channels_are_explained_as_those_of_one(kind):
    plant = Plant.named("swat")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, readings = kind(plant).eval(), torch.rand(len(plant), plant.window)
    flat = Data(x=readings, edge_index=plant.arrows)
    windows = Data(x=readings.unsqueeze(-1) * SHARES, edge_index=plant.arrows)
    tag = int(plant.arrows[1].bincount().argmax())
    channels, several = OfChannels(model), {"node": tag, **ASKED}
    one = gf.explain(model, flat, method="saliency", neighborhood="U(X,0.2r)", **several)
    many = gf.explain(channels, windows, method="saliency", neighborhood="U(X,0.2r)", **several)
    assert many.node_mask.shape == (len(plant), plant.window, len(SHARES))
    assert bool(one.node_mask.any())
    for channel in range(len(SHARES)):
        torch.testing.assert_close(many.node_mask[..., channel], one.node_mask)
    torch.testing.assert_close(many.edge_mask, one.edge_mask)
    fitted = gf.explain(channels, windows, neighborhood="U(X,0.2r)xU(A,0.5)", **several)
    assert fitted.node_mask.shape == windows.x.shape
    assert fitted.unfaithfulness.relative < 0.5
    strongest = fitted.top_features(1)[0]
    step, channel = map(int, strongest.names[1].split(","))
    moved = windows.x.clone()
    moved[strongest.node, step, channel] = 0.0
    with torch.no_grad():
        change = (channels(moved, plant.arrows) - channels(windows.x, plant.arrows))[tag]
    asked = fitted.what_if(set={(strongest.node, step, channel): 0.0}, check=True)
    assert asked.actual == pytest.approx(float(change), abs=1e-6)
