"""A starter and a file agent as real processes, with the test as their startd and schedd."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from daemons.host.cgroup_trees import usable_trees
from daemons.host.child_settings import AgentSettings, StarterSettings, starter_payload, starter_slot
from daemons.process.children import Child, Zygote
from daemons.process.zygote import KINDS
from daemons.schedd.files.agent_process import own_directory
from pool.base.errors import PeerError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.config import Config
from pool.execute.cgroup import Trees, claim_group
from protocol.messages.agent import OpenTransfer
from protocol.messages.common import StopHow
from protocol.messages.schedd import AskTurn, EndTurn, TransferReport
from protocol.messages.shadow import GoAhead, JobEnded, JobExecuting, JobNotice, JobUpdate, StarterReady
from protocol.messages.starter import (
    ActivationOver,
    EngineTrouble,
    GoesOn,
    HomesServer,
    ImageTrouble,
    JobInfo,
    LeaveNow,
    MayGoOn,
    RunJob,
    ServeHomes,
    StarterSlot,
    StopJob,
)
from protocol.network.channel import Channel
from protocol.network.net import RealNetwork
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.security.authorize import Level
from protocol.security.credentials import Security
from protocol.security.identity import Link
from protocol.security.settings import SecuritySettings
from protocol.security.ticket import Bearer, digest_of
from protocol.wire.address import Address
from protocol.wire.message import DONE, Done
from tests.daemons.warm_zygotes import have_zygote
from tests.warm_process import SLOWER

ME = Bearer(uids=[os.getuid()])
SLOT = "slot1_1@test"
PATIENCE_S = 60.0 * SLOWER


def job_user() -> str:
    """As whom jobs run: an account without rights when the tests are root's."""
    return "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name


@dataclass
class Bench:
    """One claim on one machine."""

    root: Path
    zygote: Zygote
    nursery: trio.Nursery
    security: Security
    starter: Child
    startd: Peer | None = None
    agent: Peer | None = None
    agent_child: Child | None = None
    homes_server: Child | None = None
    """What serves the files of the last job that has them at home."""
    agent_address: str = ""
    """Where starters are told to find the agent, if not at its own socket."""
    heard: list[Any] = field(default_factory=list)
    callers: list[Peer] = field(default_factory=list)
    """Who said StarterReady, each time."""
    why_not: str = ""
    """What the startd says of a job that would go on after its checkpoint."""
    may_ask: trio.Event = field(default_factory=lambda: _set(trio.Event()))
    """It answers when this is set."""
    granted: ClassAd | None = None
    """What a starter that was ordered early is told of its job."""
    slot: StarterSlot = field(default_factory=lambda: StarterSlot(name=SLOT))
    """What the starter is told with each job."""
    _news: trio.Event = field(default_factory=trio.Event)
    _schedd: trio.CancelScope = field(default_factory=trio.CancelScope)
    _closed: trio.Event = field(default_factory=lambda: _set(trio.Event()))
    owner: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Cancelled, the life pipe ends as if the zygote's owner had died."""
    _given: bytes = b""
    _count: int = 0
    _jobs: dict[str, ClassAd] = field(default_factory=dict)

    # ---- what is at hand

    @property
    def iwd(self) -> Path:
        """The user's directory."""
        return self.root / "home"

    @property
    def execute(self) -> Path:
        """Where sandboxes are made."""
        return self.root / "execute"

    @property
    def sandbox(self) -> Path:
        """The starter's."""
        return self.execute / f"dir_{self.starter.pid}"

    @property
    def is_cleared(self) -> bool:
        """Whether the sandbox holds nothing; empty, it may be there for the starter's next job."""
        return not self.sandbox.exists() or not os.listdir(self.sandbox)

    def log(self) -> str:
        """What the starter wrote to its log."""
        path = self.root / "StarterLog"
        return path.read_text() if path.exists() else ""

    # ---- the schedd's side

    async def open_schedd(self) -> None:
        """Be a schedd that hears starters."""
        service = Service("schedd", needs.SCHEDD)
        service.offer(
            [
                answer(StarterReady, self._hear),
                answer(JobExecuting, self._hear),
                answer(JobUpdate, self._hear),
                answer(JobNotice, self._hear),
                answer(JobEnded, self._hear),
            ]
        )
        await self._closed.wait()
        self._schedd, self._closed = trio.CancelScope(), trio.Event()
        scope, closed = self._schedd, self._closed

        async def serve(*, task_status: Any) -> None:
            listener = await RealNetwork().listen(Address.unix(str(self.root / "schedd.sock")))
            with scope:
                await endpoints.serve(service, [listener], security=self.security, task_status=task_status)
            closed.set()

        await self.nursery.start(serve)

    def close_schedd(self) -> None:
        """Be gone, connections and all."""
        self._schedd.cancel()

    def _hear(self, peer: Peer, message: Any) -> Done | GoAhead:
        if isinstance(message, StarterReady):
            if peer.ticket not in (message.activation, "claim"):
                raise PeerError("no such activation")
            self.callers.append(peer)
        self.heard.append(message)
        news, self._news = self._news, trio.Event()
        news.set()
        if isinstance(message, StarterReady):
            return GoAhead(job_ad=self.granted if message.wants_job else None)
        return DONE

    async def until(self, kind: type[Any], activation: str = "", count: int = 1) -> Any:
        """Wait for a message."""
        with trio.fail_after(PATIENCE_S):
            while True:
                found = [
                    m for m in self.heard if isinstance(m, kind) and (not activation or m.activation == activation)
                ]
                if len(found) >= count:
                    return found[count - 1]
                await self._news.wait()

    # ---- the startd's side

    def job_ad(self, command: str = "", **attributes: Any) -> ClassAd:
        """A job that runs a shell command."""
        return ClassAd(
            {
                "Cmd": "/bin/sh",
                "Arguments": "-c '" + command.replace("'", "''") + "'",
                "TransferExecutable": False,
                "Iwd": str(self.iwd),
                "Owner": job_user(),
                "User": f"{attributes.get('Owner', job_user())}@test",
                "Out": "out",
                "Err": "err",
                "ShouldTransferFiles": "NO",
                "Environment": "PATH=/bin:/usr/bin",
                **attributes,
            }
        )

    async def run(
        self,
        job: ClassAd,
        *,
        memory: int = 256,
        lease_s: float = 2400.0,
        files: bool = False,
        spool: bool = False,
        claim: str = "",
        disk: int | None = None,
        early: bool = False,
    ) -> str:
        """Have the starter run this job, under a claim of its own or the one named; its activation."""
        assert self.startd is not None
        self._count += 1
        activation = f"activation-{self._count}"
        ticket = f"secret-{claim or self._count}"
        label = "claim" if claim else activation
        self.security.tickets.add(
            digest_of(ticket), identity="starter@test", levels=[Level.READ], bearer=ME, label=label
        )
        address = ""
        slot = ClassAd({"Name": SLOT, "Cpus": 1, "Memory": memory, "FileSystemDomain": "test"})
        if disk is not None:
            slot["Disk"] = disk
        if files:
            self._jobs[activation] = job
            address = await self.open_transfer(activation, spool=spool)
        await self.startd.call(
            RunJob(
                slot=self.slot,
                activation=activation,
                job_id=JobId(1, self._count),
                job_ad=job,
                slot_ad=slot,
                shadow_address=str(self.root / "schedd.sock"),
                ticket=ticket,
                agent_address=address,
                agent_ticket="files" if files else "",
                lease_s=lease_s,
                early=early,
            )
        )
        return activation

    async def open_transfer(self, activation: str, *, spool: bool = False) -> str:
        """Let the starter move this activation's files; where the agent is. `spool`: checkpoints are kept."""
        assert self.agent is not None
        directory = self.iwd / "spool"
        if spool and not directory.exists():
            user = pwd.getpwnam(job_user())
            directory.mkdir()
            os.chown(directory, user.pw_uid, user.pw_gid)
        await self.agent.call(
            OpenTransfer(
                activation=activation,
                digest=digest_of("files"),
                bearer=ME,
                job_id=JobId(1, 1),
                job_ad=self._jobs[activation],
                claim="claim",
                spool=str(directory) if spool else "",
            )
        )
        return self.agent_address or self.agent_socket

    async def stop(self, activation: str, how: StopHow = StopHow.GRACEFUL, **options: Any) -> None:
        """Tell the job to leave."""
        assert self.startd is not None
        await self.startd.call(StopJob(activation=activation, how=how, **options))

    async def ended(self, activation: str) -> JobEnded:
        """The report of the end, once the starter is free again."""
        end: JobEnded = await self.until(JobEnded, activation)
        await self.until(ActivationOver, activation)
        return end

    async def start_agent(self) -> None:
        """Have a file agent for this job user."""
        entry = pwd.getpwnam(job_user())
        self.agent_socket = str(own_directory(self.root / "run") / "agent.sock")
        settings = AgentSettings(
            log_path=str(self.root / "FileAgentLog"),
            host="access.test",
            uid_domain="test",
            owner_uid=os.getuid(),
            account=entry.pw_name,
            uid=entry.pw_uid,
            gid=entry.pw_gid,
            socket=self.agent_socket,
        )
        self.agent_child = await self.zygote.fork("agent", settings.pack())
        service = Service("schedd", needs.SCHEDD_TO_AGENT)
        for message in (AskTurn, EndTurn, TransferReport):
            service.offer([answer(message, self._hear)])
        self.agent = await self._pair(self.agent_child, service)

    async def start_starter(self, **settings: Any) -> None:
        """Fork the starter."""
        own = {name: settings.pop(name) for name in list(settings) if name in StarterSlot.__annotations__}
        self.slot = StarterSlot(**{"name": SLOT, "log_path": str(self.root / "StarterLog"), **own})
        given = StarterSettings(
            **{
                "log_path": self.slot.log_path,
                "execute": str(self.execute),
                "uid_domain": "test",
                "owner_uid": os.getuid(),
                "run_dir": str(self.root / "run"),
                "update_first_s": 0.2,
                "update_s": 0.2,
                **settings,
            }
        )
        service = Service("startd", needs.STARTD_TO_STARTER)
        service.offer(
            [
                answer(JobInfo, self._hear),
                answer(ActivationOver, self._hear),
                answer(EngineTrouble, self._hear),
                answer(ImageTrouble, self._hear),
                answer(ServeHomes, self._serve_homes),
                answer(MayGoOn, self._may_go_on),
            ]
        )
        self._given = given.pack()
        self.starter = await self.zygote.fork("starter", self._given)
        self.startd = await self._pair(self.starter, service)

    async def _may_go_on(self, peer: Peer, asked: MayGoOn) -> GoesOn:
        await self.may_ask.wait()
        return GoesOn(why_not=self.why_not)

    async def _serve_homes(self, peer: Peer, asked: ServeHomes) -> HomesServer:
        self.homes_server = await self.zygote.fork("homes", {"settings": self._given, "door": asked.door})
        await self.homes_server.channel.aclose()
        return HomesServer(pid=self.homes_server.pid)

    async def _pair(self, child: Child, service: Service) -> Peer:
        channel = Channel(child.channel, Link(kind="pair", label="child", verified=True))
        return await endpoints.open_pair(self.nursery, channel, parent=True, security=self.security, service=service)


def _set(event: trio.Event) -> trio.Event:
    event.set()
    return event


def settings_of(config: Config, slot: str) -> StarterSettings:
    """What the starter of this slot goes by."""
    settings = StarterSettings.unpack(starter_payload(config, trees=Trees(0)))
    return settings.for_slot(starter_slot(config, slot, Trees(0)))


def group_settings(name: str) -> dict[str, Any]:
    """Settings of a starter that uses control groups, where this account can make them; else none."""
    trees = usable_trees("minipool-test")
    if not trees.version:
        return {}
    return {
        "group": claim_group("minipool-test", name, f"slot-{os.getpid()}"),
        "tree_version": trees.version,
        "tree_mounts": [f"{controller}={mount}" for controller, mount in trees.mounts],
    }


def trees_of(settings: dict[str, Any]) -> Trees:
    """The trees of such settings."""
    return Trees(settings["tree_version"], tuple(tuple(entry.split("=", 1)) for entry in settings["tree_mounts"]))


@asynccontextmanager
async def bench(*, agent: bool = False, start: bool = True, **settings: Any) -> AsyncIterator[Bench]:
    """A starter that waits for jobs, and a schedd that listens; all gone afterwards."""
    root = Path(tempfile.mkdtemp(prefix="minipool-test-"))
    try:
        root.chmod(0o755)
        for name in ("home", "execute", "run"):
            (root / name).mkdir(mode=0o755)
        user = pwd.getpwnam(job_user())
        os.chown(root / "home", user.pw_uid, user.pw_gid)
        async with trio.open_nursery() as nursery:
            kinds = {kind: KINDS[kind] for kind in (("starter", "homes", "agent") if agent else ("starter",))}
            have_zygote(kinds)
            zygote = Zygote(kinds)
            owner = trio.CancelScope()

            async def own(*, task_status: Any) -> None:
                with owner:
                    await zygote.run(task_status=task_status)

            await nursery.start(own)
            security = Security(SecuritySettings(uid_domain="test", trust_domain="test"))
            made = Bench(root, zygote, nursery, security, starter=None)  # type: ignore[arg-type]
            made.owner = owner
            await made.open_schedd()
            if agent:
                await made.start_agent()
            if start:
                await made.start_starter(**settings)
            yield made
            if made.starter is not None and made.starter.alive and not owner.cancel_called:
                with trio.move_on_after(10):
                    if made.startd is not None and not made.startd.closed.is_set():
                        await made.startd.call(LeaveNow())
                    await made.starter.wait()
                made.starter.kill()
                await made.starter.wait()
            if made.agent_child is not None:
                made.agent_child.kill()
                await made.agent_child.wait()
            await zygote.kill_strays()
            nursery.cancel_scope.cancel()
    finally:
        shutil.rmtree(root, ignore_errors=True)
