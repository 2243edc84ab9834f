"""Every explainer passes the suite of checks, and every check detects explainers that are broken on purpose."""

from __future__ import annotations

import random
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch_geometric.explain import Explanation, HeteroExplanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.explain.config import ExplanationType, MaskType, ModelMode, ModelReturnType, ModelTaskLevel

import graphfaith as gf
from graphfaith._base.errors import GraphfaithError, InputError
from graphfaith.testing import CHECKS, CheckFailure, CheckResult, check_explainer, meaning, state

EXPLAINERS = {
    "anchored-kec": lambda: gf.AnchoredKEC("U(A,0.5)", num_samples=100, seed=0),
    "anchored-kec-features": lambda: gf.AnchoredKEC("U(X,0.2r)xU(A,0.5)", num_samples=100, seed=0),
    "kec": lambda: gf.KEC("U(A,0.5)", num_samples=50, seed=0),
    "kec-features": lambda: gf.KEC("U(X,0.2r)xU(A,0.5)", num_samples=50, seed=0),
    "linear": lambda: gf.Linear("U(A,0.5)", num_samples=50, seed=0),
    "linear-features": lambda: gf.Linear("U(X,0.2r)xU(A,0.5)", num_samples=150, seed=0),
    "saliency": gf.Saliency,
    "ig-zero": lambda: gf.IntegratedGradients(steps=10),
    "ig-random": lambda: gf.IntegratedGradients(steps=10, baseline="random"),
    "ig-full": lambda: gf.IntegratedGradients(steps=10, baseline="full"),
    "gnnexplainer-soft": lambda: gf.GNNExplainer(epochs=5),
    "gnnexplainer-hard": lambda: gf.GNNExplainer(hard=True, epochs=5),
    "pgexplainer": lambda: gf.PGExplainer(epochs=2),
    "subgraphx": lambda: gf.SubgraphX(max_nodes=3, num_samples=10, rollouts=3),
    "shapley": lambda: gf.Shapley(num_samples=70),
}
# These have a seed but draw no random numbers, so equivalent graphs must get the same scores, not only similar ones.
EXACT = ("saliency", "ig-zero", "ig-full")


# PyG's PGExplainer scores edges relative to one node, and SubgraphX builds a subgraph around one node.
ONE_NODE = dict.fromkeys(
    ("joint_index", "joint_index_any_order", "joint_index_duplicates", "index_none"), "it explains one node at a time"
)


# Other options of a class that is checked in full: arguments are taken and masks made by the same code.
VARIANTS = ("anchored-kec-features", "kec-features", "linear-features", "ig-random", "ig-full", "gnnexplainer-hard")


def check(name, only=None):
    limits = ONE_NODE if name in ("pgexplainer", "subgraphx") else {}
    check_explainer(EXPLAINERS[name], draws=False if name in EXACT else None, only=only, expected_failures=limits)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in VARIANTS)) for name in EXPLAINERS]
)
def test_every_explainer_passes(name):
    check(name)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_passes_what_its_numbers_decide(name):
    check(name, [one.__name__ for one in (*state.CHECKS, *meaning.CHECKS)])


class Plain(ExplainerAlgorithm):
    """A correct algorithm for these tests: its scores are the gradient of the explained outputs."""

    learns_mask = False

    def supports(self):
        return True

    def forward(self, model, x, edge_index, *, target, index=None, **kwargs):
        weight = kwargs.pop("edge_weight", None)
        self.refuse(x, edge_index, weight, target, index)
        self.begin(model, x, edge_index, weight, target, index)
        with torch.inference_mode(False), torch.enable_grad():
            a = x.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
            ones = torch.ones(edge_index.size(1), dtype=x.dtype)
            w = (ones if weight is None else weight.detach().clone()).requires_grad_()
            others = {name: value.clone() for name, value in kwargs.items()}
            rows = self.outputs(model, a, edge_index.clone(), w, others)
            value = self.value(rows, target.clone(), index if index is None else torch.as_tensor(index).clone())
            dx, dw = torch.autograd.grad(value, (a, w))
        kinds = self.explainer_config.node_mask_type, self.explainer_config.edge_mask_type
        nodes, edges = self.laid_out(x.detach(), dx, kinds[0]), None if kinds[1] is None else dw
        return self.finish(nodes, edges, x, edge_index, target, index)

    def begin(self, model, x, edge_index, weight, target, index):
        pass

    def refuse(self, x, edge_index, weight, target, index):
        if x.dim() != 2 or edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise ValueError("wrong shape")
        if not torch.isfinite(x).all():
            raise ValueError("x is not finite")
        if edge_index.dtype != torch.long:
            raise ValueError("edge_index must be integer")
        if edge_index.numel() and not 0 <= edge_index.min() <= edge_index.max() < len(x):
            raise ValueError("edge_index out of range")
        if self.model_config.task_level.value == "node" and len(x) != len(target):
            raise ValueError("x has another number of rows than the output")
        if weight is not None and weight.shape != (edge_index.size(1),):
            raise ValueError("edge_weight has the wrong length")
        if index is not None and torch.as_tensor(index).max() >= len(target):
            raise ValueError("index out of range")

    def outputs(self, model, x, edge_index, weight, kwargs):
        return model(x, edge_index, edge_weight=weight, **kwargs)

    def value(self, rows, target, index):
        if self.model_config.mode == ModelMode.multiclass_classification:
            rows = rows.gather(1, target.view(-1, 1))
        return rows.sum() if index is None else rows.view(-1)[index].sum()

    def laid_out(self, x, dx, kind):
        if kind is None or kind == MaskType.attributes:
            return None if kind is None else dx
        return (x * dx).sum(dim=1 if kind == MaskType.object else 0, keepdim=True)

    def finish(self, nodes, edges, x, edge_index, target, index):
        return Explanation(node_mask=nodes, edge_mask=edges)


def test_a_plain_algorithm_passes_exactly():
    results = check_explainer(Plain)
    # It learns no masks, and does not explain graphs of several types.
    beside = {name for name in CHECKS if name.startswith("types_")} | {"learnt_masks_between_0_and_1"}
    assert {result.name for result in results if result.passed is None} == beside
    assert sum(result.passed is True for result in results) == len(CHECKS) - len(beside)


# Mutants: each one violates one requirement, and the check under which it is registered has to fail. ------------------

MUTANTS: dict[str, list[type[Plain]]] = {}


def caught_by(*names):
    def register(mutant):
        for name in names:
            MUTANTS.setdefault(name, []).append(mutant)
        return mutant

    return register


def at_first(*names):
    """Register a mutant that performs an action at the beginning of the call."""

    def register(action):
        mutant = type(action.__name__, (Plain,), {"begin": lambda self, *a: action(self, *a)})
        return caught_by(*names)(mutant)

    return register


def at_last(*names):
    """Register a mutant that changes its masks at the end of the call."""

    def register(action):
        def finish(self, nodes, edges, *call):
            nodes, edges = action(self, nodes, edges, *call)
            return Explanation(node_mask=nodes, edge_mask=edges)

        return caught_by(*names)(type(action.__name__, (Plain,), {"finish": finish}))

    return register


@at_first("inputs_unchanged")
def changes_x(self, model, x, edge_index, weight, target, index):
    x.data[3, 1] += 1e-6


@at_first("inputs_unchanged")
def changes_weights(self, model, x, edge_index, weight, target, index):
    if weight is not None:
        weight.data.clamp_(max=1.9)


@at_first("inputs_never_written")
def writes_and_restores(self, model, x, edge_index, weight, target, index):
    if not x.is_inference():
        with torch.no_grad():
            x.add_(0)


@at_first("parameters_unchanged")
def changes_parameters(self, model, *rest):
    next(model.parameters()).data.add_(1e-6)


@at_first("parameters_unchanged")
def adds_parameter(self, model, *rest):
    model.extra = torch.nn.Parameter(torch.ones(1))


@at_first("buffers_unchanged")
def updates_statistics(self, model, x, *rest):
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.add_(0.1)


@at_first("parameter_gradients_untouched")
def fills_gradients(self, model, *rest):
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)


@at_first("parameter_gradients_untouched")
def clears_gradients(self, model, *rest):
    model.zero_grad()


@at_first("parameter_gradients_untouched")
def unfreezes(self, model, *rest):
    model.requires_grad_()


@at_first("torch_random_state_untouched")
def draws_from_torch(self, *rest):
    torch.rand(1)


@at_first("torch_random_state_untouched")
def seeds_torch(self, *rest):
    torch.manual_seed(5)


@at_first("numpy_random_state_untouched")
def draws_from_numpy(self, *rest):
    np.random.rand()  # noqa: NPY002


@at_first("python_random_state_untouched")
def draws_from_python(self, *rest):
    random.random()


@at_last("global_seed_ignored")
def noisy(self, nodes, edges, *call):
    return nodes, edges + 1e-3 * torch.rand_like(edges)


@at_first("torch_settings_untouched")
def turns_gradients_off(self, *rest):
    torch.set_grad_enabled(False)


@at_first("torch_settings_untouched")
def turns_double(self, *rest):
    torch.set_default_dtype(torch.float64)


@at_first("train_mode_preserved")
def turns_on_train_mode(self, model, *rest):
    model.train()


@at_first("train_mode_preserved")
def turns_on_eval_mode(self, model, *rest):
    model.eval()


@caught_by("train_mode_preserved")
class RestoresTopLevelMode(Plain):
    def forward(self, model, *args, **kwargs):
        training = model.training
        model.eval()
        explanation = super().forward(model, *args, **kwargs)
        model.train(training)
        return explanation


@caught_by("dropout_inactive")
class LeavesDropoutOn(Plain):
    was_training = False

    def forward(self, model, *args, **kwargs):
        # PyG's Explainer sets the model to eval mode; this mutant sets it back to train mode if it has dropout.
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout) and module.p:
                module.train()
        return super().forward(model, *args, **kwargs)


@at_first("model_left_clean")
def leaves_attribute(self, model, *rest):
    model.first.note = "explained"


@at_first("model_left_clean")
def leaves_mask(self, model, x, edge_index, *rest):
    set_masks(model, torch.ones(edge_index.size(1), dtype=x.dtype), edge_index, apply_sigmoid=False)


@at_first("model_left_clean")
def leaves_hook(self, model, *rest):
    model.second.register_forward_hook(lambda *_: None)


@caught_by("model_left_clean_after_error")
class CleansUpOnlyOnSuccess(Plain):
    def outputs(self, model, x, edge_index, weight, kwargs):
        hook = model.first.register_forward_hook(lambda *_: None)
        rows = super().outputs(model, x, edge_index, weight, kwargs)
        hook.remove()
        return rows


@caught_by("model_left_clean_after_error")
class FreezesUntilSuccess(Plain):
    def outputs(self, model, *rest):
        wanted = [parameter.requires_grad for parameter in model.parameters()]
        model.requires_grad_(False)
        rows = super().outputs(model, *rest)
        for parameter, flag in zip(model.parameters(), wanted, strict=True):
            parameter.requires_grad_(flag)
        return rows


@caught_by("model_left_clean_after_error")
class HidesErrors(Plain):
    def outputs(self, model, x, edge_index, weight, kwargs):
        try:
            return super().outputs(model, x, edge_index, weight, kwargs)
        except RuntimeError:
            return (x.sum() + weight.sum()).expand(len(x), 3)


@caught_by("result_belongs_to_caller")
class KeepsWhatItReturns(Plain):
    def finish(self, *call):
        if not hasattr(self, "answer"):
            self.answer = super().finish(*call)
        return self.answer


@caught_by("result_belongs_to_caller")
class ReturnsTheWeights(Plain):
    def begin(self, model, x, edge_index, weight, *rest):
        self.weight = weight

    def finish(self, nodes, edges, *call):
        return Explanation(node_mask=nodes, edge_mask=self.weight)


@caught_by("same_answer_from_new_one")
class CountsInstances(Plain):
    made = 0

    def __init__(self):
        super().__init__()
        CountsInstances.made += 1

    def finish(self, nodes, edges, *call):
        return Explanation(node_mask=nodes * (1 + 1e-6 * CountsInstances.made), edge_mask=edges)


@caught_by("same_answer_twice", "other_node_between")
class CountsCalls(Plain):
    calls = 0

    def finish(self, nodes, edges, *call):
        self.calls += 1
        return Explanation(node_mask=nodes, edge_mask=edges * (1 + 1e-6 * self.calls))


@caught_by("other_node_between")
class RemembersNode(Plain):
    last = None

    def finish(self, nodes, edges, x, edge_index, target, index):
        drift = 1.0 if self.last in (None, int(index)) else 1.001
        self.last = int(index)
        return Explanation(node_mask=nodes * drift, edge_mask=edges)


@caught_by("no_stale_answer")
class RemembersAnswers(Plain):
    def __init__(self):
        super().__init__()
        self.memory = {}

    def forward(self, model, x, edge_index, **kwargs):
        key = (id(model), id(x), id(edge_index), str(kwargs.get("index")))
        if key not in self.memory:
            self.memory[key] = super().forward(model, x, edge_index, **kwargs)
        return self.memory[key]


@at_last("node_mask_attributes")
def one_number_a_node(self, nodes, edges, *call):
    return (nodes if nodes is None else nodes.sum(dim=1, keepdim=True)), edges


@at_last("node_mask_object", "node_mask_common_attributes")
def ignores_node_mask_type(self, nodes, edges, x, *call):
    return (nodes if nodes is None else torch.ones_like(x)), edges


@at_last("edge_mask_object")
def edges_with_loops(self, nodes, edges, x, *call):
    return nodes, (edges if edges is None else torch.cat([edges, edges.new_zeros(len(x))]))


@at_last("edge_mask_object", "isolated_node", "self_loops", "joint_index", "regression")
def not_finite(self, nodes, edges, *call):
    return nodes, (edges if edges is None else edges / 0)


@at_last("only_masks_asked_for")
def always_both(self, nodes, edges, x, edge_index, *call):
    return (torch.ones_like(x) if nodes is None else nodes), torch.ones(edge_index.size(1)) if edges is None else edges


@caught_by("only_masks_asked_for")
class ExtraMask(Plain):
    def finish(self, nodes, edges, *call):
        return Explanation(node_mask=nodes, edge_mask=edges, loop_mask=torch.ones(12))


@at_last("masks_detached")
def holds_graph(self, nodes, edges, *call):
    with torch.inference_mode(False), torch.enable_grad():
        return nodes, edges.clone().requires_grad_() * 2


@at_last("dtype_kept")
def single_precision(self, nodes, edges, *call):
    return nodes.float(), edges.float()


@caught_by("learnt_masks_between_0_and_1")
class NotAMask(Plain):
    learns_mask = True


@at_last("relabelled_nodes")
def favours_low_numbers(self, nodes, edges, x, *call):
    return nodes * (1 + 0.01 * torch.arange(len(x), dtype=x.dtype).view(-1, 1)), edges


@caught_by("relabelled_nodes", "reordered_edges")
class DrawsOnlyNoise(Plain):
    """Its scores are only noise. It has a seed, so the check compares them by correlation."""

    seed = 0

    def finish(self, nodes, edges, *call):
        generator = torch.Generator().manual_seed(self.seed)
        drawn = (torch.rand(mask.shape, generator=generator, dtype=mask.dtype) for mask in (nodes, edges))
        return Explanation(**dict(zip(("node_mask", "edge_mask"), drawn, strict=True)))


@at_last("reordered_edges")
def sorts_edges(self, nodes, edges, x, edge_index, *call):
    return nodes, edges[(edge_index[0] * len(x) + edge_index[1]).argsort()]


@at_last("doubled_output")
def normalised(self, nodes, edges, *call):
    return nodes / nodes.norm(), edges / edges.norm()


@at_last("negated_output")
def absolute(self, nodes, edges, *call):
    return nodes.abs(), edges.abs()


@at_last("doubled_output")
def nothing(self, nodes, edges, *call):
    return nodes * 0, edges * 0


@at_last("zero_beyond_reach")
def every_node_a_little(self, nodes, edges, *call):
    return nodes + 1e-9, edges


@at_last("zero_beyond_reach")
def every_edge_a_little(self, nodes, edges, *call):
    return nodes, edges + 1e-9


@caught_by("zero_beyond_reach")
class WalksBackwards(Plain):
    def outputs(self, model, x, edge_index, weight, kwargs):
        return super().outputs(model, x, edge_index.flip(0), weight, kwargs)


@caught_by("edge_weight_matters")
class IgnoresWeights(Plain):
    def outputs(self, model, x, edge_index, weight, kwargs):
        return super().outputs(model, x, edge_index, weight - weight.detach() + 1, kwargs)


@caught_by("keywords_by_name")
class PassesByPosition(Plain):
    def outputs(self, model, x, edge_index, weight, kwargs):
        return model(x, edge_index, weight, *kwargs.values())


@caught_by("target_matters")
class IgnoresTarget(Plain):
    def value(self, rows, target, index):
        return super().value(rows, torch.zeros_like(target), index)


@caught_by("model_is_phenomenon_of_prediction")
class ExplainsAnotherClass(Plain):
    def value(self, rows, target, index):
        shift = self.explainer_config.explanation_type == ExplanationType.model
        return super().value(rows, (target + shift) % 3, index)


@caught_by("index_int_or_tensor")
class WantsTensor(Plain):
    def value(self, rows, target, index):
        return super().value(rows, target, index if index is None or index.dim() else index + 1)


@caught_by("joint_index", "joint_index_duplicates")
class OneIndexOnly(Plain):
    def refuse(self, x, edge_index, weight, target, index):
        super().refuse(x, edge_index, weight, target, index)
        if torch.as_tensor(index).numel() > 1:
            raise ValueError("one index at a time, please")


@caught_by("joint_index_any_order", "index_none")
class FirstIndexOnly(Plain):
    def value(self, rows, target, index):
        return super().value(rows, target, index if index is None else index.view(-1)[:1])


@caught_by("joint_index_duplicates")
class RefusesDuplicatesSilently(Plain):
    def refuse(self, x, edge_index, weight, target, index):
        super().refuse(x, edge_index, weight, target, index)
        if len(set(torch.as_tensor(index).view(-1).tolist())) < torch.as_tensor(index).numel():
            raise ValueError


@caught_by("index_none")
class NeedsIndex(Plain):
    def value(self, rows, target, index):
        return super().value(rows, target, index.view(-1))


@at_first("isolated_node", "no_edges")
def needs_neighbours(self, model, x, edge_index, weight, target, index):
    if not (edge_index[1] == index).any():
        raise RuntimeError("no neighbour")


@at_first("self_loops")
def refuses_self_loops(self, model, x, edge_index, *rest):
    assert (edge_index[0] != edge_index[1]).all()


@at_last("self_loops")
def drops_self_loops(self, nodes, edges, x, edge_index, *call):
    return nodes, edges[edge_index[0] != edge_index[1]]


@at_first("non_contiguous_inputs")
def flattens(self, model, x, edge_index, *rest):
    x.view(-1), edge_index.view(-1)


@caught_by("inputs_that_require_grad")
class CallsBackward(Plain):
    def begin(self, model, x, edge_index, *rest):
        if x.requires_grad:
            with torch.enable_grad():
                x.sum().backward()


@at_first("inputs_that_require_grad")
def turns_off_gradient_of_x(self, model, x, *rest):
    x.requires_grad_(False)


@at_first("inputs_that_require_grad")
def needs_leaf_without_grad(self, model, x, edge_index, weight, *rest):
    x.numpy()


@at_first("under_no_grad", "under_inference_mode")
def needs_grad_mode(self, *rest):
    assert torch.is_grad_enabled()


@caught_by("under_inference_mode")
class UsesInputsAsTheyAre(Plain):
    def outputs(self, model, x, edge_index, weight, kwargs):
        return super().outputs(model, x * self.factor, edge_index, weight, kwargs)

    def begin(self, model, x, *rest):
        self.factor = x / x.detach()  # The backward pass needs it, which is not allowed for an inference tensor.


@at_first("read_only_inputs")
def writes_through_numpy(self, model, x, *rest):
    x.detach().numpy()[3, 1] += 1e-6


@at_first("regression")
def no_regression(self, *rest):
    assert self.model_config.mode != ModelMode.regression


@at_first("binary_classification")
def no_binary(self, *rest):
    assert self.model_config.mode != ModelMode.binary_classification


@at_first("class_probabilities")
def no_probabilities(self, *rest):
    assert self.model_config.return_type != ModelReturnType.probs


@at_last("edge_level")
def one_row_a_pair(self, nodes, edges, x, edge_index, target, index):
    return nodes[: len(target)], edges


@caught_by("graph_level")
class MeansOverIndex(Plain):
    def value(self, rows, target, index):
        return super().value(rows, target, index) * (2 if index is None else 1)


@at_first("graph_level")
def no_graphs(self, *rest):
    assert self.model_config.task_level != ModelTaskLevel.graph


@caught_by(
    "refuses_nan_in_x",
    "refuses_unknown_node_in_edges",
    "refuses_float_edges",
    "refuses_wrong_shapes",
    "refuses_unknown_index",
)
class RefusesNothing(Plain):
    """A mutant that accepts all inputs and returns constant masks if the model raises an error."""

    def refuse(self, *call):
        pass

    def forward(self, model, x, edge_index, *, target, index=None, **kwargs):
        try:
            return super().forward(model, x, edge_index, target=target, index=index, **kwargs)
        except Exception:
            return Explanation(node_mask=torch.ones(12, 3), edge_mask=torch.ones(22))


@caught_by(
    "refuses_nan_in_x",
    "refuses_unknown_node_in_edges",
    "refuses_float_edges",
    "refuses_wrong_shapes",
    "refuses_unknown_index",
)
class RefusesWithoutWords(Plain):
    def refuse(self, *call):
        try:
            super().refuse(*call)
        except ValueError:
            raise ValueError from None


@caught_by(
    "refuses_nan_in_x",
    "refuses_unknown_node_in_edges",
    "refuses_float_edges",
    "refuses_wrong_shapes",
    "refuses_unknown_index",
)
class RefusesByTheWrongError(Plain):
    def refuse(self, *call):
        try:
            super().refuse(*call)
        except ValueError as error:
            raise RuntimeError("something went wrong") from error


# Graphs of several types ----------------------------------------------------------------------------------------------


class Typed(Plain):
    """The plain algorithm, which also explains graphs of several types, for messages of weight 1."""

    explains_types = True

    def forward(self, model, x, edge_index, *, target, index=None, **kwargs):
        if not isinstance(x, dict):
            return super().forward(model, x, edge_index, target=target, index=index, **kwargs)
        self.refuse_typed(x)
        self.begin_typed(model, x)
        rows = {name: values.detach().clone().requires_grad_() for name, values in x.items()}
        value = self.value(model(self.seen(rows), edge_index), target, index)
        slopes = dict(zip(rows, torch.autograd.grad(value, tuple(rows.values())), strict=True))
        explanation = HeteroExplanation()
        for name, slope in slopes.items():
            explanation[name].node_mask = slope
        for kind, (source, _) in edge_index.items():  # an edge has what its source has
            explanation[kind].edge_mask = slopes[kind[0]].sum(dim=1)[source]
        return self.finish_typed(explanation, x)

    def refuse_typed(self, x):
        for name, rows in x.items():
            if not torch.isfinite(rows).all():
                raise ValueError(f"x of {name} is not finite")

    def begin_typed(self, model, x):
        pass

    def seen(self, x):
        return x

    def finish_typed(self, explanation, x):
        return explanation


@caught_by("types_masks_fit")
class ScoresNothingTyped(Typed):
    def finish_typed(self, explanation, x):
        for store in explanation.stores:
            for name, mask in store.items():
                store[name] = torch.zeros_like(mask)
        return explanation


@caught_by("types_masks_fit")
class InfiniteForOneType(Typed):
    def finish_typed(self, explanation, x):
        explanation["user", "buys", "item"].edge_mask[0] = torch.inf
        return explanation


@caught_by("types_same_seed")
class RemembersTypedGraphs(Typed):
    """It gives another answer when it meets a graph again, also as a new object."""

    def __init_subclass__(cls):
        cls.met = set()

    met: ClassVar[set[bytes]] = set()

    def finish_typed(self, explanation, x):
        key = b"".join(rows.detach().numpy().tobytes() for rows in x.values())
        if key not in self.met:
            self.met.add(key)
            return explanation
        explanation["item"].node_mask = explanation["item"].node_mask * 2
        return explanation


@caught_by("types_inputs_unchanged")
class ChangesOneType(Typed):
    def begin_typed(self, model, x):
        x["user"].data[3, 1] += 1e-6


@caught_by("types_inputs_unchanged")
class ChangesTypedParameters(Typed):
    def begin_typed(self, model, x):
        next(model.parameters()).data.add_(1e-6)


@caught_by("types_inputs_unchanged")
class LeavesAHook(Typed):
    def finish_typed(self, explanation, x):
        self.model.first.register_forward_hook(lambda module, given, out: {k: v + 0.1 for k, v in out.items()})
        return explanation

    def begin_typed(self, model, x):
        self.model = model


@caught_by("types_far_nodes")
class LooksAtAllNodesOfAType(Typed):
    def seen(self, x):
        weight = torch.arange(1.0, len(x["user"]) + 1)
        return {**x, "user": x["user"] * (1 + weight @ x["user"].detach())}


@caught_by("types_refuses_nan")
class TakesNanForZero(Typed):
    def refuse_typed(self, x):
        pass

    def seen(self, x):
        return {name: rows.nan_to_num() for name, rows in x.items()}


@caught_by("types_refuses_nan")
class RefusesTypesWithoutWords(Typed):
    def refuse_typed(self, x):
        if any(rows.isnan().any() for rows in x.values()):
            raise ValueError


@caught_by("types_refuses_nan")
class RefusesTypesByTheWrongError(Typed):
    explains_types = None

    def refuse_typed(self, x):
        if any(rows.isnan().any() for rows in x.values()):
            raise RuntimeError("something went wrong")


OF_TYPES = [name for name in CHECKS if name.startswith("types_")]


def test_a_plain_algorithm_of_several_types_passes():
    results = check_explainer(Typed)
    assert [result.name for result in results if result.passed is None] == ["learnt_masks_between_0_and_1"]


@pytest.mark.parametrize(
    ("check", "mutant"),
    [(check, mutant) for check in OF_TYPES for mutant in MUTANTS[check]],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_no_other_check_of_types_catches_a_mutant(check, mutant):
    for name in OF_TYPES:
        fresh = type(mutant.__name__, (mutant,), {})  # One that remembers must not remember the check before.
        (result,) = check_explainer(fresh, only=[name], raises=False)
        assert result.passed is (name != check), result


@pytest.mark.parametrize(
    ("check", "mutant"),
    [(check, mutant) for check, mutants in MUTANTS.items() for mutant in mutants],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_check_catches_its_mutants(check, mutant):
    (result,) = check_explainer(mutant, only=[check], raises=False)
    assert result.passed is False, result
    assert result.message


def test_every_check_has_a_mutant():
    assert set(MUTANTS) == set(CHECKS)
    assert len(CHECKS) >= 25


# The function itself --------------------------------------------------------------------------------------------------


def test_every_check_says_what_it_is_about():
    for name in CHECKS:
        about = CheckResult(name, True).about
        assert about.endswith(".")
        assert "\n" not in about


def test_a_failure_lists_what_failed():
    with pytest.raises(
        CheckFailure, match=r"absolute fails 1 of 2 checks:\n  negated_output: .*\n      with the"
    ) as info:
        check_explainer(MUTANTS["negated_output"][0], only=["negated_output", "masks_detached"])
    assert isinstance(info.value, GraphfaithError)
    assert isinstance(info.value, AssertionError)
    assert [result.passed for result in info.value.results] == [False, True]


def test_refused_settings_are_not_failures():
    class EdgesOnly(Plain):
        def supports(self):
            config = self.explainer_config
            return config.node_mask_type is None and self.model_config.task_level == ModelTaskLevel.node

    results = {result.name: result for result in check_explainer(EdgesOnly)}
    for name in ("node_mask_attributes", "node_mask_object", "edge_level", "graph_level"):
        assert results[name].passed is None
        assert "refuses the settings" in results[name].message
    assert results["edge_mask_object"].passed

    class Nothing(Plain):
        def supports(self):
            return False

    assert {result.passed for result in check_explainer(Nothing)} == {None}


def test_an_algorithm_of_predictions_alone():
    class ModelOnly(Plain):
        def supports(self):
            return self.explainer_config.explanation_type == ExplanationType.model

    results = {result.name: result for result in check_explainer(ModelOnly)}
    assert results["doubled_output"].message == "the algorithm explains only the predicted class"
    assert results["zero_beyond_reach"].passed


def test_options_outrank_what_the_algorithm_says():
    (result,) = check_explainer(Plain, signed=False, only=["doubled_output"])
    assert result.passed is None
    (result,) = check_explainer(MUTANTS["relabelled_nodes"][0], draws=True, only=["relabelled_nodes"])
    assert result.passed


def test_a_known_limit_is_not_a_failure():
    limits = {"joint_index": "one at a time", "masks_detached": "not so"}
    results = check_explainer(MUTANTS["joint_index"][1], only=list(limits), expected_failures=limits)
    assert results == [
        CheckResult("joint_index", None, "known limit: one at a time"),
        CheckResult("masks_detached", True),
    ]


def test_the_suite_leaves_the_random_state_alone():
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    expected = torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    check_explainer(Plain)
    assert (torch.rand(1), np.random.rand(), random.random()) == expected  # noqa: NPY002


def test_bad_arguments():
    with pytest.raises(InputError, match="must be a function"):
        check_explainer(Plain())
    with pytest.raises(InputError, match="must return an ExplainerAlgorithm"):
        check_explainer(lambda: 3)
    with pytest.raises(InputError, match="no check called 'speed'"):
        check_explainer(Plain, only=["speed"])
    with pytest.raises(InputError, match="no check called 'speed'"):
        check_explainer(Plain, expected_failures={"speed": "slow"})
