"""condor_qedit: change attributes of jobs in the queue."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.base.errors import ClassAdError, PeerError, UserError
from pool.base.ids import names_jobs
from pool.base.words import split_list
from pool.classad import expr, quote
from pool.jobs.vocabulary.own_attributes import SCHEDDS

if TYPE_CHECKING:
    from protocol.messages.schedd import Selection

_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?![=?!])\s*(.*)\Z", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_RESTRICTIONS = ("jobids", "owner", "constraint")
_NOTHING_SET = "Transaction failed.  No attributes were set."


def _named_jobs(parsed: Parsed) -> tuple[list[str], str, list[str]]:
    """The ids, or the owner, that the first words are, and the words behind them."""
    words = list(parsed.words)
    # As in HTCondor's qedit.cpp: words name jobs only where no option has done so before, and ids end at an option.
    if not words or any(one.key in _RESTRICTIONS and not one.after for one in parsed.given):
        return [], "", words
    together = min((one.after for one in parsed.given if one.after), default=len(words))
    count = next((at for at, word in enumerate(words[:together]) if not names_jobs(word)), together)
    return (words[:count], "", words[count:]) if count else ([], words[0], words[1:])


def _awaits_value(parsed: Parsed) -> bool:
    """Whether the last word is the name of an attribute, so that the next one is its value, `-1.5` too."""
    *_, words = _named_jobs(parsed)
    while words:
        if _ASSIGNMENT.match(words.pop(0)) is None:
            if not words:
                return True
            words.pop(0)
    return False


TOOL = Tool(
    "condor_qedit",
    "Change attributes of jobs.",
    "{CLUSTER | CLUSTER.PROC | OWNER | -constraint EXPR} {ATTR VALUE | ATTR=VALUE}...",
    (
        Opt("constraint", 1, 1, "EXPR", "the jobs for which the expression is true"),
        Opt("owner", 1, 1, "NAME", "the jobs of this user"),
        Opt("jobids", 1, 1, "ID,ID", "these jobs"),
        Opt("edits", 2, 1, "FILE", "take `Name = value` lines from a file (- is standard input)", True),
        Opt("dry-run", 3, says="check the values and change nothing"),
        Opt("name n", 1, 1, NAME.metavar, NAME.says),
        POOL,
        HELP,
        VERSION_OPT,
        DEBUG,
        *refused("forward", "no job here is forwarded to another schedd", 3),
    ),
    value_follows=_awaits_value,
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_qedit."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.schedd import EditJobs, Outcome

    restriction, words = _restriction(parsed)
    edits = _edits(parsed, words)
    if parsed.has("dry-run"):
        return 0
    session = open_session(parsed)
    try:
        with session.daemon("schedd", name=parsed.value("name")) as peer:
            results = peer.call(EditJobs(select=restriction.selection(), assignments=edits)).results
    except PeerError as error:
        raise UserError(f"{error}\n{_NOTHING_SET}") from None
    # A constraint alone leaves out the jobs of others (SetAttribute_OnlyMyJobs of HTCondor).
    if not (restriction.ids or restriction.owner):
        results = [one for one in results if one.outcome is not Outcome.PERMISSION_DENIED]
    done = sum(one.outcome is Outcome.DONE for one in results)
    if not done or done < len(results):
        what = f'Failed to set attribute "{min(edits, key=str.lower)}" {restriction.says()}'
        raise UserError(f"{what}\nQueue transaction failed.  No attributes were set.")
    for name in edits:
        sys.stdout.write(f'Set attribute "{name}" for {done} matching jobs.\n')
    return 0


class Restriction(NamedTuple):
    """Which jobs are edited: all that is given must be true of them."""

    ids: list[str]
    owner: str
    constraint: str | None

    def selection(self) -> Selection:
        """The jobs, for the schedd."""
        from protocol.messages.schedd import Selection

        if not self.ids:
            return Selection(users=[self.owner] if self.owner else [], constraint=self.constraint)
        clauses = [f"Owner == {quote(self.owner)}"] if self.owner else []
        clauses += [f"({self.constraint})"] if self.constraint else []
        return Selection(ids=self.ids, constraint=" && ".join(clauses) or None)

    def says(self) -> str:
        """How an error calls the jobs."""
        jobs = [job for job in self.ids if "." in job]
        if self.ids and len(jobs) == len(self.ids) and not (self.owner or self.constraint):
            return f"for job {min(jobs, key=lambda job: [int(part) for part in job.split('.')])}."
        clauses = [f'(Owner=="{self.owner}")'] if self.owner else []
        clauses += [f"({self.constraint})"] if self.constraint else []
        named = [f"(ClusterId == {job} )" for job in self.ids if "." not in job]
        named += ["(ClusterId == {} && ProcId == {})".format(*job.split(".")) for job in jobs]
        return f"by constraint: ( {' && '.join([*clauses, ' || '.join(named)] if named else clauses)} )"


def _restriction(parsed: Parsed) -> tuple[Restriction, list[str]]:
    """Which jobs: those of the first words and of the options together; and the words that are edits."""
    ids, owner, words = _named_jobs(parsed)
    ids += [job for text in parsed.values("jobids") for job in split_list(text)]
    owner, constraints = parsed.value("owner") or owner, parsed.values("constraint")
    if not (ids or owner or constraints):
        raise UsageError("condor_qedit : Error - no jobs specified.")
    for text in constraints:
        try:
            expr(text)
        except ClassAdError:
            raise UserError(f"condor_qedit: invalid constraint: {text}") from None
    together = constraints if len(constraints) < 2 else [f"({text})" for text in constraints]
    return Restriction(ids, owner, " && ".join(together) or None), words


def _edits(parsed: Parsed, words: list[str]) -> dict[str, str]:
    pairs: list[tuple[str, str]] = []
    path = parsed.value("edits")
    if path is not None:
        words = [*words, *_assignments(path, parsed.qualifier("edits") or "")]
    while words:
        word = words.pop(0)
        assigned = _ASSIGNMENT.match(word)
        if assigned is not None:
            pairs.append((assigned[1], assigned[2].strip()))
        elif words:
            pairs.append((word, words.pop(0)))
        else:
            raise UsageError(f"condor_qedit : expression required after attribute {word}")
    if not pairs:
        raise UsageError("condor_qedit : Error - no attributes specifed.")
    for name, text in pairs:
        if not _NAME.match(name):
            what = f'Update aborted, illegal attribute-name specified for attribute "{name}".'
            raise UserError(f"{what}\n{_NOTHING_SET}")
        if name.lower() in SCHEDDS:
            raise UserError(f'Update of immutable attribute "{name}" is not allowed.\n{_NOTHING_SET}')
        try:
            expr(text)
        except ClassAdError:
            raise UserError(f"Update aborted, illegal value for : {name}\n{_NOTHING_SET}") from None
    return dict(pairs)


def _assignments(path: str, form: str) -> list[str]:
    """`Name = value` for each attribute of a file, which may be in any form of ads."""
    from minipool.cli.output.ad_files import form_of, text_of

    text = text_of(path, cannot="Can't open {path}: {why}")
    if form_of(form) in ("xml", "json", "new") or text.lstrip()[:1] in ("<", "{", "["):
        from pool.classad.forms.lists import read_text

        return [f"{name} = {ad.text(name)}" for ad in read_text(text, form=form_of(form), file=path) for name in ad]
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
