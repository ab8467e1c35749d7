"""condor_history: jobs that left the queue, newest first; also their executions, and what files tell of jobs.

Newest first unless -forwards. Files are read where they are; without one the schedd is asked. -limit counts the ads
that match, -scanlimit those that are looked at, and -since stops before the ad that it names. What is not compatible
is refused before anything is read. Source: HTCondor's manual page condor_history.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from minipool.cli.entry.console import line_width
from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.cli.output.ad_form import AdForm
from minipool.cli.output.ad_output import XML_FOOT, XML_HEAD, attribute_list, sorted_names, write_all
from minipool.cli.output.print_as import FUNCTIONS
from minipool.cli.queue_tools.history_files import files_of, of_files, remove, with_earlier
from minipool.client.job_ids import of_ad, split
from minipool.client.session import NotFound, Session
from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.base.ids import named_jobs, names_jobs
from pool.base.words import split_list
from pool.classad import ClassAd, Expr, expr

TOOL = Tool(
    "condor_history",
    "Show jobs that left the queue.",
    "[CLUSTER | CLUSTER.PROC | OWNER]... [options]",
    (
        FORMATTING[2],
        FORMATTING[5],
        Opt("jsonl", 5, says="print ads as JSON, one line for each"),
        FORMATTING[4]._replace(least=4),
        Opt("backwards", 1, says="newest first (the default)"),
        Opt("forwards nobackwards", (4, 3), says="oldest first"),
        Opt("wide", 1, says="do not cut lines at the width of the terminal (:N: at N)", colon=True),
        Opt("limit match", (3, 1), 1, "N", "show no more than N ads"),
        Opt("scanlimit", 4, 1, "N", "look at no more than N ads"),
        Opt("file", 2, 1, "FILE", "read this file of ads"),
        Opt("userlog", 1, 1, "FILE", "what an event log tells of jobs"),
        Opt("local", 2, says="ask this host's schedd"),
        Opt("startd", 3, says="the file of jobs that ran on this host (STARTD_HISTORY)"),
        Opt("schedd", 3, says="jobs that left the queue (the default)"),
        Opt("stream-results", 6, says="accepted: ads are printed as they come", colon=True),
        FORMATTING[3],
        HELP,
        FORMATTING[1],
        FORMATTING[0],
        Opt("print-format", 2, 1, "FILE", "take the columns from a file", True),
        Opt("daemon", 3, says="the file of a daemon's own ads (<SUBSYS>_DAEMON_HISTORY)", colon=True),
        Opt(
            "epochs", 2, says="executions of jobs instead of jobs (:d: and remove the files that were read)", colon=True
        ),
        Opt("transfer-history", 2, says="transfers of files (:i input, :o output, :c checkpoints)", colon=True),
        Opt("type", 2, 1, "TYPE,...", "ads of these types: JOB, EPOCH, TRANSFER, INPUT ... or ALL"),
        Opt("directory", 3, says="with -epochs: the files of JOB_EPOCH_HISTORY_DIR"),
        Opt("search", 3, 1, "PATH", "this file and its earlier parts; with -directory, the files of this directory"),
        Opt("constraint", 1, 1, "EXPR", "only ads for which the expression is true"),
        Opt("since", 4, 1, "ID|EXPR", "stop at this job, or where the expression is first true"),
        Opt("completedsince", 3, 1, "TIME", "only jobs that completed after this moment (epoch seconds)"),
        Opt("extract", 2, 1, "FILE", "copy the ads into a file that -file reads"),
        DEBUG._replace(least=3),
        *refused("inherit", "there is no history helper that could inherit a socket"),
        Opt("diagnostic", 4, says="accepted: -debug says more"),
        Opt("no-librarian", 12, says="accepted: there is none"),
        NAME,
        POOL,
        VERSION_OPT,
    ),
    unknown="Error: Unknown argument {}",
    usage_on_stdout=True,
)

_TRANSFERS: Final = {"i": "INPUT", "o": "OUTPUT", "c": "CHECKPOINT"}
JOBS = """SELECT
    ClusterId      AS ' ID         '  WIDTH AUTO PRINTAS JOB_ID
    Owner          AS OWNER           WIDTH -14  PRINTAS OWNER OR ??
    QDate          AS '  SUBMITTED'   WIDTH 11   PRINTAS QDATE OR ??
    RemoteWallClockTime ?: (RemoteUserCpu ?: 0) AS '  RUN_TIME  ' WIDTH 12 PRINTF %T
    JobStatus      AS ST              PRINTAS JOB_STATUS
    CompletionDate AS '  COMPLETED'   WIDTH 11   PRINTAS QDATE
    Cmd            AS CMD             WIDTH 0    PRINTAS JOB_DESCRIPTION
"""
DAEMONS = """SELECT
    RecordWriteDate AS 'TIMESTAMP  ' WIDTH -11 PRINTAS QDATE OR ??
    RecentDaemonCoreDutyCycle ?: 0 * 100 AS DUTY_CYCLE PRINTF '%7.2f%%'
    TotalRunningJobs AS RunningJobs  PRINTF %11d
    TotalIdleJobs    AS '  IdleJobs' PRINTF %10d
    TotalHeldJobs    AS '  HeldJobs' PRINTF %10d
    TransferQueueNumDownloading       AS Download   PRINTF %8d
    TransferQueueNumWaitingToDownload AS Waiting    PRINTF %7d
    FileTransferMBWaitingToDownload   AS WaitingMB  PRINTF %9.2f
    TransferQueueNumUploading         AS '  Upload' PRINTF %8d
    TransferQueueNumWaitingToUpload   AS Waiting    PRINTF %7d
    FileTransferMBWaitingToUpload     AS WaitingMB  PRINTF %9.2f
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_history."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    asked = HistoryQuery(parsed)
    _show(asked, asked.found())
    if "d" in (parsed.qualifier("epochs") or "").lower():
        sys.stdout.flush()
        remove(asked.read)
    return 0


class HistoryQuery:
    """What the command line asks for."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.forwards = parsed.has("forwards")
        self.read: list[str] = []
        """The files of single jobs that are looked through."""
        self._refuse_contradictions()
        self.output = AdForm(parsed)
        if parsed.has("jsonl"):
            self.output.whole = "jsonl"
        self.table = self.output.table(DAEMONS if parsed.has("daemon") else JOBS, FUNCTIONS)
        self.kinds = self._kinds()
        if parsed.has("transfer-history") and self.output.is_table and not parsed.has("print-format"):
            raise UserError(
                "Error: -transfer-history does not have a default print table. "
                "Please use -long, -json, -xml, or a custom print format."
            )
        self.constraint = self._constraint(self.table.where)
        self.ids, self.users = split(parsed.words)
        self.limit = self._count("limit")
        self.scan_limit = self._count("scanlimit")
        self.since = self._since()

    def _refuse_contradictions(self) -> None:
        parsed = self.parsed
        if self.forwards and parsed.has("since"):
            raise UserError("Error: Argument -forwards cannot be combined with -since.")
        if parsed.has("local") and parsed.has("name"):
            raise UserError("Error: Arguments -local and -name cannot be used together")
        sources = [key for key in ("startd", "schedd", "daemon", "epochs", "transfer-history") if parsed.has(key)]
        if len(sources) > 1:
            raise UserError(f"Error: -{sources[0]} can not be used in association with -{sources[1]}.")
        if sum(parsed.has(key) for key in ("xml", "json", "jsonl")) > 1:
            raise UserError("Error: Cannot use more than one of XML and JSON[L]")
        # Only files that were read to their end may go, and only those of executions: the history has no second copy.
        if "d" in (parsed.qualifier("epochs") or "").lower():
            for key, what in (("scanlimit", "-scanlimit"), ("limit", "-limit or -match")):
                if parsed.has(key):
                    raise UserError(f"Error: -epoch:d (delete) cannot be used with {what}.")
            if not parsed.has("directory"):
                raise UserError("Error: -epochs:d (delete) only removes files of JOB_EPOCH_HISTORY_DIR: say -directory")
        if parsed.has("extract") and not (parsed.has("constraint") or parsed.words):
            raise UserError("Error: -extract requires a constraint for which ClassAds to copy")

    def _kinds(self) -> list[str]:
        """The kinds of records to look for; none for finished jobs."""
        parsed = self.parsed
        named = [kind.upper() for text in parsed.values("type") for kind in split_list(text)]
        if "TRANSFER" in named:
            named += _TRANSFERS.values()
        letters = (parsed.qualifier("transfer-history") or "").lower()
        if parsed.has("transfer-history"):
            for letter in letters:
                if letter not in _TRANSFERS:
                    raise UserError(f"Error: Unknown -transfer-history extra attribute '{letter}'")
            named += [_TRANSFERS[letter] for letter in letters or "ioc"]
        elif parsed.has("epochs") and not named:
            named = ["EPOCH"]
        return [] if named == ["JOB"] and not parsed.has("epochs") else named

    def _count(self, key: str) -> int | None:
        """A bound; a negative one is none."""
        if not self.parsed.has(key):
            return None
        count = self.parsed.number(key, 0)
        # -1 is "all" in HTCondor's scripts.
        return count if count >= 0 else None

    def _constraint(self, where: str) -> str | None:
        parts = [f"({text})" for text in (*self.parsed.values("constraint"), where) if text]
        text = " && ".join(parts)
        if not text:
            return None
        try:
            expr(text)
        except ClassAdError as error:
            raise UserError(f"Error:  could not parse constraint {text}\n{error}") from None
        return text

    def _since(self) -> str | None:
        completed = self.parsed.value("completedsince")
        if completed is not None:
            try:
                expr(f"CompletionDate <= {completed}")
            except ClassAdError:
                raise UserError(f"Error: '{completed}' not valid parameter for -completedsince ") from None
            return f"CompletionDate <= {completed}"
        since = self.parsed.value("since")
        if since is not None and not names_jobs(since):
            try:
                expr(since)
            except ClassAdError:
                raise UserError(
                    f"Error: invalid -since constraint: {since}\n\tconstraint must be a job-id, or expression."
                ) from None
        return since

    def projection(self) -> list[str]:
        """The attributes to fetch; empty for all."""
        ids = ("ClusterId", "ProcId")
        return self.output.projection([*self.table.names(), *ids], ids)

    def found(self) -> Iterable[ClassAd]:
        """The ads, from where the options say."""
        parsed = self.parsed
        path = parsed.value("file")
        if path is not None:
            return self._chosen(of_files([path], self.kinds or ["JOB"], self.forwards))
        log = parsed.value("userlog")
        if log is not None:
            from minipool.cli.queue_tools.log_ads import jobs_of_log

            return self._chosen(jobs_of_log(log, cannot="Error: Can't open userlog {path}"))
        searched = self._searched()
        if searched is not None:
            return self._chosen(of_files(searched, self.kinds or ["JOB"], self.forwards))
        return _of_schedd(open_session(parsed), self)

    def _searched(self) -> list[str] | None:
        """The files to look through; None to ask the schedd."""
        parsed = self.parsed
        path = parsed.value("search")
        if parsed.has("directory"):
            directory = path or self._knob("JOB_EPOCH_HISTORY_DIR")
            self.read = files_of(directory, self.forwards)
            return self.read
        if parsed.has("daemon"):
            daemon = (parsed.qualifier("daemon") or "schedd").upper()
            path = path or self._knob(f"{daemon}_DAEMON_HISTORY", "daemon history")
            self.kinds = self.kinds or [daemon]
        elif parsed.has("startd"):
            path = path or self._knob("STARTD_HISTORY")
        return None if path is None else with_earlier(path, self.forwards)

    def _knob(self, name: str, what: str = "history") -> str:
        value = open_session(self.parsed).config.str(name, default="")
        if not value:
            raise UserError(f"Error: No {what} to read: {name} undefined")
        return value

    def _chosen(self, ads: Iterable[ClassAd]) -> Iterator[ClassAd]:
        """The ads of files that the command line selects."""
        wanted = expr(self.constraint or "true")
        since = _since_expr(self.since)
        words = {*self.ids, *self.users}
        left = self.limit
        for seen, ad in enumerate(ads):
            # -since stops before the ad that it names: whoever polls gives the last one seen.
            if seen == self.scan_limit or left == 0 or (since is not None and since.eval(ad) is True):
                return
            id = of_ad(ad)
            named = {str(id), str(id.cluster), ad.eval_str("Owner", "")}
            if (not words or words & named) and wanted.eval(ad) is True:
                left = None if left is None else left - 1
                yield ad


def _since_expr(since: str | None) -> Expr | None:
    """Where a search stops, as an expression."""
    if since is None:
        return None
    named = named_jobs(since)
    if named is None:
        return expr(since)
    cluster, proc = named
    return expr(f"ClusterId == {cluster}" + ("" if proc is None else f" && ProcId == {proc}"))


def _show(asked: HistoryQuery, ads: Iterable[ClassAd]) -> None:
    """Everything that goes to standard output, ad by ad."""
    out, only = sys.stdout, attribute_list(asked.parsed)
    path = asked.parsed.value("extract")
    if path is not None:
        _extract(list(ads), path, asked.forwards)
    elif asked.output.whole == "xml":
        out.write(XML_HEAD + "\n")
        for piece in write_all(ads, "xml", only, xml_gap="\n"):
            out.write(piece if piece not in (XML_HEAD, XML_FOOT) else XML_FOOT + "\n" if piece == XML_FOOT else "")
    elif asked.output.whole == "jsonl":
        from pool.classad.forms.json_form import to_json

        for ad in ads:
            out.write(to_json(ad, sorted_names(ad, only), compact=True) + "\n")
    elif asked.output.whole:
        out.writelines(asked.output.text(ads, empty_json=True))
    else:
        mask = asked.output.rows.mask if asked.output.rows else asked.table.mask
        if asked.output.is_table:
            width = line_width(asked.parsed)
            mask.width = width if asked.parsed.has("wide") else max(0, width - 1)
        out.write(mask.heading() if mask.has_heading and (asked.output.rows or asked.table.header) else "")
        out.writelines(mask.lines(ads))


def _extract(ads: Sequence[ClassAd], path: str, forwards: bool) -> None:
    """Copy ads into a file of the same kind, oldest first."""
    from pool.jobs.queue.history_file import job_banner

    sys.stdout.write(f"\nWriting {len(ads)} matched ads to {path}...\n")
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            for ad in ads if forwards else reversed(ads):
                file.write(ad.long() + job_banner(ad))
    except OSError as error:
        raise UserError(f"Error: Failed to open extraction file {path}: {error.strerror}") from None


def _of_schedd(session: Session, asked: HistoryQuery) -> Iterable[ClassAd]:
    from protocol.messages.schedd import QueryHistory, Selection

    select = Selection(
        ids=asked.ids, users=asked.users, constraint=asked.constraint, all=not (asked.ids or asked.users)
    )
    request = QueryHistory(
        select=select,
        projection=sorted(set(asked.projection())),
        limit=asked.limit,
        forwards=asked.forwards,
        since=asked.since,
        kinds=asked.kinds,
        scan_limit=asked.scan_limit,
    )
    name = asked.parsed.value("name")
    try:
        with session.daemon("schedd", name=name) as peer:
            for batch in peer.stream(request):
                yield from batch.ads
    except NotFound:
        raise UserError(f"Unable to locate remote schedd (name={name or ''}, pool={session.pool or ''}).") from None
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
