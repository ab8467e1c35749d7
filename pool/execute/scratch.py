"""Sandboxes that have a size: which kind of file system they are made of, how large, and when a job is over its disk.

A kind is tried in the order that SCRATCH_FILE_SYSTEMS gives, and the first that the machine offers is used for all jobs
of a startd's life. Nothing here knows how one is made.

Source: HTCondor manual, "Configuration Macros" (STARTD_ENFORCE_DISK_LIMITS, LVM_HIDE_MOUNT, ENCRYPT_EXECUTE_DIRECTORY).
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pool.base.errors import ConfigError
from pool.base.words import truth_word
from pool.classad import ClassAd
from pool.execute.exit import OUT_OF_DISK, Hold
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.universes import Universe

KIB: Final = 1024
MIB: Final = 1024 * 1024
SMALLEST_BYTES: Final = 4 * MIB
"""No file system is made smaller than this, which is a logical volume's usual extent."""
HELPS_WITHIN_S: Final = 5.0
"""How soon there is space again when the jobs that have taken most are gone."""
FASTEST_DISK_BYTES_PER_S: Final = 2 << 30
SOONEST_LOOK_S: Final = 0.2
LATEST_LOOK_S: Final = 10.0
"""Between two looks at how much is free."""


class ScratchKind(StrEnum):
    """What holds a sandbox to its size."""

    LVM = "lvm"  # a logical volume per job
    BTRFS = "btrfs"  # EXECUTE is on btrfs: a subvolume with a limit
    QUOTA = "quota"  # EXECUTE is on XFS or ext4 with project quotas
    EXT4 = "ext4"  # a file with a file system in it, over a loop device
    TMPFS = "tmpfs"  # memory
    WALK = "walk"  # nothing: what is in the sandbox is added up now and then


MOUNTED: Final = frozenset((ScratchKind.LVM, ScratchKind.EXT4, ScratchKind.TMPFS))
"""The kinds that are mounted on the sandbox, and so can be hidden."""
ENCRYPTABLE: Final = frozenset((ScratchKind.LVM, ScratchKind.EXT4))
"""The kinds that lie on a block device, over which dm-crypt can be put."""
DEFAULT_ORDER: Final = (ScratchKind.LVM, ScratchKind.QUOTA, ScratchKind.BTRFS, ScratchKind.EXT4)


class Hide(StrEnum):
    """LVM_HIDE_MOUNT: whether only the job and its starter see the file system."""

    AUTO = "auto"
    NEVER = "false"
    ALWAYS = "true"


@dataclass(frozen=True)
class Store:
    """How the sandboxes of one machine are held to their size. No kind: they are not."""

    kind: ScratchKind | None = None
    group: str = ""
    pool: str = ""
    extra_mb: int = 2000
    margin: float = 0.98
    hide: Hide = Hide.AUTO
    encrypts: bool = False

    def packed(self) -> dict[str, str]:
        """As text, for a starter's payload."""
        if self.kind is None:
            return {}
        return {
            "kind": self.kind,
            "group": self.group,
            "pool": self.pool,
            "extra_mb": str(self.extra_mb),
            "margin": repr(self.margin),
            "hide": self.hide,
            "encrypts": "1" if self.encrypts else "",
        }

    @classmethod
    def unpacked(cls, packed: Mapping[str, str]) -> Store:
        """The reverse."""
        if not packed:
            return cls()
        return cls(
            ScratchKind(packed["kind"]),
            packed["group"],
            packed["pool"],
            int(packed["extra_mb"]),
            float(packed["margin"]),
            Hide(packed["hide"]),
            bool(packed["encrypts"]),
        )


def kinds_in_order(words: Sequence[str]) -> list[ScratchKind]:
    """What SCRATCH_FILE_SYSTEMS says; ConfigError names the word that is none."""
    found = []
    for word in words:
        try:
            found.append(ScratchKind(word.lower()))
        except ValueError:
            raise ConfigError(
                f"SCRATCH_FILE_SYSTEMS names {word!r}",
                expected=f"some of {', '.join(ScratchKind)}, the one to try first first",
            ) from None
    return found


def hide_mode(text: str) -> Hide:
    """What LVM_HIDE_MOUNT says."""
    word = text.strip().lower() or "auto"
    truth = truth_word(word)
    spelt = word if truth is None else str(truth).lower()
    try:
        return Hide(spelt)
    except ValueError:
        raise ConfigError(f"LVM_HIDE_MOUNT = {text}", expected="Auto, True or False") from None


def hides(mode: Hide, job: ClassAd, slot: ClassAd) -> bool | None:
    """Whether this job's file system is hidden; None: it would have to be, and the job cannot live with that.

    A container engine mounts from outside of the starter's namespace.
    """
    outside = bool(
        job.eval_bool("WantDocker", False)
        or (job.eval_bool("WantDockerImage", False) and slot.eval_bool("HasDocker", False))
        or job.eval_int("JobUniverse") == Universe.VM
    )
    if mode is Hide.ALWAYS:
        return None if outside else True
    return mode is Hide.AUTO and not outside


def wants_encryption(job: ClassAd, *, everywhere: bool) -> bool:
    """Whether this job's sandbox is to be encrypted: the machine's owner wants it for all, or the job for itself."""
    return everywhere or bool(job.eval_bool("EncryptExecuteDirectory", False))


# ---- names


def volume_name(sandbox: str) -> str:
    """What a sandbox's volume is called: the directory of all sandboxes has its share in it, so no two are the same."""
    return f"{volume_prefix(posixpath.dirname(sandbox))}{posixpath.basename(sandbox)}"


def volume_prefix(execute: str) -> str:
    """How the names of all volumes of an EXECUTE begin."""
    return f"condor_{zlib.crc32(execute.encode(errors='surrogateescape')):08x}_"


def sandbox_pattern(execute: str) -> re.Pattern[str]:
    """What the names of such volumes look like; the sandbox's own name is the first group."""
    return re.compile(rf"{volume_prefix(execute)}(dir_\d+)")


# ---- sizes


def volume_bytes(store: Store, disk_kib: int) -> int:
    """How large the volume of a slot's disk is made."""
    wanted = max(disk_kib * KIB, SMALLEST_BYTES)
    if store.kind is ScratchKind.EXT4:  # its own tables take less than a fiftieth
        return _up(wanted * 102 // 100 + MIB, 4 * KIB)
    if store.kind is ScratchKind.LVM and store.pool:
        return wanted + store.extra_mb * MIB
    return wanted


def promised_kib(store: Store, free_kib: int, volumes: int) -> int:
    """How much disk can be promised to jobs, given what is free and how many volumes there may be."""
    if store.kind is ScratchKind.EXT4:
        return max(0, (free_kib - volumes * KIB) * 100 // 102)
    return free_kib


def taken_kib(store: Store, disk_kib: int, sandbox_kib: int) -> int:
    """How much of EXECUTE's file system a job's sandbox takes, given its slot's disk and what is in it."""
    if store.kind is ScratchKind.EXT4:  # its volume is there in full from the start
        return volume_bytes(store, disk_kib) // KIB
    return 0 if store.kind in (ScratchKind.TMPFS, ScratchKind.LVM) else sandbox_kib


def hold_bytes(store: Store, disk_kib: int) -> int:
    """At how many bytes a job is over its disk.

    Where the file system itself stops at the slot's disk, the job is held shortly before its writes fail.
    """
    limit = disk_kib * KIB
    soft = store.kind is ScratchKind.WALK or bool(store.kind is ScratchKind.LVM and store.pool)
    return limit if soft else int(limit * store.margin)


def reserve_bytes(reserved_mb: int, size_bytes: int) -> int:
    """How much of a file system is to stay free of jobs: RESERVED_DISK, of a small one a twentieth."""
    return min(reserved_mb * MIB, size_bytes // 20)


def next_look_s(left: int) -> float:
    """When to look at a disk again of which so many bytes are left: before the fastest one could fill them."""
    return min(LATEST_LOOK_S, max(SOONEST_LOOK_S, left / FASTEST_DISK_BYTES_PER_S))


def is_in_the_way(used: int, allocated: int, free: int, reserve: int, *, for_s: float) -> bool:
    """Whether a job has to go from a file system whose reserve has been touched for so long.

    One that has taken more beyond its own than the reserve goes at once; others if that did not help.
    """
    too_much = used - allocated
    return too_much > reserve or (too_much > free and for_s >= HELPS_WITHIN_S)


def no_disk_left(allocated: int, used: int, free: int) -> Hold:
    """The machine's disk is nearly full, and this job has more of it than it asked for."""
    return Hold(
        f"The machine's disk is nearly full ({spelt_bytes(free)} left), and the job uses more of it "
        f"({spelt_bytes(used)}) than it was allocated ({spelt_bytes(allocated)}). "
        "Consider increasing the value of request_disk.",
        HoldCode.JOB_OUT_OF_RESOURCES,
        OUT_OF_DISK,
    )


def over_disk(limit: int, used: int) -> Hold:
    """The job has used up its disk: on hold, with what it had and what it used."""
    return Hold(
        f"Job has exceeded allocated disk ({spelt_bytes(limit)}). Last measured usage: {spelt_bytes(used)}. "
        "Consider increasing the value of request_disk.",
        HoldCode.JOB_OUT_OF_RESOURCES,
        OUT_OF_DISK,
    )


def spelt_bytes(amount: int) -> str:
    """`1.50 GB`, with powers of 1024."""
    if amount < KIB:
        return f"{amount} B"
    value = float(amount)
    for unit in "KMGT":
        value /= KIB
        if value < KIB or unit == "T":
            break
    return f"{value:.2f} {unit}B"


def _up(amount: int, step: int) -> int:
    return -(-amount // step) * step
