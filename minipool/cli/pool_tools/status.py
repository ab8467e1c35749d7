"""condor_status: the machines and daemons of a pool, as the collector knows them.

The options choose a view (`status_options.py`), whose columns, type of ads and totals are in `status_views.py`. Rows
are ordered by machine and slot unless -sort says otherwise. A constraint that cannot be parsed is refused before the
collector is asked. Source: HTCondor's manual page condor_status.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from minipool.cli.entry.console import line_width, terminal_width
from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Parsed
from minipool.cli.entry.tool import run
from minipool.cli.output.ad_form import AdForm
from minipool.cli.output.print_format import PrintFormat
from minipool.cli.output.show import ColumnSource
from minipool.cli.pool_tools.status_columns import columns_do
from minipool.cli.pool_tools.status_compact import rolled_up
from minipool.cli.pool_tools.status_options import TOOL, StatusMode
from minipool.cli.pool_tools.status_print_as import FUNCTIONS
from minipool.cli.pool_tools.status_totals import KINDS, slots_of, totals
from minipool.cli.pool_tools.status_views import VIEWS, View, view
from minipool.cli.queue_tools.q_show import in_order
from minipool.client.session import Session
from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.base.ids import is_number
from pool.classad import ClassAd, expr, quote

_NEEDED = (
    "Name", "Machine", "MyType", "Arch", "OpSys", "OpSysAndVer", "OpSysShortName", "State", "Activity", "LoadAvg",
    "BackfillSlot", "DynamicSlot", "PartitionableSlot", "SlotTypeID", "Healthy", "BrokenReasons", "SlotBrokenReason",
    "HealthExprs", "TotalSlots", "NumDynamicSlots", "TotalCpus", "TotalMemory", "TotalGPUs", "TotalInUseCpus",
    "TotalInUseMemory", "TotalInUseGPUs", "TotalBackfillInUseCpus", "TotalBackfillInUseMemory",
    "TotalBackfillInUseGPUs", "MyCurrentTime", "LastHeardFrom", "Memory", "Disk", "Mips", "KFlops", "RunningJobs",
    "IdleJobs", "HeldJobs", "TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs",
)  # fmt: skip
_EXTRA_INFO = """
Extra Info: the collector keeps the ads of all machines and daemons of a pool. It may not be running, or not be where
COLLECTOR_HOST says (`pool config_val COLLECTOR_HOST`), or may not allow this user to read (ALLOW_READ, CollectorLog).
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_status."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    asked = StatusQuery(parsed)
    diagnose = parsed.qualifier("diagnose")
    if diagnose is not None:
        _say_query(asked)
        # Without a file it is the question that is looked at, and HTCondor's tool then ends with 1.
        if not diagnose:
            return 1
    if parsed.has("watch"):
        from minipool.cli.pool_tools.status_watch import watch

        return watch(asked)
    if columns_do(asked):
        text = _by_columns(asked)
        if text is not None:
            sys.stdout.writelines(text)
            return 0
        asked = StatusQuery(parsed)  # anew: its columns may have grown
    ads = asked.ordered(_ads(asked))
    if diagnose:
        from minipool.cli.pool_tools.status_diagnose import write_ads

        write_ads(ads, diagnose)
    path = parsed.value("merge")
    if path is None:
        sys.stdout.writelines(asked.text(ads))
    else:
        sys.stdout.writelines(_merged(asked, ads, path))
    return 0


def _say_query(asked: StatusQuery) -> None:
    """What -diagnose says of the query, on standard error, and what became of it."""
    from minipool.cli.pool_tools.status_diagnose import query_ad, query_text

    parsed = asked.parsed
    session = None if parsed.has("ads") else open_session(parsed)
    query = query_ad(asked.ad_type, asked.constraint(session), parsed.number("limit", 0))
    words = ["condor_status", *sys.argv[1:]]
    sys.stderr.write(query_text(words, asked.mode.kind, asked.view.totals, query, asked.projection()))
    sys.stderr.flush()
    sys.stdout.write("Result of making query ad was:  0\n")


class StatusQuery:
    """What the command line asks for."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.mode = StatusMode(parsed)
        self.view: View = VIEWS[self.mode.kind]
        self.output = AdForm(parsed)
        self._take_aim()
        if self.mode.name == "license" and self.output.is_table:
            self.output.whole = "long"
        self.only_totals = parsed.has("totals")
        self.sort_by = [] if _unsorted(parsed) else [ColumnSource(text) for text in parsed.values("sort")]
        if self.only_totals and parsed.has("compact"):
            sys.stderr.write("Warning: ignoring -compact option because -total option is also set\n")
        width = line_width(parsed)
        # -wide:N is as wide as a terminal of N; up to 100 that is the usual table, cut there.
        self.wide = parsed.has("aaf") or (parsed.has("wide") and not 0 < width <= 100)
        self.width = 0 if self.wide else max(0, width - 1)
        self.format = self.output.print_format(FUNCTIONS, truncate=False)
        if self.format is not None and (self.format.from_set.upper() == "AUTOCLUSTER" or self.format.unique):
            path = parsed.value("print-format")
            raise UserError(f"print-format aggregation not supported\nError: invalid select file {path}")
        roomy = (self.wide and not parsed.has("aaf")) or (terminal_width() or width) > 100
        self.table = self.format or view(self.mode.kind, wide=roomy)
        if self.output.is_table:
            self.output.append(self.table, FUNCTIONS)

    def _take_aim(self) -> None:
        """Evaluate what -format and -af name against the ad of -target."""
        path = self.parsed.value("target")
        if path is None:
            return
        from minipool.cli.output.ad_files import read

        ads = read(path, cannot="Cannot open file {path}: {why}")
        self.output.rows.mask.aim(ads[0] if ads else ClassAd())

    @property
    def ad_type(self) -> str:
        """The type of the ads to ask for."""
        return self.mode.ad_type or self.view.ad_type

    @property
    def limit(self) -> int | None:
        """How many ads at most; None for all."""
        return self.parsed.number("limit", 0) or None if self.parsed.has("limit") else None

    def projection(self) -> list[str]:
        """The attributes to fetch; empty for all."""
        sorting = [name for source in self.sort_by for name in source.names()]
        # What a machine's line needs of its dynamic slots is in Child... attributes, whatever the slots carve: all are
        # fetched.
        if self.output.is_table and self.mode.kind.startswith("compact"):
            return []
        shown = [*self.table.names(), *_NEEDED, *sorting]
        return self.output.projection(shown, ("Name", "Machine", "SlotID", *sorting))

    def constraint(self, session: Session | None) -> str | None:
        """Which ads are asked for."""
        parsed = self.parsed
        # As in HTCondor, -sort leaves out ads that have nothing to be sorted by.
        given = [*parsed.values("constraint"), *(f"{source.text} =!= undefined" for source in self.sort_by)]
        own = self.view.constraint if self.format is None else ""
        # A print format's WHERE takes the place of the view's own constraint.
        where = self.format.where if self.format is not None else ""
        parts = [f"({text})" for text in (own, where, *given) if text]
        if parsed.has("annex-name"):
            parts.append(f"(AnnexName =?= {quote(parsed.value('annex-name') or '')})")
        elif parsed.has("annex-slots"):
            parts.append("(IsAnnex)")
        names = []
        for word in parsed.words:
            if self.mode.name == "claimed":
                names.append(f"RemoteUser == {quote(word)}")
                continue
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

    def ordered(self, ads: list[ClassAd]) -> list[ClassAd]:
        """By what -sort and GROUP BY say, and else by machine and slot."""
        if not _unsorted(self.parsed):
            key_of = _plain if self._by_letters else _natural
            ads.sort(key=lambda ad: key_of(name := ad.eval_str("Name", ""), ad.eval_str("Machine", name)))
        # Each sort keeps the order of the one before, so the first -sort counts most.
        for source in reversed(self.sort_by):

            def key(ad: ClassAd, source: ColumnSource = source) -> tuple[int, float, str]:
                value = source.value(ad)
                if isinstance(value, float):
                    return (0 if value < 0 else 1, value, "")
                if isinstance(value, bool | int):  # whole negative numbers by their digits, as HTCondor has them
                    return (0 if value < 0 else 1, abs(value), "")
                return (2, 0.0, value.lower()) if isinstance(value, str) else (3, 0.0, "")

            ads.sort(key=key)
        return in_order(ads, self.table.group_by)

    def order(self, names: Sequence[str], machines: Sequence[str]) -> Sequence[int] | None:
        """The order of slots of these names and machines; None where it is that in which they came."""
        if _unsorted(self.parsed):
            return None
        keys = [*map(_plain if self._by_letters else _natural, names, machines)]
        return sorted(range(len(keys)), key=keys.__getitem__)

    @property
    def _by_letters(self) -> bool:
        return self.parsed.qualifier("natural") == "off"

    def text(self, ads: list[ClassAd], *, counted: bool = True) -> Iterable[str]:
        """What is printed about these ads. `counted`: with totals, where the view has them."""
        if not self.output.is_table:
            yield from self.output.text(ads, xml_gap="\n")
        elif ads or self.format is not None:
            yield from self._table(ads, counted)

    def _table(self, ads: list[ClassAd], counted: bool) -> Iterable[str]:
        kind, table = self.mode.kind, self.table.mask
        # Totals below count slots, not the lines of machines.
        shown = rolled_up(ads) if kind.startswith("compact") else ads
        if not self.only_totals:
            rows = [table.render(ad) for ad in shown]
            if kind.endswith("healthy") and self.parsed.qualifier("healthy") != "verbose":
                rows = [row for row, ad in zip(rows, shown, strict=True) if not _healthy(ad)]
            yield self.heading()
            yield from (table.display(row) for row in rows)
        summarized = self.table.summarized if self.format is not None and not self.only_totals else counted
        width = self.key_width
        if summarized and ads and self.view.totals in KINDS:
            of = slots_of(ads) if kind.startswith("compact") else ads
            yield "\n" + totals(self.view.totals, of, key_width=width)
        if summarized and kind.endswith("gpus"):
            yield from self._gpus(ads, width)

    @property
    def key_width(self) -> int:
        """How wide the totals' first column is at least."""
        return 0 if self.wide else 14

    def heading(self) -> str:
        """The table's heading, where it has one, when all its rows are rendered: its columns then fit the line."""
        table = self.table.mask
        if self.width:
            _crop(self.table, self.width)
        table.width = self.width
        if not (table.has_heading and self.table.header):
            return ""
        return table.heading() + ("" if self.format else "\n")

    def _gpus(self, ads: list[ClassAd], width: int) -> Iterable[str]:
        from minipool.cli.pool_tools.status_gpus import any_offered, totals

        if self.mode.kind == "compact gpus":
            yield "\n" + totals(ads, key_width=width)
        if any_offered(ads):
            yield "\n"


def _healthy(ad: ClassAd) -> bool:
    """Whether there is nothing to say about the machine's health."""
    broken = "BrokenReasons" in ad or "SlotBrokenReason" in ad
    return not broken and (ad.eval_bool("Healthy") is True or "HealthExprs" not in ad)


def _unsorted(parsed: Parsed) -> bool:
    """Whether the ads stay in the order in which they came."""
    return any(text.lower() in ("false", "0", "no", "none") for text in parsed.values("sort"))


def _crop(table: PrintFormat, width: int) -> None:
    """Make the columns of names narrow enough for the terminal."""
    widths, columns = table.mask.widths, table.mask.columns
    at = {one.expression: index for index, one in enumerate(columns) if one.expression in ("Name", "Machine")}
    excess = sum(widths) + len(widths) - 1 - width
    # As much as HTCondor's table gives away: the machine's name first, then the slot's, neither below what can be read.
    if excess <= 0 or not at:
        return
    if "Machine" in at and "Name" in at:
        index = at["Machine"]
        less = min(excess // 2, max(0, widths[index] - 7))
        widths[index] -= less
        excess -= less
    index = at.get("Name", at.get("Machine", 0))
    widths[index] = max(12 if "Name" in at else 7, widths[index] - excess)
    table.mask.keep_widths([*at.values()])


def _ads(asked: StatusQuery) -> list[ClassAd]:
    parsed = asked.parsed
    path = parsed.value("ads")
    session = None if path else open_session(parsed)
    constraint = asked.constraint(session)
    limit = asked.limit
    if session is None:
        from minipool.cli.output.ad_files import form_of, read

        wanted = expr(constraint or "true")
        found = [ad for ad in read(path or "", form=form_of(parsed.qualifier("ads"))) if wanted.eval(ad) is True]
        return found[:limit]
    direct = parsed.value("direct")
    try:
        from minipool.cli.pool_tools.status_direct import DAEMONS, ask

        if direct and asked.ad_type in DAEMONS:
            return ask(
                session, direct, asked.ad_type,
                constraint=constraint, projection=asked.projection(), limit=limit,
                snapshot=parsed.has("snapshot"), statistics=parsed.value("statistics") or "",
            )  # fmt: skip
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    with _collector_of(asked, session):
        return session.query(asked.ad_type, constraint=constraint, projection=asked.projection(), limit=limit)


@contextmanager
def _collector_of(asked: StatusQuery, session: Session) -> Iterator[None]:
    """Errors of the collector that is asked meanwhile are said as HTCondor's tool says them."""
    try:
        # Learnt apart from the query: if nobody answers there, the error says where that was.
        where = session.collector_address()
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    try:
        yield
    except PeerError as error:
        lost = f"Error: Couldn't contact the condor_collector on {where}."
        advice = "" if asked.parsed.has("expert") else _EXTRA_INFO
        raise UserError(f"Error: communication error\n{error}\n{lost}\n{advice}") from None


def _by_columns(asked: StatusQuery) -> list[str] | None:
    """What is printed, made of columns of attributes; None where it takes the ads themselves."""
    from minipool.cli.pool_tools.status_columns import Unsuited, attributes, table

    session = open_session(asked.parsed)
    constraint, limit = asked.constraint(session), asked.limit
    try:
        with _collector_of(asked, session):
            batches = session.query_batches(
                asked.ad_type, constraint=constraint, projection=attributes(asked), limit=limit
            )
            return [*table(asked, batches)]
    except Unsuited:
        return None


def _natural(name: str, machine: str) -> tuple[object, ...]:
    """Machines in alphabetical order, slots of one machine by number."""
    return machine.lower(), _numbered(name.partition("@")[0]), name


def _plain(name: str, machine: str) -> tuple[object, ...]:
    """Machines and slots in alphabetical order, numbers in names like other letters."""
    return machine.lower(), name


@lru_cache(maxsize=4096)
def _numbered(text: str) -> list[tuple[int, int, str]]:
    """A text as words and numbers, so that slot2 comes before slot10."""
    parts: list[tuple[int, int, str]] = []
    at = 0
    while at < len(text):
        end, digits = at, is_number(text[at])
        while end < len(text) and is_number(text[end]) == digits:
            end += 1
        parts.append((1, int(text[at:end]), "") if digits else (0, 0, text[at:end]))
        at = end
    return parts


def _merged(asked: StatusQuery, ads: list[ClassAd], path: str) -> Iterable[str]:
    """The ads of the query beside those of a file: only in the query, in both, only in the file."""
    from minipool.cli.output.ad_files import read

    of_file = asked.ordered(read(path))
    there, here = {_identity(ad) for ad in of_file}, {_identity(ad) for ad in ads}
    only_here = [ad for ad in ads if _identity(ad) not in there]
    both = [ad for ad in ads if _identity(ad) in there]
    only_there = [ad for ad in of_file if _identity(ad) not in here]
    if asked.output.whole == "json":
        parts = (("query-only", only_here), ("both", both), ("file-only", only_there))
        texts = [f'"{name}": ' + ("".join(asked.text(some)) or "[ ]") for name, some in parts]
        yield "{\n" + ",\n".join(texts) + "\n}\n"
        return
    if only_here:
        yield "The following ads were found only in the query:\n"
        yield from asked.text(only_here)
        yield "\n" if both else ""
    if both:
        yield f"The following ads were found in both the query and in '{path}':\n"
        yield from asked.text(both)
        yield "\n" if only_there else ""
    if only_there:
        yield f"The following ads were found only in '{path}':\n"
        yield from asked.text(only_there)


def _identity(ad: ClassAd) -> tuple[str, str]:
    return ad.eval_str("Machine", ""), ad.eval_str("Name", "")
