"""What condor_dagman's command line and configuration say together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from minipool.dagman.arguments import Options
from pool.config import Config, load_config
from pool.config.knobs import find
from pool.dag.course.states import Limits, Settings
from pool.dag.language.reader import Options as Reading

SHOWN: Final = (
    *("DAGMAN_USE_STRICT", "DAGMAN_VERBOSITY", "DAGMAN_SUBMIT_DELAY", "DAGMAN_MAX_SUBMIT_ATTEMPTS"),
    *("DAGMAN_STARTUP_CYCLE_DETECT", "DAGMAN_USE_JOIN_NODES", "DAGMAN_METRICS_FILE_VERSION"),
    "DAGMAN_REPORT_GRAPH_METRICS",
    *("DAGMAN_MAX_SUBMITS_PER_INTERVAL", "DAGMAN_USER_LOG_SCAN_INTERVAL", "DAGMAN_DEFAULT_PRIORITY"),
    *("DAGMAN_SUPPRESS_NOTIFICATION", "DAGMAN_RETRY_SUBMIT_FIRST", "DAGMAN_RETRY_NODE_FIRST", "DAGMAN_MAX_JOBS_IDLE"),
    *("DAGMAN_MAX_JOBS_SUBMITTED", "DAGMAN_MAX_PRE_SCRIPTS", "DAGMAN_MAX_POST_SCRIPTS", "DAGMAN_MAX_HOLD_SCRIPTS"),
    *("DAGMAN_MUNGE_NODE_NAMES", "DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS", "DAGMAN_PROHIBIT_MULTI_JOBS"),
    *("DAGMAN_SUBMIT_DEPTH_FIRST", "DAGMAN_ALWAYS_RUN_POST", "DAGMAN_DEFAULT_APPEND_VARS"),
    *("DAGMAN_INHERIT_ATTRS_PREFIX", "DAGMAN_INHERIT_ATTRS", "DAGMAN_REMOVE_JOB_LIST_ON_FAILURE"),
    *("DAGMAN_PENDING_REPORT_INTERVAL", "DAGMAN_PRINT_JOB_TABLE_INTERVAL", "DAGMAN_AUTO_RESCUE"),
    "DAGMAN_MAX_RESCUE_NUM",
    *("DAGMAN_RESET_RETRIES_UPON_RESCUE", "DAGMAN_DEFAULT_NODE_LOG", "DAGMAN_GENERATE_SUBDAG_SUBMITS"),
    *("DAGMAN_MAX_JOB_HOLDS", "DAGMAN_NODE_JOB_FAILURE_TOLERANCE", "DAGMAN_HOLD_CLAIM_TIME"),
    *("DAGMAN_SUPPRESS_JOB_LOGS", "DAGMAN_REMOVE_NODE_JOBS", "DAGMAN_PUT_FAILED_JOBS_ON_HOLD"),
    "DAGMAN_REMOVE_JOBS_AFTER_LIMIT_CHANGE",
)
"""The knobs that the log of condor_dagman begins with: those of HTCondor's that act here, in its order."""


def configuration() -> Config:
    """The configuration, with the file that DAGMAN_CONFIG_FILE names for graphs."""
    config = load_config(subsystem="DAGMAN")
    path = config.path("DAGMAN_CONFIG_FILE", default="")
    return with_file(config, path) if path else config


def with_file(config: Config, path: str) -> Config:
    """The configuration with what this file says."""
    # Only what that file itself says: what it leaves out is as it is everywhere else.
    alone = load_config([path], environ={})
    return config.with_overrides(
        {name: alone.raw(name) or "" for name in alone.names() if alone.where(name).file == path}
    )


NO_DAEMON: Final = {
    "DAGMAN_DEBUG": "DAGMAN_VERBOSITY and -Debug say how much is in this log",
    "MAX_DAGMAN_LOG": "this log is never cut, as by HTCondor of each graph that condor_submit_dag has submitted",
}
"""What daemons take from knobs of these families, and condor_dagman does not."""


def complaints(config: Config) -> list[str]:
    """What of the graph's configuration does nothing, of which nobody else tells: the pool's is told as it begins."""
    named = set(config.names(with_defaults=False))
    said = [
        f"Warning: {name} has no effect here: {reason}"
        for name, reason in NO_DAEMON.items()
        if name in named and config.raw(name) not in ("", "0")  # condor_submit_dag gives each graph MAX_DAGMAN_LOG = 0
    ]
    path = config.path("DAGMAN_CONFIG_FILE", default="")
    if not path:
        return said
    alone = load_config([path], environ={})
    return [*said, *(line for line in (*alone.warnings, *alone.without_effect) if line.startswith(f"{path}:"))]


def course_settings(options: Options, config: Config, dag_id: int) -> Settings:
    """What the course of the graph goes by."""
    post = options.always_run_post
    return Settings(
        limits=limits_of(options, config),
        always_run_post=config.bool("DAGMAN_ALWAYS_RUN_POST") if post is None else post,
        depth_first=config.bool("DAGMAN_SUBMIT_DEPTH_FIRST"),
        retry_node_first=config.bool("DAGMAN_RETRY_NODE_FIRST"),
        retry_submit_first=config.bool("DAGMAN_RETRY_SUBMIT_FIRST"),
        submit_attempts=config.int("DAGMAN_MAX_SUBMIT_ATTEMPTS"),
        job_holds_max=config.int("DAGMAN_MAX_JOB_HOLDS"),
        tolerance=config.int("DAGMAN_NODE_JOB_FAILURE_TOLERANCE"),
        remove_job_list=config.bool("DAGMAN_REMOVE_JOB_LIST_ON_FAILURE"),
        hold_failed_jobs=config.bool("DAGMAN_PUT_FAILED_JOBS_ON_HOLD"),
        priority=options.priority or config.int("DAGMAN_DEFAULT_PRIORITY"),
        enforce_new_limit=config.bool("DAGMAN_REMOVE_JOBS_AFTER_LIMIT_CHANGE"),
        remove_node_jobs=config.bool("DAGMAN_REMOVE_NODE_JOBS"),
        rescue_files=config.int("DAGMAN_MAX_RESCUE_NUM") > 0,
        dag_id=dag_id,
    )


def limits_of(options: Options, config: Config) -> Limits:
    """The limits as they are at first."""
    return Limits(
        jobs=_or(options.max_jobs, config.int("DAGMAN_MAX_JOBS_SUBMITTED")),
        idle=_or(options.max_idle, config.int("DAGMAN_MAX_JOBS_IDLE")),
        pre=_or(options.max_pre, config.int("DAGMAN_MAX_PRE_SCRIPTS")),
        post=_or(options.max_post, config.int("DAGMAN_MAX_POST_SCRIPTS")),
        hold=_or(options.max_hold, config.int("DAGMAN_MAX_HOLD_SCRIPTS")),
        submits=config.int("DAGMAN_MAX_SUBMITS_PER_INTERVAL"),
    )


def bounds(config: Config) -> Limits:
    """What no limit may be above: the administrator's configuration has it, and not a graph's own."""
    if config.bool("DAGMAN_DISABLE_ADMIN_THROTTLE_LIMITING"):
        return Limits()
    return limits_of(Options(), load_config(subsystem="DAGMAN"))


def _or(asked: int | None, configured: int) -> int:
    # 0 is an answer of its own: no limit.
    return configured if asked is None else asked


def settings_text(config: Config) -> Iterator[str]:
    """The configuration as condor_dagman's log has it, a line for each knob."""
    for name in SHOWN:
        knob = find(name)
        is_flag = knob is not None and knob.kind == "bool"
        value = config.bool(name) if is_flag else config.str(name, default="")
        yield f"{name} setting: {value}"


def reading(options: Options, config: Config) -> Reading:
    """How the DAG files are read."""
    return Reading(
        munge=config.bool("DAGMAN_MUNGE_NODE_NAMES"),
        use_dag_dir=options.use_dag_dir,
        any_characters=config.bool("DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS"),
        joins=config.bool("DAGMAN_USE_JOIN_NODES"),
    )


class Paths(NamedTuple):
    """The files of a graph beside its DAG file."""

    lock: str
    nodes_log: str
    metrics: str
    halt: str


def paths(options: Options, config: Config, facts: Mapping[str, str]) -> Paths:
    """Where they are; `facts` stand for @(CLUSTER), @(OWNER) and @(NODE_NAME) of DAGMAN_DEFAULT_NODE_LOG."""
    primary = options.primary
    log = config.str("DAGMAN_DEFAULT_NODE_LOG")
    directory = os.path.dirname(primary) or "."
    for name, value in {"DAG_DIR": directory, "DAG_FILE": os.path.basename(primary), **facts}.items():
        log = log.replace(f"@({name})", value)
    if "@(" in log and config.int("DAGMAN_USE_STRICT"):
        raise config.error("DAGMAN_DEFAULT_NODE_LOG", f"the log of nodes would be {log}: it has no such macro")
    # Nodes have directories of their own, and all of their jobs write to this one log.
    log = log if log.startswith("/") else f"{os.getcwd()}/{log}"
    return Paths(options.lock_file or f"{primary}.lock", log, f"{primary}.metrics", f"{primary}.halt")
