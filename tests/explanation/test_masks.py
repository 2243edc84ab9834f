import copy
import mmap
import pickle

import pytest
import torch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

from graphfaith import KEC
from graphfaith.explanation import masks as adapter
from graphfaith.explanation.digest import digest_of, scores_digest

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2, 0], [1, 2, 3, 4, 0, 2, 3]])


def refuse(*_, **__):
    raise OSError("no more maps")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("limit", [1, 1 << 30])
def test_zeros(monkeypatch, dtype, limit):
    monkeypatch.setattr(adapter, "_MAPPED", limit)
    made = adapter._zeros((5, 3), dtype)
    assert made.dtype == dtype
    assert torch.equal(made, torch.zeros(5, 3, dtype=dtype))
    made[2] = 7
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.clone()):
        assert torch.equal(other, made)
        other[2] = 1
        assert made[2].tolist() == [7, 7, 7]
    assert adapter._zeros((5, 3), dtype).sum() == 0
    assert adapter._zeros((0,), dtype).shape == (0,)


@pytest.mark.skipif(not hasattr(mmap, "MAP_ANONYMOUS"), reason="this system has no private maps")
def test_large_zeros_are_mapped_or_made_anyway(monkeypatch):
    tried = []
    monkeypatch.setattr(adapter.mmap, "mmap", lambda *_, **__: tried.append(1) or refuse())
    assert adapter._zeros((1 << 19,), torch.float64).sum() == 0
    assert tried == [1]
    assert adapter._zeros((9,), torch.float64).sum() == 0
    assert tried == [1]


@pytest.mark.parametrize("nodes", [None, "attributes", "object", "common_attributes"])
@pytest.mark.parametrize("edges", [None, "object"])
def test_the_digest_is_that_of_the_masks(nodes, edges):
    if nodes is None and edges is None:
        return
    torch.manual_seed(0)
    explainer = Explainer(
        GCN(3, 4, num_layers=1, out_channels=2),
        algorithm=KEC("U(A,0.5)"),
        explanation_type="model",
        node_mask_type=nodes,
        edge_mask_type=edges,
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    explanation = explainer(torch.rand(5, 3), EDGES, index=3)
    part = explanation.difference_model.graph
    assert explanation.scores_digest == scores_digest(explanation, part)
    explanation.self_loop_score[3] += 1
    assert explanation.scores_digest != scores_digest(explanation, part)


def test_a_digest_is_of_the_numbers_and_not_of_their_layout():
    matrix = torch.rand(3, 4)
    assert digest_of(matrix.T.contiguous().T) == digest_of(matrix)
    assert digest_of(torch.ones(5, 4)[:, ::2]) == digest_of(torch.ones(5, 2))
    assert digest_of(torch.ones(()).expand(1), torch.ones(()).expand(1, 1)) == digest_of(
        torch.ones(1), torch.ones(1, 1)
    )
    assert digest_of(torch.ones(()).expand(2)) == digest_of(torch.ones(2))
