"""condor_token_create, condor_token_list and `pool token create`: signed statements of who somebody is.

The master of the host makes every token; the tools ask it and store what it answers. A token stands for whoever asks
unless -identity names somebody else. A stored token is readable by its owner alone, and a token for a host that joins
(-for) is printed once and stored nowhere. Source: HTCondor's manual pages condor_token_create, condor_token_fetch and
condor_token_list; `pool token` is minipool's own.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Sequence
from typing import Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.client.session import Session
from pool.base.errors import PeerError, UserError
from pool.base.ids import is_number

_AUTHZ = Opt("authz", 1, 1, "LEVEL", "limit the token to this level; may be repeated")
_LIFETIME = Opt("lifetime", 1, 1, "SECONDS", "how long it is good (for ever, when not given)")
_IDENTITY = Opt("identity", 2, 1, "USER@DOMAIN", "whom it stands for (you, when not given)")
_TOKEN = Opt("token", 2, 1, "NAME", "store it under this name in SEC_TOKEN_DIRECTORY instead of printing it")
_FILE = Opt("file", 1, 1, "FILE", "write it to this file instead of printing it")
# HTCondor has as many keys as there are files in SEC_PASSWORD_DIRECTORY.
_KEY = Opt("key", 1, 1, "NAME", "the signing key; the pool has one, POOL")
CREATE = Tool(
    "condor_token_create",
    "Make a token.",
    "[options]",
    (_AUTHZ, _LIFETIME, _IDENTITY, _KEY, _TOKEN, _FILE, DEBUG, HELP, VERSION_OPT),
)
FETCH = Tool(
    "condor_token_fetch",
    "Have a daemon make a token for you.",
    "[options]",
    (
        _AUTHZ,
        _LIFETIME,
        POOL,
        NAME,
        _KEY,
        _TOKEN,
        _FILE,
        Opt("type", 1, 1, "DAEMON", "(whichever daemon is meant, the master of its host makes the token)"),
        *refused("remote", "capability tokens are not made here", 1),
        DEBUG,
        HELP,
        VERSION_OPT,
    ),
    notes="The token stands for whom the daemon takes you for. From another host that takes level ADMINISTRATOR.",
)
LIST = Tool(
    "condor_token_list",
    "List the tokens that this account presents.",
    "[options]",
    (DEBUG, Opt("dir", 1, 1, "DIRECTORY", "where they are"), HELP, VERSION_OPT),
)
POOL_TOKEN = Tool(
    "pool token",
    "Make a token: for a user's tools, or with a duty for a host that joins.",
    "create [options] | list",
    (
        Opt("for", 3, 1, "DUTY", "execute, submit or central: a word for `pool join` on another host"),
        Opt("host", 2, 1, "HOSTNAME", "with -for: only the host of this whole name may join with it"),
        Opt("uses", 1, 1, "N", "with -for: how many hosts may join with it (1)"),
        _AUTHZ,
        Opt("lifetime", 1, 1, "SECONDS", "how long it is good (for ever; with -for an hour)"),
        _IDENTITY,
        _TOKEN,
        _FILE,
        POOL,
        NAME,
        DEBUG,
        HELP,
        VERSION_OPT,
    ),
    notes="The word that `pool token create --for DUTY` prints holds a token and the pool's CA certificate. One host"
    "\njoins with it, within an hour; -uses, -lifetime and -host say otherwise. Whoever has the word can use it first.",
)
TOOLS = (CREATE, FETCH, LIST, POOL_TOKEN)
DUTIES: Final = ("execute", "submit", "central")


def main(verb: str, argv: Sequence[str]) -> int:
    """Run the program of this verb."""
    if verb == "token_list":
        return run(LIST, _list, argv)
    if verb in ("token_create", "token_fetch"):
        return run(CREATE if verb == "token_create" else FETCH, _create, argv)
    return run(POOL_TOKEN, _pool_token, argv)


def _pool_token(parsed: Parsed) -> int:
    if parsed.words == ["list"]:
        return _list(parsed)
    if parsed.words != ["create"]:
        raise UsageError("pool token: say what to do: create or list")
    duty = parsed.value("for") or ""
    if duty and duty not in DUTIES:
        raise UserError(f"pool token: {duty!r} is not a duty (expected execute, submit or central)")
    if not duty and (parsed.has("host") or parsed.has("uses")):
        raise UsageError("pool token: -host and -uses are for a word that a host joins with (-for DUTY)")
    return _create(parsed, duty)


def _create(parsed: Parsed, duty: str = "") -> int:
    from protocol.messages.master import CreateToken

    if (key := parsed.value("key", "POOL")) != "POOL":
        raise UserError(f"Failed to generate a token.\nThere is no signing key {key}: the pool has one, POOL")
    lifetime = parsed.value("lifetime")
    session = open_session(parsed)
    request = CreateToken(
        identity=parsed.value("identity") or "",
        lifetime_s=_seconds(lifetime) if lifetime is not None else None,
        scopes=parsed.values("authz"),
        duty=duty,
        host=parsed.value("host") or "",
        uses=_count(parsed.value("uses") or "1"),
    )
    try:
        with session.daemon("master", name=parsed.value("name")) as peer:
            answer = peer.call(request)
    except PeerError as error:
        raise UserError(f"Failed to create a token: {error}") from None
    if duty:
        sys.stdout.write(join_word(answer.token, answer.ca) + "\n")
        return 0
    _write_out(session, parsed, answer.token)
    return 0


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        raise UserError(f"-lifetime requires a number of seconds, not {text!r}") from None
    # A negative lifetime is one without end, as in HTCondor (token_create.cpp).
    return None if seconds < 0 else seconds


def _count(text: str) -> int:
    if not is_number(text) or int(text) < 1:
        raise UserError(f"-uses requires a number of hosts, not {text!r}")
    return int(text)


def _write_out(session: Session, parsed: Parsed, token: str) -> None:
    """Print it, or put it where -token or -file says; the last of them counts."""
    given = [one for one in parsed.given if one.key in ("token", "file")]
    if not given:
        sys.stdout.write(token + "\n")
        return
    path = given[-1].values[0]
    if given[-1].key == "token":
        # A name with a slash would put the token where nobody looks for tokens, and perhaps where others read.
        if path != os.path.basename(path):
            raise UserError("Token name isn't a plain filename")
        directory = os.path.expanduser(session.config["SEC_TOKEN_DIRECTORY"] or "~/.condor/tokens.d")
        path = os.path.join(directory, path)
    try:
        if given[-1].key == "token":
            os.makedirs(directory, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):  # a file that was there keeps the mode that it had
                os.fchmod(descriptor, 0o600)
            file.write(token + "\n")
    except OSError as error:
        raise UserError(f"Cannot write token to {path}: {error.strerror} (errno={error.errno})") from None
    sys.stdout.write(f"Token stored in {path}\n")


def join_word(token: str, ca: str) -> str:
    """Token and CA certificate as one word that can be pasted."""
    import json
    from base64 import urlsafe_b64encode

    # One word without a character that a shell, a mail or a chat would change.
    return "pool:" + urlsafe_b64encode(json.dumps({"token": token, "ca": ca}).encode()).decode().rstrip("=")


def read_join_word(word: str) -> tuple[str, str]:
    """Token and CA certificate of a word that `join_word` made; UserError when it is none."""
    import json
    from base64 import urlsafe_b64decode

    wrong = UserError("that is not what `pool token create --for DUTY` prints", expected="pool:...")
    if not word.startswith("pool:"):
        raise wrong
    data = word.removeprefix("pool:")
    try:
        said = json.loads(urlsafe_b64decode(data + "=" * (-len(data) % 4)))
        return str(said["token"]), str(said["ca"])
    except (ValueError, KeyError, TypeError):
        raise wrong from None


def _list(parsed: Parsed) -> int:
    from protocol.security.idtoken import BadToken, held_tokens, read_token

    given = parsed.value("dir")
    directories = [given] if given else list(open_session(parsed).security.settings.token_directories)
    for directory in directories:
        for text in held_tokens([directory]):
            try:
                token = read_token(text)
            except BadToken as error:
                sys.stderr.write(f"{directory}: {error}\n")
                continue
            ends = "never" if token.expires_at is None else time.strftime("%Y-%m-%d", time.localtime(token.expires_at))
            scopes = " ".join(token.scopes) or "-"
            sys.stdout.write(
                f"Subject: {token.subject} Issuer: {token.issuer} Expires: {ends} Scopes: {scopes} "
                f"Id: {token.id} Dir: {directory}\n"
            )
    return 0
