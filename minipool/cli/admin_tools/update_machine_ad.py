"""condor_update_machine_ad: change attributes in the ads of a machine's slots, until its startd starts again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.context import open_session
from minipool.cli.entry.machines import Machine, local, named
from minipool.cli.entry.options import Parsed, UsageError
from minipool.cli.entry.tool import HELP, NAME, POOL, VERSION_OPT, Tool, run
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from pool.classad import ClassAd

TOOL = Tool(
    "condor_update_machine_ad",
    "Change attributes in the ads of a machine.",
    "[options] [FILE]",
    (HELP, VERSION_OPT, POOL, NAME),
    notes="FILE, or standard input, holds lines ATTRIBUTE = VALUE. The change holds until the startd starts again.\n"
    "HasVM = False takes the VM universe off the machine (VMOfflineReason says why); HasVM = True brings it back.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_update_machine_ad."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) > 1:
        raise UsageError("ERROR: only one file can be given")
    update = _read(parsed.words[0] if parsed.words else "-")
    session = open_session(parsed)
    name = parsed.value("name")
    machine: Machine = named(session, name) if name else local(session)
    from protocol.messages.startd import UpdateMachineAd

    try:
        with session.connect(machine.address) as peer:
            peer.call(UpdateMachineAd(ad=update))
    except PeerError as error:
        raise UserError(f"Can't update the machine ad of {machine.says}: {error}") from None
    return 0


def _read(path: str) -> ClassAd:
    from minipool.cli.output.ad_files import read_one

    update = read_one(path, cannot="can't open {path}: {why}")
    if not len(update):
        raise UserError("there is no attribute in it", expected="lines ATTRIBUTE = VALUE")
    return update
