"""The heterogeneous data sets: what is in them, and that their models learn them."""

from __future__ import annotations

import os

import pytest
import torch

from graphfaith.data import HETEROGENEOUS_DATASETS, hetero_ba_shapes, load_dataset
from graphfaith.data.heterogeneous import training_data
from graphfaith.data.models import accuracy_on_test, make_untrained, schedule_for, train


def test_shapes_are_the_same_again_and_differ_by_seed():
    one, same, other = hetero_ba_shapes(0), hetero_ba_shapes(0), hetero_ba_shapes(1)
    for kind in one.edge_types:
        assert torch.equal(one[kind].edge_index, same[kind].edge_index)
    assert one["circle"].num_nodes != other["circle"].num_nodes


def test_planted_motifs_are_houses_with_a_round_roof():
    data = hetero_ba_shapes()
    total = sum(int(data[kind].edge_label.sum()) for kind in data.edge_types)
    assert total == 40 * 12  # six edges in both directions
    roofs = (data["circle"].y == 2).nonzero().view(-1)
    links = data["circle", "to", "circle"]
    for roof in roofs.tolist():
        into = (links.edge_index[1] == roof) & (links.edge_label > 0)
        assert data["circle"].y[links.edge_index[0, into]].tolist() == [1, 1]
    decoys = data["square", "to", "square"]
    assert int(decoys.edge_label.sum()) == 40 * 2  # the bottoms


def test_a_few_epochs_learn_the_types():
    data = load_dataset("hetero-ba-shapes")
    model, seen = make_untrained("hetero-ba-shapes", data), training_data("hetero-ba-shapes", data)
    train(model, seen, epochs=60, lr=0.01, weight_decay=0.0)
    largest = float((data["circle"].y == 0).double().mean())
    assert accuracy_on_test(model, seen) > largest + 0.1


@pytest.mark.skipif("GRAPHFAITH_DATA" not in os.environ, reason="Cora's files are not here")
def test_cora_as_papers_and_words():
    data = load_dataset("cora-bibliography")
    assert data["paper"].num_nodes == 2708
    assert data["word"].num_nodes == 1433
    assert torch.equal(data["word", "in", "paper"].edge_index.flip(0), data["paper", "contains", "word"].edge_index)
    assert data["paper", "cites", "paper"].edge_index.size(1) == 10556
    assert set(HETEROGENEOUS_DATASETS) == {"hetero-ba-shapes", "cora-bibliography"}


@pytest.mark.skipif("GRAPHFAITH_DATA" not in os.environ, reason="Cora's files are not here")
def test_vectors_of_words_are_singular_vectors_of_the_papers():
    data = load_dataset("cora-bibliography")
    paper, word = data["paper", "contains", "word"].edge_index
    contains = torch.zeros(2708, 1433, dtype=torch.float64)
    contains[paper, word] = 1.0
    vectors = data["word"].x.double() / 1433**0.5
    assert torch.allclose(vectors.T @ vectors, torch.eye(32, dtype=torch.float64), atol=1e-5)
    values = (contains @ vectors).norm(dim=0)
    assert torch.allclose(values, torch.linalg.svdvals(contains)[:32], rtol=1e-5)


@pytest.mark.nightly
@pytest.mark.skipif("GRAPHFAITH_DATA" not in os.environ, reason="Cora's files are not here")
def test_papers_are_learnt_from_their_words_and_citations():
    data = load_dataset("cora-bibliography")
    model, seen = make_untrained("cora-bibliography", data), training_data("cora-bibliography", data)
    train(model, seen, **schedule_for("cora-bibliography")._asdict())
    assert accuracy_on_test(model, seen) > 0.65  # the largest class is 32 % of the test papers
