"""condor_power's packet as it is on the cable, at the other end of a network of namespaces."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.whole.networks import Network, network, why_not

HERE, THERE = "10.98.1.2", "10.98.1.3"
MAC = "00:16:3e:0a:0b:0c"
PACKET = bytes.fromhex("ff" * 6 + MAC.replace(":", "") * 16)
AD = f'HardwareAddress = "{MAC}"\nSubnetMask = "255.255.255.0"\nMyAddress = "<{THERE}:9618?alias=sleeper>"\n'
IP_PROTOCOL = 0x0800
UDP = 17
HEARD_S = 30.0


@pytest.fixture
def net() -> Iterator[Network]:
    if why := why_not():
        pytest.skip(why)
    with network() as net:
        for address in (HERE, THERE):
            net.add(address)
        yield net


@contextmanager
def the_card(net: Network) -> Iterator[socket.socket]:
    """What comes to the other host's card, whole."""
    with net.at(THERE), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IP_PROTOCOL)) as card:
        card.bind(("eth0", IP_PROTOCOL))
        card.settimeout(HEARD_S)
        yield card


@pytest.mark.parametrize(
    ("words", "ad", "goes_to", "port"),
    [
        (["-i"], AD, "10.98.1.255", 9),
        (["-i"], AD + "WakePort = 4711\n", "10.98.1.255", 4711),
        (["-m", MAC, "-s", "255.255.255.0", "-p", "7"], "", "10.98.1.255", 7),
        (["-m", MAC], "", "255.255.255.255", 9),
    ],
)
def test_one_packet_is_broadcast_to_every_card_of_the_subnet(
    net: Network, words: list[str], ad: str, goes_to: str, port: int
) -> None:
    with the_card(net) as card:
        with net.at(HERE):
            route(words, HERE)
            said = subprocess.run([power(), *words], input=ad, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stderr) == (0, "Packet sent.\n")
        # Other frames are the kernel's own, which tells switches what groups it listens to.
        frame = next(frame for frame in iter(lambda: card.recv(65536), b"") if frame[14 + 9] == UDP)
    assert frame[:6] == b"\xff" * 6, "every card takes it"
    assert int.from_bytes(frame[12:14], "big") == IP_PROTOCOL
    packet = frame[14:]
    header, rest = packet[: (packet[0] & 15) * 4], packet[(packet[0] & 15) * 4 :]
    assert (str(IPv4Address(header[12:16])), str(IPv4Address(header[16:20]))) == (HERE, goes_to)
    assert (int.from_bytes(rest[2:4], "big"), int.from_bytes(rest[4:6], "big")) == (port, 8 + len(PACKET))
    assert rest[8:] == PACKET


def power() -> str:
    return str(Path(sys.executable).with_name("condor_power"))


def route(words: list[str], address: str) -> None:
    """Where no ad says the subnet, it is that of the card by which this host reaches others."""
    if "-m" in words:
        subprocess.run(["ip", "route", "add", "default", "via", THERE, "src", address], check=True, capture_output=True)
