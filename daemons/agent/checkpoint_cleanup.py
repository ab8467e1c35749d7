"""Removes a job's checkpoints from a URL, once the job has left: a program of the site for each file, as the user.

A directory has what the job's manifests said, and its ad. What is removed goes from it; what is left when something
failed is tried again another day.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Sequence

import trio

from daemons.host.programs import ProgramError, run_blocking
from pool.base.errors import ClassAdError, PeerError
from pool.classad import ClassAd, parse_long
from pool.files.checkpoint import destination, number_of, read_manifest
from pool.files.checkpoint_cleanup import JOB_AD, LOCAL_CLEANER, command_for, removals
from protocol.messages.agent import CheckpointsCleaned, CleanCheckpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

log = logging.getLogger("agent.checkpoint_cleanup")


class CheckpointRemover:
    """Answers the schedd."""

    def __init__(self) -> None:
        self._turn = trio.CapacityLimiter(1)

    def answers(self) -> list[Answer]:
        """What the schedd asks for."""
        return [answer(CleanCheckpoints, self.clean)]

    async def clean(self, _peer: Peer, request: CleanCheckpoints) -> CheckpointsCleaned:
        """Remove all that the directory tells of, one directory at a time."""
        trouble = await trio.to_thread.run_sync(_clean, request, limiter=self._turn)
        return CheckpointsCleaned(trouble=trouble)


def _clean(request: CleanCheckpoints) -> str:
    """What went wrong; nothing when all is removed."""
    directory, job_ad = request.directory, os.path.join(request.directory, JOB_AD)
    try:
        with open(job_ad, encoding="utf-8", errors="surrogateescape") as file:
            job = parse_long(file.read())
        found = sorted(name for name in os.listdir(directory) if number_of(name) is not None)
    except (OSError, ClassAdError) as error:
        return f"{directory}: {error}"
    url = destination(job) or ""
    command = command_for([(rule.prefix, rule.command) for rule in request.rules], url, request.libexec)
    if command is None:
        return f"no program is known that removes checkpoints from {url} (CHECKPOINT_DESTINATION_MAPFILE)"
    deadline = time.monotonic() + request.limit_s
    # One checkpoint after the other, each forgotten when it is done: a run that is cut short is not in vain.
    for name in found:
        path = os.path.join(directory, name)
        trouble = _clean_one(job, path, command, job_ad, min(request.file_limit_s, deadline - time.monotonic()))
        if trouble:
            return trouble
        shutil.rmtree(path, ignore_errors=True)
        if time.monotonic() > deadline:
            return f"this took longer than {request.limit_s:.0f} s"
    shutil.rmtree(directory, ignore_errors=True)
    return ""


def _clean_one(job: ClassAd, path: str, command: Sequence[str], job_ad: str, limit_s: float) -> str:
    """One checkpoint: what the manifests in its directory name."""
    try:
        for manifest in os.listdir(path):
            number = number_of(manifest)
            if number is None:
                continue
            with open(os.path.join(path, manifest), encoding="utf-8", errors="surrogateescape") as file:
                names = list(read_manifest(file.read()))
            for words in removals(job, number, names, job_ad):
                if trouble := _run([*argv_of(command), *words], limit_s):
                    return trouble
    except (OSError, PeerError) as error:
        return f"{path}: {error}"
    return ""


def argv_of(command: Sequence[str]) -> list[str]:
    """How it is started: the pool's own goes by its name where there is no such program."""
    program, *arguments = command
    if os.path.basename(program) == LOCAL_CLEANER and not os.access(program, os.X_OK):
        # -I: neither the user's PYTHONPATH nor the current directory can put another module in its place.
        return [sys.executable, "-I", "-m", "daemons.libexec.checkpoint_cleaner", *arguments]
    return [program, *arguments]


def _run(argv: Sequence[str], limit_s: float) -> str:
    try:
        end = run_blocking(argv, max(0.1, limit_s), cwd="/")
    except ProgramError as error:
        return str(error)
    if end.timed_out:
        return f"{argv[0]} did not end within {limit_s:.0f} s"
    if end.status:
        text = f"{end.stdout}{end.stderr}".strip()[-400:]
        return f"{argv[0]} ended with status {end.status}: {text}"
    return ""
