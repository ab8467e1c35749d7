"""condor_who: the daemons of this host, and the jobs that run on it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.ad_output import wanted_form, write_all
from minipool.cli.autoformat import AutoFormat
from minipool.cli.columns import Col, Table
from minipool.cli.context import install_clock, open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.show import date, duration
from minipool.cli.tool import DEBUG, FORMATTING, HELP, VERSION_OPT, Tool, run
from minipool.session import Session
from pool.classad import ClassAd
from pool.errors import PeerError, UserError

TOOL = Tool(
    "condor_who",
    "Show the daemons of this host and the jobs that run on it.",
    "[options]",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        *FORMATTING,
        Opt("daemons quickdaemons", 3, says="only the daemons"),
        Opt("jobs", 2, says="only the jobs"),
        Opt("wide", 1, says="do not cut lines", colon=True),
    ),
)


def _job(ad: ClassAd) -> str | None:
    return ad.eval_str("JobId")


def _run_time(ad: ClassAd) -> str | None:
    since, now = ad.eval_int("JobStart") or ad.eval_int("EnteredCurrentActivity"), ad.eval_int("MyCurrentTime")
    return None if since is None or now is None else duration(max(0, now - since)).strip()


def _client(ad: ClassAd) -> str | None:
    return ad.eval_str("ClientMachine")


def _slot(ad: ClassAd) -> str:
    return (ad.eval_str("Name") or "").partition("@")[0].removeprefix("slot")


def _started(ad: ClassAd) -> str | None:
    at = ad.eval_int("StartTime", 0)
    return date(at) if at else None


JOBS = (
    Col("OWNER", "RemoteUser", width=-5, auto=True),
    Col("CLIENT", _client, width=-6, auto=True, needs=("ClientMachine",)),
    Col("SLOT", _slot, width=4, auto=True, needs=("Name",)),
    Col("JOB", _job, width=-3, auto=True, needs=("JobId",)),
    Col("RUNTIME", _run_time, width=10, needs=("JobStart", "EnteredCurrentActivity", "MyCurrentTime")),
    Col("PID", "JobPid", width=-4, auto=True),
    Col("PROGRAM", "JobCmd", width=0),
)
DAEMONS = (
    Col("Daemon", "Name", width=-12, auto=True),
    Col("State", "State", width=-8, auto=True),
    Col("PID", "Pid", width=7),
    Col("Started", _started, width=11),
    Col("Restarts", "Restarts", width=8),
    Col("LastExit", "LastExit", width=0),
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_who."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_clock()
    session = open_session(parsed)
    form, custom = wanted_form(parsed), AutoFormat(parsed, job_id=False)
    jobs = [] if parsed.has("daemons") else _jobs(session)
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
            _show(JOBS, jobs)
    return 0


def _show(columns: Sequence[Col], ads: Sequence[ClassAd]) -> None:
    table = Table(columns)
    sys.stdout.writelines(table.lines([table.row(ad) for ad in ads]))


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
