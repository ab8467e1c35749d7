"""Tickets: secrets for one purpose, and for certain bearers."""

from __future__ import annotations

import pytest

from pool.base.errors import PeerError
from protocol.security.authorize import Level
from protocol.security.identity import Certificate, Credentials, Link
from protocol.security.ticket import ANY_PEER, Bearer, TicketBook, digest_of, new_secret

ANYBODY = Bearer(duty=ANY_PEER)
SOMEWHERE = Link(kind="tls")


def test_a_ticket_stands_for_an_identity_and_levels() -> None:
    book, secret = TicketBook(), new_secret()
    book.add(digest_of(secret), identity="starter@pool", levels=[Level.WRITE], bearer=ANYBODY, label="activation 1")
    ticket = book.redeem(secret, SOMEWHERE)
    assert (ticket.identity, ticket.label) == ("starter@pool", "activation 1")
    assert ticket.levels == {Level.WRITE, Level.READ}
    assert book.redeem(secret, SOMEWHERE) == ticket


def test_a_revoked_ticket_is_worth_nothing() -> None:
    book = TicketBook()
    book.add(digest_of("secret"), identity="x@pool", levels=[], bearer=ANYBODY)
    book.revoke(digest_of("secret"))
    with pytest.raises(PeerError, match="not valid here"):
        book.redeem("secret", SOMEWHERE)
    assert len(book) == 0


@pytest.mark.parametrize("secret", [None, 1, b"secret", "", "wrong", "\udcff", digest_of("secret")])
def test_what_is_no_ticket_is_refused(secret: object) -> None:
    book = TicketBook()
    book.add(digest_of("secret"), identity="x@pool", levels=[], bearer=ANYBODY)
    book.add("", identity="x@pool", levels=[], bearer=ANYBODY)  # one that nobody can have
    with pytest.raises(PeerError):
        book.redeem(secret, SOMEWHERE)


def test_no_secret_is_kept() -> None:
    book, secret = TicketBook(), new_secret()
    book.add(digest_of(secret), identity="x@pool", levels=[], bearer=ANYBODY)
    assert secret not in repr(vars(book))


def by_account(uid: int) -> Link:
    return Link(kind="unix", credentials=Credentials(pid=1, uid=uid, gid=uid))


def by_host(*duties: str) -> Link:
    return Link(kind="tls", certificate=Certificate(host="a", duties=frozenset(duties)))


@pytest.mark.parametrize(
    ("bearer", "link", "may"),
    [
        (Bearer(uids=[0, 7]), by_account(7), True),
        (Bearer(uids=[0, 7]), by_account(8), False),
        (Bearer(uids=[0, 7]), by_host("execute"), False),
        (Bearer(uids=[0, 7]), SOMEWHERE, False),
        (Bearer(uids=[0], duty="execute"), by_host("execute"), True),
        (Bearer(uids=[0], duty="execute"), by_host("submit", "central"), False),
        (Bearer(uids=[0], duty="execute"), SOMEWHERE, False),
        (Bearer(uids=[7], duty=ANY_PEER), SOMEWHERE, True),
        (Bearer(uids=[7], duty=ANY_PEER), by_account(8), False),
        (Bearer(), by_account(0), False),
    ],
)
def test_a_ticket_is_good_for_its_bearers_alone(bearer: Bearer, link: Link, may: bool) -> None:
    book = TicketBook()
    book.add(digest_of("secret"), identity="x@pool", levels=[], bearer=bearer)
    if may:
        assert book.redeem("secret", link).bearer == bearer
    else:
        with pytest.raises(PeerError, match="the ticket is not valid here"):
            book.redeem("secret", link)
