"""condor_status: the machines and daemons of a pool, as the collector knows them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from minipool.cli.ad_output import attribute_list, wanted_form, write_all
from minipool.cli.autoformat import AutoFormat
from minipool.cli.columns import Col, Table, terminal_width
from minipool.cli.context import install_clock, open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.show import Source
from minipool.cli.status_compact import rolled_up
from minipool.cli.status_totals import KINDS, totals
from minipool.cli.status_views import VIEWS, WIDE, View
from minipool.cli.tool import DEBUG, FORMATTING, HELP, POOL, VERSION_OPT, Tool, run
from minipool.session import Session
from pool.classad import ClassAd, expr, quote
from pool.errors import ClassAdError, PeerError, UserError

TOOL = Tool(
    "condor_status",
    "Show machines and daemons of the pool.",
    "[options] [NAME]...",
    (
        FORMATTING[0],
        Opt("aaf", 3, -1, "ATTR...", "add columns to a standard table", True),
        FORMATTING[1],
        FORMATTING[3],
        Opt("absent", 3, says="slots that are expected and absent"),
        Opt("any", 3, says="ads of all types"),
        Opt("available", 3, says="slots that can run a job now"),
        Opt("ads", 2, 1, "FILE", "the ads of a file instead of the collector's"),
        Opt("claimed", 2, says="claimed slots and who uses them"),
        Opt("cod", 3),
        Opt("collector", 3, says="collectors"),
        Opt("compact", 3, says="one line for each machine"),
        Opt("constraint", 3, 1, "EXPR", "only ads for which the expression is true"),
        Opt("debug", 3, says=DEBUG.says, colon=True),
        Opt("defrag", 3),
        Opt("direct", 3, 1, "NAME", "ask the startd itself"),
        Opt("expert", 1),
        Opt("generic", 2),
        Opt("gpus", 2, says="slots with GPUs"),
        Opt("grid", 2),
        HELP,
        Opt("java", 1, says="slots with Java"),
        Opt("json", 2, says="print ads as JSON"),
        Opt("license", 2),
        Opt("limit", 3, 1, "N", "show no more than N ads"),
        FORMATTING[2],
        Opt("master", 2, says="masters"),
        Opt("negotiator", 1, says="negotiators"),
        Opt("nocompact", 3),
        POOL,
        Opt("run", 1, says="what schedds run"),
        Opt("schedd", 2, says="schedds"),
        Opt("server", 3, says="slots with their speed"),
        Opt("slots", 3, says="slots (the default)"),
        Opt("sort", 3, 1, "EXPR", "order by an expression"),
        Opt("startd", 5, says="startds"),
        Opt("state", 5, says="slots with the time in each state"),
        Opt("statistics", 6, 1),
        Opt("storage", 3),
        Opt("submitters", 2, says="users with jobs"),
        Opt("subsystem", 4, 1, "TYPE", "ads of this type"),
        Opt("target", 2, 1),
        Opt("total totals", 1, says="only the totals"),
        VERSION_OPT,
        Opt("vm", 2),
        Opt("wide", 1, says="do not cut lines at the width of the terminal", colon=True),
        FORMATTING[5],
    ),
    unknown="Error:  Unknown option {}",
)

_KINDS = (
    "absent", "any", "claimed", "cod", "collector", "compact", "defrag", "generic", "gpus", "grid", "java", "license",
    "master", "negotiator", "run", "schedd", "server", "startd", "state", "storage", "submitters", "vm",
)  # fmt: skip
_SUBSYSTEMS = {
    "machine": "normal", "slot": "normal", "startd": "startd", "schedd": "schedd", "scheduler": "schedd",
    "master": "master", "negotiator": "negotiator", "collector": "collector", "submitter": "submitters", "any": "any",
}  # fmt: skip
_EXTRA_INFO = """
Extra Info: the collector keeps the ads of all machines and daemons of a pool. It may not be running, or not be where
COLLECTOR_HOST says (`pool config_val COLLECTOR_HOST`), or may not allow this user to read (ALLOW_READ, CollectorLog).
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_status."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_clock()
    kind = _kind(parsed)
    view = VIEWS[kind]
    only_totals = parsed.has("total")
    if only_totals and kind == "compact":
        sys.stderr.write("Warning: ignoring -compact option because -total option is also set\n")
        kind, view = "normal", VIEWS["normal"]
    form, custom = wanted_form(parsed), AutoFormat(parsed, job_id=False)
    ads = _ads(parsed, view, _projection(parsed, view, form, custom))
    ads = _sorted(ads, parsed)
    if form:
        gap = "\n" if form == "xml" else ""
        sys.stdout.writelines(write_all(ads, form, attribute_list(parsed), xml_gap=gap, empty_json=True))
    elif custom:
        sys.stdout.writelines(custom.text(ads))
    elif ads:
        sys.stdout.writelines(_table(parsed, kind, view, ads, only_totals))
    return 0


def _kind(parsed: Parsed) -> str:
    if parsed.has("available"):
        return "avail"
    subsystem = parsed.value("subsystem")
    if subsystem is not None:
        return _SUBSYSTEMS.get(subsystem.lower(), "any")
    given = [one.key for one in parsed.given if one.key in _KINDS]
    return given[-1] if given else "normal"


def _projection(parsed: Parsed, view: View, form: str | None, custom: AutoFormat) -> list[str]:
    if form:
        return attribute_list(parsed)
    if custom:
        return sorted({*custom.names(), "Name", "Machine", *_sort_names(parsed)})
    if view.columns is VIEWS["compact"].columns:
        return []
    extra = {
        "Name", "Machine", "MyType", "Arch", "OpSys", "OpSysAndVer", "State", "Activity", "LoadAvg", "BackfillSlot",
        "TotalSlots", "NumDynamicSlots", "TotalCpus", "TotalMemory", "TotalGPUs", "TotalInUseCpus", "TotalInUseMemory",
        "TotalInUseGPUs", "MyCurrentTime", "LastHeardFrom", *_sort_names(parsed), *parsed.values("aaf"),
    }  # fmt: skip
    return sorted({*Table(view.columns).names(), *extra})


def _sort_names(parsed: Parsed) -> list[str]:
    return [name for text in parsed.values("sort") for name in Source(text).names()]


def _ads(parsed: Parsed, view: View, projection: Sequence[str]) -> list[ClassAd]:
    path = parsed.value("ads")
    session = None if path else open_session(parsed)
    constraint = _constraint(parsed, view, session)
    if session is None:
        return _of_file(path or "", constraint)
    limit = parsed.number("limit", 0) if parsed.has("limit") else None
    direct = parsed.value("direct")
    try:
        address = session.address("startd", name=direct) if direct else None
        where = address or session.collector_address()
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    subsystem = parsed.value("subsystem")
    ad_type = subsystem if subsystem and subsystem.lower() not in _SUBSYSTEMS else view.ad_type
    try:
        return session.query(
            ad_type, constraint=constraint, projection=projection, limit=limit or None, address=address
        )
    except PeerError as error:
        lost = f"Error: Couldn't contact the condor_collector on {where}."
        raise UserError(f"Error: communication error\n{error}\n{lost}\n{_EXTRA_INFO}") from None


def _constraint(parsed: Parsed, view: View, session: Session | None) -> str | None:
    parts = [f"({text})" for text in (view.constraint, *parsed.values("constraint")) if text]
    names = []
    for word in parsed.words:
        for one in dict.fromkeys((word, session.qualified(word) if session else word)):
            names += [f"Name == {quote(one)}"] + ([] if "@" in one else [f"Machine == {quote(one)}"])
    if names:
        parts.append("(" + " || ".join(names) + ")")
    text = " && ".join(parts)
    if not text:
        return None
    try:
        expr(text)
    except ClassAdError:
        raise UserError("Error: invalid constraint\n\n") from None
    return text


def _of_file(path: str, constraint: str | None) -> list[ClassAd]:
    from pool.classad import parse_longs

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            ads = list(parse_longs(file, file=path))
    except OSError as error:
        raise UserError(f"Error: cannot read {path}: {error.strerror}") from None
    wanted = expr(constraint or "true")
    return [ad for ad in ads if wanted.eval(ad) is True]


def _natural(ad: ClassAd) -> tuple[object, ...]:
    """Machines in alphabetical order, slots of one machine by number."""
    name = ad.eval_str("Name", "")
    parts = re.split(r"(\d+)", name.partition("@")[0])
    return (
        ad.eval_str("Machine", name).lower(),
        [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts],
        name,
    )


def _sorted(ads: list[ClassAd], parsed: Parsed) -> list[ClassAd]:
    ads.sort(key=_natural)
    for text in reversed(parsed.values("sort")):
        source = Source(text)

        def key(ad: ClassAd, source: Source = source) -> tuple[int, float, str]:
            value = source.value(ad)
            if isinstance(value, bool | int | float):
                return (0, float(value), "")
            return (1, 0.0, value) if isinstance(value, str) else (2, 0.0, "")

        ads.sort(key=key)
    return ads


def _table(parsed: Parsed, kind: str, view: View, ads: list[ClassAd], only_totals: bool) -> Iterable[str]:
    wide = parsed.has("wide")
    terminal = 0 if wide else terminal_width()
    counted = ads
    if kind == "compact":
        ads, counted = rolled_up(ads)
    if not only_totals:
        columns = list(WIDE if kind == "normal" and (wide or terminal >= 100) else view.columns)
        columns += [Col(name, name, width=-len(name), auto=True) for name in parsed.values("aaf")]
        table = Table(columns, width=max(0, terminal - 1))
        heading, *rows = table.lines([table.row(ad) for ad in ads])
        yield heading + "\n"
        yield from rows
    if view.totals in KINDS:
        yield "\n" + totals(view.totals, counted, key_width=0 if wide else 14)
