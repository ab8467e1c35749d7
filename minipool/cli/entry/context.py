"""What most tools begin with: the pool that the options point to, and the schedd whose jobs they are about."""

from __future__ import annotations

import sys
import time

from minipool.cli.options import Parsed
from minipool.session import Session


def open_session(parsed: Parsed) -> Session:
    """The pool of -pool, or the one that the configuration names."""
    session = Session.open(pool=parsed.value("pool"))
    if parsed.has("debug"):
        sys.stderr.write("".join(f"{warning}\n" for warning in session.config.warnings))
    return session


def short_address(address: str) -> str:
    """A sinful string without what nobody reads: `<127.0.0.1:9618?...`."""
    before, mark, _ = address.partition("?")
    return f"{before}?..." if mark else address


def stamp(when: float | None = None) -> str:
    """The date in a table's banner: `11/20/26 23:35:32`."""
    return time.strftime("%m/%d/%y %H:%M:%S", time.localtime(when))


def install_clock() -> None:
    """Let `time()` in expressions be the time of day."""
    from pool.classad import environment

    environment.install(clock=time.time)


def install_surroundings() -> None:
    """All that expressions may ask of this host: the time of day, its zone, chance."""
    from random import Random

    from pool.classad import environment

    environment.install(clock=time.time, zone=_zone, rng=Random())


def _zone(at: float, no_dst: bool) -> int:
    """This host's offset from UTC, in seconds."""
    return -time.timezone if no_dst else time.localtime(at).tm_gmtoff
