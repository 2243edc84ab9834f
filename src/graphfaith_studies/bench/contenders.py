"""Who is timed: every method here, and the peers that a user of PyG would pick."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer

from graphfaith._base.errors import UnsupportedError
from graphfaith.compare import ALL_METHODS, METHODS, MODEL_CONFIG
from graphfaith.explainers import KEC
from graphfaith.sampling.neighborhood import Neighborhood, UniformEdges, UniformFeatures

from .case import Case, spread
from .plan import Plan
from .straightforward import straightforward_kec
from .timing import Contender

EDGES, FEATURES = UniformEdges(0.5), UniformFeatures(0.2)

# Names in the tables, beside those of METHODS.
CAPTUM_SALIENCY = "Captum saliency"
CAPTUM_GIVEN = "Captum saliency, class given"
CAPTUM_IG = "Captum integrated gradients"
GNN = "PyG GNNExplainer"
GNN_WHOLE = "PyG GNNExplainer, whole graph"
PG = "PyG PGExplainer"
STRAIGHTFORWARD = "straightforward KEC"
KEC_PART = "kec, on the computation graph"
KEC_MANY = "kec, 1500 samples"
KEC_FEATURES = "kec, U(X,0.2r)"
STRAIGHTFORWARD_FEATURES = "straightforward KEC, U(X,0.2r)"

_SLOW = ("gnnexplainer", "gnnexplainer-soft", "pgexplainer")


def check_peers() -> None:
    """See that the libraries to be compared with are there."""
    try:
        import captum  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("the bench compares with Captum, which is not installed: pip install captum") from error


def contenders_on(case: Case, plan: Plan) -> list[Contender]:
    """Those that every table has: our methods on the whole graph, the peers on the computation graph."""
    slow = spread(case.nodes, plan.slow_nodes)
    ours = [
        Contender(
            name,
            slow if name in _SLOW else case.nodes,
            _ours(case, METHODS[name](EDGES, plan.samples, 0)),
            name in _SLOW,
        )
        for name in ALL_METHODS
    ]
    return [
        *ours,
        Contender(CAPTUM_SALIENCY, case.nodes, _on_part(case, CaptumExplainer("Saliency"))),
        Contender(
            CAPTUM_IG, slow, _on_part(case, CaptumExplainer("IntegratedGradients", n_steps=plan.ig_steps)), slow=True
        ),
        Contender(GNN, slow, _on_part(case, GNNExplainer(epochs=plan.gnn_epochs)), slow=True),
        Contender(PG, slow, lambda nodes: _pg_on_part(case, nodes, plan.pg_epochs), slow=True),
        Contender(STRAIGHTFORWARD, slow, _straightforward(case, EDGES, plan.samples), slow=True),
    ]


def whole_graph_contender(case: Case, plan: Plan, count: int) -> Contender:
    """PyG's GNNExplainer as people call it. It takes seconds a node, so there is no warm-up."""
    explainer = _model_explainer(case, GNNExplainer(epochs=plan.gnn_epochs))

    def explanations(nodes: Sequence[int]) -> Iterator[Any]:
        for node in nodes:
            yield explainer(case.data.x, case.data.edge_index, index=node)

    return Contender(GNN_WHOLE, spread(case.nodes, count), explanations, slow=True, warm_up=False)


def variants_on(case: Case, plan: Plan) -> list[Contender]:
    """KEC with many samples, and with features moved, beside its straightforward version."""
    slow = spread(case.nodes, plan.slow_nodes)
    return [
        Contender(KEC_MANY, case.nodes, _ours(case, KEC(EDGES, plan.many_samples))),
        Contender(KEC_FEATURES, case.nodes, _ours(case, KEC(FEATURES, plan.samples))),
        Contender(STRAIGHTFORWARD_FEATURES, slow, _straightforward(case, FEATURES, plan.samples), slow=True),
    ]


def on_the_same_part(case: Case, plan: Plan) -> list[Contender]:
    """KEC given the computation graph alone, as Captum is, both by PyG's Explainer; and both without a prediction.

    Apart from the tables, because each such graph takes a place among those whose index is remembered.
    """
    return [
        Contender(KEC_PART, case.nodes, _on_part(case, KEC(EDGES, plan.samples))),
        Contender(CAPTUM_SALIENCY, case.nodes, _on_part(case, CaptumExplainer("Saliency"))),
        Contender(CAPTUM_GIVEN, case.nodes, lambda nodes: _captum_given(case, nodes)),
        kec_on(case, plan, "kec"),
    ]


def _captum_given(case: Case, nodes: Sequence[int]) -> Iterator[Any]:
    """Captum's saliency of a class that is given, so that PyG's Explainer predicts nothing."""
    model = copy.deepcopy(case.model)
    explainer = Explainer(model, CaptumExplainer("Saliency"), "phenomenon", MODEL_CONFIG, "attributes", "object")
    with torch.no_grad():
        given = [(*case.part(node), model(*case.part(node)).argmax(dim=-1)) for node in nodes]
    return (explainer(x, edge_index, target=target, index=0) for x, edge_index, target in given)


def kec_on(case: Case, plan: Plan, name: str, nodes: Sequence[int] | None = None) -> Contender:
    """KEC one node at a time under another name, to set graphs beside each other."""
    return Contender(name, case.nodes if nodes is None else nodes, _ours(case, KEC(EDGES, plan.samples)))


def all_nodes(case: Case, plan: Plan, name: str) -> Contender:
    """KEC of every node of the graph as one piece of work, which is filed under node 0."""

    def explanations(_: Sequence[int]) -> Iterator[int]:
        count = 0
        for _explanation in case.explanations(KEC(EDGES, plan.samples), None, together=None):
            count += 1
        yield count

    return Contender(name, [0], explanations, slow=True, warm_up=False)


def _ours(case: Case, algorithm: Any) -> Callable[[Sequence[int]], Iterator[Any]]:
    return lambda nodes: case.explanations(algorithm, nodes)


def _model_explainer(case: Case, algorithm: Any) -> Explainer:
    # On a copy of the model: after PyG's mask learners a layer's mask is a parameter, and Captum's has no gradient.
    return Explainer(copy.deepcopy(case.model), algorithm, "model", MODEL_CONFIG, "attributes", "object")


def _on_part(case: Case, algorithm: Any) -> Callable[[Sequence[int]], Iterator[Any]]:
    explainer = _model_explainer(case, algorithm)

    def explanations(nodes: Sequence[int]) -> Iterator[Any]:
        parts = [case.part(node) for node in nodes]
        return (explainer(x, edge_index, index=0) for x, edge_index in parts)

    return explanations


def _pg_on_part(case: Case, nodes: Sequence[int], epochs: int) -> Iterator[Any]:
    """PyG's PGExplainer is trained before it explains; here on the one node, as a user with one question would."""
    model = copy.deepcopy(case.model)
    with torch.no_grad():
        labels = [model(*case.part(node)).argmax(dim=-1) for node in nodes]

    def explain(node: int, target: Tensor) -> Any:
        x, edge_index = case.part(node)
        algorithm = PGExplainer(epochs=epochs, lr=0.003)
        explainer = Explainer(model, algorithm, "phenomenon", MODEL_CONFIG, None, "object")
        for epoch in range(epochs):
            algorithm.train(epoch, model, x, edge_index, target=target, index=0)
        return explainer(x, edge_index, target=target, index=0)

    return (explain(node, target) for node, target in zip(nodes, labels, strict=True))


def _straightforward(case: Case, near: Neighborhood, samples: int) -> Callable[[Sequence[int]], Iterator[Any]]:
    return lambda nodes: (straightforward_kec(case.target(node), near, samples) for node in nodes)
