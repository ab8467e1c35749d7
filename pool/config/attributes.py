"""Knobs that become attributes: of a daemon's ad by `<SUBSYS>_ATTRS` and its older name `<SUBSYS>_EXPRS`."""

from __future__ import annotations

from pool.base.errors import ConfigError
from pool.classad import ClassAd
from pool.config.config import Config


def listed_attributes(config: Config, subsystem: str) -> tuple[ClassAd, list[str]]:
    """The attributes that are listed for this daemon, and what is wrong with those that are left out."""
    found, troubles = ClassAd(), []
    for knob in (f"{subsystem}_ATTRS", f"{subsystem}_EXPRS"):
        for name in config.list(knob, default=()):
            try:
                value = config.expr(name)
            except ConfigError as error:
                troubles.append(f"{knob}: {error}")
                continue
            if value is not None:
                found[name] = value
    return found, troubles
