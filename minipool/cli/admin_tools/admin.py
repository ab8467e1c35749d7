"""condor_on, _off, _restart, _reconfig, _reschedule and _set_shutdown: orders to the daemons of hosts.

The hosts are named, or chosen by one -constraint (never both), or all (-all); else this host is meant. Each host gets
its order even when another does not answer, and then the exit status is 1. The sentence for each names the command as
HTCondor calls it. Source: HTCondor's manual pages condor_on, condor_off, condor_restart, condor_reconfig,
condor_reschedule and condor_set_shutdown.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minipool.cli.entry.context import open_session
from minipool.cli.entry.machines import names_or_constraint, nobody, none_found
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import ADDR, DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.client.session import AD_TYPES, NotFound, Session
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from protocol.wire.message import Request

# As many letters as HTCondor's condor_on and its like want (tool.cpp); -s is no option there, for -schedd and -startd
# are two.
_DAEMONS: Final = {"master": 1, "schedd": 2, "startd": 2, "collector": 3, "negotiator": 2}
"""Daemon -> how many letters of its option are enough."""
_SUMMARIES: Final = {
    "on": "Start daemons that were stopped.",
    "off": "Stop daemons and keep them stopped.",
    "restart": "Stop and start daemons, with the configuration read anew.",
    "reconfig": "Make daemons read the configuration again.",
    "reschedule": "Ask for a match cycle now.",
    "set_shutdown": "Have a master execute a program in its place when it ends.",
}
_HOW = (
    Opt("graceful", 1, says="running jobs get their vacate time (the default)"),
    Opt("fast", 2, says="running jobs are killed"),
    Opt("peaceful", 2, says="running jobs may finish"),
    Opt("force-graceful", 2, says="gracefully, also where -peaceful was said before"),
)
_DRAIN = (
    Opt("drain", 2, says="running jobs may finish, no others start; then the daemons are stopped"),
    Opt("reason", 3, 1, "TEXT", "with -drain: why"),
    Opt("request-id", 3, 1, "ID", "with -drain: accepted; the startd chooses an id"),
    Opt("check", 2, 1, "EXPR", "with -drain: must be true for every slot, or nothing is done"),
    Opt("start", 5, 1, "EXPR", "with -drain: START meanwhile"),
)
_EXEC = Opt("exec", 2, 1, "NAME", "the master becomes the program MASTER_SHUTDOWN_NAME when it ends")


def tool(verb: str) -> Tool:
    """The option table of one of these programs."""
    orders = () if verb in ("reschedule", "set_shutdown") else tuple(
        Opt(name, least, says=f"only the {name}") for name, least in _DAEMONS.items()
    )  # fmt: skip
    named = (Opt("daemon subsystem", 2, 1, "NAME", "only this daemon"),) if orders else ()
    return Tool(
        f"condor_{verb}",
        _SUMMARIES[verb],
        "[options] [HOST]...",
        (
            HELP,
            VERSION_OPT,
            DEBUG,
            *(_HOW if verb in ("off", "restart") else ()),
            *(_DRAIN if verb in ("off", "restart") else ()),
            *((_EXEC,) if verb in ("off", "restart", "set_shutdown") else ()),
            *orders,
            *named,
            Opt("all", 2, says="the daemons of all hosts of the pool"),
            Opt("constraint", 3, 1, "EXPR", "the daemons for whose ads the expression is true"),
            *refused("annex annex-name annex-slots", "there are no annexes"),
            POOL,
            NAME._replace(least=2),
            ADDR,
        ),
        unknown='ERROR: invalid argument "{}"',
    )


TOOLS = tuple(tool(verb) for verb in _SUMMARIES)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run the program of this verb."""
    return run(tool(verb), lambda parsed: _main(verb, parsed), argv)


class Target(NamedTuple):
    """Whom an order goes to: a host or daemon by name, an address, or (both empty) this host."""

    name: str | None = None
    addr: str | None = None

    def says(self, daemon: str) -> str:
        """How a sentence calls it."""
        if self.addr is not None:
            return f"daemon at {self.addr}"
        return f"{daemon} {self.name}" if self.name else f"local {daemon}"


def _main(verb: str, parsed: Parsed) -> int:
    daemons = [name for name in _DAEMONS if parsed.has(name)] + [name.lower() for name in parsed.values("daemon")]
    if len(daemons) > 1:
        raise UsageError("ERROR: can only specify one daemon flag.")
    daemon = "".join(daemons)
    _refuse_contradictions(verb, parsed, daemon)
    session = open_session(parsed)
    status = 0
    for target in _targets(verb, parsed, session, daemon):
        try:
            _tell(verb, parsed, session, target, daemon)
        except UserError as error:  # the others are told all the same
            sys.stdout.flush()
            sys.stderr.write(f"{error.message}\n")
            status = 1
    return status


def _refuse_contradictions(verb: str, parsed: Parsed, daemon: str) -> None:
    if verb == "set_shutdown" and not parsed.has("exec"):
        raise UserError('ERROR: "-exec" required for condor_set_shutdown\nUse "-help" to see usage information')
    if parsed.has("exec") and verb != "set_shutdown" and daemon != "master" and not parsed.has("drain"):
        raise UserError(f'ERROR: "-exec" is not valid with condor_{verb} without -drain or -master')
    more = [f"-{key}" for key in ("reason", "check", "start", "request-id") if parsed.has(key)]
    if more and not parsed.has("drain"):
        raise UserError(f'ERROR: "{more[0]}" is not valid without -drain')
    if parsed.has("drain") and daemon not in ("", "master"):
        raise UserError(f"ERROR: -drain is about a whole host, not about its {daemon} (condor_drain empties a startd)")
    # Called for its refusal alone: a name beside a constraint would leave open which of them is meant.
    names_or_constraint(parsed)


def _targets(verb: str, parsed: Parsed, session: Session, daemon: str) -> list[Target]:
    """The daemons that are told, in the order in which they are named."""
    constraint = parsed.value("constraint")
    if constraint is None and not parsed.has("all"):
        given = [Target(addr=word) if word.startswith("<") else Target(word) for word in parsed.words]
        given += [Target(name) for name in parsed.values("name")] + [Target(addr=one) for one in parsed.values("addr")]
        return given or [Target()]
    to = order(verb, "", daemon)[0]
    ads = session.query(AD_TYPES[to], constraint=constraint, projection=["Name", "Machine"])
    if not ads:
        raise none_found(session, to, constraint)
    return [Target(ad.eval_str("Name")) for ad in ads]


def _tell(verb: str, parsed: Parsed, session: Session, target: Target, daemon: str) -> None:
    """Give the order to one host; its daemon, or all."""
    how = "fast" if parsed.has("fast") else "peaceful" if parsed.has("peaceful") else ""
    to, said, about = order(verb, how, daemon)
    if parsed.has("drain"):
        said = "Restart" if verb == "restart" else "Shutdown-Daemons" if not daemon else "Shutdown"
    # Only these two are a daemon's own business; whatever starts and stops daemons is their master's.
    receiver = to if verb in ("reconfig", "reschedule") else "master"
    try:
        with session.daemon(receiver, name=target.name, addr=target.addr) as peer:
            for request in _requests(verb, parsed, daemon):
                peer.call(request, timeout=60.0)
    except NotFound:
        raise UserError(nobody(receiver, target.name or receiver, program=f"condor_{verb}")) from None
    except PeerError as error:
        raise UserError(f"ERROR\n{error}\nCan't send {said} command to {target.says(to)}") from None
    sys.stdout.write(f'Sent "{said}" command {about}to {target.says(to)}\n')


def order(verb: str, how: str, daemon: str) -> tuple[str, str, str]:
    """Who is told, the order's name, and whom it is about: a master does most of it for the daemons of its host."""
    word = {"": "", "fast": "-Fast", "peaceful": "-Peacefully"}[how]
    # HTCondor's sentence of a peaceful end leaves the daemon out (tool.cpp), and scripts look for it.
    about = f'for "{daemon}" ' if daemon and how != "peaceful" else ""
    if verb == "off":
        return ("master", f"Kill-Daemon{word}", about) if daemon else ("master", f"Kill-All-Daemons{word}", "")
    if verb == "on":
        one = daemon not in ("", "master")
        return ("master", "Spawn-Daemon", about) if one else ("master", "Spawn-All-Daemons", "")
    if verb == "restart":
        # "Restart-Peaceful", but "Kill-Daemon-Peacefully": the commands have these names in HTCondor.
        return daemon or "master", "Restart" + word.replace("fully", "ful"), ""
    if verb == "reconfig":
        return daemon or "master", "Reconfig", ""
    if verb == "set_shutdown":
        return "master", "Set-Shutdown-Program", ""
    return "schedd", "Reschedule", ""


def _requests(verb: str, parsed: Parsed, daemon: str) -> list[Request[Any]]:
    """What the daemon is told, one after the other."""
    from protocol.messages.common import Reconfigure, Stop, StopHow
    from protocol.messages.master import DaemonsOff, DaemonsOn, DrainFirst, RestartDaemons, SetShutdown
    from protocol.messages.schedd import Reschedule

    how = StopHow.FAST if parsed.has("fast") else StopHow.PEACEFUL if parsed.has("peaceful") else StopHow.GRACEFUL
    name = parsed.value("exec")
    first: list[Request[Any]] = [SetShutdown(name=name)] if name is not None else []
    if verb == "set_shutdown":
        return first
    if parsed.has("drain"):
        then = "restart" if verb == "restart" else "exit" if daemon == "master" else "off"
        reason, check, start = parsed.value("reason") or "", parsed.value("check"), parsed.value("start")
        return [*first, DrainFirst(then=then, reason=reason, check=check, start=start)]
    daemons = [daemon] if daemon else []
    if verb == "on":
        return [DaemonsOn(daemons=daemons)]
    if verb == "off":
        return [*first, Stop(how=how) if daemons == ["master"] else DaemonsOff(daemons=daemons, how=how)]
    if verb == "restart":
        return [*first, RestartDaemons(daemons=[one for one in daemons if one != "master"], how=how)]
    return [Reconfigure() if verb == "reconfig" else Reschedule()]
