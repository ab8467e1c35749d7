"""A person's home directory, and the programs as that person types them: no POOL_DIR, no configuration but one's own.

A person runs a pool in ~/.minipool. Where the tests are root's, that person is the account nobody.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.whole.real_pool import DEADLINE_S, as_account, pool_directory

PERSON = "nobody"


class Home:
    """The directory, and what is run there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def pool(self) -> Path:
        """Where this person's pool lives unless a place is named."""
        return self.directory / ".minipool"

    def run(
        self, *argv: str, text: str = "", timeout: float = 90.0, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of our programs, or `python`, and return how it ended and what it said."""
        kept = {k: v for k, v in os.environ.items() if not k.upper().startswith(("_CONDOR", "CONDOR", "POOL_DIR"))}
        return subprocess.run(
            [str(Path(sys.executable).with_name(argv[0])), *argv[1:]],
            cwd=self.directory,
            env={**kept, "HOME": str(self.directory), **environ},
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **as_account(PERSON),
        )

    def done(self, *argv: str, **environ: str) -> str:
        """The standard output of what must succeed."""
        found = self.run(*argv, **environ)
        assert found.returncode == 0, f"{' '.join(argv)}: status {found.returncode}\n{found.stdout}{found.stderr}"
        return found.stdout

    def until_no_master(self) -> bool:
        """Wait for the end of masters that have given up their directory."""
        deadline = time.monotonic() + DEADLINE_S
        while self.masters() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self.masters()

    def masters(self) -> list[int]:
        """Masters of pools anywhere below this home."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_master(pid)]

    def _is_master(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return False
        return "master" in words and any(word.startswith(f"{self.directory}/") for word in words)


@contextmanager
def a_home() -> Iterator[Home]:
    """A home for the time of the block; pools that are left in it are stopped."""
    with pool_directory(PERSON) as directory:
        home = Home(directory)
        try:
            yield home
        finally:
            for run in [directory / ".minipool" / "run", *directory.glob("*/run")]:
                if (run / "master.pid").exists():
                    home.run("pool", "down", "--dir", str(run.parent), "-fast")
