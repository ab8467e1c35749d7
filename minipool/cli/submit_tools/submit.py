"""condor_submit: queue jobs from a submit description.

Without an item no job is queued, and that is no failure. The cluster is printed before what follows it (input that is
spooled, warnings), on standard output; warnings go to standard error. -terse prints ids alone. How jobs get into the
queue is `minipool.client.submission`. Source: HTCondor's manual page condor_submit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.options import Opt, Parsed, UsageError, find_row
from minipool.cli.entry.tool import ADDR, DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.client.session import NotFound, Session
from pool.base.errors import PoolError, SubmitError, UserError
from pool.base.ids import is_number
from pool.base.words import split_list
from pool.jobs.vocabulary.nodes import is_gang

if TYPE_CHECKING:
    from collections.abc import Iterable

    from minipool.client.submission import Queued
    from pool.classad import ClassAd
    from pool.submit import SubmitPlan
    from protocol.rpc.blocking import BlockingPeer

TOOL = Tool(
    "condor_submit",
    "Queue jobs from a submit description.",
    "[options] [<attrib>=<value>] [- | <submit-file>]",
    (
        Opt("terse", 3, says="print only the ids of the jobs"),
        Opt("verbose", 1, says="print the ads of the jobs"),
        Opt("unused", 1, says="warn about lines that nothing uses (always so)"),
        NAME,
        ADDR,
        Opt("append", 1, 1, "COMMAND", "add a line before the queue statement; may be repeated"),
        Opt("batch-name", 1, 1, "NAME", "the name under which condor_q shows the jobs"),
        Opt(
            "dry-run",
            3,
            1,
            "FILE|-",
            "write the ads there and queue nothing (:cluster=N: as cluster N; :full: whole ads of all jobs)",
            True,
        ),
        Opt("disable", 3, says="do not check whether files can be read and written"),
        POOL._replace(least=2),
        Opt("queue", 1, 0, "ARGUMENTS...", "the arguments of the queue statement"),
        Opt("maxjobs", 3, 1, "N", "refuse a description that makes more jobs"),
        Opt("single-cluster", 3, says="refuse a description that makes several clusters (always so)"),
        Opt("factory", 2, says="have the schedd make the jobs as they are needed"),
        Opt("file", 2, 1, "FILE", "the submit description"),
        Opt("spool", 1, says="send all files along to the schedd; condor_transfer_data fetches the output"),
        Opt("remote", 1, 1, "NAME", "the schedd of this name, with -spool"),
        Opt("interactive", 1, says="queue one job that waits for a shell, and open the shell in it"),
        Opt("allow-crlf-script", 8, says="let scripts end their lines as on Windows"),
        DEBUG._replace(least=2),
        HELP,
        VERSION_OPT,
        *refused("dump", "-dry-run FILE writes the ads", 2),
        *refused("password", "there are no passwords; tokens and certificates prove who submits"),
    ),
)

_LOST_OUTPUT: Final = "what the job prints is lost, for the description has neither `output =` nor `error =`"


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_submit."""
    words, queue = _split(argv)
    return run(TOOL, lambda parsed: _main(parsed, queue), words)


def _split(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """The words other than -queue and its arguments, and these: all up to the next option, or to a dash by itself."""
    for at, word in enumerate(argv):
        row = find_row(TOOL.options, word)[0] if word.startswith("-") and word != "-" else None
        if row is None or row.key != "queue":
            continue
        # The table of options cannot say this: any number of words, of which a dash by itself is the end and a part.
        end = next((end for end in range(at + 1, len(argv)) if argv[end].startswith("-")), len(argv))
        end += end < len(argv) and argv[end] == "-"
        return [*argv[:at], *argv[end:]], " ".join(argv[at + 1 : end]) or "1"
    return list(argv), None


def _main(parsed: Parsed, queue: str | None) -> int:
    files = [word for word in parsed.words if "=" not in word] + parsed.values("file")
    if len(files) > 1:
        raise UsageError(f"There is more than one submit file: {' '.join(files)}")
    from minipool.cli.entry.context import open_session

    submitter = Submitter(parsed, files[0] if files else "", queue)
    try:
        session = open_session(parsed)
        text = submitter.read(session)
        if parsed.has("dry-run"):
            return submitter.dry_run(session, text)
        return submitter.submit(session, text)
    except NotFound as error:
        name = submitter.schedd
        what = f"address of schedd {Session.open().qualified(name)}" if name else f"a schedd: {error}"
        raise UserError(f"\nERROR: Can't find {what}") from None
    except PoolError as error:
        raise UserError(f"\nERROR: {error}") from None


class Submitter:
    """One submission, as the command line describes it."""

    def __init__(self, parsed: Parsed, file: str, queue: str | None) -> None:
        self.parsed = parsed
        self.interactive = parsed.has("interactive")
        self.described = bool(file) or not self.interactive
        self.from_stdin = file == "-" or (not file and not self.interactive)
        self.file = "" if self.from_stdin else file
        self.queue = queue
        self.terse = parsed.has("terse")
        self.spools = parsed.has("spool") or parsed.has("remote")
        self.schedd = parsed.value("remote") or parsed.value("name")
        # A description from standard input is answered with the ads, as by condor_submit.
        self.verbose = parsed.has("verbose") or (file == "-" and not self.terse)

    def read(self, session: Session) -> str:
        """The text of the description."""
        if self.interactive:
            from minipool.cli.submit_tools.interactive import default_description, one_job_only

            if self.described:
                return one_job_only(self._read())
            text, self.file = default_description(session)
            return text
        return self._read()

    def _read(self) -> str:
        if self.from_stdin:
            return sys.stdin.read()
        try:
            with open(self.file, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError as error:
            raise SubmitError(f"Failed to open command file ({self.file}) ({error.strerror})") from None

    def plan(self, session: Session, text: str) -> SubmitPlan:
        """What the description asks for."""
        from minipool.client.submission import read_plan

        parsed = self.parsed
        appended = list(parsed.values("append"))
        name = parsed.value("batch-name")
        if name is not None:
            appended.append(f"batch_name = {name}")
        if parsed.has("allow-crlf-script"):
            appended.append("allow_crlf_script = true")
        extra = [word for word in parsed.words if "=" in word]
        if self.interactive:
            from minipool.cli.submit_tools.interactive import ALTERED, MARK, overrides

            extra += overrides(session) if self.described else ()
            appended += ALTERED if self.described else (MARK,)
        return read_plan(
            session,
            text,
            file=self.file,
            extra=extra,
            appended=appended,
            queue=self.queue,
            skip_checks=parsed.has("disable"),
            remote=self.spools,
            # Items may come from standard input (`queue x from -`), where the description itself does not.
            read_stdin=None if self.from_stdin else sys.stdin.read,
            interactive=self.interactive,
        )

    def submit(self, session: Session, text: str) -> int:
        """Queue the jobs and say what became of them."""
        schedd = session.address("schedd", name=self.schedd, addr=self.parsed.value("addr"))
        with session.connect(schedd, meanwhile=_import_submission) as peer:
            if not self.terse:
                sys.stdout.write("Submitting job(s)" if not self.verbose or not self.from_stdin else "\n")
                sys.stdout.flush()
            queued = self._send(peer, self.plan(session, text))
            if not queued.jobs:
                return self._nothing(queued.plan)
            self._say(queued.plan, queued.cluster)
            if self.spools:
                from minipool.client.spooling import spool_input

                sys.stdout.flush()
                spool_input(session, peer, queued.cluster, queued.plan.procs())
        from minipool.client.submission import tell

        sys.stdout.flush()  # whoever reads both streams as one finds the cluster first
        lost = [_LOST_OUTPUT] if queued.plan.prints_nowhere and not self.interactive and not self.terse else []
        tell([*queued.warnings, *lost])
        return self._enter(session, queued.cluster) if self.interactive else 0

    def _nothing(self, plan: SubmitPlan) -> int:
        """No item, no job: the schedd is told nothing, and that is no failure."""
        if not self.terse:
            sys.stdout.write("" if self.verbose and self.from_stdin else "\n")
            sys.stdout.flush()
        for warning in plan.warnings:
            sys.stderr.write(f"\nWARNING: {warning}\n")
        return 0

    def _enter(self, session: Session, cluster: int) -> int:
        """Open the shell that the job is for."""
        from minipool.cli.submit_tools.ssh_to_job import Visit, own_shells
        from pool.base.ids import JobId

        visit = Visit(session, JobId(cluster, 0), self.parsed.value("name"), self.parsed.value("addr"))
        return visit.run("", own_shells(), retry=True, remove=True)

    def _send(self, peer: BlockingPeer, plan: SubmitPlan) -> Queued:
        from minipool.client.submission import queue, queue_over

        limit = self.parsed.number("maxjobs", 0) if self.parsed.has("maxjobs") else None
        return queue_over(peer, queue(plan, limit=limit, late=self.parsed.has("factory"), spool=self.spools))

    def _say(self, plan: SubmitPlan, cluster: int) -> None:
        out = sys.stdout
        if self.terse:
            out.write(f"{cluster}.0 - {cluster}.{plan.count - 1}\n")
            return
        if self.verbose:
            out.write("\n" if not self.from_stdin else "")
            for proc, ad in enumerate(plan.procs()):
                out.write(f"** Proc {cluster}.{proc}:\n{_long(ad, cluster)}\n")
            out.write("\n")
            return
        dots = "" if plan.late or self.parsed.has("factory") else "." * plan.count
        jobs = 1 if is_gang(plan.cluster_ad) else plan.count
        out.write(f"{dots}\n{jobs} job(s) submitted to cluster {cluster}.\n")
        out.flush()
        if self.interactive:
            return
        # On standard error, where no script looks for the cluster.
        sys.stderr.write(f"To monitor your job(s), run: condor_watch_q -clusters {cluster}\n")

    def dry_run(self, session: Session, text: str) -> int:
        """Write the ads and queue nothing."""
        from minipool.client.submission import tell

        where = self.parsed.value("dry-run") or "-"
        sys.stdout.write("Dry-Run job(s)")
        sys.stdout.flush()
        plan = self.plan(session, text)
        if not plan.count:
            return self._nothing(plan)
        cluster, whole = self._dry_options()
        plan = plan.for_cluster(cluster) if cluster != plan.cluster else plan
        ads = list(_dry_ads(plan, whole=whole))
        if where == "-":
            sys.stdout.write("\n" + "".join(f"{ad}.\n" for ad in ads))
        else:
            try:
                with open(where, "w", encoding="utf-8") as file:
                    file.write("".join(f"\n{ad}" for ad in ads))
            except OSError as error:
                raise SubmitError(f"Failed to open file -dry-run output file ({where}) ({error.strerror})") from None
            sys.stdout.write("." * plan.count + "\n")
        sys.stdout.write(f"{plan.count} job(s) dry-run to cluster {plan.cluster}.\n")
        tell([*plan.warnings, *plan.unused()])
        return 0

    def _dry_options(self) -> tuple[int, bool]:
        """The number of the cluster, and whether all ads are written whole."""
        cluster, whole = 1, False
        for option in split_list(self.parsed.qualifier("dry-run")):
            name, _, number = option.partition("=")
            if option == "full":
                whole = True
            elif name == "cluster" and is_number(number):
                cluster = max(1, int(number))
            else:
                raise SubmitError(f"unknown option {option} for -dry-run:<opts>")
        return cluster, whole


def _import_submission() -> None:
    """A third of this tool's modules, and the longest part of its work: done while the schedd makes up its greeting."""
    import minipool.client.submission  # noqa: F401


def _dry_ads(plan: SubmitPlan, *, whole: bool) -> Iterable[str]:
    """Each job as `Attr=value` lines: the first one whole, then what differs."""
    for proc, ad in enumerate(plan.procs()):
        names = list(ad) if proc == 0 or whole else [name for name, _ in ad.own()]
        yield "".join(f"{name}={ad.text(name)}\n" for name in names)


def _long(ad: ClassAd, cluster: int) -> str:
    ad["ClusterId"] = cluster
    return "".join(f"{name} = {ad.text(name)}\n" for name in sorted(ad, key=str.lower))
