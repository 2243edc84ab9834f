"""One suite of checks that every explainer has to pass, whoever wrote it.

It does for PyG's ``ExplainerAlgorithm`` what scikit-learn's ``check_estimator`` does for estimators. The checks use
PyG's public interface alone and a graph of twelve nodes, so the suite takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch_geometric.explain.algorithm import ExplainerAlgorithm

from .._base.errors import GraphfaithError, InputError
from . import calls, meaning, state
from .bench import Bench, NotApplicable, Violation, left_alone

__all__ = ["CHECKS", "CheckFailure", "CheckResult", "check_explainer"]

#: Every check by name; the docstring says what has to hold.
CHECKS: MappingProxyType[str, Callable[[Bench], None]] = MappingProxyType(
    {check.__name__: check for check in (*state.CHECKS, *meaning.CHECKS, *calls.CHECKS)}
)


class CheckFailure(GraphfaithError, AssertionError):
    """An algorithm fails checks; ``results`` has all of them."""

    def __init__(self, message: str, results: list[CheckResult]) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True)
class CheckResult:
    """What came of one check: ``passed`` is None where it does not apply, and ``message`` says why, or what failed."""

    name: str
    passed: bool | None
    message: str = ""

    @property
    def about(self) -> str:
        """What has to hold, in one line."""
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
    """Try an explanation algorithm of PyG on every check of the suite.

    A setting that the algorithm refuses when it is connected, by ``supports()`` or a ValueError, makes a check not
    applicable; a refusal later is a failure. Global random states and settings are put back at the end.

    Args:
        make: makes a new algorithm, with the same seed each time.
        signed: whether scores are derivatives, which scale with the model's output, or masks between 0 and 1. If
            None the algorithm's ``learns_mask`` says it; checks that need to know are left out if it has none.
        draws: whether the algorithm draws random numbers. Then equivalent graphs need only get scores that
            correlate, as what is drawn depends on the order of nodes and edges. If None it does if it has a ``seed``
            or uses a global generator.
        only: names of the checks to make; all of :data:`CHECKS` if None.
        expected_failures: limits that are known, from the name of a check to the reason; such a check counts as not
            applicable if it fails.
        raises: whether a failed check is an error.

    Returns:
        One result for each check.

    Raises:
        CheckFailure: with ``raises``, if a check fails; its text lists what failed and how.

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
            raise InputError(f"there is no check called {name!r}: they are {', '.join(CHECKS)}")
    if isinstance(make, ExplainerAlgorithm) or not callable(make):
        raise InputError(f"make must be a function that makes a new algorithm, e.g. `lambda: KEC(...)` (got {make!r})")
    with left_alone():
        bench = Bench(make, signed, draws)
        made = bench.make()
        if not isinstance(made, ExplainerAlgorithm):
            raise InputError(f"make must return an ExplainerAlgorithm of PyG (got {type(made).__name__})")
        results = [_excused(_result(name, bench), expected_failures) for name in names]
    failed = [result for result in results if result.passed is False]
    if raises and failed:
        listed = "\n".join(f"  {r.name}: {r.about}\n      {r.message}" for r in failed)
        raise CheckFailure(f"{type(made).__name__} fails {len(failed)} of {len(results)} checks:\n{listed}", results)
    return results


def _result(name: str, bench: Bench) -> CheckResult:
    try:
        with left_alone():
            CHECKS[name](bench)
    except NotApplicable as error:
        return CheckResult(name, None, str(error))
    except Violation as error:
        return CheckResult(name, False, str(error))
    except Exception as error:  # whatever a broken algorithm raises
        return CheckResult(name, False, f"raises {_one_line(error)}")
    return CheckResult(name, True)


def _excused(result: CheckResult, reasons: Mapping[str, str]) -> CheckResult:
    if result.passed is False and result.name in reasons:
        return CheckResult(result.name, None, f"known limit: {reasons[result.name]}")
    return result


def _one_line(error: Any) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{'...' if len(text) > 300 else ''}"
