"""Functions that processes of the stress suite try in its tests."""

from __future__ import annotations

import os
import time

from table import Outcome


def misbehave(seed):
    """Die at seed 1, do not answer at seed 2, and answer at all others."""
    if seed == 1:
        os._exit(7)
    if seed == 2:
        time.sleep(600)
    return Outcome("answered")
