"""The figures of merit that the judge knows, with their direction and one line of words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .._base.errors import InputError, show
from ..metric.measured import Better

Group = Literal["delta", "fidelity", "robust", "sufficiency", "curves", "gef", "scores", "again", "training", "truth"]


@dataclass(frozen=True)
class Measure:
    """A figure of merit: what is computed together with it, in which direction it is better, and what it says."""

    name: str
    group: Group
    better: Better
    words: str


_ALL = (
    Measure("delta", "delta", "lower", "mean square of F's change that the explanation p does not foretell"),
    Measure("relative-delta", "delta", "lower", "the same as a share of F's own change; 1 is as good as nothing"),
    Measure("infidelity", "delta", "lower", "Delta of the scores alone, taken as a linear function (Captum's)"),
    Measure("infidelity-scaled", "delta", "lower", "the same after the best factor for all scores"),
    Measure("fidelity+", "fidelity", "higher", "what the model loses without the inside"),
    Measure("fidelity-", "fidelity", "lower", "what the model loses with the inside alone"),
    Measure(
        "label-fidelity+", "fidelity", "higher", "how often the class changes without the inside (PyG's fidelity+)"
    ),
    Measure("label-fidelity-", "fidelity", "lower", "how often it changes with the inside alone (PyG's fidelity-)"),
    Measure("characterization", "fidelity", "higher", "harmonic mean of fidelity+ and 1 - fidelity-"),
    Measure("robust-fidelity+", "robust", "higher", "what is lost without a few edges of the inside"),
    Measure("robust-fidelity-", "robust", "lower", "what is lost without a few edges of the outside"),
    Measure("sufficiency", "sufficiency", "higher", "the answer stays while the outside is perturbed"),
    Measure("necessity", "sufficiency", "higher", "the answer moves when a fixed number of edges inside is removed"),
    Measure("deletion", "curves", "higher", "mean loss as edges are removed, largest score first"),
    Measure("insertion", "curves", "lower", "mean loss as edges are added, largest score first"),
    Measure("gef", "gef", "lower", "GEF, which PyG calls unfaithfulness: divergence of the inside's probabilities"),
    Measure("sparsity", "scores", "higher", "share of edges that the scores are not spread over"),
    Measure("stability-noise", "again", "higher", "rank correlation of the scores with those of a noisy input"),
    Measure("stability-seed", "again", "higher", "rank correlation of the scores with those of another seed"),
    Measure("stability-training", "training", "higher", "rank correlation of the scores between trained models"),
    Measure("sensitivity-max", "again", "lower", "how far the scores move at most under noise (Captum's)"),
    Measure("roc-auc", "truth", "higher", "chance that a true entry has a larger score than another"),
    Measure("precision-at-k", "truth", "higher", "share of true entries among the k largest scores"),
    Measure("rank-agreement", "truth", "higher", "rank correlation with true contributions"),
    Measure("sign-agreement", "truth", "higher", "share of scores with the sign of the true contribution"),
    Measure("seconds", "scores", "lower", "seconds for one explanation, the shared training not counted"),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _ALL}


def expand_measures(names: str | Iterable[str]) -> list[str]:
    """Return names of measures, each once; "all" and the name of a group stand for several.

    >>> expand_measures(["robust", "sparsity"])
    ['robust-fidelity+', 'robust-fidelity-', 'sparsity']
    """
    if not isinstance(names, Iterable):
        raise InputError(f"measures must be names of them, or 'all' (got {show(names)})")
    found: list[str] = []
    for name in [names] if isinstance(names, str) else list(names):
        exact = [name] if name in MEASURES else []
        group = [one.name for one in _ALL if name == "all" or one.group == name]
        # "delta" and "sufficiency" are measures; their group is larger.
        if not exact and not group:
            raise InputError(f"unknown measure {name!r}: known are all, {', '.join(MEASURES)}")
        found += exact or group
    return list(dict.fromkeys(found))


def keep_defined(names: Iterable[str], *, mode: str, truth: bool, signed: bool | None, trainings: int) -> list[str]:
    """Return the measures that are defined for a task, a truth and so many trainings; raise an error if none is.

    ``signed`` says whether the truth has contributions with a sign; None if that is not known of all rows.

    >>> keep_defined(["fidelity+", "gef"], mode="regression", truth=False, signed=None, trainings=1)
    ['fidelity+']
    """
    kept, reasons = [], []
    for name in names:
        reason = ""
        if mode == "regression" and (name.startswith("label-") or name == "gef"):
            reason = "is of classes, and the task is a regression"
        elif MEASURES[name].group == "truth":
            of_signs = name.endswith("-agreement")
            if not truth:
                reason = "needs a truth"
            elif signed is not None and signed != of_signs:
                reason = f"needs a truth {'with signs' if of_signs else 'of zeros and ones'}"
        elif MEASURES[name].group == "training" and trainings < 2:
            reason = "needs several trainings of the model"
        if reason:
            reasons.append(f"{name} {reason}")
        else:
            kept.append(name)
    if not kept:
        raise InputError(f"nothing to judge by: {'; '.join(reasons) or 'name at least one measure, or all'}")
    return kept
