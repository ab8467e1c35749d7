"""From a submit description to the ads of a cluster: one for what its jobs share, and for each job what differs.

Nothing is queued before the whole description has been read and its first job made: what is wrong so far is then told
at once, each mistake with its place (HTCondor's manual pages condor_submit and submitting-a-job). Later jobs are made
one at a time, as the caller asks for them. Commands of what is not built here are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pool.base.errors import Span, SubmitError
from pool.classad import ClassAd
from pool.config import Config
from pool.macros.expand import Chance, references
from pool.macros.lines import typed
from pool.macros.macro_set import Macro, MacroSet
from pool.submit import commands
from pool.submit.job import JobDraft, SubmitSurroundings, as_bool, parsed
from pool.submit.job_ad import make
from pool.submit.queue_statement import (
    BadQueue,
    MatchOptions,
    Queue,
    load_items,
    parse_queue,
    split_row,
    statement_arguments,
    with_header,
)
from pool.submit.reader import SubmitBatch, SubmitReader
from pool.submit.rows import ItemRow, Rows
from pool.submit.scope import ARGUMENT, Scope
from pool.submit.world import SubmitWorld

MULTI_QUEUE = (
    "Use of multiple queue statements in a single submit file is deprecated: "
    "write one queue statement with a list of items instead"
)
_OUTPUTS = frozenset(("output", "stdout", "out", "my.out", "error", "stderr", "err", "my.err"))
_QUIET = frozenset(
    (
        *("dag_status", "failed_count", "job", "retry"),
        *("submitwarnemptymatches", "submitfailemptymatches", "submitwarnduplicatematches"),
        *("submitfailemptyfields", "submitwarnemptyfields"),
    )
)


class SubmitPlan:
    """What a description asks for. Ads are made with the cluster id that `for_cluster` names (1 until then)."""

    def __init__(
        self,
        scope: Scope,
        around: SubmitSurroundings,
        batches: Sequence[tuple[SubmitBatch, Rows]],
        cluster: int,
        warnings: list[str],
        kind: type[JobDraft] = JobDraft,
    ) -> None:
        self.scope = scope
        self.around = around
        self.batches = batches
        self.cluster = cluster
        self.warnings = warnings
        self.kind = kind
        self.count = sum(len(rows) for _, rows in batches)
        self._first: JobDraft | None = None

    @property
    def cluster_ad(self) -> ClassAd:
        """The ad that all jobs share: the first job's attributes but for ProcId; empty when there are no jobs."""
        return self._first_job().ad if self.count else ClassAd()

    @property
    def job_set(self) -> ClassAd | None:
        """What the description says of its job set (`JOBSET.Attr = value`); None when that is nothing."""
        if not self.count:
            return None
        batch, _ = self.batches[0]
        first = self._first_job()
        found = ClassAd()
        self._use(batch)
        for macro in batch.macros:
            name = macro.name[7:]
            if macro.name[:7].lower() == "jobset." and name.lower() not in ("", "name"):
                found[name] = parsed(self.scope.expand(macro.text) or "undefined", first, name, macro.name)
        return found if len(found) else None

    @property
    def needs_cluster_id(self) -> bool:
        """Whether some text mentions the cluster's id, so that ads must be made after it is known."""
        names = ("cluster", "clusterid", "jobid", "joblistid")
        return any(
            one.name.partition(",")[0].strip().lower() in names
            for batch, _ in self.batches
            for macro in batch.macros
            if "$" in macro.text
            for one in references(macro.text)
        ) or any(macro.name.lower().startswith("jobset.") for batch, _ in self.batches for macro in batch.macros)

    @property
    def late(self) -> bool:
        """Whether the schedd makes the jobs one after another (max_materialize, max_idle)."""
        return "JobMaterializeLimit" in self.cluster_ad or "JobMaterializeMaxIdle" in self.cluster_ad

    def for_cluster(self, cluster: int) -> SubmitPlan:
        """The same with another cluster id."""
        return SubmitPlan(self.scope, self.around, self.batches, cluster, self.warnings, self.kind)

    def procs(self, start: int = 0) -> Iterator[ClassAd]:
        """One ad per job from `start` on, in order, with what differs from `cluster_ad`, which is its parent."""
        cluster_ad = self.cluster_ad
        proc = 0
        for batch, rows in self.batches:
            template = None
            self._use(batch)
            skipped = min(len(rows), max(0, start - proc))
            proc += skipped
            for row in rows.after(skipped) if skipped else rows:
                if proc == 0:
                    yield self._proc_zero(cluster_ad)
                else:
                    if template is None:
                        from pool.submit.template import JobTemplate  # a single job needs none

                        template = JobTemplate(self.scope, self.around, self._first_job(), rows)
                    ad = template.fill(row, proc)
                    if ad is None:
                        self._enter(row, proc)
                        with self._placed(batch):
                            ad = self._make(proc).ad
                    yield ad
                proc += 1

    def unused(self) -> list[str]:
        """Warnings about lines that do nothing, and lines and queue variables that nothing asked for.

        Complete when all jobs have been made.
        """
        said = self._idle()
        if not self.count or not self.around.config.bool("WARN_ON_UNUSED_SUBMIT_FILE_MACROS", True):
            return said
        used = self.scope.used
        for batch, rows in self.batches:
            live = {name.lower() for name in rows.variables}
            said.extend(
                f"the Queue variable '{name}' was unused by condor_submit. Is it a typo?"
                for name in rows.variables
                if name.lower() not in used
            )
            for macro in batch.macros:
                key = macro.name.lower()
                if key in used or key in live or key in _QUIET or "." in key:
                    continue
                said.append(unused_line(macro.name, macro.text))
        return list(dict.fromkeys(said))

    def _idle(self) -> list[str]:
        from pool.submit.without_effect import idle_line

        lines = (idle_line(macro.name, macro.text) for batch, _ in self.batches for macro in batch.macros)
        return list(dict.fromkeys(line for line in lines if line is not None))

    @property
    def prints_nowhere(self) -> bool:
        """Whether the description says of neither standard output nor standard error where it goes."""
        return not any(macro.name.lower() in _OUTPUTS for batch, _ in self.batches for macro in batch.macros)

    def _use(self, batch: SubmitBatch) -> None:
        self.scope.macros = batch.macros
        self.scope.live = {}

    @contextmanager
    def _placed(self, batch: SubmitBatch) -> Iterator[None]:
        """What is wrong and has no place of its own (an item, a default) is wrong at the queue statement."""
        try:
            yield
        except SubmitError as error:
            if error.span is None:
                error.span = Span(self.scope.defaults["submit_file"] or "<stdin>", batch.line)
            raise

    def _enter(self, row: ItemRow, proc: int) -> None:
        row.enter(self.scope, self.cluster, proc)

    def _first_job(self) -> JobDraft:
        if self._first is None:
            batch, rows = self.batches[0]
            self._use(batch)
            self._enter(rows.first(), 0)
            with self._placed(batch):
                job = make(self.scope, self.around, 0, None, None, kind=self.kind)
            job.ad.attrs.pop("procid", None)
            job.ad["ClusterId"] = self.cluster
            self._first = job
        return self._first

    def _proc_zero(self, cluster_ad: ClassAd) -> ClassAd:
        ad = ClassAd(parent=cluster_ad)
        ad["ProcId"] = 0
        ad["JobStatus"] = cluster_ad["JobStatus"]
        return ad

    def _make(self, proc: int) -> JobDraft:
        first = self._first_job()
        return make(self.scope, self.around, proc, first.ad, first)


def unused_line(name: str, text: str) -> str:
    """The warning about a line that nothing asked for, with the command that was probably meant."""
    said = f"the line '{name} = {text}' was unused by condor_submit. Is it a typo?"
    from pool.submit import meant

    near = meant.command(name)
    return f"{said} Did you mean '{near}'?" if near is not None else said


def read_submit(
    text: str | Iterable[str],
    *,
    config: Config,
    file: str = "",
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
    extra: Sequence[str] = (),
    appended: Sequence[str] = (),
    queue_args: str | None = None,
    now: float = 0,
    user: str = "",
    world: SubmitWorld | None = None,
    cluster: int = 1,
    remote: bool = False,
    interactive: bool = False,
    skip_checks: bool = False,
    chance: Chance | None = None,
) -> SubmitPlan:
    """Read a submit description.

    `extra` are KEY=VALUE arguments, read before the text; `appended` are `-append` lines, read before each queue
    statement; `queue_args` is the `-queue` argument of a description without a queue statement. `file` is empty for
    standard input. SubmitError names the file and line of what is wrong; nothing is checked of jobs beyond the first
    until `procs` makes them.
    """
    world = world or SubmitWorld()
    environ = {} if env is None else env
    scope = Scope(MacroSet(), config, environ=environ, cwd=cwd, now=now, chance=chance)
    scope.defaults["submit_file"] = file
    warnings: list[str] = []
    around = SubmitSurroundings(
        config=config,
        world=world,
        cwd=cwd,
        environ=environ,
        now=int(now),
        user=user,
        warn=lambda message: warnings.append(message) if message not in warnings else None,
        remote=remote,
        interactive=interactive,
        skip_checks=skip_checks,
    )
    return read_in(
        scope, around, text, extra=extra, appended=appended, queue_args=queue_args, warnings=warnings, cluster=cluster
    )


def read_in(
    scope: Scope,
    around: SubmitSurroundings,
    text: str | Iterable[str],
    *,
    extra: Sequence[str],
    appended: Sequence[str],
    queue_args: str | None,
    warnings: list[str],
    cluster: int,
    kind: type[JobDraft] = JobDraft,
) -> SubmitPlan:
    """Read a submit description with names that mean what `scope` says; `warnings` are those that `around` is told."""
    reader = SubmitReader(scope, around.world, scope.defaults["submit_file"] or "<stdin>", _templates(around.config))
    reader.warnings = warnings
    scope.expander.complain = lambda message: warnings.append(message) if message not in warnings else None
    for line in extra:
        reader.read_line(line, ARGUMENT)
    reader.appended = appended
    try:
        reader.read(text)
        _queues(reader, queue_args, around.config)
        plan = _planned(reader, around, cluster, kind)
    except SubmitError as error:
        raise _all_that_is_wrong(reader, error, text) from None
    if reader.wrong:
        raise _all_that_is_wrong(reader, None, text)
    return plan


def _planned(reader: SubmitReader, around: SubmitSurroundings, cluster: int, kind: type[JobDraft]) -> SubmitPlan:
    """The plan, with its first job made: what is wrong with that, and with its set, is said now."""
    scope, warnings = reader.scope, reader.warnings
    _refuse(scope, reader.batches)
    batches = [(batch, _rows(batch, scope, around.world, reader, around)) for batch in reader.batches]
    if not any(len(rows) for _, rows in batches):
        warnings.append(f'"{scope.defaults["submit_file"]}" has only empty "queue" commands -- no jobs queued')
    most = around.config.int("SUBMIT_MAX_PROCS_IN_CLUSTER", 0)
    if most and sum(len(rows) for _, rows in batches) > most:
        raise SubmitError(
            f"number of procs exceeds SUBMIT_MAX_PROCS_IN_CLUSTER ({most})",
            span=reader.batches[-1].span(reader.file),
        )
    plan = SubmitPlan(scope, around, batches, cluster, warnings, kind)
    plan.job_set  # noqa: B018
    return plan


def _all_that_is_wrong(reader: SubmitReader, error: SubmitError | None, text: str | Iterable[str]) -> SubmitError:
    """The lines that cannot be read, what is wrong with the job, and names that are probably misspelt."""
    from pool.submit import meant

    system = meant.script_of(text) if isinstance(text, str) else None
    if system is not None:
        name = reader.scope.defaults["submit_file"]
        said = f"this is a script{'' if system == 'shell' else f' for {system}'}, and no description of a job"
        return SubmitError(said, span=Span(reader.file, 1), expected=meant.instead_of_script(name))
    found = [*reader.wrong]
    for one in error.apart() if error is not None else ():
        if not found or (one.span is not None and one.span.column):  # others may follow from lines that were left out
            found.append(one)
    for batch in reader.batches:
        unused = [macro for macro in batch.macros if macro.name.lower() not in reader.scope.used and macro.source.line]
        found += [_misspelt(macro) for macro in unused if meant.command(macro.name) is not None]
    return found[0].with_others(found[1:])


def _misspelt(macro: Macro) -> SubmitError:
    return SubmitError(unused_line(macro.name, macro.text), span=macro.source.name_span())


def _templates(config: Config) -> Callable[[str], str | None]:
    def template(name: str) -> str | None:
        names = [known.lower() for known in config.list("SUBMIT_TEMPLATE_NAMES", [])]
        text = config.raw(f"SUBMIT_TEMPLATE_{name}") if name.lower() in names else None
        return None if text is None else config.expand_known(text)

    return template


def _queues(reader: SubmitReader, queue_args: str | None, config: Config) -> None:
    """At least one queue statement: the description's, the command line's, or one job."""
    if len(reader.batches) > 1:
        if config.bool("SUBMIT_PREVENT_MULTI_QUEUE", False):
            second = reader.batches[1].span(reader.file)
            raise SubmitError("Extra data found after queue statement", span=second)
        reader.warnings.append(MULTI_QUEUE)
    if queue_args is not None:
        if reader.batches:
            raise SubmitError(
                "-queue argument conflicts with queue statement in submit file",
                span=reader.batches[0].span(reader.file),
            )
        arguments = statement_arguments(queue_args)
        reader.add_queue(queue_args if arguments is None else arguments, reader.last_line, typed(f"queue {queue_args}"))
    elif not reader.batches:
        reader.append_lines()
        reader.batches.append(SubmitBatch(parse_queue(""), reader.last_line, reader.scope.macros))


def _refuse(scope: Scope, batches: Sequence[SubmitBatch]) -> None:
    """Commands that belong to something which is not supported are refused by name."""
    for batch in batches:
        referred = {one.name.lower() for macro in batch.macros for one in references(macro.text)}
        for macro in batch.macros:
            what = commands.why_refused(macro.name)
            if what is not None and macro.name.lower() not in referred and macro.source is not ARGUMENT:
                said = f"{macro.name} belongs to {what}, which is not supported"
                raise SubmitError(said, span=macro.source.name_span())


def _rows(
    batch: SubmitBatch, scope: Scope, world: SubmitWorld, reader: SubmitReader, around: SubmitSurroundings
) -> Rows:
    queue = batch.queue
    scope.macros = batch.macros
    if not queue.mode:
        return Rows(Queue(), [""], queue.count)
    options = _match_options(scope)
    try:
        items = with_header(queue, load_items(queue, world, options, around.warn))
    except BadQueue as why:
        raise SubmitError(str(why), span=batch.span(reader.file)) from None
    if queue.slice is not None:
        picks = queue.slice.picks(len(items))
        return Rows(queue, [items[i] for i in picks], queue.count, picks)
    return Rows(queue, items, queue.count)


def _match_options(scope: Scope) -> MatchOptions:
    options = MatchOptions()
    for attribute, command, other in (
        ("warn_empty", "SubmitWarnEmptyMatches", "submit_warn_empty_matches"),
        ("fail_empty", "SubmitFailEmptyMatches", "submit_fail_empty_matches"),
        ("warn_duplicates", "SubmitWarnDuplicateMatches", "submit_warn_duplicate_matches"),
        ("allow_duplicates", "SubmitAllowDuplicateMatches", "submit_allow_duplicate_matches"),
    ):
        text = scope.param(command, other)
        value = None if text is None else as_bool(text)
        if text is not None and value is None:
            message = f"{command}={text} is invalid, must eval to a boolean."
            raise SubmitError(message, span=scope.span(command, other))
        if value is not None:
            setattr(options, attribute, value)
    said = scope.param("SubmitMatchDirectories", "submit_match_directories")
    if said is not None:
        if said.lower() not in ("never", "no", "false", "only", "yes", "true"):
            message = f"{said} is not a valid value for SubmitMatchDirectories"
            raise SubmitError(message, span=scope.span("SubmitMatchDirectories", "submit_match_directories"))
        options.directories = said
    return options


__all__ = ["SubmitPlan", "read_submit", "split_row"]
