"""What makes and checks tokens is loaded when it is first needed, in a thread.

PyJWT and `cryptography` take a tenth of a second to import and 10 MB of memory. Whoever proves itself by its account
or by a host's certificate has no use for them, and no event loop may be held so long.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import trio

MODULES: Final = ("protocol.security.holder_key", "protocol.security.signed_token")
BY_CHANNEL: Final = frozenset(("FS", "SSL", "PAIR"))
"""Methods that need nothing but what the channel proves."""


def may_be_shown(methods: Sequence[str]) -> bool:
    """Whether a client that may use these methods is likely to show a token."""
    return "TOKEN" in methods and BY_CHANNEL.isdisjoint(methods)


async def load() -> None:
    """Have it all loaded; other tasks go on meanwhile."""
    if any(name not in sys.modules for name in MODULES):
        await trio.to_thread.run_sync(_import)


def _import() -> None:
    for name in MODULES:
        import_module(name)
