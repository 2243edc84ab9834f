"""What every explainer here has in common: from PyG's call to a target, a fitted p, and an explanation."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import ExplainerConfig, ModelConfig

from .._base.checks import check_count, check_seed
from .._base.errors import InputError, UnsupportedError
from .._base.memory import parse_memory
from .._base.stages import stage
from .._base.threads import one_thread
from .._base.version import __version__
from ..explanation.masks import Explained, lay_out_scores, make_target
from ..explanation.typed import TypedExplanation, by_type, joint_for
from ..graph.form import is_categorical
from ..graph.graph import Graph, check_edge_index, check_features
from ..graph.joint import kinds_of
from ..graph.kinds import EdgeType
from ..graph.packed import Column
from ..model.adapter import reason_to_adapt
from ..model.call import Edges, check_edges
from ..model.home import check_home, check_typed_home
from ..model.layers import heterogeneous_part, unwrap
from ..model.record import evaluating
from ..model.target import PlacedAnewError, Target
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from ..sampling.perturbations import Perturbations
from ..surrogate.difference import DifferenceModel

Samples = int | Literal["auto"]

_LOG = logging.getLogger(__name__)


class FaithfulExplainer(ExplainerAlgorithm):  # type: ignore[misc]  # PyG is not typed
    """A method whose explanation is a local difference model p; a new method overrides :meth:`fit`.

    Use it as any of PyG's: ``torch_geometric.explain.Explainer(model, algorithm=..., ...)``. A subclass keeps each
    argument of its constructor as an attribute of the same name, so that ``repr`` and explanations can show it.

    Args:
        num_hops: M, the reach of the model; counted from its message-passing layers if None.
        edges: what A is: the model's edge weights ("weight"), factors of its messages, where an edge whose entry is 0
            is removed ("removal") or still counted ("mask"), or the first if the model has weights and else the second
            ("auto").
        max_memory: bytes, or text such as "500 MB", that an explanation may take; more is refused beforehand.

    >>> import graphfaith as gf
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.nn import GCN
    >>> ring = Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> class Zeros(gf.FaithfulExplainer):
    ...     method = "Zeros"
    ...     def fit(self, target):
    ...         return gf.LinearModel(target.computation_graph)
    >>> model = GCN(2, 4, num_layers=2, out_channels=3)
    >>> gf.register_method("zeros", Zeros)
    >>> explanation = gf.explain(model, ring, 1, method="zeros")
    >>> explanation.method, float(explanation.edge_mask.abs().sum()), explanation.unfaithfulness.relative
    ('Zeros', 0.0, 1.0)
    """

    method: ClassVar[str]
    explains_types: ClassVar[bool] = True  # whether graphs of several types of nodes and edges can be explained
    learns_mask: ClassVar[bool] = False  # whether scores are masks on the graph rather than derivatives of p
    fits_soon: ClassVar[bool] = False  # whether ``fit`` evaluates F on samples before it does anything that takes long
    follows_slopes: ClassVar[bool] = False  # whether scores of features come from F's derivatives, and from no samples

    def __init__(
        self, *, num_hops: int | None = None, edges: Edges = "auto", max_memory: int | str | None = None
    ) -> None:
        super().__init__()
        self.num_hops = None if num_hops is None else check_count(num_hops, "num_hops")
        self.edges, self.max_memory = check_edges(edges), parse_memory(max_memory)

    @abstractmethod
    def fit(self, target: Target) -> DifferenceModel:
        """Return the p of this method for ``target``."""

    def scores(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor]:
        """Return the scores of features [n, d] and of entries of A [e]: the gradient of p."""
        return p.gradient()

    def errors(self, p: DifferenceModel) -> tuple[Tensor | None, Tensor | None]:  # noqa: ARG002
        """Return the standard errors of the scores, as far as they are known."""
        return None, None

    def details(self, p: DifferenceModel) -> dict[str, Any]:  # noqa: ARG002
        """Return further fields of the explanation."""
        return {}

    @property
    def moves_features(self) -> bool:
        """Whether p was fitted to samples in which features move."""
        return False

    def scores_features(self, explained: Explained) -> bool:
        """Return whether the scores of features say anything; else the node mask that PyG asks for is none."""
        # Categories have no derivative: only samples show what another one would do.
        return explained.baseline is None or self.moves_features

    @property
    def _may_prove_later(self) -> bool:
        """Whether the part may be proven by the first evaluation of F, because that is soon."""
        return self.fits_soon and type(self).target is FaithfulExplainer.target

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that this method was made with, as plain values."""
        names = [name for name, _ in _arguments(type(self))]
        values = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {name: str(value) if isinstance(value, Neighborhood) else value for name, value in values.items()}

    def __repr__(self) -> str:
        """Return the call that makes this method again, without the arguments that have their default."""
        defaults = dict(_arguments(type(self)))
        shown = {name: value for name, value in self.settings.items() if value != defaults.get(name)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def forward(
        self,
        model: Any,
        x: Tensor | dict[str, Tensor],
        edge_index: Tensor | dict[EdgeType, Tensor],
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation | TypedExplanation:
        """Explain the rows of the model's output that ``index`` names; called by PyG's ``Explainer``.

        A heterogeneous graph is explained as one graph (:mod:`graphfaith.graph.kinds`), and its scores are laid out by
        type.
        """
        if isinstance(x, dict):
            self.check_call(model, x, edge_index)
            level = self.model_config.task_level.value
            joint = joint_for(self, model, x, edge_index, kwargs, level, self.edges)  # type: ignore[arg-type]
            given = joint.graph, None, joint.index(index), joint.rows(target), joint.arguments
            with self._fitting(joint.model, *given) as explained:
                explanation = self.explanation(explained, self._fit_proven(explained))
                typed = by_type(explanation, joint.kinds, joint.model.attributes)
            typed.node_type = joint.model.node_type
            return typed
        with self._fitting(model, x, edge_index, index, target, kwargs) as explained:
            return self.explanation(explained, self._fit_proven(explained))

    def fit_row(
        self,
        model: torch.nn.Module,
        x: Tensor | Graph,
        edge_index: Tensor | None,
        index: int,
        labels: Tensor | Column | None,
        kwargs: dict[str, Any],
    ) -> tuple[Target, DifferenceModel]:
        """Return the F of one row of the model's output and its p, without masks of the size of the graph."""
        with self._fitting(model, x, edge_index, index, labels, kwargs) as explained:
            return explained, self._fit_proven(explained)

    def _fit_proven(self, explained: Target) -> DifferenceModel:
        """Return the p of this method on a part that the model gives the same on as on the whole graph."""
        try:
            p = self.fit(explained)
            explained.prove()
        except PlacedAnewError:
            p = self.fit(explained)
        return p

    @contextmanager
    def _fitting(self, model: torch.nn.Module, *what: Any) -> Iterator[Target]:
        """Make the target of :meth:`target` with these arguments, and fit to it inside."""
        # Scores are derivatives, and inference mode has none.
        with torch.inference_mode(False), evaluating(model):
            self.check_call(model, *what[:2])
            with stage("subgraph"):
                options: dict[str, Any] = {"later": True} if self._may_prove_later else {}
                explained = self.target(model, *what, **options)
            with one_thread(explained.call.is_small):
                yield explained

    def check_call(self, model: torch.nn.Module, x: Any, edge_index: Any) -> None:
        """Check what PyG's ``Explainer`` is called with, as far as that takes no time; a fault is an error.

        PyG runs the model before it calls :meth:`forward`, and the model would fail on such tensors in its own words.
        """
        reason = self.unsupported(model, x, edge_index)
        if reason is not None:
            raise UnsupportedError(f"{type(self).__name__} {reason}")
        if isinstance(x, dict):
            kinds_of(x, edge_index)
            check_typed_home(model, x=x, edge_index=edge_index)
        elif not isinstance(x, Graph):  # which has been checked
            check_features(x)
            check_edge_index(edge_index)
            check_home(model, {"x": x, "edge_index": edge_index})

    def explanation(
        self, explained: Explained, p: DifferenceModel, scores: tuple[Tensor | None, Tensor] | None = None
    ) -> Explanation:
        """Return the scores of ``p`` in PyG's masks; ``scores`` are :meth:`scores` if they are known already."""
        with stage("gradient"):
            node_score, edge_score = self.scores(p) if scores is None else scores
            errors = self.errors(p)
            if explained.baseline is not None and not self.moves_features:
                # Categories have no derivative, and no sample has shown what another one would do.
                node_score, errors = None, (None, errors[1])
        with stage("layout"):
            return lay_out_scores(
                explained,
                p,
                node_score,
                edge_score,
                errors=errors,
                as_mask=self.learns_mask,
                node_mask_type=self.explainer_config.node_mask_type,
                edge_mask_type=self.explainer_config.edge_mask_type,
                method=self.method,
                settings=self.settings,
                made_by=f"graphfaith {__version__}",
                attribute_score=getattr(p, "phi_e", None),
                **self.details(p),
            )

    def target(
        self,
        model: torch.nn.Module,
        x: Tensor | Graph,
        edge_index: Tensor | None,
        index: int | Tensor | None,
        labels: Tensor | Column | None,
        kwargs: dict[str, Any],
        *,
        later: bool = False,
    ) -> Target:
        """Return the F(X, A) that this method would explain; ``labels`` is PyG's target, the class of every row.

        ``later`` is for a caller that proves F later; see :meth:`Target.prove`.
        """
        options = {"num_hops": self.num_hops, "edges": self.edges, "max_memory": self.max_memory, "_later": later}
        return make_target(model, x, edge_index, index, labels, self.model_config, kwargs, **options)

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Return why the connected settings, or this model and graph, cannot be used; None if they can."""
        reason = None if model is None else reason_to_adapt(unwrap(model), edge_index)
        if reason is not None:
            return reason
        typed = isinstance(x, dict) or (isinstance(x, Graph) and x.kinds is not None)
        if x is not None and edge_index is not None and isinstance(x, dict) != isinstance(edge_index, dict):
            return "needs dictionaries of both x and edge_index for a graph of several types, and else tensors of both"
        if typed and not self.explains_types:
            return (
                "explains homogeneous graphs; this one has several node or edge types: use AnchoredKEC or KEC, or a "
                "model of the graph that data.to_homogeneous() makes, with RGCNConv for example"
            )
        part = None if model is None or typed or x is None else heterogeneous_part(model)
        if part is not None:
            return f"was given one graph, and the model has several node or edge types ({part}): call it with x_dict"
        connected = self.connected
        ids = any(map(is_categorical, x.values() if isinstance(x, dict) else (x,)))
        if self.follows_slopes and ids and (connected is None or connected.node_mask_type is not None):
            game = "" if typed else 'or by Shapley(of="features"), '
            return (
                "scores features by derivatives, and x has ids of categories, which have none: pass "
                "node_mask_type=None to explain edges alone, explain features by AnchoredKEC, KEC or Linear in "
                "B(X,0.5), where the most frequent category replaces others, "
                f"{game}or pass x.float() if they are numbers"
            )
        return None

    @property
    def connected(self) -> ExplainerConfig | None:
        """The settings of the ``Explainer`` that this method belongs to; None if there is none yet."""
        return getattr(self, "_explainer_config", None)

    def supports(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> bool:
        """Return whether the connected settings, and a model and graph if given, can be used; log the reason if not."""
        reason = self.unsupported(model, x, edge_index)
        if reason is not None:
            _LOG.error("%s %s", type(self).__name__, reason)
        return reason is None

    def connect(self, explainer_config: ExplainerConfig, model_config: ModelConfig) -> None:
        """Connect to an ``Explainer``; settings that cannot be used are an error that says why."""
        self._explainer_config = ExplainerConfig.cast(explainer_config)
        self._model_config = ModelConfig.cast(model_config)
        reason = self.unsupported()
        if reason is not None:
            raise UnsupportedError(f"{type(self).__name__} {reason}")


class FittedExplainer(FaithfulExplainer):
    """A method whose p is fitted to samples of a neighbourhood.

    Args:
        neighborhood: where p has to follow F, e.g. ``UniformEdges(0.5)`` or ``"U(A,0.5)"``.
        num_samples: how many perturbed graphs to fit on; "auto" if the method can tell when it has enough.
        seed: names the samples.

    ``num_hops``, ``edges`` and ``max_memory`` are those of every method here (:class:`FaithfulExplainer`).

    >>> import graphfaith as gf
    >>> issubclass(gf.KEC, gf.FittedExplainer), issubclass(gf.Saliency, gf.FittedExplainer)
    (True, False)
    >>> gf.KEC("B(A,0.5)", num_samples=50).settings["num_samples"]
    50
    """

    chooses_samples: ClassVar[bool] = False  # whether num_samples may be "auto"

    def __init__(
        self,
        neighborhood: Neighborhood | str,
        *,
        num_samples: Samples = 200,
        seed: int = 0,
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(num_hops=num_hops, edges=edges, max_memory=max_memory)
        self.neighborhood, self.seed = as_neighborhood(neighborhood), check_seed(seed)
        if isinstance(num_samples, str):
            if num_samples != "auto" or not self.chooses_samples:
                may = "" if self.chooses_samples else f" for {self.method}, which cannot choose it by itself"
                auto = ", or 'auto'" if self.chooses_samples else ""
                raise InputError(f"num_samples must be a whole number of at least 1{auto}{may} (got {num_samples!r})")
            self.num_samples: Samples = "auto"
        else:
            self.num_samples = check_count(num_samples, "num_samples")

    @property
    def moves_features(self) -> bool:
        """Whether p was fitted to samples in which features move."""
        return self.neighborhood.perturbs_features

    def count_samples(self) -> int:
        """Return ``num_samples`` of a method that does not choose it."""
        assert isinstance(self.num_samples, int)
        return self.num_samples

    def chunks(self, target: Target, fixed: int, each: int = 0) -> Iterator[Perturbations]:
        """Yield the samples of the fit, a chunk at a time, if a chunk fits in memory beside ``fixed`` bytes.

        ``each`` is what a sample takes beside its own numbers and F.
        """
        graph, near, count = target.computation_graph, self.neighborhood, self.count_samples()
        width = target.unit_width(drops=near.drops_edges)
        own = near.sample_bytes(graph, width)
        room = target.room(fixed, own + each, f"{self.method} on {count} samples")
        return near.chunks(graph, count, self.seed, width=width, room=room * own // (own + each))

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """Return the neighbourhood, and the error on the samples of the fit."""
        return {
            "neighborhood": str(self.neighborhood),
            "in_sample_error": getattr(p, "in_sample_error", None),
        }


def _arguments(method: type[FaithfulExplainer]) -> tuple[tuple[str, Any], ...]:
    """Return the arguments that a method's constructor names, with their defaults."""
    return _parameters(method.__init__)


@lru_cache(maxsize=256)
def _parameters(constructor: Callable[..., None]) -> tuple[tuple[str, Any], ...]:
    given = list(inspect.signature(constructor).parameters.values())[1:]
    return tuple((one.name, one.default) for one in given if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL))
