"""condor_on, _off, _restart, _reconfig and _reschedule: orders to the daemons of a host."""

from __future__ import annotations

import sys

from minipool.cli.context import open_session
from minipool.cli.machines import nobody
from minipool.cli.options import Opt, Parsed, UsageError
from minipool.cli.tool import ADDR, DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.session import NotFound, Session
from pool.errors import PeerError, UserError
from pool.hints import TYPE_CHECKING, Any, Final, Sequence

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
    named = () if verb == "reschedule" else (Opt("daemon subsystem", 3, 1, "NAME", "only this daemon"),)
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
            *refused("constraint", "name the hosts, or say -all"),
            *refused("drain reason request-id check start", "condor_drain empties a machine, with these options"),
            *refused("annex", "there are no annexes"),
            *refused("exec", "daemons are started as the configuration says"),
            POOL,
            NAME,
            ADDR,
        ),
        unknown='ERROR: invalid argument "{}"',
    )


TOOLS = tuple(tool(verb) for verb in _SUMMARIES)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run the program of this verb."""
    return run(tool(verb), lambda parsed: _main(verb, parsed), argv)


def _main(verb: str, parsed: Parsed) -> int:
    daemons = [name for name in _DAEMONS if parsed.has(name)] + [name.lower() for name in parsed.values("daemon")]
    if len(daemons) > 1:
        raise UsageError("ERROR: can only specify one daemon flag.")
    session = open_session(parsed)
    hosts: list[str | None] = [*parsed.words, *parsed.values("name")]
    if parsed.has("all"):
        kind = "Scheduler" if verb == "reschedule" else "DaemonMaster"
        hosts = [ad.eval_str("Name") for ad in session.query(kind, projection=["Name"])]
    return max(_tell(verb, parsed, session, host, "".join(daemons)) for host in hosts or [None])


def _tell(verb: str, parsed: Parsed, session: Session, host: str | None, daemon: str) -> int:
    """Give the order to one host; its daemon, or all."""
    how = "fast" if parsed.has("fast") else "peaceful" if parsed.has("peaceful") else ""
    to, said, about = order(verb, how, daemon)
    receiver = to if verb in ("reconfig", "reschedule") else "master"
    where = f"{to} {host}" if host else f"daemon at {addr}" if (addr := parsed.value("addr")) else f"local {to}"
    try:
        _send(session, receiver, host, _request(verb, parsed, [daemon] if daemon else []), parsed)
    except NotFound:
        raise UserError(nobody(receiver, host or receiver, program=f"condor_{verb}")) from None
    except PeerError as error:
        raise UserError(f"ERROR\n{error}\nCan't send {said} command to {where}") from None
    sys.stdout.write(f'Sent "{said}" command {about}to {where}\n')
    return 0


def order(verb: str, how: str, daemon: str) -> tuple[str, str, str]:
    """Who is told, the order's name, and whom it is about: a master does most of it for the daemons of its host."""
    word = {"": "", "fast": "-Fast", "peaceful": "-Peacefully"}[how]
    about = f'for "{daemon}" ' if daemon and how != "peaceful" else ""
    if verb == "off":
        return ("master", f"Kill-Daemon{word}", about) if daemon else ("master", f"Kill-All-Daemons{word}", "")
    if verb == "on":
        one = daemon not in ("", "master")
        return ("master", "Spawn-Daemon", about) if one else ("master", "Spawn-All-Daemons", "")
    if verb == "restart":
        return daemon or "master", "Restart" + word.replace("fully", "ful"), ""
    if verb == "reconfig":
        return daemon or "master", "Reconfig", ""
    return "schedd", "Reschedule", ""


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
