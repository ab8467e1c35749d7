"""Every knob of the table is read by code that runs, or is marked as without effect and read by nothing."""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import daemons
import minipool
import pool
import protocol
from pool.config import knobs, load_config, templates
from pool.config.htcondors_own import HTCONDORS_OWN
from pool.config.places import HostFacts
from pool.hooks.table import Hook
from pool.macros.expand import references

KNOBS = {knob.name: knob for _, section in knobs.sections() for knob in section}
WITHOUT_EFFECT = frozenset(name for name, knob in KNOBS.items() if not knob.has_effect)
TABLES = ("htcondors_own.py", "refused.py")
READERS = frozenset(("str", "path", "list", "bool", "int", "float", "seconds", "bytes", "expr", "evaluate"))


class Built(NamedTuple):
    """Knobs whose names the code puts together, so that no constant says them."""

    file: str
    code: str
    """What must stand there."""
    names: str
    """The knobs, as patterns."""
    reason: str


LEVELS = "ALLOW_<* DENY_<* ALLOW_ADMINISTRATOR ALLOW_ADVERTISE_* ALLOW_CONFIG ALLOW_DAEMON ALLOW_NEGOTIATOR ALLOW_READ ALLOW_WRITE"
DAEMON = "each daemon reads its own"
AUTHOR = "the configuration's author chooses the names"
KINDS = "one for each of a table's kinds"
SLOT = "slots and their types are numbered"
RESOURCE = "one for each resource of a machine"
CRON = "of each manager and job"

BUILT = (
    Built("daemons/daemon_core/remote_config.py", 'f"SETTABLE_ATTRS_{level.value}"', "SETTABLE_ATTRS_<LEVEL>", KINDS),
    Built(
        "daemons/daemon_core/log_file.py",
        'f"{subsystem}_LOG"',
        "<SUBSYS>_LOG COLLECTOR_LOG NEGOTIATOR_LOG DEFRAG_LOG ROOSTER_LOG",
        DAEMON,
    ),
    Built(
        "daemons/daemon_core/log_file.py",
        'f"{subsystem}_DEBUG"',
        "<SUBSYS>_DEBUG NEGOTIATOR_DEBUG SCHEDD_DEBUG STARTER_DEBUG",
        DAEMON,
    ),
    Built("daemons/daemon_core/log_file.py", 'f"TRUNC_{subsystem}_LOG_ON_OPEN"', "TRUNC_<SUBSYS>_LOG_ON_OPEN", DAEMON),
    Built("daemons/daemon_core/log_file.py", 'f"MAX_{subsystem}_LOG"', "MAX_<SUBSYS>_LOG", DAEMON),
    Built("daemons/daemon_core/log_file.py", 'f"MAX_NUM_{subsystem}_LOG"', "MAX_NUM_<SUBSYS>_LOG", DAEMON),
    Built("daemons/daemon_core/own_history.py", 'f"{start.subsystem}_DAEMON_HISTORY"', "*_DAEMON_HISTORY", DAEMON),
    Built("daemons/base/open_files.py", 'f"{subsystem}_MAX_FILE_DESCRIPTORS"', "<SUBSYS>_MAX_FILE_DESCRIPTORS", DAEMON),
    Built("pool/config/attributes.py", 'f"{subsystem}_ATTRS"', "<SUBSYS>_ATTRS", DAEMON),
    Built("pool/config/attributes.py", 'f"{subsystem}_EXPRS"', "<SUBSYS>_EXPRS", DAEMON),
    Built(
        "pool/config/user_maps.py", 'f"{subsystem}_CLASSAD_USER_MAP_NAMES"', "<SUBSYS>_CLASSAD_USER_MAP_NAMES", DAEMON
    ),
    Built("daemons/schedd/core/settings.py", '"SCHEDD_NAME"', "<SUBSYS>_NAME", "each daemon says its own in full"),
    Built(
        "daemons/master/supervise.py", 'f"MASTER_{name}"', "MASTER_BACKOFF_* MASTER_RECOVER_FACTOR", "of all daemons"
    ),
    Built("daemons/master/supervise.py", 'f"MASTER_{subsystem}_{name}"', "MASTER_<SUBSYS>_BACKOFF_*", DAEMON),
    Built("daemons/master/main.py", 'f"MASTER_SHUTDOWN_{request.name.upper()}"', "MASTER_SHUTDOWN_<NAME>", AUTHOR),
    Built("pool/config/user_maps.py", 'f"CLASSAD_USER_MAPFILE_{name}"', "CLASSAD_USER_MAPFILE_<NAME>", AUTHOR),
    Built("pool/config/user_maps.py", 'f"CLASSAD_USER_MAPDATA_{name}"', "CLASSAD_USER_MAPDATA_<NAME>", AUTHOR),
    Built("pool/config/user_maps.py", 'f"CLASSAD_USER_MAP_PREFIX_{name}"', "CLASSAD_USER_MAP_PREFIX_<NAME>", AUTHOR),
    Built("pool/accounting/configured.py", 'f"GROUP_QUOTA_{name}"', "GROUP_QUOTA_<GROUP>", AUTHOR),
    Built("pool/accounting/configured.py", 'f"GROUP_QUOTA_DYNAMIC_{name}"', "GROUP_QUOTA_DYNAMIC_<GROUP>", AUTHOR),
    Built("pool/accounting/configured.py", 'f"GROUP_PRIO_FACTOR_{name}"', "GROUP_PRIO_FACTOR_<GROUP>", AUTHOR),
    Built("pool/accounting/configured.py", 'f"GROUP_AUTOREGROUP_{name}"', "GROUP_AUTOREGROUP_<GROUP>", AUTHOR),
    Built("pool/accounting/configured.py", 'f"GROUP_ACCEPT_SURPLUS_{name}"', "GROUP_ACCEPT_SURPLUS_<GROUP>", AUTHOR),
    Built("pool/submit/plan.py", 'f"SUBMIT_TEMPLATE_{name}"', "SUBMIT_TEMPLATE_<NAME>", AUTHOR),
    Built("pool/jobs/admission.py", 'f"JOB_TRANSFORM_{name}"', "JOB_TRANSFORM_<NAME>", AUTHOR),
    Built("pool/jobs/admission.py", 'f"SUBMIT_REQUIREMENT_{name}"', "SUBMIT_REQUIREMENT_<NAME>", AUTHOR),
    Built("pool/jobs/admission.py", '_REASON"', "SUBMIT_REQUIREMENT_<NAME>_REASON", AUTHOR),
    Built("pool/jobs/admission.py", '_IS_WARNING"', "SUBMIT_REQUIREMENT_<NAME>_IS_WARNING", AUTHOR),
    Built("daemons/startd/machine/plugins.py", 'f"{method}_TEST_URL"', "<METHOD>_TEST_URL", AUTHOR),
    Built("daemons/host/child_settings.py", 'f"{name}_MOUNT_IF"', "DOCKER_VOLUME_DIR_<NAME>*", AUTHOR),
    Built("protocol/security/settings.py", 'f"{kind}_{level.value}"', LEVELS, "both lists of each level"),
    Built(
        "protocol/security/settings.py",
        'f"SEC_{level}_AUTHENTICATION_METHODS"',
        "SEC_*_AUTHENTICATION_METHODS",
        "of each level",
    ),
    Built(
        "pool/jobs/edits.py",
        'f"{kind}_JOB_ATTRS"',
        "*IMMUTABLE_JOB_ATTRS *PROTECTED_JOB_ATTRS *SECURE_JOB_ATTRS",
        KINDS,
    ),
    Built("pool/jobs/policy.py", 'f"SYSTEM_PERIODIC_{word}"', "SYSTEM_PERIODIC_*", KINDS),
    Built("daemons/schedd/execution/local_jobs.py", 'f"START_{word}_UNIVERSE"', "START_*_UNIVERSE", KINDS),
    Built(
        "daemons/schedd/files/transfer_turns.py", 'f"{name}_SHORT_HORIZON"', "FILE_TRANSFER_DISK_LOAD_THROTTLE_*", KINDS
    ),
    Built("daemons/host/child_settings.py", 'f"ENABLE_CHIRP{part}"', "ENABLE_CHIRP*", KINDS),
    Built("daemons/startd/machine/settings.py", 'f"SLOT{slot_id}_EXECUTE"', "SLOT<N>_EXECUTE", SLOT),
    Built("daemons/startd/machine/settings.py", 'f"SLOT{spec.slot_id}_STARTD_ATTRS"', "SLOT<N>_STARTD_ATTRS", SLOT),
    Built("daemons/startd/machine/settings.py", 'f"SLOT{spec.slot_id}_"', "SLOT<N>_<KNOB>", SLOT),
    Built(
        "daemons/startd/machine/settings.py",
        'f"SLOT_TYPE_{spec.type_id}_"',
        "SLOT_TYPE_<N>_<KNOB> SLOT_TYPE_<N>_START",
        SLOT,
    ),
    Built(
        "daemons/startd/machine/settings.py",
        'f"SLOT_TYPE_{spec.type_id}_CONSUMPTION_POLICY"',
        "SLOT_TYPE_<N>_CONSUMPTION_*",
        SLOT,
    ),
    Built("daemons/startd/main.py", 'f"SLOT_TYPE_{spec.type_id}_NAME_PREFIX"', "SLOT_TYPE_<N>_NAME_PREFIX", SLOT),
    Built("daemons/startd/owner/fetch_work.py", 'f"SLOT{number}_JOB_HOOK_KEYWORD"', "<SLOT>_JOB_HOOK_KEYWORD", SLOT),
    Built("daemons/host/child_settings.py", 'f"SLOT{found[1]}_CPU_AFFINITY"', "SLOT<N>_CPU_AFFINITY", SLOT),
    Built("daemons/host/child_settings.py", 'f"{name}_USER"', "SLOT<N>_USER", SLOT),
    Built("pool/slots/provision/slot_types.py", 'f"SLOT_TYPE_{number}"', "SLOT_TYPE_<N>", SLOT),
    Built(
        "pool/slots/provision/slot_types.py", 'f"SLOT_TYPE_{number}_PARTITIONABLE"', "SLOT_TYPE_<N>_PARTITIONABLE", SLOT
    ),
    Built("pool/slots/provision/slot_types.py", 'f"NUM_SLOTS_TYPE_{number}"', "NUM_SLOTS_TYPE_<N>", SLOT),
    Built("pool/slots/policy.py", 'f"{name}_{universe}"', "<EXPR>_VANILLA", "of each universe"),
    Built("pool/slots/provision/custom.py", 'f"MACHINE_RESOURCE_{name}"', "MACHINE_RESOURCE_<NAME>", RESOURCE),
    Built(
        "pool/slots/provision/custom.py",
        'f"OFFLINE_MACHINE_RESOURCE_{custom.name}"',
        "OFFLINE_MACHINE_RESOURCE_<NAME>",
        RESOURCE,
    ),
    Built("pool/slots/provision/custom.py", "MACHINE_RESOURCE_", "MACHINE_RESOURCE_INVENTORY_<NAME>", RESOURCE),
    Built(
        "daemons/startd/machine/settings.py",
        'f"MODIFY_REQUEST_EXPR_REQUEST{name.upper()}"',
        "MODIFY_REQUEST_EXPR_REQUEST*",
        RESOURCE,
    ),
    Built("pool/slots/provision/consumption.py", 'f"CONSUMPTION_{name}"', "CONSUMPTION_*", RESOURCE),
    Built("pool/execute/assigned.py", '"ENVIRONMENT_FOR_Assigned"', "ENVIRONMENT_FOR_Assigned*", RESOURCE),
    Built(
        "pool/execute/assigned.py", '"ENVIRONMENT_VALUE_FOR_UnAssigned"', "ENVIRONMENT_VALUE_FOR_UnAssigned*", RESOURCE
    ),
    Built("pool/slots/policy.py", '"RUNBENCHMARKS"', "RunBenchmarks", "HTCondor's spelling of a policy's name"),
    *(
        Built("pool/hooks/table.py", 'f"_HOOK_{hook.value}"', f"<KEYWORD>_HOOK_{hook}*", "of each keyword")
        for hook in Hook
    ),
    Built("pool/cron_jobs/jobs.py", 'f"{manager}_JOBLIST"', "*_JOBLIST", CRON),
    Built("pool/cron_jobs/jobs.py", 'f"{manager}_MAX_JOB_LOAD"', "*_MAX_JOB_LOAD", CRON),
    Built("pool/cron_jobs/jobs.py", 'f"{manager}_AUTOPUBLISH"', "STARTD_CRON_AUTOPUBLISH", CRON),
    Built("pool/cron_jobs/jobs.py", 'f"{manager}_CONFIG_VAL"', "*_CONFIG_VAL", CRON),
    Built("pool/cron_jobs/jobs.py", 'f"{manager}_LOG_NON_ZERO_EXIT"', "<DAEMON>_CRON_LOG_NON_ZERO_EXIT", CRON),
    *(
        Built("pool/cron_jobs/jobs.py", f'{{knob}}{word}"', f"<DAEMON>_CRON_<NAME>_{word}", CRON)
        for word in (
            *("EXECUTABLE", "MODE", "PREFIX", "PERIOD", "ARGS", "ENV", "CWD", "SLOTS", "JOB_LOAD", "KILL", "RECONFIG"),
            *("RECONFIG_RERUN", "CONDITION", "METRICS"),
        )
    ),
    *(
        Built("pool/cron_jobs/jobs.py", f'{{knob}}{word}"', f"BENCHMARKS_*_{word}", CRON)
        for word in ("EXECUTABLE", "MODE", "PREFIX", "PERIOD", "ARGS", "ENV", "CWD", "SLOTS", "JOB_LOAD", "KILL")
    ),
    Built(
        "pool/cron_jobs/jobs.py", 'f"{knob}EXECUTABLE"', "BENCHMARKS_MIPS_EXECUTABLE BENCHMARKS_KFLOPS_EXECUTABLE", CRON
    ),
)

FOR_REFERENCES = frozenset(("SBIN", "BenchmarkTimer", "OPENMPI_INSTALL_PATH", "OPENMPI_EXCLUDE_NETWORK_INTERFACES"))
"""Knobs that are there for configurations to refer to, as are the texts for policies, or for scripts to ask for."""


@cache
def sources() -> dict[str, str]:
    """The text of each file of the packages, but for the tables of knobs."""
    found = {}
    for package in (daemons, minipool, pool, protocol):
        top = Path(package.__path__[0])
        for path in top.rglob("*.py"):
            if path.name not in TABLES:
                found[str(path.relative_to(top.parent))] = path.read_text()
    return found


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources().items()}


@pytest.fixture(scope="module", autouse=True)
def _trees_are_forgotten() -> Iterator[None]:
    """They are a million objects, which every search for garbage would visit; they are none until they are forgotten."""
    gc.disable()
    yield
    trees.cache_clear()
    gc.enable()


@cache
def mentions() -> Counter[str]:
    """How often each word occurs: what nobody but its definition mentions does not run."""
    return Counter(word for text in sources().values() for word in re.findall(r"\w+", text))


def runs(node: ast.AST) -> bool:
    """Whether anybody can call this, as far as its name tells."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return True
    return node.name.startswith("__") or mentions()[node.name] > 1


def constants(tree: ast.AST) -> Iterator[str]:
    """The string constants of code that runs: no docstrings, no parts of longer texts."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.value
            continue
        if not runs(node) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node, ast.Attribute) and node.attr == "split" and isinstance(node.value, ast.Constant):
            yield from str(node.value.value).split()
        texts = isinstance(node, ast.JoinedStr)
        for name in node._fields:
            child = getattr(node, name)
            for one in child if isinstance(child, list) else (child,):
                if isinstance(one, ast.AST) and one._fields and not (texts and isinstance(one, ast.Constant)):
                    left.append(one)


@cache
def said() -> frozenset[str]:
    """Every constant of code that runs."""
    return frozenset(text for tree in trees().values() for text in constants(tree))


@cache
def built() -> dict[str, Built]:
    """The knobs whose names are put together, and where."""
    return {name: one for one in BUILT for name in KNOBS if any(fnmatchcase(name, glob) for glob in one.names.split())}


@cache
def read() -> frozenset[str]:
    """The rows of the table that are read: by the code, or as a part of what it reads."""
    found = {name for name in KNOBS if name in said()} | built().keys()
    waiting = list(found)
    referred = {one.name.lower() for one in references(Path(templates.FILE).read_text())}
    waiting += [name for name in KNOBS if name.lower() in referred]
    while waiting:
        name = waiting.pop()
        found.add(name)
        for one in references(KNOBS[name].default):
            knob = knobs.find(one.name)
            if knob is not None and knob.name not in found:
                waiting.append(knob.name)
    return frozenset(found)


def test_every_knob_is_read_or_marked() -> None:
    names = [knob.name for knob in KNOBS.values() if knob.section != "Texts for policies"]
    assert [name for name in names if name not in read() | WITHOUT_EFFECT | FOR_REFERENCES] == []


def test_nothing_that_is_marked_is_read() -> None:
    assert [name for name in sorted(WITHOUT_EFFECT) if name in (said() - {"<SUBSYS>"}) | built().keys()] == []


@pytest.mark.parametrize("one", BUILT, ids=lambda one: one.code)
def test_names_are_put_together_where_the_list_says(one: Built) -> None:
    assert one.code in sources()[one.file]
    for glob in one.names.split():
        assert any(fnmatchcase(name, glob) for name in KNOBS), glob


def test_what_the_code_asks_a_configuration_for_is_in_the_table() -> None:
    unknown, facts = set(), {*HostFacts({}, {}).names()}
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            first, of = node.args[0], node.func.value
            if node.func.attr in READERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
                of_config = (isinstance(of, ast.Name) and of.id == "config") or (
                    isinstance(of, ast.Attribute) and of.attr == "config"
                )
                if of_config and knobs.find(first.value) is None and first.value not in facts:
                    unknown.add((file, first.value))
    assert unknown == set()


def test_what_is_called_htcondors_own_is_not_read_here() -> None:
    assert sorted(name for name in HTCONDORS_OWN if name in said() or knobs.find(name) is not None) == []


def test_a_configuration_tells_which_of_them_are_set_and_where(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "NUM_CPUS = 2\nJOB_ROUTER_MAX_JOBS = 5\nSCHEDD.Trust_UID_Domain = true\nMY_LIMIT = 3\nCOMMENT = $(MY_LIMIT)\n"
    )
    config = load_config([str(file)], environ={})
    assert config.without_effect == [
        f'{file}:2: warning: "JOB_ROUTER_MAX_JOBS" has no effect here',
        f'{file}:3: warning: "SCHEDD.Trust_UID_Domain" has no effect here',
    ]


def test_the_warning_of_a_knob_without_effect_says_what_there_is_instead(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("STARTD.NAMED_CHROOT = /old\nCLAIM_PARTITIONABLE_LEFTOVERS = false\n")
    assert load_config([str(file)], environ={}).without_effect == [
        f'{file}:1: warning: "STARTD.NAMED_CHROOT" has no effect here: containers do that, as in HTCondor since 25.5'
    ]
