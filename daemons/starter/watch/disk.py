"""The disk of one job: its sandbox gets the size that the slot has, is measured, and is given back.

Where the machine does not hold sandboxes to a size (STARTD_ENFORCE_DISK_LIMITS), it is measured only.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.account import Account
from daemons.host.child_settings import StarterSettings
from daemons.host.volumes import ScratchError, Volume, VolumeOrder, volume_for
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.exit import Hold
from pool.execute.scratch import ENCRYPTABLE, MOUNTED, Store, hides, hold_bytes, over_disk, wants_encryption
from pool.execute.usage import JobUsage

PRIVATE: Final = 0o700
PAUSE_MAX_S: Final = 60.0
"""Sandboxes that take long to measure are measured less often, but at least this often."""
MEASURING_SHARE: Final = 20
"""A twentieth of the time may go into measuring."""


class Disk:
    """One activation's."""

    def __init__(self, settings: StarterSettings, job: ClassAd, slot: ClassAd, sandbox: str, log: Log) -> None:
        self._settings, self._job, self._slot, self._log = settings, job, slot, log
        self._sandbox = sandbox
        self._store = Store.unpacked(settings.scratch)
        self._kib = slot.eval_int("Disk") or 0
        self._volume: Volume | None = None
        self._full = False

    @property
    def enforced(self) -> bool:
        """Whether there is a limit."""
        return self._store.kind is not None and self._kib > 0

    def make(self, account: Account) -> None:
        """Give the sandbox its size; ScratchError when this machine cannot, or not as the job wants it."""
        store = self._store if self.enforced else Store()
        order = VolumeOrder(self._sandbox, account, store, self._kib, self._hidden(store), self._encrypted(store))
        volume = volume_for(order)
        volume.make()
        self._volume = volume
        if self._settings.sandbox_mode != PRIVATE:
            os.chmod(self._sandbox, self._settings.sandbox_mode)
        if store.kind is not None:
            how = " ".join(word for word, is_so in (("hidden", order.hidden), ("encrypted", order.encrypted)) if is_so)
            self._log.full("The sandbox has a size", kind=store.kind, kib=self._kib, how=how or "seen by all")

    def take_over(self, account: Account) -> None:
        """The sandbox was made by another process; only one that is not held to a size is left to anybody."""
        self._volume = volume_for(VolumeOrder(self._sandbox, account, Store(), self._kib, False, False))

    def _hidden(self, store: Store) -> bool:
        if store.kind not in MOUNTED:
            return False
        hidden = hides(store.hide, self._job, self._slot)
        if hidden is None:
            raise ScratchError("LVM_HIDE_MOUNT is true, and a container engine would not see the job's file system")
        return hidden

    def _encrypted(self, store: Store) -> bool:
        settings = self._settings
        if not wants_encryption(self._job, everywhere=settings.encrypt_all):
            return False
        if settings.encrypt_never:
            if self._job.eval_bool("EncryptExecuteDirectory", False):
                raise ScratchError(
                    "the job wants an encrypted sandbox, and DISABLE_EXECUTE_DIRECTORY_ENCRYPTION is true"
                )
            return False
        if not store.encrypts or store.kind not in ENCRYPTABLE:
            raise ScratchError("the sandbox was to be encrypted, and this machine cannot do that")
        return True

    def measured(self, usage: JobUsage) -> JobUsage:
        """The usage with what the sandbox holds now."""
        if self._volume is None:
            return usage
        try:
            used = self._volume.used()
        except (OSError, ScratchError) as error:
            self._log.always("The sandbox cannot be measured", error=str(error))
            return usage
        self._full = used.full
        return usage.measured(used.bytes, used.files)

    def over(self, usage: JobUsage) -> Hold | None:
        """Why the job is to be held: it has reached its limit, or nothing more can be written."""
        if not self.enforced:
            return None
        limit = hold_bytes(self._store, self._kib)
        return over_disk(self._kib * 1024, usage.disk_now) if usage.disk_now >= limit or self._full else None

    def instead_of(self, hold: Hold, usage: JobUsage) -> Hold:
        """Why a job is held whose input did not come: for want of disk, if that is what it was."""
        if (over := self.over(usage)) is not None:
            return over
        if self.enforced and hold.subcode in (errno.ENOSPC, errno.EDQUOT):
            return over_disk(self._kib * 1024, usage.disk_now)
        return hold

    def trouble(self) -> str:
        """What is wrong with the machine's disks for this job, through no fault of its own."""
        try:
            return self._volume.trouble() if self._volume is not None else ""
        except PoolError as error:
            self._log.always("What the sandbox is made of cannot be looked at", error=str(error))
            return ""

    async def pause(self, measuring_s: float) -> None:
        """Wait until the sandbox may be measured again."""
        own = self._settings.disk_poll_s or (self._volume.poll_s if self._volume is not None else PAUSE_MAX_S)
        await trio.sleep(min(PAUSE_MAX_S, max(own, MEASURING_SHARE * measuring_s)))

    def remove(self) -> None:
        """Give the space back; what cannot be given back is left to the startd's sweep."""
        if self._volume is None:
            return
        try:
            self._volume.remove()
        except (OSError, ScratchError) as error:
            self._log.error("Cannot remove the sandbox's file system", path=self._sandbox, reason=str(error))
        self._volume = None
