"""The desk: takes a question as text, has it explained, and hands out the answer as a page shows it or a file keeps it.

A model in work is not safe from a second thread (PyG's explainers set masks on its layers), nor is matplotlib. So one
thing is worked out at a time, and what is asked again is not worked out again.
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch_geometric.explain import Explanation

from ..._base.checks import check_node
from ..._base.errors import InputError, UnsupportedError
from ...cli.arguments import EDGE_NEIGHBORHOODS, FEATURE_NEIGHBORHOODS, methods_of, neighborhoods_of
from ...explainers.base import Samples
from ...explanation.scores import explained_nodes
from ...facade import Subject
from ...sampling.neighborhood import UniformEdges
from ..figure import figure, render
from ..labels import shorten
from ..page import LONGEST_NAME, page_data
from ..report import explanation_row, finite_rows
from .flights import Flights

Wanted = Callable[[], bool]
MOST_METHODS = 6
MATCHES = 20  # of a search
TOP = 100  # edges and features in a JSON file
# An explanation of a large graph has masks as large, so few are kept; what a page shows is small.
_KEPT_EXPLANATIONS, _KEPT_PAGES = 8, 200


class AbandonedError(Exception):
    """Nobody waits for this any more; who does nevertheless may ask again."""


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Question:
    """What to explain, by which methods, and where they have to be faithful."""

    index: int
    methods: tuple[str, ...]
    neighborhood: str


class Desk:
    """Explains rows of the output of a ``subject``, called ``label``.

    ``samples``, ``test_samples`` and ``seed`` are those of :meth:`~graphfaith.subject.Subject.explain`.
    """

    def __init__(
        self, subject: Subject, label: str, *, samples: Samples = 200, test_samples: int = 500, seed: int = 0
    ) -> None:
        self.subject, self.label = subject, label
        self.samples, self.test_samples, self.seed = samples, test_samples, seed
        self.methods = _supported(subject)
        names = subject.data.get("node_names")
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        # Of nodes with the same name, the name stands for the first.
        self._ids = {name.strip(): node for node, name in reversed(list(enumerate(self.names or ())))}
        self._explanations: Flights[tuple[Explanation, tuple[str, ...]]] = Flights(_KEPT_EXPLANATIONS)
        self._pages: Flights[bytes] = Flights(_KEPT_PAGES)
        self._work = threading.Lock()

    # Questions ----------------------------------------------------------------------------------------------------

    def question(self, fields: Mapping[str, Sequence[str]]) -> Question:
        """Read and check a question, as an address has it: ``near``, ``method`` repeated, and ``index`` or ``name``.

        An ``index`` is an id and nothing else; a ``name``, which a person typed, may be an id too.
        """
        unknown = sorted(set(fields) - {"index", "name", "near", "method"})
        if unknown:
            raise InputError(f"a question has no field called {shorten(unknown[0], 40)!r}")
        if "index" in fields and "name" in fields:
            raise InputError("name what to explain once: by its index, or by its name")
        near = _one(fields, "near", "a neighbourhood, as U(A,0.5)")
        what = f"the {self.level} to explain"
        row = self.row(_one(fields, "index", what)) if "index" in fields else self.named(_one(fields, "name", what))
        return self.ask(row, fields.get("method", ()), near)

    def ask(self, index: int, methods: Sequence[str], near: str) -> Question:
        """A question, checked."""
        chosen = check_methods(methods)
        for name in chosen:
            if name not in self.methods:
                raise UnsupportedError(f"{name} cannot explain this model: {self._reason(name)}")
        if near == "all":
            raise InputError("name one neighbourhood, as U(A,0.5)")
        return Question(index, chosen, neighborhoods_of([near], self.label, self.subject.data)[0])

    @property
    def level(self) -> str:
        """What is explained: a node, an edge or a graph."""
        return self.subject.task.level

    def row(self, text: str) -> int:
        """The row with that id."""
        what = "the id or the name of a node" if self.level == "node" else f"the number of a {self.level}"
        if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
            raise InputError(f"{shorten(text, 40)!r} is not {what} of {shorten(self.label, 40)}")
        index = int(text)
        if self.level == "node":
            return check_node(index, self.subject.data.num_nodes)
        if not 0 <= index < 2**31:
            raise InputError(f"there is no {self.level} {index}: they are counted from 0")
        return index

    def named(self, text: str) -> int:
        """The row that a person means: the node of that name, or else that id."""
        found = self._ids.get(text.strip()) if self.level == "node" else None
        return self.row(text) if found is None else found

    def text(self, index: int) -> str:
        """What :meth:`named` reads as this row, if there is such a text."""
        name = None if self.names is None or self.level != "node" else self.names[index].strip()
        return str(index) if name is None or self._ids.get(name) != index else name

    def find(self, text: str) -> list[dict[str, Any]]:
        """Nodes whose id is the text, or whose name begins with it, or else holds it."""
        wanted, count = text.strip().lower(), self.subject.data.num_nodes
        if not wanted or self.level != "node":
            return []
        is_id = re.fullmatch(r"[0-9]{1,12}", wanted) is not None
        found = [int(wanted)] if is_id and int(wanted) < count else []
        if self.names is not None:
            folded = [name.lower() for name in self.names]
            found += [node for node, name in enumerate(folded) if name.startswith(wanted)]
            if len(found) < MATCHES:
                found += [node for node, name in enumerate(folded) if wanted in name]
        meant = [node for node in dict.fromkeys(found) if self.named(self.text(node)) == node]
        return [{"id": node, "name": self._name(node), "text": self.text(node)} for node in meant[:MATCHES]]

    def _name(self, node: int) -> str:
        return str(node) if self.names is None else shorten(self.names[node], LONGEST_NAME) or "(no name)"

    # Answers ------------------------------------------------------------------------------------------------------

    def page(self, question: Question, wanted: Wanted = _always) -> bytes:
        """What the page shows, as JSON. Work that is not ``wanted`` any more when its turn comes is left undone."""
        return self._pages.get(question, lambda: self._page(question, wanted))

    def rows(self, question: Question, wanted: Wanted = _always) -> bytes:
        """The rows of JSON that ``graphfaith explain`` writes."""
        settings = {"dataset": self.label, "neighborhood": question.neighborhood, "seed": self.seed}
        rows = [
            explanation_row(explanation, TOP, **settings, method=method, fit_samples=self._samples(method))
            for method, (explanation, _) in zip(question.methods, self._explained(question, wanted), strict=True)
        ]
        return (json.dumps(finite_rows(rows), indent=2, allow_nan=False) + "\n").encode()

    def picture(self, question: Question, wanted: Wanted = _always) -> bytes:
        """The figure, as SVG."""
        return self._pages.get(("picture", question), lambda: self._picture(question, wanted))

    def settled(self, seconds: float) -> bool:
        """Whether nothing is being worked out, or will have been within these seconds."""
        free = self._work.acquire(timeout=seconds)
        if free:
            self._work.release()
        return free

    def _picture(self, question: Question, wanted: Wanted) -> bytes:
        found = [explanation for explanation, _ in self._explained(question, wanted)]
        with self._turn(wanted):
            return render(figure(found), ".svg")

    def _page(self, question: Question, wanted: Wanted) -> bytes:
        # Not under the lock: whoever works on one of these explanations needs it.
        found = self._explained(question, wanted)
        explanations = [explanation for explanation, _ in found]
        with self._turn(wanted):
            data = page_data(explanations, title=self._title(question, explanations[0]))
        data["notes"] = list(dict.fromkeys(note for _, notes in found for note in notes))
        data["index"], data["text"] = question.index, self.text(question.index)
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()

    @contextmanager
    def _turn(self, wanted: Wanted) -> Iterator[None]:
        """One thing at a time; who asked for it may have left before its turn comes."""
        with self._work:
            if not wanted():
                raise AbandonedError("whoever asked for this has left")
            yield

    def _title(self, question: Question, explanation: Explanation) -> str:
        row = explanation_row(explanation, 1)
        name = self._name(question.index) if self.level == "node" else str(question.index)
        if self.level == "edge":
            name = " – ".join(self._name(node) for node in explained_nodes(explanation).tolist())
        called = f" ({name})" if name != str(question.index) else ""
        answer = "" if row["class"] is None else f": class {row['class']}"
        if not answer and row["output"] is not None:
            answer = f": output {row['output']:.4g}"
        return f"{self.label}, {self.level} {question.index}{called}{answer}"

    def _explained(self, question: Question, wanted: Wanted) -> list[tuple[Explanation, tuple[str, ...]]]:
        return [
            self._explanations.get(
                (question.index, method, question.neighborhood),
                lambda method=method: self._explain(question, method, wanted),  # type: ignore[misc]
            )
            for method in question.methods
        ]

    def _explain(self, question: Question, method: str, wanted: Wanted) -> tuple[Explanation, tuple[str, ...]]:
        """An explanation with its score, and what the library warned of meanwhile."""
        with self._turn(wanted), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            samples = self._samples(method)
            explanation = self.subject.explain(
                question.index, method, question.neighborhood, samples, self.test_samples, self.seed
            )
        ours = (one for one in caught if one.category.__module__.startswith("graphfaith"))
        return explanation, tuple(str(one.message) for one in ours)

    def _samples(self, method: str) -> Samples:
        """Only AnchoredKEC knows when it has enough."""
        return self.samples if self.samples != "auto" or method == "anchored-kec" else 200

    def _reason(self, method: str) -> str:
        try:
            self.subject.explainer(method, "U(A,0.5)")
        except UnsupportedError as error:
            return str(error)
        return "not found"

    # The page's own start -----------------------------------------------------------------------------------------

    def start(self, first: Question) -> dict[str, Any]:
        """What an empty page has to know to ask its first question."""
        constant = bool(self.subject.data.x.min() == self.subject.data.x.max())
        return {
            "title": f"graphfaith: {shorten(self.label, LONGEST_NAME)}",
            "live": {
                "label": self.label,
                "level": self.level,
                "methods": self.methods,
                "chosen": list(first.methods),
                "neighborhoods": list(EDGE_NEIGHBORHOODS + (() if constant else FEATURE_NEIGHBORHOODS)),
                "near": first.neighborhood,
                "index": first.index,
            },
        }


def check_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Names of methods, if a page can show so many."""
    methods = tuple(methods_of(list(names)))
    if not methods:
        raise InputError("choose at least one method")
    if len(methods) > MOST_METHODS:
        raise InputError(f"choose at most {MOST_METHODS} methods (got {len(methods)})")
    return methods


def _supported(subject: Subject) -> dict[str, str]:
    """Methods that can explain such a model, and what they are called in a panel."""
    found = {}
    for name, make in METHODS.items():
        try:
            subject.explainer(name, "U(A,0.5)")
        except UnsupportedError:
            continue
        found[name] = make(UniformEdges(0.5), 200, 0).method
    return found


def _one(fields: Mapping[str, Sequence[str]], name: str, what: str) -> str:
    values = fields.get(name, ())
    if len(values) != 1 or not values[0].strip():
        raise InputError(f"name one {name}: {what}")
    return values[0]
