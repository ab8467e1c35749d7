"""dm-crypt under a sandbox: a key that nobody has ever seen, and that is forgotten with the device."""

from __future__ import annotations

import os
import secrets

from daemons.host.volumes.tools import missing, run
from daemons.host.volumes.volume import ScratchError

KEY_BYTES = 64
SUFFIX = "_enc"
"""How the names of such devices end: what is in /dev/mapper says that it is encrypted (HTCondor's ends in -enc)."""


class Mapping:
    """An encrypted device over another one."""

    def __init__(self, name: str, sandbox: str) -> None:
        self.name = name + SUFFIX
        self._sandbox = sandbox

    def open(self, device: str) -> str:
        """Put it over `device`; where it is."""
        # Plain, without a header: there is nothing on the device by which it could be opened again.
        options = ["--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", "-"]
        key = secrets.token_bytes(KEY_BYTES)
        run(["cryptsetup", "open", *options, "--batch-mode", device, self.name], self._sandbox, given=key)
        return f"/dev/mapper/{self.name}"

    def close(self) -> None:
        """Take it away, if it is there."""
        if os.path.exists(f"/dev/mapper/{self.name}"):
            run(["cryptsetup", "close", self.name], self._sandbox)


def why_not() -> str:
    """Why nothing can be encrypted here, as far as a look tells; empty: it may work."""
    return missing("cryptsetup") or no_device_mapper()


def no_device_mapper() -> str:
    """Why there is no device mapper; empty: there is one. Loads the kernel's module, if it has one."""
    if not _listed():
        try:
            run(["modprobe", "dm_mod"])
        except ScratchError:
            pass
    return "" if _listed() else "this kernel has no device mapper"


def _listed() -> bool:
    try:
        with open("/proc/misc") as file:
            return any(line.split()[1:] == ["device-mapper"] for line in file)
    except OSError:
        return False
