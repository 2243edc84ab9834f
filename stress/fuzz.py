"""Fuzzed graphs: any graph, any model, any method, any neighbourhood.

Right is a finite explanation that a second call repeats bit for bit, or a refusal: a typed error of one line. Wrong is
a number that is not finite, any other exception (also one in the coat of a typed error, if the model did not raise it),
two calls that differ, a changed model, a process that dies or does not answer.

    python stress/fuzz.py SEED    # tries one graph again and says everything about it
"""

from __future__ import annotations

import copy
import math
import random
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from brief import brief_methods
from crew import BLOCKED, DIED, Crew
from families import ENDS, FAMILIES, WEIGHTED, Model, make_model
from table import Outcome, Row, summarise
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.explainers.methods import method_named
from graphfaith.explanation.scores import node_mask_of
from graphfaith.sampling import neighborhood as registry

COUNT, SECONDS = 1500, 420.0
EXPLAINED, REFUSED = "finite and the same twice", "refused in one line"
NOT_FINITE, RAW, COATED = "not finite in silence", "raw exception", "raw exception in a typed coat"
DIFFERS, UNCLEAR, CHANGED = "two calls differ", "error not of one short line", "model changed"
NEVER = (NOT_FINITE, RAW, COATED, DIFFERS, UNCLEAR, CHANGED, DIED, BLOCKED)
LONGEST = 1000  # characters of an error message


@dataclass
class Case:
    """Everything about one fuzzed graph, drawn from its seed."""

    seed: int
    words: dict[str, Any] = field(default_factory=dict)  # what was drawn, to be printed

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)

    def pick(self, name: str, common: list[Any], odd: list[Any], share: float = 0.2) -> Any:
        """Draw one of the common values or, in a share of the cases, of the odd ones; and note it."""
        self.words[name] = self.draw.choice(odd if odd and self.draw.random() < share else common)
        return self.words[name]

    def make(self) -> Case:
        """Draw the graph, the model and the question."""
        self.level = self.pick("level", ["node", "node", "node", "edge", "graph"], [])
        self.num_nodes = self.pick("nodes", list(range(2, 31)), [1])
        self.data = Data(x=self._features(), edge_index=self._edges())
        self.family = self.pick("family", list(FAMILIES), [])
        self._add_weights()
        self._add_rows()
        self.model = self._model()
        self.method = self.pick("method", brief_methods(), [])
        self.near = self._neighborhood()
        self.options = {"edges": self.pick("edges", ["auto"], ["weight", "mask"]), "num_hops": None}
        self.options["num_hops"] = self.pick("num_hops", [None], [1, 2, 3], 0.1)
        automatic = method_named(self.method).kind is gf.AnchoredKEC
        self.samples = self.pick("samples", [20, 40], [1, 2, 7, *["auto"] * automatic])
        self.test_samples = self.pick("test_samples", [12, 60], [1, 2])
        self.through_pyg = self.pick("through", [False, True], [])
        return self

    def _features(self) -> Tensor:
        width = self.pick("features", [1, 2, 3, 5], [])
        kind = self.pick(
            "values",
            ["normal", "normal", "bits"],
            ["constant", "zero", "huge", "tiny", "subnormal", "mixed", "wide", "NaN", "infinite"],
            0.2,
        )
        x = torch.randn(self.num_nodes, width, generator=self.generator)
        powers = torch.randint(-30, 30, x.shape, generator=self.generator).float()
        x = {
            "normal": x,
            "bits": (x > 0).float(),
            "constant": torch.full_like(x, 3.0),
            "zero": torch.zeros_like(x),
            "huge": 1e30 * x,
            "tiny": 1e-30 * x,
            "subnormal": 1e-42 * x,
            "mixed": x * 10**powers,
            "wide": torch.where(x > 0, 3e38, -3e38),
            "NaN": x.masked_fill(x > 1, math.nan),
            "infinite": x.masked_fill(x > 1, math.inf),
        }[kind]
        dtype = self.pick(
            "dtype",
            [torch.float32, torch.float32, torch.float64],
            [torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool],
            0.06,
        )
        return x.to(dtype) if dtype.is_floating_point else x.nan_to_num().clamp(-100, 100).abs().to(dtype)

    def _edges(self) -> Tensor:
        n = self.num_nodes
        shape = self.pick("shape", ["directed", "undirected", "undirected"], ["none", "star", "path", "complete"])
        if shape in ("directed", "undirected"):
            ends = torch.randint(n, (2, self.draw.randint(0, 3 * n)), generator=self.generator)
            ends = ends[:, ends[0] != ends[1]]
        elif shape == "none":
            ends = torch.zeros(2, 0, dtype=torch.long)
        elif shape == "complete":
            n = min(n, 9)
            ends = torch.tensor([(i, j) for i in range(n) for j in range(n) if i != j], dtype=torch.long)
            ends = ends.reshape(-1, 2).T
        else:
            ends = torch.stack((torch.zeros(n - 1, dtype=torch.long), torch.arange(1, n)))
            ends = ends if shape == "star" else torch.stack((torch.arange(n - 1), torch.arange(1, n)))
        if shape != "directed":
            ends = torch.cat([ends, ends.flip(0)], dim=1)
        if not self.pick("duplicates", [False], [True], 0.15):
            ends = torch.unique(ends, dim=1)
        if self.pick("loops", [False], [True], 0.2):
            loops = torch.randint(self.num_nodes, (1, self.draw.randint(1, 4)), generator=self.generator)
            if not self.pick("loops twice", [False], [True], 0.1):
                loops = torch.unique(loops, dim=1)
            ends = torch.cat([ends, loops.expand(2, -1)], dim=1)
        order = torch.randperm(ends.size(1), generator=self.generator)
        return ends[:, order].contiguous()

    def _add_weights(self) -> None:
        count = self.data.edge_index.size(1)
        kind = self.pick(
            "weights",
            ["none", "none", "uniform"],
            ["zero", "some zero", "negative", "huge", "tiny", "mixed", "NaN", "infinite", "whole"],
            0.2,
        )
        w = torch.rand(count, generator=self.generator)
        weights = {
            "uniform": w,
            "zero": torch.zeros_like(w),
            "some zero": w * (w > 0.5),
            "negative": w - 0.5,
            "huge": 1e30 * w,
            "tiny": 1e-30 * w,
            "mixed": 10 ** (60 * w - 30),
            "NaN": w.masked_fill(w > 0.7, math.nan),
            "infinite": w.masked_fill(w > 0.7, math.inf),
            "whole": (3 * w).long(),
        }
        if kind != "none" and self.family in WEIGHTED:
            x = self.data.x
            real = x.is_floating_point() and kind != "whole"
            self.data.edge_weight = weights[kind].to(x.dtype) if real else weights[kind]

    def _add_rows(self) -> None:
        """Add what the rows of the output belong to, and choose the row to explain."""
        rows = self.num_nodes
        if self.level == "edge":
            rows = self.draw.randint(1, 4)
            self.data.edge_label_index = torch.randint(self.num_nodes, (2, rows), generator=self.generator)
        elif self.level == "graph" and self.pick("several graphs", [False, True], []):
            # The nodes are split without regard to the edges, as only a mistaken user would split them.
            rows = min(2, self.num_nodes)
            self.data.batch = (torch.arange(self.num_nodes) >= self.num_nodes // 2).long() if rows == 2 else None
        elif self.level == "graph":
            rows = 1
        self.index = self.draw.randrange(rows)
        if self.draw.random() < 0.03:
            self.index = self.words["index"] = self.draw.choice([-1, rows, 10**6])

    def _model(self) -> Model:
        self.mode = self.pick("mode", ["multiclass_classification"], ["binary_classification", "regression"], 0.3)
        outside = 1 if self.mode != "multiclass_classification" else self.pick("classes", [2, 3], [1], 0.05)
        odd = {"dropout": self.pick("dropout", [0.0], [0.5]), "norm": self.pick("norm", [False], [True])}
        layers = self.pick("layers", [1, 2, 2, 3], [])
        model = make_model(self.family, self.level, self.data.x.size(1), outside, layers, self.seed, **odd)
        model.returns = {
            "multiclass_classification": self.pick("returns", ["raw"], ["probs", "log_probs"]),
            "binary_classification": self.pick("returns", ["raw"], ["probs"]),
            "regression": "raw",
        }[self.mode]
        model.end = self.pick("end", [""], [end for end in ENDS if end], 0.12)
        if self.data.x.is_floating_point():
            model = model.to(self.data.x.dtype)
        return model.train(self.pick("training", [False], [True]))

    def _value_of(self, kind: type[gf.Neighborhood], name: str) -> object:
        """Draw the value of a field of a neighbourhood, as its text form has it: a flag, a number of edges, a width."""
        if name in registry._flags(kind):
            return self.draw.choice(["", f",{name}"])
        if name == "most":
            usual: list[float] = [1, 2, 5]
            extreme: list[float] = [0, 2.5, 1000, 10**12]
        else:
            usual, extreme = [0.1, 0.5, 1.0], [1e-20, 1e-6, 10.0, 1e20, 1e30]
        return self.draw.choice(extreme if self.draw.random() < 0.15 else usual)

    def _neighborhood(self) -> str:
        kinds = list(registry._NOTATIONS.values())
        features = [kind for kind in kinds if kind.perturbs_features]
        edges = [kind for kind in kinds if kind.perturbs_edges]
        first = self.draw.choice(kinds)
        chosen = [first]
        if self.draw.random() < 0.4:
            chosen = [self.draw.choice(features), self.draw.choice(edges)]
        texts = []
        for kind in chosen:
            values = {name: self._value_of(kind, name) for name in _names(kind)}
            texts.append(kind.notation.format(**values))
        self.words["neighbourhood"] = "x".join(texts)
        return self.words["neighbourhood"]

    @cached_property
    def arguments(self) -> dict[str, Tensor]:
        """What the model is given beside features and edges."""
        names = ("edge_weight", "edge_label_index", "batch")
        return {name: self.data[name] for name in names if self.data.get(name) is not None}

    def explain(self) -> Any:
        """Explain the row, through :func:`graphfaith.explain` or through PyG's Explainer, and score it."""
        seed = self.seed % 1000
        if not self.through_pyg:
            words = {"method": self.method, "neighborhood": self.near, "samples": self.samples, "seed": seed}
            words |= {"mode": self.mode, "return_type": self.model.returns, "test_samples": self.test_samples}
            return gf.explain(self.model, self.data, **{self.level: self.index}, **words, **self.options)
        algorithm = method_named(self.method).make_for(self.near, self.samples, seed, **self.options)
        config = {"mode": self.mode, "task_level": self.level, "return_type": self.model.returns}
        explainer = Explainer(
            self.model,
            algorithm,
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config=config,
        )
        explanation = explainer(self.data.x, self.data.edge_index, index=self.index, **self.arguments)
        gf.general_unfaithfulness(explainer, explanation, self.near, num_samples=self.test_samples, seed=seed + 1)
        return explanation


def _names(kind: Any) -> list[str]:
    return list(kind.__dataclass_fields__)


def try_seed(seed: int) -> Outcome:
    """Explain the graph of a seed twice, and judge what comes out."""
    case = Case(seed).make()
    before = copy.deepcopy(case.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = _outcome_of(case), _outcome_of(case)
    described = f"{seed} {case.words}"
    changed = _find_change(before, case.model)
    if first[0].failed:
        return first[0]._replace(detail=f"{first[0].detail}: {described}")
    if changed:
        return Outcome(CHANGED, True, f"{changed}: {described}")
    if first[0] != second[0] or first[1] != second[1]:
        return Outcome(DIFFERS, True, f"{first[0]} and {second[0]}: {described}")
    return first[0]


def _outcome_of(case: Case) -> tuple[Outcome, tuple[Any, ...]]:
    """Return the outcome of one explanation, and everything that a second one has to repeat."""
    try:
        explanation = case.explain()
        wrong, repeated = _read_numbers(explanation)
        if wrong:
            return Outcome(NOT_FINITE, True, wrong), ()
        explanation.top_edges(), str(explanation.unfaithfulness)
        if node_mask_of(explanation) is not None:  # Some methods score edges alone.
            explanation.top_features(), explanation.top_nodes()
    except gf.GraphfaithError as error:
        return _judge_error(error), ()
    except Exception as error:
        return Outcome(RAW, True, f"{type(error).__name__}: {error} at {_place_of(error)}"), ()
    return Outcome(EXPLAINED), repeated


def _read_numbers(explanation: Any) -> tuple[str, tuple[Any, ...]]:
    """Return which numbers of an explanation are not finite, and all that a second explanation has to repeat."""
    masks = [explanation.get(name) for name in ("node_mask", "edge_mask", "self_loop_score")]
    score, estimate = explanation.unfaithfulness, explanation.get("estimate")
    numbers = {"value": score.value, "delta_zero": score.delta_zero}
    if score.num_samples > 1:  # The error of one sample is infinite, and says so.
        numbers["stderr"] = score.stderr
    if estimate is not None:
        numbers["estimate"] = estimate.value
    wrong = [f"{name} {number}" for name, number in numbers.items() if not math.isfinite(number)]
    wrong += ["relative"] * math.isnan(score.relative)
    wrong += ["scores"] * any(mask is not None and not bool(torch.isfinite(mask).all()) for mask in masks)
    bits = tuple(None if mask is None else mask.double().numpy().tobytes() for mask in masks)
    return ", ".join(wrong), (bits, *numbers.values())


def _judge_error(error: gf.GraphfaithError) -> Outcome:
    text, cause = str(error), error.__cause__
    if not 15 <= len(text) <= LONGEST or not text.isprintable():
        return Outcome(UNCLEAR, True, f"{type(error).__name__}, {len(text)} characters: {text!r}")
    if isinstance(cause, Exception) and not isinstance(cause, gf.GraphfaithError) and not _is_models_own(cause):
        return Outcome(COATED, True, f"{type(error).__name__}: {text} at {_place_of(cause)}")
    return Outcome(REFUSED)


def _is_models_own(error: Exception) -> bool:
    """Return whether an exception came out of the forward of the model, which may raise anything."""
    here = str(Path(__file__).with_name("families.py"))
    return any(frame.filename == here for frame in traceback.extract_tb(error.__traceback__))


def _place_of(error: BaseException) -> str:
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return " < ".join(reversed(places[-3:]))


def _find_change(before: Model, after: Model) -> str:
    """Return what is different about a model that was explained, as text."""
    if [module.training for module in before.modules()] != [module.training for module in after.modules()]:
        return "its mode"
    states = before.state_dict(), after.state_dict()
    if any(not torch.equal(*(state[name].nan_to_num() for state in states)) for name in states[0]):
        return "its weights"
    left = [
        getattr(module, "_edge_mask", None) is not None or getattr(module, "explain", None)
        for module in after.modules()
    ]
    return "its layers have masks" if any(left) else ""


def run(quick: bool, seed: int, workers: int = 2, seconds: float = SECONDS) -> list[Row]:
    """Try many graphs, and return the row of the table."""
    count = COUNT // 10 if quick else COUNT
    crew = Crew(try_seed, "python stress/fuzz.py {}", workers, seconds, patience=60.0, memory=4 << 30)
    outcomes = crew.try_all(range(1_000_000 * seed, 1_000_000 * seed + count))
    what = f"fuzzed graphs: {len(brief_methods())} methods, {len(FAMILIES)} families of models, all neighbourhoods"
    return [summarise(what, count, outcomes, NEVER, order=(EXPLAINED, REFUSED))]


def main() -> None:
    """Try the seeds that are named, and say everything about them."""
    for text in sys.argv[1:]:
        case = Case(int(text)).make()
        print(f"seed {text}: {case.words}\n{case.data}\nindex {case.index}\n{case.model}")
        print(try_seed(int(text)))
        try:
            explanation = Case(int(text)).make().explain()
            print(explanation, explanation.unfaithfulness)
        except Exception:
            traceback.print_exc(file=sys.stdout)


if __name__ == "__main__":
    main()
