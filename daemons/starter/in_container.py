"""A job's program in a container, which is removed whatever happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from daemons.starter.account import Account
from daemons.starter.contained import container_of, put_into
from daemons.starter.container import Container
from daemons.starter.context import Context
from daemons.starter.terms import Terms
from pool.classad import ClassAd
from pool.containers.engine import EngineError
from pool.errors import PeerError
from pool.execute.plan import Plan
from protocol.messages.starter import EngineTrouble, RunJob


@asynccontextmanager
async def started_in(
    image: str, context: Context, request: RunJob, job: ClassAd, terms: Terms, plan: Plan, account: Account
) -> AsyncGenerator[Container, None]:
    """The container, whose program runs; it is gone after the `with`. The startd hears of an engine in trouble."""
    container = container_of(job, request.slot_ad, context.settings, context.processes, context.group, context.log)
    try:
        await container.make(put_into(image, terms, plan, account, request, job, request.slot_ad, context))
        container.start(plan, account)
        await container.begun()
        yield container
    except EngineError as error:
        await _report(context, request, str(error))
        raise
    finally:
        await container.remove()


async def _report(context: Context, request: RunJob, reason: str) -> None:
    """Let the startd know, so that no more jobs come for their container's sake."""
    try:
        await context.startd.notify(EngineTrouble(activation=request.activation, reason=reason))
    except PeerError:
        pass
