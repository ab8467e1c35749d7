"""Addresses: paths, sinful strings, host and port."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from protocol.wire.address import Address


@pytest.mark.parametrize(
    ("text", "address", "printed"),
    [
        ("/run/schedd.sock", Address.unix("/run/schedd.sock"), "/run/schedd.sock"),
        ("<10.0.0.1:9618>", Address.tcp("10.0.0.1", 9618), "<10.0.0.1:9618>"),
        (
            "<10.0.0.1:9618?sock=schedd&alias=ap.pool.test>",
            Address.tcp("10.0.0.1", 9618, sock="schedd", alias="ap.pool.test"),
            "<10.0.0.1:9618?alias=ap.pool.test&sock=schedd>",
        ),
        ("<10.0.0.1:5?addrs=10.0.0.1-5&noUDP&sock=x>", Address.tcp("10.0.0.1", 5, sock="x"), "<10.0.0.1:5?sock=x>"),
        ("<[::1]:9618?sock=startd>", Address.tcp("::1", 9618, sock="startd"), "<[::1]:9618?sock=startd>"),
        ("cm.pool.test", Address.tcp("cm.pool.test", 9618), "<cm.pool.test:9618>"),
        ("cm.pool.test:1234", Address.tcp("cm.pool.test", 1234), "<cm.pool.test:1234>"),
        ("cm:0?sock=a%20b", Address.tcp("cm", 0, sock="a b"), "<cm:0?sock=a%20b>"),
    ],
)
def test_an_address_is_read_and_printed(text: str, address: Address, printed: str) -> None:
    assert Address.parse(text) == address
    assert str(address) == printed
    assert Address.parse(printed) == address


@pytest.mark.parametrize(
    "text", ["", "<", "<1.2.3.4:5", "host:port", "host:99999", "host:-1", "a b", "[::1", "[::1]x", ":5"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        Address.parse(text)


def test_the_servers_name_is_its_alias_before_its_host() -> None:
    assert Address.tcp("10.0.0.1", 1, alias="cm").server_name == "cm"
    assert Address.tcp("10.0.0.1", 1).server_name == "10.0.0.1"
