"""The desk: takes a question as text, has it explained, and hands out the answer as a page shows it or a file keeps it.

A model in work is not safe from a second thread (PyG's explainers set masks on its layers), nor is matplotlib. So one
thing is worked out at a time, and what is asked again is not worked out again.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_geometric.explain import Explanation

from ..arguments import EDGE_NEIGHBORHOODS, FEATURE_NEIGHBORHOODS, methods_of, neighborhoods_of
from ..checks import check_node
from ..comparison import METHODS
from ..errors import InputError, UnsupportedError
from ..neighborhood import UniformEdges
from ..report import explanation_row, finite_rows
from ..subject import Subject
from ..view.figure import figure, render
from ..view.labels import shorten
from ..view.page import LONGEST_NAME, page_data
from .flights import Flights

MOST_METHODS = 6
MATCHES = 20  # of a search
TOP = 100  # edges and features in a JSON file
_PICTURED = 60  # nodes in a picture to keep; the page has more, and a magnifier
# An explanation of a large graph has masks as large, so few are kept; what a page shows is small.
_KEPT_EXPLANATIONS, _KEPT_PAGES = 8, 200


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
        self, subject: Subject, label: str, *, samples: Any = 200, test_samples: int = 500, seed: int = 0
    ) -> None:
        self.subject, self.label = subject, label
        self.samples, self.test_samples, self.seed = samples, test_samples, seed
        self.methods = _supported(subject)
        names = subject.data.get("node_names")
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        # Of nodes with the same name, the name stands for the first.
        self._ids = {name: node for node, name in reversed(list(enumerate(self.names or ())))}
        self._explanations: Flights[tuple[Explanation, tuple[str, ...]]] = Flights(_KEPT_EXPLANATIONS)
        self._pages: Flights[bytes] = Flights(_KEPT_PAGES)
        self._work = threading.Lock()

    # Questions ----------------------------------------------------------------------------------------------------

    def question(self, fields: Mapping[str, Sequence[str]]) -> Question:
        """Read and check a question, as a form or an address has it: ``index``, ``near``, and ``method`` repeated."""
        unknown = sorted(set(fields) - {"index", "near", "method"})
        if unknown:
            raise InputError(f"a question has index, near and method, and nothing called {shorten(unknown[0], 40)!r}")
        methods = tuple(methods_of(list(fields.get("method", ()))))
        if not methods:
            raise InputError("choose at least one method")
        if len(methods) > MOST_METHODS:
            raise InputError(f"choose at most {MOST_METHODS} methods (got {len(methods)})")
        for name in methods:
            if name not in self.methods:
                raise UnsupportedError(f"{name} cannot explain this model: {self._reason(name)}")
        near = neighborhoods_of([_one(fields, "near", "a neighbourhood, as U(A,0.5)")], self.label, self.subject.data)
        return Question(self.row(_one(fields, "index", f"a {self.level}")), methods, near[0])

    @property
    def level(self) -> str:
        """What is explained: a node, an edge or a graph."""
        return self.subject.task.level

    def row(self, text: str) -> int:
        """The row that an id or a name stands for."""
        text = text.strip()
        if self.level == "node" and text in self._ids:
            return self._ids[text]
        try:
            index = int(text)
        except ValueError:
            what = "the id or the name of a node" if self.level == "node" else f"the number of a {self.level}"
            raise InputError(f"{shorten(text, 40)!r} is not {what} of {self.label}") from None
        return check_node(index, self.subject.data.num_nodes) if self.level == "node" else index

    def find(self, text: str) -> list[dict[str, Any]]:
        """Nodes whose id or name begins with, or else whose name holds, a text."""
        wanted, count = text.strip().lower(), self.subject.data.num_nodes
        if not wanted or self.level != "node":
            return []
        is_id = wanted.isascii() and wanted.isdecimal() and len(wanted) < 12
        found = [int(wanted)] if is_id and int(wanted) < count else []
        if self.names is not None:
            folded = [name.lower() for name in self.names]
            starts = [node for node, name in enumerate(folded) if name.startswith(wanted)]
            found += starts
            if len(found) < MATCHES:
                found += [node for node, name in enumerate(folded) if wanted in name]
        return [{"id": node, "name": self._name(node)} for node in list(dict.fromkeys(found))[:MATCHES]]

    def _name(self, node: int) -> str:
        return str(node) if self.names is None else shorten(self.names[node], LONGEST_NAME) or "(no name)"

    # Answers ------------------------------------------------------------------------------------------------------

    def page(self, question: Question) -> bytes:
        """What the page shows, as JSON."""
        return self._pages.get(question, lambda: self._page(question))

    def rows(self, question: Question) -> bytes:
        """The rows of JSON that ``graphfaith explain`` writes."""
        settings = {"dataset": self.label, "neighborhood": question.neighborhood, "seed": self.seed}
        rows = [
            explanation_row(explanation, TOP, **settings, method=method, fit_samples=self.samples)
            for method, (explanation, _) in zip(question.methods, self._explained(question), strict=True)
        ]
        return (json.dumps(finite_rows(rows), indent=2, allow_nan=False) + "\n").encode()

    def picture(self, question: Question) -> bytes:
        """The figure, as SVG."""
        found = [explanation for explanation, _ in self._explained(question)]
        with self._work:
            return render(figure(found, max_nodes=_PICTURED), ".svg")

    def settled(self, seconds: float) -> bool:
        """Whether nothing is being worked out, or will have been within these seconds."""
        free = self._work.acquire(timeout=seconds)
        if free:
            self._work.release()
        return free

    def _page(self, question: Question) -> bytes:
        # Not under the lock: whoever works on one of these explanations needs it.
        found = self._explained(question)
        explanations = [explanation for explanation, _ in found]
        with self._work:
            data = page_data(explanations, title=self._title(question, explanations[0]))
        data["notes"] = list(dict.fromkeys(note for _, notes in found for note in notes))
        data["index"] = question.index
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()

    def _title(self, question: Question, explanation: Explanation) -> str:
        row = explanation_row(explanation, 1)
        name = self._name(question.index) if self.level == "node" else str(question.index)
        called = f" ({name})" if name != str(question.index) else ""
        answer = "" if row["class"] is None else f": class {row['class']}"
        if not answer and row["output"] is not None:
            answer = f": output {row['output']:.4g}"
        return f"{self.label}, {self.level} {question.index}{called}{answer}"

    def _explained(self, question: Question) -> list[tuple[Explanation, tuple[str, ...]]]:
        return [
            self._explanations.get(
                (question.index, method, question.neighborhood),
                lambda method=method: self._explain(question, method),  # type: ignore[misc]
            )
            for method in question.methods
        ]

    def _explain(self, question: Question, method: str) -> tuple[Explanation, tuple[str, ...]]:
        """An explanation with its score, and what the library warned of meanwhile."""
        with self._work, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            explanation = self.subject.explain(
                question.index, method, question.neighborhood, self.samples, self.test_samples, self.seed
            )
        return explanation, tuple(
            str(one.message) for one in caught if one.category.__module__.startswith("graphfaith")
        )

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
