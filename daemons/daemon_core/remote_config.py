"""What peers may ask and change of a daemon's configuration (`condor_config_val -name`, `-set`, `-rset`).

A change counts from the daemon's next reconfiguration: one of `-rset` until the daemon ends, one of `-set` for good, by
a file of PERSISTENT_CONFIG_DIR. ENABLE_RUNTIME_CONFIG and ENABLE_PERSISTENT_CONFIG allow them; SETTABLE_ATTRS_<LEVEL>
has the knobs that a peer of a level may change.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from daemons.base.whole_file import replace_file
from pool.base.errors import ConfigError, UserError
from pool.config import Config
from pool.config.values import check_values
from protocol.messages.common import GetConfig, SetConfig, Setting, Settings
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.authorize import Denied, Level
from protocol.wire.message import DONE, Done

if TYPE_CHECKING:
    from daemons.daemon_core.run import DaemonStart

NAMES_MAX: Final = 1000
VALUE_MAX: Final = 65_536
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+){0,2}")


class RemoteConfig:
    """The handlers of GetConfig and SetConfig."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start

    def answers(self) -> list[Answer]:
        """What `condor_config_val` asks and sets."""
        return [answer(GetConfig, self.get), answer(SetConfig, self.set)]

    async def get(self, peer: Peer, request: GetConfig) -> Settings:
        """What this daemon's configuration says."""
        if len(request.names) > NAMES_MAX:
            raise UserError(f"{len(request.names)} names at once", expected=f"at most {NAMES_MAX}")
        config = self._start.config
        known = {name.lower(): name for name in config.names()}
        asked = list(known.values()) if request.all else [name for name in request.names if name.lower() in known]
        return Settings(
            settings=[_setting(config, name) for name in asked if config[name] is not None], files=config.files
        )

    async def set(self, peer: Peer, request: SetConfig) -> Done:
        """Note a change, when the caller may make it and the value can be used."""
        start, name = self._start, request.name
        knob = "ENABLE_PERSISTENT_CONFIG" if request.lasting else "ENABLE_RUNTIME_CONFIG"
        if not start.config.bool(knob):
            raise Denied(f"{knob} is not true on this host")
        if _NAME.fullmatch(name) is None:
            raise UserError(f"{name[:80]!r} is not the name of a knob")
        if not any(peer.allows(level) and _is_settable(start.config, name, level) for level in Level):
            raise Denied(f"{peer.identity} may not set {name}: no SETTABLE_ATTRS_<LEVEL> of a level of theirs has it")
        if request.value is not None:
            if "\n" in request.value or len(request.value) > VALUE_MAX:
                raise UserError(f"the value of {name} is not one line of at most {VALUE_MAX} characters")
            # A value that nobody can use would keep the daemon from its next start.
            check_values(start.config.with_overrides({name: request.value}))
        if request.lasting:
            kept = _changed(kept_values(start.config, start.subsystem), name, request.value)
            await start.world.threads.run_sync(_keep, _file(start.config, start.subsystem), kept)
        else:
            start.runtime_values = _changed(start.runtime_values, name, request.value)
        start.log.always("A knob was set.", name=name, value=request.value, lasting=request.lasting, by=peer.identity)
        return DONE


def kept_values(config: Config, subsystem: str) -> dict[str, str]:
    """What was set for good; ConfigError when somebody else could have written the file."""
    if not config.bool("ENABLE_PERSISTENT_CONFIG"):
        return {}
    path = _file(config, subsystem)
    try:
        with open(path, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            # On the open file: a name could lead elsewhere between the look and the reading.
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(f"{path} is not read: another account could have written it")
            pairs = (line.rstrip("\n").partition(" = ") for line in file)
            return {name: value for name, _, value in pairs if name}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _file(config: Config, subsystem: str) -> Path:
    directory = config.path("PERSISTENT_CONFIG_DIR")
    if not directory:
        raise config.error("ENABLE_PERSISTENT_CONFIG", "ENABLE_PERSISTENT_CONFIG needs a PERSISTENT_CONFIG_DIR")
    return Path(directory, f".config.{subsystem}")


def _keep(path: Path, values: Mapping[str, str]) -> None:
    try:
        replace_file(path, "".join(f"{name} = {value}\n" for name, value in values.items()))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _changed(values: Mapping[str, str], name: str, value: str | None) -> dict[str, str]:
    others = {key: text for key, text in values.items() if key.lower() != name.lower()}
    return others if value is None else {**others, name: value}


def _is_settable(config: Config, name: str, level: Level) -> bool:
    patterns = config.list(f"SETTABLE_ATTRS_{level.value}", default=[])
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)


def _setting(config: Config, name: str) -> Setting:
    return Setting(
        name=name,
        value=config[name] or "",
        raw=config.raw(name) or "",
        where=str(config.where(name)),
        found_as=config.found_as(name),
    )
