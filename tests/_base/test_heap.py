"""What is freed and kept: the next arrays do not ask the system for pages again."""

import subprocess
import sys

COUNT = """
import resource, sys
import numpy as np
from graphfaith._base.heap import keep_free_memory
known = keep_free_memory() if sys.argv[1] == "keep" else True
def make():
    for _ in range(5):
        [np.ones(1 << 20) for _ in range(6)]  # eight megabytes each
make()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
make()
print(int(known), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_faults(how):
    done = subprocess.run([sys.executable, "-c", COUNT, how], capture_output=True, text=True, check=True)
    known, faults = map(int, done.stdout.split())
    return bool(known), faults


def test_kept_memory_is_not_asked_for_again():
    known, kept = count_faults("keep")
    _, returned = count_faults("return")
    assert not known or kept < returned / 10, (kept, returned)
    assert known or sys.platform != "linux"
