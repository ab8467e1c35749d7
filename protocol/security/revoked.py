"""The serial numbers of revoked certificates, as a host's processes know them: RUN/revoked, one in each line.

The master writes the file when a newer list has come and its signature holds. Every process looks whether the file has
changed before it trusts a certificate, and every few seconds for the connections that it has.
"""

from __future__ import annotations

import os
from typing import Final

from pool.base.errors import PeerError
from protocol.security.identity import Certificate

REVOKED_FILE: Final = "revoked"


class Revoked:
    """The list of one file; "" is a list that is always empty."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._serials: frozenset[str] = frozenset()
        self._heeded = self._serials

    def serials(self) -> frozenset[str]:
        """The serial numbers as they are now."""
        try:
            status = os.stat(self._path) if self._path else None
        except OSError:
            status = None  # nothing has been revoked yet, or what was read before is still true
        if status is not None and self._stamp != (stamp := (status.st_ino, status.st_mtime_ns)):
            with open(self._path, encoding="ascii") as file:
                self._serials = frozenset(file.read().split())
            self._stamp = stamp
        return self._serials

    def has_changed(self) -> bool:
        """Whether the list is another than when this was asked before."""
        before, self._heeded = self._heeded, self.serials()
        return self._heeded != before

    def check(self, certificate: Certificate | None) -> None:
        """PeerError when this certificate was revoked."""
        # The serial numbers of other pools are their own: such a pool is trusted or not, as a whole.
        if certificate is not None and not certificate.pool and certificate.serial in self.serials():
            raise PeerError(f"the certificate of {certificate.host} was revoked")
