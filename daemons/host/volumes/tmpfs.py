"""A sandbox in memory: what the job writes counts as memory that it uses."""

from __future__ import annotations

from daemons.host.volumes.mounted import Mounted

INODE_BYTES = 16384
"""Room for a file for each of these, as mke2fs has it."""


class Tmpfs(Mounted):
    """Everywhere where root may mount."""

    file_system = "tmpfs"

    def attach(self) -> str:
        """Nothing but options."""
        size = self.order.bytes
        # Inodes take memory too, and nobody counts it.
        self.options = f"size={size},nr_inodes={max(1024, size // INODE_BYTES)},mode=0700"
        return "tmpfs"

    def detach(self) -> None:
        """Unmounted, it is gone."""
