"""Which changes of a configuration take effect only when a daemon is started again."""

from __future__ import annotations

from collections.abc import Iterable

from pool.config import knobs
from pool.config.config import Config


def needs_restart(name: str) -> bool:
    """Whether the knob is read only at start."""
    knob = knobs.find(name.rpartition(".")[2])
    return knob is not None and knob.restart


def changed(old: Config, new: Config) -> list[str]:
    """The names whose values differ between two configurations."""
    names = {name.lower(): name for name in (*old.names(), *new.names())}
    return [names[key] for key in sorted(names) if old[names[key]] != new[names[key]]]


def waiting_for_restart(old: Config, new: Config, names: Iterable[str] | None = None) -> list[str]:
    """Those of the changed names (or of `names`) that a reconfiguration does not put into effect."""
    return [name for name in (changed(old, new) if names is None else names) if needs_restart(name)]
