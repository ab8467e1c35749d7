"""What a starter and a file agent are born with: a few values out of the configuration, packed into the fork's payload.

The owner reads its configuration once; a child is given what it needs, and starts without reading any file.

Source: HTCondor's manual, "Starter Daemon Configuration Options"; that a child reads no configuration of its own is
this pool's.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgpack

from daemons.base import faults
from daemons.base.log import TIMES, Log, log_times
from pool.base.argv import split_new
from pool.base.ids import is_number
from pool.containers.engine import KNOBS as ENGINE_KNOBS
from pool.containers.engine import VOLUME
from pool.containers.singularity import KNOBS as SINGULARITY_KNOBS
from pool.execute.assigned import DEFAULTS as ASSIGNED_KNOBS
from pool.execute.assigned import is_assigned_knob
from pool.execute.cgroup import Trees, claim_group
from pool.execute.isolation import MOUNTS, PIDS
from pool.execute.java import KNOBS as JAVA_KNOBS
from pool.execute.plan import THREAD_VARIABLES
from pool.execute.scratch import Store
from pool.hooks.table import STARTER_HOOKS, read_hooks
from protocol.messages.starter import StarterSlot
from protocol.security.credentials import Security
from protocol.security.revoked import REVOKED_FILE, Revoked
from protocol.security.settings import SecuritySettings
from protocol.wire.kinds import decode, encode
from protocol.wire.message import Record, replace

if TYPE_CHECKING:
    from pool.config import Config

B = TypeVar("B", bound="Birthright")

LOCK_WAIT_SHARE: Final = 2 / 3
"""How much of its time to answer an agent may spend waiting for locked logs."""
A_TOOL: Final = "condor_chirp"
"""A tool that jobs use: it is where the tools are."""
_SANDBOX_MODES: Final = {"user": 0o700, "group": 0o750, "world": 0o755}
"""What JOB_EXECDIR_PERMISSIONS may say."""


class Birthright(Record):
    """What every child is given."""

    log_path: str = ""  # empty: standard error
    log_level: str = ""
    log_bytes_max: int = 10 * 1024 * 1024
    log_old_max: int = 1
    log_times: str = TIMES
    run_dir: str = ""
    fault_points: str = ""
    host: str = "localhost"
    uid_domain: str = ""
    trust_domain: str = ""
    owner_uid: int = 0
    keys: str = ""
    ca_files: list[str] = []

    def pack(self) -> bytes:
        """As the payload of a fork."""
        # Paths may be any bytes: surrogates stand for those that are no UTF-8.
        return bytes(msgpack.packb(encode(self), unicode_errors="surrogateescape"))

    @classmethod
    def unpack(cls: type[B], payload: bytes) -> B:
        """From the payload of a fork."""
        return decode(cls, msgpack.unpackb(payload, unicode_errors="surrogateescape"))

    def begin(self) -> Log:
        """The first thing that a child does: open its log, and know where a test wants it killed."""
        path, sizes = Path(self.log_path) if self.log_path else None, (self.log_bytes_max, self.log_old_max)
        log = Log(path, level=self.log_level, bytes_max=sizes[0], old_max=sizes[1], times=self.log_times)
        log.capture_logging()
        faults.arm(self.fault_points, self.run_dir or ".")
        return log

    def client_security(self) -> Security:
        """To connect with, as this host; a ticket is added for each connection."""
        return Security(
            SecuritySettings(
                trust_domain=self.trust_domain,
                uid_domain=self.uid_domain,
                owner_uid=self.owner_uid,
                keys=self.keys,
                ca_files=tuple(self.ca_files),
            ),
            revoked=Revoked(os.path.join(self.run_dir, REVOKED_FILE)),
        )


class StarterSettings(Birthright):
    """A starter's: what all slots of this machine with the same EXECUTE share, and its own slot once it has one."""

    slot: str = ""
    rehearses: bool = False
    execute: str
    bin: str = ""  # where the tools are
    group: str = ""
    tree_version: int = 0
    tree_mounts: list[str] = []  # CONTROLLER=PATH
    memory_policy: str = "hard"
    hard_memory_expr: str = ""
    low_memory_expr: str = ""
    counts_cache: bool = False
    group_look_s: float = 5.0
    processes_look_s: float = 15.0
    memory_poll_s: float = 1.0
    memory_metric: str = ""
    log_name: str = ""  # `cluster` or `jobid`: log_path gets the job's number
    disable_swap: bool = True
    always_hold_on_oom: bool = True
    machine_memory_mb: int = 0
    update_first_s: float = 8.0
    update_s: float = 300.0
    rest_after_s: float = 0.0  # 0: never
    keeper: int = 0  # its process id, where it has one
    killing_timeout_s: float = 30.0
    thread_variables: list[str] = list(THREAD_VARIABLES)
    assigned_knobs: dict[str, str] = {}
    job_environment: str = ""
    inherit_environment: bool = False
    sets_home: bool = True
    nice: str = "0"  # an expression over the job's ad
    fallback_account: str = "nobody"
    run_as_owner: str = "true"  # an expression over the slot's ad (MY) and the job's (TARGET)
    dedicated_accounts: str = ""
    wrapper: str = ""
    processes_max: str = "0"
    reserved_disk_mb: int = 0
    assign_cpus: str = ""
    cpu_affinity: list[int] = []
    tracking_gids: list[int] = []  # the first and the last
    job_namespaces: bool = False
    pid_namespaces: bool = False
    mount_under_scratch: str = ""
    private_shared_memory: bool = False
    hides_gpus: bool = True
    offline: bool = False
    soft_uid_domain: bool = False
    no_set_user_id: bool = False
    address_space_mb: int = 0
    sandbox_mode: int = 0o700
    scratch: dict[str, str] = {}  # see pool.execute.scratch.Store.packed
    encrypt_all: bool = False
    encrypt_never: bool = False
    disk_poll_s: float = 0.0  # 0: as often as the kind of file system allows
    hooks: list[list[str]] = []  # see pool.hooks.table.HookTable.packed
    hook_keyword: str = ""
    default_hook_keyword: str = ""
    ssh_to_job: str = "true"  # as peek_job, an expression over the slot's ad (MY) and the job's (TARGET)
    peek_job: str = "true"
    chirp: list[bool] = [True, True, True, True]  # ENABLE_CHIRP, _IO, _UPDATES, _DELAYED
    chirp_names: list[str] = ["Chirp*"]
    chirp_names_max: int = 100
    remote_io_cache_mb: int = 32
    criu: str = ""
    vm: dict[str, str] = {}  # see pool.execute.hypervisor
    java: dict[str, str] = {}
    docker: dict[str, str] = {}  # the container engine's knobs; see pool.containers.engine
    url_plugins: list[str] = []
    plugin_query_s: float = 20.0
    plugin_lifetime_s: float = 72000.0
    signs_urls: bool = True
    refuses_jobs_plugins: str = ""  # an expression over the slot's ad (MY) and the job's (TARGET): true, false or 2

    @property
    def number(self) -> int:
        """The starter's, to all others: its process id, or that of its keeper."""
        return self.keeper or os.getpid()

    @property
    def trees(self) -> Trees:
        """Where the claim's control group is made."""
        mounts = tuple((name, path) for name, _, path in (entry.partition("=") for entry in self.tree_mounts))
        return Trees(self.tree_version, mounts)

    def for_slot(self, slot: StarterSlot) -> StarterSettings:
        """The settings of a starter that works for this slot."""
        return replace(
            self,
            slot=slot.name,
            group=slot.group,
            log_path=slot.log_path,
            fallback_account=slot.fallback_account,
            cpu_affinity=slot.cpu_affinity,
        )

    def given_environment(self) -> dict[str, str]:
        """The variables that every job gets from this machine."""
        given = dict(os.environ) if self.inherit_environment else {}
        words = split_new(self.job_environment.strip().strip('"'))
        given.update((name, value) for name, _, value in (word.partition("=") for word in words) if name)
        return given


class AgentSettings(Birthright):
    """A file agent's: the account whose files it opens, and where starters reach it."""

    account: str  # empty: this process's own
    uid: int
    gid: int
    groups: list[int] = []
    socket: str
    fsync: bool = True
    lock: bool = True
    lock_wait_s: float = 20.0
    queued_bytes_min: int = 100_000_000
    transfer_report_s: float = 10.0
    read_methods: list[str] = []
    remaps_make_directories: bool = True


_PLAIN: Final[Mapping[str, Mapping[str, str]]] = {
    "str": {
        "memory_policy": "CGROUP_MEMORY_LIMIT_POLICY",
        "hard_memory_expr": "CGROUP_HARD_MEMORY_LIMIT_EXPR",
        "job_environment": "STARTER_JOB_ENVIRONMENT",
        "nice": "JOB_RENICE_INCREMENT",
        "run_as_owner": "STARTER_ALLOW_RUNAS_OWNER",
        "dedicated_accounts": "DEDICATED_EXECUTE_ACCOUNT_REGEXP",
        "mount_under_scratch": "MOUNT_UNDER_SCRATCH",
        "hook_keyword": "STARTER_JOB_HOOK_KEYWORD",
        "ssh_to_job": "ENABLE_SSH_TO_JOB",
        "peek_job": "ENABLE_PEEK_JOB",
        "default_hook_keyword": "STARTER_DEFAULT_JOB_HOOK_KEYWORD",
        "refuses_jobs_plugins": "STARTER_DISABLE_USER_SUPPLIED_TRANSFER_PLUGINS",
    },
    "bool": {
        "disable_swap": "DISABLE_SWAP_FOR_JOB",
        "always_hold_on_oom": "STARTER_ALWAYS_HOLD_ON_OOM",
        "sets_home": "STARTER_SETS_HOME_ENV",
        "private_shared_memory": "MOUNT_PRIVATE_DEV_SHM",
        "hides_gpus": "STARTER_HIDE_GPU_DEVICES",
        "offline": "NO_JOB_NETWORKING",
        "soft_uid_domain": "SOFT_UID_DOMAIN",
        "no_set_user_id": "DISABLE_SETUID",
        "encrypt_all": "ENCRYPT_EXECUTE_DIRECTORY",
        "encrypt_never": "DISABLE_EXECUTE_DIRECTORY_ENCRYPTION",
        "signs_urls": "SIGN_S3_URLS",
    },
    "int": {
        "reserved_disk_mb": "RESERVED_DISK",
        "address_space_mb": "STARTER_RLIMIT_AS",
        "chirp_names_max": "CHIRP_DELAYED_UPDATE_MAX_ATTRS",
        "remote_io_cache_mb": "REMOTE_IO_CACHE_MB",
    },
    "seconds": {
        "group_look_s": "CGROUP_POLLING_INTERVAL",
        "processes_look_s": "PID_SNAPSHOT_INTERVAL",
        "memory_poll_s": "JOB_MEMORY_POLLING_INTERVAL",
        "update_first_s": "STARTER_INITIAL_UPDATE_INTERVAL",
        "update_s": "STARTER_UPDATE_INTERVAL",
        "rest_after_s": "STARTER_REST_AFTER",
        "killing_timeout_s": "KILLING_TIMEOUT",
        "plugin_query_s": "FILETRANSFER_PLUGIN_CLASSAD_TIMEOUT",
        "plugin_lifetime_s": "MAX_FILE_TRANSFER_PLUGIN_LIFETIME",
    },
    "path": {
        "wrapper": "USER_JOB_WRAPPER",
    },
    "list": {
        "chirp_names": "CHIRP_DELAYED_UPDATE_PREFIX",
    },
}
"""What a starter is given of the configuration as it is: by the knob's type, the setting and its knob."""


def starter_payload(
    config: Config,
    *,
    trees: Trees,
    machine_memory_mb: int = 0,
    store: Store | None = None,
    refused: Collection[str] = (),
    criu: str = "",
    vm: Mapping[str, str] = {},
    rehearses: bool = False,
) -> bytes:
    """What the startd gives to each starter of its slots with this EXECUTE, whichever of them it will work for.

    `refused`: which of MOUNTS and PIDS this machine does not let even root have. `criu`: the program that makes
    checkpoints here, where one can. `vm`: what runs virtual machines here, packed. `rehearses`: it has time before it
    is needed.
    """
    return StarterSettings(
        **_common(config, "STARTER", config.path("STARTER_LOG")),
        **_plain(config),
        execute=config.path("EXECUTE"),
        bin=_tools_directory(config),
        tree_version=trees.version,
        tree_mounts=[f"{controller}={mount}" for controller, mount in trees.mounts],
        low_memory_expr=config.str("CGROUP_LOW_MEMORY_LIMIT") or config.str("CGROUP_LOW_MEMORY_LIMIT_EXPR"),
        counts_cache=not config.bool("CGROUP_IGNORE_CACHE_MEMORY"),
        memory_metric=config.str("MEMORY_USAGE_METRIC") if config.is_set("MEMORY_USAGE_METRIC") else "",
        log_name=_log_name(config),
        machine_memory_mb=machine_memory_mb,
        thread_variables=config.list("STARTER_NUM_THREADS_ENV_VARS") or list(THREAD_VARIABLES),
        assigned_knobs=_assigned_knobs(config),
        criu=criu,
        vm=dict(vm),
        java={name: config.str(name, default="") for name in JAVA_KNOBS if config.is_set(name)},
        docker=engine_knobs(config),
        inherit_environment=config.bool("JOB_INHERITS_STARTER_ENVIRONMENT", default=False),
        processes_max=config.str("JOB_PROCESSES_MAX") or "0",
        assign_cpus=_unless_false(config.str("ASSIGN_CPU_AFFINITY")),
        tracking_gids=_tracking_gids(config),
        job_namespaces=config.bool("PER_JOB_NAMESPACES") and MOUNTS not in refused,
        pid_namespaces=config.bool("USE_PID_NAMESPACES") and PIDS not in refused,
        sandbox_mode=_SANDBOX_MODES.get(config.str("JOB_EXECDIR_PERMISSIONS").strip().lower(), 0o700),
        scratch=(store or Store()).packed(),
        hooks=read_hooks(config, STARTER_HOOKS).packed(),
        chirp=[config.bool(f"ENABLE_CHIRP{part}") for part in ("", "_IO", "_UPDATES", "_DELAYED")],
        url_plugins=url_plugins(config),
        rehearses=rehearses,
    ).pack()


def _plain(config: Config) -> dict[str, Any]:
    readers: Mapping[str, Callable[[str], Any]] = {
        "str": lambda knob: config.str(knob, default=""),
        "bool": config.bool,
        "int": config.int,
        "seconds": config.seconds,
        "path": config.path,
        "list": config.list,
    }
    return {name: readers[kind](knob) for kind, knobs in _PLAIN.items() for name, knob in knobs.items()}


def url_plugins(config: Config) -> list[str]:
    """The programs that move files from and to URLs."""
    return config.list("FILETRANSFER_PLUGINS") if config.bool("ENABLE_URL_TRANSFERS") else []


def singularity_program(config: Config) -> str:
    """The program for images of Apptainer or Singularity: SINGULARITY, else either under its own name; empty: none."""
    said = config.path("SINGULARITY")
    if config.is_set("SINGULARITY"):
        return said if said and os.access(said, os.X_OK) else ""
    return next((found for name in (said, "apptainer", "singularity") if (found := shutil.which(name))), "")


def engine_knobs(config: Config) -> dict[str, str]:
    """What the owner says about containers."""
    knobs = {name: said for name in (*ENGINE_KNOBS, *SINGULARITY_KNOBS) if (said := config.str(name, default=""))}
    knobs["SINGULARITY"] = singularity_program(config)
    for volume in config.list("DOCKER_MOUNT_VOLUMES"):
        name = f"{VOLUME}{volume.upper()}"
        for knob in (name, f"{name}_MOUNT_IF"):
            if said := config.str(knob, default=""):
                knobs[knob] = said
    return knobs


def starter_slot(config: Config, slot_name: str, trees: Trees) -> StarterSlot:
    """What is this slot's own, for the starter that works for it; `config` has its EXECUTE."""
    return StarterSlot(
        name=slot_name,
        group=group_name(config, slot_name) if trees.version else "",
        log_path=_starter_log(config, slot_name),
        fallback_account=_slot_user(config, slot_name),
        cpu_affinity=_cpu_affinity(config, slot_name),
    )


def _starter_log(config: Config, slot_name: str) -> str:
    path = config.path("STARTER_LOG")
    return path if _log_name(config) else f"{path}.{_short(slot_name)}"


def _log_name(config: Config) -> str:
    """What is put behind a starter's log instead of its slot: a job's `cluster` or `jobid`, or nothing (`-`)."""
    said = config.str("STARTER_LOG_NAME_APPEND").strip().lower()
    if said in ("cluster", "clusterid"):
        return "cluster"
    return {"jobid": "jobid", "false": "-"}.get(said, "")


def _assigned_knobs(config: Config) -> dict[str, str]:
    """ENVIRONMENT_FOR_Assigned<name> and its kin, as far as somebody has set them or they have defaults."""
    names = [*ASSIGNED_KNOBS, *(name for name in config.names(with_defaults=False) if is_assigned_knob(name))]
    return {name: config.str(name, default="") for name in names}


def group_name(config: Config, slot_name: str) -> str:
    """The control group of a slot's claims, below the trees' roots."""
    return claim_group(config.str("BASE_CGROUP") or "htcondor", config.path("EXECUTE"), slot_name)


def agent_payload(config: Config, *, account: str, uid: int, gid: int, groups: list[int], path: str) -> bytes:
    """What the schedd gives to the file agent of one account."""
    return AgentSettings(
        **_common(config, "SCHEDD", os.path.join(config.path("LOG"), f"FileAgentLog.{account or uid}")),
        account=account,
        uid=uid,
        gid=gid,
        groups=groups,
        socket=path,
        fsync=config.bool("ENABLE_USERLOG_FSYNC", default=True),
        lock=config.bool("ENABLE_USERLOG_LOCKING", default=True),
        # Less than the schedd waits, or an agent that waits for a lock would be taken for one that hangs.
        lock_wait_s=LOCK_WAIT_SHARE * config.seconds("FILE_AGENT_TIMEOUT"),
        remaps_make_directories=config.bool("ALLOW_TRANSFER_REMAP_TO_MKDIR"),
        queued_bytes_min=config.int("BYTES_REQUIRED_TO_QUEUE_FOR_TRANSFER"),
        transfer_report_s=config.seconds("TRANSFER_IO_REPORT_INTERVAL"),
    ).pack()


def _tools_directory(config: Config) -> str:
    """BIN, or where this Python's programs are: a pool that was installed by pip needs no BIN."""
    ours = os.path.dirname(sys.executable)
    configured = config.path("BIN")
    is_ours = os.path.exists(os.path.join(ours, A_TOOL)) and not os.path.exists(os.path.join(configured, A_TOOL))
    return ours if is_ours else configured


def _common(config: Config, subsystem: str, log_path: str) -> dict[str, Any]:
    security = Security.from_config(config, subsystem)
    return {
        "log_path": log_path,
        "log_level": " ".join(config.list(f"{subsystem}_DEBUG")),
        "log_bytes_max": config.bytes(f"MAX_{subsystem}_LOG", default=10 * 1024 * 1024),
        "log_old_max": config.int(f"MAX_NUM_{subsystem}_LOG", default=1),
        "log_times": log_times(config),
        "run_dir": config.path("RUN"),
        "fault_points": config.str("FAULT_POINTS", default=""),
        "host": config.str("NETWORK_HOSTNAME") or socket.gethostname(),
        "uid_domain": security.uid_domain,
        "trust_domain": security.trust_domain,
        "owner_uid": security.owner_uid,
        "keys": security.settings.keys,
        "ca_files": list(security.settings.ca_files),
    }


def _slot_user(config: Config, slot_name: str) -> str:
    """The account of jobs whose owner has none here: `SLOT1_USER` or `SLOT1_3_USER` where they are set."""
    own = _short(slot_name).upper()
    for name in (own, own.partition("_")[0]):
        if user := config.str(f"{name}_USER", default=""):
            return user
    if pattern := config.raw("NOBODY_SLOT_USER"):
        named = re.sub(r"(?i)\$\(STARTER_SLOT_NAME\)", _short(slot_name), pattern)
        return config.expand(named).strip()
    return config.str("NOBODY_USER")


def _unless_false(expression: str) -> str:
    return "" if expression.strip().lower() in ("", "false", "0", "no", "f", "n") else expression


def _cpu_affinity(config: Config, slot_name: str) -> list[int]:
    """The cpus of a slot under ENFORCE_CPU_AFFINITY: `SLOT<N>_CPU_AFFINITY`, else the slot's own number less one."""
    if not config.bool("ENFORCE_CPU_AFFINITY"):
        return []
    found = re.match(r"slot(\d+)", slot_name)
    if found is None:
        return []
    listed = config.list(f"SLOT{found[1]}_CPU_AFFINITY", default=[])
    return [int(word) for word in listed if is_number(word)] or [int(found[1]) - 1]


def _tracking_gids(config: Config) -> list[int]:
    """The range of group ids that mark jobs, where USE_GID_PROCESS_TRACKING wants it; a job finds out if it is none."""
    if not config.bool("USE_GID_PROCESS_TRACKING"):
        return []
    return [config.int("MIN_TRACKING_GID"), config.int("MAX_TRACKING_GID")]


def _short(slot_name: str) -> str:
    return slot_name.partition("@")[0]
