"""What a zygote does once so that no starter has to: learn the messages, and run the paths that every job takes.

The first use of a message class resolves its hints, and code that has run has been specialised by the interpreter. Done
before the fork, that work and the memory it writes are shared by all starters.
"""

from __future__ import annotations

import socket
from functools import cache
from typing import Any, Final

import trio

from daemons.starter import vfork
from pool.classad import ClassAd
from pool.execute.plan import Surroundings, plan_job
from pool.execute.usage import Sample, Usage
from pool.ids import JobId
from protocol import net, rpc
from protocol.message import DONE, Request
from protocol.messages import agent, schedd, starter
from protocol.messages.common import StopHow
from protocol.needs import Need
from protocol.rpc import Peer
from protocol.security import Security
from protocol.service import Service

ROUNDS: Final = 10
_IDS: Final[dict[str, Any]] = {"job_id": JobId(1, 0), "activation": "warm"}


def _messages() -> list[Request[Any]]:
    job = ClassAd({"Cmd": "/bin/true", "Iwd": "/", "Environment": "A=1 B='2 3'", "Arguments": "a 'b c'"})
    slot = ClassAd({"Name": "slot1_1@warm", "Cpus": 1, "Memory": 128})
    plan_job(job, slot, Surroundings(sandbox="/dir_1", slot="slot1_1", starter_pid=1))
    usage = Usage().begun().seen(Sample(1, 1, 0.1, 0.1, 1)).ad()
    job.long()
    run = starter.RunJob(**_IDS, job_ad=job, slot_ad=slot, shadow_address="/warm", ticket="warm")
    return [
        run,
        schedd.StarterReady(**_IDS),
        schedd.JobExecuting(**_IDS, at=0.0, ad=usage),
        schedd.JobEnded(**_IDS, ending=schedd.Ending.EXITED, at=0.0, ad=usage),
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
    for message in messages:
        service.on(type(message), _answer)
    parent_end, child_end = socket.socketpair()
    security = Security()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_be_parent, nursery, parent_end, security, service)
        peer = await rpc.open_pair(nursery, net.pair_channel(child_end), parent=False, security=security)
        for _ in range(ROUNDS):
            for message in messages:
                await peer.call(message)
        await peer.aclose()
        nursery.cancel_scope.cancel()


async def _be_parent(nursery: trio.Nursery, end: socket.socket, security: Security, service: Service) -> None:
    await rpc.open_pair(nursery, net.pair_channel(end), parent=True, security=security, service=service)


@cache
def warm_up() -> None:
    """Do it all, once; nothing is left but what was learnt."""
    vfork.is_possible()
    trio.run(_talk)
