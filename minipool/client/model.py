"""What both faces of the Python API speak of: descriptions, jobs' states and results, and which jobs are meant.

A description becomes a text that condor_submit could read, so that both mean the same. A job is named by itself, its
id or a cluster, and a list of such stands for all in it; an empty list is nobody. Source: HTCondor's manual page
condor_submit; docs/api.md.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pool.base.errors import PeerError, SubmitError, UserError
from pool.base.ids import JobId, is_number
from pool.classad import ClassAd
from pool.jobs.vocabulary.states import JobStatus

if TYPE_CHECKING:
    from minipool.client.session import Session
    from pool.submit import SubmitPlan
    from protocol.messages.schedd import ActResults, Selection

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = "Scalar | Sequence[str] | Mapping[str, Scalar]"
JobName: TypeAlias = "str | int | JobId | tuple[int, int]"


_COMMAND: Final = re.compile(r"[+-]?[A-Za-z_][A-Za-z0-9_./]*")
_HERE: Final = "minipool.client."
"""How the names of the API's own modules begin."""


class UnknownJob(PeerError):
    """The job is not in the queue, and not in the history."""


class NotDone(PeerError):
    """Something could not be done to some jobs; the message names them and why."""


class JobHeldWarning(UserWarning):
    """A job that a program waits for is on hold, and ends when somebody releases or removes it."""


class SubmitWarning(UserWarning):
    """A description that was submitted has something odd: a command that nothing uses, a count of none."""


class Status(Enum):
    """Where a job is in its life."""

    IDLE = JobStatus.IDLE
    RUNNING = JobStatus.RUNNING
    REMOVED = JobStatus.REMOVED
    COMPLETED = JobStatus.COMPLETED
    HELD = JobStatus.HELD
    TRANSFERRING_OUTPUT = JobStatus.TRANSFERRING_OUTPUT
    SUSPENDED = JobStatus.SUSPENDED


class JobState(NamedTuple):
    """A job at a moment. `ad` has all that is known of it; `left`: it has left the queue."""

    id: JobId
    status: Status
    ad: ClassAd
    left: bool = False

    def __repr__(self) -> str:
        return f"JobState({self.id}, {self.status.name}{', left' if self.left else ''})"


class JobResult(NamedTuple):
    """How a job ended: by itself (`exit_code`), by a signal (`exit_signal`), or removed (`status` is REMOVED)."""

    id: JobId
    status: Status
    exit_code: int | None
    exit_signal: int | None
    ad: ClassAd

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.status is Status.COMPLETED and self.exit_code == 0

    def __repr__(self) -> str:
        codes = (("exit_code", self.exit_code), ("exit_signal", self.exit_signal))
        said = "".join(f", {name}={code}" for name, code in codes if code is not None)
        return f"JobResult({self.id}, {self.status.name}{said})"


class Submit:
    """A submit description: the text of one, or its commands as a mapping or keywords.

    `queue` is what follows the queue statement's word: a count ("3"), or items ("name in (a b)"). `items` queues one
    job for each mapping, whose keys are macros: `Submit(arguments="$(n)", items=[{"n": 1}, {"n": 2}])`. Arguments may
    be a list and the environment a mapping, which are quoted as they need; other lists are joined by commas.
    """

    def __init__(
        self,
        description: str | Mapping[str, Value] = "",
        /,
        *,
        queue: str | int | None = None,
        items: Iterable[Mapping[str, Scalar]] | None = None,
        **commands: Value,
    ) -> None:
        if isinstance(description, Mapping):
            commands = {**description, **commands}
            description = ""
        lines = [description.rstrip("\n")] if description.strip() else []
        lines += [_line(name, value) for name, value in commands.items()]
        self.text = "\n".join(lines) + "\n"
        self.queue = None if queue is None else str(queue)
        if items is not None:
            if queue is not None:
                raise SubmitError("give either queue or items")
            self.text, self.queue = self.text + _items(list(items)), None
        self.file = ""

    @classmethod
    def read(cls, path: str, **commands: Value) -> Submit:
        """The description in a file; keywords come before its queue statement, and win."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                made = cls(file.read())
        except OSError as error:
            raise SubmitError(f"Failed to open command file ({path}) ({error.strerror})") from None
        made.file = path
        made.appended = [_line(name, value) for name, value in commands.items()]
        return made

    appended: Sequence[str] = ()

    def plan(self, session: Session, *, count: int | None = None) -> SubmitPlan:
        """What it asks for, read in this directory as this account."""
        from minipool.client.submission import read_plan

        queue = self.queue if count is None else str(count)
        return read_plan(session, self.text, file=self.file, appended=self.appended, queue=queue)

    def __repr__(self) -> str:
        return f"Submit({self.text!r}{'' if self.queue is None else f', queue={self.queue!r}'})"


def _line(name: str, value: Value) -> str:
    """A command as a line; SubmitError when it would be none, or more than one."""
    if not _COMMAND.fullmatch(name):
        raise SubmitError(f"{name!r} is no submit command", expected="a name such as output or +Project")
    if name.lower() == "queue":
        raise SubmitError("queue is no submit command", expected="the argument `queue`, or `items`")
    line = _assignment(name, value)
    # Whoever fills a value in from elsewhere shall not thereby write commands: neither behind a line break, nor by
    # making the next command a part of this one.
    if "\n" in line or "\r" in line:
        raise SubmitError(f"the value of {name} cannot hold a line break")
    if line.endswith("\\"):
        raise SubmitError(f"the value of {name} cannot end in a backslash: the next command would be a part of it")
    return line


def _assignment(name: str, value: Value) -> str:
    """A list of arguments and a mapping of the environment are quoted, other lists have commas."""
    if isinstance(value, Mapping):
        words = [f"{key}={_text(one)}" for key, one in value.items()]
        return f"{name} = {_quoted(words)}"
    if isinstance(value, str | int | float):
        return f"{name} = {_text(value)}"
    # Only these two commands know quotes; in any other list a quote would be a part of a name.
    words = [str(one) for one in value]
    return f"{name} = {_quoted(words) if name.lower() in ('arguments', 'args') else ', '.join(words)}"


def _quoted(words: Sequence[str]) -> str:
    """Words in the new syntax of arguments and environment: blanks in single quotes, all of it in double ones."""
    shown = [word if re.fullmatch(r"[^\s']+", word) else "'" + word.replace("'", "''") + "'" for word in words]
    return '"' + " ".join(shown).replace('"', '""') + '"'


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_SEPARATOR: Final = "\x1f"
EDGE: Final = "_edge"
"""A column without a meaning, before and behind values that a submit description would read as something else."""


def _items(rows: Sequence[Mapping[str, Scalar]]) -> str:
    """A queue statement with a line for each row."""
    if not rows:
        return "queue item from (\n)\n"
    names = list(rows[0])
    table = []
    for row in rows:
        # In the same order, too: the columns of the queue statement have one.
        if list(row) != names:
            raise SubmitError(f"all items need the same keys: {', '.join(names)}")
        values = [_text(value) for value in row.values()]
        if any(value.splitlines() not in ([], [value]) or _SEPARATOR in value for value in values):
            raise SubmitError("an item's value cannot hold a line break")
        table.append(values)
    if not all(_reads_as_it_is(values) for values in table):
        names, table = [EDGE, *names, EDGE], [["-", *values, "-"] for values in table]
    lines = "".join(f"{_SEPARATOR.join(values)}\n" for values in table)
    return f"queue {','.join(names)} from (\n{lines})\n"


def _reads_as_it_is(values: Sequence[str]) -> bool:
    """Whether a line of these values is a row of them: no comment, not the end of the list, nothing stripped off."""
    return all(value and value == value.strip() for value in values) and values[0][0] not in "#)"


def id_of(job: object) -> JobId | int:
    """The job that is meant, or the cluster: by a Job, an id (`"12.0"`, `(12, 0)`), or a cluster (`12`, `"12"`)."""
    own = getattr(job, "id", job)
    # JobId is a tuple, too, and so may be an id as (cluster, proc).
    if isinstance(own, tuple):
        return JobId(*own)
    if isinstance(own, int):
        return own
    text = str(own).strip()
    return int(text) if is_number(text) else JobId.parse(text)


def job_id(job: object, proc: int | None = None) -> JobId:
    """One job's id: a cluster alone has its first job."""
    found = id_of(job)
    if isinstance(found, int):
        return JobId(found, proc or 0)
    if proc is not None:
        raise UserError(f"{found} names its job already, and so does {proc}")
    return found


def named(jobs: Iterable[object]) -> list[JobId | int]:
    """The jobs and clusters that are meant; lists of them may stand for them."""
    found: list[JobId | int] = []
    for one in jobs:
        if _is_one(one):
            found.append(id_of(one))
        elif isinstance(one, Iterable):
            found += named(one)
        else:
            raise UserError(f"{one!r} is no job", expected="a job, its id such as '12.0', a cluster, or a list of them")
    return found


def _is_one(one: object) -> bool:
    if isinstance(one, tuple) and not hasattr(one, "id"):
        return len(one) == 2 and all(isinstance(part, int) for part in one)
    return isinstance(one, str | int) or hasattr(one, "id")


def selection(
    jobs: Sequence[object] = (), *, users: Iterable[str] = (), constraint: str | None = None
) -> Selection | None:
    """The jobs that are meant; all when nothing narrows them down; None when it is an empty list that does."""
    from protocol.messages.schedd import Selection

    # `jobs` with no id in it is an empty list of the caller's, which means nobody; no `jobs` at all means everybody.
    ids = [str(id) for id in named(jobs)]
    names = list(users)
    if jobs and not ids and not names:
        return None
    return Selection(ids=ids, users=names, constraint=constraint, all=not (ids or names))


def to_change(jobs: Sequence[object], constraint: str | None) -> Selection | None:
    """The jobs to which something shall be done; None when none are named, by neither id nor constraint."""
    return selection(jobs, constraint=constraint) if jobs or constraint is not None else None


def warn(text: str, kind: type[Warning]) -> None:
    """Warn of something, at the line of the program that called the API."""
    # The warning should point into the user's program, which is however many of our own frames up.
    level, frame = 1, sys._getframe()
    while (caller := frame.f_back) is not None and frame.f_globals.get("__name__", "").startswith(_HERE):
        level, frame = level + 1, caller
    warnings.warn(text, kind, stacklevel=level)


def result_of(id: JobId, ad: ClassAd) -> JobResult:
    """How the job of this ad ended."""
    status = Status(ad.eval_int("JobStatus", Status.COMPLETED.value))
    # Ads keep ExitCode of an earlier run beside ExitSignal of the last: ExitBySignal says which counts.
    signalled = bool(ad.eval_bool("ExitBySignal"))
    return JobResult(
        id=id,
        status=status,
        exit_code=None if signalled else ad.eval_int("ExitCode"),
        exit_signal=ad.eval_int("ExitSignal") if signalled else None,
        ad=ad,
    )


def check(results: ActResults, verb: str) -> int:
    """How many jobs something was done to; NotDone when it could not be done to some, or there were none."""
    from protocol.messages.schedd import Outcome

    done = sum(one.outcome is Outcome.DONE for one in results.results)
    refused = [one for one in results.results if one.outcome is not Outcome.DONE]
    if refused or not done:
        said = (
            ", ".join(f"{one.job_id} ({one.outcome.value.replace('_', ' ')})" for one in refused[:10]) or "no such jobs"
        )
        raise NotDone(f"could not {verb}: {said}")
    return done


def expression(value: object) -> str:
    """A Python value as the text of an expression, for edits of job ads."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return ClassAd({"X": value}).text("X")
