"""Which changes of a configuration take effect only when a daemon is started again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pool.config import knobs
from pool.config.config import Config

_OF_ALL: Final = ("Places", "Files and languages", "Names and network", "Security")
_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "MASTER": ("The master",),
    "COLLECTOR": ("The collector",),
    "NEGOTIATOR": ("The negotiator",),
    "SCHEDD": ("The schedd",),
    "STARTD": ("The startd and its slots", "Starters and jobs"),
    "DEFRAG": ("The defragmenter",),
    "ROOSTER": ("The rooster",),
}
"""The sections of the table of knobs that a daemon reads, besides those that all do."""


def needs_restart(name: str, subsystem: str) -> bool:
    """Whether this daemon reads the knob, and only at its start."""
    knob = knobs.find(name.rpartition(".")[2])
    return knob is not None and knob.restart and knob.section in (*_OF_ALL, *_OF.get(subsystem.upper(), ()))


def changed(old: Config, new: Config) -> list[str]:
    """The names whose values differ between two configurations."""
    # Defaults are among them: what was set and is no more has changed as well.
    names = {name.lower(): name for name in (*old.names(), *new.names())}
    return [names[key] for key in sorted(names) if old[names[key]] != new[names[key]]]


def waiting_for_restart(old: Config, new: Config, subsystem: str) -> list[str]:
    """The changed names that this daemon puts into effect only when it is started again."""
    return [name for name in changed(old, new) if needs_restart(name, subsystem)]
