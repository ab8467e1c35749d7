"""What a job may do over chirp: with its ad at once, with its ad later, with its owner's files at the access point.

Attributes and messages go to the schedd; what may wait goes with the next update. Files are opened by the file agent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

from daemons.base.log import Log
from daemons.host.child_settings import StarterSettings
from daemons.starter.report.line import SharedConnection
from pool.base.errors import ClassAdError, PeerError
from pool.classad import ClassAd, Expr, expr
from pool.execute import chirp
from pool.execute.chirp import ChirpError, Right
from protocol.messages.agent import RemoteIo
from protocol.messages.live import RunOnNode, ShellOutput
from protocol.messages.shadow import ReadJobAttribute, SetJobAttributes, WriteToLog
from protocol.messages.starter import RunJob
from protocol.rpc.endpoints import Peer

CALL_S: Final = 120.0
"""How long the file agent may take for one operation."""


@dataclass(frozen=True)
class ChirpRules:
    """The machine's ENABLE_CHIRP* and CHIRP_DELAYED_UPDATE_*."""

    enabled: bool = True
    files: bool = True
    updates: bool = True
    delayed: bool = True
    delayed_names: tuple[str, ...] = ("Chirp*",)
    delayed_max: int = 100


def chirp_rules(settings: StarterSettings) -> ChirpRules:
    """What the machine has of them."""
    enabled, files, updates, delayed = settings.chirp
    # Jobs call by the network, which those without one cannot.
    return ChirpRules(
        enabled and not settings.offline, files, updates, delayed, tuple(settings.chirp_names), settings.chirp_names_max
    )


@dataclass(frozen=True)
class Said:
    """An answer: a number, or a negative one that says no; and what bytes belong to it."""

    value: int
    data: bytes = b""


@dataclass
class ChirpJob:
    """One job's use of chirp."""

    request: RunJob
    job: ClassAd
    rules: ChirpRules
    agent: SharedConnection
    find_schedd: Callable[[], Awaitable[Peer | None]]
    log: Log
    rights: frozenset[Right] = frozenset()
    delayed: dict[str, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.rules
        if rules.enabled and self.request.shadow_address:  # else there is nobody to hear it
            self.rights = chirp.rights_of(self.job, files=rules.files, updates=rules.updates, delayed=rules.delayed)

    def delayed_ad(self) -> ClassAd:
        """What goes along with every update, so that it does not matter when one is lost."""
        ad = ClassAd()
        for name, value in self.delayed.items():
            ad[name] = value
        return ad

    def take_over(self, delayed: Mapping[str, str]) -> None:
        """What it has set while another process looked after it, as texts."""
        self.delayed.update((name, expr(text)) for name, text in delayed.items())

    # ---- the job's ad

    async def _schedd(self) -> Peer:
        peer = await self.find_schedd()
        if peer is None:
            raise PeerError("this job has no schedd")
        return peer

    async def get_attribute(self, name: str) -> bytes:
        """Its expression as the queue has it, or UNDEFINED."""
        peer = await self._schedd()
        answer = await peer.call(ReadJobAttribute(**self._ids, name=name))
        return answer.text.encode(errors="surrogateescape")

    async def set_attribute(self, name: str, text: str) -> int:
        """Durable when this returns."""
        peer = await self._schedd()
        await peer.call(SetJobAttributes(**self._ids, assignments={name: text}))
        return 0

    async def constrain(self, text: str) -> int:
        """What the job demands of its next machine besides."""
        before = (await self.get_attribute("Requirements")).decode(errors="surrogateescape")
        assignments = {"AgentRequirements": text}
        # Once: each call would else make the requirements longer.
        if "agentrequirements" not in before.lower():
            assignments["Requirements"] = f"({before}) && AgentRequirements"
        peer = await self._schedd()
        await peer.call(SetJobAttributes(**self._ids, assignments=assignments))
        return 0

    async def write_to_log(self, text: str) -> int:
        """An event 008."""
        peer = await self._schedd()
        await peer.call(WriteToLog(**self._ids, text=text[: chirp.INFO_TEXT_MAX]))
        return 0

    def set_delayed(self, name: str, text: str) -> int:
        """Set with the next update; the names are limited in kind and number."""
        if len(text) > chirp.DELAYED_TEXT_MAX:
            return ChirpError.UNKNOWN
        try:
            value = expr(text, old=True)
        except ClassAdError:
            return 0
        known = next((known for known in self.delayed if known.lower() == name.lower()), "")
        allowed = chirp.may_be_delayed(name, self.rules.delayed_names)
        if not allowed or (not known and len(self.delayed) >= self.rules.delayed_max):
            self.log.always("A delayed update is refused", job=self.request.job_id, attribute=name)
            return ChirpError.NOT_AUTHORIZED
        self.delayed[known or name] = value
        return 0

    def get_delayed(self, name: str) -> bytes | None:
        """What was set last, or what the job began with."""
        for known, value in self.delayed.items():
            if known.lower() == name.lower():
                return value.old_text.encode(errors="surrogateescape")
        return self.job.text(name).encode(errors="surrogateescape") if name in self.job else None

    # ---- its other nodes

    async def on_node(self, node: int, command: str) -> AbstractAsyncContextManager[AsyncIterator[ShellOutput]]:
        """Run a command there; what it prints."""
        peer = await self._schedd()
        return peer.stream(RunOnNode(**self._ids, node=node, command=command))

    # ---- files

    async def ask_agent(self, operation: str, *texts: str, numbers: tuple[int, ...] = (), data: bytes = b"") -> Said:
        """Have the file agent do something; the result, and the bytes that belong to it."""
        request = self.request
        peer = await self.agent.peer(request.agent_address, request.agent_ticket)
        answer = await peer.call(
            RemoteIo(
                activation=request.activation, operation=operation, texts=list(texts), numbers=list(numbers), data=data
            ),
            timeout=CALL_S,
        )
        return Said(answer.value if answer.value >= 0 else chirp.error_of(-answer.value), answer.data)

    @property
    def _ids(self) -> dict[str, Any]:
        return {"job_id": self.request.job_id, "activation": self.request.activation}
