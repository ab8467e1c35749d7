"""What evaluation takes from outside the ads: the clock, the processor's clock, chance, the time zone, user maps and
the language's mode.

Everything is handed in with `install`; without it there is no time (the epoch), and chance is seeded and repeatable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from pool.classad.eval.budget import Budget


class Environment:
    """The one environment of a process; tools and daemons install theirs at start, tests hand in their own."""

    __slots__ = ("clock", "cpu", "debug", "rng", "seed", "strict", "user_home", "user_maps", "zone", "zone_name")

    def __init__(self) -> None:
        self.clock: Callable[[], float] = lambda: 0.0
        #: Seconds of processor time of this thread; None: evaluations are bounded by their steps alone.
        self.cpu: Callable[[], float] | None = None
        #: Chance for random(); without one, a source that begins with the seed.
        self.rng: random.Random | None = None
        self.seed = 0
        #: Offset of local time from UTC, in seconds, at a moment in epoch seconds; without daylight saving if asked.
        self.zone: Callable[[int, bool], int] = lambda _at, _no_dst: 0
        #: What local time is called while there is no daylight saving.
        self.zone_name = "UTC"
        #: An account's home directory, or None; None itself where expressions may not ask.
        self.user_home: Callable[[str], str | None] | None = None
        #: Mapping functions by map name: user -> comma-separated groups, or None (<SUBSYS>_CLASSAD_USER_MAP_NAMES).
        self.user_maps: Mapping[str, Callable[[str, Budget], str | None]] = {}
        #: Where debug() reports to.
        self.debug: Callable[[str], None] = lambda _line: None
        #: STRICT_CLASSAD_EVALUATION: unscoped names stay in their ad, no CurrentTime, C-like integer literals.
        self.strict = False


ENV = Environment()


def install(
    *,
    clock: Callable[[], float] | None = None,
    cpu: Callable[[], float] | None = None,
    rng: random.Random | None = None,
    seed: int | None = None,
    zone: Callable[[int, bool], int] | None = None,
    zone_name: str | None = None,
    user_home: Callable[[str], str | None] | None = None,
    user_maps: Mapping[str, Callable[[str, Budget], str | None]] | None = None,
    debug: Callable[[str], None] | None = None,
    strict: bool | None = None,
) -> None:
    """Hand in what is given; what is not given stays as it was."""
    if clock is not None:
        ENV.clock = clock
    if cpu is not None:
        ENV.cpu = cpu
    if rng is not None:
        ENV.rng = rng
    if seed is not None:
        ENV.rng, ENV.seed = None, seed
    if zone is not None:
        ENV.zone = zone
    if zone_name is not None:
        ENV.zone_name = zone_name
    if user_home is not None:
        ENV.user_home = user_home
    if user_maps is not None:
        ENV.user_maps = {name.lower(): mapping for name, mapping in user_maps.items()}
    if debug is not None:
        ENV.debug = debug
    if strict is not None:
        ENV.strict = strict


def set_clock(clock: Callable[[], float]) -> None:
    """The clock for time() and CurrentTime: seconds since the epoch."""
    ENV.clock = clock


def chance() -> random.Random:
    """The installed source of chance."""
    if ENV.rng is None:
        import random  # slow to import, and few programs throw dice

        ENV.rng = random.Random(ENV.seed)
    return ENV.rng


def now() -> int:
    """The installed clock's time in whole seconds."""
    return int(ENV.clock())
