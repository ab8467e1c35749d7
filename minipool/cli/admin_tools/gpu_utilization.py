"""condor_gpu_utilization: says again and again how much the GPUs of this machine are used; the startd's monitor."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

USAGE = """Usage: condor_gpu_utilization
Print every ten seconds how long each GPU was busy since the last time, and how much of its memory was taken, as
attributes for the slots that have it. Ends only when it is killed.
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_gpu_utilization."""
    if argv:
        (sys.stdout if argv[0] in ("-help", "-h", "--help") else sys.stderr).write(USAGE)
        return 0 if argv[0] in ("-help", "-h", "--help") else 1
    from pool.gpus.meter import watch

    watch(write=say, complain=sys.stderr.write, now=time.monotonic, sleep=time.sleep)
    return 0


def say(text: str) -> None:
    """Print at once: whoever reads it waits for each report."""
    sys.stdout.write(text)
    sys.stdout.flush()
