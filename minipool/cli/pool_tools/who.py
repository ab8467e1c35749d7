"""condor_who: the daemons of this host, and the jobs that run on it.

It asks the startd of this host itself, not the collector, so that it works while the pool is out of reach. Whole ads
win over rows, and those over the table. Without a startd there is nothing to show, and that is no failure. Source:
HTCondor's manual page condor_who.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, FORMATTING, HELP, VERSION_OPT, Tool, refused, run
from minipool.cli.output import print_as
from minipool.cli.output.ad_form import AdForm
from minipool.cli.output.mask import MISSING, Column, PrintAs
from minipool.cli.output.print_format import parse as parse_format
from minipool.cli.output.show import duration
from minipool.client.session import Session
from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.base.ids import is_number
from pool.classad import ClassAd, expr

if TYPE_CHECKING:
    from protocol.wire.address import Address

TOOL = Tool(
    "condor_who",
    "Show the daemons of this host and the jobs that run on it.",
    "[options]",
    (
        HELP,
        VERSION_OPT._replace(least=7),
        DEBUG,
        Opt("daemons", 3, says="only the daemons"),
        Opt("quickdaemons", 4, says="whether the daemons are up, as one ad"),
        Opt("wait-for-ready", 4, 1, "EXPR", "the same as soon as EXPR is true for it, or :SECONDS are over", True),
        Opt("verbose", 4, says="the daemons, too (`pool who` shows them always)"),
        Opt("diagnostic", 4, says="the address that is asked, too"),
        Opt("address", 4, 1, "ADDRESS", "the startd at this address"),
        Opt("allpids", 2, says="all startds of this host (there is one)"),
        *refused("logdir pid", "a startd is found by its socket; -address names another", 3),
        Opt("jobs", 3, says="the jobs' own ads instead of their slots'"),
        Opt("startd", 6, says="the startd's own ad instead of its slots'"),
        Opt("snapshot", 4, says="all that the startd knows: slots without jobs, jobs, what cron jobs said", colon=True),
        Opt("statistics", 4, 1, "SET:LEVEL", "which statistics the startd's ad shows"),
        Opt("constraint", 3, 1, "EXPR", "only ads for which the expression is true"),
        Opt("limit", 3, 1, "N", "show no more than N ads"),
        Opt("wide", 1, says="do not cut lines", colon=True),
        *FORMATTING,
        Opt("aaf", 3, -1, "ATTR...", "add columns to the table", True),
        Opt("print-format", 2, 1, "FILE", "take the columns of the table from a file", True),
        *refused("banner-format", "the banner is one line", 3),
        *refused("ospool", "there are no glide-ins here", 3),
    ),
)


def _run_time(_: Any, ad: ClassAd, __: Column) -> Any:
    since, now = ad.eval_int("JobStart") or ad.eval_int("EnteredCurrentActivity"), ad.eval_int("MyCurrentTime")
    return MISSING if since is None or now is None else duration(max(0, now - since)).strip()


def _slot(value: Any, _: ClassAd, __: Column) -> Any:
    return value.partition("@")[0].removeprefix("slot")


FUNCTIONS: Final = {
    **print_as.FUNCTIONS,
    "JOB_PID": PrintAs("v", render=lambda value, _, __: value, printf="%v", needs=("JobPid",)),
    "JOB_PROGRAM": PrintAs("v", render=lambda value, _, __: value, printf="%v", needs=("JobCmd",)),
    "SLOT_ID": PrintAs("s", render=_slot, needs=("Name",)),
    "RUN_TIME": PrintAs("v", render=_run_time, needs=("JobStart", "EnteredCurrentActivity", "MyCurrentTime")),
}
SLOTS = """SELECT
    RemoteUser    AS OWNER   WIDTH AUTO LEFT PRINTF %s
    ClientMachine AS CLIENT  WIDTH AUTO LEFT PRINTF %s
    Name          AS SLOT    WIDTH 4 PRINTAS SLOT_ID
    JobId         AS JOB     WIDTH AUTO LEFT PRINTF %s
    Activity      AS RUNTIME WIDTH 10 PRINTAS RUN_TIME
    JobPid        AS PID     WIDTH AUTO LEFT PRINTF %d OR ' '
    JobCmd        AS PROGRAM WIDTH AUTO LEFT PRINTF %s OR ' '
"""
JOBS = """SELECT
    split(Name, "@")[0] AS SLOT     WIDTH AUTO LEFT PRINTF %s
    User                AS USER     WIDTH AUTO LEFT PRINTF %s
    JobPid              AS PID      WIDTH AUTO LEFT PRINTF %d OR ' '
    MemoryUsage         AS MEM_USE  WIDTH 8 PRINTAS READABLE_MB OR ' '
    Cmd                 AS PROGRAM  WIDTH AUTO LEFT PRINTF %s
"""
STARTD = """SELECT
    Name      AS NAME    WIDTH AUTO LEFT PRINTF %s
    MyAddress AS ADDRESS WIDTH AUTO LEFT PRINTF %s
"""
DAEMONS = """SELECT
    Name      AS Daemon   WIDTH -12 PRINTF %s
    State     AS State    WIDTH -8 PRINTF %s
    Pid       AS PID      WIDTH 7 PRINTF %d
    StartTime AS Started  WIDTH 11 PRINTAS DATE
    Restarts  AS Restarts WIDTH 8 PRINTF %d
    LastExit  AS LastExit WIDTH 0 PRINTF %s
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_who."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    session = open_session(parsed)
    if parsed.has("quickdaemons") or parsed.has("wait-for-ready"):
        return _readiness(session, parsed)
    shown = AdForm(parsed, job_id=False).is_table
    if parsed.has("daemons"):
        _print(_daemons(session), DAEMONS, parsed)
        return 0
    # condor_who shows daemons only when asked to; `pool who` is for people.
    if shown and (parsed.has("verbose") or not os.path.basename(sys.argv[0]).startswith("condor_")):
        _show(DAEMONS, _daemons(session))
    startd = AskedStartd(session, parsed)
    ads = _chosen(parsed, startd.ads())
    if not shown or parsed.has("snapshot"):
        _print(ads, "", parsed)
    elif parsed.has("startd"):
        sys.stdout.write("\n")
        _show(STARTD, ads, parsed)
        sys.stdout.write("\n")
    elif ads:
        sys.stdout.write(f"\n--Startd : {startd.name()} has {len(ads)} job(s) running:\n")
        _show(JOBS if parsed.has("jobs") else SLOTS, ads, parsed)
        sys.stdout.write("\n")
    return 0


def _readiness(session: Session, parsed: Parsed) -> int:
    """What scripts wait for that start a pool; without a master its ad says that it is dead."""
    from minipool.cli.pool_tools.who_ready import ready_ad, wait

    text = parsed.value("wait-for-ready")
    if text is None:
        ad = ready_ad(session)
    else:
        try:
            wanted = expr(text)
        except ClassAdError:
            raise UserError(f"Error: -wait-for-ready : invalid expression: {text}") from None
        seconds = parsed.qualifier("wait-for-ready") or "0"
        if not is_number(seconds):
            raise UserError(f"Error: -wait-for-ready:{seconds} : {seconds} is not a number of seconds")
        ad = wait(session, wanted, float(seconds))
    _print([ad or ClassAd({"MASTER": "Dead", "IsReady": False})], "", parsed)
    return 0 if ad is not None else 1


def _print(ads: Sequence[ClassAd], table: str, parsed: Parsed) -> None:
    """Ads in the form that the options ask for; else a table, or whole."""
    output = AdForm(parsed, job_id=False)
    if output.is_table and table:
        _show(table, ads)
        return
    if output.is_table:
        output.whole = "long"
    sys.stdout.writelines(output.text(ads, empty_json=True))


class AskedStartd:
    """The startd that is asked: this host's, or one at an address."""

    def __init__(self, session: Session, parsed: Parsed) -> None:
        self._session, self._parsed = session, parsed
        self._address = self._found()

    def _found(self) -> Address | None:
        from protocol.wire.address import Address

        given = self._parsed.value("address")
        if given is not None:
            return self._session.address("startd", addr=given)
        path = self._session.local_socket("startd")
        return Address.unix(path) if path is not None else None

    def ads(self) -> list[ClassAd]:
        """Slots with jobs, or what the options ask for instead; none without a startd."""
        parsed = self._parsed
        if self._address is None:
            return []
        if parsed.has("diagnostic"):
            sys.stdout.write(f"querying addr = {self._address}\n")
        try:
            if parsed.has("startd"):
                return [self._own()]
            found = self._session.query("Machine", address=self._address, snapshot=True)
        except PeerError as error:
            raise UserError(f"Error: communication error\n{error}") from None
        jobs = [ad for ad in found if ad.eval_str("MyType") == "Slot.Claim"]
        if parsed.has("snapshot") or parsed.has("jobs"):
            return jobs if parsed.has("jobs") else found
        by_slot = {ad.eval_str("Name"): ad for ad in jobs}
        # A claimed slot may wait for its next job: one with a JobId runs it.
        slots = [ad for ad in found if ad.eval_str("MyType") == "Machine" and ad.eval_str("State") == "Claimed"]
        return [_with_job(slot, by_slot.get(slot.eval_str("Name"))) for slot in slots if "JobId" in slot]

    def name(self) -> str:
        """What the startd calls itself."""
        return self._own().eval_str("Name", "")

    def _own(self) -> ClassAd:
        from protocol.messages.common import GetAd

        assert self._address is not None
        with self._session.connect(self._address) as peer:
            ad = peer.call(GetAd()).ad
        wanted = self._parsed.value("statistics")
        if wanted is None:
            return ad
        from pool.ads.published_statistics import parse

        return parse(wanted).shown(ad)


def _with_job(slot: ClassAd, job: ClassAd | None) -> ClassAd:
    """The slot's ad, which knows what its job runs."""
    if job is not None:
        for name, own in (("JobCmd", "Cmd"), ("JobPid", "JobPid")):
            if own in job and name not in slot:
                slot[name] = job.eval(own)
    return slot


def _chosen(parsed: Parsed, ads: list[ClassAd]) -> list[ClassAd]:
    for text in parsed.values("constraint"):
        try:
            wanted = expr(text)
        except ClassAdError:
            raise UserError(f"Error: invalid constraint: {text}") from None
        ads = [ad for ad in ads if wanted.eval(ad) is True]
    return ads[: parsed.number("limit", len(ads))]


def _show(text: str, ads: Sequence[ClassAd], parsed: Parsed | None = None) -> None:
    if parsed is None:
        table = parse_format(text.split("\n"), FUNCTIONS, truncate=False)
    else:
        table = AdForm(parsed).table(text, FUNCTIONS, truncate=False)
    wanted = expr(table.where or "true")
    rows = [table.mask.render(ad) for ad in ads if wanted.eval(ad) is True]
    sys.stdout.write(table.mask.heading() if table.header and table.mask.has_heading else "")
    sys.stdout.writelines(table.mask.display(row) for row in rows)


def _daemons(session: Session) -> list[ClassAd]:
    from protocol.messages.master import GetDaemons

    path = session.local_socket("master")
    if path is None:
        raise UserError(f"No pool runs here: there is no master in {session.run_dir} (start one: pool up)")
    try:
        with session.daemon("master") as peer:
            return peer.call(GetDaemons()).daemons
    except PeerError as error:
        raise UserError(f"Error: the master does not answer: {error}") from None
