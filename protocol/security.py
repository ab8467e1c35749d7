"""What one process has to prove itself with, what it accepts, and whom it lets do what.

`Security.from_config` reads it from the configuration and the keys directory. Files are read when first needed, so that
a tool which speaks to a unix socket opens none.
"""

from __future__ import annotations

import os
import time

from pool.errors import ConfigError, PeerError, UserError
from pool.hints import TYPE_CHECKING, Any, Callable, Final, Iterable, Mapping
from protocol.auth import unix_peer
from protocol.auth.negotiate import ClientSide, ServerSide
from protocol.auth.ticket import TicketBook
from protocol.authorize import ALL_LEVELS, FALLS_BACK, AccessLists, Level, access_lists
from protocol.identity import Link, Who
from protocol.message import Record, field, replace
from protocol.revoked import REVOKED_FILE, Revoked

if TYPE_CHECKING:
    import ssl

    from pool.config import Config
    from protocol.auth.idtoken import Token
    from protocol.tls_context import ServerContext

METHODS: Final = ("FS", "SSL", "TOKEN", "CLAIMTOBE", "ANONYMOUS")
"""What a SEC_*_AUTHENTICATION_METHODS list can name; tickets, birth and the family are no matter of configuration."""
DEFAULT_METHODS: Final = ("FS", "SSL", "TOKEN")
HTCONDORS_METHODS: Final = frozenset(
    ("KERBEROS", "PASSWORD", "MUNGE", "SCITOKENS", "SCITOKEN", "NTSSPI", "FS_REMOTE", "GSI")
)
_SPELLINGS: Final = {"TOKENS": "TOKEN", "IDTOKEN": "TOKEN", "IDTOKENS": "TOKEN"}

CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca.key"
HOST_CERTIFICATE_FILE: Final = "host.pem"
HOST_KEY_FILE: Final = "host.key"
SIGNING_KEY_DIRECTORY: Final = "passwords.d"
TOKEN_DIRECTORY: Final = "tokens.d"


# What a reconfiguration may change.
_RENEWED: Final = (
    "trust_domain",
    "uid_domain",
    "ca_files",
    "token_directories",
    "signing_directory",
    "token_age_max_s",
    "token_revoked",
    "accept",
    "methods_of",
    "offer",
    "lists",
)


class Security(Record):
    """One side's credentials, tickets and access lists. `keys` is the directory that `protocol.keys` made, or ""."""

    trust_domain: str = "localdomain"
    uid_domain: str = "localdomain"
    owner_uid: int = field(default_factory=os.geteuid)
    keys: str = ""
    signing_directory: str = ""  # one file per key; passwords.d of the keys directory when empty
    ca_files: tuple[str, ...] = ()
    revoked: Revoked = field(default_factory=lambda: Revoked(""))
    token_directories: tuple[str, ...] = ()
    accept: tuple[str, ...] = DEFAULT_METHODS
    methods_of: Mapping[Level, tuple[str, ...]] = {}  # those by which a level can be had
    offer: tuple[str, ...] = DEFAULT_METHODS
    lists: AccessLists = field(default_factory=AccessLists)
    tickets: TicketBook = field(default_factory=TicketBook)
    ticket: str = ""
    tokens: tuple[str, ...] = ()  # held besides those of the directories
    family: str = ""  # the secret that the daemons of one master share
    own_name: str = ""  # whose token this process makes where it may read a signing key; its account's when empty
    pair_identity: str = ""
    pair_levels: frozenset[Level] = ALL_LEVELS
    now: Callable[[], float] = time.time
    signing: Mapping[str, bytes] | None = None  # given keys, instead of those of the directory
    token_age_max_s: float | None = None
    token_revoked: Callable[[Mapping[str, Any]], bool] | None = None
    _cache: dict[str, object] = field(default_factory=dict)
    _watchers: set[Callable[[], None]] = field(default_factory=set)

    @classmethod
    def from_config(cls, config: Config, role: str = "") -> Security:
        """What the configuration says. `role` is the subsystem: its own SEC_<role>_* and ALLOW_<level>_<role> win.

        The pool's owner is whoever owns LOCAL_DIR (this account, where there is none yet).
        """
        uid_domain = config.str("UID_DOMAIN", default="localdomain") or "localdomain"
        keys = config.str("KEYS", default="") or ""
        owner = _owner_of(config.str("LOCAL_DIR", default="") or "")
        # A tool answers nobody: its lists would be read for nothing, at each start.
        is_tool = role == "TOOL"
        lists = AccessLists() if is_tool else _read_lists(config, role, uid_domain, owner)
        methods = _methods(config, role)
        methods_of = {} if is_tool else _methods_of(config, role, methods)
        trust_domain = config.str("TRUST_DOMAIN", default=uid_domain) or uid_domain
        return cls(
            trust_domain=trust_domain,
            uid_domain=uid_domain,
            owner_uid=owner,
            keys=keys,
            ca_files=_ca_files(config, keys),
            revoked=Revoked(os.path.join(config.str("RUN", default="") or "", REVOKED_FILE)),
            token_directories=_token_directories(config, keys),
            signing_directory=config.str("SEC_PASSWORD_DIRECTORY", default=""),
            token_age_max_s=config.seconds("SEC_TOKEN_MAX_AGE", default=0.0) or None,
            token_revoked=_revocation(config),
            accept=tuple(dict.fromkeys([*methods, *(word for own in methods_of.values() for word in own)])),
            methods_of=methods_of,
            offer=_offered(config, role),
            lists=lists,
            own_name="" if role in ("", "TOOL") else f"condor@{trust_domain}",
        )

    # ---- what this side presents

    def with_ticket(self, secret: str) -> Security:
        """The same, presenting a ticket first."""
        return replace(self, ticket=secret)

    def methods_to_offer(self) -> tuple[str, ...]:
        """What a client tries, in order: a ticket was given for a purpose, so it comes first."""
        return (*(("TICKET",) if self.ticket else ()), "PAIR", *self.offer, *(("FAMILY",) if self.family else ()))

    def held_tokens(self) -> list[str]:
        """The tokens of the token directories, and those given."""
        from protocol.auth import idtoken

        return [*idtoken.held_tokens(self.token_directories), *self.tokens]

    def token_for(self, domain: str) -> str:
        """A token that this trust domain issued, that is still good and can be proven; "" when there is none."""
        from protocol.auth import idtoken  # json and hashlib cost tools 8 ms, and the unix socket needs no token

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
        from protocol.auth import idtoken

        key_id = idtoken.CA_KEY if self.is_ca else "POOL"
        if domain != self.trust_domain or (key_id == "POOL" and key_id not in self.signing_keys()):
            return ""
        name = self.own_name or f"{unix_peer.user_name(os.geteuid())}@{self.uid_domain}"
        return self.create_token(name, key_id=key_id)

    def holds_old_tokens(self) -> bool:
        """Whether there are tokens of the CA from before they had a key of their holder."""
        from protocol.auth import idtoken

        for text in self.held_tokens():
            try:
                if idtoken.lacks_holder_key(text):
                    return True
            except PeerError:
                continue
        return False

    def with_family(self, secret: str) -> Security:
        """The same, known by this secret to the other daemons of its master."""
        return replace(self, family=secret)

    def with_token(self, token: str) -> Security:
        """The same, holding one more token."""
        return replace(self, tokens=(*self.tokens, token))

    def client(self, link: Link) -> ClientSide:
        """How this side proves itself over a channel."""
        return ClientSide(self, link)

    # ---- what this side accepts

    def methods_to_accept(self) -> tuple[str, ...]:
        """What a server takes, in order."""
        return ("TICKET", "PAIR", *self.accept, "FAMILY")

    def limit(self, who: Who) -> Who:
        """Without the levels that cannot be had by the method that was used."""
        if not self.methods_of or who.method not in METHODS:
            return who
        return replace(who, levels=frozenset(level for level in who.levels if who.method in self.methods_of[level]))

    def server(self, link: Link) -> ServerSide:
        """What this side takes as proof over a channel."""
        return ServerSide(self, link)

    def signing_keys(self) -> Mapping[str, bytes]:
        """The pool's signing keys by name; none where this process may not read them."""
        if self.signing is not None:
            return self.signing
        found = self._cache.get("signing")
        if not isinstance(found, dict):
            directory = self.signing_directory or (os.path.join(self.keys, SIGNING_KEY_DIRECTORY) if self.keys else "")
            found = _signing_keys(directory) if directory else {}
            self._cache["signing"] = found
        return found

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
        from protocol.auth import idtoken

        key = self._ca_key() if key_id == idtoken.CA_KEY else self.signing_keys().get(key_id)
        if key is None:
            raise ConfigError(f"this host has no signing key {key_id!r}, so it can make no tokens")
        subject = identity if "@" in identity else f"{identity}@{self.uid_domain}"
        if not idtoken.is_user(subject):
            raise UserError(f"{subject[:80]!r} is no identity that a token can state", expected="user@domain")
        return idtoken.create_token(
            key,
            subject=subject,
            issuer=self.trust_domain,
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
        return bool(self.keys) and os.access(os.path.join(self.keys, CA_KEY_FILE), os.R_OK)

    def _ca_key(self) -> bytes | None:
        try:
            with open(os.path.join(self.keys, CA_KEY_FILE), "rb") as file:
                return file.read() if self.keys else None
        except OSError:
            return None

    def own_ca(self) -> str:
        """The CA's certificate of the keys directory, "" where there is none: what a server judges tokens by."""
        found = self._cache.get("own_ca")
        if not isinstance(found, str):
            try:
                with open(os.path.join(self.keys, CA_FILE), encoding="ascii") as file:
                    found = file.read() if self.keys else ""
            except OSError:
                found = ""
            self._cache["own_ca"] = found
        return found

    def checks_tokens(self) -> bool:
        """Whether this process can tell a good token from a bad one."""
        return bool(self.signing_keys()) or bool(self.own_ca())

    def check_token(self, token: Token) -> None:
        """What this pool asks of a token that was proven, now and later: its times, its age, and no revocation."""
        from protocol.auth import idtoken

        idtoken.check_times(token, self.now())
        if self.token_age_max_s is not None and self.now() - token.issued_at > self.token_age_max_s:
            raise PeerError(f"the token is older than {self.token_age_max_s:g} s")
        if self.token_revoked is not None and self.token_revoked(token.claims):
            raise PeerError("the token was revoked")

    def ca_pem(self) -> str:
        """The certificate of the pool's CA; PeerError where none is at hand."""
        for path in self.ca_files:
            try:
                with open(path, encoding="ascii") as file:
                    return file.read()
            except OSError:
                continue
        raise PeerError("no certificate of the pool's CA", expected=f"one of {', '.join(self.ca_files) or 'ca_files'}")

    # ---- TLS

    @property
    def has_host_certificate(self) -> bool:
        """Whether this process can show a host certificate."""
        return bool(self.keys) and all(os.access(path, os.R_OK) for path in self.host_certificate_files)

    @property
    def shows_certificate(self) -> bool:
        """Whether this side shows its certificate as a client: not where it wants to be known otherwise."""
        return "SSL" in self.offer and self.has_host_certificate

    @property
    def host_certificate_files(self) -> tuple[str, str]:
        """The files of the host's certificate and of its key."""
        return os.path.join(self.keys, HOST_CERTIFICATE_FILE), os.path.join(self.keys, HOST_KEY_FILE)

    def tls_client(self) -> ssl.SSLContext:
        """The context with which this side connects; made once for each certificate of this host."""
        context: ssl.SSLContext = self._context("client")
        return context

    def tls_server(self) -> ServerContext:
        """The context with which this side accepts; made once for each certificate of this host."""
        context: ServerContext = self._context("server")
        return context

    def reload(self) -> None:
        """Forget what was read from files (after new keys, or a reconfiguration)."""
        self._cache.clear()

    def renew(self, fresh: Security) -> None:
        """Take what a reconfiguration may change into this object, which servers hold; open connections are judged."""
        for name in _RENEWED:
            object.__setattr__(self, name, getattr(fresh, name))
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
        from protocol import tls_context

        made: Any = self._cache.get(side)
        stamp = self.certificate_stamp()
        if made is None or stamp not in (None, made[0]):
            context = tls_context.client_context(self) if side == "client" else tls_context.server_context(self)
            made = self._cache[side] = (stamp, context)
        return made[1]

    def certificate_stamp(self) -> tuple[int, int] | None:
        """What changes when the host's certificate is renewed; None where this process cannot read it (any more)."""
        if not self.keys or not os.access(self.host_certificate_files[1], os.R_OK):
            return None
        try:
            status = os.stat(self.host_certificate_files[0])
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns


def _signing_keys(directory: str) -> dict[str, bytes]:
    from protocol.auth import idtoken

    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    keys = {}
    for name in names:
        if not name.startswith("."):
            try:
                keys[name] = idtoken.read_signing_key(os.path.join(directory, name))
            except OSError:
                continue
    return keys


def _owner_of(path: str) -> int:
    try:
        return os.stat(path).st_uid if path else os.geteuid()
    except OSError:
        return os.geteuid()


def _ca_files(config: Config, keys: str) -> tuple[str, ...]:
    """Where the CA's certificate may lie: where the configuration says, with the keys, beside the sockets, at home."""
    found = [config.str("AUTH_SSL_CLIENT_CAFILE", default="") or ""]
    found += [os.path.join(keys, CA_FILE)] if keys else []
    run = config.str("RUN", default="") or ""
    found += [os.path.join(run, CA_FILE)] if run else []
    found.append(os.path.expanduser(f"~/.condor/{CA_FILE}"))
    return tuple(dict.fromkeys(path for path in found if path))


def _token_directories(config: Config, keys: str) -> tuple[str, ...]:
    own = config.str("SEC_TOKEN_DIRECTORY", default="")
    at_home = [own] if own else [f"~/.condor/{TOKEN_DIRECTORY}", f"~/.minipool/{TOKEN_DIRECTORY}"]
    system = config.str("SEC_TOKEN_SYSTEM_DIRECTORY", default="") or (
        os.path.join(keys, TOKEN_DIRECTORY) if keys else ""
    )
    return tuple(path for path in (*map(os.path.expanduser, at_home), system) if path)


def _revocation(config: Config) -> Callable[[Mapping[str, Any]], bool] | None:
    """SEC_TOKEN_REVOCATION_EXPR, as a question about a token's claims."""
    if not config.str("SEC_TOKEN_REVOCATION_EXPR", default=""):
        return None
    expression = config.expr("SEC_TOKEN_REVOCATION_EXPR")

    def revoked(claims: Mapping[str, Any]) -> bool:
        from pool.classad import ClassAd

        ad = ClassAd({name: value for name, value in claims.items() if isinstance(value, str | int | float)})
        return expression is not None and expression.eval(ad) is True

    return revoked


def _offered(config: Config, role: str) -> tuple[str, ...]:
    """What a client tries, in order: a daemon is its host, a person is their token (and, if root, then the host).

    SEC_CLIENT_AUTHENTICATION_METHODS says otherwise.
    """
    chosen = _named_methods(config, "CLIENT", role)
    if chosen:
        return chosen
    last = "SSL" if role in ("", "TOOL") else "TOKEN"
    return tuple(sorted(_methods(config, role), key=lambda method: method == last))


def _methods(config: Config, role: str) -> tuple[str, ...]:
    return _named_methods(config, "DEFAULT", role) or DEFAULT_METHODS


def _methods_of(config: Config, role: str, default: tuple[str, ...]) -> dict[Level, tuple[str, ...]]:
    """By which methods a level can be had, where a list of its own says so; ADVERTISE_* levels follow DAEMON's."""
    named = {level: _named_methods(config, level.value, role) for level in Level}
    own = {level: found for level in Level if (found := named[level] or named[FALLS_BACK.get(level, level)])}
    return {level: own.get(level, default) for level in Level} if own else {}


def _named_methods(config: Config, level: str, role: str) -> tuple[str, ...]:
    """The methods of SEC_<level>_AUTHENTICATION_METHODS[_<role>]; ConfigError for one that does not exist here."""
    for key in (f"SEC_{level}_AUTHENTICATION_METHODS_{role}", f"SEC_{level}_AUTHENTICATION_METHODS"):
        words = config.list(key, default=[])
        if not words:
            continue
        named = [_SPELLINGS.get(word.upper(), word.upper()) for word in words]
        if wrong := [word for word, method in zip(words, named, strict=True) if method not in METHODS]:
            theirs = all(word.upper() in HTCONDORS_METHODS for word in wrong)
            what = "methods of HTCondor that this pool does not have" if theirs else "no methods of authentication"
            raise config.error(key, f"{key} names {', '.join(wrong)}: {what} (expected {', '.join(METHODS)}, IDTOKENS)")
        return tuple(dict.fromkeys(named))
    return ()


def _read_lists(config: Config, role: str, uid_domain: str, owner: int) -> AccessLists:
    """ALLOW_* and DENY_*; without any, who is authenticated may read, the pool's users may write, its owner all."""
    administrators = [f"root@{uid_domain}", f"{unix_peer.user_name(owner)}@{uid_domain}"]
    defaults = {
        Level.READ: ["*"],
        Level.WRITE: [f"*@{uid_domain}"],
        Level.ADMINISTRATOR: administrators,
        Level.CONFIG: administrators,
        Level.OWNER: administrators,
    }
    allow: dict[str, list[str]] = {}
    deny: dict[str, list[str]] = {}
    for level in Level:
        for kind, found, default in (("ALLOW", allow, defaults.get(level)), ("DENY", deny, None)):
            words = config.list(f"{kind}_{level.value}_{role}", default=[]) if role else []
            words = words or config.list(f"{kind}_{level.value}", default=[])
            if words or default:
                found[level.value] = list(words or default or [])
    return access_lists(allow, deny)
