"""The common parts of the checks: a tiny graph, tiny models, and functions that call an algorithm on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.explain import Explainer, Explanation
from torch_geometric.nn import GCNConv

NODES, FEATURES, CLASSES, HOPS = 12, 3, 3, 2
NODE_LEVEL = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}

# Node 0 is explained. Nodes 5, 7 and 8 are more than two hops away, nodes 9 and 10 form a separate component, and node
# 11 has no edge. There is an edge from node 0 to node 8, but messages of node 8 do not reach node 0 within two hops. An
# algorithm that follows edges in the wrong direction therefore gives itself away by a score for node 8.
_BOTH_WAYS = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 5), (5, 7), (6, 7), (7, 8), (9, 10))
_ONE_WAY = ((6, 1), (0, 8))
ISOLATED = 11


class Violation(Exception):
    """A check found a fault; the message describes it."""


class NotApplicable(Exception):
    """A check does not apply to this algorithm; the message says why."""


def require(holds: bool, message: str) -> None:
    """Raise a :class:`Violation` unless ``holds`` is true."""
    if not holds:
        raise Violation(message)


class Net(torch.nn.Module):
    """Two GCN layers with tanh between them, because unlike ReLU it sets no gradient to 0."""

    def __init__(self, out: int = CLASSES, *, scale: float = 1.0, norm: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, 4), GCNConv(4, out)
        self.norm = torch.nn.BatchNorm1d(4) if norm else torch.nn.Identity()
        self.dropout, self.scale = torch.nn.Dropout(dropout), scale
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return one row of outputs for each node."""
        hidden = torch.tanh(self.norm(self.first(x, edge_index, edge_weight)))
        out: Tensor = self.scale * self.second(self.dropout(hidden), edge_index, edge_weight)
        return out


class OtherOrder(Net):
    """A network with another argument before ``edge_weight``, which receives the weights if passed by position."""

    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return one row of outputs for each node."""
        out = super().forward(x, edge_index, edge_weight)
        return out if shift is None else out + shift.sum()


class Probabilities(Net):
    """A network that returns probabilities."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return one row of probabilities for each node."""
        out = super().forward(x, edge_index, edge_weight)
        return out.sigmoid() if out.size(1) == 1 else out.softmax(dim=-1)


class OfPairs(Net):
    """A network with one row of outputs for each pair of nodes in ``edge_label_index``."""

    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return one row of outputs for each pair."""
        out = super().forward(x, edge_index, edge_weight)
        return out[edge_label_index[0]] * out[edge_label_index[1]]


class OfGraph(Net):
    """A network with one row of outputs for the graph."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return one row of outputs."""
        return super().forward(x, edge_index, edge_weight).mean(dim=0, keepdim=True)


class Fragile(Net):
    """A network that raises an error on purpose when it is called for the ``fails_at``-th time."""

    MESSAGE = "this model fails on purpose"

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self.fails_at, self.calls = fails_at, 0

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return one row of outputs for each node, or raise an error."""
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError(self.MESSAGE)
        return super().forward(x, edge_index, edge_weight)


@dataclass(frozen=True)
class Case:
    """The arguments of one call of an algorithm."""

    model: torch.nn.Module
    x: Tensor
    edge_index: Tensor
    target: Tensor
    index: int | Tensor | None = 0
    kwargs: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the caller by name."""
        named = {"x": self.x, "edge_index": self.edge_index, "target": self.target, "index": self.index}
        return {name: value for name, value in (named | self.kwargs).items() if isinstance(value, Tensor)}


def make_case(
    model: Callable[[], torch.nn.Module] = Net,
    *,
    weighted: bool = False,
    dtype: torch.dtype = torch.float32,
    index: int | Tensor | None = 0,
) -> Case:
    """Return the graph and a model as new objects, always with the same numbers."""
    torch.manual_seed(0)
    net = model().to(dtype).eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm1d):  # The statistics should look like those of a trained model.
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(std=0.2)
            module.running_var.uniform_(0.5, 1.5)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NODES, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    target = torch.randint(CLASSES, (NODES,), generator=generator)
    edges = [pair for a, b in _BOTH_WAYS for pair in ((a, b), (b, a))] + list(_ONE_WAY)
    edge_index = torch.tensor(edges).T.contiguous()
    kwargs = {"edge_weight": make_weights(edge_index.size(1), dtype)} if weighted else {}
    return Case(net, x, edge_index, target, index, kwargs)


def make_weights(count: int, dtype: torch.dtype = torch.float32, seed: int = 2) -> Tensor:
    """Return ``count`` random edge weights between 0.5 and 2."""
    generator = torch.Generator().manual_seed(seed)
    return (0.5 + 1.5 * torch.rand(count, generator=generator, dtype=torch.float64)).to(dtype)


def hops_to(node: int, edge_index: Tensor) -> Tensor:
    """Return the number of hops from each node to ``node`` along the edges, or NODES if there is no path."""
    distance = torch.full((NODES,), NODES)
    distance[node] = 0
    for _ in range(NODES):
        source, sink = edge_index
        distance = distance.scatter_reduce(0, source, distance[sink] + 1, reduce="amin")
    return distance.clamp(max=NODES)


Scores = dict[str, Tensor]


def scores_of(explanation: Explanation) -> Scores:
    """Return the masks of an explanation by name."""
    return {name: explanation[name] for name in ("node_mask", "edge_mask") if explanation.get(name) is not None}


def describe_difference(scores: Scores, expected: Scores, tolerance: float = 1e-4) -> str | None:
    """Return a text about the first difference between two sets of masks, or None if they are equal up to rounding."""
    if scores.keys() != expected.keys():
        return f"the masks are {sorted(scores)}, not {sorted(expected)}"
    for name, mask in expected.items():
        other = scores[name]
        if other.shape != mask.shape:
            return f"{name} has shape {list(other.shape)}, not {list(mask.shape)}"
        largest = float(mask.abs().max()) if mask.numel() else 0.0
        if not torch.allclose(other.to(mask.dtype), mask, rtol=tolerance, atol=tolerance * max(largest, 1e-6)):
            return f"{name} differs by up to {float((other - mask).abs().max()):.3g} (its largest entry: {largest:.3g})"
    return None


def require_same(scores: Scores, expected: Scores, when: str, tolerance: float = 1e-4) -> None:
    """Raise a :class:`Violation` if two sets of masks differ by more than rounding."""
    difference = describe_difference(scores, expected, tolerance)
    require(difference is None, f"{when}: {difference}")


def require_usable(scores: Scores, case: Case, masks: tuple[str | None, str | None]) -> None:
    """Raise a :class:`Violation` unless every requested mask exists, has the right shape and is finite."""
    nodes, features = case.x.shape
    shapes = {"attributes": (nodes, features), "object": (nodes, 1), "common_attributes": (1, features)}
    expected: dict[str, tuple[int, ...]] = {}
    if masks[0] is not None:
        expected["node_mask"] = shapes[masks[0]]
    if masks[1] is not None:
        expected["edge_mask"] = (case.edge_index.size(1),)
    for name, shape in expected.items():
        require(name in scores, f"{name} is missing, although it was requested")
        require(tuple(scores[name].shape) == shape, f"{name} has shape {list(scores[name].shape)}, not {list(shape)}")
        require(bool(torch.isfinite(scores[name]).all()), f"{name} has an entry that is not finite")


def seed_everything(seed: int = 0) -> None:
    """Seed the global generators, for algorithms that draw from them."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


class Bench:
    """The algorithm under test; it makes new instances of the algorithm and calls them."""

    # The mask types that a check requests unless it needs particular ones, in order of preference. The first pair that
    # the algorithm accepts is used.
    _MASKS = (("attributes", "object"), (None, "object"), ("attributes", None), ("object", None))

    def __init__(self, make: Callable[[], Any], signed: bool | None = None, draws: bool | None = None) -> None:
        self.make, self._signed, self._draws = make, signed, draws

    def connect(
        self,
        model: torch.nn.Module,
        algorithm: Any = None,
        *,
        kind: str | None = None,
        masks: tuple[str | None, str | None] | None = None,
        config: dict[str, str] = NODE_LEVEL,
    ) -> Any:
        """Return an ``Explainer`` for ``model``; raise :class:`NotApplicable` if the algorithm refuses the settings."""
        node, edge = self.masks if masks is None else masks
        try:
            return Explainer(
                model,
                algorithm=self.make() if algorithm is None else algorithm,
                explanation_type=self.kind if kind is None else kind,
                node_mask_type=node,
                edge_mask_type=edge,
                model_config=config,
            )
        except ValueError as error:
            raise NotApplicable(f"the algorithm refuses the settings: {error}") from error

    @cached_property
    def _usual(self) -> tuple[str, tuple[str | None, str | None]]:
        refusal = NotApplicable("the algorithm refuses every setting")
        # A phenomenon is preferred because the check, and not the model, then chooses the target.
        for kind in ("phenomenon", "model"):
            for masks in self._MASKS:
                try:
                    self.connect(Net(), kind=kind, masks=masks)
                except NotApplicable as error:
                    refusal = error
                else:
                    return kind, masks
        raise refusal

    @property
    def kind(self) -> str:
        """The explanation type for checks that do not depend on it."""
        return self._usual[0]

    @property
    def masks(self) -> tuple[str | None, str | None]:
        """The mask types for checks that do not depend on them."""
        return self._usual[1]

    def explain(self, case: Case, algorithm: Any = None, *, seed: int | None = 0, **settings: Any) -> Explanation:
        """Call an algorithm through PyG's ``Explainer``, after seeding the global generators with ``seed``."""
        if seed is not None:
            seed_everything(seed)
        explainer = self.connect(case.model, algorithm, **settings)
        target = case.target if explainer.explanation_type.value == "phenomenon" else None
        return explainer(case.x, case.edge_index, target=target, index=case.index, **case.kwargs)

    def score(self, case: Case, algorithm: Any = None, **settings: Any) -> Scores:
        """Call an algorithm and return a copy of its masks, which a later call cannot change."""
        return {
            name: mask.detach().clone() for name, mask in scores_of(self.explain(case, algorithm, **settings)).items()
        }

    def prepare_call(self, case: Case, algorithm: Any = None, **settings: Any) -> Callable[[], Explanation]:
        """Return a function that calls the algorithm itself, without PyG's ``Explainer``.

        The ``Explainer`` changes the mode of the model and the arguments of the call, which would hide effects of the
        algorithm.
        """
        seed_everything()
        algorithm = self.make() if algorithm is None else algorithm
        self.connect(case.model, algorithm, **settings)
        index = torch.tensor([case.index]) if isinstance(case.index, int) else case.index
        return lambda: algorithm(case.model, case.x, case.edge_index, target=case.target, index=index, **case.kwargs)

    def require_phenomenon(self) -> None:
        """Raise :class:`NotApplicable` if the check cannot choose the class that is explained."""
        if self.kind != "phenomenon":
            raise NotApplicable("the algorithm explains only the predicted class")

    @cached_property
    def signed(self) -> bool | None:
        """Whether scores are derivatives, which scale with the output; None if this is not known."""
        if self._signed is not None:
            return self._signed
        learns = getattr(self.make(), "learns_mask", None)
        return None if learns is None else not learns

    @cached_property
    def draws(self) -> bool:
        """Whether the algorithm draws random numbers, so that its scores depend on the order of nodes and edges."""
        if self._draws is not None:
            return self._draws
        if hasattr(self.make(), "seed"):
            return True
        # These two draw random numbers themselves, so they must run before the states are compared.
        case, _ = make_case(), self._usual
        seed_everything()
        before = random_states()
        self.explain(case, seed=None)
        return random_states() != before


def random_states() -> dict[str, Any]:
    """Return the state of each global generator."""
    _, words, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (np.asarray(words).tobytes(), *rest),
        "python": random.getstate(),
    }


@contextmanager
def preserve_global_state() -> Iterator[None]:
    """Restore the global generators and settings at the end of the block."""
    state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    enabled = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)
        torch.set_grad_enabled(enabled)


def with_index(case: Case, index: int | Tensor | None) -> Case:
    """Return the same call with another index."""
    return replace(case, index=index)
