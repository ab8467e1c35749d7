"""FS: the kernel says which account is at the other end of a unix socket; nothing needs to be sent."""

from __future__ import annotations

from protocol.security.authorize import ALL_LEVELS, Level
from protocol.security.identity import Credentials


def user_name(uid: int) -> str:
    """The account's name, or `uid<n>` for one that has none here."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid{uid}"


def granted(credentials: Credentials, owner_uid: int) -> frozenset[Level]:
    """Root and the pool's owner could read its keys and memory anyway: they have every level."""
    return ALL_LEVELS if credentials.uid in (0, owner_uid) else frozenset()
