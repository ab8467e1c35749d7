"""condor_q: the jobs of a queue, as batches, job by job, or in another view."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.context import open_session, short_address
from minipool.cli.entry.options import Parsed
from minipool.cli.entry.tool import run
from minipool.cli.queue_tools import q_totals
from minipool.cli.queue_tools.q_asked import Asked
from minipool.cli.queue_tools.q_fetch import connected, fetch, fetch_all, identity, stream
from minipool.cli.queue_tools.q_options import TOOL
from minipool.cli.queue_tools.q_show import show
from minipool.client.job_ids import of_ad
from minipool.client.session import NotFound, Session
from minipool.client.surroundings import install_surroundings
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.classad import ClassAd, expr

if TYPE_CHECKING:
    from protocol.rpc.blocking import BlockingPeer

_NO_SCHEDD = """
Extra Info: the schedd keeps the job queue of an access point. It may not be running: `pool up` starts a pool here, and
`pool who` shows what runs. To ask another host, name its schedd with -name and its
pool with -pool, or set COLLECTOR_HOST.
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_q."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    session = open_session(parsed)
    asked = Asked(parsed, session.config)
    if asked.from_file:
        return _from_file(asked)
    asked.me = session.user()
    if asked.analyze is not None:
        from minipool.cli.queue_tools.q_analyze import analyze

        return analyze(session, asked)
    return _live(session, asked)


def _from_file(asked: Asked) -> int:
    from minipool.cli.output.ad_files import form_of, read

    if asked.userlog is not None:
        from minipool.cli.queue_tools.log_ads import jobs_of_log

        ads, label = jobs_of_log(asked.userlog, cannot="\nCan't open user log: {path}"), f"Userlog: {asked.userlog}"
    else:
        path = asked.file or ""
        ads, label = read(path, form=form_of(asked.parsed.qualifier("jobads"))), f"Jobads: {path}"
    chosen = _matching(asked, ads)
    if asked.analyze is not None:
        from minipool.cli.queue_tools.q_analyze import analyze_ads

        return analyze_ads(asked, chosen, label)
    show(asked, chosen, q_totals.Tally.of_ads(ads), label, "")
    return 0


def _live(session: Session, asked: Asked) -> int:
    status = 0
    names = _schedds(session, asked)
    if not names:
        sys.stdout.write("All queues are empty\n")
    for name in names:
        try:
            with connected(session, asked, name) as peer:
                # The banner says who answered, by that schedd's own ad: a name may have been short.
                banner_name, address = identity(session, peer, name)
                try:
                    _one_queue(session, asked, peer, banner(asked, session, banner_name, address))
                # With -global the other queues are shown all the same.
                except (ClassAdError, PeerError) as error:
                    sys.stderr.write(f"\n-- Failed to fetch ads from: {address} : {banner_name}\n{error}\n\n")
                    status = 1
        except PeerError as error:
            if name is not None and isinstance(error, NotFound):
                raise UserError("Error: Collector has no record of schedd/submitter") from None
            raise UserError(f"Error: {error}\n{'' if asked.parsed.has('expert') else _NO_SCHEDD}") from None
    return status


def _one_queue(session: Session, asked: Asked, peer: BlockingPeer, title: str) -> None:
    if asked.constraint:
        expr(asked.constraint)
    if asked.parsed.has("stream-results"):
        everybody = fetch_all(peer) if asked.needs_totals else q_totals.Tally()
        show(asked, stream(peer, asked, asked.projection()), everybody, title, session.me())
        return
    ads = [] if asked.counts_suffice else fetch(peer, asked, asked.projection())
    if asked.parsed.has("unmatchable"):
        from minipool.cli.queue_tools.q_analyze import unmatchable

        ads = unmatchable(session, ads)
    everybody = fetch_all(peer) if asked.needs_totals else q_totals.Tally()
    if not (asked.parsed.has("global") and not ads and not everybody.rows and asked.needs_totals):
        show(asked, ads, everybody, title, session.me())


def _schedds(session: Session, asked: Asked) -> list[str | None]:
    parsed = asked.parsed
    if not (parsed.has("global") or parsed.has("schedd-constraint")):
        return [parsed.value("name")]
    found = session.query("Scheduler", constraint=parsed.value("schedd-constraint"), projection=["Name"])
    return [ad.eval_str("Name") for ad in found]


def banner(asked: Asked, session: Session, name: str, address: str) -> str:
    """What stands between `-- ` and the date."""
    submitter = asked.parsed.value("submitter")
    if submitter is not None:
        who = submitter if "@" in submitter else f"{submitter}@{session.uid_domain}"
        return f"Submitter: {who} : {short_address(address)} : {name}"
    return f"Schedd: {name} : {short_address(address)}"


def _matching(asked: Asked, ads: Sequence[ClassAd]) -> list[ClassAd]:
    """The jobs of a file that the command line selects, by id."""
    wanted = expr(asked.constraint) if asked.constraint else None
    chosen = []
    for ad in ads:
        cluster, proc = of_ad(ad)
        named = f"{cluster}" in asked.ids or f"{cluster}.{proc}" in asked.ids or ad.eval_str("Owner") in asked.users
        if (asked.ids or asked.users) and not named:
            continue
        if wanted is None or wanted.eval(ad) is True:
            chosen.append(ad)
    chosen.sort(key=of_ad)
    return chosen if asked.limit is None else chosen[: asked.limit]
