"""Which release this is, in our own words and in those that HTCondor's expressions look for."""

from __future__ import annotations

from pool.hints import Final

VERSION: Final = "0.1.0"
CONDOR_VERSION: Final = f"$CondorVersion: 25.14.0 2026-11-20 BuildID: minipool-{VERSION} $"
CONDOR_PLATFORM: Final = "$CondorPlatform: X86_64-Linux $"
