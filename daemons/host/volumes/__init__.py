"""Sandboxes that have a size: a module for each kind of file system, and one interface to all (`volume.py`).

`daemons/startd/machine/disk_limits.py` finds out at the start which kind a machine offers; `found.py` removes what a
dead starter left. Device, mount and namespace calls are in `rootly.py` and in
`daemons/host/namespaces.py`, and nowhere else.
"""

from __future__ import annotations

from typing import Final

from daemons.host.volumes.btrfs import Subvolume
from daemons.host.volumes.ext4 import LoopExt4
from daemons.host.volumes.lvm import LogicalVolume
from daemons.host.volumes.quota import ProjectQuota
from daemons.host.volumes.tmpfs import Tmpfs
from daemons.host.volumes.volume import ScratchError, Used, Volume, VolumeOrder
from daemons.host.volumes.walk import Walked
from pool.execute.scratch import ScratchKind

__all__ = ["ScratchError", "Used", "Volume", "VolumeOrder", "volume_for"]

_KINDS: Final[dict[ScratchKind, type[Volume]]] = {
    ScratchKind.LVM: LogicalVolume,
    ScratchKind.BTRFS: Subvolume,
    ScratchKind.QUOTA: ProjectQuota,
    ScratchKind.EXT4: LoopExt4,
    ScratchKind.TMPFS: Tmpfs,
    ScratchKind.WALK: Walked,
}


def volume_for(order: VolumeOrder) -> Volume:
    """The volume of a sandbox, not made yet."""
    return _KINDS[order.store.kind or ScratchKind.WALK](order)
