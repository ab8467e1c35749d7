"""What the schedd reads of the configuration, once per (re)configuration."""

from __future__ import annotations

import pwd
from dataclasses import dataclass
from typing import Any

from daemons.schedd.files.checkpoint_cleanup import CleanupSettings
from daemons.schedd.files.transfer_turns import TransferSettings
from daemons.schedd.logs.global_log import GlobalLogSettings
from daemons.schedd.logs.records import RecordSettings
from pool.ads.limits import AdLimits, job_limits
from pool.classad import Expr
from pool.config import Config
from pool.config.user_maps import user_maps
from pool.hosts.daemon_names import daemon_name
from pool.jobs.accounting_groups import ChargeRules
from pool.jobs.admission import SubmitRules, admission
from pool.jobs.edits import EditRules, edit_rules
from pool.jobs.policy import SystemPolicy, system_policy
from pool.jobs.userlog.forms import Form, read_form
from pool.jobs.waiting.dedicated import DedicatedRules
from pool.jobs.waiting.flocking import FlockRules

MIB = 1024 * 1024
HISTORY_ROW_BYTES = 2048


@dataclass(frozen=True)
class ScheddSettings:
    """The knobs, typed."""

    name: str
    uid_domain: str
    super_users: frozenset[str]
    all_users_trusted: bool
    jobs_submitted_max: int
    jobs_per_owner_max: int
    bytes_per_owner_max: int
    jobs_per_submission_max: int
    jobs_running_max: int
    takes_leftovers: bool
    scheduler_jobs_per_owner_max: int
    start_count: int
    start_delay_s: float
    next_start_delay_max_s: float
    stop_count: int
    stop_delay_s: float
    late_materialization: bool
    job_sets: bool
    machine_attrs: tuple[str, ...]
    machine_attrs_length: int
    periodic_s: float
    periodic_max_s: float
    periodic_share: float
    queue_clean_s: float
    ad_limits: AdLimits
    edits: EditRules
    charging: ChargeRules
    known_users_only: bool
    removes_gracefully: bool
    vacate_cool_down: Expr | None
    scheduler_cool_down_s: float
    scheduler_nice: int
    email_domain: str
    alive_interval_s: float
    alives_missed_max: int
    history_rows_max: int
    significant: tuple[str, ...]
    insignificant: tuple[str, ...]
    system: SystemPolicy
    admission: SubmitRules
    log_form: Form
    global_log: GlobalLogSettings
    records: RecordSettings
    transfers: TransferSettings
    cleanup: CleanupSettings
    input_max_mb: int
    output_max_mb: int
    ssh_to_job: Expr | None
    global_prios_max: int | None
    """How many priorities submitters' ads tell; None: they do not count across schedds."""
    agent_timeout_s: float
    limit_directories: tuple[str, ...]
    killing_timeout_s: float
    unused_claim_s: float
    dedicated: DedicatedRules
    flock: FlockRules

    @classmethod
    def read(cls, config: Config, host: str) -> ScheddSettings:
        """From the configuration."""
        edits = edit_rules(config)
        super_users = frozenset(config.list("QUEUE_SUPER_USERS", default=["root", "condor"]))
        others = user_maps(config, "SCHEDD").found.get(
            config.str("ACCOUNTING_GROUP_USER_MAP").lower(), lambda user: None
        )
        return cls(
            **_of_jobs(config),
            **_of_time(config),
            name=daemon_name(config.str("SCHEDD_NAME"), host),
            uid_domain=config.str("UID_DOMAIN", default=host) or host,
            super_users=super_users,
            takes_leftovers=config.bool("CLAIM_PARTITIONABLE_LEFTOVERS"),
            all_users_trusted=config.bool("QUEUE_ALL_USERS_TRUSTED", default=False),
            ad_limits=job_limits(config),
            edits=edits,
            charging=ChargeRules(others, super_users, is_account),
            known_users_only=config.bool("ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY"),
            email_domain=config.str("EMAIL_DOMAIN") or config.str("UID_DOMAIN", default=host) or host,
            significant=tuple(config.list("ADD_SIGNIFICANT_ATTRIBUTES", default=[])),
            insignificant=tuple(config.list("REMOVE_SIGNIFICANT_ATTRIBUTES", default=[])),
            system=system_policy(config, edits.not_users),
            admission=admission(config, edits.no_transforms),
            log_form=read_form(config.list("DEFAULT_USERLOG_FORMAT_OPTIONS", default=[])),
            global_log=GlobalLogSettings.read(config),
            records=RecordSettings.read(config),
            transfers=TransferSettings.read(config),
            cleanup=CleanupSettings.read(config),
            ssh_to_job=config.expr("SCHEDD_ENABLE_SSH_TO_JOB"),
            dedicated=DedicatedRules.read(config),
            flock=_flock_rules(config),
        )


def _flock_rules(config: Config) -> FlockRules:
    return FlockRules.of(
        config.list("FLOCK_COLLECTOR_HOSTS"),
        config.list("FLOCK_NEGOTIATOR_HOSTS"),
        config.int("FLOCK_INCREMENT"),
        config.int("MIN_FLOCK_LEVEL"),
        config.bool("FLOCK_BY_DEFAULT"),
    )


def _of_jobs(config: Config) -> dict[str, Any]:
    """How many jobs of whom there may be, and what they may have."""
    return {
        "jobs_submitted_max": config.int("MAX_JOBS_SUBMITTED", default=2**31 - 1),
        "jobs_per_owner_max": config.int("MAX_JOBS_PER_OWNER", default=100_000),
        "bytes_per_owner_max": config.int("MAX_JOB_BYTES_PER_OWNER"),
        "jobs_per_submission_max": config.int("MAX_JOBS_PER_SUBMISSION", default=20_000),
        "jobs_running_max": config.int("MAX_JOBS_RUNNING", default=10_000),
        "scheduler_jobs_per_owner_max": config.int("MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER", default=200),
        "start_count": config.int("JOB_START_COUNT", default=1),
        "start_delay_s": config.seconds("JOB_START_DELAY", default=0.0),
        "next_start_delay_max_s": config.seconds("MAX_NEXT_JOB_START_DELAY", default=600.0),
        "stop_count": config.int("JOB_STOP_COUNT", default=1),
        "stop_delay_s": config.seconds("JOB_STOP_DELAY", default=0.0),
        "late_materialization": config.bool("SCHEDD_ALLOW_LATE_MATERIALIZE", default=True),
        "job_sets": config.bool("USE_JOBSETS", default=True),
        "machine_attrs": tuple(config.list("SYSTEM_JOB_MACHINE_ATTRS", default=[])),
        "machine_attrs_length": config.int("SYSTEM_JOB_MACHINE_ATTRS_HISTORY_LENGTH", default=1),
        "history_rows_max": _history_rows(config),
        "global_prios_max": config.int("MAX_GLOBAL_JOB_PRIOS") if config.bool("USE_GLOBAL_JOB_PRIOS") else None,
        "input_max_mb": config.int("MAX_TRANSFER_INPUT_MB"),
        "output_max_mb": config.int("MAX_TRANSFER_OUTPUT_MB"),
        "limit_directories": tuple(config.list("LIMIT_DIRECTORY_ACCESS")),
    }


def _of_time(config: Config) -> dict[str, Any]:
    """When things are done, and how long they may take."""
    return {
        "periodic_s": config.seconds("PERIODIC_EXPR_INTERVAL", default=60.0),
        "periodic_max_s": config.seconds("MAX_PERIODIC_EXPR_INTERVAL"),
        "periodic_share": config.float("PERIODIC_EXPR_TIMESLICE"),
        "queue_clean_s": config.seconds("QUEUE_CLEAN_INTERVAL"),
        "removes_gracefully": config.bool("GRACEFULLY_REMOVE_JOBS"),
        "vacate_cool_down": config.expr("SYSTEM_ON_VACATE_COOL_DOWN"),
        "scheduler_cool_down_s": config.seconds("SCHEDULER_UNIVERSE_COOL_DOWN_DURATION"),
        "scheduler_nice": config.int("SCHED_UNIV_RENICE_INCREMENT"),
        "alive_interval_s": config.seconds("ALIVE_INTERVAL", default=300.0),
        "alives_missed_max": config.int("MAX_CLAIM_ALIVES_MISSED", default=6),
        "agent_timeout_s": config.seconds("FILE_AGENT_TIMEOUT"),
        "killing_timeout_s": config.seconds("KILLING_TIMEOUT"),
        "unused_claim_s": config.seconds("UNUSED_CLAIM_TIMEOUT"),
    }


def is_account(name: str) -> bool:
    """Whether this host has such an account."""
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def _history_rows(config: Config) -> int:
    """MAX_HISTORY_LOG and its rotations, as a number of jobs."""
    # The history is a database here; HTCondor's knobs speak of files, so a row is counted as what an ad takes in a
    # file.
    size = config.bytes("MAX_HISTORY_LOG", default=20 * MIB)
    files = 1 + config.int("MAX_HISTORY_ROTATIONS", default=2)
    return max(1, size * files // HISTORY_ROW_BYTES)
