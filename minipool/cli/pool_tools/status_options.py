"""The options of condor_status, and which view they come to."""

from __future__ import annotations

from typing import Final

from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import FORMATTING, HELP, POOL, VERSION_OPT, Tool
from pool.base.errors import UserError

TOOL: Final = Tool(
    "condor_status",
    "Show machines and daemons of the pool.",
    "[options] [NAME]...",
    (
        Opt("avail available", 2, says="slots that can run a job now"),
        POOL,
        Opt("ads", 2, 1, "FILE", "the ads of a file instead of the collector's (:long, :xml, :json, :new)", True),
        FORMATTING[1],
        FORMATTING[0],
        Opt("aaf", 3, -1, "ATTR...", "add columns to a standard table", True),
        Opt("print-format", 2, 1, "FILE", "take the columns, and what is around them, from a file", True),
        Opt("wide", 3, says="do not cut lines at the width of the terminal", colon=True),
        Opt("natural", 3, says="numbers in names by value (the default); :off: by their letters", colon=True),
        Opt("target", 4, 1, "FILE", "the ad of a file as the other side of expressions"),
        Opt("constraint", 3, 1, "EXPR", "only ads for which the expression is true"),
        Opt("annex-slots", 5, says="slots of annexes"),
        Opt("annex-name", 10, 1, "NAME", "slots of this annex"),
        Opt("direct", 3, 1, "NAME", "ask the daemon itself: the startd, or whose ads are wanted"),
        Opt(
            "diagnose",
            3,
            colon=True,
            says="say what would be asked, and ask nothing; :FILE: ask, and write the ads as they came",
        ),
        Opt("debug", 2, says="say more about what is done", colon=True),
        Opt("defrag", 3, says="what defragmentation has done"),
        HELP,
        Opt("limit", 2, 1, "N", "show no more than N ads"),
        FORMATTING[2],
        Opt("xml", 1, says="print ads as XML"),
        Opt("json", 2, says="print ads as JSON"),
        FORMATTING[3],
        Opt("claimed", 2, says="claimed slots and who uses them"),
        Opt("data", 2, says="how much data schedds move"),
        Opt("run", 1, says="what schedds run; with -slots, claimed slots"),
        Opt("cod", 3, says="slots with claims for computing on demand"),
        Opt("gpus", 3, says="slots with GPUs; with -startd, machines"),
        Opt("java", 1, says="slots with Java"),
        Opt("absent", 2, says="slots that are expected and absent"),
        Opt("offline", 2, says="slots with universes that are offline"),
        Opt("merge", 5, 1, "FILE", "compare with the ads of a file: only here, in both, only there"),
        Opt("vm", 2, says="slots with the VM universe"),
        Opt("slots", 2, says="slots (the default)"),
        Opt("compact", 3, says="one line for each machine"),
        Opt("nocompact", 5, says="one line for each slot"),
        Opt("server", 2, says="slots with their speed"),
        Opt("state", 4, says="slots with the time in each state"),
        Opt("broken", 4, says="slots that are broken; with -startd, machines"),
        Opt("lvm", 3, says="slots whose disk is a logical volume; with -startd, machines", colon=True),
        Opt("healthy", 4, says="machines that are not healthy (:verbose: all); with -slots, slots", colon=True),
        Opt("snapshot", 4, colon=True, says="with -direct: also the jobs of the slots, and what cron jobs said"),
        Opt(
            "statistics", 5, 1, "SET:LEVEL", "with -direct: which statistics are shown (as STATISTICS_TO_PUBLISH says)"
        ),
        Opt("startd", 4, says="startds"),
        Opt("schedd", 2, says="schedds"),
        Opt("grid", 1, says="grid resources"),
        Opt("subsystem", 4, 1, "TYPE", "ads of this type"),
        Opt("license", 2, says="whole ads of licenses"),
        Opt("storage", 3, says="ads of storage"),
        Opt("negotiator", 1, says="negotiators"),
        Opt("generic", 2, says="ads of no known type"),
        Opt("any", 2, says="ads of all types"),
        Opt("sort", 2, 1, "EXPR", "order by an expression"),
        Opt("submitters", 4, says="users with jobs"),
        Opt("master", 1, says="masters"),
        Opt("collector", 3, says="collectors"),
        Opt("watch", 2, says="go on after the table: a line for each ad that is new, looks different, or is gone"),
        Opt("world", 1, says="collectors"),
        Opt("ckptsrvr", 2, says="checkpoint servers"),
        Opt("totals", 1, says="only the totals"),
        Opt("expert", 1, says="errors without the advice"),
        VERSION_OPT._replace(least=3),
    ),
    unknown="Error:  Unknown option {}",
)

_MODES: Final = (
    "avail", "defrag", "claimed", "data", "run", "cod", "gpus", "slots", "broken", "lvm", "healthy", "startd", "schedd",
    "grid", "license", "storage", "negotiator", "generic", "any", "submitters", "master", "collector", "world",
    "ckptsrvr",
)  # fmt: skip
_TOGETHER: Final = {
    ("slots", "run"): "claimed", ("claimed", "run"): "claimed", ("schedd", "run"): "run", ("run", "schedd"): "run",
    ("claimed", "schedd"): "run", ("schedd", "data"): "data", ("data", "schedd"): "data", ("run", "data"): "run",
    ("startd", "gpus"): "startd gpus", ("gpus", "startd"): "startd gpus",
    ("startd", "broken"): "startd broken", ("broken", "startd"): "startd broken",
    ("startd", "lvm"): "startd lvm", ("lvm", "startd"): "startd lvm",
    # -healthy alone is about machines, and -slots beside it makes it about slots, in either order.
    ("startd", "healthy"): "startd healthy", ("startd healthy", "startd"): "startd healthy",
    ("slots", "healthy"): "healthy", ("startd healthy", "slots"): "healthy", ("healthy", "slots"): "healthy",
}  # fmt: skip
_SUBSYSTEMS: Final = {
    "schedd": "schedd", "submitters": "submitters", "submitter": "submitters", "slots": "slots", "slot": "slots",
    "machine": "slots", "startd": "startd", "defrag": "defrag", "grid": "grid", "accounting": "accounting",
    "negotiator": "negotiator", "master": "master", "daemonmaster": "master", "collector": "collector",
    "generic": "generic", "had": "had", "scheduler": "schedd", "any": "any",
}  # fmt: skip


class StatusMode:
    """What the options come to: the view, and the type of ads where it is one without a view."""

    def __init__(self, parsed: Parsed) -> None:
        self.ad_type: str | None = None
        self.name = ""
        self._by = ""
        for at, given in enumerate(parsed.given, 1):
            if given.key == "subsystem":
                self._subsystem(given.values[0], at)
            elif given.key in _MODES:
                self._set("collector" if given.key == "world" else given.key, given.spelled, at)
        self.name = self.name or "slots"
        self.kind = self._kind(parsed)

    def _subsystem(self, what: str, at: int) -> None:
        known = _SUBSYSTEMS.get(what.lower())
        if known is None:
            self.ad_type = what
        self._set(known or "any", what, at)

    def _set(self, mode: str, spelled: str, at: int) -> None:
        mode = "startd healthy" if mode == "healthy" and not self.name else mode
        together = _TOGETHER.get((self.name, mode))
        if not self.name or together:
            self.name, self._by = together or mode, f"arg {at} ({spelled})"
        elif mode != self.name:
            raise UserError(f"Error:  Arg {at} ({spelled}) contradicts {self._by}")

    def _kind(self, parsed: Parsed) -> str:
        """The name of the view."""
        has = parsed.has
        name = "normal" if self.name == "slots" else self.name
        if name == "normal":
            for key in ("absent", "offline", "vm", "java"):
                if has(key):
                    return key
        about_slots = name in ("normal", "avail", "claimed", "gpus", "broken", "lvm", "healthy", "cod")
        compact = [given.key for given in parsed.given if given.key in ("compact", "nocompact", "slots")]
        rolled = bool(compact) and compact[-1] == "compact"
        if rolled and not about_slots:
            more = "remove -startd from command or use -slot instead" if name.startswith("startd") else ""
            raise UserError(f"Error:  arg (-compact) contradicts {self._by} {more}")
        if name in ("normal", "avail"):
            name = next((key for key in ("server", "state") if has(key)), name)
        if rolled:
            if has("totals"):
                return name
            return {"normal": "compact", "avail": "compact"}.get(name, f"compact {name}")
        return name
