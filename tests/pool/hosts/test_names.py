"""Names of hosts."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.hosts.names import check_name, collide


@pytest.mark.parametrize("name", ["node7.lab.example", "ex1", "a-b.c", "3com.example", "x.localhosts", "n" * 63])
def test_a_host_may_be_called(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "10.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "node.0x1f",
        "::1",
        "localhost",
        "LOCALHOST.localdomain",
        "x.localhost",
        "a..b",
        ".a",
        "a.",
        "-a",
        "a b",
        "*.lab",
        "nöde",
        "a/b",
        "n" * 64,
        f"{'n' * 60}.lab.example",
    ],
)
def test_a_host_may_not_be_called(name: str) -> None:
    with pytest.raises(UserError, match="is not a name that a host can have"):
        check_name(name)


def test_names_collide_when_one_may_be_taken_for_the_other() -> None:
    assert collide("ex1.lab", "EX1.lab")
    assert collide("ex1", "ex1.lab")
    assert collide("ex1.lab", "ex1")
    assert not collide("ex1.lab", "ex1.other")
    assert not collide("ex1", "ex2")
    assert not collide("lab", "ex1.lab")
