"""Memory that is used again: what was handed to the user is never written to."""

from __future__ import annotations

import threading

import pytest
import torch
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith._base import scratch as module
from graphfaith._base.scratch import scratch
from graphfaith.metric.unfaithfulness import unfaithfulness_of
from graphfaith.model.target import Target
from reference import make_case

NEIGHBORHOODS = ["U(A,0.5)", "B(A,0.5)", "U(X,0.3r)", "U(X,0.3r)xU(A,0.5)", "U(X,0.3r)xB(A,0.3)"]
DTYPES = [torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def _nothing_is_held():
    vars(module._local).pop("held", None)


def held():
    return vars(module._local).get("held", {})


# The memory itself


def test_a_name_is_the_same_memory_again():
    first = scratch("a", 4, 5)
    assert (first.shape, first.dtype) == ((4, 5), torch.float32)
    assert first.is_contiguous()
    first.fill_(1.0)
    again = scratch("a", 20)
    assert again.data_ptr() == first.data_ptr()
    assert again.tolist() == [1.0] * 20
    assert scratch("a", 2, 3, dtype=torch.float64).data_ptr() == first.data_ptr()
    assert scratch("a", 2, 3, dtype=torch.float64).dtype == torch.float64


def test_names_share_nothing():
    first, second = scratch("a", 100), scratch("b", 100)
    first.zero_()
    second.fill_(1.0)
    assert first.sum() == 0


def test_more_is_asked_for_anew_and_kept():
    first = scratch("a", 10)
    first.zero_()
    more = scratch("a", 11)
    more.fill_(1.0)
    assert first.sum() == 0
    assert scratch("a", 10).data_ptr() == more.data_ptr()
    assert scratch("a", 5, dtype=torch.float64).data_ptr() == more.data_ptr()  # 40 of 44 bytes
    assert scratch("a", 6, dtype=torch.float64).data_ptr() != more.data_ptr()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), ()])
def test_little_or_nothing_can_be_asked_for(shape):
    assert scratch("a", *shape).shape == shape


def test_what_is_too_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(module, "_KEPT", 400)
    kept = scratch("a", 100)
    kept.zero_()
    assert scratch("a", 100).data_ptr() == kept.data_ptr()
    larger, another = scratch("a", 101), scratch("a", 101)
    larger.fill_(1.0)
    another.fill_(2.0)
    assert larger.sum() == 101
    assert kept.sum() == 0
    assert all(len(memory) <= 400 for memory in held().values())


def test_the_limit_is_one_for_all_names(monkeypatch):
    monkeypatch.setattr(module, "_KEPT", 400)
    scratch("a", 60)
    scratch("b", 20, dtype=torch.float64)
    assert {name: len(memory) for name, memory in held().items()} == {"a": 240, "b": 160}
    first, second = scratch("c", 1), scratch("c", 1)
    assert first.fill_(1.0).data_ptr() != second.fill_(2.0).data_ptr()
    assert "c" not in held()
    scratch("a", 61)
    assert sum(map(len, held().values())) <= 400


def test_the_limit_is_in_bytes():
    scratch("a", module._KEPT // 8 + 1, dtype=torch.float64)
    assert "a" not in held()
    scratch("b", module._KEPT // 8, dtype=torch.float64)
    assert len(held()["b"]) == module._KEPT
    del held()["b"]


def test_threads_have_their_own():
    own = scratch("a", 100)
    own.zero_()
    others = []

    def work():
        others.append(scratch("a", 100).fill_(1.0))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tensor.data_ptr() for tensor in [own, *others]}) == 4
    assert own.sum() == 0


# Who uses it


def target_of(case):
    return Target(case.model, case.x, case.edge_index, case.node, case.label, **case.kwargs)


def copied(perturbations):
    return [None if part is None else part.clone() for part in (perturbations.features, perturbations.edges)]


def same(first, second):
    return all((a is None and b is None) or torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("text", NEIGHBORHOODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_share_no_memory(text, dtype):
    part, near = target_of(make_case(dtype=dtype)).computation_graph, gf.parse_neighborhood(text)
    first = near.sample(part, 5, seed=1)
    before = copied(first)
    second = near.sample(part, 5, seed=2)
    gf.KEC(text, 20, seed=3).fit(target_of(make_case(dtype=dtype)))
    assert same(before, copied(first))
    for a, b in ((first.features, second.features), (first.edges, second.edges)):
        if a is not None:
            assert not torch.equal(a, b)
            a.zero_()
            assert b.abs().max() > 0
    chunks = list(near.chunks(part, 6, seed=1, size=2))
    assert same(copied(near.sample(part, 2, seed=1)), copied(chunks[0]))


@pytest.mark.parametrize("text", NEIGHBORHOODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_passing_samples_are_the_same_numbers(text, dtype):
    part, near = target_of(make_case(dtype=dtype)).computation_graph, gf.parse_neighborhood(text)
    scratch("features", 10_000).fill_(torch.nan)
    places = set()
    for number, chunk in enumerate(near.chunks(part, 7, seed=1, size=3, passing=True)):
        assert same(copied(chunk), copied(near.sample(part, min(3, 7 - 3 * number), 1, 3 * number)))
        if chunk.features is not None:
            places.add(chunk.features.data_ptr())
            chunk.features.fill_(torch.nan)
    if near.perturbs_features and dtype == torch.float32:
        assert places == {scratch("features", 1).data_ptr()}


@pytest.mark.parametrize("text", NEIGHBORHOODS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", [gf.KEC, gf.Linear])
def test_a_fit_is_unchanged_by_the_next_one(text, dtype, method):
    case = make_case(seed=5, nodes=9, edges=30, dtype=dtype)
    first = method(text, 30, seed=1).fit(target_of(case))
    before = {name: value.clone() for name, value in vars(first).items() if isinstance(value, torch.Tensor)}
    gradient = [part.clone() for part in first.gradient()]
    method(text, 30, seed=2).fit(target_of(make_case(seed=6, nodes=9, edges=30, dtype=dtype)))
    for memory in held().values():
        memory.fill_(255)  # which is not a number in any precision
    assert before
    for name, value in before.items():
        assert torch.equal(vars(first).get(name, value), value), name
    assert all(torch.equal(a, b) for a, b in zip(gradient, first.gradient(), strict=True))


@pytest.mark.parametrize("text", NEIGHBORHOODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_explanation_is_unchanged_by_the_next_one(text, dtype):
    case = make_case(seed=5, nodes=9, edges=30, dtype=dtype)
    explainer = Explainer(
        case.model,
        algorithm=gf.KEC(text, 30),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )

    def explain(node):
        return explainer(case.x, case.edge_index, index=node, **case.kwargs)

    first = explain(0)
    names = [name for name, value in first.to_dict().items() if isinstance(value, torch.Tensor)]
    before = {name: first[name].clone() for name in names}
    second = explain(1)
    assert {"node_mask", "edge_mask"} <= set(names)
    assert not torch.equal(first.edge_mask, second.edge_mask)
    for name, value in before.items():
        assert torch.equal(first[name], value), name
    again = explain(0)
    for name, value in before.items():
        assert torch.equal(again[name], value), name
        assert again[name].data_ptr() != first[name].data_ptr() or name in ("x", "edge_index", "edge_weight", "index")


@pytest.mark.parametrize("text", NEIGHBORHOODS)
def test_what_memory_held_before_changes_nothing(text):
    case = make_case(seed=5, nodes=9, edges=30, dtype=torch.float32)
    clean = gf.KEC(text, 30).fit(target_of(case))
    scores = unfaithfulness_of(target_of(case), [clean], text, 20, seed=9)[0].value
    for memory in held().values():
        memory.fill_(255)
    dirty = gf.KEC(text, 30).fit(target_of(case))
    assert torch.equal(clean.weights, dirty.weights)
    assert clean.in_sample_error == dirty.in_sample_error
    assert unfaithfulness_of(target_of(case), [dirty], text, 20, seed=9)[0].value == scores
