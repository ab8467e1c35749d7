"""`condor_submit -interactive`: one job that waits for a shell, and the shell; the job ends when that does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pool.base.errors import SubmitError

if TYPE_CHECKING:
    from minipool.client.session import Session

# The shell makes a directory that the program looks for: where processes are hidden from each other, the program's end
# would be the shell's.
WAITS: Final = "\"-c 'sleep 180 && while test -d ${_CONDOR_SCRATCH_DIR}/.condor_ssh_to_job_1; do sleep 3; done'\""
DESCRIPTION: Final = f"""\
universe = vanilla
executable = /bin/sh
arguments = {WAITS}
transfer_executable = false
environment = "TMOUT=7200"
notification = never
priority = 1000
queue
"""
MARK: Final = "MY.InteractiveJob = True"
_QUEUE: Final = re.compile(r"^[ \t]*queue\b", re.IGNORECASE | re.MULTILINE)


def default_description(session: Session) -> tuple[str, str]:
    """The description of a job that is described nowhere, and its file."""
    path = session.config.str("INTERACTIVE_SUBMIT_FILE", default="")
    if not path:
        return DESCRIPTION, ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(), path
    except OSError as error:
        raise SubmitError(f"Failed to open command file ({path}) ({error.strerror})") from None


def one_job_only(text: str) -> str:
    """The description without its queue statement: exactly one job is queued."""
    # By text, since the description is read only once its queue statement is gone: an interactive job is always one.
    found = _QUEUE.search(text)
    return text if found is None else text[: found.start()]


def overrides(session: Session) -> Iterator[str]:
    """What the job does instead of what its description says."""
    config = session.config
    yield f"interactive_executable = {config.str('INTERACTIVE_SUBMIT_CMD_OVERRIDE', default='') or '/bin/sh'}"
    yield f"interactive_args = {config.str('INTERACTIVE_SUBMIT_ARGS_OVERRIDE', default='') or WAITS}"


ALTERED: Final = ("universe = vanilla", "transfer_executable = false", MARK)
"""Lines after those of a description of the user's."""
