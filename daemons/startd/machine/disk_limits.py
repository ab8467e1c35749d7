"""What the sandboxes of this machine are made of, where STARTD_ENFORCE_DISK_LIMITS is true: found out at the start.

Each kind of SCRATCH_FILE_SYSTEMS is tried by making one; the first that works is used until the startd ends. Where none
does, and where the startd is not root's, sandboxes are measured, and jobs that are over their disk are held.

Source: HTCondor's manual, "Configuration for Execution Points": "Per Job Ephemeral Scratch Filesystems"; "Startd Daemon
Configuration Options": STARTD_ENFORCE_DISK_LIMITS, LVM_*.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from daemons.host.account import own_account
from daemons.host.mounts import mounts
from daemons.host.namespaces import IsolationError, can_isolate
from daemons.host.volumes import ScratchError, VolumeOrder, volume_for
from daemons.host.volumes.dm_crypt import no_device_mapper
from daemons.host.volumes.dm_crypt import why_not as why_not_encrypted
from daemons.host.volumes.group import BackingFile, Size, size_of
from daemons.host.volumes.rootly import backing_files
from daemons.host.volumes.tools import missing
from daemons.startd.machine.settings import execute_directories
from pool.config import Config
from pool.execute.scratch import (
    DEFAULT_ORDER,
    ENCRYPTABLE,
    Hide,
    ScratchKind,
    Store,
    hide_mode,
    kinds_in_order,
    promised_kib,
)

PROBE_KIB: Final = 16 * 1024
"""How large the volume is that is made to see whether one can be."""
GIVEN_BACK_S: Final = 5.0
_PROGRAMS: Final[Mapping[ScratchKind, tuple[str, ...]]] = {
    ScratchKind.LVM: ("lvcreate", "lvremove", "vgs", "lvs", "mke2fs"),
    ScratchKind.BTRFS: ("btrfs",),
    ScratchKind.EXT4: ("mke2fs",),
}
_FILE_SYSTEMS: Final[Mapping[ScratchKind, frozenset[str]]] = {
    ScratchKind.BTRFS: frozenset(("btrfs",)),
    ScratchKind.QUOTA: frozenset(("xfs", "ext4")),
}


@dataclass(frozen=True)
class FoundLimits:
    """How sandboxes are held to their size. `said`: what the log says of it, line by line."""

    store: Store = field(default_factory=Store)
    size: Size | None = None
    backing: BackingFile | None = None
    executes: int = 1
    """Among how many directories of sandboxes a volume group is divided."""
    said: tuple[str, ...] = ()

    def kib(self, free_kib: int, cpus: int) -> int:
        """How much disk the slots of one EXECUTE may have, given what is free in it."""
        if self.size is not None:
            rounding = cpus * self.size.quantum  # each volume is a whole number of units
            return max(0, self.size.total - self.size.others - rounding) // 1024 // self.executes
        return promised_kib(self.store, free_kib, cpus)

    def attributes(self) -> dict[str, Any]:
        """What the machine's ads say."""
        store = self.store
        facts: dict[str, Any] = {"HasEncryptExecuteDirectory": store.encrypts}
        if store.kind is None:
            return facts
        facts["IsEnforcingDiskUsage"] = True
        facts["ScratchFileSystem"] = str(store.kind)
        if self.size is not None:
            facts["LvmBackingStore"] = f"{store.group}/{store.pool}" if store.pool else store.group
            facts["LvmIsThinProvisioning"] = bool(store.pool)
            facts["LvmUsingLoopback"] = self.backing is not None
            facts["LvmDetectedDisk"] = self.size.total
            facts["LvmNonCondorDiskUsage"] = self.size.others
            facts["DiskQuantum"] = self.size.quantum // 1024
        return facts

    def end(self) -> None:
        """The startd ends: what it made for all jobs goes."""
        if self.backing is not None:
            self.backing.remove()


def look(config: Config, execute: str, *, can_hide: bool = True) -> FoundLimits:
    """Find out; blocks for as long as it takes to make a file system, and removes what it made."""
    if not config.bool("STARTD_ENFORCE_DISK_LIMITS"):
        return _with_encryption(config, execute, FoundLimits())
    _until_given_back(execute)
    hide = hide_mode(config.str("LVM_HIDE_MOUNT"))
    if hide is Hide.AUTO and not can_hide:
        hide = Hide.NEVER
    base = Store(
        extra_mb=config.int("LVM_THIN_LV_EXTRA_SIZE_MB"), margin=config.float("LVM_THICK_LV_MARGIN"), hide=hide
    )
    said: list[str] = []
    if os.geteuid() != 0 or not can_isolate():
        lacking = "it is not root's" if os.geteuid() != 0 else "root may not mount here (CAP_SYS_ADMIN)"
        said.append(f"Jobs have no file systems of their own: {lacking}")
    else:
        for kind in kinds_in_order(config.list("SCRATCH_FILE_SYSTEMS")) or list(DEFAULT_ORDER):
            if kind is ScratchKind.WALK:
                break
            try:
                found = _LOOKS.get(kind, _look_plain)(config, execute, replace(base, kind=kind))
            except (ScratchError, IsolationError, OSError) as error:
                said.append(f"Sandboxes are not of the kind {kind}: {error}")
                continue
            return _with_encryption(config, execute, replace(found, said=(*said, _told(found))))
    said.append("Sandboxes are measured by looking at their files, and jobs that exceed their disk are held")
    return _with_encryption(config, execute, FoundLimits(replace(base, kind=ScratchKind.WALK), said=tuple(said)))


def _told(found: FoundLimits) -> str:
    store, of = found.store, ""
    if found.size is not None:
        of = f" in {store.group}/{store.pool} (thin)" if store.pool else f" in {store.group}"
        of += f" on {found.backing.path}" if found.backing is not None else ""
    return f"Each job has a file system of its own size, of the kind {store.kind}{of}"


# ---- kind by kind


def _look_plain(_config: Config, execute: str, store: Store) -> FoundLimits:
    """A kind that needs nothing but EXECUTE."""
    assert store.kind is not None
    _demand(missing(*_PROGRAMS.get(store.kind, ())))
    if (wanted := _FILE_SYSTEMS.get(store.kind)) and (is_on := file_system_type(execute)) not in wanted:
        raise ScratchError(f"{execute} is on {is_on}")
    _try_one(execute, store)
    return FoundLimits(store)


def _look_lvm(config: Config, execute: str, store: Store) -> FoundLimits:
    _demand(missing(*_PROGRAMS[ScratchKind.LVM]))
    _demand(no_device_mapper())
    group, pool = config.str("LVM_VOLUME_GROUP_NAME"), ""
    thin = config.bool("LVM_USE_THIN_PROVISIONING")
    if thin:
        pool = config.str("LVM_THINPOOL_NAME")
    backing = None
    if not group or (thin and not pool):
        path = config.path("LVM_BACKING_FILE")
        group = f"condor_{zlib.crc32(os.fsencode(path)):08x}"
        pool = f"{group}_pool" if thin else ""
        backing = BackingFile(path, config.int("LVM_BACKING_FILE_SIZE_MB"), group, pool)
    store = replace(store, group=group, pool=pool)
    try:
        if backing is not None:
            backing.prepare()
        size = size_of(group, pool)
        _try_one(execute, store)
    except (ScratchError, OSError):
        if backing is not None:
            with suppress(ScratchError, OSError):  # the first problem is the one to tell
                backing.remove()
        raise
    return FoundLimits(store, size, backing, len(execute_directories(config)))


_LOOKS: Final[Mapping[ScratchKind, Callable[[Config, str, Store], FoundLimits]]] = {ScratchKind.LVM: _look_lvm}


def _demand(problem: str) -> None:
    if problem:
        raise ScratchError(problem)


def _try_one(execute: str, store: Store, *, encrypted: bool = False) -> None:
    """Make a volume, as a starter of this process's number would, and remove it."""
    sandbox = os.path.join(execute, f"dir_{os.getpid()}")
    os.mkdir(sandbox, 0o700)
    try:
        volume = volume_for(VolumeOrder(sandbox, own_account(), store, PROBE_KIB, encrypted=encrypted))
        volume.make()
        volume.used()
        volume.remove()
    finally:
        if os.path.isdir(sandbox):
            os.rmdir(sandbox)


def _with_encryption(config: Config, execute: str, found: FoundLimits) -> FoundLimits:
    """The same, and whether a job's file system can be encrypted."""
    if config.bool("DISABLE_EXECUTE_DIRECTORY_ENCRYPTION"):
        return found
    if found.store.kind in ENCRYPTABLE:
        why = why_not_encrypted()
        if not why:
            try:
                _try_one(execute, found.store, encrypted=True)
                return replace(found, store=replace(found.store, encrypts=True))
            except (ScratchError, IsolationError, OSError) as error:
                why = str(error)
    elif found.store.kind is None:
        why = "that takes STARTD_ENFORCE_DISK_LIMITS"
    else:
        why = f"they are of the kind {found.store.kind}"
    if not config.bool("ENCRYPT_EXECUTE_DIRECTORY"):
        return found
    line = f"ENCRYPT_EXECUTE_DIRECTORY is true and sandboxes cannot be encrypted, so that no job will run: {why}"
    return replace(found, said=(*found.said, line))


def _until_given_back(execute: str) -> None:
    """Wait for the kernel to let go of the files of jobs that have just been swept: their space is free only then."""
    deadline = time.monotonic() + GIVEN_BACK_S
    while time.monotonic() < deadline and any(file.startswith(f"{execute}/") for file in backing_files()):
        time.sleep(0.02)


def file_system_type(directory: str) -> str:
    """What a directory's file system is: ext4, xfs, btrfs, tmpfs, overlay ..."""
    wanted, found = os.path.realpath(directory), ("", "unknown")
    for one in mounts():
        inside = one.point == "/" or wanted == one.point or wanted.startswith(one.point + "/")
        if inside and len(one.point) >= len(found[0]):  # of two at one place the later one is seen
            found = (one.point, one.kind)
    return found[1]
