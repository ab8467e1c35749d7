"""A place to submit from, and descriptions turned into ads the short way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pool.classad import ClassAd
from pool.config import Config, load_config
from pool.submit import SubmitPlan, SubmitWorld, read_submit

CASES = Path(__file__).parents[2] / "cases" / "submit"


def make_workspace(where: Path) -> dict[str, str]:
    """Write the files that the cases speak of; answers the environment that goes with them."""
    workspace: dict[str, Any] = json.loads((CASES / "workspace.json").read_text())
    for name, text in workspace["files"].items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix in workspace["executable_suffixes"]:
            path.chmod(0o755)
    env: dict[str, str] = workspace["env"]
    return env


def a_config(**knobs: str) -> Config:
    """A configuration that does not look at this host."""
    known = {
        "FULL_HOSTNAME": "pool.test",
        "UID_DOMAIN": "pool.test",
        "FILESYSTEM_DOMAIN": "pool.test",
        "ARCH": "X86_64",
        "OPSYS": "LINUX",
    }
    return load_config([], environ={}, overrides={**known, **knobs})


def run(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


class Place:
    """A directory, an environment and a configuration."""

    def __init__(self, where: Path, env: Mapping[str, str]) -> None:
        self.where = where
        self.env = env

    def plan(self, text: str, *, knobs: Mapping[str, str] | None = None, **options: Any) -> SubmitPlan:
        def here(path: str) -> str:
            return path if path.startswith("/") else str(self.where / path)

        def glob(pattern: str) -> list[str]:
            found = sorted(self.where.glob(pattern))
            return [str(path.relative_to(self.where)) + ("/" if path.is_dir() else "") for path in found]

        def read(path: str) -> str:
            return Path(here(path)).read_text()

        options.setdefault("file", "t.sub")
        options.setdefault("env", self.env)
        options.setdefault("world", SubmitWorld(glob=glob, read_file=read, run=run))
        return read_submit(
            text, config=a_config(**(knobs or {})), cwd=str(self.where), now=1_700_000_000, user="peer", **options
        )

    def ads(self, text: str, **options: Any) -> list[ClassAd]:
        """The whole ad of each job."""
        return [ad.flat() for ad in self.plan(text, **options).procs()]

    def ad(self, text: str, **options: Any) -> ClassAd:
        """The ad of the only job."""
        (only,) = self.ads(text, **options)
        return only


def long(ad: ClassAd) -> dict[str, str]:
    """Attributes, in lower case, as the long form writes them."""
    lines = (line.partition(" = ") for line in ad.long().strip().split("\n"))
    return {name.lower(): value for name, _, value in lines}
