"""condor_drain: empty a machine of its jobs, and let it take jobs again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.machines import Machine, at, named
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, HELP, JSON, POOL, VERSION_OPT, Tool, run, usage
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from protocol.messages.startd import DrainMachine

# DRAIN_GRACEFUL, DRAIN_QUICK and DRAIN_FAST of HTCondor's condor_commands.h.
HOW_FAST: Final = {"graceful": 0, "quick": 10, "fast": 20}
ON_COMPLETION: Final = {
    "resume-on-completion": "resume",
    "exit-on-completion": "exit",
    "restart-on-completion": "restart",
    "reconfig-on-completion": "reconfig",
}
BAD_USAGE: Final = 2
TOOL = Tool(
    "condor_drain",
    "Empty a machine of its jobs.",
    "[OPTIONS] machine",
    (
        HELP,
        VERSION_OPT,
        Opt("debug", 3, says=DEBUG.says, colon=True),
        Opt("verbose", 4, says="print the id of the request"),
        JSON,
        POOL,
        Opt("cancel", 1, says="stop draining: the machine takes jobs again"),
        Opt("fast", 1, says="jobs are killed at once"),
        Opt("quick", 1, says="jobs get their vacate time, but no retirement"),
        Opt("graceful", 1, says="jobs get their retirement and vacate time (the default)"),
        Opt("resume-on-completion", 1, says="take jobs again when drained"),
        Opt("exit-on-completion", 2, says="the startd ends when drained, and is not started again"),
        Opt("restart-on-completion", 4, says="the startd starts anew when drained"),
        Opt("reconfig-on-completion", 3, says="read the configuration again when drained, and take jobs again"),
        Opt("reason", 3, 1, "TEXT", "what the machine shows as the reason meanwhile"),
        Opt("request-id", 3, 1, "ID", "with -cancel: only this request"),
        Opt("check", 2, 1, "EXPR", "must be true for every slot, or nothing is done"),
        Opt("start", 5, 1, "EXPR", "START while the machine drains"),
    ),
    unknown="ERROR: unexpected argument: {}",
    missing="condor_drain: '{}' requires another argument",
    bad_usage_status=BAD_USAGE,
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_drain."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    finally_ = [one.spelled for one in parsed.given if one.key in ON_COMPLETION]
    if len(finally_) > 1:
        sys.stderr.write(f"condor_drain: '{finally_[1]}' conflicts with previous use of '{finally_[0]}'\n{usage(TOOL)}")
        return 1
    if wrong := _objection(parsed):
        sys.stderr.write(f"ERROR: {wrong}\n")
        return BAD_USAGE
    session = open_session(parsed)
    target = parsed.words[0]
    try:
        # As everywhere in HTCondor, an address is known by its angle bracket.
        machine = at(session, target) if target.startswith("<") else named(session, target)
    except UserError as error:
        raise UserError(f"ERROR: {error.message.splitlines()[0]}") from None
    command = "CANCEL_DRAIN_JOBS" if parsed.has("cancel") else "DRAIN_JOBS"
    try:
        with session.connect(machine.address) as peer:
            if parsed.has("cancel"):
                from protocol.messages.startd import CancelDrain

                peer.call(CancelDrain(request_id=parsed.value("request-id") or ""))
                if parsed.has("json"):
                    _as_json(machine, Cancelled=True)
                else:
                    sys.stdout.write(f"Sent request to cancel draining on {machine.name}\n")
            else:
                request_id = peer.call(_request(parsed)).request_id
                if parsed.has("json"):
                    _as_json(machine, RequestId=request_id)
                else:
                    _say_started(machine, request_id, verbose=parsed.has("verbose"))
    except PeerError as error:
        raise UserError(f"Attempt to send {command} to startd {machine.shown} failed\n{error}") from None
    return 0


def _objection(parsed: Parsed) -> str:
    """What is wrong with the options together; empty when nothing is."""
    if len(parsed.words) != 1:
        return "must specify one target machine"
    if not parsed.has("cancel"):
        return "-request-id may only be used with -cancel" if parsed.has("request-id") else ""
    if parsed.has("check"):
        return "-check may not be used with -cancel"
    if any(one.key in ON_COMPLETION for one in parsed.given):
        return "cannot use an -on-completion option with -cancel"
    return "cannot use -reason with -cancel" if parsed.has("reason") else ""


def _request(parsed: Parsed) -> DrainMachine:
    from protocol.messages.startd import DrainMachine

    how = [HOW_FAST[one.key] for one in parsed.given if one.key in HOW_FAST]
    then = [ON_COMPLETION[one.key] for one in parsed.given if one.key in ON_COMPLETION]
    return DrainMachine(
        how_fast=how[-1] if how else 0,
        on_completion=then[0] if then else "nothing",
        reason=parsed.value("reason") or "",
        check=parsed.value("check"),
        start=parsed.value("start"),
    )


def _as_json(machine: Machine, **done: object) -> None:
    from minipool.cli.output.json_output import write_object

    write_object({"Machine": machine.name, "MyAddress": machine.shown, **done})


def _say_started(machine: Machine, request_id: str, *, verbose: bool) -> None:
    sys.stdout.write(
        f"Sent request to drain the startd {machine.shown} with {machine.name}. This only affects the single startd; "
        "any other startds running on the same host will not be drained.\n"
    )
    if verbose:
        sys.stdout.write(f"\tRequest id: {request_id}\n")
