"""The cron jobs of a configuration: STARTD_CRON_JOBLIST and, for each name in it, STARTD_CRON_<NAME>_EXECUTABLE ...

A job that is not described well enough to run is left out, with a sentence that says why.

Source: HTCondor manual, "Configuration Macros" (<Keyword>_CRON_JOBLIST, <Keyword>_CRON_<JobName>_MODE ...) and "Hooks",
daemon ClassAd hooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pool.base.argv import BadQuoting, split_new, split_old
from pool.base.errors import ConfigError, UserError
from pool.base.ids import is_number
from pool.classad import Expr
from pool.config import Config
from pool.submit.quoting import arguments_old_style, is_new_style, parse_environment, unquote_new_style

STARTD: Final = "STARTD_CRON"
SCHEDD: Final = "SCHEDD_CRON"
BENCHMARKS: Final = "BENCHMARKS"

INTERFACE_VERSION: Final = "1"
"""What a job is told about how its output is read."""

_PERIOD: Final = re.compile(r"\s*(\d+)\s*([smh]?)\s*\Z", re.IGNORECASE)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_PREFIX: Final = re.compile(r"[A-Za-z0-9_]*\Z")
_METRIC: Final = re.compile(r"(SUM|PEAK):(\w+)\Z", re.IGNORECASE)


class CronMode(Enum):
    """When a job runs."""

    PERIODIC = "Periodic"
    WAIT_FOR_EXIT = "WaitForExit"
    ONE_SHOT = "OneShot"
    ON_DEMAND = "OnDemand"


class Metric(Enum):
    """How a figure of a custom resource adds up over time."""

    SUM = "SUM"
    PEAK = "PEAK"


@dataclass(frozen=True)
class CronJob:
    """One program, and how to run it. `slots` empty: its output may go to any slot."""

    name: str
    executable: str
    mode: CronMode
    period_s: int = 0
    prefix: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str | None = None
    slots: frozenset[int] = frozenset()
    load: float = 0.01
    kills: bool = False
    hears_of_reconfiguration: bool = False
    runs_at_reconfiguration: bool = False
    condition: Expr | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """Of a monitor of custom resources: names of attributes in lower case, and how they add up."""


@dataclass(frozen=True)
class CronTable:
    """All jobs of one set, and what they share."""

    manager: str
    jobs: Mapping[str, CronJob] = field(default_factory=dict)
    max_load: float = 0.1
    logs_failures: bool = False
    autopublish: str = "if_changed"
    problems: tuple[str, ...] = ()


def read_table(config: Config, manager: str) -> CronTable:
    """The jobs of `manager` (STARTD, SCHEDD or BENCHMARKS above)."""
    jobs: dict[str, CronJob] = {}
    problems: list[str] = []
    max_load = config.float(f"{manager}_MAX_JOB_LOAD", default=1.0 if manager == BENCHMARKS else 0.1)
    for name in config.list(f"{manager}_JOBLIST", default=()):
        if name in jobs:
            problems.append(f"{manager}_JOBLIST has {name} twice; it runs once")
            continue
        try:
            job = jobs[name] = _read_job(config, manager, name)
        except UserError as error:
            problems.append(f"{manager} job {name} does not run: {error}")
            continue
        if job.load > max_load:
            problems.append(f"{manager} job {name} never runs: JOB_LOAD {job.load} is above MAX_JOB_LOAD {max_load}")
    return CronTable(
        manager=manager,
        jobs=jobs,
        max_load=max_load,
        logs_failures=config.bool(f"{manager}_LOG_NON_ZERO_EXIT", default=False),
        autopublish=config.str(f"{manager}_AUTOPUBLISH", default="If_Changed").lower(),
        problems=tuple(problems),
    )


def _read_job(config: Config, manager: str, name: str) -> CronJob:
    knob = f"{manager}_{name}_"
    executable = config.path(f"{knob}EXECUTABLE", default="")
    if not executable:
        raise ConfigError(f"{knob}EXECUTABLE is not set")
    mode = _mode(config, manager, f"{knob}MODE")
    prefix = config.str(f"{knob}PREFIX", default="")
    if not _PREFIX.match(prefix):
        raise config.error(f"{knob}PREFIX", f"{knob}PREFIX = {prefix} has more than letters, digits and underscores")
    return CronJob(
        name=name,
        executable=executable,
        mode=mode,
        period_s=_period(config, f"{knob}PERIOD", mode),
        prefix=prefix,
        arguments=tuple(_arguments(config, f"{knob}ARGS")),
        environment=_environment(config, manager, f"{knob}ENV"),
        directory=config.path(f"{knob}CWD", default="") or None,
        slots=_slots(config, f"{knob}SLOTS"),
        load=config.float(f"{knob}JOB_LOAD", default=1.0 if manager == BENCHMARKS else 0.01),
        kills=config.bool(f"{knob}KILL", default=False),
        hears_of_reconfiguration=config.bool(f"{knob}RECONFIG", default=False),
        runs_at_reconfiguration=config.bool(f"{knob}RECONFIG_RERUN", default=False),
        condition=config.expr(f"{knob}CONDITION"),
        metrics=_metrics(config, f"{knob}METRICS"),
    )


def _mode(config: Config, manager: str, knob: str) -> CronMode:
    default = CronMode.ON_DEMAND if manager == BENCHMARKS else CronMode.PERIODIC
    said = config.str(knob, default="") if config.is_set(knob) else ""
    if not said:
        return default
    for mode in CronMode:
        if mode.value.lower() == said.lower():
            return mode
    raise config.error(knob, f"{knob} = {said} is not a mode (expected {', '.join(mode.value for mode in CronMode)})")


def _period(config: Config, knob: str, mode: CronMode) -> int:
    """Seconds; a job that runs once or on demand has none."""
    if mode in (CronMode.ONE_SHOT, CronMode.ON_DEMAND):
        return 0
    said = config.str(knob, default="")
    if not said:
        raise ConfigError(f"{knob} is not set, and a {mode.value} job needs it")
    found = _PERIOD.match(said)
    if found is None:
        raise config.error(knob, f"{knob} = {said} is not a period (expected 15s, 10m or 1h)")
    period = int(found[1]) * _UNITS[found[2].lower()]
    if mode is CronMode.PERIODIC and period < 1:
        raise config.error(knob, f"{knob} = {said} is too short (expected a second or more)")
    return period


def _arguments(config: Config, knob: str) -> list[str]:
    said = config.str(knob, default="")
    try:
        return split_new(unquote_new_style(said)) if is_new_style(said) else split_old(arguments_old_style(said))
    except BadQuoting as error:
        raise config.error(knob, f"{knob}: {error}") from None


def _environment(config: Config, manager: str, knob: str) -> dict[str, str]:
    """What the job is told: how its output is read, whose it is, where to ask for more; then its own variables."""
    daemon = SCHEDD if manager == SCHEDD else STARTD
    told = {f"{manager}_INTERFACE_VERSION": INTERFACE_VERSION, f"{daemon}_NAME": manager}
    if tool := config.str(f"{manager}_CONFIG_VAL", default=""):
        told[f"{manager}_CONFIG_VAL"] = tool
    try:
        told.update(parse_environment(config.str(knob, default="")))
    except BadQuoting as error:
        raise config.error(knob, f"{knob}: {error}") from None
    return told


def _slots(config: Config, knob: str) -> frozenset[int]:
    words = config.list(knob, default=())
    if any(not is_number(word) for word in words):
        raise config.error(knob, f"{knob} = {' '.join(words)} is not a list of slot numbers")
    return frozenset(int(word) for word in words)


def _metrics(config: Config, knob: str) -> dict[str, Metric]:
    """`SUM:SQUIDs, PEAK:SQUIDsMemory` as the attributes that carry them."""
    found: dict[str, Metric] = {}
    for word in config.list(knob, default=()):
        match = _METRIC.match(word)
        if match is None:
            raise config.error(knob, f"{knob}: {word} is not a metric (expected SUM:NAME or PEAK:NAME)")
        metric = Metric(match[1].upper())
        name = f"Uptime{match[2]}Seconds" if metric is Metric.SUM else f"Uptime{match[2]}PeakUsage"
        found[name.lower()] = metric
    return found
