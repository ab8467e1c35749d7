"""What daemons call themselves, and which names and ads belong to a host. A host of the pool may speak of itself alone.

The names of slots and daemons end in their host, behind the last `@`. One that ends in `@`, such as the SCHEDD_NAME
that two access points share to stand in for each other, belongs to no host; then the ad's Machine decides.
"""

from __future__ import annotations

from typing import Final, Protocol

_BY_SCHEDD: Final = "submitter"  # its Name is a user's, who may have jobs at several


class Texts(Protocol):
    """An ad, whole or as it is kept."""

    def eval_str(self, name: str, default: str, /) -> str:
        """The value of an attribute if it is a text, else `default`."""


def daemon_name(configured: str, host: str) -> str:
    """The name that is configured, with the host appended unless it has an `@`; the host where there is none."""
    if not configured or configured == host:
        return host
    return configured if "@" in configured else f"{configured}@{host}"


def names_host(name: str, host: str) -> bool:
    """Whether this host may use the name for a slot or a daemon."""
    end = name.rpartition("@")[2]
    # Names of hosts have no case (RFC 4343).
    return not end or end.casefold() == host.casefold()


def belongs(ad: Texts, host: str) -> bool:
    """Whether the ad is about this host, or about something on it."""
    named = "ScheddName" if _is_by_schedd(ad) else "Name"
    name, machine = ad.eval_str(named, ""), ad.eval_str("Machine", "")
    # Both must agree, where both are told: a name alone could be chosen.
    if machine and machine.casefold() != host.casefold():
        return False
    return bool(name) and names_host(name, host) and (bool(machine) or not name.endswith("@"))


def kept_name(ad: Texts) -> str:
    """The name under which collectors keep the ad: it replaces the one of this name and its type, and no other."""
    name = ad.eval_str("Name", "")
    if not _is_by_schedd(ad):
        return name
    schedd = ad.eval_str("ScheddName", "")
    return f"{name} at {schedd}" if name and schedd else name


def _is_by_schedd(ad: Texts) -> bool:
    return ad.eval_str("MyType", "").casefold() == _BY_SCHEDD
