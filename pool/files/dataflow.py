"""Jobs that need not run, as their output is newer than their input (skip_if_dataflow).

What is compared are the times at which files were changed last, in nanoseconds. A job whose output goes elsewhere than
to the files that it names, or which names something else than plain files, always runs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from pool.base.url import is_url
from pool.classad import ClassAd
from pool.execute.plan import NULL
from pool.files.transfer import listed_inputs, listed_outputs

Changed = Callable[[str], int | None]
"""When the file of this path was changed last; None where there is no plain file."""
MISSING = -1


def may_be_skipped(job: ClassAd) -> bool:
    """Whether the ages of the job's files can tell."""
    elsewhere = bool(job.eval_str("TransferOutputRemaps") or job.eval_str("OutputDestination"))
    return bool(listed_outputs(job)) and not elsewhere


def is_up_to_date(job: ClassAd, changed: Changed) -> bool:
    """Whether the oldest output is newer than the program and all input. Input at a URL has no time."""
    iwd = job.eval_str("Iwd") or "/"

    def newest(paths: list[str]) -> int | None:
        """The latest change; None if there is not every file."""
        times = [changed(posixpath.join(iwd, path)) for path in paths]
        return None if None in times else max((time for time in times if time is not None), default=MISSING)

    stdin = job.eval_str("In") or NULL
    inputs = [job.eval_str("Cmd") or NULL, *([] if stdin == NULL else [stdin])]
    inputs += [path for path in listed_inputs(job) if not is_url(path)]
    last_in = newest(inputs)
    if last_in is None:
        return False
    for path in listed_outputs(job) or ():
        made = newest([path])
        if made is None or made <= last_in:
            return False
    return True
