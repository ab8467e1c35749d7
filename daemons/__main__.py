"""`python -m daemons NAME ...`: a daemon in the foreground.

python -m daemons master --dir DIR [--config FILE]... [-c KEY=VALUE]...     a host of a pool
python -m daemons schedd --dir DIR ...                                      one daemon alone
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

NAMES = ("master", "collector", "negotiator", "schedd", "startd", "defrag", "rooster")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments name; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m daemons", description="Run a daemon in the foreground.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--dir", help="LOCAL_DIR: where logs, spool, sandboxes, sockets and keys are")
    parser.add_argument(
        "--config", action="append", default=[], metavar="FILE", help="a configuration file; may repeat"
    )
    parser.add_argument("-c", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="set a knob")
    given = parser.parse_args(argv)
    overrides = {}
    for setting in given.settings:
        key, equals, value = setting.partition("=")
        if not equals:
            parser.error(f"-c {setting}: expected KEY=VALUE")
        overrides[key.strip()] = value.strip()
    if sys.maxsize < 1 << 32:  # below the kernel of a processor that has more, such a Python is told the latter's name
        sys.exit("python -m daemons: this Python is of 32 bits, and a daemon calls the kernel as one of 64 bits does")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a daemon has as many threads as it asks for

    from daemons.base.heap import share_heap

    share_heap()
    from daemons.daemon_core.entry import run_process
    from daemons.daemon_core.source import ConfigSource
    from daemons.process import first_zygote

    directory = os.path.abspath(given.dir) if given.dir else None
    source = ConfigSource(directory, tuple(os.path.abspath(file) for file in given.config), overrides)
    first_zygote.fork_for(given.name)
    if given.name == "master":
        from daemons.master.process import run_master

        return run_master(source)
    return run_process(given.name, source)


if __name__ == "__main__":
    sys.exit(main())
