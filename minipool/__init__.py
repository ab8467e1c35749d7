"""minipool: a pool of machines that runs batch jobs. This package is what people import and type.

`open_pool()` is for programs that use trio, `connect()` for scripts and notebooks; both give a `Pool`. What is named
here is imported when it is first used, so that the command-line tools, which live in this package too, start fast.
"""

from __future__ import annotations

from pool.hints import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minipool.api import Job, Pool, open_pool
    from minipool.blocking import connect
    from minipool.model import (
        JobHeldWarning,
        JobResult,
        JobState,
        NotDone,
        Status,
        Submit,
        SubmitWarning,
        UnknownJob,
    )
    from pool.classad import ClassAd, Expr, expr
    from pool.errors import PeerError, PoolError, SubmitError, UserError
    from protocol.remote import TimedOut

_HOMES = {
    "Job": "minipool.api",
    "Pool": "minipool.api",
    "open_pool": "minipool.api",
    "connect": "minipool.blocking",
    "JobHeldWarning": "minipool.model",
    "JobResult": "minipool.model",
    "JobState": "minipool.model",
    "NotDone": "minipool.model",
    "Status": "minipool.model",
    "Submit": "minipool.model",
    "SubmitWarning": "minipool.model",
    "UnknownJob": "minipool.model",
    "ClassAd": "pool.classad",
    "Expr": "pool.classad",
    "expr": "pool.classad",
    "PeerError": "pool.errors",
    "PoolError": "pool.errors",
    "SubmitError": "pool.errors",
    "UserError": "pool.errors",
    "TimedOut": "protocol.remote",
}

__all__ = [
    "ClassAd",
    "Expr",
    "Job",
    "JobHeldWarning",
    "JobResult",
    "JobState",
    "NotDone",
    "PeerError",
    "Pool",
    "PoolError",
    "Status",
    "Submit",
    "SubmitError",
    "SubmitWarning",
    "TimedOut",
    "UnknownJob",
    "UserError",
    "connect",
    "expr",
    "open_pool",
]


def __getattr__(name: str) -> Any:
    """A name of the API, from the module that it lives in."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'minipool' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
