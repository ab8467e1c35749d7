"""`pool join`: make this host a part of a pool, with a word that the central manager printed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from minipool.cli.admin_tools.tokens import read_join_word
from minipool.cli.admin_tools.up import setting_of
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from minipool.client import host
from minipool.client.session import Session
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from protocol.rpc.blocking import BlockingPeer
    from protocol.wire.address import Address

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
    session = Session.open(directory=parsed.value("dir"), overrides=settings, may_be_new=True)
    directory = os.path.abspath(session.config.path("LOCAL_DIR"))
    # A running master would go on with the keys that it has read.
    if host.master_pid(session.run_dir) is not None:
        raise UserError(f"A pool runs in {directory}; stop it first: pool down")
    _refuse_another_pools_ca(session)
    word = read_join_word(_word(parsed.value("token")))
    _join(session, parsed.words[0], word, directory, settings)
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


def _join(session: Session, address: str, word: tuple[str, str], directory: str, settings: Mapping[str, str]) -> None:
    """Have this host's key signed. What the host has already stays as it is until the central manager has done so."""
    from protocol.messages.master import JoinPool
    from protocol.rpc.remote import RemoteError
    from protocol.security import keys
    from protocol.wire.address import Address

    keys_dir = session.config.path("KEYS")
    name = session.config.str("FULL_HOSTNAME")
    # The private key never leaves this host: what is sent is a request to sign its public half.
    key = keys.host_key(keys_dir)
    request = JoinPool(host=name, csr=keys.request_certificate(key, name))
    where = Address.parse(address)
    where = Address.tcp(where.host, where.port, sock="master", alias=where.alias)
    try:
        # The word is good once. An answer that is lost must not cost it, so the key is kept, and the same key may ask
        # again.
        with _connected(where, *word) as peer:
            try:
                joined = peer.call(request, timeout=60.0)
            except PeerError as error:
                if not isinstance(error, RemoteError):  # it may have been signed: whoever asks again needs this key
                    keys.keep_host_key(keys_dir, key)
                raise
    except PeerError as error:
        raise UserError(f"pool join: {address} did not take this host: {_spent(word[0]) or error}") from None
    keys.install_host_certificate(keys_dir, joined.certificate, joined.ca, key=key)
    typed = f"[{where.host}]" if ":" in where.host else where.host
    _configure(directory, f"{typed}:{where.port}", joined.config, settings)


def _connected(where: Address, token: str, ca: str) -> BlockingPeer:
    """A connection as one who has nothing but the word: a certificate that is here may be another pool's.

    The central manager alone says whether the token is too old, by its own clock.
    """
    import tempfile

    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security
    from protocol.security.settings import CA_FILE, SecuritySettings

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, CA_FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(ca)
        return connect(
            where,
            Security(SecuritySettings(ca_files=(path,), tokens=(token,), offer=("TOKEN",)), now=lambda: 0.0),
            timeout=20.0,
        )


def _spent(token: str) -> str:
    """What to say of a word whose time is over; nothing of others."""
    from protocol.security.idtoken import read_token

    said = read_token(token)
    if said.expires_at is None or said.expires_at > time.time():
        return ""
    ended = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(said.expires_at))
    return f"the word ended at {ended}; make another there: pool token create --for {said.duty or 'DUTY'}"


def _refuse_another_pools_ca(session: Session) -> None:
    """The keys of a pool's CA exist once; a host that has them is a central manager, and no member of another pool."""
    from protocol.security.credentials import CA_KEY_FILE

    ca_key = os.path.join(session.config.path("KEYS"), CA_KEY_FILE)
    if os.path.lexists(ca_key):
        raise UserError(
            f"pool join: {ca_key} is the key of a pool whose central manager is here, and joining another pool would "
            "end that one. Give this host's part of the other pool a directory of its own with --dir DIR, "
            f"or, when this pool is not needed any more, remove {session.config.path('LOCAL_DIR')} first."
        )


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
        # Who joins a second time replaces what the first time wrote.
        before = file.read().partition("# Made by `pool join`.\n")[0]
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(before + said)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
