"""What a tool is, and how it ends: one sentence on the right stream, and the exit status that scripts expect."""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from minipool.cli.entry.options import MissingValue, Opt, Parsed, UsageError, parse
from pool.base.errors import PoolError


class Tool(NamedTuple):
    """One command. `usage` is the line after the name; `unknown` is said of an option that is not in the table."""

    name: str
    summary: str
    usage: str
    options: tuple[Opt, ...]
    unknown: str = "Unrecognized option: {}"
    usage_on_stdout: bool = False
    stop_at_word: bool = False
    value_follows: Callable[[Parsed], bool] | None = None
    """Whether the next word is the value of the last one, even if it looks like an option (see `parse`)."""
    notes: str = ""
    missing: str = ""
    """What is said, before the usage, of an option (`{}`) without its value, where the tool has words of its own."""
    bad_usage_status: int = 1
    """Exit status of a wrong command line; with another than 1 the sentence stands alone, without the usage."""


HELP = Opt("help", 1, says="show this")
VERSION_OPT = Opt("version", 1, says="show the version")
DEBUG = Opt("debug", 1, says="say more about what is done", colon=True)
POOL = Opt("pool", 1, 1, "HOST[:PORT]", "the pool whose collector is at this address")
JSON = Opt("json", 2, says="print what is found as JSON")
NAME = Opt("name", 1, 1, "NAME", "the daemon of this name instead of the local one")
ADDR = Opt("addr address", 2, 1, "ADDRESS", "the daemon at this address")
FORMATTING = (
    Opt("autoformat af", (5, 2), -1, "ATTR...", "print these attributes or expressions, one row for each ad", True),
    Opt("format", 1, 2, "FMT ATTR", "print an attribute or expression with a printf format; may be repeated"),
    Opt("long", 1, says="print whole ads", colon=True),
    Opt("attributes", 2, 1, "A,B", "with whole ads: only these attributes"),
    Opt("json", 2, says="print ads as JSON"),
    Opt("xml", 3, says="print ads as XML"),
)

Main = Callable[[Parsed], int]


def refused(names: str, why: str, least: int = 99) -> tuple[Opt, ...]:
    """Rows for HTCondor's options that have no meaning here; each is refused with the reason. `least`: as for Opt."""
    return tuple(Opt(name, least, says=f"refused: {why}", colon=True, refused=why) for name in names.split())


def usage(tool: Tool) -> str:
    """The text of -help: the usage line and a line for each option."""
    lines = [f"Usage: {tool.name} {tool.usage}".rstrip(), ""]
    shown = [(shown_option(row), row.says) for row in tool.options if not row.refused]
    width = min(34, max((len(left) for left, _ in shown), default=0))
    for left, says in shown:
        lines.append(f"    {left:<{width}}  {says}" if len(left) <= width else f"    {left}\n    {'':<{width}}  {says}")
    if tool.notes:
        lines += ["", tool.notes]
    return "\n".join(lines) + "\n"


def shown_option(row: Opt) -> str:
    """Its names and what follows them, as help and manual pages show it."""
    names = " | ".join(f"-{name}" for name in row.names.split())
    return " ".join(part for part in (names + ("[:...]" if row.colon else ""), row.metavar) if part)


def run(tool: Tool, main: Main, argv: Sequence[str]) -> int:
    """Parse, do what every tool does alike (-help, -version, errors), and leave the rest to `main`."""
    try:
        parsed = parse(
            tool.options,
            argv,
            unknown=tool.unknown,
            stop_at_word=tool.stop_at_word,
            value_follows=tool.value_follows,
        )
        if parsed.has("help"):
            sys.stdout.write(usage(tool))
            return 0
        if parsed.has("version"):
            from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION

            sys.stdout.write(f"{CONDOR_VERSION}\n{CONDOR_PLATFORM}\n")
            return 0
        return main(parsed)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        # Those of HTCondor's tools with another status print no usage (condor_drain).
        if tool.bad_usage_status == 1:
            (sys.stdout if tool.usage_on_stdout else sys.stderr).write(usage(tool))
        return tool.bad_usage_status
    except MissingValue as error:
        said = tool.missing.format(error.option) if tool.missing and error.option else ""
        sys.stderr.write(f"{said}\n{usage(tool)}" if said else f"{error}\n")
        return 1
    except PoolError as error:
        # What was printed before the failure stands before what is said of it, also where both streams are one.
        sys.stdout.flush()
        said = str(error)
        sys.stderr.write(said if said.endswith("\n") else f"{said}\n")
        return 1
