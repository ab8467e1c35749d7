"""What a zygote does once so that no starter has to: it is a starter, and runs jobs that do nothing.

What a process does first it does slowly: the interpreter specialises code that has run eight times, messages resolve
their hints, caches fill. All of that is memory that is written, and a child that does it has a copy of its own. Done
before the fork it is done for all starters, and is theirs together.

What a child then writes to, however often it was written to before the fork, it copies first: for a job's first steps
that is a thousand pages. A spare starter on a machine that is in use does so before a claim calls it (`once_more`).

The starter is the real one, and so are its connections, sandboxes and jobs; startd, schedd and file agent are a few
lines here. Half of the jobs transfer files, and have their arguments in the new syntax. Nothing of this host's
configuration is used, and no key: what a starter has to know it is told at its birth. A spare one shows its jobs as
much of the machine as those that come will see, since mounts of their own are a good part of a short job's time.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import trio

from daemons.base.log import Log
from daemons.host.account import named_account, own_account
from daemons.host.child_settings import StarterSettings
from daemons.host.namespaces import can_isolate
from daemons.host.process_limit import machine_processes
from daemons.process.zygote import Birth
from daemons.starter.launch import vfork
from daemons.starter.main import Starter
from daemons.starter.usual_ads import usual_job, usual_slot
from pool.base.errors import PoolError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.slots.ad import limits_expr
from protocol.messages import agent, shadow, starter
from protocol.network.channel import pair_channel
from protocol.network.net import RealNetwork
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.authorize import Level
from protocol.security.credentials import Security
from protocol.security.needs import Needs
from protocol.security.ticket import Bearer, digest_of
from protocol.wire.address import Address
from protocol.wire.kinds import fields_of
from protocol.wire.message import DONE, MESSAGES, Done, Message

ROUNDS: Final = 16
"""Jobs: eight that transfer files, and eight that do not."""
ONCE_MORE: Final = 2
"""One of each kind."""
PATIENCE_S: Final = 10.0
RESOURCES: Final = ("Cpus", "Memory", "Disk", "GPUs")
"""What nearly every machine has: the variables and the expressions of these are the same in all slots."""
SLOT: Final = "slot1_1@rehearsal"
TICKET: Final = "rehearsal"


@cache
def warm_up() -> None:
    """Do it all, once; what cannot be done here each starter learns for itself."""
    vfork.is_possible()
    can_isolate()
    machine_processes()
    # The C library reads then where accounts are looked up, and loads what looks them up.
    os.getgrouplist(own_account().name, os.getgid())
    for kind in list(MESSAGES.values()):
        fields_of(kind)
    _rehearse_anywhere(ROUNDS, StarterSettings(execute=""))


def once_more(own: StarterSettings) -> None:
    """The same in a starter that has no job yet, with what its jobs are to see of the machine."""
    _rehearse_anywhere(ONCE_MORE, own)


def _rehearse_anywhere(rounds: int, own: StarterSettings) -> None:
    with suppress(OSError):
        place = Path(tempfile.mkdtemp(prefix="minipool-rehearsal-"))
        try:
            place.chmod(0o755)  # a job's account has to get into its sandbox
            _rehearse(place, rounds, own)
        finally:
            shutil.rmtree(place, ignore_errors=True)
            named_account.cache_clear()  # the site may change it before a starter looks it up


def _rehearse(place: Path, rounds: int, own: StarterSettings) -> None:
    home = str(place)
    settings = StarterSettings(
        execute=home,
        run_dir=home,
        uid_domain="rehearsal",
        owner_uid=os.getuid(),
        job_namespaces=own.job_namespaces,
        mount_under_scratch=own.mount_under_scratch,
        private_shared_memory=own.private_shared_memory,
    )
    starter_end, startd_end = socket.socketpair()
    life, alive = os.pipe()
    log = Log(place / "StarterLog")
    play = Starter(settings, log, RealNetwork())
    try:
        trio.run(_play, play, Birth("starter", b"", starter_end, life, ()), startd_end, place, rounds)
    except* (PoolError, OSError, trio.TooSlowError):
        pass
    finally:
        log.close()
        os.close(alive)
        with suppress(OSError):  # the starter closes its own, when it comes to that
            os.close(life)


async def _play(play: Starter, birth: Birth, startd_end: socket.socket, place: Path, rounds: int) -> None:
    security = Security()
    security.tickets.add(
        digest_of(TICKET), identity=SLOT, levels=[Level.READ], bearer=Bearer(uids=[os.getuid()]), label="claim"
    )
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(_serve, place / "schedd", "schedd", needs.SCHEDD, security)
            await nursery.start(_serve, place / "agent", "agent", needs.AGENT, security)
            nursery.start_soon(_be_startd, startd_end, place, security, rounds)
            await play.serve(birth)
            nursery.cancel_scope.cancel()


# ---- the others


_SAID: Final[Mapping[type[Message], Any]] = {
    shadow.StarterReady: DONE,
    shadow.JobExecuting: DONE,
    shadow.JobUpdate: DONE,
    shadow.JobEnded: DONE,
    agent.FetchInput: agent.InputFiles(files=[agent.FileEntry(name="input", size=1, data=b"x")]),
    agent.InputTaken: None,
    agent.PushOutput: agent.PushTaken(),
    agent.OutputStored: agent.Stored(),
}
"""What schedd and file agent answer, whatever the job."""


async def _serve(
    path: Path, name: str, allowed: Needs, security: Security, *, task_status: trio.TaskStatus[None]
) -> None:
    service = Service(name, allowed)
    service.offer([answer(kind, _say) for kind in _SAID if kind.tag in allowed])
    listener = await RealNetwork().listen(Address.unix(str(path)))
    await endpoints.serve(service, [listener], security=security, task_status=task_status)


def _say(_peer: Peer, message: Any) -> Any:
    return _SAID[type(message)]


async def _be_startd(end: socket.socket, place: Path, security: Security, rounds: int) -> None:
    over, told = trio.open_memory_channel[starter.ActivationOver](1)

    async def hear(_peer: Peer, message: starter.ActivationOver) -> Done:
        await over.send(message)
        return DONE

    service = Service("startd", needs.STARTD_TO_STARTER)
    service.offer([answer(starter.ActivationOver, hear)])
    async with trio.open_nursery() as nursery:
        channel = pair_channel(end)
        peer = await endpoints.open_pair(nursery, channel, parent=True, security=security, service=service)
        await peer.notify(starter.MeetSchedd(shadow_address=str(place / "schedd"), ticket=TICKET))
        for number in range(rounds):
            await peer.call(_order(number, place, transfers=number % 2 == 1))
            await told.receive()
        await peer.call(starter.LeaveNow())
        await peer.closed.wait()


def _order(number: int, place: Path, *, transfers: bool) -> starter.RunJob:
    return starter.RunJob(
        slot=starter.StarterSlot(name=SLOT),
        activation=str(number),
        job_id=JobId(1, number),
        job_ad=_job(transfers=transfers),
        slot_ad=_slot(),
        lease_s=2400.0,
        shadow_address=str(place / "schedd"),
        ticket=TICKET,
        agent_address=str(place / "agent") if transfers else "",
        agent_ticket=TICKET if transfers else "",
    )


def _job(*, transfers: bool) -> ClassAd:
    return usual_job(
        {
            "Cmd": "/bin/true",
            "TransferExecutable": False,
            "Arguments" if transfers else "Args": "a b",
            "Environment": "A=1 B='2 3'",
            "Iwd": "/",
            "Owner": own_account().name,
            "User": f"{own_account().name}@rehearsal",
            "ShouldTransferFiles": "YES" if transfers else "NO",
            "WhenToTransferOutput": "ON_EXIT",
            "In": "/dev/null",
            "Out": "out" if transfers else "/dev/null",
            "Err": "/dev/null",
        }
    )


def _slot() -> ClassAd:
    slot = usual_slot({"Name": SLOT, "Cpus": 1, "Memory": 128, "Disk": 1024, "MachineResources": " ".join(RESOURCES)})
    slot["WithinResourceLimits"] = limits_expr(RESOURCES)
    return slot
