"""No file system of its own: what lies in the sandbox is added up."""

from __future__ import annotations

from daemons.host import sandbox
from daemons.host.volumes.volume import Used, Volume


class Walked(Volume):
    """A plain directory."""

    poll_s = 10.0

    def make(self) -> None:
        """The directory is all there is."""

    def used(self) -> Used:
        """By looking at every file."""
        return Used(*sandbox.disk_usage(self.order.sandbox))

    def remove(self) -> None:
        """The files are removed with the directory."""
