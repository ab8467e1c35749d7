"""condor_ssh_to_job: a shell, or a command, in the surroundings of a running job."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, Tool, run
from minipool.client.job_ids import one_job
from minipool.client.session import Session
from pool.base.errors import PeerError, PoolError, UserError
from pool.base.ids import JobId, is_number
from pool.jobs.vocabulary.states import JobStatus

if TYPE_CHECKING:
    from types import FrameType

    from minipool.cli.entry.terminal import Terminal
    from protocol.messages.live import OpenShell
    from protocol.rpc.blocking import BlockingPeer

TOOL = Tool(
    "condor_ssh_to_job",
    "Open a shell in a running job, or run a command there.",
    "[options] CLUSTER | CLUSTER.PROC | CLUSTER.PROC.NODE [COMMAND...]",
    (
        HELP,
        DEBUG,
        NAME,
        POOL,
        Opt("ssh", 1, 1, "COMMAND", 'a program of the ssh family to use instead: "sftp", "scp"'),
        Opt("keygen-options", 1, 1, "OPTIONS", "accepted; there are no keys"),
        Opt("auto-retry", 1, says="wait until the job runs"),
        Opt("remove-on-interrupt", 1, says="remove the job when this program is interrupted"),
        Opt("shells", 1, 1, "SHELL,...", "the shells to try, in order (SHELL of this environment)"),
        Opt("x y", 1, says="-X and -Y, too: accepted; there is no X11 forwarding"),
    ),
    unknown="Unrecognized argument: {}",
    stop_at_word=True,
)

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 2.0
IN_PLACE_OF_SSH: Final = "--in-place-of-ssh"
"""Not for people: OpenSSH's programs start this tool as they would start ssh."""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_ssh_to_job."""
    words = list(argv)
    # Among this tool's own options only: a command for the job may hold any word.
    for_ssh = IN_PLACE_OF_SSH in words[:6]
    if for_ssh:
        words.remove(IN_PLACE_OF_SSH)
    return run(TOOL, lambda parsed: _main(parsed, for_ssh=for_ssh), words)


def _main(parsed: Parsed, *, for_ssh: bool) -> int:
    if not parsed.words:
        raise UsageError("ERROR: You must specify a job!\n")
    from minipool.cli.entry.context import open_session

    (job, node), words = _job_and_node(parsed.words[0]), parsed.words[1:]
    program = shlex.split(parsed.value("ssh") or "ssh") or ["ssh"]
    if for_ssh:
        from minipool.cli.submit_tools.ssh_family import command_of

        words = [command_of(words)]
    elif os.path.basename(program[0]) != "ssh":
        from minipool.cli.submit_tools.ssh_family import run_over_shell

        told = [part for key in ("name", "pool") if (value := parsed.value(key)) for part in (f"-{key}", value)]
        return run_over_shell(str(job) if node is None else f"{job}.{node}", program, words, told, IN_PLACE_OF_SSH)
    visit = Visit(open_session(parsed), job, parsed.value("name"))
    visit.node = node
    shells = parsed.value("shells")
    return visit.run(
        " ".join(words),
        own_shells() if shells is None else [shell for shell in shells.split(",") if shell],
        retry=parsed.has("auto-retry"),
        remove=parsed.has("remove-on-interrupt"),
    )


def own_shells() -> list[str]:
    """The shells to try when none are named: the one that is used here."""
    shell = os.environ.get("SHELL", "")
    return [shell] if shell else []


def _job_and_node(text: str) -> tuple[JobId, int | None]:
    """The job, and which node of it where it is a parallel one; None: the first of its proc."""
    parts = text.split(".")
    job = one_job(".".join(parts[:2]))
    if job is None or len(parts) > 3 or not all(map(is_number, parts[2:])):
        raise UserError(f"Invalid job id: {text}")
    return job, int(parts[2]) if len(parts) == 3 else None


class Visit:
    """One shell in one job, or in one node of it."""

    def __init__(self, session: Session, job: JobId, schedd: str | None = None, address: str | None = None) -> None:
        self.session, self.job = session, job
        self.node: int | None = None
        self._schedd = {"name": schedd, "addr": address}

    def connect(self) -> BlockingPeer:
        """A connection to the job's schedd."""
        return self.session.daemon("schedd", **self._schedd)

    def run(self, command: str, shells: Sequence[str], *, retry: bool = False, remove: bool = False) -> int:
        """Until the shell's end; its exit status is ours."""
        from minipool.cli.entry.terminal import Terminal

        if remove:
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
                signal.signal(number, _interrupt)
        try:
            with Terminal(wanted=not command) as terminal:
                return self._attempt(lambda: self._request(command, shells, terminal), terminal, retry=retry)
        except KeyboardInterrupt:
            if remove:
                self._remove()
            return 130
        except PeerError as error:
            if remove:
                self._remove()
            hint = "" if retry or _code(error) != "NotRunning" else "\n(Use -auto-retry to keep trying periodically.)"
            raise UserError(f"{error}{hint}") from None

    def _request(self, command: str, shells: Sequence[str], terminal: Terminal) -> OpenShell:
        from protocol.messages.live import OpenShell

        rows, columns = terminal.size()
        return OpenShell(
            job_id=self.job,
            node=self.node,
            shell=os.urandom(16).hex(),
            command=command,
            shells=list(shells),
            terminal=(os.environ.get("TERM") or "dumb") if terminal.is_one else "",
            rows=rows,
            columns=columns,
        )

    def _attempt(self, request: Callable[[], OpenShell], terminal: Terminal, *, retry: bool) -> int:
        from minipool.cli.entry.terminal import ShellSession

        pause = FIRST_PAUSE_S
        while True:
            with self.connect() as peer:
                conversation = ShellSession(peer, self.connect, request(), terminal)
                try:
                    return conversation.run()
                except PeerError as error:
                    if not retry or conversation.begun or _code(error) != "NotRunning":
                        raise
                    self._give_up_if_it_never_runs()
            if pause == FIRST_PAUSE_S:
                sys.stderr.write("Waiting for job to start...\n")
            time.sleep(pause)
            # A job that is matched soon is entered soon; one that waits for hours is asked about every other second.
            pause = min(1.5 * pause, LONGEST_PAUSE_S)

    def _give_up_if_it_never_runs(self) -> None:
        """A job on hold, or gone, is not waited for."""
        from protocol.messages.schedd import QueryJobs, Selection

        query = QueryJobs(select=Selection(ids=[str(self.job)]), projection=["JobStatus", "HoldReason"])
        with self.connect() as peer:
            ads = [ad for batch in peer.stream(query) for ad in batch.ads]
        if not ads:
            raise UserError(f"No such job: {self.job}")
        if ads[0].eval_int("JobStatus") == JobStatus.HELD:
            raise UserError(f'Job is held: "{ads[0].eval_str("HoldReason", "")}".')

    def _remove(self) -> None:
        from protocol.messages.schedd import Action, ActOnJobs, Selection

        try:
            with self.connect() as peer:
                peer.call(ActOnJobs(select=Selection(ids=[str(self.job)]), action=Action.REMOVE))
        except PoolError as error:
            sys.stderr.write(f"Job {self.job} could not be removed: {error}\n")


def _code(error: PeerError) -> str:
    return str(getattr(error, "code", ""))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
