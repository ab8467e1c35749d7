"""What one process has to prove itself with, and what it accepts: its settings, its tickets, and the files of its keys.

Files are read when they are first needed, so that a tool which speaks to a unix socket opens none, and kept until
`reload`. TLS contexts are made again when the host's certificate was renewed. A reconfiguration changes the object in
place, since servers and open connections hold it; these are then judged again.

    KEYS/ca.pem ca.key         the pool's CA, and its key on the central manager (`protocol.security.keys`)
    KEYS/host.pem host.key     the certificate of this host: SSL over TLS 1.3 (RFC 8446, `tls_context`)
    KEYS/pools.d/DOMAIN.pem    the CAs of pools that this one flocks with (`other_pools`)
    KEYS/passwords.d/NAME      signing keys of tokens (HTCondor's IDTOKENS: `idtoken`)
    KEYS/tokens.d              tokens, as in ~/.condor/tokens.d
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pool.base.errors import ConfigError, PeerError, UserError
from protocol.security import unix_peer
from protocol.security.identity import Link
from protocol.security.negotiate import ClientSide, ServerSide
from protocol.security.revoked import REVOKED_FILE, Revoked
from protocol.security.settings import CA_FILE, SecuritySettings, read_settings
from protocol.security.ticket import TicketBook
from protocol.wire.message import replace

if TYPE_CHECKING:
    from pool.config import Config
    from protocol.security.idtoken import IdToken
    from protocol.security.tls_context import ServerContext, TrustingContext

CA_KEY_FILE: Final = "ca.key"
HOST_CERTIFICATE_FILE: Final = "host.pem"
HOST_KEY_FILE: Final = "host.key"
SIGNING_KEY_DIRECTORY: Final = "passwords.d"


class _FilesRead:
    """What was read of files, and made of that."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read all again when it is next needed."""
        self.signing: dict[str, bytes] | None = None
        self.own_ca: str | None = None
        self.contexts: dict[str, tuple[tuple[int, int] | None, Any]] = {}
        """TLS contexts by side, each with the stamp of the certificate that it was made with."""


class Security:
    """One side of all connections of a process."""

    def __init__(
        self,
        settings: SecuritySettings | None = None,
        *,
        tickets: TicketBook | None = None,
        revoked: Revoked | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or SecuritySettings()
        self.tickets = tickets or TicketBook()
        self.revoked = revoked or Revoked("")
        self.now = now
        self._read = _FilesRead()
        self._watchers: set[Callable[[], None]] = set()

    @classmethod
    def from_config(cls, config: Config, role: str = "") -> Security:
        """What the configuration says, for this subsystem."""
        revoked = Revoked(os.path.join(config.str("RUN", default="") or "", REVOKED_FILE))
        return cls(read_settings(config, role), revoked=revoked)

    @property
    def trust_domain(self) -> str:
        """Whose tokens are taken here."""
        return self.settings.trust_domain

    @property
    def uid_domain(self) -> str:
        """What is added to the names of accounts."""
        return self.settings.uid_domain

    @property
    def owner_uid(self) -> int:
        """The account of the pool's owner."""
        return self.settings.owner_uid

    # ---- variants, which share tickets, revocations, watchers and what was read

    def with_ticket(self, secret: str) -> Security:
        """The same, presenting a ticket first."""
        return self._with(replace(self.settings, ticket=secret))

    def with_family(self, secret: str) -> Security:
        """The same, known by this secret to the other daemons of its master."""
        return self._with(replace(self.settings, family=secret))

    def with_token(self, token: str) -> Security:
        """The same, holding one more token."""
        return self._with(replace(self.settings, tokens=(*self.settings.tokens, token)))

    def _with(self, settings: SecuritySettings) -> Security:
        import copy  # not every tool presents more than its account's credentials

        twin = copy.copy(self)
        twin.settings = settings
        return twin

    # ---- what this side presents

    def held_tokens(self) -> list[str]:
        """The tokens of the token directories, and those given."""
        from protocol.security import idtoken

        return [*idtoken.held_tokens(self.settings.token_directories), *self.settings.tokens]

    def token_for(self, domain: str) -> str:
        """A token that this trust domain issued, that is still good and can be proven; "" when there is none."""
        from protocol.security import idtoken  # json and hashlib cost tools 8 ms, and the unix socket needs no token

        for text in self.held_tokens():
            try:
                token = idtoken.read_token(text)
            except PeerError:
                continue
            alive = token.expires_at is None or token.expires_at > self.now()
            if token.issuer == domain and alive and not idtoken.lacks_holder_key(text):
                return text
        return ""

    def own_token(self, domain: str) -> str:
        """A token made for this process itself, as whoever may read a signing key of this pool can; "" for others."""
        from protocol.security import idtoken

        key_id = idtoken.CA_KEY if self.is_ca else "POOL"
        if domain != self.settings.trust_domain or (key_id == "POOL" and key_id not in self.signing_keys()):
            return ""
        # Daemons go by `condor@`, people who may read the key by their own name.
        name = self.settings.own_name or f"{unix_peer.user_name(os.geteuid())}@{self.settings.uid_domain}"
        return self.create_token(name, key_id=key_id)

    def holds_old_tokens(self) -> bool:
        """Whether there are tokens of the CA from before they had a key of their holder."""
        from protocol.security import idtoken

        for text in self.held_tokens():
            try:
                if idtoken.lacks_holder_key(text):
                    return True
            except PeerError:
                continue
        return False

    def client(self, link: Link) -> ClientSide:
        """How this side proves itself over a channel."""
        return ClientSide(self, link)

    # ---- what this side accepts

    def server(self, link: Link) -> ServerSide:
        """What this side takes as proof over a channel."""
        return ServerSide(self, link)

    def signing_keys(self) -> Mapping[str, bytes]:
        """The pool's signing keys by name; none where this process may not read them."""
        if self.settings.signing is not None:
            return self.settings.signing
        if self._read.signing is None:
            directory = self.settings.signing_directory or (
                os.path.join(self.settings.keys, SIGNING_KEY_DIRECTORY) if self.settings.keys else ""
            )
            self._read.signing = _signing_keys(directory) if directory else {}
        return self._read.signing

    def create_token(
        self,
        identity: str,
        *,
        lifetime_s: float | None = None,
        scopes: Iterable[str] = (),
        duty: str = "",
        host: str = "",
        uses: int = 1,
        key_id: str = "POOL",
    ) -> str:
        """A token for `identity` (the UID domain is added to a bare name); ConfigError where no signing key is.

        The key `CA` makes tokens that every host of the pool can check; a signing key's are for hosts that have it.
        """
        from protocol.security import idtoken, signed_token

        key = self._ca_key() if key_id == idtoken.CA_KEY else self.signing_keys().get(key_id)
        if key is None:
            raise ConfigError(f"this host has no signing key {key_id!r}, so it can make no tokens")
        subject = identity if "@" in identity else f"{identity}@{self.settings.uid_domain}"
        if not idtoken.is_user(subject):
            raise UserError(f"{subject[:80]!r} is no identity that a token can state", expected="user@domain")
        return signed_token.create_token(
            key,
            subject=subject,
            issuer=self.settings.trust_domain,
            now=self.now(),
            id=os.urandom(16).hex(),
            lifetime_s=lifetime_s,
            scopes=scopes,
            key_id=key_id,
            duty=duty,
            host=host,
            uses=uses,
        )

    @property
    def is_ca(self) -> bool:
        """Whether this process can sign as the pool's CA."""
        return bool(self.settings.keys) and os.access(os.path.join(self.settings.keys, CA_KEY_FILE), os.R_OK)

    def _ca_key(self) -> bytes | None:
        try:
            with open(os.path.join(self.settings.keys, CA_KEY_FILE), "rb") as file:
                return file.read() if self.settings.keys else None
        except OSError:
            return None

    def own_ca(self) -> str:
        """The CA's certificate of the keys directory, "" where there is none: what a server judges tokens by."""
        if self._read.own_ca is None:
            try:
                with open(os.path.join(self.settings.keys, CA_FILE), encoding="ascii") as file:
                    self._read.own_ca = file.read() if self.settings.keys else ""
            except OSError:
                self._read.own_ca = ""
        return self._read.own_ca

    def checks_tokens(self) -> bool:
        """Whether this process can tell a good token from a bad one."""
        return bool(self.signing_keys()) or bool(self.own_ca())

    def check_token(self, token: IdToken) -> None:
        """What this pool asks of a token that was proven, now and later: its times, its age, and no revocation."""
        from protocol.security import idtoken

        idtoken.check_times(token, self.now())
        if self.settings.token_age_max_s is not None and self.now() - token.issued_at > self.settings.token_age_max_s:
            raise PeerError(f"the token is older than {self.settings.token_age_max_s:g} s")
        if self.settings.token_revoked is not None and self.settings.token_revoked(token.claims):
            raise PeerError("the token was revoked")

    def ca_pem(self) -> str:
        """The certificate of the pool's CA; PeerError where none is at hand."""
        for path in self.settings.ca_files:
            try:
                with open(path, encoding="ascii") as file:
                    return file.read()
            except OSError:
                continue
        raise PeerError(
            "no certificate of the pool's CA", expected=f"one of {', '.join(self.settings.ca_files) or 'ca_files'}"
        )

    # ---- TLS

    @property
    def has_host_certificate(self) -> bool:
        """Whether this process can show a host certificate."""
        return bool(self.settings.keys) and all(os.access(path, os.R_OK) for path in self.host_certificate_files)

    @property
    def shows_certificate(self) -> bool:
        """Whether this side shows its certificate as a client: not where it wants to be known otherwise."""
        return "SSL" in self.settings.offer and self.has_host_certificate

    @property
    def host_certificate_files(self) -> tuple[str, str]:
        """The files of the host's certificate and of its key."""
        return os.path.join(self.settings.keys, HOST_CERTIFICATE_FILE), os.path.join(self.settings.keys, HOST_KEY_FILE)

    def tls_client(self) -> TrustingContext:
        """The context with which this side connects; made once for each certificate of this host."""
        context: TrustingContext = self._context("client")
        return context

    def tls_server(self) -> ServerContext:
        """The context with which this side accepts; made once for each certificate of this host."""
        context: ServerContext = self._context("server")
        return context

    # ---- what changes while it is in use

    def reload(self) -> None:
        """Forget what was read from files (after new keys, or a reconfiguration)."""
        self._read.forget()

    def renew(self, fresh: Security) -> None:
        """Take what a reconfiguration may change into this object, which servers hold; open connections are judged."""
        self.settings = self.settings.renewed(fresh.settings)
        self.reload()
        self.judge_again()

    def on_judgement(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever open connections must be judged again; returns what ends that."""
        self._watchers.add(callback)
        return lambda: self._watchers.discard(callback)

    def judge_again(self) -> None:
        """Have everybody who is connected judged by what holds now.

        To be called when lists, revocations or keys have changed. Levels follow the lists, a stream whose reader has
        lost the level for it ends, and a peer whose proof is void (its token revoked or too old, its method no longer
        taken, its certificate revoked) is disconnected.
        """
        for callback in tuple(self._watchers):
            callback()

    def heed_revocations(self) -> None:
        """Have everybody judged when certificates were revoked meanwhile; to be called every few seconds."""
        if self.revoked.has_changed():
            self.judge_again()

    def _context(self, side: str) -> Any:
        from protocol.security import tls_context

        made = self._read.contexts.get(side)
        stamp = self.certificate_stamp()
        # A process that has given up its privileges cannot read the key any more: it goes on with what it has.
        if made is None or stamp not in (None, made[0]):
            context = tls_context.client_context(self) if side == "client" else tls_context.server_context(self)
            made = self._read.contexts[side] = (stamp, context)
        return made[1]

    def certificate_stamp(self) -> tuple[int, int] | None:
        """What changes when the host's certificate is renewed; None where this process cannot read it (any more)."""
        if not self.settings.keys or not os.access(self.host_certificate_files[1], os.R_OK):
            return None
        try:
            status = os.stat(self.host_certificate_files[0])
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns


def _signing_keys(directory: str) -> dict[str, bytes]:
    from protocol.security import idtoken

    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    keys = {}
    for name in names:
        # A file that is being written beside its place, or an editor's.
        if not name.startswith("."):
            try:
                keys[name] = idtoken.read_signing_key(os.path.join(directory, name))
            except OSError:
                continue
    return keys
