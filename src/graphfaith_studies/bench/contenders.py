"""The contenders of the bench: every method of this library, and the peers that a user of PyG would choose."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer

from graphfaith._base.errors import UnsupportedError
from graphfaith.explainers import KEC, AnchoredKEC, FaithfulExplainer
from graphfaith.explainers.methods import method_named, method_names
from graphfaith.sampling import Neighborhood, UniformEdges, UniformFeatures
from graphfaith.surrogate.readings import Reading

from .case import Case, spread
from .plan import Plan
from .straightforward import fit_straightforward_kec
from .timing import Contender

EDGES, FEATURES = UniformEdges(0.5), UniformFeatures(0.2)

# These names appear in the tables, in addition to those of the library's methods.
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
ANCHORED_SLOPE = "anchored-kec, slope alone"
STRAIGHTFORWARD_FEATURES = "straightforward KEC, U(X,0.2r)"

_SLOW = ("gnnexplainer", "gnnexplainer-soft", "pgexplainer")

# A runner takes nodes and returns an iterator that computes one explanation per step.
Runner = Callable[[Sequence[int]], Iterator[Any]]


def check_peers() -> None:
    """Check that the libraries that the bench compares with are installed."""
    try:
        import captum  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("the bench compares with Captum, which is not installed: pip install captum") from error


def contenders_on(case: Case, plan: Plan) -> list[Contender]:
    """Return the contenders of every table: our methods on the whole graph, the peers on the computation graph."""
    slow_nodes = spread(case.nodes, plan.slow_nodes)
    ours = [
        Contender(
            name,
            slow_nodes if name in _SLOW else case.nodes,
            _whole_graph_runner(case, method_named(name).make_for(EDGES, plan.samples, 0)),
            name in _SLOW,
        )
        for name in method_names(in_all=True)
    ]
    saliency = CaptumExplainer("Saliency")
    integrated_gradients = CaptumExplainer("IntegratedGradients", n_steps=plan.ig_steps)
    gnn_explainer = GNNExplainer(epochs=plan.gnn_epochs)
    return [
        *ours,
        Contender(CAPTUM_SALIENCY, case.nodes, part_runner(case, saliency)),
        Contender(CAPTUM_IG, slow_nodes, part_runner(case, integrated_gradients), slow=True),
        Contender(GNN, slow_nodes, part_runner(case, gnn_explainer), slow=True),
        Contender(PG, slow_nodes, lambda nodes: _run_pg_explainer(case, nodes, plan.pg_epochs), slow=True),
        Contender(STRAIGHTFORWARD, slow_nodes, _straightforward_runner(case, EDGES, plan.samples), slow=True),
    ]


def whole_graph_contender(case: Case, plan: Plan, count: int) -> Contender:
    """Return PyG's GNNExplainer on the whole graph, which is how most users call it.

    It takes seconds per node, so it gets no warm-up.
    """
    explainer = _model_explainer(case, GNNExplainer(epochs=plan.gnn_epochs))

    def explanations(nodes: Sequence[int]) -> Iterator[Any]:
        for node in nodes:
            yield explainer(case.data.x, case.data.edge_index, index=node)

    return Contender(GNN_WHOLE, spread(case.nodes, count), explanations, slow=True, warm_up=False)


def kec_variants(case: Case, plan: Plan) -> list[Contender]:
    """Return KEC with many samples, KEC with perturbed features in two versions, and AnchoredKEC's slope alone."""
    slow_nodes = spread(case.nodes, plan.slow_nodes)
    straightforward = _straightforward_runner(case, FEATURES, plan.samples)
    return [
        Contender(KEC_MANY, case.nodes, _whole_graph_runner(case, KEC(EDGES, num_samples=plan.many_samples))),
        Contender(KEC_FEATURES, case.nodes, _whole_graph_runner(case, KEC(FEATURES, num_samples=plan.samples))),
        Contender(STRAIGHTFORWARD_FEATURES, slow_nodes, straightforward, slow=True),
        Contender(
            ANCHORED_SLOPE,
            case.nodes,
            _whole_graph_runner(case, AnchoredKEC(EDGES, num_samples=plan.samples, reading="slope")),
        ),
    ]


def part_contenders(case: Case, plan: Plan) -> list[Contender]:
    """Return KEC and Captum, called alike by PyG's Explainer on the computation graph, and both without a prediction.

    They are timed separately from the tables, because every computation graph that is passed as a graph takes a place
    in the cache of edge indices and would evict others.
    """
    return [
        Contender(KEC_PART, case.nodes, part_runner(case, KEC(EDGES, num_samples=plan.samples))),
        Contender(CAPTUM_SALIENCY, case.nodes, part_runner(case, CaptumExplainer("Saliency"))),
        Contender(CAPTUM_GIVEN, case.nodes, lambda nodes: _run_captum_with_class(case, nodes)),
        kec_contender(case, plan, "kec"),
    ]


def kec_contender(case: Case, plan: Plan, name: str, nodes: Sequence[int] | None = None) -> Contender:
    """Return KEC, one node at a time, under a given name, so that several graphs can be compared."""
    return Contender(
        name, case.nodes if nodes is None else nodes, _whole_graph_runner(case, KEC(EDGES, num_samples=plan.samples))
    )


def anchored_nodes(case: Case, plan: Plan) -> list[int]:
    """Return the nodes that AnchoredKEC explains together, evenly spaced if they are not all."""
    count = int(case.data.num_nodes)
    return spread(range(count), count if plan.anchored_nodes is None else plan.anchored_nodes)


def anchored_contender(case: Case, plan: Plan, name: str, nodes: Sequence[int], reading: Reading) -> Contender:
    """Return AnchoredKEC, one node at a time, with one of its readings."""
    algorithm = AnchoredKEC(EDGES, num_samples=plan.samples, reading=reading)
    return Contender(name, nodes, _whole_graph_runner(case, algorithm), slow=True)


def all_nodes_contender(
    case: Case,
    name: str,
    algorithm: FaithfulExplainer,
    nodes: Sequence[int] | None = None,
    *,
    masks: bool = False,
    threads: int = 1,
) -> Contender:
    """Return the explanations of many nodes, all if None, as a single piece of work, whose time is that of "node 0".

    The result is a table of scores, or an explanation with ``masks`` of the size of the graph for every node.
    """

    def explanations(_: Sequence[int]) -> Iterator[int]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            yield (
                sum(1 for _ in case.explanations(algorithm, nodes, together=None))
                if masks
                else len(case.records(algorithm, nodes))
            )
        finally:
            torch.set_num_threads(before)

    return Contender(name, [0], explanations, slow=True, warm_up=False)


def _whole_graph_runner(case: Case, algorithm: Any) -> Runner:
    return lambda nodes: case.explanations(algorithm, nodes)


def part_runner(case: Case, algorithm: Any) -> Runner:
    """Return a runner that explains each node in its computation graph, which is prepared before the timing."""
    explainer = _model_explainer(case, algorithm)

    def explanations(nodes: Sequence[int]) -> Iterator[Any]:
        parts = [case.part(node) for node in nodes]
        return (explainer(x, edge_index, index=0) for x, edge_index in parts)

    return explanations


def _straightforward_runner(case: Case, near: Neighborhood, samples: int) -> Runner:
    return lambda nodes: (fit_straightforward_kec(case.target(node), near, samples) for node in nodes)


def _model_explainer(case: Case, algorithm: Any) -> Explainer:
    # Each explainer gets its own copy of the model: after PyG's mask learners a layer's mask is a parameter, whereas
    # Captum's mask has no gradient.
    return replace(case, model=copy.deepcopy(case.model), labels=None).explainer_with(algorithm)


def _run_captum_with_class(case: Case, nodes: Sequence[int]) -> Iterator[Any]:
    """Run Captum's saliency with the class given, so that PyG's Explainer does not have to predict it."""
    model = copy.deepcopy(case.model)
    explainer = Explainer(
        model, CaptumExplainer("Saliency"), "phenomenon", case.task.model_config, "attributes", "object"
    )
    with torch.no_grad():
        inputs = [(*case.part(node), model(*case.part(node)).argmax(dim=-1)) for node in nodes]
    return (explainer(x, edge_index, target=target, index=0) for x, edge_index, target in inputs)


def _run_pg_explainer(case: Case, nodes: Sequence[int], epochs: int) -> Iterator[Any]:
    """Run PyG's PGExplainer, which has to be trained first.

    It is trained on the explained node alone, as a user with a single node to explain would do.
    """
    model = copy.deepcopy(case.model)
    with torch.no_grad():
        labels = [model(*case.part(node)).argmax(dim=-1) for node in nodes]

    def explain(node: int, target: Tensor) -> Any:
        x, edge_index = case.part(node)
        algorithm = PGExplainer(epochs=epochs, lr=0.003)
        explainer = Explainer(model, algorithm, "phenomenon", case.task.model_config, None, "object")
        for epoch in range(epochs):
            algorithm.train(epoch, model, x, edge_index, target=target, index=0)
        return explainer(x, edge_index, target=target, index=0)

    return (explain(node, target) for node, target in zip(nodes, labels, strict=True))
