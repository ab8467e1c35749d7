"""condor_userprio: the priorities of users, as the negotiator's accountant has them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from minipool.cli.ad_output import sorted_names
from minipool.cli.autoformat import AutoFormat
from minipool.cli.context import open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.show import date
from minipool.cli.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.session import Session
from pool.classad import ClassAd
from pool.errors import PeerError, UserError

_EDITS: Final = {
    "setfactor": ("PriorityFactor", "The priority factor of {} was set to {:f}"),
    "setprio": ("Priority", "The priority of {} was set to {:f}"),
    "setaccum": ("AccumulatedUsage", "The Accumulated Usage of {} was set to {:f}"),
}
TOOL = Tool(
    "condor_userprio",
    "Show and set the priorities of users.",
    "[options] [USER]...",
    (
        *(Opt(name, 4, 2, "USER VALUE", f"set {attribute}") for name, (attribute, _) in _EDITS.items()),
        Opt("resetusage", 6, 1, "USER", "set the usage to nothing"),
        Opt("allusers", 4, says="also users without recent usage"),
        Opt("all", 2, says="all columns"),
        FORMATTING[0],
        Opt("constraint", 1, 1, "EXPR", "only users for whom the expression is true"),
        Opt("flat", 2, says="users without their groups (always so)"),
        Opt("long", 1, says="whole ads"),
        Opt("most", 2, says="the usual columns"),
        Opt("priority", 3, says="only priorities"),
        Opt("usage", 1, says="only usage"),
        POOL,
        NAME,
        HELP,
        VERSION_OPT,
        DEBUG,
        *refused("inputfile", "the accountant is a database of the negotiator; ask the negotiator"),
        *refused("collector negotiator", "the negotiator itself is asked, always"),
        *refused("delete", "the accountant forgets a user who uses nothing by itself"),
        *refused("resetall", "-resetusage USER, for each user"),
        *refused("setbegin setlast", "these moments are what they were"),
        *refused(
            "setceiling setfloor duration cancelceilinglease cancelfloorlease cancelfactorlease",
            "there are no ceilings, floors or leases of users; concurrency limits and group quotas bound them",
        ),
        *refused("getreslist", "condor_status -claimed shows who uses which slot"),
        *refused("activefrom", "-allusers -constraint with LastUsageTime shows the same"),
        *refused(
            "groupid grouporder grouprollup hierarchical order quotas sortkey surplus",
            "users are shown without their groups",
        ),
        *refused("legacy modular", "there is one layout"),
    ),
)


class Column(NamedTuple):
    """One column: two lines of heading, its width, a user's cell and the last line's."""

    top: str
    bottom: str
    width: int
    cell: Callable[[ClassAd, float], str]
    total: str = ""


def _number(name: str, form: str, scale: float = 1.0) -> Callable[[ClassAd, float], str]:
    return lambda ad, _: form % (ad.eval_float(name, 0.0) / scale)


def _real_priority(ad: ClassAd, _: float) -> str:
    return f"{ad.eval_float('Priority', 0.0) / (ad.eval_float('PriorityFactor', 1.0) or 1.0):.2f}"


def _since(ad: ClassAd, now: float) -> str:
    last = ad.eval_int("LastUsageTime", 0)
    if ad.eval_float("WeightedResourcesUsed", ad.eval_float("ResourcesUsed", 0.0)) > 0:
        return "<now>"
    return _ago(now - last) if last else ""


def _ago(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    return f"{days:4d}+{rest // 3600:02d}:{rest % 3600 // 60:02d}"


def _when(name: str) -> Callable[[ClassAd, float], str]:
    def shown(ad: ClassAd, _: float) -> str:
        at = ad.eval_int(name, 0)
        return time.strftime("%m/%d/%Y %H:%M", time.localtime(at)) if at else ""

    return shown


def _limit(name: str) -> Callable[[ClassAd, float], str]:
    def shown(ad: ClassAd, _: float) -> str:
        amount = ad.eval_int(name, 0)
        return str(amount) if amount > 0 else ""

    return shown


_EFFECTIVE = Column(" Effective", "  Priority", 12, _number("Priority", "%.2f"))
_REAL = Column("  Real", "Priority", 8, _real_priority)
_FACTOR = Column("Priority", " Factor", 9, _number("PriorityFactor", "%.2f"))
_IN_USE = Column("Wghted", "In Use", 6, _number("WeightedResourcesUsed", "%.0f"), "in use")
_USAGE = Column("Total Usage", "(wghted-hrs)", 12, _number("WeightedAccumulatedUsage", "%.2f", 3600.0), "usage")
_START = Column("     Usage", "  Start Time", 16, _when("BeginUsageTime"))
_LAST = Column("      Last", "   Usage Time", 16, _when("LastUsageTime"), "day ago")
_SINCE = Column("Time Since", "Last Usage", 10, _since, "one day")
_FLOOR = Column("Submitter", "  Floor", 9, _limit("Floor"))
_CEILING = Column("Submitter", " Ceiling", 9, _limit("Ceiling"))
_VIEWS: Final[dict[str, tuple[Column, ...]]] = {
    "most": (_EFFECTIVE, _FACTOR, _IN_USE, _USAGE, _SINCE, _FLOOR, _CEILING),
    "all": (_EFFECTIVE, _REAL, _FACTOR, _IN_USE, _USAGE, _START, _LAST, _SINCE, _FLOOR, _CEILING),
    "priority": (_EFFECTIVE, _REAL, _FACTOR),
    "usage": (_IN_USE, _USAGE, _START, _LAST),
}
_NAME_WIDTH = 18
_DAY_S = 86400


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_userprio."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    session = open_session(parsed)
    try:
        if any(one.key in _EDITS or one.key == "resetusage" for one in parsed.given):
            return _edit(session, parsed)
        return _show(session, parsed)
    except PeerError as error:
        raise UserError(f"Error: the negotiator does not answer: {error}") from None


def _edit(session: Session, parsed: Parsed) -> int:
    from protocol.messages.negotiator import SetPriority

    with session.daemon("negotiator", name=parsed.value("name")) as peer:
        for one in parsed.given:
            if one.key == "resetusage":
                peer.call(SetPriority(submitter=one.values[0], attribute="AccumulatedUsage", value=0.0))
                sys.stdout.write(f"The accumulated usage of {one.values[0]} was reset\n")
            elif one.key in _EDITS:
                attribute, says = _EDITS[one.key]
                value = _value(one.values[1])
                peer.call(SetPriority(submitter=one.values[0], attribute=attribute, value=value))
                sys.stdout.write(says.format(one.values[0], value) + "\n")
    return 0


def _value(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{text!r} is not a number") from None


def _show(session: Session, parsed: Parsed) -> int:
    from protocol.messages.negotiator import GetPriorities

    with session.daemon("negotiator", name=parsed.value("name")) as peer:
        ads = peer.call(GetPriorities()).submitters
    now = time.time()
    ads = [ad for ad in ads if _wanted(ad, parsed, now)]
    custom = AutoFormat(parsed, job_id=False)
    if custom:
        sys.stdout.writelines(custom.text(ads))
    elif parsed.has("long"):
        for ad in ads:
            sys.stdout.write("".join(f"{name} = {ad.text(name)}\n" for name in sorted_names(ad)) + "\n")
    else:
        view = next((key for key in _VIEWS if parsed.has(key)), "most")
        recent = not parsed.has("allusers") and not parsed.words
        sys.stdout.write(_text(ads, _VIEWS[view], now, recent))
    return 0


def _wanted(ad: ClassAd, parsed: Parsed, now: float) -> bool:
    from pool.classad import expr

    if ad.eval_bool("IsAccountingGroup") and not parsed.has("long"):
        return False
    if parsed.words:
        return ad.eval_str("Name") in parsed.words
    if any(expr(text).eval(ad) is not True for text in parsed.values("constraint")):
        return False
    used = ad.eval_float("WeightedResourcesUsed", ad.eval_float("ResourcesUsed", 0.0)) > 0
    return parsed.has("allusers") or parsed.has("long") or used or now - ad.eval_int("LastUsageTime", 0) < _DAY_S


def _text(ads: Sequence[ClassAd], columns: Sequence[Column], now: float, recent: bool) -> str:
    width = max(_NAME_WIDTH, *(len(ad.eval_str("Name", "")) for ad in ads)) if ads else _NAME_WIDTH
    updated = max((ad.eval_int("LastUpdate", 0) for ad in ads), default=0) or int(now)
    rule = " ".join(["-" * width, *("-" * column.width for column in columns)])
    lines = [
        f"Last Priority Update: {date(updated)}",
        _row([" " * width, *(column.top.ljust(column.width) for column in columns)]),
        _row(["User Name".ljust(width), *(column.bottom.ljust(column.width) for column in columns)]),
        rule,
    ]
    for ad in sorted(ads, key=lambda ad: ad.eval_float("Priority", 0.0)):
        cells = [column.cell(ad, now).rjust(column.width) for column in columns]
        lines.append(_row([ad.eval_str("Name", "").ljust(width), *cells]))
    lines.append(rule)
    totals = [_total(column, ads, now, recent).rjust(column.width) for column in columns]
    lines.append(_row([f"Number of users: {len(ads)}".ljust(width), *totals]))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " ".join(cells)


def _total(column: Column, ads: Sequence[ClassAd], now: float, recent: bool) -> str:
    if column.total == "in use":
        return f"{sum(ad.eval_float('WeightedResourcesUsed', 0.0) for ad in ads):.0f}"
    if column.total == "usage":
        return f"{sum(ad.eval_float('WeightedAccumulatedUsage', 0.0) for ad in ads) / 3600:.2f}"
    if column.total == "one day" and recent:
        return _ago(_DAY_S - 1)
    if column.total == "day ago" and recent:
        return time.strftime("%m/%d/%Y %H:%M", time.localtime(now - _DAY_S))
    return ""
