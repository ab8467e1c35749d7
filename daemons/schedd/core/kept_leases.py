"""Which negotiators this schedd has leased to, in a file of SPOOL: a promise that a crash of the schedd does not end.

A lease is kept when it goes to another negotiator, or in another term; not each time that it is renewed. So a schedd
that comes back takes it to be good for all of its length once more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import trio

from daemons.base.log import Log
from daemons.base.whole_file import replace_file
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from pool.hosts.leading import Leased

FILE: Final = "negotiator_leases.json"


class KeptLeases:
    """The leases by name (a pool and a slice of its slots), as they are on disk."""

    def __init__(self, start: DaemonStart) -> None:
        self._threads = start.world.threads
        self._path = Path(start.config.path("SPOOL"), FILE)
        self._kept = _read(self._path, start.log)
        self._writing = trio.Lock()

    def recall(self, name: str) -> Leased:
        """What was promised before this start."""
        rank, term, lease_s = self._kept.get(name, (-1, 0, 0.0))
        return Leased(rank, term, trio.current_time() + lease_s)

    async def keep(self, name: str, leased: Leased, lease_s: float) -> None:
        """Returns when the file has this promise; PoolError where it cannot have it."""
        async with self._writing:
            said = (leased.rank, leased.term, lease_s)
            if self._kept.get(name) == said:
                return
            kept = {**self._kept, name: said}
            try:
                await self._threads.run_sync(replace_file, self._path, json.dumps(kept))
            except OSError as error:
                raise PoolError(f"{self._path} cannot be written: {error}") from error
            self._kept = kept


def _read(path: Path, log: Log) -> dict[str, tuple[int, int, float]]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): (int(rank), int(term), float(lease_s)) for name, (rank, term, lease_s) in said.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:  # only leases of the last seconds are forgotten
        log.always(f"{path} is not as this schedd writes it, and is passed over: {error}")
        return {}
