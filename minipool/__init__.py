"""minipool: a pool of machines that runs batch jobs. This package is what people import and type.

`connect()` is for scripts and notebooks and returns a `Pool`, `open_pool()` for programs that use trio and gives an
`AsyncPool`. What is named here is imported when it is first used, so that the command-line tools, which live in this
package too, start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pool.base.version import VERSION as __version__

if TYPE_CHECKING:
    from minipool.client.blocking import Job, Pool, connect
    from minipool.client.model import (
        JobHeldWarning,
        JobResult,
        JobState,
        NotDone,
        Status,
        Submit,
        SubmitWarning,
        UnknownJob,
    )
    from minipool.client.over_trio import AsyncJob, AsyncPool, open_pool
    from pool.ads.seen import AdNews, SeenAds
    from pool.base.errors import PeerError, PoolError, SubmitError, UserError
    from pool.classad import ClassAd, Expr, expr
    from protocol.rpc.remote import TimedOut

# Stated three times: mypy reads the imports above, this table finds the module, and `__all__` is what `import *` and
# help see.
_HOMES = {
    "AdNews": "pool.ads.seen",
    "AsyncJob": "minipool.client.over_trio",
    "AsyncPool": "minipool.client.over_trio",
    "open_pool": "minipool.client.over_trio",
    "Job": "minipool.client.blocking",
    "Pool": "minipool.client.blocking",
    "connect": "minipool.client.blocking",
    "JobHeldWarning": "minipool.client.model",
    "JobResult": "minipool.client.model",
    "JobState": "minipool.client.model",
    "NotDone": "minipool.client.model",
    "Status": "minipool.client.model",
    "SeenAds": "pool.ads.seen",
    "Submit": "minipool.client.model",
    "SubmitWarning": "minipool.client.model",
    "UnknownJob": "minipool.client.model",
    "ClassAd": "pool.classad",
    "Expr": "pool.classad",
    "expr": "pool.classad",
    "PeerError": "pool.base.errors",
    "PoolError": "pool.base.errors",
    "SubmitError": "pool.base.errors",
    "UserError": "pool.base.errors",
    "TimedOut": "protocol.rpc.remote",
}

__all__ = [
    "AdNews",
    "AsyncJob",
    "AsyncPool",
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
    "SeenAds",
    "Status",
    "Submit",
    "SubmitError",
    "SubmitWarning",
    "TimedOut",
    "UnknownJob",
    "UserError",
    "__version__",
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

    _install_surroundings()
    value = getattr(import_module(home), name)
    # The next use finds the name itself, and does not come here again.
    globals()[name] = value
    return value


def _install_surroundings() -> None:
    """Once, and with the first name that somebody uses: the tools, which live in this package too, do it themselves."""
    global _installed
    if not _installed:
        from minipool.client.surroundings import install_surroundings

        install_surroundings()
        _installed = True


_installed = False
