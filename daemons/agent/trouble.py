"""Why files do not move, in the words of the job's hold reason; and how much of them the job's site allows.

Source: the reasons that HTCondor's file transfer object gives (src/condor_utils/file_transfer.cpp), and its manual on
MAX_TRANSFER_INPUT_MB and MAX_TRANSFER_OUTPUT_MB.
"""

from __future__ import annotations

from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.agent import (
    FileEntry,
    Trouble,
)
from protocol.wire.message import replace


def input_trouble(host: str, details: str, number: int, code: HoldCode = HoldCode.TRANSFER_INPUT_ERROR) -> Trouble:
    """Why input does not leave this access point."""
    reason = f"Transfer input files failure at access point {host} while sending files. Details: {details}"
    return Trouble(reason=reason, hold_code=code, hold_subcode=number)


def output_trouble(host: str, details: str, number: int, code: HoldCode = HoldCode.TRANSFER_OUTPUT_ERROR) -> Trouble:
    """Why output does not arrive at this access point."""
    reason = f"Transfer output files failure at access point {host} while receiving files. Details: {details}"
    return Trouble(reason=reason, hold_code=code, hold_subcode=number)


def within(limit_mb: int, entries: list[FileEntry]) -> list[FileEntry]:
    """What of these files a limit lets through (-1: all): the first ones, and the beginning of one at most."""
    left = limit_mb << 20
    if limit_mb < 0 or sum(entry.size for entry in entries if entry.kind == "file") <= left:
        return entries
    kept: list[FileEntry] = []
    for entry in entries:
        if entry.kind != "file" or entry.size <= left:
            kept.append(entry)
            left -= entry.size
        # Up to the limit and no further: files move until they meet it, and then the job is held.
        elif left > 0:
            kept.append(replace(entry, size=left, data=None if entry.data is None else entry.data[:left]))
            left = 0
    return kept


def over(limit_mb: int, entries: list[FileEntry], direction: str) -> str | None:
    """What is said when these files are larger than is allowed (-1: they may be any size); it names the first such."""
    total = 0
    for entry in entries:
        total += entry.size if entry.kind == "file" else 0
        if 0 <= limit_mb << 20 < total:
            size = f"max={limit_mb} MB, this file={entry.size >> 20} MB"
            return f"sending file {entry.name}: max total {direction} bytes exceeded ({size})"
    return None
