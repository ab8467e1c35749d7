"""condor_qedit: change attributes of jobs in the queue."""

from __future__ import annotations

import re
import sys

from minipool.cli.context import open_session
from minipool.cli.options import Opt, Parsed, UsageError
from minipool.cli.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.classad import expr
from pool.errors import ClassAdError, PeerError, UserError
from pool.hints import TYPE_CHECKING, Sequence
from pool.ids import names_jobs
from pool.late_pattern import late_pattern

if TYPE_CHECKING:
    from protocol.messages.schedd import Selection

TOOL = Tool(
    "condor_qedit",
    "Change attributes of jobs.",
    "{CLUSTER | CLUSTER.PROC | OWNER | -constraint EXPR} {ATTR VALUE | ATTR=VALUE}...",
    (
        Opt("constraint", 1, 1, "EXPR", "the jobs for which the expression is true"),
        Opt("owner", 1, 1, "NAME", "the jobs of this user"),
        Opt("jobids", 1, 1, "ID,ID", "these jobs"),
        Opt("edits", 1, 1, "FILE", "take `Name = value` lines from a file (- is standard input)", True),
        Opt("dry-run", 2, says="check the values and change nothing"),
        Opt("name n", 1, 1, NAME.metavar, NAME.says),
        POOL,
        HELP,
        VERSION_OPT,
        DEBUG,
        *refused("forward", "no job here is forwarded to another schedd"),
    ),
)

_ASSIGNMENT = late_pattern(r"\s*([A-Za-z_]\w*)\s*=(?![=?!])\s*(.*)\Z", re.DOTALL)
_FIXED = {"clusterid", "procid", "owner", "user", "mytype", "targettype", "qdate", "globaljobid"}
_NOTHING_SET = "Transaction failed.  No attributes were set."


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_qedit."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.schedd import EditJobs, Outcome

    words = list(parsed.words)
    select, shown = _selection(parsed, words)
    edits = _edits(parsed, words)
    if parsed.has("dry-run"):
        return 0
    session = open_session(parsed)
    first = next(iter(edits))
    try:
        with session.daemon("schedd", name=parsed.value("name")) as peer:
            results = peer.call(EditJobs(select=select, assignments=edits)).results
    except PeerError as error:
        raise UserError(f"{error}\n{_NOTHING_SET}") from None
    done = sum(one.outcome is Outcome.DONE for one in results)
    if not done or done < len(results):
        what = f"job {shown}" if "." in shown else shown
        raise UserError(
            f'Failed to set attribute "{first}" for {what}.\nQueue transaction failed.  No attributes were set.'
        )
    for name in edits:
        sys.stdout.write(f'Set attribute "{name}" for {done} matching jobs.\n')
    return 0


def _selection(parsed: Parsed, words: list[str]) -> tuple[Selection, str]:
    from protocol.messages.schedd import Selection

    constraint, owner, ids = parsed.value("constraint"), parsed.value("owner"), parsed.value("jobids")
    if constraint is not None:
        return Selection(constraint=constraint), f"jobs matching constraint {constraint}"
    if owner is not None:
        return Selection(users=[owner]), f"jobs of {owner}"
    if ids is not None:
        return Selection(ids=ids.replace(",", " ").split()), f"jobs {ids}"
    if not words:
        raise UsageError("You did not specify any jobs")
    first = words.pop(0)
    if names_jobs(first):
        return Selection(ids=[first]), first if "." in first else f"cluster {first}"
    return Selection(users=[first]), f"jobs of {first}"


def _edits(parsed: Parsed, words: list[str]) -> dict[str, str]:
    pairs: list[tuple[str, str]] = []
    path = parsed.value("edits")
    if path is not None:
        lines = sys.stdin.read() if path == "-" else _text(path)
        words = [*words, *(line for line in lines.splitlines() if line.strip() and not line.lstrip().startswith("#"))]
    while words:
        word = words.pop(0)
        assigned = _ASSIGNMENT.match(word)
        if assigned is not None:
            pairs.append((assigned[1], assigned[2].strip()))
        elif words:
            pairs.append((word, words.pop(0)))
        else:
            raise UsageError(f"The attribute {word} has no value")
    if not pairs:
        raise UsageError("You did not specify an attribute and its value")
    for name, text in pairs:
        if name.lower() in _FIXED:
            raise UserError(f'Update of immutable attribute "{name}" is not allowed.\n{_NOTHING_SET}')
        try:
            expr(text)
        except ClassAdError:
            raise UserError(f"Update aborted, illegal value for : {name}\n{_NOTHING_SET}") from None
    return dict(pairs)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"Can't open {path}: {error.strerror}") from None
