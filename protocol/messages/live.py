"""What a tool asks of a running job: it asks the schedd, which passes the request on to the job's starter.

The connection between schedd and starter is there already, so a tool needs neither a way to the machine that runs the
job nor any right there; the schedd answers only whoever may manage the job. `activation` is empty on the first half of
the way: it is the schedd's to set.
"""

from __future__ import annotations

from typing import Final

from pool.base.errors import PeerError
from pool.base.ids import JobId
from protocol.wire.message import Done, Record, Request, StreamRequest

TAIL_WAIT_MAX_S: Final = 10.0
TAIL_BYTES_MAX: Final = 8 * 1024 * 1024
SHELL_CHUNK_BYTES: Final = 32 * 1024


class NotRunning(PeerError):
    """The job does not run, and may do so later."""


class Tail(Record):
    """The end of a file; `offset` is where the next piece begins."""

    name: str
    offset: int
    data: bytes


class Tails(Record):
    """The asked files that are there. `over`: the program has ended, and nothing more will come."""

    tails: list[Tail]
    over: bool = False


class TailFiles(Request[Tails], tag="live.tail"):
    """The last bytes of a running job's standard files, and of files that its transfer_output_files names.

    `offsets` are those of an earlier answer, by name; without one, at most `bytes_max` bytes from the end come, all
    files taken together. With `wait_s`, the answer waits so long for something new.
    """

    job_id: JobId
    activation: str = ""
    names: list[str] = []
    stdout: bool = True
    stderr: bool = False
    offsets: dict[str, int] = {}
    bytes_max: int = 1024
    wait_s: float = 0.0


class ShellOutput(Record):
    """What a shell has printed, and at its end its wait status. The first one has the slot and the job's processes."""

    data: bytes = b""
    error: bytes = b""  # standard error, when there is no terminal
    status: int | None = None
    slot: str = ""
    pids: list[int] = []


class OpenShell(StreamRequest[ShellOutput], tag="live.open_shell"):
    """Run a shell, or a command, as one more process of the job; it ends when nobody receives its output any more.

    `shell` is a name for it that nobody can guess. `terminal` is the value of TERM, and empty where there is no
    terminal. `shells` are tried in order, /bin/sh is the last one.
    """

    job_id: JobId
    node: int | None = None  # of a parallel job; None: the first of its proc
    activation: str = ""
    shell: str
    command: str = ""
    shells: list[str] = []
    terminal: str = ""
    rows: int = 0
    columns: int = 0


class RunOnNode(StreamRequest[ShellOutput], tag="live.run_on_node"):
    """Run a command as one more process of another node of the same parallel job: a starter asks its job's schedd.

    `activation` is the asking node's on the first half of the way, and on the second that of the node that is meant.
    Nothing can be typed. The command ends when nobody receives its output any more.
    """

    job_id: JobId
    activation: str
    node: int
    command: str


class ShellInput(Request[Done], tag="live.shell_input"):
    """What is typed; answered when the shell has room for more. `over`: nothing more will be."""

    job_id: JobId
    node: int | None = None  # of a parallel job; None: the first of its proc
    activation: str = ""
    shell: str
    data: bytes = b""
    over: bool = False


class ResizeShell(Request[Done], tag="live.resize_shell"):
    """The terminal has another size."""

    job_id: JobId
    node: int | None = None  # of a parallel job; None: the first of its proc
    activation: str = ""
    shell: str
    rows: int
    columns: int
