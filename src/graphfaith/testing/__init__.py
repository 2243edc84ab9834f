"""A suite of checks that every explainer should pass, those of this library and those of other authors.

It does for PyG's ``ExplainerAlgorithm`` what scikit-learn's ``check_estimator`` does for estimators. The checks use
only the public interface of PyG and a graph of twelve nodes, so the suite takes a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch_geometric.explain.algorithm import ExplainerAlgorithm

from .._base.errors import GraphfaithError, InputError
from .._base.progress import track
from . import calls, meaning, state, types
from .bench import Bench, NotApplicable, Violation, preserve_global_state

__all__ = ["CHECKS", "CheckFailure", "CheckResult", "check_explainer"]

CHECKS: MappingProxyType[str, Callable[[Bench], None]] = MappingProxyType(
    {check.__name__: check for check in (*state.CHECKS, *meaning.CHECKS, *calls.CHECKS, *types.CHECKS)}
)
"""All checks by name. The docstring of a check states the requirement."""


class CheckFailure(GraphfaithError, AssertionError):
    """An algorithm failed at least one check; ``results`` holds the results of all checks.

    Example:
        >>> import torch
        >>> from torch_geometric.explain import DummyExplainer
        >>> class Forgetful(DummyExplainer):
        ...     def forward(self, model, x, edge_index, **kwargs):
        ...         x.zero_()
        ...         return super().forward(model, x, edge_index, **kwargs)
        >>> try:
        ...     check_explainer(Forgetful, only=["inputs_unchanged"])
        ... except CheckFailure as failure:
        ...     print(failure.results[0].name, failure.results[0].passed)
        inputs_unchanged False
    """

    def __init__(self, message: str, results: list[CheckResult]) -> None:
        AssertionError.__init__(self, message)  # a list of failed checks has a line for each
        self.results = results


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    ``passed`` is None if the check does not apply. ``message`` then says why, and for a failed check it says what is
    wrong.

    Example:
        >>> from graphfaith import Saliency
        >>> (result,) = check_explainer(Saliency, only=["inputs_unchanged"])
        >>> print(result, "-", result.about)
        inputs_unchanged: ok - ...
    """

    name: str
    passed: bool | None
    message: str = ""

    @property
    def about(self) -> str:
        """The requirement that was checked, in one line."""
        return (CHECKS[self.name].__doc__ or "").strip()

    def __str__(self) -> str:
        word = {True: "ok", False: "FAILED", None: "not applicable"}[self.passed]
        return f"{self.name}: {word}" + (f" ({self.message})" if self.message else "")


def check_explainer(
    make: Callable[[], ExplainerAlgorithm],
    *,
    signed: bool | None = None,
    draws: bool | None = None,
    only: Iterable[str] | None = None,
    expected_failures: Mapping[str, str] = MappingProxyType({}),
    raises: bool = True,
) -> list[CheckResult]:
    """Run the checks of the suite on an explanation algorithm for PyG.

    If the algorithm refuses the settings of a check when it is connected to the model, by ``supports()`` or a
    ValueError, the check does not apply. A later refusal is a failure. Global random states and settings are restored
    at the end.

    Args:
        make: a function that makes a new algorithm, with the same seed each time.
        signed: whether scores are derivatives, which scale with the model's output, or masks between 0 and 1. If
            None, the attribute ``learns_mask`` of the algorithm decides; if the algorithm has no such attribute, the
            checks that depend on it do not apply.
        draws: whether the algorithm draws random numbers. If so, the scores on equivalent graphs only have to
            correlate, because the numbers depend on the order of nodes and edges. If None, it is assumed if the
            algorithm has a ``seed`` or uses a global generator.
        only: names of the checks to run; all of :data:`CHECKS` if None.
        expected_failures: known limits of the algorithm, as a mapping from the name of a check to the reason. If such
            a check fails, it counts as not applicable.
        raises: whether to raise an exception if a check fails.

    Returns:
        One result for each check.

    Raises:
        CheckFailure: if ``raises`` is True and a check fails; its text lists the failed checks and their messages.

    >>> from graphfaith import Saliency
    >>> from graphfaith.testing import check_explainer
    >>> for result in check_explainer(Saliency, only=["inputs_unchanged", "learnt_masks_between_0_and_1"]):
    ...     print(result)
    inputs_unchanged: ok
    learnt_masks_between_0_and_1: not applicable (scores are not known to be masks: ...)
    """
    names = list(CHECKS) if only is None else list(only)
    for name in (*names, *expected_failures):
        if name not in CHECKS:
            raise InputError(f"there is no check called {name!r}: the checks are {', '.join(CHECKS)}")
    if isinstance(make, ExplainerAlgorithm) or not callable(make):
        raise InputError(f"make must be a function that makes a new algorithm, e.g. `lambda: KEC(...)` (got {make!r})")
    with preserve_global_state():
        bench = Bench(make, signed, draws)
        algorithm = bench.make()
        if not isinstance(algorithm, ExplainerAlgorithm):
            raise InputError(f"make must return an ExplainerAlgorithm of PyG (got {type(algorithm).__name__})")
        results = [
            _excuse(_run_check(name, bench), expected_failures) for name in track(list(names), "checking", "checks")
        ]
    failed = [result for result in results if result.passed is False]
    if raises and failed:
        listed = "\n".join(f"  {r.name}: {r.about}\n      {r.message}" for r in failed)
        kind = type(algorithm).__name__
        raise CheckFailure(f"{kind} fails {len(failed)} of {len(results)} checks:\n{listed}", results)
    return results


def _run_check(name: str, bench: Bench) -> CheckResult:
    try:
        with preserve_global_state():
            CHECKS[name](bench)
    except NotApplicable as error:
        return CheckResult(name, None, str(error))
    except Violation as error:
        return CheckResult(name, False, str(error))
    except Exception as error:  # A broken algorithm may raise any exception.
        return CheckResult(name, False, f"raises {_format_error(error)}")
    return CheckResult(name, True)


def _excuse(result: CheckResult, reasons: Mapping[str, str]) -> CheckResult:
    """Return a failed check as not applicable if its failure is expected."""
    if result.passed is False and result.name in reasons:
        return CheckResult(result.name, None, f"known limit: {reasons[result.name]}")
    return result


def _format_error(error: Any) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{'...' if len(text) > 300 else ''}"
