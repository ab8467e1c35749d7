"""condor_on, _off, _restart, _reconfig and _reschedule: orders to the daemons of a host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from minipool.cli.context import open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.tool import ADDR, DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.session import Session
from pool.errors import PeerError, UserError

if TYPE_CHECKING:
    from protocol.message import Request

_DAEMONS = ("master", "schedd", "startd", "collector", "negotiator")
_SUMMARIES: Final = {
    "on": "Start daemons that were stopped.",
    "off": "Stop daemons and keep them stopped.",
    "restart": "Stop and start daemons, with the configuration read anew.",
    "reconfig": "Make daemons read the configuration again.",
    "reschedule": "Ask for a match cycle now.",
}
_WORDS: Final = {
    "on": "Spawn-All-Daemons",
    "off": "Kill-All-Daemons",
    "restart": "Restart",
    "reconfig": "Reconfig",
    "reschedule": "Reschedule",
}
_HOW = (
    Opt("graceful", 1, says="running jobs get their vacate time (the default)"),
    Opt("fast", 2, says="running jobs are killed"),
    Opt("peaceful", 2, says="running jobs may finish"),
    Opt("force-graceful", 3, says="as -graceful"),
)


def tool(verb: str) -> Tool:
    """The option table of one of these programs."""
    which = () if verb == "reschedule" else tuple(
        Opt(name, 4 if name == "startd" else 3, says=f"only the {name}") for name in _DAEMONS
    )  # fmt: skip
    named = () if verb == "reschedule" else (Opt("daemon", 3, 1, "NAME", "only this daemon"),)
    return Tool(
        f"condor_{verb}",
        _SUMMARIES[verb],
        "[options] [HOST]...",
        (
            HELP,
            VERSION_OPT,
            DEBUG,
            *(_HOW if verb in ("off", "restart") else ()),
            *which,
            *named,
            Opt("all", 2, says="the daemons of all hosts of the pool"),
            POOL,
            NAME,
            ADDR,
        ),
    )


TOOLS = tuple(tool(verb) for verb in _SUMMARIES)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run the program of this verb."""
    return run(tool(verb), lambda parsed: _main(verb, parsed), argv)


def _main(verb: str, parsed: Parsed) -> int:
    session = open_session(parsed)
    hosts: list[str | None] = [*parsed.words, *parsed.values("name")]
    if parsed.has("all"):
        kind = "Scheduler" if verb == "reschedule" else "DaemonMaster"
        hosts = [ad.eval_str("Name") for ad in session.query(kind, projection=["Name"])]
    return max(_tell(verb, parsed, session, host) for host in hosts or [None])


def _tell(verb: str, parsed: Parsed, session: Session, host: str | None) -> int:
    daemons = [name for name in _DAEMONS if parsed.has(name)]
    daemons += [name.lower() for name in parsed.values("daemon")]
    target = "schedd" if verb == "reschedule" else "master"
    said = _WORDS[verb] + ("-Fast" if parsed.has("fast") else "-Peaceful" if parsed.has("peaceful") else "")
    where = f"{target} {host}" if host else f"local {target}"
    try:
        if verb == "reconfig" and daemons:
            for daemon in daemons:
                _send(session, daemon, host, _request(verb, parsed, []), parsed)
        else:
            _send(session, target, host, _request(verb, parsed, daemons), parsed)
    except PeerError as error:
        raise UserError(f"ERROR\n{error}\nCan't send {said} command to {where}") from None
    sys.stdout.write(f'Sent "{said}" command to {where}\n')
    return 0


def _send(session: Session, daemon: str, host: str | None, request: Request[Any], parsed: Parsed) -> None:
    with session.daemon(daemon, name=host, addr=parsed.value("addr")) as peer:
        peer.call(request, timeout=60.0)


def _request(verb: str, parsed: Parsed, daemons: list[str]) -> Request[Any]:
    from protocol.messages.common import Reconfigure, Stop, StopHow
    from protocol.messages.master import DaemonsOff, DaemonsOn, RestartDaemons
    from protocol.messages.schedd import Reschedule

    how = StopHow.FAST if parsed.has("fast") else StopHow.PEACEFUL if parsed.has("peaceful") else StopHow.GRACEFUL
    if verb == "on":
        return DaemonsOn(daemons=daemons)
    if verb == "off":
        return Stop(how=how) if daemons == ["master"] else DaemonsOff(daemons=daemons, how=how)
    if verb == "restart":
        return RestartDaemons(daemons=[name for name in daemons if name != "master"], how=how)
    return Reconfigure() if verb == "reconfig" else Reschedule()
