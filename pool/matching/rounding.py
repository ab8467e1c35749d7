"""How startds round requests, as far as those can know who match slots with jobs."""

from __future__ import annotations

from typing import Final

from pool.config import Config
from pool.slots.provision.carve import Rounding

_ROUNDED: Final = ("Cpus", "Memory", "Disk")


def rounding(config: Config) -> Rounding:
    """How startds round requests, as far as this host's configuration is theirs too."""
    rules = {name: config.expr(f"MODIFY_REQUEST_EXPR_REQUEST{name.upper()}") for name in _ROUNDED}
    known = {name: rule for name, rule in rules.items() if rule is not None}
    return Rounding(known, must=config.bool("MUST_MODIFY_REQUEST_EXPRS"))
