"""condor_ping: is a daemon there, and who am I in its eyes?"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.context import open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.tool import ADDR, DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.errors import PeerError, UserError

TOOL = Tool(
    "condor_ping",
    "Show whether a daemon answers, and what it allows you.",
    "[options] [LEVEL]...",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        *refused("long format autoformat af", "the answer is one line, or a table (-table)"),
        *refused("config", "the environment variable CONDOR_CONFIG names the file"),
        *refused("address", "it is called -addr here"),
        Opt("table", 2, says="one line for each level"),
        Opt("quiet", 1, says="only the exit status"),
        Opt("verbose", 1, says="more about the connection"),
        Opt("type", 1, 1, "DAEMON", "master, schedd (the default), startd, collector, negotiator"),
        POOL,
        NAME,
        ADDR,
    ),
    notes="LEVEL is READ, WRITE, DAEMON, ADMINISTRATOR ... or ALL; the exit status is 1 when one is denied.",
)

_ALL = (
    "READ", "WRITE", "NEGOTIATOR", "ADMINISTRATOR", "OWNER", "CONFIG", "DAEMON",
    "ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER",
)  # fmt: skip


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_ping."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.common import Ping

    asked = [word.upper() for word in parsed.words] or ["WRITE"]
    if "ALL" in asked:
        asked = list(_ALL)
    for level in asked:
        if level not in _ALL:
            raise UserError(f"ERROR: Unknown command or level {level!r} (known: {', '.join(_ALL)}, ALL)")
    session = open_session(parsed)
    daemon = (parsed.value("type") or "schedd").lower()
    try:
        with session.daemon(daemon, name=parsed.value("name"), addr=parsed.value("addr")) as peer:
            pong = peer.call(Ping())
            address = peer.address
    except PeerError as error:
        if parsed.has("quiet"):
            return 1
        raise UserError(f"ERROR: {daemon.upper()} does not answer: {error}") from None
    allowed = {level: level in pong.levels for level in asked}
    if parsed.has("quiet"):
        pass
    elif parsed.has("table") or len(asked) > 1:
        sys.stdout.write(f"{'Instruction':<20}{'Authentication':>15}{'Decision':>9}  Identity\n")
        for level in asked:
            verdict = "ALLOW" if allowed[level] else "DENY"
            sys.stdout.write(f"{level:<20}{pong.method:>15}{verdict:>9}  {pong.identity}\n")
    else:
        level = asked[0]
        verdict = "succeeded" if allowed[level] else "failed"
        sys.stdout.write(f"{level} command using ({pong.method}) {verdict} as {pong.identity} to {daemon}.\n")
    if parsed.has("verbose"):
        sys.stdout.write(f"{pong.daemon} {pong.version} at {address}\n")
    return 0 if all(allowed.values()) else 1
