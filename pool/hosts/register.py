"""The register of hosts: which names and keys belong together, what was signed, which join words were used, who is out.

One SQLite file on the central manager, over a connection that the caller has opened with a transaction
(`transaction`): what was decided is on disk before anybody hears of it, and of two who want the same, one comes second.

* A name belongs to the key that had it first, until it is revoked; reserved names (daemons' own) are no host's.
* A join word is used once, within its time; what ended is remembered for REMEMBERED_S, for clocks differ.
* A certificate is noted before it is given to anybody, so that each can be revoked.

Source: RFC 5280 for serial numbers and revocation lists; the rest is this pool's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pool.base.errors import UserError
from pool.hosts.names import check_name, collide

if TYPE_CHECKING:
    import sqlite3

BUSY_TIMEOUT_S: Final = 10.0
REMEMBERED_S: Final = 30 * 86400.0
"""How long something is remembered after its end: clocks differ, and are set back."""
UNKNOWN_LIVES_S: Final = 3650 * 86400.0
"""How long a certificate lives of which nothing but its serial number is known."""
RENEWED_AFTER: Final = 2 / 3
"""The part of its life after which a certificate is renewed."""
_SERIAL_DIGITS_MIN: Final = 16

_VERSION: Final = 1
_HERE: Final = Path(__file__).parent


class Word(NamedTuple):
    """What a join word states."""

    id: str
    duty: str
    ends_at: float
    uses: int = 1
    host: str = ""  # the only name that it is for; "" for any


class Issued(NamedTuple):
    """One certificate."""

    serial: str
    name: str
    duties: str
    key: str
    made_at: float
    ends_at: float
    revoked_at: float | None = None


def renewal_due(issued: Issued, lifetime_s: float) -> float:
    """When a certificate is to be renewed; one that was made for longer than certificates live now, at once."""
    life = issued.ends_at - issued.made_at
    # A hundredth, for times are rounded where certificates are made.
    return 0.0 if life > 1.01 * lifetime_s else issued.made_at + RENEWED_AFTER * life


@contextmanager
def transaction(path: str | os.PathLike[str]) -> Iterator[Register]:
    """The register, for one decision: committed when the block ends well, and as if it had never been otherwise."""
    import sqlite3  # every master imports this module, and few of them keep a register

    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        # Without it a power cut could bring a name back that was revoked.
        connection.execute("PRAGMA synchronous = FULL")
        # The lock before the first question: two who ask at a time would else both hear that a name is free.
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
            _make(connection, Path(path).with_name("hosts"))
        yield Register(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()  # which rolls back what was not committed


def _make(connection: sqlite3.Connection, earlier: Path) -> None:
    """A new register, with the names that an earlier version kept as files, one for each host."""
    for statement in (_HERE / "schema.sql").read_text().split(";\n"):
        if statement.strip():
            connection.execute(statement)
    if earlier.is_dir():
        for record in earlier.iterdir():
            row = (record.name.casefold(), record.read_text().strip())
            connection.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", row)
    connection.execute(f"PRAGMA user_version = {_VERSION}")


class Register:
    """What the register says and notes, within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._sql = connection

    # ---- who may have a certificate

    def admit(self, word: Word, name: str, key: str, *, reserved: Iterable[str], now: float) -> None:
        """Let a host with this name and key use a join word; UserError when it may not.

        `reserved` are the names of the central manager. A host that asks again, since the answer was lost, is let in
        again.
        """
        _check_name(name, reserved)
        if word.host and word.host.casefold() != name.casefold():
            raise UserError(f"this join word is for {word.host}, and not for {name}")
        name = name.casefold()
        self._forget(now)
        users = dict(self._sql.execute("SELECT name, key FROM uses WHERE word = ?", (word.id,)))
        # The same host with the same key again has not heard the answer, and uses the word no second time.
        if users.get(name) != key and (name in users or len(users) >= word.uses):
            raise UserError("this join word has been used", expected="a new one: pool token create --for DUTY")
        self._take_name(name, key)
        self._sql.execute("INSERT OR IGNORE INTO uses VALUES (?, ?, ?, ?)", (word.id, name, key, word.ends_at))

    def _take_name(self, name: str, key: str) -> None:
        if self._sql.execute("SELECT 1 FROM revoked_keys WHERE key = ?", (key,)).fetchone():
            raise UserError("the key of this host was revoked", expected="a new one: remove KEYS/host.key, and join")
        for other, others_key in self._sql.execute("SELECT name, key FROM names").fetchall():
            if collide(name, other) and (other, others_key) != (name, key):
                said = "has joined before, with another key" if other == name else f"is taken by {other}"
                raise UserError(
                    f"{name} {said}; when that host is no more, revoke it on the central manager first: "
                    f"pool hosts revoke {other}"
                )
        self._sql.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (name, key))

    def check_renewal(self, name: str, key: str, *, reserved: Iterable[str]) -> None:
        """UserError when the name is no longer this key's, or should never have been a host's."""
        _check_name(name, reserved)
        row = self._sql.execute("SELECT key FROM names WHERE name = ?", (name.casefold(),)).fetchone()
        if row is None or row[0] != key:
            raise UserError(f"{name} is not known as a host of this pool with this key")

    # ---- what was signed

    def record(self, issued: Issued) -> None:
        """Note a certificate, before it is given to anybody."""
        self._sql.execute("INSERT INTO certificates VALUES (?, ?, ?, ?, ?, ?, ?)", issued)

    def newest(self, name: str) -> Issued | None:
        """The newest certificate of a host that was not revoked."""
        row = self._sql.execute(
            "SELECT * FROM certificates WHERE name = ? AND revoked_at IS NULL ORDER BY made_at DESC", (name.casefold(),)
        ).fetchone()
        return Issued(*row) if row is not None else None

    def find(self, serial: str) -> Issued | None:
        """The certificate of this serial number."""
        row = self._sql.execute("SELECT * FROM certificates WHERE serial = ?", (serial,)).fetchone()
        return Issued(*row) if row is not None else None

    def hosts(self) -> list[Issued]:
        """The newest certificate of each host, and those that were revoked.

        Of a host of an earlier version the name and the key alone are known, until it has been renewed.
        """
        rows = self._sql.execute("SELECT * FROM certificates ORDER BY name, made_at").fetchall()
        known = [Issued(*row) for row in rows]
        newest = {row.name: row for row in known if row.revoked_at is None}
        others = [
            Issued("", name, "", key, 0.0, 0.0)
            for name, key in self._sql.execute("SELECT name, key FROM names").fetchall()
            if name not in newest
        ]
        shown = [*newest.values(), *others, *(row for row in known if row.revoked_at is not None)]
        return sorted(shown, key=lambda row: (row.name, row.made_at))

    # ---- who is out

    def revoke_host(self, what: str, *, reserved: Iterable[str], now: float) -> list[Issued]:
        """Put out the host of this name, or of the certificate with this serial number; what was revoked.

        Its name is free for another key; its own is never certified again. `reserved` are the names of the central
        manager.
        """
        serial = as_serial(what)
        found = self.find(serial) if serial else None
        name = found.name if found is not None else what.casefold()
        if name in {own.casefold() for own in reserved}:
            raise UserError(f"{name} is the central manager itself", expected="another host")
        self._sql.execute("INSERT OR IGNORE INTO revoked_keys SELECT key FROM names WHERE name = ?", (name,))
        known = self._sql.execute("DELETE FROM names WHERE name = ?", (name,)).rowcount
        revoked = self._revoke("name = ?", (name,), now)
        if not known and not revoked:
            return [self._revoke_unknown(what, serial, now)]
        return revoked or [Issued("", name, "", "", 0.0, 0.0, now)]

    def _revoke_unknown(self, what: str, serial: str, now: float) -> Issued:
        """Put out a certificate that an earlier version signed, which noted no serial numbers."""
        if len(serial) < _SERIAL_DIGITS_MIN:
            raise UserError(
                f"{what[:80]!r} is no host of this pool", expected="a name or serial number: pool hosts list"
            )
        self.record(Issued(serial, "", "", "", now, now + UNKNOWN_LIVES_S))
        return self._revoke("serial = ?", (serial,), now)[0]

    def revoke_replaced(self, newer: Issued, *, now: float) -> list[Issued]:
        """Put out a host's earlier certificates that are for other duties, or would outlive this one."""
        return self._revoke(
            "name = ? AND serial <> ? AND made_at <= ? AND (duties <> ? OR ends_at > ?)",
            (newer.name, newer.serial, newer.made_at, newer.duties, newer.ends_at),
            now,
        )

    def revoked(self) -> tuple[int, list[Issued]]:
        """The number of the revocation list, and what is on it."""
        (number,) = self._sql.execute("SELECT number FROM revision").fetchone()
        rows = self._sql.execute("SELECT * FROM certificates WHERE revoked_at IS NOT NULL ORDER BY serial")
        return number, [Issued(*row) for row in rows]

    def _revoke(self, where: str, values: tuple[object, ...], now: float) -> list[Issued]:
        rows = self._sql.execute(
            f"UPDATE certificates SET revoked_at = ? WHERE revoked_at IS NULL AND {where} RETURNING *", (now, *values)
        ).fetchall()
        if rows:
            self._sql.execute("UPDATE revision SET number = number + 1")
        return [Issued(*row) for row in rows]

    def _forget(self, now: float) -> None:
        """Drop words and certificates that ended long ago."""
        for table in ("uses", "certificates"):
            self._sql.execute(f"DELETE FROM {table} WHERE ends_at < ?", (now - REMEMBERED_S,))


def _check_name(name: str, reserved: Iterable[str]) -> None:
    check_name(name)
    if any(collide(name, other) for other in reserved):
        raise UserError(f"{name} is the central manager's own name", expected="another NETWORK_HOSTNAME")


def as_serial(text: str) -> str:
    """A serial number as the register has it: hexadecimal, in capitals, without leading zeros; "" when it is none."""
    digits = text.upper().removeprefix("0X").replace(":", "").lstrip("0")
    return digits if digits and all(digit in "0123456789ABCDEF" for digit in digits) else ""
