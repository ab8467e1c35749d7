"""condor_vacate: make the jobs on machines leave; they go back to their queues."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.entry.context import open_session
from minipool.cli.entry.machines import Machine, at, local, matching, named, names_or_constraint
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, HELP, POOL, VERSION_OPT, Tool, run
from minipool.client.session import Session
from pool.base.errors import PeerError, UserError

TOOL = Tool(
    "condor_vacate",
    "Make the jobs on machines leave.",
    "[general-options] [targets]",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        POOL,
        Opt("graceful", 1, says="jobs get their vacate time (the default)"),
        Opt("fast", 2, says="jobs are killed"),
        Opt("name", 2, 1, "NAME", "this machine, or this slot"),
        Opt("addr", 2, 1, "ADDRESS", "the startd at this address"),
        Opt("constraint", 3, 1, "EXPR", "the slots for which the expression is true"),
        Opt("all", 2, says="all machines of the pool"),
    ),
    unknown='ERROR: invalid argument "{}"',
    notes="Targets are names of machines or slots, and addresses; without one, the machine of this host.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_vacate."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    names, constraint = names_or_constraint(parsed)
    fast, status = parsed.has("fast"), 0
    session = open_session(parsed)
    if parsed.has("all") or constraint is not None:
        machines = matching(session, constraint)
    elif names:
        machines, status = _found(session, names)
    elif parsed.has("pool"):
        raise UserError(
            "ERROR: You have asked to find a machine in a different pool, but have not said which (a name, or -all)"
        )
    else:
        machines = [_local(session)]
    told = set()
    for machine in machines:
        # A machine that is named twice, or by two of its names, is told once.
        if (machine.shown, machine.slot) not in told:
            told.add((machine.shown, machine.slot))
            status = max(status, _vacate(session, machine, fast=fast))
    return status


def _local(session: Session) -> Machine:
    try:
        return local(session)
    except PeerError:
        raise UserError("Can't find address for local startd\nPerhaps you need to query another pool.") from None


def _found(session: Session, names: list[str]) -> tuple[list[Machine], int]:
    """The machines of these names; those that the pool does not have cost the exit status."""
    machines, status = [], 0
    for name in names:
        try:
            machines.append(at(session, name) if name.startswith("<") else named(session, name, program=TOOL.name))
        except UserError as error:
            sys.stderr.write(f"{error.message}\n")
            status = 1
    return machines, status


def _vacate(session: Session, machine: Machine, *, fast: bool) -> int:
    from protocol.messages.common import StopHow
    from protocol.messages.startd import VacateSlots

    said = ("Vacate-Claim" if machine.slot else "Vacate-All-Claims") + ("-Fast" if fast else "")
    request = VacateSlots(slots=[machine.slot] if machine.slot else [], how=StopHow.FAST if fast else StopHow.GRACEFUL)
    try:
        with session.connect(machine.address) as peer:
            peer.call(request)
    except PeerError as error:
        sys.stderr.write(f"ERROR\n{error}\nCan't send {said} command to {machine.says}\n")
        return 1
    sys.stdout.write(f'Sent "{said}" command to {machine.says}\n')
    return 0
