"""A host that is to join, as far as its key goes."""

from __future__ import annotations

from pathlib import Path

from protocol.security import keys


def make_host_key(directory: Path, host: str) -> str:
    """Make and store the host's key; its certificate request."""
    key = keys.host_key(directory)
    keys.keep_host_key(directory, key)
    return keys.request_certificate(key, host)
