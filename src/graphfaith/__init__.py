"""Explanations of graph neural networks, with a number and an error bar that say how far to trust them.

``explain`` and ``compare`` are the way in. Methods and neighbourhoods are arguments of theirs, or of PyG's own
``torch_geometric.explain.Explainer``. Everything else lives in its room; ``docs/architecture.md`` leads through them.

The names are those of :mod:`graphfaith.public`. They are loaded when the first of them is used, because torch takes
seconds to load, and ``graphfaith --help`` and the completion of a shell need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base import interruption  # noqa: F401  # It has to come before torch: see there.
from ._base.version import __version__ as __version__

if TYPE_CHECKING:
    from .public import *  # noqa: F403
    from .public import __all__ as __all__
else:
    # A name that is asked for by anybody, also by ``from graphfaith import *``, comes from here the first time.
    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'graphfaith' has no attribute {name!r}")
        public = import_module(".public", __name__)
        names = globals()
        names["__all__"] = public.__all__
        names.update({one: getattr(public, one) for one in public.__all__})
        try:
            return names[name]  # The rooms, too, are there by now.
        except KeyError:
            raise AttributeError(f"module 'graphfaith' has no attribute {name!r}") from None

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
