"""condor_evicted_files: what the access point keeps of jobs that were evicted, or have made checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, VERSION_OPT, Tool, run
from pool.base.errors import UserError
from pool.base.ids import JobId, is_number

TOOL = Tool(
    "condor_evicted_files",
    "Show or copy the files that are kept for a job to go on from.",
    "[dir | list | get] JOB-ID...",
    (HELP, VERSION_OPT, DEBUG),
    notes="dir (the default) prints each job's directory in SPOOL. list shows the files that the job would go on from\n"
    "now: those of its newest checkpoint, and what else is kept for it; get copies them to a directory that has the\n"
    "job's name. It has to be run where the job's schedd is.",
)
COMMANDS: Final = {"dir": "dir", "find": "dir", "list": "list", "ls": "list", "get": "get", "fetch": "get"}


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_evicted_files."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    words = list(parsed.words)
    command = "dir"
    # The command may be left out, and an id begins with a digit.
    if words and not is_number(words[0][:1]):
        command = COMMANDS.get(words[0].lower(), "")
        if not command:
            print(f"Unknown command '{words[0]}', aborting.")
            return 1
        words = words[1:]
    if not words:
        raise UsageError("No job is named.\n")
    jobs = [_job_id(word) for word in words]
    from pool.files.spool import spool_path

    spool = open_session(parsed).config.path("SPOOL")
    worst = 0
    for job in jobs:
        worst = max(worst, _show(command, job, spool_path(spool, job), alone=len(jobs) == 1))
    return worst


def _job_id(word: str) -> JobId:
    try:
        return JobId.parse(word)
    except UserError:
        raise UserError(f"'{word}' is not a job ID, aborting.") from None


def _show(command: str, job: JobId, path: str, *, alone: bool) -> int:
    before = "" if alone else f"{job} "
    try:
        files = _kept(path)
    except FileNotFoundError:
        print(f"{before}No directory; job was never evicted.")
        # Of several jobs some have never been evicted, which is no failure; of one it is the answer.
        return 2 if alone else 0
    except OSError as error:
        print(f"{before}[error {error.errno}: '{error.strerror}' while looking for '{path}']")
        return error.errno or 1
    if command == "dir":
        print(f"{before}{path}")
    elif command == "list":
        if before:
            print(before)
        for name in sorted(files):
            print(f"\t{name}")
    else:
        return _copy(files, str(job), before)
    return 0


def _kept(path: str) -> dict[str, str]:
    """Where the files are, by the names that they have in the sandbox; a checkpoint has a directory of its own."""
    from pool.files.checkpoint import MANIFEST, newest_first
    from pool.files.spool import CHECKPOINT

    names = os.listdir(path)
    files = {name: os.path.join(path, name) for name in names if not name.startswith((CHECKPOINT, "."))}
    for newest in newest_first(names)[:1]:
        inside = os.path.join(path, newest)
        files |= {name: os.path.join(inside, name) for name in os.listdir(inside) if name != MANIFEST}
    return files


def _copy(files: Mapping[str, str], target: str, before: str) -> int:
    if os.path.lexists(target):
        print(f"{before}Destination directory '{target}' exists, not modifying.")
        return 1
    try:
        import shutil

        os.mkdir(target)
        for name, path in files.items():
            to = os.path.join(target, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.copytree(path, to, symlinks=True)
            else:
                shutil.copy2(path, to, follow_symlinks=False)
    except OSError as error:
        print(f"{before}Copy failed: {error}")
        return 1
    print(f"{before}Copied to '{target}'.")
    return 0
