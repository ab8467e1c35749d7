"""Tools that reach into running jobs: the end of their output, and shells."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

KNOBS: dict[str, Any] = {
    "SCHEDD_ENABLE_SSH_TO_JOB": "NoShells =!= true",
    "ENABLE_SSH_TO_JOB": "TARGET.NoVisitors =!= true",
    "ENABLE_PEEK_JOB": "TARGET.NoVisitors =!= true",
}
DESCRIPTION = """
executable = /bin/sh
arguments = "'{script}' '{stop}'"
transfer_executable = false
transfer_input_files = {script}
should_transfer_files = YES
output = out.$(Cluster)
error = err.$(Cluster)
log = log.$(Cluster)
transfer_output_files = extra.txt
{more}
queue
"""
WRITES = """
echo 'line 1'; echo 'line 2'; echo 'line 3'
echo problem >&2
echo data > extra.txt
ln -s /etc/passwd hidden
touch "$1.ready"
while [ ! -e "$1" ]; do sleep 0.1; done
echo 'line 4'
rm "$1.ready"
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=8, **KNOBS) as started:
        home = started.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        yield started


@pytest.fixture(scope="module")
def job(pool: RealPool) -> Job:
    """One that nobody ends before the pool does."""
    return Job(pool, "shared")


class Job:
    """One that has written its lines, and waits until it is told to write the last one and end."""

    def __init__(self, pool: RealPool, name: str, more: str = "") -> None:
        self.pool, self.home = pool, pool.place(name)
        self.stop = self.home / f"{name}.stop"
        self.ready = Path(f"{self.stop}.ready")
        script = self.home / f"{name}.sh"
        script.write_text(WRITES)
        description = DESCRIPTION.format(script=script, stop=self.stop, more=more)
        self.cluster = pool.submit(description, cwd=self.home)
        pool.until(self.ready.exists, "the job to be ready")
        pool.until_status(self.cluster, 2)

    def ad(self) -> ClassAd:
        return self.pool.jobs(str(self.cluster))[0]


def ran(pool: RealPool, *argv: str, text: bytes = b"", user: str | None = None) -> tuple[int, str, str]:
    """A tool, until its end: its status, and what it printed."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(argv[0])), *argv[1:]],
        cwd=pool.directory / "home",
        env={**pool.env(), "SHELL": "/bin/sh"},
        input=text,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        **as_account(user or pool.user),
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class Typed:
    """A tool on a terminal."""

    def __init__(self, pool: RealPool, *argv: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(33, 99)
        self.said = b""
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name(argv[0])), *argv[1:]],
            cwd=pool.directory / "home",
            env={**pool.env(), "SHELL": "/bin/sh", "TERM": "vt100", "PS1": "$ "},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            **as_account(pool.user),
        )
        os.close(slave)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> str:
        """Read until this is said; all that was said since the last time."""
        deadline = time.monotonic() + DEADLINE_S
        while text.encode() not in self.said:
            readable, _, _ = select.select([self.master], [], [], 1.0)
            assert time.monotonic() < deadline, self.said
            if readable:
                self.said += os.read(self.master, 4096)
        found, _, self.said = self.said.partition(text.encode())
        return (found + text.encode()).decode()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def type_until(self, text: str, answer: str) -> None:
        """Type it again and again until this is said: what is typed may come too early."""
        deadline = time.monotonic() + DEADLINE_S
        while answer.encode() not in self.said:
            assert time.monotonic() < deadline, self.said
            self.type(text)
            readable, _, _ = select.select([self.master], [], [], 1.0)
            if readable:
                self.said += os.read(self.master, 4096)
        self.until(answer)

    def end(self) -> int:
        """The exit status."""
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            os.close(self.master)


# ---- condor_tail


def test_the_end_of_a_running_jobs_files_is_shown(pool: RealPool, job: Job) -> None:
    cluster = str(job.cluster)
    lines = "line 1\nline 2\nline 3\n"
    cases: list[tuple[list[str], tuple[int, str, str]]] = [
        ([cluster], (0, lines, "")),
        ([f"{cluster}.0"], (0, lines, "")),
        (["-maxbytes", "9", cluster], (0, "2\nline 3\n", "")),
        (["-stderr", cluster], (0, "problem\n", "")),
        (["-no-stdout", "-stderr", cluster], (0, "problem\n", "")),
        ([cluster, "extra.txt"], (0, f"{lines}data\n", "")),
        (["-no-stdout", cluster, "extra.txt"], (0, "data\n", "")),
        ([cluster, f"out.{cluster}"], (0, lines, "")),
        (
            [cluster, "hidden"],
            (1, "", "Failed to peek at file from starter: File hidden requested but not authorized to be sent.\n"),
        ),
        (["999999.0"], (1, "", "No such job: 999999.0\n")),
    ]
    for arguments, expected in cases:
        assert ran(pool, "condor_tail", *arguments) == expected, arguments


def test_what_a_job_writes_is_followed_to_its_end(pool: RealPool) -> None:
    job = Job(pool, "followed")
    tail = subprocess.Popen(
        [str(Path(sys.executable).with_name("condor_tail")), "-follow", str(job.cluster)],
        env=pool.env(),
        stdout=subprocess.PIPE,
        text=True,
        **as_account(pool.user),
    )
    assert tail.stdout is not None
    first = [tail.stdout.readline() for _ in range(3)]
    job.stop.touch()
    assert tail.wait(DEADLINE_S) == 0
    assert first == ["line 1\n", "line 2\n", "line 3\n"]
    assert tail.stdout.read() in ("line 4\n", "")  # a job may end faster than it can be asked
    tail.stdout.close()
    pool.until_done(job.cluster)


def test_a_job_that_does_not_run_has_nothing_to_show(pool: RealPool) -> None:
    cluster = str(pool.submit("executable = /bin/sleep\nhold = true\nqueue\n", cwd=pool.directory / "home"))
    status, out, err = ran(pool, "condor_tail", cluster)
    assert (status, out) == (1, "")
    assert err.startswith(f"Job {cluster}.0 is not running. It is on hold: ")
    status, out, err = ran(pool, "condor_ssh_to_job", "-auto-retry", cluster)
    assert (status, out) == (1, "")
    assert err.startswith('Job is held: "')
    pool.tool("condor_rm", cluster)
    pool.until_done(int(cluster))


def test_following_ends_when_the_starter_is_killed(pool: RealPool) -> None:
    job = Job(pool, "killed")
    tail = Typed(pool, "condor_tail", "-follow", str(job.cluster))
    tail.until("line 3")
    os.kill(_starter_of(job), signal.SIGKILL)
    assert tail.end() == 0
    job.stop.touch()


def _starter_of(job: Job) -> int:
    """The process above the job's."""
    pid = job.pool.until(lambda: job.ad().eval_int("JobPid"), "the job's process id")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account to be refused")
def test_nobody_else_may_look_or_enter(pool: RealPool, job: Job) -> None:
    for argv in (["condor_tail", str(job.cluster)], ["condor_ssh_to_job", str(job.cluster), "id"]):
        status, out, err = ran(pool, *argv, user="daemon")
        assert (status, out) == (1, "")
        assert "is not authorized for access to the starter for job" in err


def test_the_machine_and_the_queue_may_forbid_it(pool: RealPool) -> None:
    job = Job(pool, "forbidden", "+NoVisitors = true\n+NoShells = true")
    cluster = str(job.cluster)
    said = "Failed to peek at file from starter: Rejecting request, because ENABLE_PEEK_JOB=false\n"
    assert ran(pool, "condor_tail", cluster) == (1, "", said)
    said = f"Job {cluster}.0 is denied by SCHEDD_ENABLE_SSH_TO_JOB.\n"
    assert ran(pool, "condor_ssh_to_job", cluster, "id") == (1, "", said)
    pool.tool("condor_qedit", cluster, "NoShells", "false")
    status, _, err = ran(pool, "condor_ssh_to_job", cluster, "id")
    assert status == 1
    assert err.startswith(f"Job {cluster}.0 is denied by ENABLE_SSH_TO_JOB on slot1_")
    job.stop.touch()
    pool.until_done(job.cluster)


# ---- condor_ssh_to_job


def test_a_command_runs_as_one_more_process_of_the_job(pool: RealPool, job: Job) -> None:
    ssh = "condor_ssh_to_job", str(job.cluster)
    program = job.ad().eval_int("JobPid") or pool.until(lambda: job.ad().eval_int("JobPid"), "its process id")
    status, out, err = ran(pool, *ssh, "pwd; cat extra.txt; echo $_CONDOR_JOB_PIDS; id -un; exit 7")
    sandbox, data, pids, account = out.splitlines()
    assert (status, err) == (7, "")
    assert Path(sandbox).parent == pool.directory / "execute"
    assert (data, int(pids.split()[0])) == ("data", program)
    if pool.user is not None and os.geteuid() == 0:
        assert account == pool.user
    assert ran(pool, *ssh, "kill -9 $$") == (137, "", "")
    assert ran(pool, *ssh, "cat /proc/$$/cgroup", f"| cmp - /proc/{program}/cgroup") == (0, "", "")
    assert ran(pool, *ssh, "echo", "several", "words") == (0, "several words\n", "")
    assert ran(pool, "condor_ssh_to_job", "999999", "id") == (1, "", "No such job: 999999.0\n")
    assert ran(pool, "condor_ssh_to_job", "nonsense", "id") == (1, "", "Invalid job id: nonsense\n")


def test_bytes_go_both_ways_unchanged(pool: RealPool, job: Job) -> None:
    data = bytes(range(256)) * 1500
    done = subprocess.run(
        [str(Path(sys.executable).with_name("condor_ssh_to_job")), str(job.cluster), "cat; echo end >&2"],
        env=pool.env(),
        input=data,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        **as_account(pool.user),
    )
    assert (done.returncode, done.stderr) == (0, b"end\n")
    assert done.stdout == data


def test_without_a_terminal_a_shell_reads_its_commands(pool: RealPool, job: Job) -> None:
    status, out, err = ran(pool, "condor_ssh_to_job", str(job.cluster), text=b"echo typed; exit 3\n")
    assert (status, err) == (3, "")
    first, second, typed = out.splitlines()
    assert first.startswith("Welcome to slot1_")
    assert second.startswith("Your condor job is running with pid(s) ")
    assert typed == "typed"


def test_a_shell_has_a_terminal_of_the_users_size_and_ends_as_it_says(pool: RealPool, job: Job) -> None:
    shell = Typed(pool, "condor_ssh_to_job", str(job.cluster))
    shell.until("Your condor job is running")
    shell.type("stty size\n")
    shell.until("33 99")
    shell.resize(44, 111)
    shell.process.send_signal(signal.SIGWINCH)  # which the kernel would send where this is its terminal
    shell.type_until("stty size\n", "44 111")
    shell.type("echo $TERM; sleep 1000\n")
    shell.until("vt100")
    shell.type_until("\x03echo interr''upted\n", "interrupted")
    shell.type("exit 5\n")
    assert shell.end() == 5


def test_a_shell_ends_with_its_user(pool: RealPool, job: Job) -> None:
    note = pool.directory / "home" / "shell.pid"
    tool = subprocess.Popen(
        [str(Path(sys.executable).with_name("condor_ssh_to_job")), str(job.cluster), f"echo $$ > {note}; sleep 1000"],
        env=pool.env(),
        stdin=subprocess.PIPE,
        **as_account(pool.user),
    )
    pid = int(pool.until(lambda: note.exists() and note.read_text().strip(), "the shell"))
    tool.kill()
    tool.communicate()
    pool.until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the shell")
    assert job.ad()["JobStatus"] == 2


def test_a_job_goes_on_while_a_shell_is_open_unless_it_has_to_leave(pool: RealPool) -> None:
    job = Job(pool, "visited")
    shell = Typed(pool, "condor_ssh_to_job", str(job.cluster))
    shell.until("Your condor job is running")
    job.stop.touch()
    pool.until(lambda: not job.ready.exists(), "the end of the program")
    shell.type("echo still he''re\n")
    shell.until("still here")
    assert job.ad()["JobStatus"] == 2
    pool.tool("condor_rm", str(job.cluster))
    shell.end()
    pool.until_done(job.cluster)


# ---- condor_submit -interactive


def test_an_interactive_job_ends_with_its_shell(pool: RealPool) -> None:
    home = pool.directory / "home"
    (home / "interactive.sub").write_text(
        "executable = /nonexistent\nlog = interactive.log\nshould_transfer_files = YES\nqueue 5\n"
    )
    shell = Typed(pool, "condor_submit", "-interactive", "interactive.sub")
    cluster = _cluster(shell)
    shell.until("Your condor job is running")
    assert [ad["InteractiveJob"] for ad in pool.jobs(str(cluster))] == [True]
    shell.type("exit 3\n")
    assert shell.end() == 3
    (ad,) = pool.until_done(cluster)
    assert (ad["ExitCode"], ad["JobDescription"], ad["Cmd"]) == (3, "interactive job", "/bin/sh")


def test_an_interactive_job_that_is_given_up_is_removed(pool: RealPool) -> None:
    (pool.directory / "home" / "never.sub").write_text("requirements = false\nqueue\n")
    shell = Typed(pool, "condor_submit", "-interactive", "never.sub")
    cluster = _cluster(shell)
    shell.until("Waiting for job to start...")
    shell.process.send_signal(signal.SIGINT)
    assert shell.end() == 130
    (ad,) = pool.until_done(cluster)
    assert ad["JobStatus"] == 3


def _cluster(shell: Typed) -> int:
    shell.until("submitted to cluster ")
    return int(shell.until(".").rstrip("."))
