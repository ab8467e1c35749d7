"""What a startd finds out about its machine once, before it makes its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daemons.startd import refusals
from daemons.startd.disk_limits import Found, look
from daemons.startd.inventory import take_stock
from daemons.starter.namespaces import can_isolate
from pool.config import Config
from pool.execute.isolation import MOUNTS
from pool.slots.inventory import Inventory


@dataclass(frozen=True)
class Discovered:
    """`refused`: the kinds of namespaces that jobs were to have and cannot, each with the reason."""

    inventories: Mapping[str, Inventory]
    disk: Found
    refused: Mapping[str, str]
    private_mounts: bool

    def attributes(self) -> dict[str, Any]:
        """What the machine's ads say of it."""
        return {**self.disk.attributes(), "HasPrivateMounts": self.private_mounts}

    def said(self) -> list[str]:
        """What the log says of it."""
        return [*refusals.said(self.refused), *self.disk.said]


def discover(config: Config) -> Discovered:
    """Ask the programs, the kernel and the file systems; blocks."""
    execute = config.path("EXECUTE")
    refused = refusals.refused(config, execute)
    disk = look(config, execute, can_hide=MOUNTS not in refused)
    private = can_isolate() and config.bool("PER_JOB_NAMESPACES") and MOUNTS not in refused
    return Discovered(take_stock(config), disk, refused, private)
