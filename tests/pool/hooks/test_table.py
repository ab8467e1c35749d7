"""Which hooks a configuration has, and whose count for a job."""

from __future__ import annotations

import pytest

from pool.base.errors import ConfigError
from pool.classad import ClassAd
from pool.config import load_config
from pool.hooks.table import STARTD_HOOKS, STARTER_HOOKS, TIMEOUTS, Hook, HookTable, job_keyword, read_hooks

KNOBS = {
    "DATABASE_HOOK_DIR": "/usr/local/condor/fetch/database",
    "DATABASE_HOOK_FETCH_WORK": "$(DATABASE_HOOK_DIR)/fetch_work.php",
    "DATABASE_HOOK_REPLY_FETCH": "$(DATABASE_HOOK_DIR)/reply_fetch.php",
    "WEB_HOOK_FETCH_WORK": "/usr/local/condor/fetch/web/fetch_work.php",
    "java5_hook_prepare_job": "/opt/java5_prepare_hook",
    "JAVA5_HOOK_PREPARE_JOB_ARGS": "\"one 'two words'\"",
    "JAVA5_HOOK_JOB_EXIT": "/opt/exit",
    "JAVA5_HOOK_JOB_EXIT_TIMEOUT": "7",
    "JAVA5_HOOK_PREPARE_JOB_BEFORE_TRANSFER": "/opt/before",
}


def table(**knobs: str) -> HookTable:
    return read_hooks(load_config([], overrides={**KNOBS, **knobs}, environ={}), (*STARTD_HOOKS, *STARTER_HOOKS))


def test_hooks_are_grouped_by_keyword() -> None:
    found = table()
    assert set(found.keywords) == {"DATABASE", "WEB", "JAVA5"}
    assert found.of("database")[Hook.FETCH_WORK].path == "/usr/local/condor/fetch/database/fetch_work.php"
    assert set(found.of("WEB")) == {Hook.FETCH_WORK}
    java = found.of("Java5")
    assert set(java) == {Hook.PREPARE_JOB, Hook.PREPARE_JOB_BEFORE_TRANSFER, Hook.JOB_EXIT}
    assert java[Hook.PREPARE_JOB].arguments == ("one", "two words")
    assert java[Hook.PREPARE_JOB].timeout_s == TIMEOUTS[Hook.PREPARE_JOB]
    assert java[Hook.JOB_EXIT].timeout_s == 7
    assert java[Hook.PREPARE_JOB].name == "java5_prepare_hook"


def test_only_the_hooks_that_are_asked_for() -> None:
    config = load_config([], overrides=KNOBS, environ={})
    assert set(read_hooks(config, STARTD_HOOKS).keywords) == {"DATABASE", "WEB"}
    assert set(read_hooks(config, STARTER_HOOKS).keywords) == {"JAVA5"}


def test_a_table_crosses_to_another_process_as_it_is() -> None:
    assert HookTable.unpacked(table().packed()) == table()


def test_arguments_that_cannot_be_read_are_the_administrators_fault() -> None:
    with pytest.raises(ConfigError, match="JAVA5_HOOK_PREPARE_JOB_ARGS"):
        table(JAVA5_HOOK_PREPARE_JOB_ARGS='"open')


@pytest.mark.parametrize(
    ("own", "forced", "default", "expected"),
    [
        ("JAVA5", "", "", "JAVA5"),
        ("java5", "", "WEB", "java5"),
        ("JAVA5", "WEB", "", "WEB"),
        ("JAVA5", "NOSUCH", "", "JAVA5"),
        ("NOSUCH", "", "WEB", "WEB"),
        (None, "", "WEB", "WEB"),
        (None, "DATABASE", "WEB", "DATABASE"),
        ("NOSUCH", "", "", ""),
        (None, "", "", ""),
    ],
)
def test_whose_hooks_a_job_has(own: str | None, forced: str, default: str, expected: str) -> None:
    job = ClassAd({"HookKeyword": own} if own is not None else {})
    assert job_keyword(job, table(), forced=forced, default=default) == expected
