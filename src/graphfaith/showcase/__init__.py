"""Trained models for tasks beyond node classification: whole graphs, forecasts at nodes, and links."""

from __future__ import annotations

from graphfaith.showcase.forecast import Forecaster, TrainedForecaster, trained_forecaster
from graphfaith.showcase.links import (
    LinkPredictor,
    LinkSplits,
    TrainedLinkPredictor,
    split_links,
    trained_link_predictor,
)
from graphfaith.showcase.motifs import MotifClassifier, TrainedMotifClassifier, trained_motif_classifier

__all__ = [
    "Forecaster",
    "LinkPredictor",
    "LinkSplits",
    "MotifClassifier",
    "TrainedForecaster",
    "TrainedLinkPredictor",
    "TrainedMotifClassifier",
    "split_links",
    "trained_forecaster",
    "trained_link_predictor",
    "trained_motif_classifier",
]
