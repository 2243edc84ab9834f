"""The paper's model on a data set, ready to be explained node by node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from graphfaith.data import MOTIF_DATASETS
from graphfaith.data.models import load_trained
from graphfaith.facade import Subject


@dataclass(frozen=True, eq=False)
class Setting(Subject):
    """A model on a graph, with its test accuracy."""

    test_accuracy: float = math.nan


@lru_cache(maxsize=2)
def setting(
    dataset: str, model_seed: int = 0, together: tuple[int, ...] | None = None, *, normalize: bool = True
) -> Setting:
    """Return the paper's model of a data set, trained with that seed or taken from the cache.

    ``together`` are the nodes of the experiment; on motifs the paper trains PGExplainer on all of them.
    """
    fit = load_trained(dataset, seed=model_seed, normalize=normalize)
    joint = together if dataset in MOTIF_DATASETS else None
    return Setting(fit.model, fit.data, together=joint, test_accuracy=fit.test_accuracy)
