"""`pool join`: make this host a part of a pool, with a word that the central manager printed."""

from __future__ import annotations

import os
import sys

from minipool import host
from minipool.cli.options import Opt, Parsed, UsageError
from minipool.cli.tokens import read_join_word
from minipool.cli.tool import HELP, VERSION_OPT, Tool, run
from minipool.cli.up import setting_of
from minipool.session import Session
from pool.errors import PeerError, UserError
from pool.hints import Mapping, Sequence

TOOL = Tool(
    "pool join",
    "Make this host a part of a pool.",
    "ADDRESS [--token WORD|FILE] [--dir DIR] [-c KNOB=VALUE]...",
    (
        Opt(
            "token",
            1,
            1,
            "WORD|FILE",
            "what `pool token create --for DUTY` printed there; else it is read from standard input",
        ),
        Opt("dir", 1, 1, "DIR", "where this host's part of the pool lives"),
        Opt("c", 1, 1, "KNOB=VALUE", "set a knob of this host; may be repeated"),
        HELP,
        VERSION_OPT,
    ),
    notes="ADDRESS is HOST[:PORT] of the central manager. Afterwards `pool up` starts this host's daemons.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool join`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) != 1:
        raise UsageError("pool join: say the address of the central manager")
    settings = dict(setting_of("pool join", text) for text in parsed.values("c"))
    token, ca = read_join_word(_word(parsed.value("token")))
    session = Session.open(directory=parsed.value("dir"), overrides=settings, may_be_new=True)
    directory = os.path.abspath(session.config.path("LOCAL_DIR"))
    if host.master_pid(session.run_dir) is not None:
        raise UserError(f"A pool runs in {directory}; stop it first: pool down")
    _join(session, parsed.words[0], token, ca, directory, settings)
    where = f" --dir {directory}" if parsed.has("dir") else ""
    sys.stdout.write(f"This host has joined the pool at {parsed.words[0]}. Start its daemons with: pool up{where}\n")
    return 0


def _word(given: str | None) -> str:
    if given is None:
        if sys.stdin.isatty():
            sys.stderr.write("Paste what `pool token create --for DUTY` printed on the central manager:\n")
        return sys.stdin.readline().strip()
    if given.startswith("pool:"):
        return given
    try:
        with open(given) as file:
            return file.read().strip()
    except OSError as error:
        raise UserError(f"pool join: cannot read {given}: {error.strerror}") from None


def _join(session: Session, address: str, token: str, ca: str, directory: str, settings: Mapping[str, str]) -> None:
    from protocol import keys
    from protocol.address import Address
    from protocol.messages.master import JoinPool

    keys_dir = session.config.path("KEYS")
    name = session.config.str("FULL_HOSTNAME")
    request = keys.make_host_key(keys_dir, name)
    where = Address.parse(address)
    where = Address.tcp(where.host, where.port, sock="master", alias=where.alias)
    try:
        with _trusting(session, keys_dir, token, ca).connect(where) as peer:
            joined = peer.call(JoinPool(host=name, csr=request), timeout=60.0)
    except PeerError as error:
        raise UserError(f"pool join: {address} did not take this host: {error}") from None
    keys.install_host_certificate(keys_dir, joined.certificate, joined.ca)
    typed = f"[{where.host}]" if ":" in where.host else where.host
    _configure(directory, f"{typed}:{where.port}", joined.config, settings)


def _trusting(session: Session, keys_dir: str, token: str, ca: str) -> Session:
    """The same pool seen by one who has nothing but the token and the CA certificate of the word."""
    ca_path = os.path.join(keys_dir, "ca.pem")
    _store(ca_path, ca, 0o644)
    tokens = os.path.join(keys_dir, "join")
    os.makedirs(tokens, mode=0o700, exist_ok=True)
    _store(os.path.join(tokens, "token"), token + "\n", 0o600)
    overrides = {
        "SEC_TOKEN_SYSTEM_DIRECTORY": tokens,
        "SEC_TOKEN_DIRECTORY": tokens,
        "AUTH_SSL_CLIENT_CAFILE": ca_path,
        "SEC_CLIENT_AUTHENTICATION_METHODS": "TOKEN",
    }
    return Session(session.config.with_overrides(overrides))


def _store(path: str, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _configure(directory: str, collector: str, lines: str, settings: Mapping[str, str]) -> None:
    """The host's configuration: what the central manager said, then what the command line sets.

    The collector is where the administrator said, who may have used a name because the address changes.
    """
    host.prepare(directory, (), {})
    said = f"# Made by `pool join`.\n{lines.rstrip()}\nCOLLECTOR_HOST = {collector}\n"
    said += "NETWORK_INTERFACE = *\n"  # other hosts must reach this one, on the port that all know
    said += "".join(f"{name} = {value}\n" for name, value in settings.items())
    path = os.path.join(directory, "config")
    with open(path, encoding="utf-8") as file:
        before = file.read().partition("# Made by `pool join`.\n")[0]
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(before + said)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
