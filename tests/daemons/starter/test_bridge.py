"""Where a container finds its starter."""

from __future__ import annotations

from daemons.starter.chirp.server import address_of, host_of


def test_an_interface_has_its_address() -> None:
    assert address_of("lo") in ("127.0.0.1", None)
    assert address_of("no-such-one") is None


def test_a_container_on_the_machines_own_network_uses_the_loopback() -> None:
    assert host_of("host", ("lo",)) == "127.0.0.1"
    assert host_of("", ("no-such-one",)) == "127.0.0.1"


def test_others_find_the_engines_bridge() -> None:
    assert host_of("", ("no-such-one", "lo")) == address_of("lo") or address_of("lo") is None
