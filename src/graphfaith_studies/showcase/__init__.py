"""Trained models for tasks other than node classification: graph classification, forecasting and link prediction."""

from __future__ import annotations

from .forecast import Forecaster, TrainedForecaster, train_forecaster
from .links import LinkPredictor, LinkSplits, TrainedLinkPredictor, split_links, train_link_predictor
from .motifs import MotifClassifier, TrainedMotifClassifier, train_motif_classifier

__all__ = [
    "Forecaster",
    "LinkPredictor",
    "LinkSplits",
    "MotifClassifier",
    "TrainedForecaster",
    "TrainedLinkPredictor",
    "TrainedMotifClassifier",
    "split_links",
    "train_forecaster",
    "train_link_predictor",
    "train_motif_classifier",
]
