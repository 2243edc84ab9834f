"""Whether a model is a function of its arguments: the same output for the same input, whatever came before.

Two kinds of models are not. One draws random numbers in its forward, by a dropout that is not switched off, say. The
other keeps what it has computed, such as the degrees of the first graph it saw, and uses that for the next one. Both
may look right in a few outputs, so the random state and the attributes are looked at, too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._base.errors import ModelError
from .._base.randomness import keep_random_state, random_state
from .call import Call
from .probe import ORDINARY, run_at
from .record import drop_kept
from .whole import is_close, largest

_REPEATED = 32  # runs of a model that draws random numbers, which need not have an effect


def check_steady(call: Call) -> None:
    """Raise a :class:`ModelError` if the output of ``call`` depends on random numbers or on earlier calls."""
    name = type(call.model).__name__
    part = call.part
    with keep_random_state() as before:
        output = call(part.x, part.weight)
        if random_state() != before:
            scale = largest(output)
            for _ in range(_REPEATED):
                if not is_close(call(part.x, part.weight), output, scale):
                    raise ModelError(
                        f"{name}.forward draws random numbers in eval mode, so its output changes from one call to the "
                        "next: it cannot be explained (a dropout without training=self.training is a usual cause)"
                    )
    kept = drop_kept(call.model)
    if kept:
        first = _run_in_turn(call, drawn_first=False)
        drop_kept(call.model)
        second = _run_in_turn(call, drawn_first=True)
        drop_kept(call.model)
        if not all(_agree(a, b) for a, b in zip(first, second, strict=True)):
            raise ModelError(
                f"{name}.forward keeps {', '.join(kept)} from one call to the next and computes with it, so its output "
                "depends on earlier calls: it cannot be explained unless each call computes that anew"
            )


def _run_in_turn(call: Call, *, drawn_first: bool) -> tuple[Tensor | None, Tensor | None]:
    """Return the output on the part as it is and at another point, computed in this order or in the other one."""
    part = call.part
    points = [(part.x, part.weight), ORDINARY.on(part, torch.Generator().manual_seed(3))]
    places = (1, 0) if drawn_first else (0, 1)
    found = {place: run_at(call, *points[place]) for place in places}
    return found[0], found[1]


def _agree(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else is_close(a, b, largest(a))
