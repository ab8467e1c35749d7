"""What every kind of sized sandbox can do: be made over the sandbox's directory, be measured, and be given back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from daemons.host.account import Account
from pool.base.errors import PoolError
from pool.execute.scratch import Store, volume_bytes, volume_name


class ScratchError(PoolError):
    """A sandbox cannot be given its size on this machine."""


@dataclass(frozen=True)
class VolumeOrder:
    """A volume as it is wanted. `disk_kib` is what the slot has; `hidden`: others do not see it."""

    sandbox: str
    account: Account
    store: Store
    disk_kib: int
    hidden: bool = False
    encrypted: bool = False

    @property
    def name(self) -> str:
        """What the volume is called, by whoever needs a name for it."""
        return volume_name(self.sandbox)

    @property
    def bytes(self) -> int:
        """How large it is made."""
        return volume_bytes(self.store, self.disk_kib)


@dataclass(frozen=True)
class Used:
    """What is in a sandbox. `full`: nothing more can be written."""

    bytes: int
    files: int
    full: bool = False


class Volume(ABC):
    """One sandbox's. All of it blocks, for milliseconds where no program of the system is slow."""

    poll_s: float = 1.0
    """How often it may be measured."""

    def __init__(self, order: VolumeOrder) -> None:
        self.order = order

    @abstractmethod
    def make(self) -> None:
        """Have the sandbox's directory, which is there and empty, hold no more than its size; ScratchError."""

    @abstractmethod
    def used(self) -> Used:
        """What is in it now."""

    def trouble(self) -> str:
        """What is wrong with what the volume is made of, through no fault of its job; empty while nothing is."""
        return ""

    @abstractmethod
    def remove(self) -> None:
        """Give the space back; ScratchError. The directory itself stays. Once more, it does nothing."""
