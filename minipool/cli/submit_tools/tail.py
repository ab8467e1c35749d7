"""condor_tail: the last bytes of what a running job writes, and what it writes from then on."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.client.job_ids import one_job
from minipool.client.session import NotFound
from pool.base.errors import PeerError, UserError
from pool.base.ids import JobId, is_number

if TYPE_CHECKING:
    from protocol.messages.live import TailFiles, Tails
    from protocol.rpc.blocking import BlockingPeer

TOOL = Tool(
    "condor_tail",
    "Show the last bytes of a running job's output.",
    "[options] JOB-ID [FILE]...",
    (
        HELP,
        VERSION_OPT,
        POOL,
        NAME,
        DEBUG,
        Opt("maxbytes", 1, 1, "N", "at most so many bytes at a time (1024)"),
        Opt("auto-retry", 1, says="wait until the job runs"),
        Opt("follow", 1, says="go on with what is written, until the job ends"),
        Opt("no-stdout", 1, says="not the standard output"),
        Opt("stderr", 1, says="the standard error instead of the standard output"),
    ),
    notes="FILE is one that the job's transfer_output_files names.",
)

RETRY_S: Final = 2.0
WAIT_S: Final = 5.0


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_tail."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.live import TailFiles

    request = TailFiles(
        job_id=_job_id(parsed),
        names=parsed.words[1:],
        stdout=not (parsed.has("no-stdout") or parsed.has("stderr")),
        stderr=parsed.has("stderr"),
        bytes_max=_bytes_max(parsed),
    )
    if not (request.stdout or request.stderr or request.names):
        raise UsageError("No file transfer specified.\n")
    session = open_session(parsed)
    try:
        peer = session.daemon("schedd", name=parsed.value("name"))
    except NotFound:
        where = f" in pool {session.pool}" if session.pool else " in local pool"
        name = parsed.value("name")
        said = f"No such schedd named {name}{where}" if name else "Can't find address of local schedd"
        raise UserError(said) from None
    with peer:
        return _show(peer, request, follow=parsed.has("follow"), retry=parsed.has("auto-retry"))


def _job_id(parsed: Parsed) -> JobId:
    if not parsed.words:
        raise UsageError("Job ID not specified.")
    job = one_job(parsed.words[0])
    if job is None:
        raise UsageError(f"Invalid Job ID: {parsed.words[0]}")
    return job


def _bytes_max(parsed: Parsed) -> int:
    text = parsed.value("maxbytes", "1024") or ""
    if not is_number(text):
        raise UsageError(f"Error: maxbytes ({text}) is not valid\n")
    return int(text)


def _show(peer: BlockingPeer, request: TailFiles, *, follow: bool, retry: bool) -> int:
    """Print what comes, once or until the job ends."""
    from protocol.wire.message import replace

    tails = _first(peer, request, retry=retry)
    _write(tails)
    try:
        while follow and not tails.over:
            offsets = {**request.offsets, **{one.name: one.offset for one in tails.tails}}
            request = replace(request, offsets=offsets, wait_s=WAIT_S)
            tails = peer.call(request)
            _write(tails)
    except KeyboardInterrupt:
        return 130
    except PeerError as error:  # the job has ended meanwhile
        if getattr(error, "code", "") != "NotRunning":
            raise
    return 0


def _first(peer: BlockingPeer, request: TailFiles, *, retry: bool) -> Tails:
    while True:
        try:
            return peer.call(request)
        except PeerError as error:
            code = getattr(error, "code", "")
            # By the code and not by the sentence: this is the one refusal that time may mend.
            if code == "NotRunning" and retry:
                time.sleep(RETRY_S)
                continue
            raise UserError(str(error)) from None


def _write(tails: Tails) -> None:
    out = sys.stdout.buffer
    for one in tails.tails:
        out.write(one.data)
    out.flush()
