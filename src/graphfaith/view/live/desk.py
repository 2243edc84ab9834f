"""The desk: it reads a question, has it explained, and returns the answer for the page or as a file.

Two threads must not use a model at the same time, because PyG's explainers set masks on its layers, and matplotlib is
not safe for threads either. So the desk works on one question at a time, in the order in which they come and in one
thread of its own, and keeps its last answers.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from torch_geometric.explain import Explanation

from ..._base.checks import check_node
from ..._base.errors import InputError, UnsupportedError
from ..._base.heap import return_free_memory
from ...explainers.base import Samples
from ...explainers.methods import expand_methods, method_named, method_names
from ...explanation.scores import explained_nodes
from ...facade.fitting import NEIGHBORHOOD
from ...facade.subject import Subject, expand_neighborhoods
from ...graph.form import flatten_features
from ...sampling.neighborhood import describe_neighborhood
from ..content import LONGEST_NAME, page_data
from ..figure import figure, render
from ..labels import shorten
from ..page import render_page
from ..report import explanation_row, finite_rows
from .flights import Flights
from .removal import FIELDS, Removal, find_flip, judge, read_removal

T = TypeVar("T")
Wanted = Callable[[], bool]
MOST_METHODS = 6
MATCHES = 20  # of a search
TOP = 100  # edges and features in a JSON file
# The masks of an explanation are as large as the graph, so few are kept. A page or a picture has from 10 kB to several
# MB, so their sizes are limited and not their number.
_KEPT_EXPLANATIONS, _KEPT_BYTES = 8, 16 * 2**20


class AbandonedError(Exception):
    """The work was not done, because the client that asked for it has left; another client may ask again."""


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Question:
    """What to explain, by which methods, and in which neighbourhood they have to be faithful."""

    index: int
    methods: tuple[str, ...]
    neighborhood: str


class Desk:
    """Explains rows of the output of a ``subject``, which is called ``label``.

    ``samples``, ``test_samples`` and ``seed`` are the arguments of :meth:`~graphfaith.facade.Subject.explain`.
    """

    def __init__(
        self, subject: Subject, label: str, *, samples: Samples = 200, test_samples: int = 500, seed: int = 0
    ) -> None:
        self.subject, self.label = subject, label
        self.samples, self.test_samples, self.seed = samples, test_samples, seed
        self.methods = _supported(subject)
        self._constant = bool(subject.data.x.min() == subject.data.x.max())
        names = subject.data.get("node_names")
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        # If several nodes have the same name, the name means the first of them.
        self._ids = {name.strip(): node for node, name in reversed(list(enumerate(self.names or ())))}
        self._explanations: Flights[tuple[Explanation, tuple[str, ...]]] = Flights(_KEPT_EXPLANATIONS)
        self._pages: Flights[bytes] = Flights(_KEPT_BYTES, weigh=len)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="desk")

    # Questions ----------------------------------------------------------------------------------------------------

    def question(self, fields: Mapping[str, Sequence[str]]) -> Question:
        """Read and check a question from the fields of an address: ``near``, ``method``s, and ``index`` or ``name``.

        An ``index`` is always an id; a ``name``, which a person typed, may be a name or an id.
        """
        unknown = sorted(set(fields) - {"index", "name", "near", "method"})
        if unknown:
            raise InputError(f"a question has no field called {shorten(unknown[0], 40)!r}")
        if "index" in fields and "name" in fields:
            raise InputError("give either the index or the name of what to explain, not both")
        near = _single(fields, "near", "a neighbourhood such as U(A,0.5)")
        what = f"the {self.level} to explain"
        is_id = "index" in fields
        row = self.row(_single(fields, "index", what)) if is_id else self.named(_single(fields, "name", what))
        return self.ask(row, fields.get("method", ()), near)

    def ask(self, index: int, methods: Sequence[str], near: str) -> Question:
        """Check the parts of a question and return it."""
        chosen = check_methods(methods)
        for name in chosen:
            if name not in self.methods:
                raise UnsupportedError(f"{name} cannot explain this model: {self._reason(name)}")
        if near == "all":
            raise InputError("give one neighbourhood, for example U(A,0.5)")
        text = expand_neighborhoods([near], self.label, constant=self._constant)[0]
        return Question(index, chosen, str(self.subject.near(text)))

    def question_and_removal(self, fields: Mapping[str, Sequence[str]]) -> tuple[Question, Removal]:
        """Read and check a question and what is to be taken away (:func:`read_removal`)."""
        question = self.question({name: values for name, values in fields.items() if name not in FIELDS})
        return question, read_removal(fields, *flatten_features(self.subject.data.x).shape)

    @property
    def level(self) -> str:
        """What is explained: a "node", an "edge" or a "graph"."""
        return self.subject.task.level

    def row(self, text: str) -> int:
        """Return the row of the output whose id the text is."""
        what = "the id or the name of a node" if self.level == "node" else f"the number of a {self.level}"
        if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
            raise InputError(f"{shorten(text, 40)!r} is not {what} of {shorten(self.label, 40)}")
        index = int(text)
        if self.level == "node":
            return check_node(index, self.subject.data.num_nodes)
        if not 0 <= index < 2**31:
            raise InputError(f"there is no {self.level} {index}: their numbers begin at 0")
        return index

    def named(self, text: str) -> int:
        """Return the row of the output that a person means: the node of that name, or else of that id."""
        node = self._ids.get(text.strip()) if self.level == "node" else None
        return self.row(text) if node is None else node

    def text(self, index: int) -> str:
        """Return the text that :meth:`named` reads as this row: the node's name if that is unique, else the id."""
        name = None if self.names is None or self.level != "node" else self.names[index].strip()
        return str(index) if name is None or self._ids.get(name) != index else name

    def find(self, text: str) -> list[dict[str, Any]]:
        """Return the nodes whose id is the text, then those whose name begins with it, then those that contain it."""
        wanted, count = text.strip().lower(), self.subject.data.num_nodes
        if not wanted or self.level != "node":
            return []
        is_id = re.fullmatch(r"[0-9]{1,12}", wanted) is not None
        nodes = [int(wanted)] if is_id and int(wanted) < count else []
        if self.names is not None:
            folded = [name.lower() for name in self.names]
            nodes += [node for node, name in enumerate(folded) if name.startswith(wanted)]
            if len(nodes) < MATCHES:
                nodes += [node for node, name in enumerate(folded) if wanted in name]
        # A node whose name and id both mean another node cannot be asked for by a text.
        matches = [node for node in dict.fromkeys(nodes) if self.named(self.text(node)) == node]
        return [{"id": node, "name": self._name(node), "text": self.text(node)} for node in matches[:MATCHES]]

    def _name(self, node: int) -> str:
        return str(node) if self.names is None else shorten(self.names[node], LONGEST_NAME) or "(no name)"

    # Answers ------------------------------------------------------------------------------------------------------

    def page(self, question: Question, wanted: Wanted = _always) -> bytes:
        """Return what the page shows, as JSON. Work that is no longer ``wanted`` when its turn comes is not done."""
        return self._pages.get(question, lambda: self._page(question, wanted))

    def rows(self, question: Question, wanted: Wanted = _always) -> bytes:
        """Return the rows of JSON that ``graphfaith explain`` writes."""
        settings = {"dataset": self.label, "neighborhood": question.neighborhood, "seed": self.seed}
        rows = [
            explanation_row(explanation, TOP, **settings, method=method, fit_samples=self._samples(method))
            for method, (explanation, _) in zip(question.methods, self._explained(question, wanted), strict=True)
        ]
        return (json.dumps(finite_rows(rows), indent=2, allow_nan=False) + "\n").encode()

    def picture(self, question: Question, wanted: Wanted = _always) -> bytes:
        """Return the figure, as SVG."""
        return self._pages.get(("picture", question), lambda: self._picture(question, wanted))

    def file(self, question: Question, wanted: Wanted = _always) -> bytes:
        """Return the page as a file that needs no server."""
        data = json.loads(self.page(question, wanted))
        return render_page(data).encode()

    def judge(self, asked: tuple[Question, Removal], wanted: Wanted = _always) -> bytes:
        """Return what p and the model say if something is taken away, as JSON."""
        return self._pages.get(("removal", asked), lambda: self._judge(*asked, wanted))

    def flip(self, question: Question, wanted: Wanted = _always) -> bytes:
        """Return the smallest change found that flips the answer, as JSON."""
        return self._pages.get(("flip", question), lambda: self._flip(question, wanted))

    def _judge(self, question: Question, removal: Removal, wanted: Wanted) -> bytes:
        explanations = [explanation for explanation, _ in self._explained(question, wanted)]
        found = self._take_turn(wanted, lambda: judge(self.subject, question.index, explanations, removal))
        return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()

    def _flip(self, question: Question, wanted: Wanted) -> bytes:
        explanations = [explanation for explanation, _ in self._explained(question, wanted)]
        found = self._take_turn(wanted, lambda: find_flip(self.subject, explanations))
        return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()

    def _picture(self, question: Question, wanted: Wanted) -> bytes:
        explanations = [explanation for explanation, _ in self._explained(question, wanted)]
        return self._take_turn(wanted, lambda: render(figure(explanations), ".svg"))

    def _page(self, question: Question, wanted: Wanted) -> bytes:
        answers = self._explained(question, wanted)
        explanations = [explanation for explanation, _ in answers]
        title = self._title(question, explanations[0])
        data = self._take_turn(wanted, lambda: page_data(explanations, title=title))
        data["notes"] = list(dict.fromkeys(note for _, notes in answers for note in notes))
        data["index"], data["text"] = question.index, self.text(question.index)
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()

    def _take_turn(self, wanted: Wanted, work: Callable[[], T]) -> T:
        """Return the result of some work that is done when nothing else is, unless the client has left by then.

        The work must not take a turn itself, because it would wait for its own end.
        """

        def work_if_wanted() -> T:
            if not wanted():
                raise AbandonedError("the client that asked for this has left")
            try:
                return work()
            finally:
                # Between the answers that are kept lies what the work has freed. It would become more and more.
                return_free_memory()

        return self._worker.submit(work_if_wanted).result()

    def _title(self, question: Question, explanation: Explanation) -> str:
        name = self._name(question.index) if self.level == "node" else str(question.index)
        if self.level == "edge":
            name = " – ".join(self._name(node) for node in explained_nodes(explanation).tolist())
        called = f" ({name})" if name != str(question.index) else ""
        return f"{self.label}, {self.level} {question.index}{called}"

    def _explained(self, question: Question, wanted: Wanted) -> list[tuple[Explanation, tuple[str, ...]]]:
        return [
            self._explanations.get(
                (question.index, method, question.neighborhood),
                lambda method=method: self._explain(question, method, wanted),  # type: ignore[misc]
            )
            for method in question.methods
        ]

    def _explain(self, question: Question, method: str, wanted: Wanted) -> tuple[Explanation, tuple[str, ...]]:
        """Return an explanation with its score, and the library's warnings."""

        def explain() -> tuple[Explanation, tuple[str, ...]]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                explanation = self.subject.explain(
                    question.index,
                    method,
                    question.neighborhood,
                    samples=self._samples(method),
                    test_samples=self.test_samples,
                    seed=self.seed,
                )
            ours = (warning for warning in caught if warning.category.__module__.startswith("graphfaith"))
            return explanation, tuple(str(warning.message) for warning in ours)

        return self._take_turn(wanted, explain)

    def _samples(self, method: str) -> Samples:
        """Return the number of samples for a method: 200 instead of "auto" if it cannot choose by itself."""
        chooses = getattr(method_named(method).kind, "chooses_samples", False)
        return self.samples if self.samples != "auto" or chooses else 200

    def _reason(self, method: str) -> str:
        try:
            self.subject.explainer(method)
        except UnsupportedError as error:
            return str(error)
        return "not found"

    # The page's own start -----------------------------------------------------------------------------------------

    def start(self, first: Question) -> dict[str, Any]:
        """Return the data of an empty page, with which it asks its first question."""
        return {
            "title": f"graphfaith: {shorten(self.label, LONGEST_NAME)}",
            "live": {
                "label": self.label,
                "level": self.level,
                "flips": self.subject.task.mode != "regression",
                "methods": self.methods,
                "chosen": list(first.methods),
                "neighborhoods": {
                    near: describe_neighborhood(near)
                    for near in expand_neighborhoods(["all"], self.label, constant=self._constant)
                },
                "near": first.neighborhood,
                "index": first.index,
            },
        }


def check_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of known methods, of which a page can show a few."""
    methods = tuple(expand_methods(names))
    if not methods:
        raise InputError("choose at least one method")
    if len(methods) > MOST_METHODS:
        raise InputError(f"choose at most {MOST_METHODS} methods (got {len(methods)})")
    return methods


def _supported(subject: Subject) -> dict[str, str]:
    """Return the methods that can explain the model, with their titles in a panel."""
    titles = {}
    for name in method_names():
        try:
            subject.explainer(name)
        except UnsupportedError:
            continue
        titles[name] = method_named(name).make_for(NEIGHBORHOOD, 200, 0).method
    return titles


def _single(fields: Mapping[str, Sequence[str]], name: str, what: str) -> str:
    """Return the value of a field that has to be given once."""
    values = fields.get(name, ())
    if len(values) != 1 or not values[0].strip():
        raise InputError(f"give one {name}: {what}")
    return values[0]
