"""Where the configuration of a host's daemons comes from: its directory, files that were named, and overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daemons.daemon_core.remote_config import kept_values
from pool.config import Config, load_config
from pool.config.listed_daemons import listed_daemons


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where a host's configuration comes from; read again at each start and reconfiguration."""

    directory: str | None = None
    files: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)

    def load(self, subsystem: str, environ: Mapping[str, str], local_name: str = "") -> Config:
        """The configuration as `subsystem` sees it, or one of several of them with a `local_name`.

        ConfigError names file and line.
        """
        overrides, files = dict(self.overrides), list(self.files) or None
        if self.directory is not None:
            overrides = {"LOCAL_DIR": self.directory, **overrides}
            said = {name.upper(): text for name, text in overrides.items()}
            environ = {**environ, "POOL_DIR": said["LOCAL_DIR"]}
            if files is None and "CONDOR_CONFIG" not in environ:  # a directory of its own is a pool of its own
                own = os.path.join(self.directory, "config")
                files = [own] if os.path.exists(own) else []
        config = load_config(files, overrides=overrides, environ=environ, subsystem=subsystem, local_name=local_name)
        config = config.with_overrides(kept) if (kept := kept_values(config, local_name or subsystem)) else config
        if subsystem == "MASTER":
            listed_daemons(config)
        return config

    def packed(self) -> dict[str, Any]:
        """As a map that crosses to another process."""
        return {"directory": self.directory, "files": list(self.files), "overrides": dict(self.overrides)}

    @classmethod
    def unpacked(cls, raw: Mapping[str, Any]) -> ConfigSource:
        """The inverse of `packed`."""
        return cls(raw["directory"], tuple(raw["files"]), dict(raw["overrides"]))
