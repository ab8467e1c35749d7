"""Checkpoints of a program that knows nothing of them (want_checkpoint): for which jobs they can be made."""

from __future__ import annotations

from pool.base.words import SPACE
from pool.execute.criu import CRIU, LAST_PLATFORM, PLATFORM, WANTED, wants_criu
from pool.execute.remote_io import wants_remote_io
from pool.jobs.vocabulary.universes import Universe
from pool.submit.job import JobDraft

COMMAND = "want_checkpoint"
ON_THE_SAME_KIND = f"(MY.{LAST_PLATFORM} is undefined || TARGET.{PLATFORM} == MY.{LAST_PLATFORM})"
"""A checkpoint can be gone on from where processor, kernel and libraries are alike."""


def check_word(job: JobDraft) -> None:
    """`criu` is all that there is."""
    said = job.text(WANTED)
    if said is not None and not wants_criu(job.ad):
        raise job.error(f"invalid value ({said}) for want_checkpoint. It can only be: {CRIU}", COMMAND, WANTED)


def check_criu(job: JobDraft, should_transfer: str | None) -> None:
    """What CRIU cannot write down, or not make again elsewhere."""
    if job.universe != Universe.VANILLA or job.is_docker or job.is_container:
        raise job.error("want_checkpoint is for jobs of the vanilla universe", COMMAND)
    if wants_remote_io(job.ad):
        raise job.error("want_checkpoint and want_remote_io exclude each other", COMMAND, "want_remote_io")
    if should_transfer is not None and should_transfer.strip(SPACE).upper() in ("NO", "FALSE", "NEVER"):
        raise job.error(
            f"want_checkpoint takes the job's files along, but should_transfer_files = {should_transfer} leaves them.",
            "should_transfer_files",
            COMMAND,
        )
    for stream, command in (
        ("StreamIn", "stream_input"),
        ("StreamOut", "stream_output"),
        ("StreamErr", "stream_error"),
    ):
        if job.is_true(stream):
            raise job.error(f"want_checkpoint and {command} exclude each other", command, COMMAND)
    if job.has("SuccessCheckpointExitCode") or job.is_true("WantFTOnCheckpoint"):
        raise job.error(
            "want_checkpoint is for programs that make no checkpoints, and checkpoint_exit_code for those that do",
            "checkpoint_exit_code",
            COMMAND,
        )
    if job.has("CheckpointDestination"):
        raise job.error(
            "want_checkpoint keeps checkpoints at the access point, and not at checkpoint_destination",
            "checkpoint_destination",
            COMMAND,
        )
