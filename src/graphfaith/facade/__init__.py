"""The way in: one explanation with its score, or methods side by side, for a model and a graph.

Both are thin uses of :class:`Subject`, a model on a graph, or :class:`TypedSubject`, one on a graph of several types.
It makes PyG's ``Explainer`` for a method by name, fits the method's p, and scores it on samples that the fit has not
seen.
"""

from .comparison import Comparison, Row, compare
from .fitting import Fit
from .prediction import explain, explainer_for
from .subject import Options, Subject
from .typed import TypedSubject

__all__ = ["Comparison", "Fit", "Options", "Row", "Subject", "TypedSubject", "compare", "explain", "explainer_for"]
