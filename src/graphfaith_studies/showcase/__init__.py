"""Trained models for tasks other than node classification: graph classification, forecasting and link prediction."""

from __future__ import annotations

from .forecast import Forecaster, TrainedForecaster, trained_forecaster
from .links import LinkPredictor, LinkSplits, TrainedLinkPredictor, split_links, trained_link_predictor
from .motifs import MotifClassifier, TrainedMotifClassifier, trained_motif_classifier

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
