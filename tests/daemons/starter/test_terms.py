"""What the machine's knobs do to a job: wrapper, nice, cpus, group ids, accounts, limits."""

from __future__ import annotations

import grp
import os
import signal
import subprocess
from pathlib import Path

import pytest

from daemons.host.child_settings import StarterSettings
from daemons.host.tokens import take
from daemons.host.tracking import Tracking
from daemons.starter.launch.terms import renice
from pool.classad import ClassAd
from pool.config.load import load_config
from pool.jobs.vocabulary.endings import Ending

from .bench import Bench, bench, group_settings, settings_of

AS_ROOT = os.geteuid() == 0
ROOTS = pytest.mark.skipif(not AS_ROOT, reason="it takes root's rights")


def _settings(tmp_path: Path, slot: str = "slot2_1@host", **knobs: str) -> StarterSettings:
    overrides = {"LOCAL_DIR": str(tmp_path), "EXECUTE": str(tmp_path / "execute"), **knobs}
    config = load_config([], overrides=overrides, environ={})
    return settings_of(config, slot)


def _free_gids() -> tuple[int, int]:
    """Two group ids that nobody has."""
    taken = {entry.gr_gid for entry in grp.getgrall()}
    first = next(gid for gid in range(7_500 + os.getpid() % 1000, 60_000) if not {gid, gid + 1} & taken)
    return first, first + 1


def _wrapper(b: Bench, text: str) -> None:
    wrapper = b.root / "wrapper"
    wrapper.write_text("#!/bin/sh\n" + text)
    wrapper.chmod(0o755)


async def test_a_wrapper_runs_in_the_jobs_place_with_the_job_as_its_words() -> None:
    async with bench(start=False) as b:
        _wrapper(b, 'echo "wrapped $1"\nexport BY=wrapper\nexec "$@"\n')
        await b.start_starter(wrapper=str(b.root / "wrapper"))
        end = await b.ended(await b.run(b.job_ad("echo $BY; exit 4")))
        assert end.ad.eval_int("ExitCode") == 4
        assert (b.iwd / "out").read_text() == "wrapped /bin/sh\nwrapper\n"


async def test_a_wrapper_that_fails_sends_the_job_back_and_tells_the_log() -> None:
    async with bench(start=False) as b:
        _wrapper(b, 'echo "no licence today" > "$_CONDOR_WRAPPER_ERROR_FILE"\nexit 1\n')
        await b.start_starter(wrapper=str(b.root / "wrapper"))
        end = await b.ended(await b.run(b.job_ad("true")))
        assert end.ending is Ending.FAILED
        assert "no licence today" in end.reason
        assert "no licence today" in b.log()


async def test_a_wrapper_that_is_not_there_is_the_machines_fault() -> None:
    async with bench(wrapper="/no/such/wrapper") as b:
        end = await b.ended(await b.run(b.job_ad("true")))
        assert end.ending is Ending.FAILED
        assert "/no/such/wrapper" in end.reason


@pytest.mark.parametrize(
    ("expression", "nice"),
    [("", 0), ("0", 0), ("7", 7), ("30", 19), ("-3", 0), ("ifThenElse(JobPrio > 5, 0, 10)", 10), ("undefined", 0)],
)
def test_the_renice_increment_is_an_expression_over_the_job(expression: str, nice: int) -> None:
    assert renice(expression, ClassAd({"JobPrio": 1})) == nice


async def test_jobs_are_as_nice_as_the_machine_says() -> None:
    async with bench(nice="JobPrio + 3") as b:
        await b.ended(await b.run(b.job_ad("nice", JobPrio=2)))
        assert (b.iwd / "out").read_text() == f"{min(19, os.nice(0) + 5)}\n"


async def test_a_job_is_bound_to_cpus_that_no_other_has() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    async with bench(assign_cpus="true") as b:
        other = take(str(b.root / "run" / "cpus"), allowed, 1)
        assert other is not None
        await b.ended(await b.run(b.job_ad("grep Cpus_allowed_list /proc/self/status")))
        bound = (b.iwd / "out").read_text().split()[1]
        if len(allowed) > 1:
            assert bound == str(allowed[1])
        other.give_back()
        await b.ended(await b.run(b.job_ad("grep Cpus_allowed_list /proc/self/status")))
        assert (b.iwd / "out").read_text().split()[1] == str(allowed[0])


def test_numbers_are_taken_once_and_all_or_none(tmp_path: Path) -> None:
    first = take(str(tmp_path / "it"), range(3), 2)
    assert first is not None
    assert first.numbers == (0, 1)
    assert take(str(tmp_path / "it"), range(3), 2) is None
    last = take(str(tmp_path / "it"), range(3), 1)
    assert last is not None
    assert last.numbers == (2,)
    first.give_back()
    again = take(str(tmp_path / "it"), range(3), 2)
    assert again is not None
    for taken in (last, again):
        taken.give_back()


@ROOTS
async def test_a_tracking_group_id_is_the_jobs_and_too_few_fail_the_next() -> None:
    low, _ = _free_gids()
    async with bench(tracking_gids=[low, low]) as b:
        await b.ended(await b.run(b.job_ad("id -G")))
        assert str(low) in (b.iwd / "out").read_text().split()
        assert f"Tracking process family by group id {low}" in b.log()
        held = take(str(b.root / "run" / "tracking_gids"), [low], 1)
        assert held is not None
        end = await b.ended(await b.run(b.job_ad("true")))
        held.give_back()
        assert end.ending is Ending.FAILED
        assert "No more tracking GIDs are left" in end.reason


@ROOTS
def test_what_has_the_group_id_is_found_wherever_it_hides() -> None:
    gid, other = _free_gids()
    process = subprocess.Popen(["/bin/sleep", "1000"], extra_groups=[gid], start_new_session=True)
    try:
        assert Tracking(gid=gid).members() == {process.pid}
        assert Tracking(gid=other).members() == set()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert Tracking(gid=gid).members() == set()


@ROOTS
@pytest.mark.parametrize("gids", [[757, 750], [0, 0]])
async def test_a_range_of_group_ids_that_is_none_fails_the_job_and_not_its_starter(gids: list[int]) -> None:
    async with bench(tracking_gids=gids) as b:
        for _ in range(2):
            end = await b.ended(await b.run(b.job_ad("true")))
            assert end.ending is Ending.FAILED
            assert f"from MIN_TRACKING_GID = {gids[0]} to MAX_TRACKING_GID = {gids[1]} there are no" in end.reason


def test_the_range_of_group_ids_is_what_the_configuration_says(tmp_path: Path) -> None:
    gids = {"USE_GID_PROCESS_TRACKING": "true", "MIN_TRACKING_GID": "750", "MAX_TRACKING_GID": "757"}
    assert _settings(tmp_path, **gids).tracking_gids == [750, 757]


@pytest.mark.parametrize(
    ("knobs", "account"),
    [
        ({}, "nobody"),
        ({"NOBODY_SLOT_USER": "$(STARTER_SLOT_NAME)"}, "slot2_1"),
        ({"NOBODY_SLOT_USER": "batch", "SLOT2_USER": "two"}, "two"),
        ({"SLOT2_1_USER": "two_one", "SLOT2_USER": "two"}, "two_one"),
        ({"SLOT1_USER": "one"}, "nobody"),
    ],
)
def test_the_account_of_strangers_jobs(tmp_path: Path, knobs: dict[str, str], account: str) -> None:
    assert _settings(tmp_path, **knobs).fallback_account == account


@pytest.mark.parametrize(
    ("knobs", "cpus"),
    [
        ({}, []),
        ({"SLOT2_CPU_AFFINITY": "0,1"}, []),
        ({"ENFORCE_CPU_AFFINITY": "true"}, [1]),
        ({"ENFORCE_CPU_AFFINITY": "true", "SLOT2_CPU_AFFINITY": "0,3"}, [0, 3]),
    ],
)
def test_the_cpus_of_a_slot(tmp_path: Path, knobs: dict[str, str], cpus: list[int]) -> None:
    assert _settings(tmp_path, **knobs).cpu_affinity == cpus


@ROOTS
@pytest.mark.parametrize(("expression", "runs_as"), [("TARGET.Trusted =?= true", "nobody"), ("true", "daemon")])
async def test_who_may_run_as_himself_is_an_expression_over_the_job(expression: str, runs_as: str) -> None:
    async with bench(run_as_owner=expression) as b:
        b.iwd.chmod(0o777)
        await b.ended(await b.run(b.job_ad("id -un", Owner="daemon")))
        assert (b.iwd / "out").read_text() == f"{runs_as}\n"


async def test_a_fork_bomb_meets_the_limit_of_processes_and_leaves_nothing() -> None:
    settings = group_settings("fork-bomb")
    if not any(mount.startswith(("pids=", "=")) for mount in settings.get("tree_mounts", [])):
        pytest.skip("no control group that counts processes")
    async with bench(**settings, processes_max="20") as b:
        bomb = (
            "import os, time\n"
            "try:\n    while True:\n        if os.fork() == 0: time.sleep(1000)\n"
            "except OSError as error: print(error.errno, flush=True)\n"
        )
        job = b.job_ad(Cmd="/usr/bin/python3", Arguments="'-I' '-c' '" + bomb.replace("'", "''") + "'")
        end = await b.ended(await b.run(job))
        assert end.ad.eval_int("ExitCode") == 0
        assert (b.iwd / "out").read_text() == "11\n"
        assert (await b.ended(await b.run(b.job_ad("exit 5")))).ad.eval_int("ExitCode") == 5


@ROOTS
async def test_all_processes_of_a_dedicated_account_end_with_its_job() -> None:
    uid = 200_000 + os.getpid() % 100_000  # an account that nobody else uses
    lurker = subprocess.Popen(["/bin/sleep", "1000"], user=uid, group=uid, extra_groups=[], start_new_session=True)
    try:
        async with bench(soft_uid_domain=True, dedicated_accounts="2[0-9]{5}") as b:
            b.iwd.chmod(0o777)
            end = await b.ended(await b.run(b.job_ad("id -u", Owner=str(uid))))
            assert end.ad.eval_int("ExitCode") == 0
            assert (b.iwd / "out").read_text() == f"{uid}\n"
            assert f'Tracking process family by login "{uid}"' in b.log()
        assert lurker.wait(timeout=60) == -signal.SIGKILL
    finally:
        lurker.kill()
        lurker.wait()
