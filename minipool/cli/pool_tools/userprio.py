"""condor_userprio: the priorities of users, as the negotiator's accountant has them.

Rows (-autoformat) win over -json, that over -long, that over the table. Users who have used nothing for a day are
left out unless they are named or -allusers asks for them. Source: HTCondor's manual page condor_userprio.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.cli.output.autoformat import AutoFormat
from minipool.cli.pool_tools.userprio_edit import KEYS, OPTIONS, edit, full_name_wanted
from minipool.cli.pool_tools.userprio_rollup import rolled_up
from minipool.client.session import Session
from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.classad import ClassAd, quote

TOOL = Tool(
    "condor_userprio",
    "Show and set the priorities of users.",
    "[options] [USER]...",
    (
        *OPTIONS,
        FORMATTING[0],
        Opt("hierarchical heir", (2, 1), says="users below their groups (the default where there are groups)"),
        Opt("all", 1, says="all columns"),
        Opt("activefrom", 1, 3, "MONTH DAY YEAR", "users who used something after this day"),
        Opt("allusers", 1, says="also users without recent usage"),
        Opt("collector", 3, says="ask the collector, which has been told now and then"),
        Opt("constraint", 1, 1, "EXPR", "only users for whom the expression is true"),
        Opt("flat", 2, says="groups and users side by side"),
        Opt("getreslist", 6, 1, "USER", "the slots that a user has"),
        Opt("grouprollup", 1, says="groups with what the groups below them have used and use"),
        Opt("grouporder", 1, says="groups first, then users"),
        Opt("groupid", 1, says="the numbers of groups"),
        Opt("inputfile", 2, 1, "FILE", "the records of a file of ads instead of the negotiator's"),
        Opt("json", 2, says="print ads as JSON"),
        Opt("legacy", 3, says="with -long: one ad, whose attributes are numbered"),
        Opt("long", 1, says="whole ads"),
        Opt("modular", 3, says="with -long: an ad for each (the default)"),
        Opt("most", 2, says="the usual columns"),
        Opt("negotiator", 3, says="ask the negotiator (the default)"),
        Opt("order", 1, says="the order of groups"),
        Opt("priority", 4, says="only priorities"),
        Opt("quotas", 1, says="the quotas of groups"),
        Opt("sortkey", 2, says="the sort keys of groups"),
        Opt("surplus", 1, says="which groups may use what others leave"),
        Opt("usage", 2, says="only usage"),
        POOL,
        Opt("name", 1, 1, NAME.metavar, NAME.says),
        HELP,
        VERSION_OPT,
        DEBUG,
    ),
    unknown="condor_userprio: unknown option {}",
)
_DAY_S: Final = 86400


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_userprio."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    path = parsed.value("inputfile")
    if path is not None:
        return _show(_of_file(path), parsed)
    session = open_session(parsed)
    try:
        # What is to be changed is changed, and nothing shown beside it.
        if any(one.key in KEYS for one in parsed.given):
            return edit(session, parsed)
        if parsed.has("getreslist"):
            return _resources(session, parsed)
        return _show(_asked(session, parsed), parsed)
    except PeerError as error:
        from protocol.rpc.remote import RemoteError

        who = "collector" if parsed.has("collector") or parsed.has("getreslist") else "negotiator"
        said = "refuses" if isinstance(error, RemoteError) else "does not answer"
        raise UserError(f"Error: the {who} {said}: {error}") from None


def _asked(session: Session, parsed: Parsed) -> list[ClassAd]:
    if parsed.has("collector"):
        name = parsed.value("name")
        return session.query("Accounting", constraint=name and f"NegotiatorName == {quote(name)}")
    from protocol.messages.negotiator import GetPriorities

    with session.daemon("negotiator", name=parsed.value("name")) as peer:
        ads = peer.call(GetPriorities()).submitters
    return rolled_up(ads) if parsed.has("grouprollup") else ads


def _of_file(path: str) -> list[ClassAd]:
    """The records of a file: an ad for each, or one whose attributes are numbered."""
    from minipool.cli.output.ad_files import read

    ads = read(path, cannot="Can't open file of userprio ads: {path}")
    return _taken_apart(ads[0]) if len(ads) == 1 and "Name1" in ads[0] else ads


def _taken_apart(whole: ClassAd) -> list[ClassAd]:
    found: dict[int, ClassAd] = {}
    for name in whole:
        attribute = name.rstrip("0123456789")
        # Attributes of the old form end with their user's number: Name1, Priority1.
        number = name[len(attribute) :]
        if number and int(number):
            found.setdefault(int(number), ClassAd())[attribute] = whole.eval(name)
    for place, ad in found.items():
        ad["SubmittorId"], ad["LastUpdate"] = place, whole.eval("LastUpdate")
    return [found[place] for place in sorted(found)]


def _show(ads: Sequence[ClassAd], parsed: Parsed) -> int:
    ads = [ad for ad in ads if _wanted(ad, parsed)]
    custom = AutoFormat(parsed, job_id=False)
    if custom:
        sys.stdout.writelines(custom.text(ads))
    elif parsed.has("json"):
        from minipool.cli.output.json_output import write_list

        write_list(ads)
    elif parsed.has("long"):
        sys.stdout.writelines(_long(ads, parsed))
    else:
        sys.stdout.writelines(_table(ads, parsed))
    return 0


def _long(ads: Sequence[ClassAd], parsed: Parsed) -> Iterable[str]:
    """Whole ads; -modular has the empty line before each, -legacy has one ad without."""
    from minipool.cli.output.ad_output import long_form

    if parsed.has("legacy"):
        yield long_form(_together(ads)).removesuffix("\n")
    elif parsed.has("modular"):
        yield from ("\n" + long_form(ad).removesuffix("\n") for ad in ads)
    else:
        yield from (long_form(ad) for ad in ads)


def _wanted(ad: ClassAd, parsed: Parsed) -> bool:
    from pool.classad import expr

    name = ad.eval_str("Name", "")
    if parsed.words and not {name, name.partition("@")[0]} & {*parsed.words}:
        return False
    try:
        return all(expr(text).eval(ad) is True for text in parsed.values("constraint"))
    except ClassAdError:
        raise UserError(f"Error:  could not parse constraint {' && '.join(parsed.values('constraint'))}") from None


def _together(ads: Sequence[ClassAd]) -> ClassAd:
    """One ad of all, as HTCondor's negotiators have answered for long."""
    whole = ClassAd({"NumSubmittors": len(ads)})
    for number, ad in enumerate(ads, 1):
        for name in ad:
            if name == "LastUpdate":
                whole[name] = ad.eval(name)
            elif name not in ("MyType", "SubmittorId"):
                whole[f"{name}{number}"] = ad.eval(name)
    return whole


def _table(ads: Sequence[ClassAd], parsed: Parsed) -> Iterable[str]:
    from minipool.cli.pool_tools.userprio_table import SETS, TableWanted, text

    columns: frozenset[str] = frozenset().union(*(names for key, names in SETS.items() if parsed.has(key)))
    nested = [one.key for one in parsed.given if one.key in ("hierarchical", "flat", "grouporder")]
    now = time.time()
    wanted = TableWanted(
        columns or SETS["most"],
        _since(parsed, now),
        None if not nested else nested[-1] == "hierarchical",
        groups_first=parsed.has("grouporder"),
        quotas=parsed.has("quotas") or parsed.has("surplus"),
    )
    yield text(ads, wanted, now)


def _since(parsed: Parsed, now: float) -> float:
    """Whom the table leaves out: those who have used nothing since then."""
    # Who asks for somebody by name wants the row, however long ago he used anything.
    if parsed.has("allusers") or parsed.words:
        return -1.0
    if not parsed.has("activefrom"):
        return now - _DAY_S
    try:
        month, day, year = (int(text) for text in parsed.values("activefrom")[-3:])
        if 0 <= year < 100:  # 1 1 26 is in 2026, 1 1 99 was in 1999
            year += 2000 if year < 50 else 1900
        return time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))
    except (ValueError, OverflowError):
        raise UsageError(f"-activefrom {' '.join(parsed.values('activefrom'))} is not a date") from None


def _resources(session: Session, parsed: Parsed) -> int:
    """The slots that a user has, and since when."""
    from minipool.cli.output.show import date, duration

    named = parsed.value("getreslist") or ""
    if "@" not in named:
        raise UserError(full_name_wanted("update the priority of"))
    user = quote(named)
    holds = f'State == "Claimed" && !(PartitionableSlot ?: false) && (RemoteOwner =?= {user} || RemoteUser =?= {user})'
    ads = session.query("Machine", constraint=holds, projection=["Name", "EnteredCurrentState"])
    if parsed.has("json"):
        from minipool.cli.output.json_output import write_list

        write_list(ads)
        return 0
    if parsed.has("long"):
        from minipool.cli.output.ad_output import long_form

        fields = {"Name": "Name", "StartTime": "EnteredCurrentState"}
        slots = enumerate(ads, 1)
        whole = {f"{name}{n}": ad.eval(field) for n, ad in slots for name, field in fields.items()}
        sys.stdout.write(long_form(ClassAd(whole)).removesuffix("\n"))
        return 0
    row, now = "{:<30} {:>12} {:>12}\n".format, time.time()
    sys.stdout.write(row("Resource Name", " Start Time", " Match Time") + row("-" * 13, " " + "-" * 10, " " + "-" * 10))
    for ad in ads:
        since = ad.eval_int("EnteredCurrentState", int(now))
        sys.stdout.write(row(ad.eval_str("Name", ""), date(since), duration(max(0.0, now - since))))
    sys.stdout.write(row("-" * 13, " " + "-" * 12, " " + "-" * 12))
    sys.stdout.write(f"Number of Resources Used: {len(ads)}\n")
    return 0
