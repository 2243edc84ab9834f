"""Methods by name, as the command line, :func:`graphfaith.compare` and the live view know them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any

from .._base.errors import InputError, describe_error
from ..sampling.neighborhood import Neighborhood, as_neighborhood
from .anchored_kec import AnchoredKEC
from .base import FaithfulExplainer, FittedExplainer, Samples
from .gnnexplainer import GNNExplainer
from .integrated_gradients import IntegratedGradients
from .kec import KEC
from .linear import Linear
from .pgexplainer import PGExplainer
from .saliency import Saliency
from .shapley import Shapley
from .subgraphx import SubgraphX

Make = Callable[..., FaithfulExplainer]  # a subclass of FaithfulExplainer, or a partial of one

GROUP = "graphfaith.methods"  # the group of entry points by which another distribution adds methods


@dataclass(frozen=True)
class Method:
    """A method by name: its class, whether it is fitted to a neighbourhood, and whether "all" includes it."""

    name: str
    make: Make
    in_all: bool = True

    @property
    def kind(self) -> type[FaithfulExplainer]:
        """The class of the method."""
        kind: Any = self.make.func if isinstance(self.make, partial) else self.make
        return kind  # type: ignore[no-any-return]

    @property
    def is_fitted(self) -> bool:
        """Whether the method looks at the neighbourhood, so that each neighbourhood has a p of its own."""
        return issubclass(self.kind, FittedExplainer)

    def make_for(self, neighborhood: Neighborhood | str, samples: Samples, seed: int, **options: Any) -> Any:
        """Return the algorithm for a neighbourhood; ``options`` are those of every method (``num_hops``, ...)."""
        if self.is_fitted:
            return self.make(as_neighborhood(neighborhood), num_samples=samples, seed=seed, **options)
        if "seed" in inspect.signature(self.kind.__init__).parameters:
            options["seed"] = seed
        return self.make(**options)


_METHODS: dict[str, Method] = {}


def register_method(name: str, make: Make, *, in_all: bool = True) -> None:
    """Let the command line, :func:`graphfaith.compare` and the live view know a method by name.

    ``make`` is a subclass of :class:`FaithfulExplainer` or :class:`FittedExplainer`, or a ``functools.partial`` of one.
    ``in_all`` says whether "all" includes the method. A distribution can instead name the class as an entry point of
    the group "graphfaith.methods"; then the method is known as soon as the distribution is installed.

    >>> register_method("saliency-by-masks", partial(Saliency, edges="mask"), in_all=False)
    >>> method_named("saliency-by-masks").make_for("U(A,0.5)", 200, 0)
    Saliency(edges='mask')
    """
    method = Method(name, make, in_all)
    if not isinstance(name, str) or not name or name == "all" or name.strip() != name:
        raise InputError(f"a method needs a name other than 'all' (got {name!r})")
    if not isinstance(method.kind, type) or not issubclass(method.kind, FaithfulExplainer):
        raise InputError(f"{name!r} must be a subclass of FaithfulExplainer, or a functools.partial of one")
    _METHODS[name] = method


register_method("anchored-kec", AnchoredKEC)
register_method("kec", KEC)
register_method("linear", Linear)
register_method("saliency", Saliency)
register_method("ig-zero", partial(IntegratedGradients, baseline="zero"))
register_method("ig-random", partial(IntegratedGradients, baseline="random"))
register_method("ig-full", partial(IntegratedGradients, baseline="full"))
register_method("gnnexplainer", partial(GNNExplainer, hard=True))
register_method("gnnexplainer-soft", GNNExplainer)
register_method("pgexplainer", PGExplainer)
register_method("subgraphx", SubgraphX, in_all=False)  # it takes seconds for a node
register_method("shapley", Shapley, in_all=False)  # so does this one on a large graph


@cache
def _load_others() -> None:
    """Register the methods of other distributions, once, when a method is first looked up."""
    for entry in entry_points(group=GROUP):
        try:
            register_method(entry.name, entry.load())
        except Exception as error:  # one broken distribution must not make the other methods unavailable
            warnings.warn(
                f"the method {entry.name!r} ({entry.value}) is left out: {describe_error(error)}", stacklevel=3
            )


def method_named(name: str) -> Method:
    """Return the method of that name."""
    _load_others()
    if not isinstance(name, str) or name not in _METHODS:
        raise InputError(f"unknown method {name!r}: known are {', '.join(_METHODS)}")
    return _METHODS[name]


def method_names(*, in_all: bool = False) -> list[str]:
    """Return the names of the methods, or of those that "all" includes."""
    _load_others()
    return [name for name, method in _METHODS.items() if method.in_all or not in_all]


def expand_methods(names: Iterable[str]) -> list[str]:
    """Return names of methods, each once; "all" stands for all methods that it includes.

    >>> expand_methods(["kec", "saliency", "kec"])
    ['kec', 'saliency']
    """
    expanded = [one for name in names for one in (method_names(in_all=True) if name == "all" else [name])]
    for name in expanded:
        method_named(name)
    return list(dict.fromkeys(expanded))
