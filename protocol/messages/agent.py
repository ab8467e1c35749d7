"""What the schedd and starters ask of a user's file agent.

The agent runs as the user and opens that user's files; it does what HTCondor's condor_shadow does there (event logs:
manual page codes-other-values/job-event-log-codes; input and output: users-manual/file-transfer). The rules:

    one agent a user   it answers its schedd, and starters with a ticket for one activation's files
    order holds        the events of a request are appended in order, each log under its lock
    bytes go apart     messages agree on what is transferred; the bytes follow on that connection (`files.bulk`)
"""

from __future__ import annotations

from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.security.ticket import Bearer
from protocol.wire.message import Done, Message, Record, Request

# ---- from the schedd, on the socket pair that the agent was born with


class LogEvent(Record):
    """One event for a user's log. `text` is complete, from its header line to the closing `...` line.

    `check`: it may have been written before a crash; append it only if the log's tail lacks it.
    """

    log: str
    text: str
    check: bool = False


class AppendEvents(Request[Done], tag="agent.append_events"):
    """Append the events, in order, each log under its lock; UserError names the file that cannot be written."""

    events: list[LogEvent]


class OpenTransfer(Request[Done], tag="agent.open_transfer"):
    """From now on the ticket with this digest lets its bearer move the files of this job ad.

    The activations of a `claim` share it. `spool` is where checkpoints of a job that makes any are kept; `..._max_mb`:
    how much may move, -1 for all. `directories`: where its files may be, anywhere when there are none. `use` "stage_in"
    and "stage_out": a tool fills the `spool` directory, or fetches what its job has left there.
    """

    activation: str
    digest: str
    bearer: Bearer
    job_id: JobId
    job_ad: ClassAd
    claim: str = ""
    use: str = "run"
    spool: str = ""
    input_max_mb: int = -1
    output_max_mb: int = -1
    directories: list[str] = []


class CloseTransfer(Request[Done], tag="agent.close_transfer"):
    """The activation is over; its ticket is void."""

    activation: str


class TurnGiven(Message, tag="agent.turn_given"):
    """The files for which this turn was asked (see schedd.AskTurn) may move."""

    turn: str


class TurnTakenBack(Message, tag="agent.turn_taken_back"):
    """This transfer has taken too long, and others wait: it stops here, and asks again."""

    turn: str


class CleanupRule(Record):
    """Checkpoints at URLs that begin so are removed by this program and its arguments, with commas between them."""

    prefix: str
    command: str


class CheckpointsCleaned(Record):
    """All is removed, or what went wrong."""

    trouble: str = ""


class UpToDate(Record):
    """Whether the job's output is newer than its program and its input, so that it need not run."""

    answer: bool


class AskUpToDate(Request[UpToDate], tag="agent.is_up_to_date"):
    """Compare the ages of the files of this job ad."""

    job_ad: ClassAd


class CleanCheckpoints(Request[CheckpointsCleaned], tag="agent.clean_checkpoints"):
    """Remove from its URL what the manifests of this directory name, and then the directory.

    `limit_s`: how long all of it may take, `file_limit_s` each file; `libexec`: where programs without a path are.
    """

    directory: str
    rules: list[CleanupRule]
    libexec: str = ""
    limit_s: float = 300.0
    file_limit_s: float = 20.0


# ---- from a starter, or from a tool that spools or fetches, with its ticket


class FileEntry(Record):
    """A file on its way: `name` is relative to the sandbox, with `/`; a directory or symlink has no bytes.

    A small file's bytes are `data`; those of the others follow. `mtime` (ns) tells whether it was changed since an
    attempt that was cut off; 0: that cannot be told.
    """

    name: str
    size: int = 0
    mode: int = 0o644
    kind: str = "file"  # file, dir, link
    target: str = ""
    data: bytes | None = None
    mtime: int = 0


class Partial(Record):
    """What has come of a file before the connection was cut."""

    name: str
    have: int
    size: int
    mtime: int


class Trouble(Record):
    """Why files could not be moved: what the job is held with (12 output, 13 input; subcode: the errno)."""

    reason: str
    hold_code: int
    hold_subcode: int = 0


class InputFiles(Record):
    """The files; what is not in them follows as bulk bytes, in this order. Nothing follows when there is `trouble`."""

    files: list[FileEntry]
    trouble: Trouble | None = None
    have: dict[str, int] = {}  # of these files so many bytes are there, and are not sent again
    restored: list[str] = []  # those at the top of the sandbox that come from the job's newest checkpoint


class FetchInput(Request[InputFiles], tag="agent.fetch_input"):
    """Send the job's input (executable included when it is transferred). `have`: what an earlier attempt brought.

    `process`: the caller takes large files as open files, if the connection leads to this process itself.
    """

    activation: str
    have: list[Partial] = []
    process: int = 0


class InputTaken(Message, tag="agent.input_taken"):
    """All of the input is here, files that were handed over open included."""

    activation: str


class PushTaken(Record):
    """Of these files so many bytes are there from an attempt that was cut off: they are not sent again.

    `open_files`: large ones may be handed over open.
    """

    have: dict[str, int] = {}
    open_files: bool = False
    allowed: dict[str, int] | None = None  # there is too much: these files, and so many bytes of each, are taken


class PushOutput(Request[PushTaken], tag="agent.push_output"):
    """These files go to where the job ad says; the bytes that are not in them follow.

    Answered before the first byte is sent. `checkpoint`: they are kept for the job to go on from. `process`: the caller
    hands large files over open, if the connection leads to this process itself.
    """

    activation: str
    files: list[FileEntry]
    checkpoint: bool = False
    process: int = 0


class SignedUrls(Record):
    """The same URLs, in the same order, as https URLs that need no key for a while."""

    urls: list[str]


class SignUrls(Request[SignedUrls], tag="agent.sign_urls"):
    """Sign these s3 and gs URLs of the job with its keys, which stay here; UserError says what is wrong."""

    activation: str
    urls: list[str]
    upload: bool = False


class IoDone(Record):
    """What an operation gave: a number that is not negative, or the negative errno; and bytes."""

    value: int
    data: bytes = b""


class RemoteIo(Request[IoDone], tag="agent.remote_io"):
    """One operation on files of the user, for a running job that wants its owner's files (see daemons.agent.remote_io).

    `texts` and `numbers` are its words, in their order; relative paths begin in the job's directory.
    """

    activation: str
    operation: str
    texts: list[str] = []
    numbers: list[int] = []
    data: bytes = b""


class TreeIo(Request[IoDone], tag="agent.tree_io"):
    """One operation on the files of a running job that has them where they are (see daemons.agent.remote_tree).

    `tree`: which of the job's directories (pool.execute.remote_io.trees); `path` and `to` are relative to it. `handle`:
    a file that the asker has open, under a number of its own; `closed`: those that it has open no more. `serial`: of
    what must not be done twice, asked again after a connection was lost; 0 for what may.
    """

    activation: str
    tree: int
    operation: str
    path: str = ""
    to: str = ""
    numbers: list[int] = []
    handle: int = 0
    closed: list[int] = []
    serial: int = 0
    data: bytes = b""
    """Last, so that it is sent as it is."""


class Stored(Record):
    """Every file is in place, or what went wrong, naming file and host."""

    trouble: Trouble | None = None


class OutputStored(Request[Stored], tag="agent.output_stored"):
    """Asked after the last byte: answered when the files are in place (or cannot be)."""

    activation: str


class WriteStream(Request[Done], tag="agent.write_stream"):
    """A piece of a standard file that is streamed, and its place; `begins`: what was there before goes."""

    activation: str
    name: str
    at: int
    data: bytes
    begins: bool = False


class StreamPiece(Record):
    """A piece of the input; empty at its end."""

    data: bytes


class ReadStream(Request[StreamPiece], tag="agent.read_stream"):
    """A piece of the standard input that is streamed."""

    activation: str
    at: int
    size: int
