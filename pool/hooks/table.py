"""The hooks of a configuration: `<KEYWORD>_HOOK_<HOOK> = /path`, grouped by keyword, and whose keyword counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pool.base.argv import BadQuoting, split_new, split_old
from pool.classad import ClassAd
from pool.config import Config
from pool.submit.quoting import arguments_old_style, is_new_style, unquote_new_style


class Hook(StrEnum):
    """What can be hooked; the values are those of the knobs."""

    FETCH_WORK = "FETCH_WORK"
    REPLY_FETCH = "REPLY_FETCH"
    EVICT_CLAIM = "EVICT_CLAIM"
    PREPARE_JOB_BEFORE_TRANSFER = "PREPARE_JOB_BEFORE_TRANSFER"
    PREPARE_JOB = "PREPARE_JOB"
    UPDATE_JOB_INFO = "UPDATE_JOB_INFO"
    JOB_EXIT = "JOB_EXIT"


STARTD_HOOKS: Final = (Hook.FETCH_WORK, Hook.REPLY_FETCH, Hook.EVICT_CLAIM)
STARTER_HOOKS: Final = (
    Hook.PREPARE_JOB_BEFORE_TRANSFER,
    Hook.PREPARE_JOB,
    Hook.UPDATE_JOB_INFO,
    Hook.JOB_EXIT,
)

TIMEOUTS: Final[Mapping[Hook, float]] = {
    Hook.FETCH_WORK: 300.0,
    Hook.REPLY_FETCH: 300.0,
    Hook.EVICT_CLAIM: 300.0,
    Hook.PREPARE_JOB_BEFORE_TRANSFER: 3600.0,
    Hook.PREPARE_JOB: 3600.0,
    Hook.UPDATE_JOB_INFO: 300.0,
    Hook.JOB_EXIT: 30.0,
}
"""How long a hook may take where no knob says so, in seconds."""


@dataclass(frozen=True)
class HookProgram:
    """One hook of one keyword."""

    hook: Hook
    path: str
    arguments: tuple[str, ...] = ()
    timeout_s: float = 0.0

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class HookTable:
    """Hooks by keyword, in upper case."""

    keywords: Mapping[str, Mapping[Hook, HookProgram]] = field(default_factory=dict)

    def of(self, keyword: str) -> Mapping[Hook, HookProgram]:
        """The hooks of a keyword; none for one that is not known."""
        return self.keywords.get(keyword.upper(), {})

    def packed(self) -> list[list[str]]:
        """As rows of texts, for a process that reads no configuration."""
        return [
            [keyword, program.hook.value, program.path, str(program.timeout_s), *program.arguments]
            for keyword, programs in self.keywords.items()
            for program in programs.values()
        ]

    @classmethod
    def unpacked(cls, rows: Iterable[list[str]]) -> HookTable:
        """The inverse of `packed`."""
        keywords: dict[str, dict[Hook, HookProgram]] = {}
        for keyword, hook, path, timeout_s, *arguments in rows:
            program = HookProgram(Hook(hook), path, tuple(arguments), float(timeout_s))
            keywords.setdefault(keyword, {})[program.hook] = program
        return cls(keywords)


def read_hooks(config: Config, wanted: Iterable[Hook]) -> HookTable:
    """All hooks of these kinds that the configuration names; a prepare hook may have arguments (`..._ARGS`)."""
    keywords: dict[str, dict[Hook, HookProgram]] = {}
    endings = {f"_HOOK_{hook.value}": hook for hook in wanted}
    # Only what somebody has set: the keyword is the site's, so no table could list the names.
    for name in config.names(with_defaults=False):
        if "_HOOK_" not in (upper := name.rpartition(".")[2].upper()):
            continue
        for ending, hook in endings.items():
            if not upper.endswith(ending) or not (keyword := upper[: -len(ending)]):
                continue
            # Asked for by the bare name, so that STARTD.X_HOOK_... goes before X_HOOK_... as for any knob.
            if path := config.path(upper, default=""):
                program = HookProgram(hook, path, _arguments(config, f"{upper}_ARGS"), _timeout(config, upper, hook))
                keywords.setdefault(keyword, {})[hook] = program
    return HookTable(keywords)


def job_keyword(job: ClassAd, table: HookTable, *, forced: str = "", default: str = "") -> str:
    """Whose hooks a job has: the machine's word over the job's, and the default for a job with none that is known."""
    if forced and table.of(forced):
        return forced
    own = job.eval_str("HookKeyword") or ""
    # A keyword that this machine does not know is none: jobs wander between machines.
    return own if own and table.of(own) else default


def _arguments(config: Config, knob: str) -> tuple[str, ...]:
    said = config.str(knob, default="")
    try:
        words = split_new(unquote_new_style(said)) if is_new_style(said) else split_old(arguments_old_style(said))
    except BadQuoting as error:
        raise config.error(knob, f"{knob}: {error}") from None
    return tuple(words)


def _timeout(config: Config, name: str, hook: Hook) -> float:
    return config.seconds(f"{name}_TIMEOUT", default=TIMEOUTS[hook])
