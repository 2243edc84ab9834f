"""Where an explanation comes from: the ``Explainer`` that made it, and with it the model."""

from __future__ import annotations

from typing import Any

from torch_geometric.explain import Explainer, Explanation

from .._base.errors import InputError

_FIELD = "_origin"


class Origin:
    """A reference to the explainer; copies share it, and files and pickles leave it out."""

    def __init__(self, explainer: Explainer | None = None) -> None:
        self.explainer = explainer

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an origin that knows nothing: an explanation does not carry its model."""
        return Origin, ()

    def __deepcopy__(self, memo: Any) -> Origin:
        """Return the same origin, because the model is not part of the explanation."""
        return self


def remember_origin(explanation: Explanation, explainer: Explainer) -> None:
    """Let an explanation know which explainer has made it."""
    setattr(explanation, _FIELD, Origin(explainer))


def explainer_of(explanation: Explanation, what: str) -> Explainer:
    """Return the explainer that has made an explanation; an error says that ``what`` needs one."""
    origin = getattr(explanation, _FIELD, None)
    explainer = origin.explainer if isinstance(origin, Origin) else None
    if explainer is None:
        raise InputError(
            f"{what} asks the model, and this explanation does not know it, because it was loaded or not made by an "
            "Explainer: pass explainer=, for example gf.explainer_for(model, data)"
        )
    return explainer
