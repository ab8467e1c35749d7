"""What the core tells other parts, which it does not know: main says once who listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pool.jobs.queue.cluster import Job


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is called when something has changed."""

    work_changed: tuple[Callable[[bool], None], ...] = ()
    """What waits for slots is different; with True there is new work."""
    waits_here: tuple[Callable[[Job], None], ...] = ()
    """The job wants to run at the access point."""
    has_left: tuple[Callable[[Job], None], ...] = ()
    """The job is not in the queue any more."""
    removed: tuple[Callable[[Job], None], ...] = ()
    """The job has been told to go: by a user or by a policy."""
