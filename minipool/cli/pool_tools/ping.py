"""condor_ping: is a daemon there, and who am I in its eyes?

One form of output at a time. The exit status is 0 when every level that was asked about is allowed. Source:
HTCondor's manual page condor_ping.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.cli.output.ad_output import write_all
from minipool.cli.output.autoformat import AutoFormat
from minipool.client.session import NotFound
from pool.base.errors import PeerError, UserError
from pool.classad import ClassAd

if TYPE_CHECKING:
    from protocol.messages.common import Pong
    from protocol.rpc.blocking import BlockingPeer

TOOL = Tool(
    "condor_ping",
    "Show whether a daemon answers, and what it allows you.",
    "[options] [LEVEL]...",
    (
        HELP,
        VERSION_OPT._replace(least=4),
        DEBUG,
        Opt("config", 1, 1, "FILE", "read this configuration file, too"),
        Opt("address addr", 1, 1, "ADDRESS", "the daemon at this address"),
        POOL,
        NAME,
        Opt("type subsystem", (4, 3), 1, "DAEMON", "schedd (the default), master, startd, negotiator ..."),
        Opt("quiet", 1, says="only the exit status"),
        Opt("table", 2, says="one line for each level"),
        Opt("verbose", 1, says="all that is known of the connection"),
        Opt("long", 1, says="an ad for each level"),
        Opt("json", 1, says="the ads as JSON"),
        *FORMATTING[:2],
    ),
    notes="LEVEL is READ, WRITE (the default), DAEMON ... or ALL. The exit status is 1 when one is denied.",
)

_LEVELS = (
    "ALLOW", "READ", "WRITE", "NEGOTIATOR", "ADMINISTRATOR", "OWNER", "CONFIG", "DAEMON",
    "ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER",
)  # fmt: skip
_FORMS = ("quiet", "table", "verbose", "long", "json", "format", "autoformat")
_UNPROVEN = ("NONE", "ANONYMOUS")


class PingAnswer(NamedTuple):
    """What a daemon said, and over what."""

    pong: Pong
    address: str
    to: str
    protected: bool
    """Whether the connection is encrypted; one that does not leave the host need not be."""

    def allows(self, level: str) -> bool:
        """Whether the caller has this level."""
        return level == "ALLOW" or level in self.pong.levels

    @property
    def method(self) -> str:
        """How the caller has proved who he is."""
        return "none" if self.pong.method in _UNPROVEN else self.pong.method

    @property
    def cipher(self) -> str:
        """What encrypts the connection, and keeps it whole."""
        return "AES" if self.protected else "none"

    def ad(self, level: str) -> ClassAd:
        """The answer about one level."""
        from pool.base.version import CONDOR_VERSION

        return ClassAd(
            {
                "Instruction": level,
                "Authentication": "NO" if self.method == "none" else "YES",
                "AuthMethods": self.pong.method,
                "AuthorizationSucceeded": self.allows(level),
                "ConnectSinful": self.address,
                "CryptoMethods": self.cipher,
                "Encryption": "YES" if self.protected else "NO",
                "Integrity": "YES" if self.protected else "NO",
                "MyRemoteUserName": self.pong.identity,
                "RemoteVersion": self.pong.version,
                "Subsystem": "TOOL",
                "User": self.pong.identity,
                "Version": CONDOR_VERSION,
            }
        )


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_ping."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    forms = [key for key in _FORMS if parsed.has(key)]
    # -format and -af make one row together, everywhere.
    if len(forms) > 1 and forms != ["format", "autoformat"]:
        raise UserError("ERROR: only one output mode may be specified.\n")
    levels = _levels(parsed.words)
    if "table" in forms and not (parsed.has("type") or parsed.has("address")):
        sys.stderr.write("WARNING: Missing daemon argument, defaulting to SCHEDD.\n")
        sys.stderr.flush()
    answer = _answer(parsed)
    if answer is None:
        return 1
    if "quiet" not in forms:
        sys.stdout.writelines(_text(parsed, forms, answer, levels))
    return 0 if all(answer.allows(level) for level in levels) else 1


def _levels(words: Sequence[str]) -> list[str]:
    levels: list[str] = []
    for word in words or ["WRITE"]:
        if word.upper() != "ALL" and word.upper() not in _LEVELS:
            raise UserError(f'ERROR: Could not understand TOKEN "{word}".')
        levels += _LEVELS if word.upper() == "ALL" else [word.upper()]
    return levels


def _answer(parsed: Parsed) -> PingAnswer | None:
    """What the daemon says; None, with a word about it, when it says nothing."""
    from protocol.messages.common import Ping

    kind = (parsed.value("type") or "schedd").lower()
    name, address = parsed.value("name"), parsed.value("address")
    to = f"daemon at {address}" if address else f"{kind} {name}" if name else f"local {kind}"
    try:
        with open_session(parsed, more=parsed.value("config")).daemon(kind, name=name, addr=address) as peer:
            return PingAnswer(peer.call(Ping()), peer.address, to, _is_protected(peer))
    except NotFound as error:
        said = f"ERROR: couldn't locate {name or (address or kind)}!\n{error}"
    except PeerError as error:
        said = f"ERROR: failed to make connection to {to}\n{error}"
    if not parsed.has("quiet"):
        sys.stderr.write(f"{said}\n")
    return None


def _is_protected(peer: BlockingPeer) -> bool:
    # A sinful string is TCP, which is always TLS here; anything else is a unix socket's path.
    return peer.address.startswith("<")


def _text(parsed: Parsed, forms: Sequence[str], answer: PingAnswer, levels: Sequence[str]) -> Iterator[str]:
    custom = AutoFormat(parsed, job_id=False)
    if custom:
        yield from custom.text(answer.ad(level) for level in levels)
    elif "json" in forms:
        yield from write_all((answer.ad(level) for level in levels), "json")
    elif "long" in forms:
        for level in levels:
            yield f"# {level} command to {answer.to} is {'ALLOWED' if answer.allows(level) else 'DENIED'}\n"
            yield from write_all([answer.ad(level)], "long")
    elif "table" in forms:
        yield "         Instruction Authentication Encryption Integrity Decision Identity\n"
        yield from (_row(answer, level) for level in levels)
    else:
        yield from ((_all if "verbose" in forms else _sentence)(answer, level) for level in levels)


def _row(answer: PingAnswer, level: str) -> str:
    if not answer.allows(level):
        return f"{level:>20}           FAIL       FAIL      FAIL     FAIL FAIL  (use -verbose for more info)\n"
    cipher = answer.cipher
    return f"{level:>20}{answer.method:>15}{cipher:>11}{cipher:>10}    ALLOW {answer.pong.identity}\n"


def _sentence(answer: PingAnswer, level: str) -> str:
    if not answer.allows(level):
        return f"{level} failed!  Use -verbose for more information.\n"
    how = ", ".join(
        name if name != "none" else f"no {what}"
        for name, what in ((answer.cipher, "encryption"), (answer.cipher, "integrity"))
    )
    method = answer.method if answer.method != "none" else "no authentication"
    return f"{level} command using ({how}, and {method}) succeeded as {answer.pong.identity} to {answer.to}.\n"


def _all(answer: PingAnswer, level: str) -> str:
    pong = answer.pong
    if not answer.allows(level):
        return (
            f"{level} failed!\n{pong.identity}, by {pong.method}, has {', '.join(pong.levels) or 'no level'} here.\n\n"
        )
    from pool.base.version import CONDOR_VERSION

    rows = (
        ("Destination", answer.to),
        ("Remote Version", pong.version),
        ("Local  Version", CONDOR_VERSION),
        ("Address", answer.address),
        ("Instruction", level),
        ("Encryption", answer.cipher),
        ("Integrity", answer.cipher),
        ("Authentication" if answer.method == "none" else "Authenticated using", answer.method),
        ("Remote Mapping", pong.identity),
        ("Authorized", "TRUE"),
    )
    return "".join(f"{name + ':':<29}{value}\n" for name, value in rows) + "\n"
