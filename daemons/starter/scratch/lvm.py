"""A sandbox that is a logical volume: linear, or thin out of a pool."""

from __future__ import annotations

import os
from typing import Final

from daemons.starter.scratch.crypt import Mapping
from daemons.starter.scratch.ext4 import make_ext4
from daemons.starter.scratch.mounted import Mounted
from daemons.starter.scratch.tools import run
from daemons.starter.scratch.volume import Order

TAG: Final = "htcondor_lv"
"""What marks the volumes of jobs, as HTCondor marks them."""
QUIETLY: Final = ("--autobackup", "n", "--yes")


class LogicalVolume(Mounted):
    """One volume for each activation."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._mapping: Mapping | None = None
        self._made = False

    def attach(self) -> str:
        """Make the volume, the key over it if there has to be one, and the file system."""
        order, store = self.order, self.order.store
        size = f"{-(-order.bytes // 1024)}k"
        into = ["-V", size, "-T", f"{store.group}/{store.pool}"] if store.pool else ["-L", size, store.group]
        self._made = True
        run(["lvcreate", *QUIETLY, "-n", order.name, "--addtag", TAG, *into], order.sandbox)
        path = device(store.group, order.name)
        if order.encrypted:
            self._mapping = Mapping(order.name, order.sandbox)
            path = self._mapping.open(path)
        make_ext4(path, order.sandbox)
        return path

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
