"""The file agent: forked by its schedd's zygote, it becomes the user whose files it opens, and serves two sides.

The schedd speaks to it on the socket pair that it was born with: events to append, activations that may move files.
Starters come to its socket with the ticket of their activation, those of other hosts through the host's port, where it
is called `agent-` and the socket's name. When the schedd is gone, so is the agent: what it was writing is complete or
was never seen, and the next one goes on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import trio

from daemons import faults
from daemons.agent.checkpoint_cleanup import CheckpointCleanup
from daemons.agent.event_log import LogBusy, append_events
from daemons.agent.remote_io import RemoteFiles
from daemons.agent.signing import Signer
from daemons.agent.transfer import Transfers
from daemons.agent.trusted_path import give_up_powers
from daemons.agent.turns import Turns
from daemons.linux import hide_memory
from daemons.log import Log
from daemons.starter.account import Account, become
from daemons.starter.settings import AgentSettings
from daemons.zygote import Birth
from pool.errors import UserError
from protocol import needs, net, rpc, unix_socket
from protocol.address import Address
from protocol.message import DONE, Done
from protocol.messages.agent import AppendEvents, LogEvent
from protocol.net import Listener, UnixListener
from protocol.port_server import SharedListener
from protocol.revoked import REVOKED_FILE, Revoked
from protocol.rpc import Peer
from protocol.security import Security
from protocol.service import Service

LOCK_PAUSE_S: Final = 0.02
UMASK: Final = 0o022
OWN_MODE: Final = 0o600
ANYBODYS_MODE: Final = 0o666
"""The kernel says who connects, and each ticket whose it is."""
NAME_CHARACTERS_MAX: Final = 56


def socket_name(path: str) -> str:
    """What the shared port calls the agent that has this unix socket."""
    return "agent-" + re.sub(r"[^A-Za-z0-9_.@-]", "_", Path(path).stem)[:NAME_CHARACTERS_MAX]


def child_main(birth: Birth) -> None:
    """What the zygote calls in the forked child."""
    trio.run(main, birth)


async def main(birth: Birth) -> None:
    """Serve until the schedd is gone."""
    settings = AgentSettings.unpack(birth.payload)
    log = Log(
        Path(settings.log_path) if settings.log_path else None,
        level=settings.log_level,
        bytes_max=settings.log_bytes_max,
        old_max=settings.log_old_max,
        times=settings.log_times,
    )
    log.capture_logging()
    faults.arm(settings.fault_points, settings.run_dir or ".")
    security = _security(settings)
    listeners = _listen(settings, log)  # while this process may write to RUN
    log.always("File agent starts", user=settings.account or settings.uid, pid=os.getpid(), socket=settings.socket)
    os.umask(UMASK)
    become(Account(settings.account, settings.uid, settings.gid, tuple(settings.groups), None))
    give_up_powers()
    if settings.account:
        hide_memory()  # tickets are in it, which other processes of its user have no use for
    async with trio.open_nursery() as nursery:
        await _serve(birth, settings, security, listeners, log, nursery)
        nursery.cancel_scope.cancel()
    log.always("File agent ends: its schedd is gone")


def _security(settings: AgentSettings) -> Security:
    """Tickets are all that it accepts. The host's certificate is read now: the user may not read it later."""
    security = Security(
        trust_domain=settings.trust_domain,
        uid_domain=settings.uid_domain,
        owner_uid=settings.owner_uid,
        keys=settings.keys,
        ca_files=tuple(settings.ca_files),
        revoked=Revoked(os.path.join(settings.run_dir, REVOKED_FILE)),
        accept=(),
        pair_identity=f"schedd@{settings.uid_domain}",
    )
    if security.has_host_certificate:
        security.tls_server()
    return security


def _listen(settings: AgentSettings, log: Log) -> list[Listener]:
    listeners: list[Listener] = [_own_socket(settings)]
    if settings.keys and settings.run_dir:
        try:
            address = Address.tcp("", 0, sock=socket_name(settings.socket))
            listeners.append(SharedListener(settings.run_dir, address))
        except OSError as error:
            log.always("Starters of other hosts cannot reach this agent", error=error.strerror)
    return listeners


def _own_socket(settings: AgentSettings) -> UnixListener:
    """The unix socket: for root's starters and the user's tools; for everybody where the pool has but one account.

    It is bound while this process is still root, in a directory where the user makes nothing.
    """
    is_roots = os.geteuid() == 0
    raw = unix_socket.bind(settings.socket, mode=OWN_MODE if is_roots else ANYBODYS_MODE)
    if is_roots:
        os.chown(settings.socket, settings.uid, -1, follow_symlinks=False)
    raw.setblocking(False)
    return UnixListener(Address.unix(settings.socket), raw)


async def _serve(
    birth: Birth,
    settings: AgentSettings,
    security: Security,
    listeners: list[Listener],
    log: Log,
    nursery: trio.Nursery,
) -> None:
    schedd = Service("agent", needs.AGENT_TO_SCHEDD)
    starters = Service(socket_name(settings.socket), needs.AGENT)
    turns = Turns(nursery, small_bytes=settings.queued_bytes_min, report_s=settings.transfer_report_s)
    turns.add_to(schedd)
    transfers = Transfers(
        security,
        nursery,
        host=settings.host,
        identity=f"{settings.account or settings.uid}@{settings.uid_domain}",
        turns=turns,
        remaps_make_directories=settings.remaps_make_directories,
    )
    transfers.add_to(schedd, starters)
    RemoteFiles(transfers.job_of).add_to(starters)
    Signer(transfers.job_of).add_to(starters)
    EventLogs(settings.fsync, settings.lock, settings.lock_wait_s).add_to(schedd)
    CheckpointCleanup().add_to(schedd)
    await nursery.start(lambda task_status: rpc.serve(starters, listeners, security=security, task_status=task_status))
    peer = await rpc.open_pair(
        nursery, net.pair_channel(birth.channel), parent=False, security=security, service=schedd
    )
    turns.schedd = peer
    nursery.start_soon(turns.run)
    async with trio.open_nursery() as ends:
        ends.start_soon(_until_orphaned, birth.life, ends.cancel_scope)
        await peer.closed.wait()
        ends.cancel_scope.cancel()


async def _until_orphaned(life: int, scope: trio.CancelScope) -> None:
    await trio.lowlevel.wait_readable(life)
    scope.cancel()


class EventLogs:
    """Appends events; batches wait for one another, so that each log keeps the schedd's order."""

    def __init__(self, fsync: bool, lock: bool, lock_wait_s: float) -> None:
        self._fsync, self._lock, self._lock_wait_s = fsync, lock, lock_wait_s
        self._turn = trio.Lock()

    def add_to(self, service: Service) -> None:
        """Answer AppendEvents."""
        service.on(AppendEvents, self.append)

    async def append(self, _peer: Peer, request: AppendEvents) -> Done:
        """Append all of the request's events."""
        async with self._turn:
            deadline = trio.current_time() + self._lock_wait_s
            for log in _by_log(request.events):
                await self._append_to_one(log, deadline)
        return DONE

    async def _append_to_one(self, events: list[LogEvent], deadline: float) -> None:
        while True:
            try:
                if self._fsync:
                    await trio.to_thread.run_sync(self._append, events)
                else:
                    self._append(events)
                return
            except LogBusy:
                if trio.current_time() > deadline:
                    raise UserError(f"somebody keeps the event log {events[0].log} locked") from None
                await trio.sleep(LOCK_PAUSE_S)

    def _append(self, events: list[LogEvent]) -> None:
        append_events(events, fsync=self._fsync, lock=self._lock)


def _by_log(events: Iterable[LogEvent]) -> list[list[LogEvent]]:
    """Runs of events for one log, in order."""
    runs: list[list[LogEvent]] = []
    for event in events:
        if runs and runs[-1][0].log == event.log:
            runs[-1].append(event)
        else:
            runs.append([event])
    return runs
