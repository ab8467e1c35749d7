"""The file agent: forked by its schedd's zygote, it becomes the user whose files it opens, and serves two sides.

The schedd speaks to it on the socket pair that it was born with: events to append, activations that may move files.
Starters come to its socket with the ticket of their activation, those of other hosts through the host's port, where it
is called `agent-` and the socket's name. When the schedd is gone, so is the agent: what it was writing is complete or
was never seen, and the next one goes on.
"""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Final

import trio

from daemons.agent.activations import OpenActivations
from daemons.agent.checkpoint_cleanup import CheckpointRemover
from daemons.agent.dataflow import Dataflow
from daemons.agent.event_log import EventLogs
from daemons.agent.inputs import Inputs
from daemons.agent.outputs import Outputs
from daemons.agent.remote_io import RemoteFiles
from daemons.agent.remote_tree import RemoteTrees
from daemons.agent.signing import Signer
from daemons.agent.streams import Streams
from daemons.agent.trusted_path import give_up_powers
from daemons.agent.turns import AgentTurns
from daemons.base.linux import hide_memory
from daemons.base.log import Log
from daemons.base.sync import first_of
from daemons.host.account import Account, become
from daemons.host.child_settings import AgentSettings
from daemons.process.zygote import Birth
from protocol.network import channel, unix_socket
from protocol.network.channel import Listener
from protocol.network.listening import UnixListener
from protocol.network.port_server import SharedListener
from protocol.rpc import endpoints
from protocol.rpc.service import Service
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.security.revoked import REVOKED_FILE, Revoked
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address

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
    log = settings.begin()
    # All that only root can do comes before `become`: keys are read, sockets bound in RUN.
    security = _security(settings)
    listeners = _listen(settings, log)  # while this process may write to RUN
    log.always("File agent starts", user=settings.account or settings.uid, pid=os.getpid(), socket=settings.socket)
    # As a login shell's: what the agent makes is its user's own, who may want to share it.
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
        SecuritySettings(
            trust_domain=settings.trust_domain,
            uid_domain=settings.uid_domain,
            owner_uid=settings.owner_uid,
            keys=settings.keys,
            ca_files=tuple(settings.ca_files),
            accept=(),
            pair_identity=f"schedd@{settings.uid_domain}",
        ),
        revoked=Revoked(os.path.join(settings.run_dir, REVOKED_FILE)),
    )
    if security.has_host_certificate:
        # Read into memory now: later the key is not the user's to read.
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
    turns = AgentTurns(nursery, small_bytes=settings.queued_bytes_min, report_s=settings.transfer_report_s)
    activations = OpenActivations(security, identity=f"{settings.account or settings.uid}@{settings.uid_domain}")
    remote_trees = RemoteTrees(activations.job_of)
    activations.when_over.append(remote_trees.close)
    makes_directories = settings.remaps_make_directories
    schedd = Service("agent", needs.AGENT_TO_SCHEDD)
    schedd.offer(
        EventLogs(settings.fsync, settings.lock, settings.lock_wait_s).answers(),
        activations.answers(),
        turns.answers(),
        Dataflow().answers(),
        CheckpointRemover().answers(),
    )
    starters = Service(socket_name(settings.socket), needs.AGENT)
    starters.offer(
        Inputs(activations, turns, nursery, host=settings.host).answers(),
        Outputs(activations, turns, nursery, host=settings.host, remaps_make_directories=makes_directories).answers(),
        Streams(activations.job_of).answers(),
        RemoteFiles(activations.job_of).answers(),
        remote_trees.answers(),
        Signer(activations.job_of).answers(),
    )
    await nursery.start(
        lambda task_status: endpoints.serve(starters, listeners, security=security, task_status=task_status)
    )
    peer = await endpoints.open_pair(
        nursery, channel.pair_channel(birth.channel), parent=False, security=security, service=schedd
    )
    turns.schedd = peer
    nursery.start_soon(turns.run)
    await first_of(peer.closed.wait, partial(trio.lowlevel.wait_readable, birth.life))
