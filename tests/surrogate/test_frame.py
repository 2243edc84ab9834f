"""The compiled fit of KEC, against the one for any neighbourhood and solver."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import graphfaith as gf
from graphfaith.surrogate import frame
from graphfaith.surrogate.frame import Frame, fit_at_once
from reference import cases, make_case
from walking import KINDS, part_of, several, some_values


def both_fits(part, hops, kind, threshold, relative, seed=0, values=None):
    values = some_values(part, 30, zeros=False, seed=seed).T if values is None else values
    change = torch.randn(len(values) - 1, generator=torch.Generator().manual_seed(seed)).double()
    kec = gf.KEC("U(A,0.5)", normalization=kind, threshold=threshold, relative=relative)
    own = Frame.of(part, hops)
    rows, phi = own.features(values, kind)
    return own.solve(phi, change, rows, kind, threshold, relative), kec.fit_given(part, hops, values, change)


@pytest.mark.parametrize("kind", KINDS)
@given(
    case=cases,
    seeds=several,
    hops=st.integers(1, 3),
    whole=st.booleans(),
    threshold=st.sampled_from([1e-4, 1e-2]),
    relative=st.booleans(),
)
def test_the_fit_is_the_general_one(kind, case, seeds, hops, whole, threshold, relative):
    part = part_of(case, seeds, hops, whole)
    # Where rows do not change but by rounding, a relative threshold keeps nothing else.
    assume(
        not relative or abs(Frame.of(part, hops).features(some_values(part, 30, zeros=False).T, kind)[1]).max() > 1e-9
    )
    fast, right = both_fits(part, hops, kind, threshold, relative)
    if fast is None:
        return  # Another test says when that happens.
    assert fast.in_sample_error == pytest.approx(right.in_sample_error, rel=1e-6, abs=1e-12)
    moved = gf.parse_neighborhood("U(A,0.5)").sample(part, 20, 5)
    change = right.change(moved)
    torch.testing.assert_close(fast.change(moved), change, rtol=1e-6, atol=1e-7 * max(1.0, float(change.abs().max())))
    for mine, other in zip(fast.gradient(), right.gradient(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6 * max(1.0, float(other.abs().max())))


@pytest.mark.parametrize("kind", KINDS)
@given(case=cases, node=st.integers(0, 3), hops=st.integers(1, 3), whole=st.booleans())
def test_the_fit_by_one_call_is_the_one_in_steps(kind, case, node, hops, whole):
    part = part_of(case, [node], hops, whole)
    values = some_values(part, 30, zeros=False).T.clone()
    values[0] = part.weight.double()
    change = torch.randn(len(values) - 1, generator=torch.Generator().manual_seed(0)).double()
    fast = fit_at_once(part, hops, values, change, kind, 1e-4, False)
    own = Frame.of(part, hops)
    rows, phi = own.features(values, kind)
    right = own.solve(phi, change, rows, kind, 1e-4, False)
    if fast is None:  # F is not read from the first node, or singular values have to be left out.
        return
    assert fast.in_sample_error == pytest.approx(right.in_sample_error, rel=1e-9, abs=1e-15)
    for name in ("rows", "weights"):
        torch.testing.assert_close(getattr(fast, name), getattr(right, name), rtol=1e-7, atol=1e-9)
    for mine, other in zip(fast.gradient(), right.gradient(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-9 * max(1.0, float(other.abs().max())))


def test_the_fit_by_one_call_is_made_where_f_is_read_from_one_node():
    part = part_of(make_case(seed=4, nodes=8, edges=40), [2], 2)
    values, change = some_values(part, 60, zeros=False).T, torch.linspace(-1, 1, 60).double()
    assert fit_at_once(part, 2, values, change[: len(values) - 1], "symmetric", 1e-4, False) is not None


def test_features_too_close_to_dependent_are_left_to_the_general_fit():
    case = make_case(seed=4, nodes=8, edges=40)
    case.x = 1e6 * (torch.ones_like(case.x) + 1e-9 * case.x)  # two rows differ by a billionth
    part = part_of(case, [2], 2)
    fast, right = both_fits(part, 2, "symmetric", 1e-4, False)
    assert fast is None
    assert torch.isfinite(right.weights).all()


def test_large_features_are_left_to_lapack(monkeypatch):
    part = part_of(make_case(seed=4), [2], 2)
    assert Frame.of(part, 2) is not None
    monkeypatch.setattr(frame, "_MOST", 10)
    assert Frame.of(part, 2) is None


def test_half_precision_features_are_read():
    case = make_case(seed=5)
    part = part_of(case, [2], 2)
    exact = Frame.of(part, 2)
    object.__setattr__(part, "x", part.x.half())
    rough = Frame.of(part, 2)
    assert rough.factor.shape == exact.factor.shape
    assert not (rough.factor == exact.factor).all()
