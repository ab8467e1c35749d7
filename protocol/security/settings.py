"""What the configuration says of authentication and authorization: one frozen value for each process.

The knobs are HTCondor's (manual page admin-manual/security): SEC_*_AUTHENTICATION_METHODS, SEC_TOKEN_*, ALLOW_* and
DENY_*, TRUST_DOMAIN, UID_DOMAIN. A subsystem's own (SEC_*_<ROLE>, ALLOW_<level>_<ROLE>) win over the general ones. What
this pool does differently is its defaults: without any list, who is authenticated may read, the pool's users may write,
and its owner may do all. A method that does not exist here is an error at the place where it was named.

Nothing is read here but the configuration (and whose LOCAL_DIR is); `credentials` reads the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from protocol.security import unix_peer
from protocol.security.authorize import ALL_LEVELS, FALLS_BACK, AccessEntry, AccessLists, Level, access_lists, implied
from protocol.security.identity import Who
from protocol.security.other_pools import POOLS_DIRECTORY
from protocol.wire.message import Record, field, replace

if TYPE_CHECKING:
    from pool.config import Config

METHODS: Final = ("FS", "SSL", "TOKEN", "CLAIMTOBE", "ANONYMOUS")
"""What a SEC_*_AUTHENTICATION_METHODS list can name; tickets, birth and the family are no matter of configuration."""
DEFAULT_METHODS: Final = ("FS", "SSL", "TOKEN")
HTCONDORS_METHODS: Final = frozenset(
    ("KERBEROS", "PASSWORD", "MUNGE", "SCITOKENS", "SCITOKEN", "NTSSPI", "FS_REMOTE", "GSI")
)
_SPELLINGS: Final = {"TOKENS": "TOKEN", "IDTOKEN": "TOKEN", "IDTOKENS": "TOKEN"}

CA_FILE: Final = "ca.pem"
TOKEN_DIRECTORY: Final = "tokens.d"
LENT_AT: Final[Mapping[str, frozenset[Level]]] = {
    "COLLECTOR": frozenset({Level.ADVERTISE_SCHEDD}),
    "NEGOTIATOR": frozenset({Level.ADVERTISE_SCHEDD}),
    "STARTD": frozenset({Level.DAEMON}),
}
"""What an access point of another pool may do at which daemon, where FLOCK_FROM names it."""


class SecuritySettings(Record):
    """How one side proves itself, what it accepts, and whom it lets do what.

    `keys` is the directory that `protocol.security.keys` made, or "".
    """

    trust_domain: str = "localdomain"
    uid_domain: str = "localdomain"
    owner_uid: int = field(default_factory=os.geteuid)
    keys: str = ""
    signing_directory: str = ""  # one file per key; passwords.d of the keys directory when empty
    signing: Mapping[str, bytes] | None = None  # given keys, instead of those of the directory
    ca_files: tuple[str, ...] = ()
    pool_directories: tuple[str, ...] = ()  # of the CAs of other pools, besides pools.d of the keys
    token_directories: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()  # held besides those of the directories
    token_age_max_s: float | None = None
    token_revoked: Callable[[Mapping[str, Any]], bool] | None = None
    accept: tuple[str, ...] = DEFAULT_METHODS
    methods_of: Mapping[Level, tuple[str, ...]] = {}  # those by which a level can be had
    offer: tuple[str, ...] = DEFAULT_METHODS
    lists: AccessLists = field(default_factory=AccessLists)
    flock_from: tuple[AccessEntry, ...] = ()  # access points of other pools that may use slots here
    lends: frozenset[Level] = frozenset()  # what they may do at this daemon
    ticket: str = ""
    family: str = ""  # the secret that the daemons of one master share
    own_name: str = ""  # whose token this process makes where it may read a signing key; its account's when empty
    pair_identity: str = ""
    pair_levels: frozenset[Level] = ALL_LEVELS

    def renewed(self, fresh: SecuritySettings) -> SecuritySettings:
        """With what a reconfiguration may change."""
        return replace(self, **{name: getattr(fresh, name) for name in _RENEWED})

    def methods_to_offer(self) -> tuple[str, ...]:
        """What a client tries, in order: a ticket was given for a purpose, so it comes first."""
        return (*(("TICKET",) if self.ticket else ()), "PAIR", *self.offer, *(("FAMILY",) if self.family else ()))

    def methods_to_accept(self) -> tuple[str, ...]:
        """What a server takes, in order."""
        return ("TICKET", "PAIR", *self.accept, "FAMILY")

    def limit(self, who: Who) -> Who:
        """Without the levels that cannot be had by the method that was used."""
        if not self.methods_of or who.method not in METHODS:
            return who
        return replace(who, levels=frozenset(level for level in who.levels if who.method in self.methods_of[level]))


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
    "flock_from",
)
"""What a reconfiguration may change. The directory of the keys stays, and so does what a process was born with."""


def read_settings(config: Config, role: str = "") -> SecuritySettings:
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
    return SecuritySettings(
        trust_domain=trust_domain,
        uid_domain=uid_domain,
        owner_uid=owner,
        keys=keys,
        ca_files=_ca_files(config, keys),
        pool_directories=(os.path.expanduser(f"~/.condor/{POOLS_DIRECTORY}"),) if is_tool else (),
        token_directories=_token_directories(config, keys),
        signing_directory=config.str("SEC_PASSWORD_DIRECTORY", default=""),
        token_age_max_s=config.seconds("SEC_TOKEN_MAX_AGE", default=0.0) or None,
        token_revoked=_revocation(config),
        accept=tuple(dict.fromkeys([*methods, *(word for own in methods_of.values() for word in own)])),
        methods_of=methods_of,
        offer=_offered(config, role),
        lists=lists,
        flock_from=() if is_tool else tuple(map(AccessEntry.parse, config.list("FLOCK_FROM", default=[]))),
        lends=implied(LENT_AT.get(role, ())),
        own_name="" if role in ("", "TOOL") else f"condor@{trust_domain}",
    )


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
    # Tokens that were made for HTCondor lie in ~/.condor; ~/.minipool is where a person's pool keeps its own.
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
