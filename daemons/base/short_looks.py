"""Python's garbage collector holds up the loop while it looks: never for long here, however many objects are kept.

It looks at all that has lived for a while each time when there is a quarter more of it: at hundreds of thousands of ads
for a tenth of a second and more, at none of which there is anything to be found. So what a long look has left is put
out of its sight (`gc.freeze`), and the next one sees only what came since. Objects out of sight are freed as others
are when nobody has them any more; only circles among them would stay, and for those there is a look at all from time
to time. A process with few objects, whose looks are short, is left alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic, thread_time
from typing import Final

LONG_S: Final = 0.005
"""A look that took more of a processor is not repeated."""
AT_ALL_EACH_S: Final = 3600.0
OLD_AFTER: Final = 2
"""Looks at the young before there is one at the old, once there are many: so few are new then that it is short."""
_OLDEST: Final = 2


class _Looks:
    """Told of each look."""

    def __init__(self, long_s: float, clock: Callable[[], float]) -> None:
        self._long_s, self._clock = long_s, clock
        self._hidden_since: float | None = None
        """When the first object since the last look at all was put out of sight."""
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            if self._hidden_since is not None and self._clock() - self._hidden_since >= AT_ALL_EACH_S:
                self._hidden_since = None
                gc.unfreeze()
            self._began = thread_time()
        elif thread_time() - self._began >= self._long_s:
            gc.freeze()
            if self._hidden_since is None:
                self._hidden_since = self._clock()
                young, middle, _ = gc.get_threshold()
                gc.set_threshold(young, middle, OLD_AFTER)


def keep_looks_short(*, long_s: float = LONG_S, clock: Callable[[], float] = monotonic) -> None:
    """From now on, in this process."""
    gc.callbacks.append(_Looks(long_s, clock))
