"""The volumes that dead starters left: found by the names that their sandboxes give them, of whatever kind they are."""

from __future__ import annotations

import os
from typing import Final

from daemons.host.mounts import mounted_below
from daemons.host.namespaces import IsolationError, unmount
from daemons.host.volumes import btrfs, dm_crypt, lvm, quota
from daemons.host.volumes.ext4 import SUFFIX
from daemons.host.volumes.tools import run
from daemons.host.volumes.volume import ScratchError
from pool.execute.scratch import sandbox_pattern, volume_name

_MAPPER: Final = "/dev/mapper"


def remove_volume(sandbox: str) -> list[str]:
    """Remove the volume of a sandbox whose processes have ended; what could not be removed, in words."""
    if os.geteuid() != 0:
        return []
    problems = []
    try:
        for path in mounted_below(sandbox):
            unmount(path)
        # After the unmount: a device that is mounted cannot be closed.
        _remove_devices(volume_name(sandbox))
        if btrfs.is_subvolume(sandbox):
            btrfs.delete(sandbox)
        elif os.path.isdir(sandbox):
            quota.lift(sandbox)
        if os.path.lexists(sandbox + SUFFIX):
            os.unlink(sandbox + SUFFIX)
    except (ScratchError, IsolationError) as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{sandbox}: {error.strerror}")
    return problems


def sandboxes_with_volumes(execute: str) -> list[str]:
    """The sandboxes of an EXECUTE of which there is a device or a file, though perhaps no directory."""
    pattern = sandbox_pattern(execute)
    names = [entry.rpartition("-")[2] for entry in _entries(_MAPPER)]
    found = {match[1] for name in names if (match := pattern.match(name))}
    found |= {entry.removesuffix(SUFFIX) for entry in _entries(execute) if entry.endswith(SUFFIX)}
    return [os.path.join(execute, name) for name in sorted(found) if name.startswith("dir_")]


def _remove_devices(name: str) -> None:
    entries = _entries(_MAPPER)
    if name + dm_crypt.SUFFIX in entries:
        # The mapping lies over the volume, which cannot be removed beneath it.
        run(["cryptsetup", "close", name + dm_crypt.SUFFIX])
    for entry in entries:
        if entry.endswith("-" + name):
            lvm.remove(entry.removesuffix("-" + name).replace("--", "-"), name)


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
