"""condor_history: jobs that left the queue, newest first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from minipool.cli.ad_output import XML_FOOT, XML_HEAD, attribute_list, wanted_form, write_all
from minipool.cli.autoformat import AutoFormat
from minipool.cli.console import terminal_width
from minipool.cli.context import install_clock, open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.print_as import FUNCTIONS
from minipool.cli.print_format import parse as parse_format
from minipool.cli.tool import DEBUG, FORMATTING, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.session import NotFound, Session
from pool.classad import ClassAd, expr
from pool.errors import ClassAdError, PeerError, UserError
from pool.late_pattern import late_pattern

TOOL = Tool(
    "condor_history",
    "Show jobs that left the queue.",
    "[CLUSTER | CLUSTER.PROC | OWNER]... [options]",
    (
        HELP,
        Opt("backwards", 1, says="newest first (the default)"),
        Opt("forwards", 4, says="oldest first"),
        NAME,
        POOL,
        Opt("constraint", 1, 1, "EXPR", "only jobs for which the expression is true"),
        Opt("completedsince", 9, 1, "TIME", "only jobs that completed after this moment (epoch seconds)"),
        Opt("since", 4, 1, "ID|EXPR", "stop at this job, or where the expression is first true"),
        Opt("scanlimit", 4, 1, "N", "look at no more than N jobs"),
        Opt("limit match", 3, 1, "N", "show no more than N jobs"),
        *FORMATTING,
        Opt("file", 2, 1, "FILE", "read this file of long ads"),
        Opt("wide", 1, says="do not cut lines at the width of the terminal", colon=True),
        Opt("type", 1, 1, "TYPE", "JOB, the only type there is"),
        Opt("stream-results", 2),
        Opt("local", 2, says="ask this host's schedd"),
        DEBUG,
        VERSION_OPT,
    ),
    unknown="Error: Unknown argument {}",
    usage_on_stdout=True,
)

_JOB = late_pattern(r"\d+(\.\d+)?\Z")


def _id(ad: ClassAd) -> str:
    return f"{ad.eval_int('ClusterId', 0)}.{ad.eval_int('ProcId', 0)}"


TABLE = """SELECT
    ClusterId      AS ' ID         '  WIDTH AUTO PRINTAS JOB_ID
    Owner          AS OWNER           WIDTH -14  PRINTAS OWNER OR ??
    QDate          AS '  SUBMITTED'   WIDTH 11   PRINTAS QDATE OR ??
    RemoteWallClockTime ?: (RemoteUserCpu ?: 0) AS '  RUN_TIME  ' WIDTH 12 PRINTF %T
    JobStatus      AS ST              PRINTAS JOB_STATUS
    CompletionDate AS '  COMPLETED'   WIDTH 11   PRINTAS QDATE
    Cmd            AS CMD             WIDTH 0    PRINTAS JOB_DESCRIPTION
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_history."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_clock()
    form, custom = wanted_form(parsed), AutoFormat(parsed)
    table = parse_format(TABLE.split("\n"), FUNCTIONS).mask
    table.width = _width(parsed)
    if not form and not custom:
        sys.stdout.write(table.heading())
    if form:
        projection = attribute_list(parsed)
    else:
        projection = [*custom.names(), "ClusterId", "ProcId"] if custom else table.names()
    path = parsed.value("file")
    ads: Iterable[ClassAd] = _of_file(path, parsed) if path else _of_schedd(open_session(parsed), parsed, projection)
    if form == "xml":
        sys.stdout.write(XML_HEAD + "\n")
        for piece in write_all(ads, "xml", attribute_list(parsed), xml_gap="\n"):
            sys.stdout.write(
                piece if piece not in (XML_HEAD, XML_FOOT) else XML_FOOT + "\n" if piece == XML_FOOT else ""
            )
    elif form:
        sys.stdout.writelines(write_all(ads, form, attribute_list(parsed), empty_json=True))
    elif custom:
        sys.stdout.writelines(custom.text(ads))
    else:
        sys.stdout.writelines(table.lines(ads))
    return 0


def _width(parsed: Parsed) -> int:
    terminal = terminal_width()
    return 0 if parsed.has("wide") or not terminal else terminal - 1


def _constraint(parsed: Parsed) -> str | None:
    parts = [f"({text})" for text in parsed.values("constraint")]
    since = parsed.value("completedsince")
    if since is not None:
        parts.append(f"(CompletionDate > {since})")
    text = " && ".join(parts) or None
    try:
        expr(text or "true")
    except ClassAdError as error:
        raise UserError(f"Error: invalid constraint: {error}") from None
    return text


def _of_schedd(session: Session, parsed: Parsed, projection: Sequence[str]) -> Iterable[ClassAd]:
    from protocol.messages.schedd import QueryHistory, Selection

    ids = [word for word in parsed.words if _JOB.match(word)]
    users = [word for word in parsed.words if not _JOB.match(word)]
    limits = [parsed.number(key, 0) for key in ("limit", "scanlimit") if parsed.has(key)]
    request = QueryHistory(
        select=Selection(ids=ids, users=users, constraint=_constraint(parsed), all=not (ids or users)),
        projection=sorted(set(projection)),
        limit=min(limits) if limits else None,
        forwards=parsed.has("forwards"),
        since=parsed.value("since"),
    )
    name = parsed.value("name")
    try:
        with session.daemon("schedd", name=name) as peer:
            for batch in peer.stream(request):
                yield from batch.ads
    except NotFound:
        raise UserError(f"Unable to locate remote schedd (name={name or ''}, pool={session.pool or ''}).") from None
    except PeerError as error:
        raise UserError(f"Error: {error}") from None


def _of_file(path: str, parsed: Parsed) -> Iterable[ClassAd]:
    """The ads of a history file: long ads, each followed by an empty line or a line that begins with `***`."""
    from pool.classad import parse_longs

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            ads = list(parse_longs(("" if line.startswith("***") else line for line in file), file=path))
    except OSError as error:
        raise UserError(f"Error opening history file {path}: {error.strerror}") from None
    if not parsed.has("forwards"):
        ads.reverse()
    wanted = expr(_constraint(parsed) or "true")
    limit = parsed.number("limit", len(ads))
    words = set(parsed.words)
    for ad in ads:
        named = {_id(ad), _id(ad).partition(".")[0], ad.eval_str("Owner", "")}
        if limit > 0 and (not words or words & named) and wanted.eval(ad) is True:
            limit -= 1
            yield ad
