"""condor_store_cred: says for each kind of credential why none is kept here, and what is used in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.base.errors import UserError

ACTIONS: Final = ("add", "delete", "query")
WHY: Final = {
    "pool": "the pool has no password: hosts prove who they are with certificates, people with tokens "
    "(condor_token_create; `pool token` and `pool join` for a new host)",
    "pwd": "a user's password is of use on Windows alone; here a job runs as its owner without one",
    "krb": "no credential daemon runs here: a job that needs a Kerberos ticket gets its file by transfer_input_files",
    "oauth": "no credential daemon runs here: a job that needs a token gets its file by transfer_input_files",
}
TOOL = Tool(
    "condor_store_cred",
    "Say why no credentials are kept, and what is used in their place.",
    "{add | delete | query}[-pwd | -krb | -oauth] [options]",
    (
        HELP,
        VERSION_OPT,
        Opt("c", 1, says="about the password of the pool"),
        Opt("f", 1, 1, "FILE", "about a file with the password of the pool"),
        Opt("p", 1, 1, "PASSWORD", "known, and of no use without credentials"),
        Opt("u", 1, 1, "USER", "the same, as are the following"),
        Opt("n", 1, 1, "HOST", "HOST's daemons"),
        Opt("i", 1, 1, "FILE", "the credential"),
        Opt("s", 1, 1, "SERVICE", "whose token it is (-s), for what (-S)"),
        Opt("a", 1, 1, "AUDIENCE", "for whom"),
    ),
    notes="The exit status is 1 in any case.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_store_cred."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) != 1:
        raise UsageError("Say what to do: add, delete or query")
    action, _, kind = parsed.words[0].lower().partition("-")
    if action not in ACTIONS or kind not in ("", "pwd", "krb", "oauth"):
        raise UsageError(f"{parsed.words[0]} is not an action")
    of_pool = kind in ("", "pwd") and (parsed.has("c") or parsed.has("f"))
    raise UserError(f"condor_store_cred: nothing is stored: {WHY['pool' if of_pool else kind or 'pwd']}")
