"""condor_version: which release this is."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import HELP, JSON, Tool, run

TOOL = Tool(
    "condor_version",
    "Show the version.",
    "[options]",
    (
        HELP,
        Opt("arch", 1, says="only the processor's architecture"),
        Opt("opsys", 1, says="only the operating system"),
        Opt("syscall", 1, says="accepted: there is no library of system calls"),
        JSON,
    ),
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_version."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION

    if parsed.has("json"):
        from minipool.cli.output.json_output import write_object

        write_object({"CondorVersion": CONDOR_VERSION, "CondorPlatform": CONDOR_PLATFORM})
    elif parsed.has("arch"):
        sys.stdout.write(CONDOR_PLATFORM.split()[1].partition("-")[0] + "\n")
    elif parsed.has("opsys"):
        sys.stdout.write(CONDOR_PLATFORM.split()[1].partition("-")[2] + "\n")
    else:
        sys.stdout.write(f"{CONDOR_VERSION}\n{CONDOR_PLATFORM}\n")
    return 0
