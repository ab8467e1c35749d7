"""What a startd finds out about its machine once, before it makes its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daemons.host.namespaces import can_isolate
from daemons.startd.machine import refusals
from daemons.startd.machine.criu_trial import Criu, find_criu
from daemons.startd.machine.disk_limits import FoundLimits, look
from daemons.startd.machine.inventory import take_stock
from daemons.startd.machine.sleep_ability import SleepAbility, find_ability
from daemons.startd.machine.vm_trial import VirtualMachines, find_vm
from pool.config import Config
from pool.execute.isolation import HOMES, MOUNTS
from pool.execute.remote_io import ABILITY
from pool.slots.provision.inventory import Inventory


@dataclass(frozen=True)
class Discovered:
    """`refused`: the kinds of namespaces that jobs were to have and cannot, each with the reason."""

    inventories: Mapping[str, Inventory]
    disk: FoundLimits
    refused: Mapping[str, str]
    private_mounts: bool
    remote_io: bool
    criu: Criu
    sleep: SleepAbility
    vm: VirtualMachines

    def attributes(self) -> dict[str, Any]:
        """What the machine's ads say of it."""
        mounts = {"HasPrivateMounts": self.private_mounts, ABILITY: self.remote_io}
        tried = {**self.criu.attributes(), **self.sleep.attributes(), **self.vm.attributes()}
        return {**self.disk.attributes(), **mounts, **tried}

    def said(self) -> list[str]:
        """What the log says of it."""
        tried = [*self.criu.said(), *self.sleep.said(), *self.vm.said()]
        return [*refusals.said(self.refused), *self.disk.said, *tried]


def discover(config: Config, ip: str) -> Discovered:
    """Ask the programs, the kernel and the file systems; `ip` is where the pool reaches this machine. Blocks."""
    execute = config.path("EXECUTE")
    refused = refusals.refused(config, execute)
    # After the mounts were tried: without them no sandbox can be hidden.
    disk = look(config, execute, can_hide=MOUNTS not in refused)
    private = can_isolate() and config.bool("PER_JOB_NAMESPACES") and MOUNTS not in refused
    remote_io = can_isolate() and config.bool("ENABLE_REMOTE_IO") and HOMES not in refused
    tried = find_criu(config), find_ability(config, ip), find_vm(config)
    return Discovered(take_stock(config), disk, refused, private, remote_io, *tried)
