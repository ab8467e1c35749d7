"""`python -m benchmarks [NAME...]`: run the named suites (default: all) and print one JSON object. A suite that fails
costs its own figures, and the exit status is 1.

A suite is a module here with `def figures() -> Iterator[Figure]`. Absolute figures belong to one machine and one
moment; documentation quotes ratios.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import signal
import sys
import traceback

SUITES = (
    "checkpoint",
    "classad",
    "cold_job",
    "collector",
    "dag",
    "floods",
    "gang",
    "lasting",
    "launch",
    "messages",
    "pool_run",
    "queue",
    "remote_io",
    "rpc",
    "running",
    "scale",
    "startd",
    "tools",
    "transfer",
    "why",
    "what_if",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"unknown suite {unknown[0]!r}; there are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what a suite has started ends with it
    taken, failed = [], []
    for name in names or SUITES:
        try:
            for figure in importlib.import_module(f"benchmarks.{name}").figures():
                taken.append({"suite": name, **figure._asdict()})
                value = f"{figure.value:.4g}"
                words = f"{name:10} {figure.name:60} {value:>12} {figure.unit:10} {figure.aim}"
                print(words, file=sys.stderr, flush=True)
        except Exception:  # the figures of the others are not lost by it
            traceback.print_exc()
            failed.append(name)
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()}
    print(json.dumps({"machine": machine, "figures": taken, "failed": failed}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
