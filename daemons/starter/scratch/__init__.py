"""Sandboxes that have a size: a module for each kind of file system, and one interface to all (`volume.py`).

`daemons/startd/disk_limits.py` finds out at the start which kind a machine offers; `leftovers.py` removes what a dead
starter left.
Device, mount and namespace calls are in `rootly.py` and in `daemons/starter/namespaces.py`, and nowhere else.
"""

from __future__ import annotations

from typing import Final

from daemons.starter.scratch.btrfs import Subvolume
from daemons.starter.scratch.ext4 import LoopExt4
from daemons.starter.scratch.lvm import LogicalVolume
from daemons.starter.scratch.quota import ProjectQuota
from daemons.starter.scratch.tmpfs import Tmpfs
from daemons.starter.scratch.volume import Order, ScratchError, Used, Volume
from daemons.starter.scratch.walk import Walked
from pool.execute.scratch import Kind

__all__ = ["Order", "ScratchError", "Used", "Volume", "volume_for"]

_KINDS: Final[dict[Kind, type[Volume]]] = {
    Kind.LVM: LogicalVolume,
    Kind.BTRFS: Subvolume,
    Kind.QUOTA: ProjectQuota,
    Kind.EXT4: LoopExt4,
    Kind.TMPFS: Tmpfs,
    Kind.WALK: Walked,
}


def volume_for(order: Order) -> Volume:
    """The volume of a sandbox, not made yet."""
    return _KINDS[order.store.kind or Kind.WALK](order)
