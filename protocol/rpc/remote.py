"""What can go wrong with a call."""

from __future__ import annotations

from pool.base.errors import PeerError


class RemoteError(PeerError):
    """The other side said no.

    `code` is the name of the error there (`UserError`), or one of `denied`, `unknown_request`, `bad_request`, `busy`
    and `internal`.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class ConnectionLost(PeerError):
    """The connection ended before the answer; whether the request had its effect is not known."""


class TooLong(PeerError):
    """A message is longer than any that can be sent. Nothing of it was, and the connection is as it was before."""


class TimedOut(PeerError):
    """The answer, or the connection, did not come in time."""
