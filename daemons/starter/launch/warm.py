"""What a zygote does once so that no starter has to: learn the messages, and run the paths that every job takes.

The first use of a message class resolves its hints, and code that has run has been specialised by the interpreter. Done
before the fork, that work and the memory it writes are shared by all starters.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from typing import Any, Final

import trio

from daemons.host.account import own_account
from daemons.host.namespaces import can_isolate
from daemons.host.process_limit import machine_processes
from daemons.starter.launch import vfork
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.execute.plan import ExecuteSurroundings, plan_job
from pool.execute.usage import JobUsage, UsageSample
from pool.jobs.vocabulary.endings import Ending
from pool.slots.ad import limits_expr
from protocol.messages import agent, shadow, starter
from protocol.messages.common import StopHow
from protocol.network import channel
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security.credentials import Security
from protocol.security.needs import Need
from protocol.wire.message import DONE, Request

ROUNDS: Final = 10
RESOURCES: Final = ("Cpus", "Memory", "Disk", "GPUs")
"""What nearly every machine has: the variables and the expressions of these are the same in all slots."""
_IDS: Final[dict[str, Any]] = {"job_id": JobId(1, 0), "activation": "warm"}


def _messages() -> list[Request[Any]]:
    job = ClassAd({"Cmd": "/bin/true", "Iwd": "/", "Environment": "A=1 B='2 3'", "Arguments": "a 'b c'"})
    slot = ClassAd({"Name": "slot1_1@warm", "Cpus": 1, "Memory": 128, "MachineResources": " ".join(RESOURCES)})
    slot["WithinResourceLimits"] = limits_expr(RESOURCES)
    plan_job(job, slot, ExecuteSurroundings(sandbox="/dir_1", slot="slot1_1", starter_pid=1))
    usage = JobUsage().begun().seen(UsageSample(1, 1, 0.1, 0.1, 1)).ad()
    job.long()
    place = starter.StarterSlot(name="slot1_1@warm")
    run = starter.RunJob(slot=place, **_IDS, job_ad=job, slot_ad=slot, shadow_address="/warm", ticket="warm")
    return [
        run,
        shadow.StarterReady(**_IDS),
        shadow.JobExecuting(**_IDS, at=0.0, ad=usage),
        shadow.JobEnded(**_IDS, ending=Ending.EXITED, at=0.0, ad=usage),
        starter.StopJob(activation="warm", how=StopHow.FAST),
        starter.ActivationOver(activation="warm"),
        agent.FetchInput(activation="warm"),
        agent.PushOutput(activation="warm", files=[agent.FileEntry(name="x")]),
        agent.OutputStored(activation="warm"),
    ]


def _answer(_peer: Peer, request: Request[Any]) -> Any:
    if isinstance(request, agent.FetchInput):
        return agent.InputFiles(files=[agent.FileEntry(name="x")])
    return agent.Stored() if isinstance(request, agent.OutputStored) else DONE


async def _talk() -> None:
    """Every message of a starter's life, over a socket pair with both ends here."""
    messages = _messages()
    service = Service("warm", {message.tag: Need() for message in messages})
    service.offer([answer(type(message), _answer) for message in messages])
    parent_end, child_end = socket.socketpair()
    security = Security()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_be_parent, nursery, parent_end, security, service)
        peer = await endpoints.open_pair(nursery, channel.pair_channel(child_end), parent=False, security=security)
        # The interpreter specialises code after some runs, and specialised code is memory that was written.
        for _ in range(ROUNDS):
            for message in messages:
                await peer.call(message)
        await peer.aclose()
        nursery.cancel_scope.cancel()


async def _be_parent(nursery: trio.Nursery, end: socket.socket, security: Security, service: Service) -> None:
    await endpoints.open_pair(nursery, channel.pair_channel(end), parent=True, security=security, service=service)


@cache
def warm_up() -> None:
    """Do it all, once; nothing is left but what was learnt."""
    vfork.is_possible()
    can_isolate()
    machine_processes()
    # The C library reads then where accounts are looked up, and loads what looks them up.
    os.getgrouplist(own_account().name, os.getgid())
    trio.run(_talk)
