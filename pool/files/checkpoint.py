"""Checkpoints: files that a job wants kept so that it can go on from them, elsewhere or later.

A job that exits in the way it has named (SuccessCheckpointExitCode, or ...BySignal) has made one, and is started again.
With WhenToTransferOutput = ON_EXIT_OR_EVICT what is in the sandbox is kept when the job has to leave. With
want_checkpoint = criu the program need not know of it (`pool/execute/criu.py`), nor need the guest of a virtual
machine. The files are in the job's directory in
SPOOL, each checkpoint in a directory of its own with a manifest of their digests; or at CheckpointDestination, a URL,
and then only the manifest is in SPOOL.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Final

from pool.base.errors import PeerError
from pool.base.url import is_url
from pool.classad import ClassAd
from pool.execute.criu import wants_criu
from pool.execute.exit import Exited
from pool.execute.signals import signal_number, soft_kill_signal
from pool.execute.vm import keeps_state
from pool.files.spool import CHECKPOINT
from pool.files.transfer import check_name, file_list, listed_outputs

MANIFEST: Final = "_condor_checkpoint_MANIFEST"
FIRST: Final = 0


def keeps_checkpoints(job: ClassAd) -> bool:
    """Whether this job needs a place at the access point for what it may resume from."""
    return bool(job.eval_bool("WantFTOnCheckpoint", False)) or _on_eviction(job) or wants_criu(job)


def _on_eviction(job: ClassAd) -> bool:
    when = (job.eval_str("WhenToTransferOutput") or "").upper()
    return when == "ON_EXIT_OR_EVICT" or bool(job.eval_bool("SpoolOnEvict", False))


def is_written_down(job: ClassAd) -> bool:
    """Whether what runs knows nothing of checkpoints, and is written down as it is."""
    return wants_criu(job) or keeps_state(job)


def is_checkpoint(job: ClassAd, end: Exited) -> bool:
    """Whether this end of the program says that it has made a checkpoint."""
    if not job.eval_bool("WantFTOnCheckpoint", False):
        return False
    if job.eval_bool("SuccessCheckpointExitBySignal", False):
        return end.signal is not None and end.signal == job.eval_int("SuccessCheckpointExitSignal")
    return end.code is not None and end.code == (job.eval_int("SuccessCheckpointExitCode") or 0)


def wants_signal(job: ClassAd) -> bool:
    """Whether the job makes a checkpoint at a signal."""
    return bool(job.eval_bool("WantCheckpointSignal", False))


def appends_output(job: ClassAd) -> bool:
    """Whether standard output goes on where it was when the job resumes: after its checkpoints, or if it says so."""
    own = wants_signal(job) or job.eval_bool("WantFTOnCheckpoint", False) or is_written_down(job)
    return bool(own) or job.eval_bool("EraseOutputAndErrorOnRestart") is False


def is_asked_for_one(job: ClassAd) -> bool:
    """Whether the machine's PERIODIC_CHECKPOINT is about this job."""
    return wants_signal(job) or wants_criu(job)


def checkpoint_signal(job: ClassAd) -> int | None:
    """The signal at which it does: CheckpointSig, else the one that asks it to leave; None when it does not."""
    if not wants_signal(job):
        return None
    number = signal_number(job.eval("CheckpointSig"))
    return soft_kill_signal(job) if number is None else number


def kept_on_eviction(job: ClassAd, cause: str) -> bool:
    """Whether the sandbox is kept when the job has to leave; `cause`: "remove", "hold", or nothing."""
    if cause == "remove":
        return bool(job.eval_bool("SpoolOnEvict", False))
    return _on_eviction(job)


def checkpoint_list(job: ClassAd) -> list[str] | None:
    """The files of a checkpoint; None when new and changed files are to be found."""
    listed = file_list(job, "TransferCheckpoint")
    return listed_outputs(job) if listed is None else listed


def directory_name(number: int) -> str:
    """Where a checkpoint is, in the job's directory."""
    return f"{CHECKPOINT}{number:04d}"


def number_of(name: str) -> int | None:
    """Which checkpoint a directory or manifest is of."""
    found = re.fullmatch(rf"{CHECKPOINT}(?:MANIFEST\.)?(\d+)", name)
    return None if found is None else int(found[1])


def manifest_name(number: int) -> str:
    """The file that lists a checkpoint's files."""
    return f"{MANIFEST}.{number:04d}"


def destination(job: ClassAd) -> str | None:
    """The URL at which the job's checkpoints are kept; None: in SPOOL."""
    url = job.eval_str("CheckpointDestination")
    return url if url and is_url(url) else None


def stored_at(job: ClassAd, number: int, name: str) -> str:
    """The URL of one file of a checkpoint: no two jobs, and no two checkpoints, share one."""
    job_id = (job.eval_str("GlobalJobId") or "job").replace("#", "_")
    return f"{(destination(job) or '').rstrip('/')}/{job_id}/{number:04d}/{name}"


def write_manifest(digests: Mapping[str, str]) -> str:
    """A line for each file: its SHA-256, and its name."""
    return "".join(f"{digest} *{name}\n" for name, digest in sorted(digests.items()))


def read_manifest(text: str) -> dict[str, str]:
    """Names and digests; PeerError when it is no manifest, or not a whole one."""
    digests: dict[str, str] = {}
    if text and not text.endswith("\n"):
        raise PeerError("a manifest without its end")
    for line in text.splitlines():
        digest, mark, name = line.partition(" *")
        if not mark or re.fullmatch(r"[0-9a-f]{64}", digest) is None:
            raise PeerError(f"{line[:80]!r} is no line of a manifest")
        check_name(name)
        digests[name] = digest
    return digests


def newest_first(names: Iterable[str]) -> list[str]:
    """The directories of checkpoints among these names."""
    numbered = [(number, name) for name in names if (number := number_of(name)) is not None]
    return [name for _, name in sorted(numbered, reverse=True)]


def top_names(names: Iterable[str]) -> list[str]:
    """What of a checkpoint lies at the top of the sandbox."""
    return sorted({posixpath.normpath(name).partition("/")[0] for name in names})
