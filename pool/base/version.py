"""Which release this is, and for which machine: in our own words, and in those that HTCondor's expressions look for."""

from __future__ import annotations

import os
from typing import Final

VERSION: Final = "0.1.0"
RELEASED: Final = "2026-11-20"
"""The day of this version: a release sets both."""
SPEAKS: Final = "25.14.0"
"""The version of HTCondor whose language, attributes and tools these are."""
_ARCHES: Final = {
    **dict.fromkeys(("x86_64", "amd64"), "X86_64"),
    **dict.fromkeys(("i386", "i486", "i586", "i686"), "INTEL"),
    "ia64": "IA64",
    "ppc": "PPC",
    "ppc64": "PPC64",
}


def arch(machine: str) -> str:
    """The Arch of a processor, as the system calls it, in ads and in the configuration."""
    return _ARCHES.get(machine, machine)


CONDOR_VERSION: Final = f"$CondorVersion: {SPEAKS} {RELEASED} BuildID: minipool-{VERSION} $"
CONDOR_PLATFORM: Final = f"$CondorPlatform: {arch(os.uname().machine)}-{os.uname().sysname} $"
