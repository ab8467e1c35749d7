"""condor_who: the daemons of this host, and the jobs that run on it."""

from __future__ import annotations

import sys

from minipool.cli import print_as
from minipool.cli.ad_output import wanted_form, write_all
from minipool.cli.autoformat import AutoFormat
from minipool.cli.context import install_clock, open_session
from minipool.cli.mask import MISSING, Column, PrintAs
from minipool.cli.options import Opt, Parsed
from minipool.cli.print_format import append, from_file
from minipool.cli.print_format import parse as parse_format
from minipool.cli.show import duration
from minipool.cli.tool import DEBUG, FORMATTING, HELP, VERSION_OPT, Tool, refused, run
from minipool.session import Session
from pool.classad import ClassAd, expr
from pool.errors import ClassAdError, PeerError, UserError
from pool.hints import Any, Final, Sequence

TOOL = Tool(
    "condor_who",
    "Show the daemons of this host and the jobs that run on it.",
    "[options]",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        *refused("wait", "pool up returns when the daemons are ready"),
        *refused("diagnostic", "-debug says more"),
        *refused("address allpids logdir pid startd", "the daemons of this host are found by their sockets"),
        *refused("snapshot statistics", "condor_status -direct HOST -long shows them"),
        *refused("banner-format ospool verbose", "there is one layout; -af makes others"),
        *FORMATTING,
        Opt("aaf", 3, -1, "ATTR...", "add columns to the table of jobs", True),
        Opt("print-format", 2, 1, "FILE", "take the columns of the table of jobs from a file", True),
        Opt("constraint", 3, 1, "EXPR", "only slots for which the expression is true"),
        Opt("limit", 3, 1, "N", "show no more than N slots"),
        Opt("daemons quickdaemons", 3, says="only the daemons"),
        Opt("jobs", 2, says="only the jobs"),
        Opt("wide", 1, says="do not cut lines", colon=True),
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
JOBS = """SELECT
    RemoteUser    AS OWNER   WIDTH AUTO LEFT PRINTF %s
    ClientMachine AS CLIENT  WIDTH AUTO LEFT PRINTF %s
    Name          AS SLOT    WIDTH 4 PRINTAS SLOT_ID
    JobId         AS JOB     WIDTH AUTO LEFT PRINTF %s
    Activity      AS RUNTIME WIDTH 10 PRINTAS RUN_TIME
    JobPid        AS PID     WIDTH AUTO LEFT PRINTF %d
    JobCmd        AS PROGRAM WIDTH 0
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
    install_clock()
    session = open_session(parsed)
    form, custom = wanted_form(parsed), AutoFormat(parsed, job_id=False)
    jobs = [] if parsed.has("daemons") else _chosen(parsed, _jobs(session))
    if form:
        sys.stdout.writelines(write_all(jobs, form, empty_json=True))
    elif custom:
        sys.stdout.writelines(custom.text(jobs))
    else:
        if not parsed.has("jobs"):
            _show(DAEMONS, _daemons(session))
        if not parsed.has("daemons"):
            if not parsed.has("jobs"):
                sys.stdout.write("\n")
            _show(JOBS, jobs, parsed)
    return 0


def _chosen(parsed: Parsed, ads: list[ClassAd]) -> list[ClassAd]:
    for text in parsed.values("constraint"):
        try:
            wanted = expr(text)
        except ClassAdError:
            raise UserError(f"Error: invalid constraint: {text}") from None
        ads = [ad for ad in ads if wanted.eval(ad) is True]
    return ads[: parsed.number("limit", len(ads))]


def _show(text: str, ads: Sequence[ClassAd], parsed: Parsed | None = None) -> None:
    path = parsed.value("print-format") if parsed is not None else None
    table = from_file(path, FUNCTIONS) if path else parse_format(text.split("\n"), FUNCTIONS, truncate=False)
    if parsed is not None:
        append(table.mask, parsed.values("aaf"), FUNCTIONS, parsed.qualifier("aaf") or "")
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


def _jobs(session: Session) -> list[ClassAd]:
    from protocol.address import Address

    path = session.local_socket("startd")
    if path is None:
        return []
    try:
        return session.query("Machine", constraint='State == "Claimed"', address=Address.unix(path))
    except PeerError as error:
        raise UserError(f"Error: the startd does not answer: {error}") from None
