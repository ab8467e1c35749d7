"""Every knob of HTCondor's chapters on the execution point: what covers it here, or why it has no effect.

The table, tests/cases/config/execution_point.txt, has the names of the manual's chapters "Startd", "Starter" and
"condor_ssh_to_job" (HTCondor 25.14) and of what belongs to containers elsewhere.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from daemons.startd.machine.settings import machine_hardware, read_settings
from daemons.startd.machine.sleep_ability import find_ability
from daemons.startd.owner.backfill import read_plan
from daemons.startd.slots.direct_attach import Target
from pool.config import Config, knobs, load_config
from pool.hosts.daemon_names import daemon_name
from pool.slots.provision.slot_types import slot_types
from tests.daemons.starter.bench import settings_of

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "tests" / "cases" / "config" / "execution_point.txt"
WITHOUT = "without effect"


class Row(NamedTuple):
    """`covered`: a file or a test of one, or WITHOUT."""

    name: str
    member: str
    """The name, or that of one knob of a family."""
    covered: str


def rows() -> list[Row]:
    found = []
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, covered = (part.strip() for part in line.partition("|"))
            bare, _, member = name.partition(" as ")
            found.append(Row(bare, member or bare, covered))
    return found


@cache
def named_in(path: str) -> set[str]:
    """The tests of a file."""
    text = (ROOT / path).read_text()
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name for node in nodes if node.name.startswith("test_")}


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_knob_acts_or_its_warning_says_why_it_does_not(row: Row, tmp_path: Path) -> None:
    knob = knobs.find(row.member)
    assert knob is not None
    if row.covered == WITHOUT:
        file = tmp_path / "config"
        file.write_text(f"{row.member} = 1\n")
        (said,) = load_config([str(file)], environ={}).without_effect
        assert re.search(r'" has no effect here: \w.{8}', said), said
        return
    assert knob.has_effect
    path, _, function = row.covered.partition("::")
    text = (ROOT / path).read_text()
    assert not function or function in named_in(path), f"there is no {row.covered}"
    assert row.member.lower() in text.lower()


def test_none_of_these_is_listed_twice() -> None:
    names = [row.name.upper() for row in ROWS]
    assert len(names) == len(set(names)) > 230


def configured(**given: str) -> Config:
    return load_config([], environ={}, overrides=given)


@pytest.mark.parametrize(
    ("name", "value", "setting", "becomes"),
    [
        ("MOUNT_PRIVATE_DEV_SHM", "false", "private_shared_memory", False),
        ("STARTER_DISABLE_USER_SUPPLIED_TRANSFER_PLUGINS", "MY.Strict", "refuses_jobs_plugins", "MY.Strict"),
        ("STARTER_LOG_NAME_APPEND", "JobId", "log_name", "jobid"),
        ("CGROUP_HARD_MEMORY_LIMIT_EXPR", "Memory * 2", "hard_memory_expr", "Memory * 2"),
        ("CGROUP_LOW_MEMORY_LIMIT", "64", "low_memory_expr", "64"),
        ("CGROUP_IGNORE_CACHE_MEMORY", "false", "counts_cache", True),
        ("CGROUP_POLLING_INTERVAL", "7", "group_look_s", 7),
        ("DISABLE_SWAP_FOR_JOB", "false", "disable_swap", False),
        ("STARTER_HIDE_GPU_DEVICES", "false", "hides_gpus", False),
        ("JOB_INHERITS_STARTER_ENVIRONMENT", "true", "inherit_environment", True),
        ("ASSIGN_CPU_AFFINITY", "true", "assign_cpus", "true"),
        ("MAX_FILE_TRANSFER_PLUGIN_LIFETIME", "90", "plugin_lifetime_s", 90),
        ("ENABLE_CHIRP", "false", "chirp", [False, True, True, True]),
        ("ENABLE_CHIRP_IO", "false", "chirp", [True, False, True, True]),
        ("ENABLE_CHIRP_UPDATES", "false", "chirp", [True, True, False, True]),
        ("ENABLE_CHIRP_DELAYED", "false", "chirp", [True, True, True, False]),
        ("CHIRP_DELAYED_UPDATE_PREFIX", "Mine*", "chirp_names", ["Mine*"]),
        ("CHIRP_DELAYED_UPDATE_MAX_ATTRS", "3", "chirp_names_max", 3),
        ("STARTER_RLIMIT_AS", "900", "address_space_mb", 900),
    ],
)
def test_a_starter_is_given_what_the_knob_says(name: str, value: str, setting: str, becomes: Any) -> None:
    assert getattr(settings_of(configured(), "slot1@host"), setting) != becomes
    assert getattr(settings_of(configured(**{name: value}), "slot1@host"), setting) == becomes


@pytest.mark.parametrize(
    ("name", "value", "setting", "becomes"),
    [
        ("CONSOLE_DEVICES", "tty9", "consoles", ("tty9",)),
        ("SLOTS_CONNECTED_TO_CONSOLE", "2", "console_slots", 2),
        ("DISCONNECTED_KEYBOARD_IDLE_BOOST", "5", "idle_boost_s", 5),
        ("CLAIM_PARTITIONABLE_LEFTOVERS", "false", "gives_leftovers", False),
    ],
)
def test_a_startd_goes_by_what_the_knob_says(name: str, value: str, setting: str, becomes: Any) -> None:
    assert getattr(read_settings(configured(), ()), setting) != becomes
    assert getattr(read_settings(configured(**{name: value}), ()), setting) == becomes


def test_a_startds_further_settings_of_that_kind() -> None:
    assert "Mine" in read_settings(configured(STARTD_PARTITIONABLE_SLOT_ATTRS="Mine"), ()).child_attrs
    draining = read_settings(configured(DEFAULT_DRAINING_START_EXPR="MY.Never"), ()).draining_start
    assert draining is not None
    assert str(draining) == "MY.Never"
    assert read_settings(configured(MUST_MODIFY_REQUEST_EXPRS="true"), ()).rounding.must


def test_what_the_machine_has_is_what_the_knobs_leave_of_it(tmp_path: Path) -> None:
    def has(**given: str) -> tuple[int, int]:
        hardware, _ = machine_hardware(configured(EXECUTE=str(tmp_path), **given), str(tmp_path))
        return hardware.cpus, hardware.memory

    assert has(NUM_CPUS="8", MEMORY="4096", MAX_NUM_CPUS="3", RESERVED_MEMORY="96") == (3, 4000)
    assert has(COUNT_HYPERTHREAD_CPUS="false")[0] <= has()[0]


@pytest.mark.parametrize("value", ["true", "false"])
def test_the_manuals_name_for_measuring_the_disk_again(value: str) -> None:
    assert configured(STARTD_RECOMPUTE_DISK=value).bool("STARTD_RECOMPUTE_DISK_FREE") is (value == "true")


def test_whom_a_startd_is_attached_to() -> None:
    given = {"STARTD_DIRECT_ATTACH_SCHEDD_POOL": "cm.other", "STARTD_DIRECT_ATTACH_SCHEDD_SUBMITTER": "ann@here"}
    target = Target.read(configured(**given))
    assert (target.pool, target.submitter) == ("cm.other", "ann@here")


def test_how_many_types_of_slots_there_may_be(tmp_path: Path) -> None:
    def refused(most: str) -> set[int]:
        knobs = {"NUM_SLOTS_TYPE_12": "1", "SLOT_TYPE_12": "cpus=1", "MAX_SLOT_TYPES": most}
        hardware, _ = machine_hardware(configured(EXECUTE=str(tmp_path), NUM_CPUS="1"), str(tmp_path))
        return set(slot_types(knobs, lambda name: knobs.get(name, ""), hardware)[1])

    assert (refused("11"), refused("12")) == ({12}, set())


def test_how_a_machine_is_put_to_sleep(tmp_path: Path) -> None:
    own = find_ability(configured(LINUX_HIBERNATION_METHOD="/sys"), "127.0.0.1")
    assert own.command[-3:] == ("-m", "/sys", "set")
    plugin = tmp_path / "plugin"
    plugin.write_text('#!/bin/sh\n[ "$*" = "-v ad" ] && echo \'HibernationSupportedStates = "S3"\'\n')
    plugin.chmod(0o755)
    sites = find_ability(configured(HIBERNATION_PLUGIN=str(plugin), HIBERNATION_PLUGIN_ARGS="-v"), "127.0.0.1")
    assert sites.command == (str(plugin), "-v", "set")


def test_where_a_backfill_client_writes() -> None:
    given = {"BOINC_Executable": "/bin/true", "BOINC_InitialDir": "/tmp", "BOINC_Owner": "nobody", "BOINC_Error": "/e"}
    start: Any = SimpleNamespace(config=configured(**given))
    assert read_plan(start).error == "/e"


@pytest.mark.parametrize("name", ["DOCKER_NETWORK_NAME", "DOCKER_SKIP_IMAGE_ARCH_CHECK", "DOCKER_MAP_ALL_GPUS"])
def test_a_starter_has_its_engines_knobs(name: str) -> None:
    assert settings_of(configured(**{name: "true"}), "slot1@host").docker[name] == "true"


def test_a_startd_has_its_name() -> None:
    assert daemon_name(configured(STARTD_NAME="second").str("STARTD_NAME"), "host") == "second@host"
