"""Tickets: secrets for one purpose."""

from __future__ import annotations

import pytest

from pool.errors import PeerError
from protocol.auth.ticket import TicketBook
from protocol.authorize import Level


def test_a_ticket_stands_for_an_identity_and_levels() -> None:
    book = TicketBook()
    secret = book.issue(identity="starter@pool", levels=[Level.WRITE], label="activation 1")
    ticket = book.redeem(secret)
    assert (ticket.identity, ticket.label) == ("starter@pool", "activation 1")
    assert ticket.levels == {Level.WRITE, Level.READ}
    assert book.redeem(secret) == ticket


def test_a_ticket_for_one_use_is_used_up() -> None:
    book = TicketBook()
    secret = book.issue(identity="x@pool", levels=[], uses=1)
    book.redeem(secret)
    with pytest.raises(PeerError, match="not valid here"):
        book.redeem(secret)
    assert len(book) == 0


def test_a_revoked_ticket_is_worth_nothing() -> None:
    book = TicketBook()
    book.add("secret", identity="x@pool", levels=[])
    book.revoke("secret")
    with pytest.raises(PeerError, match="not valid here"):
        book.redeem("secret")


@pytest.mark.parametrize("secret", [None, 1, b"secret", "", "wrong", "\udcff"])
def test_what_is_no_ticket_is_refused(secret: object) -> None:
    book = TicketBook()
    book.add("secret", identity="x@pool", levels=[])
    with pytest.raises(PeerError):
        book.redeem(secret)


def test_no_secret_is_kept() -> None:
    book = TicketBook()
    secret = book.issue(identity="x@pool", levels=[])
    assert secret not in repr(vars(book))
