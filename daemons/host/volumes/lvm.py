"""A sandbox that is a logical volume: linear, or thin out of a pool."""

from __future__ import annotations

import os
import time
from typing import Final

from daemons.host.volumes.dm_crypt import Mapping
from daemons.host.volumes.ext4 import make_ext4
from daemons.host.volumes.mounted import Mounted
from daemons.host.volumes.tools import run
from daemons.host.volumes.volume import VolumeOrder
from pool.execute.thin_pool import FULL_PERCENT, PoolUse, read_use

TAG: Final = "htcondor_lv"
"""What marks the volumes of jobs, as HTCondor marks them."""
POOL_LOOK_S: Final = 10.0
"""How often a thin pool is looked at; it takes a program some hundredths of a second."""
QUIETLY: Final = ("--autobackup", "n", "--yes")


class LogicalVolume(Mounted):
    """One volume for each activation."""

    def __init__(self, order: VolumeOrder) -> None:
        super().__init__(order)
        self._mapping: Mapping | None = None
        self._made = False
        self._look_at = 0.0

    def attach(self) -> str:
        """Make the volume, the key over it if there has to be one, and the file system."""
        order, store = self.order, self.order.store
        size = f"{-(-order.bytes // 1024)}k"
        into = ["-V", size, "-T", f"{store.group}/{store.pool}"] if store.pool else ["-L", size, store.group]
        # Before it is made: a program that is killed half way may have made it.
        self._made = True
        run(["lvcreate", *QUIETLY, "-n", order.name, "--addtag", TAG, *into], order.sandbox)
        path = device(store.group, order.name)
        if order.encrypted:
            self._mapping = Mapping(order.name, order.sandbox)
            path = self._mapping.open(path)
        make_ext4(path, order.sandbox)
        return path

    def trouble(self) -> str:
        """Its thin pool is full: what is written into the volume is about to be lost, however little that is."""
        store, now = self.order.store, time.monotonic()
        if not store.pool or now < self._look_at:
            return ""
        self._look_at = now + POOL_LOOK_S
        return pool_use(store.group, store.pool).trouble(f"{store.group}/{store.pool}", FULL_PERCENT)

    def detach(self) -> None:
        """Remove all of it."""
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
        if self._made:
            remove(self.order.store.group, self.order.name)
            self._made = False


def device(group: str, name: str) -> str:
    """Where a volume is; device mapper doubles each hyphen of either name."""
    return f"/dev/mapper/{group.replace('-', '--')}-{name.replace('-', '--')}"


def remove(group: str, name: str) -> None:
    """Remove a volume, if it is there."""
    if os.path.exists(device(group, name)):
        run(["lvremove", *QUIETLY, f"{group}/{name}"])


def pool_use(group: str, pool: str) -> PoolUse:
    """How full a thin pool is."""
    report = ("--noheadings", "--nosuffix", "--separator", "|", "-o", "data_percent,metadata_percent")
    return read_use(run(["lvs", *report, f"{group}/{pool}"]))
