"""The files that a job names, looked at before it is queued. Only where the administrator or the user asks for it.

SUBMIT_SKIP_FILECHECKS says whether they are left unchecked, which they are by default: files may well come later.
"""

from __future__ import annotations

import errno
import os

from pool.base.url import is_url
from pool.submit.job import JobDraft, as_bool

NULL_FILE = "/dev/null"


def open_checks(job: JobDraft) -> None:
    """Refuse a job whose input cannot be read, or whose output has no directory."""
    around = job.around
    if around.skip_checks or around.config.bool("SUBMIT_SKIP_FILECHECKS", True):
        return
    said = job.param("skip_filechecks")
    if said is not None and as_bool(said):
        return
    for attribute, transfer, command in (("In", "TransferIn", "input"), ("", "", "transfer_input_files")):
        names = [job.text(attribute) or ""] if attribute else (job.text("TransferInput") or "").split(",")
        if attribute and job.ad.get(transfer) is False:
            continue
        for name in names:
            if _is_checked(name) and around.world.size(job.full_path(name)) is None:
                raise _cannot_open(job, name, os.O_RDONLY, command)
    for attribute, command in (("Out", "output"), ("Err", "error")):
        name = job.text(attribute) or ""
        if _is_checked(name) and not around.world.is_dir(os.path.dirname(job.full_path(name)) or "/"):
            raise _cannot_open(job, name, os.O_WRONLY, command)


def _is_checked(name: str) -> bool:
    return bool(name) and name != NULL_FILE and not is_url(name) and "$$(" not in name


def _cannot_open(job: JobDraft, name: str, flags: int, command: str) -> Exception:
    why = os.strerror(errno.ENOENT)
    return job.error(f'Can\'t open "{job.full_path(name)}"  with flags 0{flags:o} ({why})', command)
