"""Functions that processes of the stress suite try in its tests."""

from __future__ import annotations

import os
import time


def misbehave(seed):
    """Die at seed 1, do not answer at seed 2, and answer at all others."""
    from table import Outcome  # the suite's folder is on the path only where this is called

    if seed == 1:
        os._exit(7)
    if seed == 2:
        time.sleep(600)
    return Outcome("answered")
