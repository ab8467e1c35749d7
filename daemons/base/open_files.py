"""How many files a daemon may have open: as many as the machine lets it, for every connection is one.

The usual limit of 1,024 is for programs that use select. A job or a program of the site may be one, so these get the
limit that the daemon was started with: the first zygotes are forked before it is raised, and what is executed later
gives it back in the child.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pool.config import Config

_inherited: tuple[int, int] | None = None


def raise_limit(config: Config, subsystem: str) -> None:
    """Raise this process's limit: to `<SUBSYS>_MAX_FILE_DESCRIPTORS`, or else as far as it may."""
    global _inherited
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.int(f"{subsystem}_MAX_FILE_DESCRIPTORS", default=0) or config.int("MAX_FILE_DESCRIPTORS")
    # Root may raise the hard limit too; whoever may not takes what there is.
    for limits in ((wanted, max(hard, wanted)), (min(wanted, hard), hard)) if wanted else ((hard, hard),):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        except (ValueError, OSError):
            continue  # above the hard limit, which only root may raise
        _inherited = _inherited or (soft, hard)
        return


def give_back() -> None:
    """Before a program takes this process's place: have the limit that the daemon was started with."""
    if _inherited is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, _inherited)


def before_exec() -> Callable[[], None] | None:
    """What a child is to call before it executes a program, if anything."""
    return give_back if _inherited is not None else None
