"""condor_rm, _hold, _release, _suspend, _continue and _vacate_job: one program that does something to jobs.

Each argument, or all clusters and jobs of mixed kinds together, is one request; what became of it is one sentence, on
standard output when something was done, on standard error after an empty line when nothing was.

Source: HTCondor's manual pages condor_rm, condor_hold, condor_release, condor_suspend, condor_continue and
condor_vacate_job.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import ADDR, DEBUG, HELP, JSON, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.client.job_ids import clause, split
from minipool.client.session import NotFound
from pool.base.errors import PeerError, UserError
from pool.base.ids import is_number, names_jobs
from pool.jobs.vocabulary.states import JobStatus

if TYPE_CHECKING:
    from protocol.messages.schedd import Outcome, Selection
    from protocol.rpc.blocking import BlockingPeer


class Verb(NamedTuple):
    """How a tool speaks: what it does to one job, has done to many, and what it could not do."""

    tool: str
    action: str
    one: str
    many: str
    could_not: str
    bad_status: str
    already: str
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "rm": Verb(
        "condor_rm", "remove", "marked for removal", "marked for removal", "remove",
        "cannot be removed", "already marked for removal", "Remove jobs from the queue.",
    ),
    "rm_x": Verb(
        "condor_rm", "remove_x", "removed locally (remote state unknown)", "removed locally (remote state unknown)",
        "remove", "not in `X' state to be forcibly removed", "already marked for forced removal", "",
    ),
    "rm_transfer": Verb(
        "condor_rm", "remove_transfer", "marked for removal after file transfer",
        "marked for removal after file transfer", "remove", "cannot be removed", "already marked for removal", "",
    ),
    "hold": Verb("condor_hold", "hold", "held", "held", "hold", "cannot be held", "already held", "Put jobs on hold."),
    "release": Verb(
        "condor_release", "release", "released", "released", "release",
        "not held to be released", "already released", "Release held jobs.",
    ),
    "suspend": Verb(
        "condor_suspend", "suspend", "suspended", "suspended", "suspend",
        "not running to be suspended", "already suspended", "Suspend running jobs.",
    ),
    "continue": Verb(
        "condor_continue", "continue", "continued", "continued", "continue",
        "not suspended to be continued", "already running", "Continue suspended jobs.",
    ),
    "vacate_job": Verb(
        "condor_vacate_job", "vacate", "vacated", "vacated", "vacate",
        "not running to be vacated", "already vacating", "Make running jobs leave their machines.",
    ),
    "vacate_fast": Verb(
        "condor_vacate_job", "vacate_fast", "fast-vacated", "fast-vacated", "fast-vacate",
        "not running to be fast-vacated", "already fast-vacating", "",
    ),
}  # fmt: skip
"""By the name of the program; two have a second way."""

_JOB_ACTIONS: Final = (
    "hold", "release", "remove", "remove_x", "vacate", "vacate_fast", "clear_dirty", "suspend", "continue",
    "remove_transfer",
)  # fmt: skip
"""HTCondor's numbers of actions, from 1."""
_COMMON = (
    HELP,
    VERSION_OPT,
    DEBUG,
    Opt("long", 1, says="also the result as an ad"),
    Opt("totals", 3, says="also how many jobs there were of each outcome"),
    JSON,
    POOL,
    NAME,
    ADDR,
    Opt("constraint", 1, 1, "EXPR", "the jobs for which the expression is true"),
    Opt("all", 1, says="all jobs"),
)
_OWN: Final[dict[str, tuple[Opt, ...]]] = {
    "rm": (
        Opt("forcex", 1, says="forget jobs in state X at once"),
        Opt("held hold", 3, says="only those of the jobs that are on hold; alone: of all your jobs"),
        Opt("transfer", 2, says="have running jobs leave their output before they are removed"),
        Opt("reason", 1, 1, "TEXT", "why, for the job's log"),
    ),
    "hold": (
        Opt("reason", 1, 1, "TEXT", "why, for the job's ad and log"),
        Opt("subcode", 1, 1, "N", "HoldReasonSubCode"),
    ),
    "release": (Opt("reason", 1, 1, "TEXT", "why, for the job's log"),),
    "vacate_job": (Opt("fast", 1, says="at once, without the vacate time"),),
}


_HELD_ELSEWHERE: Final = refused("held hold", "it is an option of condor_rm", 3)


def tool(verb: str) -> Tool:
    """The option table of one of these programs."""
    said = VERBS[verb]
    return Tool(
        said.tool,
        said.summary,
        "[options] [constraints]",
        (*_OWN.get(verb, ()), *(() if verb == "rm" else _HELD_ELSEWHERE), *_COMMON),
        notes="Constraints are CLUSTER.PROC, CLUSTER, OWNER, -constraint EXPR, or -all.",
    )


TOOLS = tuple(tool(verb) for verb in ("rm", "hold", "release", "suspend", "continue", "vacate_job"))


def main(verb: str, argv: Sequence[str]) -> int:
    """Run the program of this verb."""
    return run(tool(verb), lambda parsed: _main(verb, parsed), argv)


def _main(verb: str, parsed: Parsed) -> int:
    if verb == "rm" and parsed.has("forcex"):
        verb = "rm_x"
    elif verb == "rm" and parsed.has("transfer"):
        verb = "rm_transfer"
    elif verb == "vacate_job" and parsed.has("fast"):
        verb = "vacate_fast"
    requests = _requests(parsed)
    session = open_session(parsed)
    name = parsed.value("name")
    try:
        with session.daemon("schedd", name=name, addr=parsed.value("addr")) as peer:
            actor = Actor(VERBS[verb], parsed)
            status = max(actor.perform(peer, request) for request in requests)
            if actor.json:
                actor.write_json()
            return status
    except NotFound as error:
        if name is None:
            raise UserError(f"Error: {error}") from None
        raise UserError(f"Error: cannot get address of schedd {session.qualified(name)}") from None


class ChosenJobs(NamedTuple):
    """One request: the jobs that are named, or all but for the constraint, and how they are called in the answer."""

    about: str
    """What follows "all jobs"; empty for jobs that are named one by one."""
    ids: list[str]
    users: list[str]
    constraint: str | None = None
    all: bool = False

    @property
    def by_name(self) -> bool:
        """Whether each job is answered for by itself."""
        return not self.about


def _requests(parsed: Parsed) -> list[ChosenJobs]:
    """Single jobs are one request; clusters and users together, narrowed by constraints and -held, are another."""
    held = parsed.has("held")
    # condor_rm 12.0 13 are two requests: job by job each is answered for, a cluster as a whole.
    jobs = [word for word in parsed.words if names_jobs(word) and "." in word]
    others = [word for word in parsed.words if word not in jobs]
    constraints = parsed.values("constraint")
    if parsed.has("all") and (parsed.words or constraints):
        raise UserError("Error: can't mix -all with other constraints")
    if not (parsed.words or constraints or held or parsed.has("all")):
        raise UsageError("You did not specify any jobs")
    requests = []
    if jobs and not held:
        if constraints:
            sys.stderr.write("Warning, -constraint is ignored for fully qualified job ids\n")
        requests.append(ChosenJobs("", jobs, []))
    chosen = [*others, *jobs] if held else others
    if chosen or not requests:
        requests.append(_narrowed(chosen, constraints, held=held))
    return requests


def _narrowed(words: Sequence[str], constraints: Sequence[str], *, held: bool) -> ChosenJobs:
    """The jobs of clusters and users (and single ones, with -held) for which the constraints hold."""
    ids, users = split(words)
    said = [*constraints, " || ".join(map(clause, words))] if words else list(constraints)
    if not said:
        about = ""
    elif not constraints and len(words) == 1 and is_number(words[0]):
        about = f" in cluster {words[0]}"
    elif not constraints and len(words) == 1 and users:
        about = f' of user "{users[0]}"'
    else:
        about = f" matching constraint ({said[0] if len(said) == 1 else ' && '.join(f'({part})' for part in said)})"
    narrowing = [*constraints, *([f"JobStatus == {JobStatus.HELD}"] if held else [])]
    text = narrowing[0] if len(narrowing) == 1 else " && ".join(f"({part})" for part in narrowing)
    kind = "held jobs" if held else "jobs"
    return ChosenJobs(f"{kind}{about}", ids, users, text or None, all=not words)


class Actor:
    """Sends requests and says what became of them."""

    def __init__(self, verb: Verb, parsed: Parsed) -> None:
        self.verb = verb
        self.long, self.totals, self.json = parsed.has("long"), parsed.has("totals"), parsed.has("json")
        self.subcode = parsed.number("subcode", 0)
        self.reason = parsed.value("reason")  # the schedd adds who asked
        self.found: list[tuple[str, Outcome]] = []

    def perform(self, peer: "BlockingPeer", asked: ChosenJobs) -> int:
        """One request; the exit status it deserves: success when anything was done."""
        from protocol.messages.schedd import Action, ActOnJobs, Outcome

        request = ActOnJobs(
            select=_selection(asked), action=Action(self.verb.action), reason=self.reason, subcode=self.subcode
        )
        try:
            results = peer.call(request).results
        except PeerError as error:
            raise UserError(f"\n{error}") from None
        outcomes = {str(one.job_id): one.outcome for one in results}
        if asked.by_name:
            # The schedd answers for jobs that it has; one that it does not know is missing from the answer.
            outcomes = {job: outcomes.get(job, Outcome.NOT_FOUND) for job in asked.ids}
        done = [job for job, outcome in outcomes.items() if outcome is Outcome.DONE]
        self.found += outcomes.items()
        if self.json:
            return 0 if done else 1
        if asked.by_name:
            failed = [self._failure(job, outcome) for job, outcome in outcomes.items() if job not in done]
            self._complain([*([] if done or not failed else [""]), *failed])
            self._account(outcomes)
            sys.stdout.writelines(f"Job {job} {self.verb.one}\n" for job in done)
        elif done:
            self._account(outcomes)
            sys.stdout.write(f"All {asked.about} have been {self.verb.many}\n")
        elif not results and asked.constraint is None and _queue_is_empty(peer):
            self._complain([f"{self.verb.tool}:0:There are no jobs in the queue"])
            return 0
        else:
            self._complain(["", f"Couldn't find/{self.verb.could_not} all {asked.about}"])
            self._account(outcomes)
        return 0 if done else 1

    def write_json(self) -> None:
        """What became of each job, of all requests."""
        from minipool.cli.output.json_output import write_list

        ids = [(*map(int, job.split(".")), outcome.value) for job, outcome in self.found]
        write_list({"ClusterId": cluster, "ProcId": proc, "Outcome": outcome} for cluster, proc, outcome in ids)

    def _complain(self, lines: Sequence[str]) -> None:
        sys.stdout.flush()
        sys.stderr.writelines(f"{line}\n" for line in lines)
        sys.stderr.flush()

    def _account(self, outcomes: Mapping[str, "Outcome"]) -> None:
        """What -long and -totals say of all jobs together."""
        from protocol.messages.schedd import Outcome

        codes = {outcome: code for code, outcome in enumerate(Outcome, 1)}
        if self.long:
            said: dict[str, object] = {
                "ActionResult": int(Outcome.DONE in outcomes.values()),
                "ActionResultType": 1,
                "JobAction": _JOB_ACTIONS.index(self.verb.action) + 1,
            }
            said |= {f"job_{job.replace('.', '_')}": codes[outcome] for job, outcome in sorted(outcomes.items())}
            sys.stdout.write("".join(f"{name} = {value}\n" for name, value in said.items()) + "\n")
        elif self.totals:
            counts = {outcome: list(outcomes.values()).count(outcome) for outcome in Outcome}
            sys.stdout.write(
                f"{counts[Outcome.DONE]} Succeeded, 0 Failed, {counts[Outcome.NOT_FOUND]} Not Found, "
                f"{counts[Outcome.BAD_STATUS]} Bad Status, {counts[Outcome.ALREADY_DONE]} Already Done, "
                f"{counts[Outcome.PERMISSION_DENIED]} Permission Denied\n"
            )

    def _failure(self, job: str, outcome: "Outcome") -> str:
        from protocol.messages.schedd import Outcome

        verb = self.verb
        if outcome is Outcome.PERMISSION_DENIED:
            return f"Permission denied to {verb.could_not} job {job}"
        if outcome is Outcome.LIMIT_EXCEEDED:
            return f"Job {job} cannot be released again, has reached SYSTEM_MAX_RELEASES limit"
        why = {Outcome.NOT_FOUND: "not found", Outcome.BAD_STATUS: verb.bad_status, Outcome.ALREADY_DONE: verb.already}
        return f"Job {job} {why[outcome]}"


def _selection(asked: ChosenJobs) -> "Selection":
    from protocol.messages.schedd import Selection

    return Selection(ids=asked.ids, users=asked.users, constraint=asked.constraint, all=asked.all)


def _queue_is_empty(peer: "BlockingPeer") -> bool:
    from protocol.messages.schedd import QueryJobs, Selection

    request = QueryJobs(select=Selection(all=True), projection=["ClusterId"], limit=1)
    return not any(batch.ads for batch in peer.stream(request))
