"""Cron jobs as real programs: failing, hanging and garbage-printing ones included."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daemons.base.log import Log
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.source import ConfigSource
from daemons.daemon_core.world import World
from daemons.host.cron_manager import CronManager
from daemons.host.programs import MARK
from pool.classad import ClassAd
from pool.cron_jobs.jobs import STARTD, read_table

WAIT_S = 60


class Setting:
    """A manager, its log and a directory of scripts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.knobs: dict[str, str] = {"LOCAL_DIR": str(directory), "STARTD_CRON_JOBLIST": ""}
        self.told: list[tuple[bool, bool]] = []
        self._start: DaemonStart | None = None
        self._manager: CronManager | None = None
        for name in ("log", "run", "keys"):
            (directory / name).mkdir(exist_ok=True)

    def job(self, name: str, script: str, **knobs: str) -> None:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.knobs["STARTD_CRON_JOBLIST"] += f" {name}"
        self.knobs[f"STARTD_CRON_{name}_EXECUTABLE"] = str(path)
        for knob, value in knobs.items():
            self.knobs[f"STARTD_CRON_{name}_{knob}"] = value

    @property
    def manager(self) -> CronManager:
        assert self._manager is not None
        return self._manager

    def begin(self) -> CronManager:
        source = ConfigSource(str(self.directory), (), self.knobs)
        log = Log(self.directory / "log" / "StartLog", level="D_ALL")
        self._start = DaemonStart("startd", source, World.real(), log=log)
        self._manager = CronManager(
            self._start,
            read_table(self._start.config, STARTD),
            scope=lambda: ClassAd({"OpSys": "LINUX"}),
            published=lambda changed, send: self.told.append((changed, send)),
        )
        return self._manager

    def reconfigure(self, **knobs: str) -> None:
        assert self._start is not None
        self._start.source = ConfigSource(str(self.directory), (), {**self.knobs, **knobs})
        self._start.reconfigure()
        self.manager.reconfigure(read_table(self._start.config, STARTD))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CronManager]:
        with trio.fail_after(WAIT_S):
            async with trio.open_nursery() as nursery:
                manager = self.begin()
                nursery.start_soon(manager.run)
                yield manager
                nursery.cancel_scope.cancel()
        assert self._start is not None
        self._start.log.close()

    def value(self, name: str) -> object:
        return next((one.ad[name] for one in self.manager.ads if name in one.ad), None)

    async def until(self, name: str, value: object = ...) -> None:
        while self.value(name) is None or (value is not ... and self.value(name) != value):
            await trio.sleep(0.01)

    @property
    def log(self) -> str:
        return (self.directory / "log" / "StartLog").read_text()

    async def until_logged(self, text: str) -> None:
        while text not in self.log:
            await trio.sleep(0.01)

    async def until_there(self, name: str) -> str:
        path = self.directory / name
        while not path.exists() or not path.read_text():
            await trio.sleep(0.01)
        return path.read_text()


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


async def test_a_job_gets_its_name_arguments_environment_and_directory(setting: Setting) -> None:
    setting.job(
        "test",
        'echo "Args = \\"$*\\""; echo "Mine = \\"$MINE $STARTD_CRON_NAME $STARTD_CRON_INTERFACE_VERSION\\""\n'
        'echo "Cwd = \\"$PWD\\""; echo "Told = \\"$STARTD_CRON_CONFIG_VAL\\""\n'
        "echo \"Called = \\\"$(tr '\\0' ' ' < /proc/$$/cmdline)\\\"\"",
        MODE="OneShot",
        PREFIX="test_",
        ARGS="abc 123",
        ENV="MINE=yes",
        CWD="/",
    )
    setting.knobs["STARTD_CRON_CONFIG_VAL"] = "/opt/bin/condor_config_val"
    async with setting.running():
        await setting.until("test_Cwd")
        assert setting.value("test_Args") == "abc 123"
        assert setting.value("test_Mine") == "yes STARTD_CRON 1"
        assert setting.value("test_Cwd") == "/"
        assert setting.value("test_Told") == "/opt/bin/condor_config_val"
        assert isinstance(setting.value("test_LastUpdate"), int)
    assert setting.told == [(True, True)]


async def test_a_periodic_job_runs_again_and_again(setting: Setting) -> None:
    setting.job(
        "count", "echo x >> count.out\necho Count = $(wc -l < count.out)", PERIOD="1s", CWD=str(setting.directory)
    )
    async with setting.running():
        await setting.until("Count", 1)
        await setting.until("Count", 3)


async def test_a_job_that_was_due_while_the_machine_slept_runs_when_it_is_awake(setting: Setting) -> None:
    setting.job(
        "hourly", "echo x >> count.out\necho Count = $(wc -l < count.out)", PERIOD="1h", CWD=str(setting.directory)
    )
    async with setting.running():
        await setting.until("Count", 1)
        while setting.value("Count") == 1:  # once its first run is over, it is due again
            setting.manager.slept(3600.0)
            await trio.sleep(0.01)


async def test_a_job_that_waits_for_its_exit_publishes_at_each_dash(setting: Setting) -> None:
    setting.job(
        "stream",
        "for n in 1 2 3; do echo Value = $n; echo -; while [ ! -e go$n ]; do sleep 0.02; done; done",
        MODE="WaitForExit",
        PERIOD="1h",
        CWD=str(setting.directory),
    )
    async with setting.running():
        for n in (1, 2, 3):
            await setting.until("Value", n)
            (setting.directory / f"go{n}").touch()


async def test_a_one_shot_job_runs_once_and_again_at_a_reconfiguration_if_it_wants(setting: Setting) -> None:
    for name, again in (("once", "false"), ("twice", "true")):
        setting.job(
            name,
            f"echo x >> {name}.out\necho {name} = $(wc -l < {name}.out)",
            MODE="OneShot",
            RECONFIG_RERUN=again,
            CWD=str(setting.directory),
        )
    async with setting.running():
        await setting.until("once", 1)
        await setting.until("twice", 1)
        setting.reconfigure()
        await setting.until("twice", 2)
        assert setting.value("once") == 1


@pytest.fixture
def hangups() -> Iterator[None]:
    """A program can only trap what its parent does not ignore, as it does below nohup; daemons handle it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
async def test_a_reconfiguration_is_told_to_a_job_that_wants_to_hear_of_it(setting: Setting) -> None:
    setting.job(
        "listener",
        "trap 'echo Heard = true; echo -' HUP\necho Ready = true; echo -\nwhile :; do sleep 0.05; done",
        MODE="WaitForExit",
        PERIOD="1",
        RECONFIG="true",
    )
    async with setting.running():
        await setting.until("Ready")
        setting.reconfigure()
        await setting.until("Heard", True)


async def test_what_a_job_said_goes_with_it(setting: Setting) -> None:
    setting.job("gone", "echo Gone = 1", MODE="OneShot")
    setting.job("stays", "echo Stays = 1", MODE="OneShot")
    async with setting.running():
        await setting.until("Gone")
        await setting.until("Stays")
        setting.reconfigure(STARTD_CRON_JOBLIST="stays")
        assert setting.value("Gone") is None
        assert setting.value("Stays") == 1


async def test_a_hanging_job_is_left_alone_or_killed_as_it_is_configured(setting: Setting) -> None:
    script = "trap '' TERM\necho $$ >> {0}.pids\necho {0} = $(wc -l < {0}.pids); echo -\nexec sleep 1000"
    where = str(setting.directory)
    setting.job("patient", script.format("patient"), PERIOD="1s", CWD=where)
    setting.job("killed", script.format("killed"), PERIOD="1s", KILL="true", CWD=where)
    async with setting.running():
        await setting.until("killed", 3)
        assert setting.value("patient") == 1
    pids = [
        int(pid) for name in ("patient", "killed") for pid in (setting.directory / f"{name}.pids").read_text().split()
    ]
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


async def test_garbage_is_reported_with_its_line_and_the_rest_counts(setting: Setting) -> None:
    setting.job("garbage", "echo Good = 1\necho this is no attribute\necho More = 2", MODE="OneShot")
    async with setting.running():
        await setting.until("More", 2)
        assert setting.value("Good") == 1
        await setting.until_logged("STARTD_CRON job garbage: line 2 of the output is not an attribute")


async def test_endless_garbage_is_cut_short(setting: Setting) -> None:
    setting.job("endless", "head -c 2000000 /dev/zero | tr '\\0' 'x' | fold -w 50", MODE="OneShot")
    setting.job("other", "echo Other = 1", MODE="OneShot")
    async with setting.running():
        await setting.until("Other")
        await setting.until_logged("more lines of the output are not attributes")
    assert setting.log.count("is not an attribute:") < 50


async def test_a_failing_job_is_logged_with_what_it_said(setting: Setting) -> None:
    setting.job("failing", "echo Value = 1\necho trouble here >&2\nexit 3", MODE="OneShot")
    setting.job("fine", "echo Fine = 1", MODE="OneShot")
    setting.job("killed", "echo Other = 1\nkill -KILL $$", MODE="OneShot")
    setting.knobs["STARTD_CRON_LOG_NON_ZERO_EXIT"] = "true"
    async with setting.running():
        await setting.until("Value", 1)
        await setting.until_logged("STARTD_CRON job failing: trouble here")
        await setting.until_logged("exit_signal=9")
    assert re.search(r"\(D_ALWAYS\) CronJob: 'failing' \(pid [1-9]\d*\) exit_status=3", setting.log)
    assert re.search(r"\(D_ALWAYS\) CronJob: 'killed' \(pid [1-9]\d*\) exit_signal=9", setting.log)
    assert not re.search(r"\(D_ALWAYS\) CronJob: 'fine'", setting.log)


async def test_a_job_that_cannot_be_started_is_logged_and_the_others_run(setting: Setting) -> None:
    setting.job("other", "echo Other = 1", MODE="OneShot")
    setting.knobs["STARTD_CRON_JOBLIST"] += " missing"
    setting.knobs["STARTD_CRON_missing_EXECUTABLE"] = "/nowhere/at/all"
    setting.knobs["STARTD_CRON_missing_MODE"] = "OneShot"
    async with setting.running():
        await setting.until("Other")
        await setting.until_logged("STARTD_CRON job missing does not run: /nowhere/at/all")


async def test_jobs_wait_for_each_other_when_their_load_is_too_much(setting: Setting) -> None:
    setting.knobs["STARTD_CRON_MAX_JOB_LOAD"] = "0.1"
    where = str(setting.directory)
    for name in ("one", "two"):
        script = f"mkdir busy || echo {name}Alone = false\nsleep 0.2\nrmdir busy\necho {name}Ran = true"
        setting.job(name, script, MODE="OneShot", JOB_LOAD="0.1", CWD=where)
    async with setting.running():
        await setting.until("oneRan")
        await setting.until("twoRan")
        assert setting.value("oneAlone") is None
        assert setting.value("twoAlone") is None


async def test_a_job_runs_only_while_its_condition_is_true(setting: Setting) -> None:
    setting.job("never", "echo Never = 1", MODE="OneShot", CONDITION='OpSys == "WINDOWS"')
    setting.job("here", "echo Here = 1", MODE="OneShot", CONDITION='OpSys == "LINUX"')
    async with setting.running():
        await setting.until("Here")
        assert setting.value("Never") is None


@pytest.mark.parametrize(
    ("publish", "line", "sent"),
    [
        ("Never", "-", False),
        ("Never", "- update:true", True),
        ("Always", "-", True),
        ("Always", "- update:false", False),
        ("If_Changed", "-", True),
    ],
)
async def test_when_output_is_sent_at_once(setting: Setting, publish: str, line: str, sent: bool) -> None:
    setting.knobs["STARTD_CRON_AUTOPUBLISH"] = publish
    setting.job("say", f"echo A = 1\necho '{line}'", MODE="OneShot")
    async with setting.running():
        await setting.until("A")
    assert setting.told == [(True, sent)]


async def test_a_job_on_demand_runs_when_it_is_asked_for(setting: Setting) -> None:
    setting.job("bench", "echo Mips = 42", MODE="OnDemand")
    async with setting.running() as manager:
        assert setting.value("Mips") is None
        await manager.run_all()
        assert setting.value("Mips") == 42


async def test_what_a_killed_daemon_has_left_running_is_ended_by_its_next_life(setting: Setting) -> None:
    setting.job(
        "endless", "echo $$ > pid.new; mv pid.new pid; exec sleep 1000", MODE="OneShot", CWD=str(setting.directory)
    )
    mark = f"{setting.directory}/run/startd/STARTD_CRON"
    left = await trio.lowlevel.open_process(["sleep", "1000"], env={MARK: mark})
    async with setting.running():
        assert await left.wait() == -9
        pid = (await setting.until_there("pid")).strip()
        assert os.path.exists(f"/proc/{pid}")


async def test_a_job_that_leaves_a_child_behind_holds_nobody_up(setting: Setting) -> None:
    setting.job(
        "parent", "sleep 1000 & echo $! > child.pid\necho Value = 1", MODE="OneShot", CWD=str(setting.directory)
    )
    try:
        async with setting.running():
            await setting.until("Value", 1)
    finally:
        os.kill(int(await setting.until_there("child.pid")), 9)


async def test_a_job_whose_news_nobody_can_take_is_run_again(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.job("a", "echo x = 1", PERIOD="1s")
    told = setting.told

    class Odd(list[tuple[bool, bool]]):
        def append(self, news: tuple[bool, bool]) -> None:
            told.append(news)
            if len(told) == 1:
                raise RuntimeError("a bug in who is told")

    setting.told = Odd()
    async with setting.running():
        while len(told) < 2:
            await trio.sleep(0.01)
    assert "a bug in who is told" in setting.log
