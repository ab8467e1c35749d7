"""The packet that wakes a machine, and where it goes."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.power.wake_on_lan import broadcast_address, call_of, magic_packet, wake_attributes

MAC = "00:16:3e:0A:0b:0c"
MACHINE = {"HardwareAddress": MAC, "SubnetMask": "255.255.255.0", "MyAddress": "<10.1.2.3:9618?sock=startd>"}


def test_the_packet_is_six_ones_and_the_address_sixteen_times() -> None:
    packet = magic_packet(MAC)
    assert packet == b"\xff" * 6 + b"\x00\x16\x3e\x0a\x0b\x0c" * 16
    assert len(packet) == 102


@pytest.mark.parametrize(
    "text", ["", "00:16:3e:0a:0b", "00:16:3e:0a:0b:0c:0d", "00-16-3e-0a-0b-0c", "0:16:3e:0a:0b:0cc"]
)
def test_what_is_no_hardware_address_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"is no hardware address \(expected six pairs"):
        magic_packet(text)


@pytest.mark.parametrize(
    ("host", "mask", "address"),
    [
        ("10.1.2.3", "255.255.255.0", "10.1.2.255"),
        ("10.1.2.3", "255.255.252.0", "10.1.3.255"),
        ("10.1.2.3", "255.255.255.255", "10.1.2.3"),
        ("10.1.2.3", "0.0.0.0", "255.255.255.255"),
    ],
)
def test_it_is_broadcast_in_the_machines_subnet(host: str, mask: str, address: str) -> None:
    assert broadcast_address(host, mask) == address


def test_a_machines_ad_says_all_of_it() -> None:
    call = call_of(ClassAd(MACHINE))
    assert (call.packet, call.address, call.port) == (magic_packet(MAC), "10.1.2.255", 9)
    assert call_of(ClassAd({**MACHINE, "WakePort": 40000})).port == 40000


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ({"HardwareAddress": None}, "the ad has no HardwareAddress"),
        ({"SubnetMask": None}, "the ad has no SubnetMask"),
        ({"SubnetMask": "24"}, "'24' is no subnet mask"),
        ({"MyAddress": "<[::1]:9618>"}, "is no address"),
        ({"MyAddress": "/run/startd.sock"}, "is no address"),
    ],
)
def test_what_an_ad_lacks_is_named(lacks: dict[str, object], said: str) -> None:
    ad = {name: value for name, value in {**MACHINE, **lacks}.items() if value is not None}
    with pytest.raises(UserError, match=said):
        call_of(ClassAd(ad))


def test_an_interface_is_told_by_the_kernels_flags() -> None:
    assert wake_attributes(0x2F, 0x20) == {
        "IsWakeOnLanSupported": True,
        "IsWakeOnLanEnabled": True,
        "IsWakeAble": True,
        "WakeOnLanSupportedFlags": "Physical Packet,UniCast Packet,MultiCast Packet,BroadCast Packet,Magic Packet",
        "WakeOnLanEnabledFlags": "Magic Packet",
    }


@pytest.mark.parametrize(("supported", "enabled"), [(0x20, 0), (0, 0x20), (0x21, 0x01), (0, 0)])
def test_a_machine_is_woken_only_by_an_interface_that_can_and_is_set_to(supported: int, enabled: int) -> None:
    assert wake_attributes(supported, enabled)["IsWakeAble"] is False
