"""What expressions learn of the world in a tool or a program that uses the API: the time, the zone, chance."""

from __future__ import annotations

import os
import time

from pool.classad.values import environment


def install_surroundings() -> None:
    """Let `time()` in expressions be the time of day, in the zone of this host, and `random()` be random."""
    # A seed, not a source: to import `random` takes longer than many a tool runs, and few throw dice.
    seed = int.from_bytes(os.urandom(16), "big")
    environment.install(clock=time.time, zone=_zone, zone_name=time.tzname[0], seed=seed)


def _zone(at: float, no_dst: bool) -> int:
    """This host's offset from UTC, in seconds."""
    # The C library counts west of UTC as positive (tzset(3)), and expressions count east.
    return -time.timezone if no_dst else time.localtime(at).tm_gmtoff
