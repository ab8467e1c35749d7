"""condor_qusers: the users of a queue, and who may submit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.base.errors import PeerError, UserError
from pool.classad import ClassAd

if TYPE_CHECKING:
    from protocol.rpc.blocking import BlockingPeer

ACTIONS: Final = ("add", "remove", "enable", "disable", "edit")
TOOL = Tool(
    "condor_qusers",
    "Show the users of a queue, and say who may submit.",
    "[options] [-add | -remove | -enable | -disable | -edit] [NAME | ATTR=VALUE]...",
    (
        Opt("add", 3, says="have an entry for these users"),
        Opt("remove rm delete", (3, 2, 2), says="forget what was set for these users"),
        Opt("enable", 2, says="let these users submit"),
        Opt("disable", 2, says="do not let these users submit"),
        Opt("edit", 2, says="set attributes of these users (ATTR=VALUE)"),
        Opt("reason", 2, 1, "TEXT", "what those who are disabled are told"),
        Opt("projects", 4, says="projects instead of users (:also: both)", colon=True),
        Opt("user", 1, 1, "NAME", "this user alone"),
        Opt("constraint", 1, 1, "EXPR", "the users for whom the expression is true"),
        *FORMATTING,
        Opt("aaf", 3, -1, "ATTR...", "add columns to the table", True),
        NAME,
        POOL,
        HELP,
        VERSION_OPT,
        DEBUG._replace(least=3),
        *refused("usage daily", "the queue keeps no record of use; condor_userprio -usage shows that of the pool", 2),
    ),
)
_COUNTED: Final = """
    NumIdle      AS 'JOBS:Idle' WIDTH AUTO PRINTF %9d
    NumRunning   AS Running   WIDTH AUTO PRINTF %7d
    NumHeld      AS '   Held' WIDTH AUTO PRINTF %7d
    NumRemoved   AS Removed   WIDTH AUTO PRINTF %7d
    NumCompleted AS Completed WIDTH AUTO PRINTF %9d
"""
USERS: Final = f"""SELECT
    User         AS USER      WIDTH AUTO
    OsUser       AS OS_USER   WIDTH AUTO
    Enabled ? "yes" : "no" AS ENABLED WIDTH AUTO OR _
    MaxJobsRunning ?: "default" AS MAX_RUN WIDTH AUTO
    {_COUNTED}"""
PROJECTS: Final = f"""SELECT
    Name ?: User AS NAME      WIDTH AUTO
    {_COUNTED}"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_qusers."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    _refuse_two_forms(parsed)
    actions = [action for action in ACTIONS if parsed.has(action)]
    if len(actions) > 1:
        raise UsageError(f"-{actions[0]} and -{actions[1]} cannot be used together")
    edits, names = _taken_apart(parsed.words)
    names += parsed.values("user")
    if edits and actions != ["edit"]:
        raise UserError("<attr>=<expr> arguments only work with -edit")
    if actions and not names:
        raise UserError(f"Error: {actions[0]} {'projects' if parsed.has('projects') else 'users'} - no names specified")
    try:
        with open_session(parsed).daemon("schedd", name=parsed.value("name")) as peer:
            if actions:
                _act(peer, parsed, actions[0], names, edits)
                return 0
            ads = _asked(peer, parsed, names)
    except PeerError as error:
        raise UserError(f"Error: {actions[0] if actions else 'query'} failed - {error}") from None
    sys.stdout.writelines(_text(parsed, ads))
    return 0


def _refuse_two_forms(parsed: Parsed) -> None:
    rows = next((name for name, key in (("-format", "format"), ("-af", "autoformat")) if parsed.has(key)), None)
    if rows is not None and parsed.has("long"):
        raise UserError(f"Error: {rows} and -long cannot be used together")


def _taken_apart(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Assignments and names among the words."""
    edits, names = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            edits[name.strip()] = value.strip()
        else:
            names.append(word)
    return edits, names


def _act(peer: BlockingPeer, parsed: Parsed, action: str, names: list[str], edits: dict[str, str]) -> None:
    from protocol.messages.schedd import SetUsers, UserAction

    request = SetUsers(
        users=names,
        action=UserAction(action),
        reason=parsed.value("reason") or "",
        attributes=edits,
        projects=parsed.has("projects"),
    )
    peer.call(request)
    sys.stdout.write(f"{action} succeeded: \n")


def _asked(peer: BlockingPeer, parsed: Parsed, names: list[str]) -> list[ClassAd]:
    from protocol.messages.schedd import QueryUsers

    wanted = parsed.qualifier("projects")
    # -projects alone is about projects, -projects:also about both.
    kinds = [False] if wanted is None else [False, True] if wanted else [True]
    constraint = parsed.value("constraint")
    return [
        ad
        for projects in kinds
        for ad in peer.call(QueryUsers(users=names, constraint=constraint, projects=projects)).ads
    ]


def _text(parsed: Parsed, ads: Sequence[ClassAd]) -> Sequence[str]:
    from minipool.cli.output.ad_form import AdForm

    output = AdForm(parsed, job_id=False)
    if not output.is_table:
        return [*output.text(ads, empty_json=True)]
    return [output.table(PROJECTS if parsed.has("projects") else USERS, {}).mask.text(ads)]
