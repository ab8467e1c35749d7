"""The two ways into a connection, without a socket: hello, proof, and what each side says of the other.

    HELLO  client: hello (versions, whom it wants)   server: welcome (version, its name, the methods it takes, a nonce)
    AUTH   client: auth (one method, its proof)      server: authed (who the client is here), or refused

Who proves what, and how, is the matter of `ClientAuth` and `ServerAuth` (`protocol.security.negotiate` has both). The
methods are HTCondor's ("Authentication" of its manual page admin-manual/security); the exchange is not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, Protocol

from pool.base.errors import PeerError
from protocol.rpc.connection import Connection, ConnectionLimits, ConnectionState
from protocol.rpc.envelope import EnvelopeKind, kind_name
from protocol.rpc.events import Event, Opened
from protocol.security.identity import Greeting, Who

VERSIONS: Final = (1,)
NONCE_BYTES: Final = 32
_NOTHING_SAID: Final = Greeting()


class ClientAuth(Protocol):
    """How a client proves itself over one channel."""

    def choose(self, offered: Sequence[str], greeting: Greeting) -> tuple[str, dict[str, Any]]:
        """A method that both sides know, and its proof; PeerError when there is none."""

    def confirm(self, answer: object) -> None:
        """What the server answered to the proof; PeerError when it cannot have checked it."""

    def server(self) -> Who:
        """Who the server is, by what the channel shows."""


class ServerAuth(Protocol):
    """What a server takes as proof over one channel."""

    def methods(self) -> list[str]:
        """The methods that are taken here, the preferred one first."""

    def verify(self, method: str, proof: dict[str, Any], greeting: Greeting) -> tuple[Who, bytes]:
        """Who the client is, and what to answer its proof; PeerError when that does not hold."""

    def judge(self) -> Who:
        """Who the client is by what it has proven, as things are now; PeerError when that holds no longer."""


class HandshakeRefused(PeerError):
    """The other side ended the handshake, and said why."""

    def __init__(self, message: str, *, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class ClientConnection(Connection):
    """The side that connected: says hello and proves itself.

    `watches`: this side answers pings whenever they come, so its silence means that it is gone. A blocking client,
    which reads only while it waits for an answer, does not.
    """

    __slots__ = ("_auth", "_wanted", "peer_name", "peer_software")

    def __init__(
        self,
        auth: ClientAuth,
        *,
        wanted: str = "",
        software: str = "",
        watches: bool = True,
        limits: ConnectionLimits | None = None,
    ) -> None:
        super().__init__(limits=limits)
        self._auth = auth
        self._wanted = wanted
        self.peer_name = ""
        self.peer_software = ""
        hello = {"versions": list(VERSIONS), "wanted": wanted, "software": software, "watches": watches}
        self._send(EnvelopeKind.HELLO, hello)

    def judge(self) -> Who:
        """Who the server is, as things are now."""
        return self._auth.server()

    def _handshake(self, kind: int, parts: list[Any]) -> Event | None:
        if kind == EnvelopeKind.REFUSED:
            self.state = ConnectionState.CLOSED
            raise HandshakeRefused(parts[1], code=parts[0])
        if kind == EnvelopeKind.WELCOME and self.state is ConnectionState.HELLO:
            self._welcomed(parts[0])
            return None
        if kind == EnvelopeKind.AUTHED and self.state is ConnectionState.AUTH:
            self._auth.confirm(parts[0].get("proof"))
            self._opened()
            return Opened(self._auth.server(), _text(parts[0], "identity"))
        raise PeerError(f"{kind_name(kind)} in state {self.state.value}")

    def _welcomed(self, said: dict[str, Any]) -> None:
        if said.get("version") not in VERSIONS:
            raise PeerError(f"the server speaks version {said.get('version')!r}", expected=f"one of {VERSIONS}")
        self.peer_name = _text(said, "name")
        self.peer_software = _text(said, "software")
        if self._wanted and self.peer_name and self.peer_name != self._wanted:
            raise PeerError(f"connected to {self.peer_name!r}", expected=f"{self._wanted!r}")
        # What a stranger says is looked at field by field: no record is decoded before it is known whose it is.
        methods = said.get("methods")
        if type(methods) is not list or any(type(method) is not str for method in methods):
            raise PeerError("a welcome without a list of methods")
        nonce = said.get("nonce", b"")
        if type(nonce) is not bytes or len(nonce) not in (0, NONCE_BYTES):
            raise PeerError("a welcome with a nonce that is none", expected=f"{NONCE_BYTES} bytes")
        greeting = Greeting(wanted=self._wanted, name=self.peer_name, nonce=nonce)
        method, proof = self._auth.choose(methods, greeting)
        self._send(EnvelopeKind.AUTH, method, proof)
        self.state = ConnectionState.AUTH


class ServerConnection(Connection):
    """The side that was connected to: says which methods it takes, and who the client is."""

    __slots__ = ("_auth", "_greeting", "_name", "_port_name", "_software", "peer_software")

    def __init__(
        self,
        auth: ServerAuth,
        *,
        name: str = "",
        port_name: str = "",
        software: str = "",
        limits: ConnectionLimits | None = None,
    ) -> None:
        super().__init__(limits=limits)
        self._auth = auth
        self._name = name
        self._port_name = port_name
        self._software = software
        self._greeting = _NOTHING_SAID
        self.peer_software = ""

    def judge(self) -> Who:
        """Who the client is, as things are now."""
        return self._auth.judge()

    def _handshake(self, kind: int, parts: list[Any]) -> Event | None:
        try:
            if kind == EnvelopeKind.HELLO and self.state is ConnectionState.HELLO:
                self._hello(parts[0])
                return None
            if kind == EnvelopeKind.AUTH and self.state is ConnectionState.AUTH:
                return self._authenticate(parts[0], parts[1])
            raise PeerError(f"{kind_name(kind)} in state {self.state.value}")
        except PeerError as error:
            # Who is refused learns why, in a sentence whose length is not his to choose.
            self._send(EnvelopeKind.REFUSED, getattr(error, "code", "refused"), str(error)[:500])
            raise

    def _hello(self, said: dict[str, Any]) -> None:
        theirs = said.get("versions")
        common = [v for v in VERSIONS if type(theirs) is list and v in theirs]
        if not common:
            raise PeerError(f"the client speaks versions {str(theirs)[:40]}", expected=f"one of {list(VERSIONS)}")
        wanted = _text(said, "wanted")
        # A preface in clear chose this daemon; what the client says inside the protected channel must agree with it.
        for asked in (self._port_name, self._name):
            if wanted and asked and wanted != asked:
                raise PeerError(f"a connection for {wanted[:60]!r} reached {asked!r}")
        if self._port_name and not wanted:
            raise PeerError("a connection through the shared port that names no daemon")
        self.peer_watches = said.get("watches", True) is True
        self.peer_software = _text(said, "software")
        self._greeting = Greeting(wanted=wanted, name=self._name, nonce=os.urandom(NONCE_BYTES))
        welcome = {
            "version": max(common),
            "name": self._name,
            "software": self._software,
            "methods": self._auth.methods(),
            "nonce": self._greeting.nonce,
        }
        self._send(EnvelopeKind.WELCOME, welcome)
        self.state = ConnectionState.AUTH

    def _authenticate(self, method: str, proof: dict[str, Any]) -> Event:
        if method not in self._auth.methods():
            raise PeerError(f"method {method[:40]!r} is not taken here", expected=", ".join(self._auth.methods()))
        who, answer = self._auth.verify(method, proof, self._greeting)
        self._greeting = _NOTHING_SAID  # it has done its duty, and the connection may stay for days
        self._send(EnvelopeKind.AUTHED, {"identity": who.identity, **({"proof": answer} if answer else {})})
        self._opened()
        return Opened(who, "")


def _text(said: dict[str, Any], key: str) -> str:
    value = said.get(key, "")
    if type(value) is not str or len(value) > 500:
        raise PeerError(f"{key} is not a short text")
    return value
