"""A small service to talk to, and securities that trust it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from pool.base.errors import UserError
from pool.base.ids import JobId
from protocol.network.channel import Listener
from protocol.rpc.endpoints import Peer, serve, single
from protocol.rpc.service import SendItem, Service, answer
from protocol.security.authorize import Level, access_lists
from protocol.security.credentials import Security
from protocol.security.needs import Need
from protocol.security.settings import SecuritySettings
from protocol.wire.message import DONE, Done, Message, Record, Request, StreamRequest

DOMAIN = "pool.test"
LISTS = access_lists({"READ": ["*"], "WRITE": [f"*@{DOMAIN}"]}, {})
SIGNING_KEY = b"k" * 32
NOBODY = 65534 if os.geteuid() != 65534 else 65533  # an account that owns nothing here


class Echoed(Record):
    text: str
    job: JobId | None = None


class Echo(Request[Echoed], tag="test.echo"):
    text: str
    job: JobId | None = None
    times: int = 1


class Refuse(Request[Done], tag="test.refuse"):
    how: str = "user"


class Wait(Request[Done], tag="test.wait"):
    """Answered when the test opens the gate."""


class Administrate(Request[Done], tag="test.administrate"):
    """Needs ADMINISTRATOR."""


class Count(StreamRequest[int], tag="test.count"):
    until: int | None = None
    fail_at: int = -1


class Note(Message, tag="test.note"):
    text: str


class AskBack(Request[Echoed], tag="test.ask_back"):
    """The server asks the client before it answers."""


NEEDS = {
    **{message.tag: Need() for message in (Echo, Refuse, Wait, Count, Note, AskBack)},
    Administrate.tag: Need(Level.ADMINISTRATOR),
}


class EchoService(Service):
    """Answers the messages above and remembers what happened."""

    def __init__(self, name: str = "echo") -> None:
        super().__init__(name, NEEDS)
        self.gate = trio.Event()
        self.waiting = 0
        self.finished = 0
        self.stopped = 0
        self.sent = 0
        self.notes: list[str] = []
        self.peers: list[Peer] = []
        self.offer(
            [
                answer(Echo, self.echo),
                answer(Refuse, self.refuse),
                answer(Wait, self.wait),
                answer(Administrate, lambda peer, request: DONE),
                answer(Count, self.count),
                answer(Note, self.note),
                answer(AskBack, self.ask_back),
            ]
        )
        self.on_peer(self.peers.append)

    def echo(self, peer: Peer, request: Echo) -> Echoed:
        return Echoed(text=request.text * request.times, job=request.job)

    async def refuse(self, peer: Peer, request: Refuse) -> Done:
        await trio.lowlevel.checkpoint()
        if request.how == "user":
            raise UserError("no such thing", expected="another")
        raise ZeroDivisionError("a bug")

    async def wait(self, peer: Peer, request: Wait) -> Done:
        self.waiting += 1
        await self.gate.wait()
        self.finished += 1
        return DONE

    async def count(self, peer: Peer, request: Count, send: SendItem[int]) -> None:
        try:
            while request.until is None or self.sent < request.until:
                if self.sent == request.fail_at:
                    raise UserError("cannot count any further")
                self.sent += 1
                await send(self.sent - 1)
        finally:
            self.stopped += 1

    async def note(self, peer: Peer, message: Note) -> None:
        await trio.lowlevel.checkpoint()
        self.notes.append(message.text)

    async def ask_back(self, peer: Peer, request: AskBack) -> Echoed:
        return await peer.call(Echo(text="asked back"))


def a_security(**changes: object) -> Security:
    """One side of the test pool: this account owns it, and it can make and check tokens."""
    values: dict[str, object] = {
        "trust_domain": DOMAIN,
        "uid_domain": DOMAIN,
        "lists": LISTS,
        "signing": {"POOL": SIGNING_KEY},
        "owner_uid": os.geteuid(),
    }
    own = {name: changes.pop(name) for name in ("now", "tickets", "revoked") if name in changes}
    return Security(SecuritySettings(**{**values, **changes}), **own)  # type: ignore[arg-type]


def a_tool(directory: str, token: str | None = None, **changes: object) -> Security:
    """Somebody without keys; with a token in a file when one is given."""
    directories: tuple[str, ...] = ()
    if token is not None:
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "token"), "w", encoding="ascii") as file:
            file.write(token + "\n")
        directories = (directory,)
    return a_security(signing={}, token_directories=directories, **changes)


@asynccontextmanager
async def serving(
    service: Service, listeners: Sequence[Listener], security: Security, **options: object
) -> AsyncIterator[None]:
    """The service answers for the time of the block."""
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, service, listeners, security=security, **options))  # type: ignore[arg-type]
            yield
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise single(group) from None


async def until(condition: object, *, timeout: float = 60.0) -> None:
    """Wait until `condition()` holds."""
    assert callable(condition)
    with trio.fail_after(timeout):
        while not condition():
            await trio.sleep(0.002)
