"""`python -m daemons.libexec.gpu_utilization`: condor_gpu_utilization where no program has GPU_MONITOR's name."""

from __future__ import annotations

import sys
import time

from pool.gpus.meter import watch


def say(text: str) -> None:
    """Print at once: the startd waits for each report."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    watch(write=say, complain=sys.stderr.write, now=time.monotonic, sleep=time.sleep)
