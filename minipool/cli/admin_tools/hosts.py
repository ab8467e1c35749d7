"""`pool hosts`: which hosts the pool has, and putting one out."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, JSON, NAME, POOL, VERSION_OPT, Tool, run
from minipool.cli.output.columns import aligned
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from protocol.messages.master import HostEntry

TOOL = Tool(
    "pool hosts",
    "Show the hosts of the pool and their certificates, or put hosts out.",
    "list | revoke NAME|SERIAL...",
    (JSON, POOL, NAME, DEBUG, HELP, VERSION_OPT),
    notes="To be used on the central manager, by an administrator. A host that is revoked loses its connections within"
    "\nseconds and gets no new ones; its name can be given to another. To come back it needs a new key and a new word.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool hosts`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.master import ListHosts, RevokeHosts

    what, *hosts = parsed.words or ["list"]
    # `list` takes no names, `revoke` needs some.
    if what not in ("list", "revoke") or (what == "list") == bool(hosts):
        raise UsageError("pool hosts: say what to do: list, or revoke NAME|SERIAL...")
    request = RevokeHosts(hosts=hosts) if what == "revoke" else ListHosts()
    try:
        with open_session(parsed).daemon("master", name=parsed.value("name")) as peer:
            found = peer.call(request).hosts
    except PeerError as error:
        raise UserError(f"pool hosts: {error}") from None
    if parsed.has("json"):
        from minipool.cli.output.json_output import write_list

        write_list(_fields(host) for host in found)
    elif what == "list":
        _show(found)
    else:
        for host in found:
            sys.stdout.write(_said(host))
    return 0


def _said(host: HostEntry) -> str:
    if host.serial:
        return f"Revoked {host.serial} of {host.name or 'a host'}.\n"
    return (
        f"{host.name} is no host of the pool any more. An earlier version made its certificate, and did not note\n"
        "its number. If it is still somewhere, revoke that number too: openssl x509 -noout -serial -in host.pem\n"
    )


def _show(hosts: list[HostEntry]) -> None:
    rows = [("Name", "Duties", "Serial", "Expires", "State")]
    rows += [(host.name, host.duties, host.serial, _date(host.ends_at), _state(host)) for host in hosts]
    sys.stdout.writelines(aligned(rows, left=len(rows[0])))


def _fields(host: HostEntry) -> dict[str, Any]:
    return {
        "Name": host.name,
        "Duties": host.duties,
        "SerialNumber": host.serial,
        "NotBefore": int(host.made_at),
        "NotAfter": int(host.ends_at),
        "State": _state(host),
        **({"RevokedAt": int(host.revoked_at)} if host.revoked_at is not None else {}),
    }


def _state(host: HostEntry) -> str:
    if host.revoked_at is not None:
        return "revoked"
    if not host.serial:
        return "of an earlier version"
    return "expired" if host.ends_at <= time.time() else "good"


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at)) if at else "-"
