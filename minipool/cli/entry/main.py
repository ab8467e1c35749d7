"""The entry of every program: find the tool by its name, run it, leave at once.

Only this module and `names` are imported before it is known which tool is meant.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from minipool.cli.entry.names import POOL_VERBS, TOOLS


def condor() -> NoReturn:
    """The entry of each `condor_*` program."""
    begin()
    verb = os.path.basename(sys.argv[0]).removeprefix("condor_").removesuffix(".py")
    leave(dispatch(verb, sys.argv[1:]))


def pool() -> NoReturn:
    """The entry of the `pool` program."""
    begin()
    leave(pool_main(sys.argv[1:]))


def begin() -> None:
    """What every program does first."""
    leave_garbage()
    if sys.stdout.isatty() or sys.stderr.isatty() or sys.stdout.errors == "strict":  # else there is nothing to prepare
        from minipool.cli.entry.console import prepare_output

        prepare_output()


def leave_garbage() -> None:
    """Look for garbage seldom: most tools end before there is any, and the search takes 3 ms of importing modules."""
    gc.set_threshold(200_000, 10, 10)


def pool_main(argv: Sequence[str]) -> int:
    """`pool VERB ...`; alone, or with a verb that does not exist, it helps."""
    # Who types `pool` alone wants to know what there is; that is no mistake.
    if not argv or argv[0] in ("help", "-h", "-help", "--help"):
        sys.stdout.write(help_text())
        return 0
    verb = argv[0].replace("-", "_").removeprefix("condor_")
    # `pool --version`: the dashes have become underscores above.
    if verb in ("_version", "__version"):
        verb = "version"
    if verb in TOOLS or verb in POOL_VERBS:
        return dispatch(verb, argv[1:])
    from pool.base.nearest import nearest_name

    near = nearest_name(verb, [*TOOLS, *POOL_VERBS])
    hint = f" (did you mean {near!r}?)" if near else ""
    sys.stderr.write(f"pool: there is no command {argv[0]!r}{hint}\nRun `pool` alone to see them all.\n")
    return 1


def dispatch(verb: str, argv: Sequence[str]) -> int:
    """Run the tool of this verb and return its exit status."""
    found = TOOLS.get(verb) or POOL_VERBS.get(verb)
    if found is None:
        sys.stderr.write(f"condor_{verb}: there is no such tool\n")
        return 1
    module = __import__(f"minipool.cli.{found[0]}", fromlist=["main"])
    try:
        status: int = module.main(verb, list(argv))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reader has gone; nothing more can be said
        return 0
    except OSError as error:  # a file that the user has named, or a full disk: the system's own words say it best
        return refused_by_system(verb, error)
    return status


def refused_by_system(verb: str, error: OSError) -> int:
    """Say what the system has refused; the exit status."""
    program = f"condor_{verb}" if verb in TOOLS else f"pool {verb}"
    where = "" if error.filename is None else f"{error.filename}: "
    if not where:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it takes nothing more, and would refuse that again at the end
    sys.stderr.write(f"{program}: {where}{error.strerror or error}\n")
    return 1


def help_text() -> str:
    """What `pool` alone prints."""
    lines = [
        "Usage: pool COMMAND [options]        (each command but those of the first group is also condor_COMMAND)",
        "",
    ]
    for verbs in (POOL_VERBS, TOOLS):
        lines += [f"  {verb:<14} {says}" for verb, (_, says) in verbs.items()] + [""]
    lines.append("`pool COMMAND -help` shows the options of a command. Start with `pool up`.")
    return "\n".join(lines) + "\n"


def leave(status: int) -> NoReturn:
    """End the process without the interpreter's clean-up, which would cost a tool milliseconds."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass
    except OSError as error:  # what was kept back until now does not fit on the disk
        sys.stderr.write(f"standard output: {error.strerror}\n")
        status = status or 1
    os._exit(status)
