"""What the startd reads from the configuration: timers, policies, and the part of the ads that all slots share.

* SLOT<N>_<KNOB> counts for its slot before SLOT_TYPE_<N>_<KNOB>, and that before <KNOB>.
* What is wrong raises ConfigError before anything of the running startd has changed.

Source: HTCondor's manual, "Configuration for Execution Points": "Dividing System Resources in Multi-core Machines",
"Custom and system slot attributes"; "Startd Daemon Configuration Options".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from daemons.daemon_core.run import DaemonStart
from daemons.host.namespaces import can_isolate
from daemons.startd.machine.plugins import known_at_once
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.classad import ClassAd, Expr, Member, expr
from pool.config import Config
from pool.containers.engine import slot_facts
from pool.execute.scratch import reserve_bytes
from pool.slots.ad import ABILITIES, CHILD_ATTRS, for_offline, limits_expr, number
from pool.slots.policy import Policy, read_policy
from pool.slots.provision import detect
from pool.slots.provision.carve import Rounding, resource_names
from pool.slots.provision.consumption import consumption_attributes
from pool.slots.provision.custom import Custom, custom_resources, offline_ids
from pool.slots.provision.inventory import Inventory
from pool.slots.provision.resources import exact
from pool.slots.provision.slot_types import Hardware, Layout, SlotKind, SlotSpec, layout

CPU_BUSY: Final = "CpuBusy"
"""Whether the owner has work for the machine: every slot shows since when, latched or not."""

_SLOT_ATTRS: Final = ("SYSTEM_STARTD_ATTRS", "STARTD_ATTRS", "STARTD_EXPRS")
"""Knobs that list knobs which become attributes of every slot."""
_JOB_ATTRS: Final = ("SYSTEM_STARTD_JOB_ATTRS", "STARTD_JOB_ATTRS", "STARTD_JOB_EXPRS")
"""Knobs that list attributes of the running job which its slot shows."""


@dataclass(frozen=True)
class StartdSettings:
    """The knobs that may change while the startd runs."""

    polling_s: float
    update_s: float
    match_timeout_s: float
    killing_timeout_s: float
    alives_missed_max: int
    rounding: Rounding
    job_attrs: tuple[str, ...]
    child_attrs: tuple[str, ...]
    slot_attrs: tuple[str, ...]
    latches: tuple[str, ...]
    consoles: tuple[str, ...]
    every_terminal: bool
    keyboard_slots: int
    console_slots: int
    idle_boost_s: float
    raw_metrics: bool
    draining_start: Expr | None
    attached_to: str
    gives_leftovers: bool
    config: Config = field(repr=False)

    def policy_of(self, spec: SlotSpec) -> Policy:
        """The owner's policy for one slot: its own knobs win over those of its type, and those over the plain ones."""
        return read_policy(self._reader(spec), backfill=self.config.bool("ENABLE_BACKFILL", default=False))

    def attributes_of(self, spec: SlotSpec) -> dict[str, Member]:
        """STARTD_ATTRS and SLOT<N>_STARTD_ATTRS with the values that hold for this slot."""
        config = self.config
        names = [name for knob in _SLOT_ATTRS for name in config.list(knob, default=())]
        names += config.list(f"SLOT{spec.slot_id}_STARTD_ATTRS", default=())
        names += [*self.latches, CPU_BUSY]
        read = self._reader(spec)
        found: dict[str, Member] = {}
        for name in names:
            value = read(name)
            if value is not None:
                found[name] = value
        if spec.kind is SlotKind.PARTITIONABLE and self._has_consumption_policy(spec):
            consumption = consumption_attributes(spec.amounts, read)
            limits = _limits(config, consumption["WithinResourceLimits"])
            found.update({**consumption, "WithinResourceLimits": limits})
        return found

    def _has_consumption_policy(self, spec: SlotSpec) -> bool:
        own = f"SLOT_TYPE_{spec.type_id}_CONSUMPTION_POLICY"
        return self.config.bool(own if self.config.is_set(own) else "CONSUMPTION_POLICY", default=False)

    def _reader(self, spec: SlotSpec) -> Callable[[str], Expr | None]:
        prefixes = (f"SLOT{spec.slot_id}_", f"SLOT_TYPE_{spec.type_id}_", "")

        def read(name: str) -> Expr | None:
            for prefix in prefixes:
                if self.config.raw(prefix + name):
                    return self.config.expr(prefix + name)
            return None

        return read


def read_settings(config: Config, resources: Iterable[str]) -> StartdSettings:
    """The settings of a configuration; `resources` are the machine's, by name."""
    rules = {name: config.expr(f"MODIFY_REQUEST_EXPR_REQUEST{name.upper()}") for name in resources}
    extra_children = config.list("STARTD_PARTITIONABLE_SLOT_ATTRS", default=())
    return StartdSettings(
        polling_s=config.seconds("POLLING_INTERVAL", default=5),
        update_s=config.seconds("UPDATE_INTERVAL", default=300),
        match_timeout_s=config.seconds("MATCH_TIMEOUT", default=120),
        killing_timeout_s=config.seconds("KILLING_TIMEOUT", default=30),
        alives_missed_max=config.int("MAX_CLAIM_ALIVES_MISSED", default=6),
        rounding=Rounding(
            {name: rule for name, rule in rules.items() if rule is not None},
            must=config.bool("MUST_MODIFY_REQUEST_EXPRS", default=False),
        ),
        job_attrs=tuple(dict.fromkeys(name for knob in _JOB_ATTRS for name in config.list(knob, default=()))),
        child_attrs=tuple(dict.fromkeys((*CHILD_ATTRS, *extra_children))),
        slot_attrs=tuple(config.list("STARTD_SLOT_ATTRS", default=())),
        latches=tuple(dict.fromkeys(config.list("STARTD_LATCH_EXPRS", default=()))),
        consoles=tuple(config.list("CONSOLE_DEVICES", default=("mouse", "console"))),
        every_terminal=config.bool("STARTD_HAS_BAD_UTMP"),
        keyboard_slots=config.int("SLOTS_CONNECTED_TO_KEYBOARD", default=0),
        console_slots=config.int("SLOTS_CONNECTED_TO_CONSOLE", default=0),
        idle_boost_s=config.seconds("DISCONNECTED_KEYBOARD_IDLE_BOOST", default=1200),
        raw_metrics=config.bool("ADVERTISE_CMR_UPTIME_SECONDS", default=False),
        draining_start=config.expr("DEFAULT_DRAINING_START_EXPR"),
        attached_to=config.str("STARTD_DIRECT_ATTACH_SCHEDD_NAME"),
        gives_leftovers=config.bool("CLAIM_PARTITIONABLE_LEFTOVERS"),
        config=config,
    )


def machine_hardware(
    config: Config,
    execute: str,
    inventories: Mapping[str, Inventory] | None = None,
    promised: Callable[[int, int], int] = lambda free_kib, _cpus: free_kib,
) -> tuple[Hardware, detect.HardwareFacts]:
    """What there is to divide: what was detected, unless knobs say otherwise, less what is reserved.

    `inventories` is what programs have said about custom resources; `promised`, how much disk there is for jobs, given
    what is free (KiB) and how many cpus there are.
    """
    facts = detect.hardware_facts(hyperthreads=config.bool("COUNT_HYPERTHREAD_CPUS", default=True))
    cpus = facts.cpus
    if config.is_set("NUM_CPUS"):
        cpus = config.int("NUM_CPUS")
    if most := config.int("MAX_NUM_CPUS", default=0):
        cpus = min(cpus, most)
    memory = config.int("MEMORY", default=0) if config["MEMORY"] else facts.memory
    memory -= config.int("RESERVED_MEMORY", default=0)
    disks, volumes = _disks(config, execute, lambda free_kib: promised(free_kib, cpus), {})
    hardware = Hardware(
        cpus=cpus,
        memory=max(0, memory),
        swap=facts.swap,
        disks=disks,
        customs=custom_resources(config.names(with_defaults=False), _only_set(config), inventories),
        volumes=volumes,
    )
    return hardware, facts


def measured_again(
    config: Config, execute: str, hardware: Hardware, promised: Callable[[int, int], int], taken: Mapping[str, int]
) -> Hardware:
    """The same hardware with the disk and the swap that there are now. Blocks.

    `taken` is how much the sandboxes of jobs take now, in KiB by file system: that is free again when they are gone.
    """
    disks, volumes = _disks(config, execute, lambda free_kib: promised(free_kib, hardware.cpus), taken)
    return replace(hardware, disks=disks, volumes=volumes, swap=detect.hardware_facts().swap)


def _disks(
    config: Config, execute: str, promised: Callable[[int], int], taken: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """How much disk there is for jobs, and how large it is, in KiB by file system."""
    fixed = config.int("DISK", default=0) if config["DISK"] else None
    disks, volumes = dict[str, int](), dict[str, int]()
    for directory in {execute, *execute_directories(config)}:
        system = detect.file_system(directory)
        free = promised(detect.free_disk_kib(directory) + taken.get(system, 0)) if fixed is None else fixed
        disks[system] = max(0, free - _reserved_kib(config, directory))
        volumes[system] = detect.disk_size_kib(directory) if fixed is None else fixed
    return disks, volumes


def _reserved_kib(config: Config, directory: str) -> int:
    """How much of the disk below a directory is not offered. What nobody set takes little of a small one.

    It takes nothing of DISK, which says what is offered.
    """
    reserved_mb = config.int("RESERVED_DISK")
    if config.is_set("RESERVED_DISK"):
        return reserved_mb * 1024
    if config["DISK"]:
        return 0
    return reserve_bytes(reserved_mb, detect.disk_size_kib(directory) * 1024) // 1024


def with_offline(hardware: Hardware, inventories: Mapping[str, Inventory], config: Config) -> Hardware:
    """The same hardware with the pieces out of use that the configuration names now, or an inventory did."""
    said = {name.lower(): inventory.offline for name, inventory in inventories.items()}
    customs = [
        custom.with_offline(
            dict.fromkeys((*said.get(custom.name.lower(), ()), *offline_ids(custom, _only_set(config))))
        )
        for custom in hardware.customs
    ]
    return replace(hardware, customs=customs)


def execute_directory(config: Config, slot_id: int) -> str:
    """Where a slot's sandboxes are: SLOT<N>_EXECUTE, else EXECUTE."""
    name = f"SLOT{slot_id}_EXECUTE"
    return config.path(name, default="") or config.path("EXECUTE")


def machine_layout(config: Config, hardware: Hardware) -> Layout:
    """The slots of this machine."""
    return layout(
        config.names(with_defaults=False),
        _only_set(config),
        hardware,
        lambda slot_id: detect.file_system(execute_directory(config, slot_id)),
        lambda knob: str(config.where(knob)) if config.is_set(knob) else "",
    )


def _only_set(config: Config) -> Callable[[str], str | None]:
    """What somebody has set; defaults of slot types depend on more than the table of knobs can say."""
    return lambda name: config[name] if config.is_set(name) else None


@lru_cache(maxsize=1)
def _system_facts() -> Mapping[str, str | int | bool]:
    return detect.system_facts()


def machine_part(start: DaemonStart, hardware: Hardware, facts: detect.HardwareFacts, slots: int) -> ClassAd:
    """The attributes that every slot of this machine has."""
    ad = ClassAd({"MyType": "Machine", "TargetType": "Job", "Machine": start.host})
    parts: tuple[Mapping[str, Any], ...] = (
        _system_facts(),
        ABILITIES,
        known_at_once(start.config),
        _of_the_daemon(start),
        _of_the_hardware(start.config, hardware, facts, slots),
        _of_its_software(start),
    )
    for part in parts:
        ad.update(part)
    for custom in hardware.customs:
        ad.update(_of_custom(custom))
    return ad


def _of_the_daemon(start: DaemonStart) -> dict[str, Any]:
    config = start.config
    return {
        "MyAddress": start.address,
        "StartdIpAddr": start.address,
        "AddressV1": start.address,
        "CondorVersion": CONDOR_VERSION,
        "CondorPlatform": CONDOR_PLATFORM,
        "FileSystemDomain": config.str("FILESYSTEM_DOMAIN", default=start.host),
        "UidDomain": config.str("UID_DOMAIN", default=start.host),
        "COLLECTOR_HOST_STRING": config.str("COLLECTOR_HOST", default=""),
        "DaemonStartTime": int(start.started_at),
        "DaemonLastReconfigTime": int(start.reconfigured_at),
        "IsLocalStartd": False,
        "TimeToLive": 2147483647,  # HTCondor's "for ever": a startd that is not a glide-in has no end of its own
    }


def _of_the_hardware(config: Config, hardware: Hardware, facts: detect.HardwareFacts, slots: int) -> dict[str, Any]:
    customs = [custom.name for custom in hardware.customs]
    limits = config.expr("WITHIN_RESOURCE_LIMITS")
    return {
        "DetectedCpus": facts.cpus_total,
        "DetectedMemory": facts.memory_total,
        "TotalCpus": float(hardware.cpus),
        "TotalMemory": hardware.memory,
        **totals(hardware),
        "TotalSlots": slots,
        "MachineResources": " ".join(["Cpus", "Memory", "Disk", "Swap", *customs]),
        "WithinResourceLimits": _limits(config, limits_expr(resource_names(customs)) if limits is None else limits),
        "LastBenchmark": 0,
        CPU_BUSY: False,
    }


def _limits(config: Config, limits: Expr) -> Expr:
    """WithinResourceLimits, where jobs have a network and where they have none."""
    return for_offline(limits, possible=can_isolate()) if config.bool("NO_JOB_NETWORKING") else limits


def _of_its_software(start: DaemonStart) -> dict[str, Any]:
    config = start.config
    return {
        "HasJobNetworking": not config.bool("NO_JOB_NETWORKING"),
        "HasUserNamespaces": detect.has_user_namespaces(),
        "Unhibernate": expr(config.str("UNHIBERNATE", default="") or "MY.MachineLastMatchTime =!= undefined"),
        "HasSshd": detect.has_sshd(),
        "HasRotationalScratch": detect.is_rotational(config.path("EXECUTE")),
        "StarterAbilityList": ",".join(name for name, has in ABILITIES.items() if has),
        **detect.interface_facts(ip_of(start.address)),
        **slot_facts(config.list("DOCKER_VOLUMES", default=()), config.str("DOCKER_NETWORKS", default="")),
    }


def _of_custom(custom: Custom) -> dict[str, Any]:
    usable = number(exact(custom.usable))
    found: dict[str, Any] = {
        f"Total{custom.name}": usable,
        f"Detected{custom.name}": custom.said if custom.said is not None else usable,
        **custom.facts,
    }
    if custom.offline:
        found[f"Offline{custom.name}"] = ",".join(custom.offline)
    return found


def totals(hardware: Hardware) -> dict[str, Any]:
    """What the machine's ads say of the disk and the swap that there are."""
    return {
        "DetectedDisk": sum(hardware.volumes.values()),
        "TotalDisk": sum(hardware.disks.values()),
        "TotalVirtualMemory": hardware.swap,
    }


def ip_of(address: str) -> str:
    """The IP address in `<10.0.0.1:9618?...>`."""
    return address.strip("<>").partition("?")[0].rpartition(":")[0].strip("[]")


def policy_attributes(policy: Policy) -> dict[str, Expr]:
    """The owner's expressions that a slot's ad shows."""
    return {
        "Rank": policy.expr("RANK"),
        "SlotWeight": policy.expr("SLOT_WEIGHT"),
        "MaxJobRetirementTime": policy.expr("MAXJOBRETIREMENTTIME"),
        "MachineMaxVacateTime": policy.expr("MACHINEMAXVACATETIME"),
        "IsOwner": policy.expr("IS_OWNER"),
    }


def execute_directories(config: Config) -> set[str]:
    """Where there are sandboxes: EXECUTE, and SLOT<N>_EXECUTE of slots that have their own."""
    own = (
        config.path(name)
        for name in config.names(with_defaults=False)
        if name.upper().startswith("SLOT") and name.upper().endswith("_EXECUTE")
    )
    return {config.path("EXECUTE"), *filter(None, own)}
