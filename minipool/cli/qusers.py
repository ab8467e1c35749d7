"""condor_qusers: the users of a queue, and who may submit."""

from __future__ import annotations

import sys

from minipool.cli.context import open_session
from minipool.cli.options import Opt, Parsed, UsageError
from minipool.cli.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.classad import ClassAd
from pool.errors import PeerError, UserError
from pool.hints import Final, Sequence

ACTIONS: Final = ("add", "remove", "enable", "disable")
TOOL = Tool(
    "condor_qusers",
    "Show the users of a queue, and say who may submit.",
    "[options] [-add | -remove | -enable | -disable] [NAME]...",
    (
        Opt("add", 2, says="have an entry for these users"),
        Opt("remove", 3, says="forget what was set for these users"),
        Opt("enable", 2, says="let these users submit"),
        Opt("disable", 3, says="do not let these users submit"),
        Opt("reason", 3, 1, "TEXT", "what those who are disabled are told"),
        Opt("user", 1, 1, "NAME", "this user alone"),
        Opt("constraint", 1, 1, "EXPR", "the users for whom the expression is true"),
        *FORMATTING,
        NAME,
        POOL,
        HELP,
        VERSION_OPT,
        DEBUG,
        *refused("projects", "the queue keeps no record of projects"),
        *refused("usage", "use condor_userprio -usage"),
        *refused("edit", "users have no attributes of their own"),
    ),
)
_TABLE: Final = """SELECT
    User         AS USER      WIDTH AUTO
    OsUser       AS OS_USER   WIDTH AUTO
    Enabled ? "yes" : "no" AS ENABLED WIDTH AUTO OR _
    NumIdle      AS 'JOBS:Idle' WIDTH AUTO PRINTF %9d
    NumRunning   AS Running   WIDTH AUTO PRINTF %7d
    NumHeld      AS '   Held' WIDTH AUTO PRINTF %7d
    NumRemoved   AS Removed   WIDTH AUTO PRINTF %7d
    NumCompleted AS Completed WIDTH AUTO PRINTF %9d
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_qusers."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.schedd import QueryUsers, SetUsers, UserAction

    actions = [action for action in ACTIONS if parsed.has(action)]
    if len(actions) > 1:
        raise UsageError(f"-{actions[0]} and -{actions[1]} cannot be used together")
    users = [*parsed.words, *parsed.values("user")]
    if actions and not users:
        raise UsageError(f"-{actions[0]} needs the names of users")
    try:
        with open_session(parsed).daemon("schedd", name=parsed.value("name")) as peer:
            if actions:
                action = UserAction(actions[0])
                peer.call(SetUsers(users=users, action=action, reason=parsed.value("reason") or ""))
                return 0
            ads = peer.call(QueryUsers(users=users, constraint=parsed.value("constraint"))).ads
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    sys.stdout.writelines(_text(parsed, ads))
    return 0


def _text(parsed: Parsed, ads: Sequence[ClassAd]) -> Sequence[str]:
    from minipool.cli.ad_output import wanted_form, write_all
    from minipool.cli.autoformat import AutoFormat

    own = AutoFormat(parsed)
    if own:
        return list(own.text(ads))
    form = wanted_form(parsed)
    if form is not None:
        return [*write_all(ads, form)]
    from minipool.cli.print_format import parse

    return [parse(_TABLE.split("\n"), {}).mask.text(ads)]
