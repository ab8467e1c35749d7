"""Wake-on-LAN: the packet that a sleeping network interface listens for, where it goes, and what interfaces can do.

Source: HTCondor's manual, "condor_power"; AMD's "Magic Packet Technology" (six bytes of ones, the hardware address
sixteen times); the kernel's include/uapi/linux/ethtool.h (the flags).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Any, Final, NamedTuple

from pool.base.errors import UserError
from pool.classad import ClassAd

DISCARD_PORT: Final = 9
"""Where the packet goes unless the machine's WakePort says otherwise: any port does, and there nobody answers."""
EVERYWHERE: Final = "255.255.255.255"
_HARDWARE_ADDRESS: Final = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
_MAGIC: Final = 0x20
_FLAGS: Final = {
    0x01: "Physical Packet",
    0x02: "UniCast Packet",
    0x04: "MultiCast Packet",
    0x08: "BroadCast Packet",
    0x10: "ARP Packet",
    _MAGIC: "Magic Packet",
    0x40: "Secure Magic Packet",
}


class WakeCall(NamedTuple):
    """A packet, and where it is broadcast."""

    packet: bytes
    address: str
    port: int


def magic_packet(hardware_address: str) -> bytes:
    """What wakes the interface of this address; UserError where it is none."""
    if not _HARDWARE_ADDRESS.fullmatch(hardware_address):
        raise UserError(
            f"{hardware_address!r} is no hardware address",
            expected="six pairs of hexadecimal digits, as 00:16:3e:0a:0b:0c",
        )
    return b"\xff" * 6 + bytes.fromhex(hardware_address.replace(":", "")) * 16


def broadcast_address(host: str, mask: str) -> str:
    """Where all interfaces of the host's subnet hear it; UserError where either is no IPv4 address."""
    bits = int(_ipv4(mask, "subnet mask"))
    # The mask that condor_power has without -s is that of no subnet at all: everywhere.
    return str(IPv4Address(int(_ipv4(host, "address")) | ~bits & 0xFFFFFFFF)) if bits else EVERYWHERE


def call_of(ad: ClassAd) -> WakeCall:
    """What wakes the machine of an ad; UserError says what the ad lacks."""
    hardware = ad.eval_str("HardwareAddress")
    if not hardware:
        raise UserError("the ad has no HardwareAddress", expected="the ad of a machine that has told its interface's")
    mask, address = ad.eval_str("SubnetMask"), ad.eval_str("MyAddress") or ad.eval_str("StartdIpAddr") or ""
    if not mask:
        raise UserError("the ad has no SubnetMask", expected="the mask of the machine's subnet, as 255.255.255.0")
    host = address.strip("<>").partition("?")[0].rpartition(":")[0]
    port = ad.eval_int("WakePort") or DISCARD_PORT
    return WakeCall(magic_packet(hardware), broadcast_address(host, mask), port)


def wake_attributes(supported: int, enabled: int) -> dict[str, Any]:
    """What the machine's ads say of its interface, from the kernel's flags of what that can do and is set to do."""
    return {
        "IsWakeOnLanSupported": bool(supported & _MAGIC),
        "IsWakeOnLanEnabled": bool(enabled & _MAGIC),
        "IsWakeAble": bool(supported & enabled & _MAGIC),
        "WakeOnLanSupportedFlags": _flags(supported),
        "WakeOnLanEnabledFlags": _flags(enabled),
    }


def _flags(bits: int) -> str:
    return ",".join(name for bit, name in _FLAGS.items() if bits & bit) or "NONE"


def _ipv4(text: str, what: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError:
        raise UserError(f"{text!r} is no {what}", expected="an IPv4 address: wake-on-LAN is broadcast") from None
