"""What names mean while a submit description is turned into jobs, and which of them were asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pool.base.errors import Span, SubmitError
from pool.macros.expand import Chance, Expander
from pool.macros.macro_set import MacroSet, Source

if TYPE_CHECKING:
    from pool.config import Config

ARGUMENT = Source("<Argument>")


class Scope:
    """Names and their texts: the item's variables, then the description's own, then those that are always there."""

    def __init__(
        self,
        macros: MacroSet,
        config: Config,
        *,
        environ: Mapping[str, str],
        cwd: str,
        now: float,
        chance: Chance | None,
    ) -> None:
        self.macros = macros
        self.live: dict[str, str] = {}
        self.used: set[str] = set()
        self.defaults = _defaults(config, now)
        self.expander = Expander(self.lookup, environ=environ, chance=chance, cwd=cwd, error=SubmitError)

    def lookup(self, name: str) -> str | None:
        """The raw text of `name`, and a note that it was asked for."""
        key = name.lower()
        text = self.live.get(key)
        if text is not None:
            self.used.add(key)
            return text
        found = self.macros.get(key)
        if found is not None:
            self.used.add(key)
            return found.text
        return self.defaults.get(key)

    def expand(self, text: str) -> str:
        return self.expander.expand(text)

    def param(self, name: str, other: str = "") -> str | None:
        """The expanded text of a command, or of its other spelling; None when there is none or nothing is left."""
        raw = self.lookup(name)
        if raw is None and other:
            raw = self.lookup(other)
        if raw is None:
            return None
        if "$" not in raw:
            return raw or None
        try:
            return self.expander.expand(raw) or None
        except SubmitError as error:
            if error.span is None:
                error.span = self.span(name, other)
            raise

    def span(self, *names: str) -> Span | None:
        """Where the value of the first of `names` that the description sets was written."""
        for name in names:
            found = self.macros.get(name) if name else None
            if found is not None and found.source.line:
                return found.source.span()
        return None


def _defaults(config: Config, now: float) -> dict[str, str]:
    day = time.localtime(now)
    known = {
        "cluster": "1",
        "clusterid": "1",
        "process": "0",
        "procid": "0",
        "step": "0",
        "row": "0",
        "itemindex": "0",
        "item": "",
        "node": "",
        "taskid": "0",
        "jobid": "$(ClusterId).$(ProcId)",
        "joblistid": "$(ClusterId)",
        "islinux": "1",
        "iswindows": "0",
        "request_cpus": "$(RequestCPUs)",
        "request_memory": "$(RequestMemory)",
        "submit_file": "",
        "submit_time": str(int(now)),
        "year": f"{day.tm_year:04}",
        "month": f"{day.tm_mon:02}",
        "day": f"{day.tm_mday:02}",
    }
    for name in ("ARCH", "OPSYS", "OPSYSANDVER", "OPSYSMAJORVER", "OPSYSVER", "SPOOL"):
        known[name.lower()] = config.str(name, "")
    return known
