"""Which startds a command line means: names of machines or slots, addresses, a constraint, or all of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from minipool.cli.entry.options import Parsed, UsageError
from minipool.client.session import Session
from pool.base.errors import UserError

if TYPE_CHECKING:
    from pool.classad import ClassAd
    from protocol.wire.address import Address


class Machine(NamedTuple):
    """One startd to speak to; `slot` when only one of its slots is meant."""

    address: Address
    says: str
    """How a sentence calls it: `local startd`, `startd NAME`."""
    name: str
    shown: str
    """Its address, as it prints."""
    slot: str = ""


def names_or_constraint(parsed: Parsed) -> tuple[list[str], str | None]:
    """The names and addresses on a command line, or its constraint; UsageError when it has both."""
    names = [*parsed.words, *parsed.values("name"), *parsed.values("addr")]
    constraints = parsed.values("constraint")
    if len(constraints) > 1:
        raise UserError("ERROR: only one -constraint argument is allowed")
    if constraints and names:
        raise UsageError(
            "ERROR: use of -constraint conflicts with other arguments containing names or addresses.\n"
            "You can change the constraint to select daemons by name by adding\n"
            '  (NAME == "daemon-name" || MACHINE == "daemon-name")\n'
            "to your constraint."
        )
    return names, constraints[0] if constraints else None


def none_found(session: Session, daemon: str, constraint: str | None) -> UserError:
    """What is said when the pool has no such daemons."""
    which = f"for constraint '{constraint}'" if constraint is not None else "for -all"
    return UserError(
        f"Found no ClassAds when querying pool ({session.pool or 'local'})\n"
        f"Can't find addresses for {daemon}'s {which}\nPerhaps you need to query another pool."
    )


def local(session: Session) -> Machine:
    """The startd of this host."""
    address = session.address("startd")
    return Machine(address, "local startd", session.config["FULL_HOSTNAME"] or "", session.sinful("startd"))


def at(session: Session, text: str) -> Machine:
    """The startd at an address."""
    return Machine(session.address("startd", addr=text), f"startd at {text}", text, text)


def named(session: Session, name: str, *, program: str = "") -> Machine:
    """The startd of this machine, or of this slot; UserError when the pool has none."""
    from pool.classad import quote

    # A short name may be all that a pool without a domain knows, so both are asked for.
    names = dict.fromkeys((name, session.qualified(name)))
    wanted = " || ".join(f"Name == {quote(one)} || Machine == {quote(one)}" for one in names)
    for ad in session.query("Machine", constraint=wanted, projection=_SHOWN, limit=1):
        return _of(session, ad, slot=ad.eval_str("Name", "") if "@" in name else "")
    for ad in session.query("StartD", constraint=wanted, projection=_SHOWN, limit=1):  # one whose slots are all gone
        return _of(session, ad)
    # HTCondor tells a host that does not exist from one without a startd, and scripts read the difference.
    host = quote(name.rpartition("@")[2])
    known = bool(session.query("StartD", constraint=f"Machine == {host}", projection=_SHOWN, limit=1))
    raise UserError(nobody("startd", name, program=program, known=known))


def nobody(kind: str, name: str, *, program: str = "", known: bool = False) -> str:
    """What is said when the pool has no such daemon: there is no such host either, or none runs there."""
    import socket

    host = name.rpartition("@")[2]
    try:
        if not known:
            socket.getaddrinfo(host, None)
    except OSError:
        return f"{program}: unknown host {host}" if program else f"unknown host {host}"
    return (
        f"Can't find address for {kind} {name}\nCan't find address for {name}\nPerhaps you need to query another pool."
    )


def matching(session: Session, constraint: str | None) -> list[Machine]:
    """Every slot that the expression is true for; without one every machine, once."""
    ads: Sequence[ClassAd] = session.query("Machine", constraint=constraint, projection=_SHOWN)
    if not ads:
        raise none_found(session, "startd", constraint)
    if constraint is not None:
        return [_of(session, ad, slot=ad.eval_str("Name", "")) for ad in ads]
    return list({machine.shown: machine for machine in (_of(session, ad) for ad in ads)}.values())


_SHOWN = ("Name", "Machine", "MyAddress")


def _of(session: Session, ad: ClassAd, *, slot: str = "") -> Machine:
    name = slot or ad.eval_str("Machine") or ad.eval_str("Name", "")
    return Machine(session.address_in(ad, "startd"), f"startd {name}", name, ad.eval_str("MyAddress", ""), slot)
