"""condor_q: the jobs of a queue, as batches, job by job, or in another view."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from minipool.cli import q_batch, q_totals, q_views
from minipool.cli.ad_output import attribute_list, wanted_form, write_all
from minipool.cli.autoformat import AutoFormat
from minipool.cli.columns import Col, Table, terminal_width
from minipool.cli.context import install_clock, open_session, short_address, stamp
from minipool.cli.options import Opt, Parsed
from minipool.cli.tool import ADDR, DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.session import NotFound, Session
from pool.classad import ClassAd, expr
from pool.errors import ClassAdError, PeerError, UserError
from pool.late_pattern import late_pattern

if TYPE_CHECKING:
    from protocol.blocking import BlockingPeer
    from protocol.messages.schedd import Selection

TOOL = Tool(
    "condor_q",
    "Show the jobs in the queue.",
    "[CLUSTER | CLUSTER.PROC | OWNER]... [options]",
    (
        Opt("wide", 1, says="do not cut lines at the width of the terminal", colon=True),
        *FORMATTING[2:3],
        *FORMATTING[4:6][::-1],
        Opt("limit", 3, 1, "N", "show no more than N jobs"),
        POOL,
        NAME,
        Opt("submitter", 1, 1, "NAME", "the jobs of this submitter"),
        Opt("constraint", 1, 1, "EXPR", "only jobs for which the expression is true"),
        Opt("mconstraint", 2, 1, "EXPR", "-analyze: only slots for which the expression is true"),
        Opt("machine", 2, 1, "NAME", "-analyze: only this machine or slot"),
        ADDR,
        Opt("autocluster", 5, says="one line for jobs that look alike", colon=True),
        Opt("factory", 4, says="clusters that make their jobs as they are needed", colon=True),
        FORMATTING[3],
        FORMATTING[1],
        FORMATTING[0],
        Opt("aaf", 3, -1, "ATTR...", "add columns to a standard table", True),
        Opt("print-format", 2, 1, "FILE", "take the columns from a file", True),
        Opt("global", 1, says="the queues of all schedds of the pool"),
        Opt("allusers all-users", 2, says="the jobs of all users"),
        HELP,
        Opt("better-analyze better-analyse analyze analyse", 2, says="say why jobs do not run", colon=True),
        Opt("unmatchable", 5, says="only idle jobs that no slot matches"),
        Opt("verbose", 4),
        Opt("run", 1, says="running jobs and their machines"),
        Opt("hold held", 2, says="held jobs and why they are held", colon=True),
        Opt("hold-codes holdcodes", 6, says="one line for each reason to be held"),
        Opt("idle", 3, says="idle jobs and what they ask for"),
        Opt("cputime", 2, says="the CPU time in place of the run time"),
        Opt("currentrun", 3, says="the time of the current run only"),
        Opt("cumulative-time", 3, says="the time of all runs (the default)"),
        Opt("grid", 2, says="jobs on other systems", colon=True),
        DEBUG,
        Opt("io", 2, says="jobs that move files"),
        Opt("dag", 2, says="DAGs with their nodes"),
        Opt("batch", 2, says="one line for each batch (the default)", colon=True),
        Opt("nobatch", 3, says="one line for each job"),
        Opt("totals", 3, says="only the totals"),
        Opt("expert", 1),
        Opt("jobads", 1, 1, "FILE", "the jobs of a file of long ads instead of a queue", colon=True),
        VERSION_OPT,
        Opt("stream-results", 2, says="print jobs as they come"),
    ),
    unknown="Error: unrecognized argument {}",
    usage_on_stdout=True,
)

_JOB = late_pattern(r"\d+(\.\d+)?\Z")
_NO_SCHEDD = """
Extra Info: the schedd keeps the job queue of an access point. It may not be running: `pool up` starts a pool here, and
`pool who` shows what runs. To ask another host, name its schedd with -name and its
pool with -pool, or set COLLECTOR_HOST.
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_q."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_clock()
    asked = Asked(parsed)
    if asked.file:
        from pool.classad import parse_longs

        try:
            with open(asked.file) as lines:
                ads = list(parse_longs(lines, file=asked.file))
        except OSError as error:
            raise UserError(f"Can't open file of job ads: {asked.file} ({error.strerror})") from None
        show(asked, _matching(asked, ads), q_totals.Tally.of_ads(ads), f"Jobads: {asked.file}", "")
        return 0
    session = open_session(parsed)
    asked.me = session.user()
    if asked.analyze is not None:
        from minipool.cli.q_analyze import analyze

        return analyze(session, asked)
    return _live(session, asked)


def _live(session: Session, asked: Asked) -> int:
    status = 0
    for name in _schedds(session, asked):
        try:
            with connected(session, asked, name) as peer:
                banner_name, address = identity(session, peer, name)
                try:
                    if asked.constraint:
                        expr(asked.constraint)
                    ads = [] if asked.counts_suffice else fetch(peer, asked, asked.projection())
                    if asked.parsed.has("unmatchable"):
                        from minipool.cli.q_analyze import unmatchable

                        ads = unmatchable(session, ads)
                    everybody = fetch_all(peer) if asked.needs_totals else q_totals.Tally()
                except (ClassAdError, PeerError) as error:
                    sys.stderr.write(f"\n-- Failed to fetch ads from: {address} : {banner_name}\n{error}\n\n")
                    status = 1
                    continue
        except PeerError as error:
            if name is not None and isinstance(error, NotFound):
                raise UserError("Error: Collector has no record of schedd/submitter") from None
            raise UserError(f"Error: {error}\n{_NO_SCHEDD}") from None
        show(asked, ads, everybody, banner(asked, session, banner_name, address), session.me())
    return status


def _schedds(session: Session, asked: Asked) -> list[str | None]:
    if not asked.parsed.has("global"):
        return [asked.parsed.value("name")]
    names = [ad.eval_str("Name") for ad in session.query("Scheduler", projection=["Name"])]
    return [*names] if names else [None]


def connected(session: Session, asked: Asked, name: str | None) -> BlockingPeer:
    """A connection to the schedd that the options name."""
    return session.daemon("schedd", name=name, addr=asked.parsed.value("addr"))


def identity(session: Session, peer: BlockingPeer, name: str | None) -> tuple[str, str]:
    """The schedd's name and address, as its own ad has them."""
    from protocol.messages.common import GetAd

    ad = peer.call(GetAd()).ad
    return ad.eval_str("Name", name or "schedd"), ad.eval_str("MyAddress", session.sinful("schedd"))


def banner(asked: Asked, session: Session, name: str, address: str) -> str:
    """What stands between `-- ` and the date."""
    submitter = asked.parsed.value("submitter")
    if submitter is not None:
        who = submitter if "@" in submitter else f"{submitter}@{session.uid_domain}"
        return f"Submitter: {who} : {short_address(address)} : {name}"
    return f"Schedd: {name} : {short_address(address)}"


class Asked:
    """What the command line asks for: which jobs, and in which view."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.me = ""
        self.ids = [word for word in parsed.words if _JOB.match(word)]
        self.users = [word for word in parsed.words if not _JOB.match(word)] + parsed.values("submitter")
        self.form = wanted_form(parsed)
        self.custom = AutoFormat(parsed)
        self.file = parsed.value("jobads")
        self.analyze = parsed.qualifier("better-analyze")
        self.view = self._view()
        own = q_views.VIEWS[self.view].constraint if self.view in q_views.VIEWS and self.analyze is None else ""
        given = [f"({text})" for text in parsed.values("constraint")]
        self.partial = bool(given) or any("." in job for job in self.ids)
        self.constraint = " && ".join([*given, *([f"({own})"] if own else [])]) or None
        limit = parsed.value("limit")
        self.limit = parsed.number("limit", 0) if limit is not None else None
        self.only_totals = parsed.has("totals")
        self.always_all = bool(
            self.ids or self.users or parsed.has("allusers") or parsed.has("global") or os.geteuid() == 0
        )
        self.aaf = self._appended()

    def _view(self) -> str:
        has = self.parsed.has
        for key in ("hold-codes", "hold", "run", "idle", "io", "grid", "factory", "autocluster"):
            if has(key):
                return key
        if has("nobatch") or has("unmatchable"):
            return "dag" if has("dag") else "nobatch"
        return "batch"

    def _appended(self) -> AutoFormat | None:
        names = self.parsed.values("aaf")
        if not names:
            return None
        if self.view == "batch" and not self.custom and self.form is None:
            raise UserError(
                "Error: -aaf cannot be used with -batch mode output (the default), did you intend to use -af ?"
            )
        if self.custom or self.form:
            raise UserError("Error: output formatting options conflict with -aaf options")
        return None

    @property
    def needs_totals(self) -> bool:
        """Whether the queue has to be counted as well."""
        if self.only_totals:
            return True
        if self.form or self.custom or self.parsed.has("print-format"):
            return False
        return self.view not in q_views.VIEWS or q_views.VIEWS[self.view].totals

    @property
    def counts_suffice(self) -> bool:
        """Whether the totals say all that was asked for, so that no job need be looked at."""
        narrowed = self.ids or self.users or self.constraint or self.file or self.limit is not None
        return self.only_totals and not narrowed

    def selection(self) -> Selection:
        """Which jobs the schedd is asked for; only one's own unless others are named."""
        from protocol.messages.schedd import Selection

        users = self.users or ([] if self.always_all else [self.me])
        return Selection(ids=self.ids, users=users, constraint=self.constraint, all=not (self.ids or users))

    def projection(self) -> list[str]:
        """The attributes that the output needs; empty for all."""
        if self.only_totals:
            return [*q_totals.NEEDS]
        if self.form:
            return attribute_list(self.parsed)
        if self.custom:
            return sorted({*self.custom.names(), "ClusterId", "ProcId", "ServerTime"})
        if self.parsed.has("unmatchable"):
            return []
        if self.view == "batch":
            return [*q_batch.NEEDS]
        columns = q_views.VIEWS[self.view].columns
        extra = {
            "ClusterId",
            "ProcId",
            "JobStatus",
            "JobUniverse",
            "AutoClusterId",
            "ServerTime",
            *self.parsed.values("aaf"),
        }
        return sorted({*Table(columns).names(), *extra})


def fetch(peer: BlockingPeer, asked: Asked, projection: Sequence[str]) -> list[ClassAd]:
    """The selected jobs, by id; each knows the time at which it was asked for."""
    from protocol.messages.schedd import QueryJobs

    request = QueryJobs(
        select=asked.selection(),
        projection=list(projection),
        limit=asked.limit,
        factories=asked.view == "factory" and asked.analyze is None,
    )
    ads = [ad for batch in peer.stream(request) for ad in batch.ads]
    if not projection or "ServerTime" in projection:
        now = int(time.time())
        for ad in ads:
            if "ServerTime" not in ad:
                ad["ServerTime"] = now
    return ads


def fetch_all(peer: BlockingPeer) -> q_totals.Tally:
    """All jobs of the queue, counted."""
    from protocol.messages.schedd import CountJobs

    tally = q_totals.Tally()
    tally.rows = [(one.owner, one.status, one.scheduler, one.count) for one in peer.call(CountJobs()).counts]
    return tally


def show(asked: Asked, ads: list[ClassAd], everybody: q_totals.Tally, title: str, me: str) -> None:
    """Everything that goes to standard output about one queue."""
    out = sys.stdout
    if asked.only_totals:
        out.writelines(_only_totals(asked, ads, everybody, title, me))
    elif asked.form:
        out.writelines(write_all(ads, asked.form, attribute_list(asked.parsed)))
    elif asked.custom:
        out.writelines(asked.custom.text(ads))
    else:
        out.write(f"\n\n-- {title} @ {stamp()}\n")
        out.writelines(_table(asked, ads))
        if asked.needs_totals:
            out.write("\n" + _totals(asked, ads, everybody, me))


def _table(asked: Asked, ads: list[ClassAd]) -> Iterable[str]:
    width = 0 if asked.parsed.has("wide") else terminal_width()
    if asked.view == "batch":
        return q_batch.batch_lines(ads, partial=asked.partial, width=width, always_held=asked.parsed.has("global"))
    if asked.view in ("autocluster", "hold-codes"):
        ads = _grouped(
            ads, ("AutoClusterId",) if asked.view == "autocluster" else ("HoldReasonCode", "HoldReasonSubCode")
        )
    columns = q_views.widened(q_views.VIEWS[asked.view].columns, ads)
    for how in ("cputime", "currentrun"):
        if asked.parsed.has(how):
            columns = q_views.clocked(columns, how)
    for name in asked.parsed.values("aaf"):
        columns.append(Col(name, name, width=-len(name), auto=True))
    cut = 0 if asked.view == "hold" or not width else width - 1
    table = Table(columns, width=cut)
    return table.lines([table.row(ad) for ad in ads])


def _grouped(ads: Sequence[ClassAd], keys: Sequence[str]) -> list[ClassAd]:
    groups: dict[tuple[object, ...], ClassAd] = {}
    for ad in ads:
        key = tuple(ad.eval_int(name, -1) for name in keys)
        if key not in groups:
            groups[key] = ad.copy()
            groups[key]["JobCount"] = 0
        groups[key]["JobCount"] = groups[key].eval_int("JobCount", 0) + 1
    return sorted(groups.values(), key=lambda ad: -ad.eval_int("JobCount", 0))


def _totals(asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally, me: str) -> str:
    mine = None if asked.always_all or asked.file else everybody.counts(asked.me)
    return q_totals.totals_lines(_of_query(asked, ads, everybody), everybody.counts(), mine, me)


def _of_query(asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally) -> q_totals.Counts:
    """The jobs that were asked for; where those are all, or all of one's own, they have been counted already."""
    if not asked.counts_suffice:
        return q_totals.Counts(ads)
    return everybody.counts() if asked.always_all else everybody.counts(asked.me)


def _only_totals(asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally, title: str, me: str) -> Iterable[str]:
    if not (asked.form or asked.custom):
        yield f"\n\n-- {title} @ {stamp()}\n" + _totals(asked, ads, everybody, me)
        return
    mine, query = everybody.counts(asked.me), _of_query(asked, ads, everybody)
    ad = q_totals.summary_ad(query, everybody.counts(), mine, me, int(time.time()))
    if asked.form:
        yield from write_all([ad], asked.form, attribute_list(asked.parsed))
    else:
        yield from asked.custom.text([ad])
        yield "\n"


def _matching(asked: Asked, ads: Sequence[ClassAd]) -> list[ClassAd]:
    """The jobs of a file that the command line selects."""
    wanted = expr(asked.constraint) if asked.constraint else None
    chosen = []
    for ad in ads:
        cluster, proc = ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)
        named = f"{cluster}" in asked.ids or f"{cluster}.{proc}" in asked.ids or ad.eval_str("Owner") in asked.users
        if (asked.ids or asked.users) and not named:
            continue
        if wanted is None or wanted.eval(ad) is True:
            chosen.append(ad)
    return chosen if asked.limit is None else chosen[: asked.limit]
