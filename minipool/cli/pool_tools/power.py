"""condor_power: send the packet that wakes a sleeping machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import Tool, run
from pool.base.errors import UserError

if TYPE_CHECKING:
    from pool.power.wake_on_lan import WakeCall

ANYWHERE: Final = "192.0.2.1"
"""An address for documentation: the kernel is asked by which of its own this host would reach it; nothing is sent."""

TOOL = Tool(
    "condor_power",
    "Send the packet that wakes a machine that sleeps.",
    "[-d] [-i] [-m MAC] [-s MASK] [-p PORT] [FILE]",
    (
        Opt("help", 1, says="show this"),
        Opt("version", 7, says="show the version"),
        Opt("d debug", 1, says="say where the packet goes"),
        Opt("i", 1, says="read the machine's ad from standard input, unless FILE is given"),
        Opt("m", 1, 1, "MAC", "the hardware address of the machine's network interface"),
        Opt(
            "s",
            1,
            1,
            "MASK",
            "with -m: the mask of this host's subnet, in which the machine is; else it is sent everywhere",
        ),
        Opt("p", 1, 1, "PORT", "with -m: the port (9)"),
    ),
    notes="Without -m the machine is that of the ad in FILE or on standard input, which needs HardwareAddress,\n"
    "SubnetMask and MyAddress: condor_status -long NAME prints it. One packet is broadcast by UDP; routers seldom\n"
    "pass it on.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_power."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) > 1:
        raise UsageError("ERROR: only one file can be given")
    call = _by_options(parsed) if parsed.has("m") else _by_ad(parsed)
    if parsed.has("d"):
        sys.stderr.write(f"Broadcasting to {call.address}, port {call.port}, for {call.packet[6:12].hex(':')}.\n")
    _send(call)
    sys.stderr.write("Packet sent.\n")
    return 0


def _by_ad(parsed: Parsed) -> WakeCall:
    from minipool.cli.output.ad_files import read_one
    from pool.power.wake_on_lan import call_of

    cannot = "cannot open file {path}: {why}; the ad of a machine is what condor_status -long NAME prints"
    return call_of(read_one(parsed.words[0] if parsed.words else "-", cannot=cannot))


def _by_options(parsed: Parsed) -> WakeCall:
    from pool.power.wake_on_lan import DISCARD_PORT, EVERYWHERE, WakeCall, broadcast_address, magic_packet

    mask = parsed.value("s")
    address = broadcast_address(_own_address(), mask) if mask else EVERYWHERE
    return WakeCall(magic_packet(parsed.value("m") or ""), address, parsed.number("p", DISCARD_PORT))


def _own_address() -> str:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((ANYWHERE, 9))
        except OSError as error:
            raise UserError(f"this host has no address in a subnet: {error.strerror}") from None
        return str(asked.getsockname()[0])


def _send(call: WakeCall) -> None:
    import socket

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.sendto(call.packet, (call.address, call.port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or f"{call.port} is no port"
        raise UserError(f"failed to send the packet to {call.address}: {why}") from None
