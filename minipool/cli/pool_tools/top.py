"""condor_top: how busy a daemon is, and with what, between two looks at its ad.

Two looks at the same life of a daemon are compared: ads with different start times, or of the same moment, are
refused. Recent figures are of the time between the looks, the others of the daemon's whole life. Source: HTCondor's
manual page condor_top.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minipool.cli.entry.console import clear_screen
from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import HELP, JSON, VERSION_OPT, Tool, refused, run
from minipool.cli.output.columns import aligned
from minipool.cli.output.show import long_date
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from minipool.client.session import Session
    from pool.classad import ClassAd

DAEMONS: Final = ("schedd", "startd", "collector", "negotiator", "master")

TOOL = Tool(
    "condor_top",
    "Show how busy a daemon is, and with what.",
    "[options] [AD-FILE AD-FILE]",
    (
        HELP,
        VERSION_OPT,
        Opt("live", 1, says="look again and again"),
        Opt("pool", 1, 1, "HOST[:PORT]", "the pool whose collector is at this address"),
        Opt("name", 1, 1, "NAME", "the daemon of this name"),
        Opt("delay", 1, 1, "SECONDS", "how long to wait between two looks (5)"),
        Opt("columns", 1, 1, "SET", "default, runtime, count or all"),
        Opt("sort", 1, 1, "COLUMN", "sort by this column: Item, InstRt, InstAvg, TotAvg, InstRate ..."),
        JSON,
        Opt("attrs", 1, 1, "A,B", "further attributes, as counts"),
        *(Opt(name, len(name), says=f"the {name}") for name in DAEMONS),
        *refused("history", "the schedd keeps no ads of its past"),
    ),
    notes="Without an option, the first daemon of this host in the order schedd, startd, collector, negotiator, master."
    "\nWith two files, the ads are read from there, the older one first.",
)


class Figure(NamedTuple):
    """One column: its name, its heading, and the sets that show it."""

    name: str
    heading: str
    sets: str


COLUMNS: Final = (
    Figure("Item", "Item", "default runtime count"),
    Figure("InstRt", "Recent Runtime", "default runtime"),
    Figure("InstAvg", "Recent Avg", "default runtime"),
    Figure("TotalRt", "Total Runtime", "runtime"),
    Figure("TotAvg", "Lifetime Avg", "default runtime"),
    Figure("TotMax", "Lifetime Max", "default runtime"),
    Figure("TotMin", "Lifetime Min", "runtime"),
    Figure("RtPctAvg", "Pct of Avg", "default runtime"),
    Figure("InstCt", "Recent Count", "count"),
    Figure("InstRate", "Recent Rate", "default count"),
    Figure("TotalCt", "Total Count", "count"),
    Figure("AvgRate", "Lifetime Rate", "default count"),
    Figure("CtPctAvg", "Pct of Rate", "count"),
)
COUNTS: Final = re.compile(r"(Jobs(Submitted|Started|Exited|Completed)|NegotiationCycles|Updates(Total|Lost))\Z")
"""What is counted in daemons' ads without a time of its own."""
_RUNTIME: Final = re.compile(r"(?!DC(?:Socket|Pipe))(.+)Runtime\Z")

Row = dict[str, "float | str | None"]


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_top."""
    words: list[str] = []
    # condor_top of HTCondor is a Python program, whose options may carry their value behind a =.
    for word in argv:  # --attrs=A,B
        name, equals, value = word.partition("=")
        words += [name, value] if word.startswith("--") and equals else [word]
    return run(TOOL, _main, words)


def _main(parsed: Parsed) -> int:
    columns = _columns(parsed)
    if parsed.words:
        if len(parsed.words) != 2:
            raise UserError("Error: two files of ads are needed")
        old, new = (_read(path) for path in parsed.words)
        _show(old, new, columns, parsed)
        return 0
    session = open_session(parsed)
    daemon = _daemon(session, parsed)
    delay = parsed.number("delay", 5)
    old = _ask(session, daemon, parsed)
    try:
        while True:
            # A daemon's figures are whole seconds old: two looks within one would have the same time.
            time.sleep(max(1, delay))
            new = _ask(session, daemon, parsed)
            if parsed.has("live") and sys.stdout.isatty() and not parsed.has("json"):
                clear_screen()
            _show(old, new, columns, parsed)
            sys.stdout.flush()
            # -live into a file would be an endless one.
            if not (parsed.has("live") and sys.stdout.isatty()):
                return 0
            old = new
    except KeyboardInterrupt:
        return 0


def _columns(parsed: Parsed) -> list[Figure]:
    wanted = (parsed.value("columns") or "default").lower()
    chosen = [column for column in COLUMNS if wanted == "all" or wanted in column.sets.split()]
    if not chosen:
        raise UserError(f"Error: there is no column set {wanted!r} (default, runtime, count, all)")
    sort = parsed.value("sort")
    if sort is not None and sort not in {column.name for column in COLUMNS}:
        raise UserError(f"Error: there is no column {sort!r} ({', '.join(column.name for column in COLUMNS)})")
    return chosen


def _daemon(session: Session, parsed: Parsed) -> str:
    named = next((name for name in DAEMONS if parsed.has(name)), None)
    if named is not None:
        return named
    if session.pool is not None:
        return "collector"
    return next((name for name in DAEMONS if session.local_socket(name)), "schedd")


def _ask(session: Session, daemon: str, parsed: Parsed) -> ClassAd:
    from protocol.messages.common import GetAd

    try:
        with session.daemon(daemon, name=parsed.value("name")) as peer:
            return peer.call(GetAd()).ad
    except PeerError as error:
        raise UserError(f"Error: the {daemon} does not answer: {error}") from None


def _read(path: str) -> ClassAd:
    from pool.classad import parse_longs

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return next(iter(parse_longs(file)))
    except OSError as error:
        raise UserError(f"Error: {path}: {error.strerror}") from None
    except StopIteration:
        raise UserError(f"Error: {path}: there is no ad") from None


# ---- what is shown


def _show(old: ClassAd, new: ClassAd, columns: Sequence[Figure], parsed: Parsed) -> None:
    if not parsed.has("json"):
        sys.stdout.writelines(report(old, new, columns, parsed))
        return
    from minipool.cli.output.json_output import write_list

    rows = table(old, new, _between(old, new), _attributes(parsed))
    write_list({name: value for name, value in row.items() if value is not None} for row in rows)


def _attributes(parsed: Parsed) -> list[str]:
    return [name.strip() for name in (parsed.value("attrs") or "").split(",") if name]


def report(old: ClassAd, new: ClassAd, columns: Sequence[Figure], parsed: Parsed) -> Iterator[str]:
    """The lines about the daemon, and the table."""
    seconds = _between(old, new)
    yield from _head(old, new, seconds)
    rows = list(table(old, new, seconds, _attributes(parsed)))
    by = parsed.value("sort") or ("InstRt" if any(row["InstRt"] for row in rows) else "InstRate")
    rows.sort(key=lambda row: str(row["Item"]))
    if by != "Item":
        rows.sort(key=lambda row: -_number(row[by]))
    yield "\n"
    cells = [
        [column.heading for column in columns],
        *([_shown(row[column.name]) for column in columns] for row in rows),
    ]
    heading, *lines = aligned(cells, left=1)
    yield from (heading, "-" * (len(heading) - 1) + "\n", *lines)


def _between(old: ClassAd, new: ClassAd) -> float:
    # Counters begin anew with a daemon: the difference of two lives means nothing.
    if old.eval_int("DaemonStartTime", 0) != new.eval_int("DaemonStartTime", 0):
        raise UserError("Error: Daemon ads have different start times.")
    for name in ("StatsLifetime", "MyCurrentTime"):
        before, after = old.eval_float(name), new.eval_float(name)
        if before is not None and after is not None and after > before:
            return after - before
    raise UserError("Error: ClassAds have the same timestamp.")


def _head(old: ClassAd, new: ClassAd, seconds: float) -> Iterator[str]:
    now = new.eval_float("MyCurrentTime", 0.0)
    uptime = now - new.eval_float("DaemonStartTime", now)
    said = [f"{new.eval_str('MyType', 'Daemon')} {new.eval_str('Name', '')}", f"up {uptime / 3600:.1f} h"]
    if (resident := new.eval_float("MonitorSelfResidentSetSize")) is not None:
        said.append(f"{resident / 1024:.1f} MB")
    if (lag := new.eval_float("LoopLagP99")) is not None:
        said.append(f"loop lag p99 {lag * 1000:.1f} ms, worst {new.eval_float('LoopLagMax', 0.0) * 1000:.1f} ms")
    cycles = _change(old, new, "DCPumpCycleSum")
    if cycles:
        said.append(f"duty cycle {100 * (1 - (_change(old, new, 'DCSelectWaittime') or 0.0) / cycles):.2f}%")
    if (commands := _change(old, new, "DCCommands")) is not None:
        said.append(f"{commands / seconds:.1f} commands/s")
    yield f"{long_date(now)}: {', '.join(said)}\n"


def _change(old: ClassAd, new: ClassAd, name: str) -> float | None:
    before, after = old.eval_float(name), new.eval_float(name)
    return None if before is None or after is None else after - before


def table(old: ClassAd, new: ClassAd, seconds: float, attributes: Sequence[str]) -> Iterator[Row]:
    """A row for each thing that is counted, with its times where it has any."""
    names = [found[1] for name in new if (found := _RUNTIME.match(name)) is not None]
    names += [name for name in new if COUNTS.match(name) and name not in names]
    names += [name for name in attributes if name not in names]
    life = new.eval_float("StatsLifetime") or new.eval_float("MonitorSelfAge")
    for name in names:
        count, recent = new.eval_float(name), _change(old, new, name)
        if count is None or recent is None:
            continue
        spent = _change(old, new, f"{name}Runtime")
        each = spent / recent if spent is not None and recent > 0 else None
        usual = new.eval_float(f"{name}RuntimeAvg")
        rate, average = recent / seconds, count / life if life else None
        yield {
            "Item": name.removeprefix("DC"),
            "InstRt": spent,
            "InstAvg": each,
            "TotalRt": new.eval_float(f"{name}Runtime"),
            "TotAvg": usual,
            "TotMax": new.eval_float(f"{name}RuntimeMax"),
            "TotMin": new.eval_float(f"{name}RuntimeMin"),
            "RtPctAvg": 100 * each / usual if each is not None and usual else None,
            "InstCt": recent,
            "InstRate": rate,
            "TotalCt": count,
            "AvgRate": average,
            "CtPctAvg": 100 * rate / average if average else None,
        }


def _number(value: float | str | None) -> float:
    return value if isinstance(value, int | float) else 0.0


def _shown(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:.3f}"
