"""``judge``: any explainers, on the same predictions, by every figure of merit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from .._base.checks import check_count, check_real, check_seed
from .._base.errors import GraphfaithError, InputError, describe_error, show
from .._base.progress import track
from .._base.threads import one_thread
from ..explainers.base import Samples
from ..facade.comparison import Track, list_of
from ..facade.subject import Options, Subject, neighborhood_on, prepare
from ..metric.attribution import Attribution, Part
from ..metric.curves import CurvesQuestion
from ..metric.divergence import DivergenceQuestion
from ..metric.fidelity import FidelityQuestion, RobustQuestion
from ..metric.infidelity import squares
from ..metric.measured import Measured, mean_and_error
from ..metric.question import Question, default_by
from ..metric.response import Level, ask, join
from ..metric.sparsity import sparsity
from ..metric.stability import sensitivity_max, spread_over_pairs, stability
from ..metric.sufficiency import SufficiencyQuestion
from ..metric.truth import Truth, judge_by_truth
from ..metric.unfaithfulness import check_change, sample_chunks
from ..model.call import Edges
from ..model.inference import find_task
from ..model.target import Target
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from ..sampling.restricted import By, Top
from .entrants import Entrant, Random, Zero, make_entrants
from .ledger import Ledger
from .measures import MEASURES, Group, expand_measures, keep_defined
from .peers import PEERS
from .scene import Scene
from .verdict import Verdict

NEIGHBORHOODS = ("U(A,0.5)", "B(A,0.5)")
METHODS = (
    *("anchored-kec", "kec", "saliency", "ig-zero", "pyg-gnnexplainer", "pyg-pgexplainer", "pyg-graphmask"),
    *("captum-saliency", "captum-ig", "captum-inputxgradient"),
)

ASKED: tuple[Group, ...] = ("fidelity", "robust", "sufficiency", "curves", "gef")  # of the model, in one go

TruthOf = Truth | Mapping[int, Truth] | Callable[[int], Truth | None]


@dataclass(frozen=True)
class Rules:
    """How explanations are judged; the arguments of :func:`judge`."""

    measures: tuple[str, ...]
    neighborhoods: tuple[Neighborhood, ...]
    parts: tuple[Part, ...]
    top: Top
    by: By | None
    mode: str  # of the task
    level: Level
    alpha1: float
    alpha2: float
    test_samples: int
    draws: int
    noise: float
    repeats: int
    seed: int

    def wants(self, *groups: str) -> bool:
        """Return whether a figure of merit of these groups is asked for."""
        return any(MEASURES[name].group in groups for name in self.measures)

    def questions(self, part: Part) -> list[Question]:
        """Return what the model is asked about each explanation."""
        sided, other = (default_by(self.mode, self.by, sided=sided) for sided in (True, False))
        where: dict[str, Any] = {"part": part, "top": self.top, "by": sided, "level": self.level}
        drawn: dict[str, Any] = {"num_samples": self.draws, "seed": self.seed + 1}
        found: list[Question] = []
        if self.wants("fidelity"):
            found.append(FidelityQuestion(**where))
        if self.wants("robust"):
            found.append(RobustQuestion(alpha1=self.alpha1, alpha2=self.alpha2, **where, **drawn))
        if self.wants("sufficiency"):
            found.append(SufficiencyQuestion(**{**where, "by": other}, **drawn))
        if self.wants("curves"):
            found.append(CurvesQuestion(part, None, sided, self.level))
        if self.wants("gef") and self.mode != "regression":
            found.append(DivergenceQuestion(**{**where, "by": other}))
        return found


def judge(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    data: Data,
    explainers: Any = METHODS,
    nodes: int | Iterable[int] | Tensor = (0,),
    measures: str | Iterable[str] = "all",
    *,
    neighborhoods: Neighborhood | str | Iterable[Neighborhood | str] = NEIGHBORHOODS,
    truth: TruthOf | None = None,
    parts: Part | Iterable[Part] = "edges",
    top: Top = 0.2,
    by: By | None = None,
    level: str = "node",
    at: Level = "probability",
    alpha1: float = 0.1,
    alpha2: float = 0.9,
    samples: Samples = 200,
    test_samples: int = 500,
    draws: int = 100,
    noise: float = 0.02,
    repeats: int = 3,
    seed: int = 0,
    mode: str | None = None,
    return_type: str | None = None,
    num_hops: int | None = None,
    edges: Edges = "auto",
    max_memory: int | str | None = None,
    dataset: str = "",
    progress: Track | None = None,
) -> Verdict:
    """Judge explainers by figures of merit, on the same predictions and the same samples.

    A random explainer and the explanation that is zero are always among the rows. What an explainer fails to
    do at a node is missing there alone; its rows say why, and a row that lacks predictions of others has no rank.

    Args:
        model: a trained PyG model; or several trainings of one, over which rows are then pooled too.
        data: its graph, with whatever else its forward takes by name.
        explainers: names of methods ("anchored-kec", "pyg-gnnexplainer", "captum-ig", ...), PyG's algorithms, functions
            (model, data, node) that return scores of edges or of (nodes, edges), or a mapping of names to these.
        nodes: the nodes to explain; pairs or graphs, by their row in the output, at another ``level``.
        measures: names of figures of merit, or "all"; see :data:`graphfaith.judging.MEASURES`. Those that are not
            defined, for a regression, without a truth or with one training, are left out; one has to remain.
        neighborhoods: where Delta and infidelity are measured. Methods that are fitted are fitted in each; their scores
            in the first one are what the other figures of merit judge.
        truth: what is known to matter, for all nodes or by node; see :class:`~graphfaith.metric.truth.Truth`.
        parts: whether to remove "edges" or "features", or both in turn.
        top: how many of them are inside: a number, or a share of those that F depends on.
        by: "score" or "magnitude"; by default by score where a loss has a side, the fidelities and curves of a class,
            and else by magnitude: sufficiency, necessity, GEF, and all of regression.
        level: "node", "edge" or "graph".
        at: what is read of the answer, "probability" or "value"; labels have figures of merit of their own.
        alpha1, alpha2: of robust fidelity.
        samples: how many perturbed graphs methods are fitted on.
        test_samples: how many others Delta is measured on.
        draws: how many samples robust fidelity, sufficiency and necessity take.
        noise: the size of the noise on features that stability is about, as a share of their range.
        repeats: how many noisy inputs to explain again.
        seed: names the samples of fits; those of figures of merit are named by the next seed.
        mode, return_type: what the output means; found out if None.
        num_hops, edges, max_memory: see :class:`~graphfaith.explainers.base.FaithfulExplainer`.
        dataset: goes into the rows.
        progress: called with the nodes, which it yields one by one; by default it shows a bar on a terminal.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> data = Data(x=torch.rand(4, 2), edge_index=ring)
    >>> verdict = judge(GCN(2, 4, num_layers=2, out_channels=3), data, ["saliency"], [0, 1], ["fidelity+", "sparsity"])
    >>> verdict.methods, [measure for measure, _ in verdict.columns]
    (['saliency', 'random', 'zero'], ['fidelity+', 'sparsity'])
    """
    check_seed(seed)
    check_seed(int(seed) + 1)
    for count, name in ((test_samples, "test_samples"), (draws, "draws"), (repeats, "repeats")):
        check_count(count, name)
    check_real(noise, "noise", above=0)
    if samples != "auto":
        check_count(samples, "samples")
    models = [model] if isinstance(model, torch.nn.Module) else list(model)
    asked = list_of(neighborhoods, str | Neighborhood, "neighborhoods", "them")
    for near in asked:
        as_neighborhood(near)  # raises if it cannot be read
    if isinstance(nodes, Tensor):
        nodes = (nodes.nonzero().view(-1) if nodes.dtype == torch.bool else nodes.reshape(-1)).tolist()
    nodes = list_of(nodes, int, "nodes", "ids")
    if not nodes or not asked or not models:
        raise InputError("nothing to judge: name at least one node, one neighbourhood and one model")
    wanted = expand_measures(measures)
    entrants = [*make_entrants(explainers, PEERS), Random(), Zero()]
    data = prepare(models[0], data)
    nears = tuple({str(near): near for near in (neighborhood_on(data, near) for near in asked)}.values())
    task = find_task(models[0], data, level, mode, return_type)
    rows = task.rows(nodes, int(data.num_nodes) if level == "node" else 1 << 62).tolist()
    signed = _check_truth(truth, rows, int(data.num_nodes), int(data.edge_index.size(1)))
    wanted = keep_defined(wanted, mode=task.mode, truth=truth is not None, signed=signed, trainings=len(models))
    parts_asked = tuple(list_of(parts, str, "parts", "edges or features"))
    rules = Rules(
        tuple(wanted), nears, parts_asked, top, by, task.mode, at, alpha1, alpha2, test_samples, draws,
        noise, repeats, seed,
    )  # fmt: skip
    for part in parts_asked:
        rules.questions(part)  # raises if an option is wrong
    ledger = Ledger(len(models), rows, [entrant.name for entrant in entrants])
    options, kept = Options(num_hops, edges, max_memory), []
    for training, one in enumerate(models):
        subject = Subject(one, data, task, options, together=tuple(rows))
        scene = Scene(subject, tuple(rows), nears[0], samples)
        bench = Bench(scene, entrants, rules, ledger, training, truth)
        bench.prepare()
        for index in progress(rows) if progress else track(rows, "judging", f"{level}s"):
            kept.append(bench.hear(index))  # noqa: PERF401  # One row after the other is what progress is shown of.
    if "stability-training" in wanted and len(models) > 1:
        _compare_trainings(ledger, kept, len(rows), entrants)
    return ledger.verdict(rules.measures, dataset, seed, regression=task.mode == "regression")


def read_truth(truth: TruthOf | None, index: int, num_nodes: int, num_edges: int) -> Truth | None:
    """Return what is known of a row, checked; whatever a function of the user raises is an :class:`InputError`."""
    if truth is None or isinstance(truth, Truth):
        found: Any = truth
    elif isinstance(truth, Mapping):
        found = truth.get(index)
    elif callable(truth):
        try:
            found = truth(index)
        except Exception as error:
            raise InputError(f"truth({index}) failed: {describe_error(error)}") from error
    else:
        raise InputError(f"truth must be a Truth, a mapping of rows to these, or a function (got {show(truth)})")
    if found is None:
        return None
    if not isinstance(found, Truth):
        raise InputError(f"the truth of row {index} must be a Truth, or None (got {show(found)})")
    found.check(num_nodes, num_edges)
    return found


def _check_truth(truth: TruthOf | None, rows: Sequence[int], num_nodes: int, num_edges: int) -> bool | None:
    """Check the truths of all rows before the work begins, and return whether all have signs; None if they differ.

    A function is called for every row here and again when the row is judged: to keep all truths may take much memory.
    """
    given = [truth.get(row) for row in truth] if isinstance(truth, Mapping) else []
    for one in given:
        if not isinstance(one, Truth):
            raise InputError(f"truth must be a Truth, a mapping of rows to these, or a function (got {show(one)})")
        one.check(num_nodes, num_edges)
    # One truth for all rows is read once.
    at = rows[:1] if isinstance(truth, Truth) else rows
    known = (read_truth(truth, row, num_nodes, num_edges) for row in at)
    signed = {one.is_signed for one in known if one is not None}
    return signed.pop() if len(signed) == 1 else None


@dataclass(frozen=True, eq=False)
class Bench:
    """One training, judged one row of the output after the other."""

    scene: Scene
    entrants: Sequence[Entrant]
    rules: Rules
    ledger: Ledger
    training: int
    truth: TruthOf | None

    def prepare(self) -> None:
        """Train what is trained once; an entrant that fails is out at every row."""
        for entrant in self.entrants:
            try:
                entrant.prepare(self.scene, self.rules.seed)
            except Exception as error:  # whatever others raise is theirs, and not the end
                for index in self.scene.nodes:
                    self.ledger.fail(entrant.name, self.training, index, error)

    @property
    def _noisy(self) -> list[Scene]:
        found: list[Scene] = self.ledger.scenes.setdefault(self.training, [])
        while len(found) < self.rules.repeats:
            found.append(self.scene.with_noise(self.rules.noise, len(found), self.rules.seed + 1))
        return found

    def hear(self, index: int) -> dict[str, Attribution]:
        """Judge all entrants at one row, and return their scores."""
        try:
            target = self.scene.target(index)
        except GraphfaithError as error:
            for entrant in self.entrants:
                self.ledger.fail(entrant.name, self.training, index, error)
            return {}
        fitted: dict[str, dict[str, Attribution]] = {}
        for entrant in self.entrants:
            if not self.ledger.is_out(entrant.name, self.training, index):
                with self._guard(entrant, index):
                    fitted[entrant.name] = self._explain(entrant, index)
        if self.rules.wants("delta"):
            for near in self.rules.neighborhoods:
                law = str(near)
                self._foretell(target, index, near, {name: by[law] for name, by in fitted.items() if law in by})
        first = {name: by[str(self.rules.neighborhoods[0])] for name, by in fitted.items()}
        truth = self._truth_of(index)
        for entrant in self.entrants:
            if entrant.name in first:
                self._judge(entrant, index, target, first[entrant.name], truth)
        return first

    @contextmanager
    def _guard(self, entrant: Entrant, index: int, *groups: Group, near: str = "") -> Iterator[None]:
        """Note what an entrant raises: figures of merit of these groups are missing here, and all others go on.

        Without groups there are no scores, and nothing can be measured.
        """
        try:
            yield
        except Exception as error:  # whatever others raise is theirs, and not the end
            self.ledger.fail(entrant.name, self.training, index, error, groups, near)

    def _explain(self, entrant: Entrant, index: int) -> dict[str, Attribution]:
        """Return the scores of an entrant in each neighbourhood, and note the seconds of the first."""
        law, *others = map(str, self.rules.neighborhoods)
        started = time.perf_counter()
        found = {law: entrant.explain(self.scene.at(self.rules.neighborhoods[0]), index, self.rules.seed)}
        took = Measured("seconds", time.perf_counter() - started, math.nan, "lower")
        self.ledger.note(entrant.name, self.training, index, [took])
        if not entrant.is_fitted or not self.rules.wants("delta"):
            return found | dict.fromkeys(others, found[law])
        for near in self.rules.neighborhoods[1:]:
            with self._guard(entrant, index, "delta", near=str(near)):
                found[str(near)] = entrant.explain(self.scene.at(near), index, self.rules.seed)
        return found

    def _foretell(self, target: Target, index: int, near: Neighborhood, scores: dict[str, Attribution]) -> None:
        """Compare F's changes, evaluated once, with those that each p and each entrant's scores foretell."""
        delta: list[Tensor] = []
        foretold: dict[tuple[str, str], list[Tensor]] = {}
        broken: dict[str, Exception] = {}
        with one_thread(target.call.is_small):
            for chunk in sample_chunks(target, near, self.rules.test_samples, self.rules.seed + 1):
                delta.append(target.changes(chunk))
                for name, one in scores.items():
                    for what, p in (("delta", one.p or one.linear), ("infidelity", one.linear)):
                        try:
                            if p is one.linear and what == "infidelity" and one.p is None:
                                continue
                            foretold.setdefault((name, what), []).append(check_change(p.change(chunk), len(chunk)))
                        except Exception as error:  # a p that fails on one sample has failed
                            broken[name] = error
        changes = torch.cat(delta)
        zero = Measured("delta-zero", *mean_and_error(changes.square()), "lower", 0, str(near))
        for name, one in scores.items():
            if name in broken:
                self.ledger.fail(name, self.training, index, broken[name], ("delta",), str(near))
                continue
            of_p = torch.cat(foretold[name, "delta"])
            of_scores = of_p if one.p is None else torch.cat(foretold[name, "infidelity"])
            found = [
                ("delta", squares(of_p, changes, normalize=False)),
                ("infidelity", squares(of_scores, changes, normalize=False)),
                ("infidelity-scaled", squares(of_scores, changes, normalize=True)),
            ]
            measured = [
                Measured(what, *mean_and_error(values), "lower", len(values), str(near)) for what, values in found
            ]
            if zero.value > 0:  # The error over samples is what is known if there is one node.
                ratio = measured[0].value / zero.value
                _, spread = mean_and_error(found[0][1] - ratio * changes.square())
                measured.append(Measured("relative-delta", ratio, spread / zero.value, "lower", 0, str(near)))
            self.ledger.note(name, self.training, index, [*measured, zero])

    def _judge(self, entrant: Entrant, index: int, target: Target, scores: Attribution, truth: Truth | None) -> None:
        """Ask the model about one entrant's scores, and look at the scores themselves.

        Each kind of question is guarded by itself, so that one that fails takes no other with it.
        """
        name, rules = entrant.name, self.rules
        for part in rules.parts:
            if not scores.has(part):
                continue
            with self._guard(entrant, index, *ASKED):
                questions = rules.questions(part)
                if questions:
                    self.ledger.note(name, self.training, index, _ask_all(questions, target, scores))
            if "sparsity" in rules.measures:
                with self._guard(entrant, index, "scores"):
                    found = replace(sparsity(scores, part), neighborhood="" if part == "edges" else "X")
                    self.ledger.note(name, self.training, index, [found])
        if truth is not None:
            with self._guard(entrant, index, "truth"):
                self.ledger.note_signs(name, truth.beside(scores)[0])
                self.ledger.note(name, self.training, index, judge_by_truth(scores, truth))
        if rules.wants("again"):
            with self._guard(entrant, index, "again"):
                self.ledger.note(name, self.training, index, self._explain_again(entrant, index, scores))

    def _truth_of(self, index: int) -> Truth | None:
        """Return what is known of a row. A truth that fails is nobody's fault but its own: only its measures miss."""
        if not self.rules.wants("truth"):
            return None
        try:
            return read_truth(self.truth, index, *self.size)
        except InputError as error:
            for entrant in self.entrants:
                if not self.ledger.is_out(entrant.name, self.training, index):
                    self.ledger.fail(entrant.name, self.training, index, error, ("truth",))
            return None

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of nodes and edges of the graph."""
        data = self.scene.subject.data
        return int(data.num_nodes), int(data.edge_index.size(1))

    def _explain_again(self, entrant: Entrant, index: int, scores: Attribution) -> list[Measured]:
        """Return how far the scores stay under noise on the input, and with another seed."""
        rules, found = self.rules, []
        near = f"U(X,{rules.noise:g}r)"
        if {"stability-noise", "sensitivity-max"} & set(rules.measures):
            noisy = [_like(entrant.explain(scene, index, rules.seed), scores) for scene in self._noisy]
            found.append(stability(scores, noisy, measure="stability-noise", law=near))
            found.append(sensitivity_max(scores, noisy, law=near))
        if "stability-seed" in rules.measures:
            other = _like(entrant.explain(self.scene, index, rules.seed + 1), scores)
            found.append(stability(scores, [other], measure="stability-seed"))
        return found


def _ask_all(questions: Sequence[Question], target: Target, scores: Attribution) -> list[Measured]:
    """Ask the model several questions about one explanation in as few calls as memory allows."""
    samples = [question.samples(scores) for question in questions]
    answers, found, start = ask(target, join(samples)), [], 0
    for question, part in zip(questions, samples, strict=True):
        found += question.read(scores, answers[start : start + len(part)])
        start += len(part)
    return found


def _like(scores: Attribution, first: Attribution) -> Attribution:
    """Return scores on the computation graph of others, whose nodes and edges are the same."""
    a, b = scores.graph, first.graph
    if not torch.equal(a.nodes, b.nodes) or not torch.equal(a.edge_id, b.edge_id):
        raise InputError("the two explanations are of different parts of the graph")
    return replace(scores, graph=b, p=None)


def _compare_trainings(
    ledger: Ledger, kept: Sequence[dict[str, Attribution]], num_rows: int, entrants: Sequence[Entrant]
) -> None:
    """Note the rank correlation of each training's scores with those of the others."""
    for place, index in enumerate(ledger.nodes):
        runs = kept[place::num_rows]
        for entrant in entrants:
            found: dict[int, Measured] = {}
            for training, run in enumerate(runs):
                others = [other[entrant.name] for other in runs if other is not run and entrant.name in other]
                if entrant.name not in run or not others:
                    continue
                own = run[entrant.name]
                try:
                    # Models with different numbers of layers read different parts of the graph.
                    again = [_like(other, own) for other in others]
                    found[training] = stability(own, again, measure="stability-training")
                except InputError as error:
                    ledger.fail(entrant.name, training, index, error, ("training",))
            # A row's error is over trainings that are drawn, and a correlation is of two of them.
            values = spread_over_pairs(np.array([one.value for one in found.values()]))
            for (training, one), value in zip(found.items(), values.tolist(), strict=True):
                ledger.note(entrant.name, training, index, [replace(one, value=value)])
