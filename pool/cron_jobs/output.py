"""What a cron job prints: lines of `Name = expression`, ads ended by lines that begin with `-`.

    Value = 1
    SlotId = 1
    - s1
    Value = 10
    - update:true

The word after the dash names the ad; a later ad of the same name replaces it. Attributes that say where an ad belongs
(SlotId and the like) are not prefixed and not merged; they are known with the job's prefix too, for programs that print
it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pool.base.errors import ClassAdError
from pool.classad import ClassAd, parse_long
from pool.cron_jobs.jobs import CronJob

CONTROLS: Final = {
    "slotmergeconstraint": "SlotMergeConstraint",
    "slotname": "SlotName",
    "name": "Name",
    "slottypeid": "SlotTypeId",
    "slotid": "SlotId",
}
"""Attributes that say where an ad belongs."""

LINE_CHARS_MAX: Final = 1024 * 1024
ATTRIBUTES_MAX: Final = 10_000


@dataclass(frozen=True)
class CronAd:
    """One ad that a job has printed. `update`: whether it is to be sent at once; None: as the configuration says."""

    tag: str
    ad: ClassAd
    controls: ClassAd
    update: bool | None = None


@dataclass
class OutputReader:
    """Reads the output of one run as it comes."""

    job: CronJob
    published: Callable[[CronAd], None]
    complained: Callable[[str], None]
    _rest: bytes = b""
    _line: int = 0
    _ad: ClassAd = field(default_factory=ClassAd)
    _controls: ClassAd = field(default_factory=ClassAd)

    def take(self, piece: bytes) -> None:
        """More output."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._take_line(line)
        if len(self._rest) > LINE_CHARS_MAX:
            self._line += 1
            self._complain("", f"longer than {LINE_CHARS_MAX} characters")
            self._rest = b""

    def end(self) -> None:
        """The program has ended; what it printed since the last dash counts as well."""
        if self._rest:
            self._take_line(self._rest)
            self._rest = b""
        self._finish("", None)

    def _take_line(self, raw: bytes) -> None:
        self._line += 1
        line = raw.decode("utf-8", "replace").strip()
        if not line or line.startswith("#"):
            return
        if line.startswith("-"):
            tag, update = _separator(line[1:])
            self._finish(tag, update)
            return
        self._attribute(line)

    def _attribute(self, line: str) -> None:
        try:
            one = parse_long(line)
        except ClassAdError as error:
            self._complain(line, error.message)
            return
        prefix = self.job.prefix
        for name, value in one.items():
            control = _control(name, prefix)
            if control is not None:
                self._controls[control] = value
            elif len(self._ad) >= ATTRIBUTES_MAX:
                self._complain(line, f"more than {ATTRIBUTES_MAX} attributes")
            else:
                self._ad[f"{prefix}{name}"] = value

    def _finish(self, tag: str, update: bool | None) -> None:
        ad, controls = self._ad, self._controls
        self._ad, self._controls = ClassAd(), ClassAd()
        if len(ad) or len(controls) or update:
            self.published(CronAd(tag, ad, controls, update))

    def _complain(self, line: str, why: str) -> None:
        shown = line if len(line) <= 200 else f"{line[:200]}..."
        self.complained(f"line {self._line} of the output is not an attribute: {why}: {shown}".rstrip(": "))


def _control(name: str, prefix: str) -> str | None:
    lower = name.lower()
    if lower in CONTROLS:
        return CONTROLS[lower]
    if prefix and lower.startswith(prefix.lower()):
        return CONTROLS.get(lower[len(prefix) :])
    return None


def _separator(text: str) -> tuple[str, bool | None]:
    """The name of the ad that ends here, and what its writer wants of an update."""
    tag, update = "", None
    for number, word in enumerate(text.split()):
        key, colon, value = word.partition(":")
        if not colon and key.lower() != "update":
            tag = word if number == 0 else tag
        elif key.lower() == "update":
            update = value.lower() not in ("false", "no", "f", "0")
    return tag, update
