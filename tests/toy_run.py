"""``python toy_run.py FOLDER ENGINE JSON``: a run of the toy job in a process of its own, to be killed."""

from __future__ import annotations

import json
import signal
import sys

from graphfaith.many.explain import explain_many
from toy_job import ToyJob

# A test run in the background of a shell ignores interrupts, and its children would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No guard for __main__: workers must not import the script that has started them.
settings = json.loads(sys.argv[3])
block = settings.pop("block")
print(explain_many(ToyJob(**settings), "all", sys.argv[1], engine=sys.argv[2], block=block))
