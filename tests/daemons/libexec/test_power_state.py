"""condor_power_state over a pretended machine: a directory with the kernel's files, and programs that note their calls."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from daemons.libexec import power_state
from daemons.libexec.power_state import Machine, enter, find
from pool.base.errors import UserError
from pool.power.states import SleepState

S3, S4, S5 = SleepState.S3, SleepState.S4, SleepState.S5


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def put(root: Path, path: str, text: str) -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def a_program(root: Path, path: str, status: int = 0) -> None:
    """One that notes its arguments in `called`."""
    name = path.rpartition("/")[2]
    put(root, path, f"#!/bin/sh\necho {name} $@ >> {root}/called\necho no way >&2\nexit {status}\n").chmod(0o755)


def called(root: Path) -> list[str]:
    return (root / "called").read_text().splitlines() if (root / "called").exists() else []


def test_a_machine_without_any_of_it_does_not_sleep(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert power_state.program(["-r", str(root), "ad"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        'HibernationMethod = "NONE"',
        "HibernationRawMask = 0",
        'HibernationSupportedStates = ""',
    ]
    assert power_state.program(["-r", str(root), "set", "S3"]) == 1
    assert "this machine has no S3 (expected one of none (by NONE))" in capsys.readouterr().err


def test_the_kernel_tells_its_states(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(root, "/sys/power/state", "freeze standby mem disk\n")
    put(root, "/sys/power/disk", "[platform] shutdown reboot suspend\n")
    power_state.program(["-r", str(root), "ad"])
    assert sorted(capsys.readouterr().out.splitlines()) == [
        'HibernationMethod = "/sys"',
        "HibernationRawMask = 29",
        'HibernationSupportedStates = "S1,S3,S4,S5"',
    ]


def test_a_machine_that_only_suspends_to_idle_has_that_as_its_s1_and_as_what_mem_is(root: Path) -> None:
    """As most laptops are: the kernel lists mem too, and /sys/power/mem_sleep says what that comes to."""
    put(root, "/sys/power/mem_sleep", "[s2idle]\n")
    for state, word in (("S1", "freeze"), ("S3", "mem")):
        put(root, "/sys/power/state", "freeze mem\n")
        assert find(Machine(root)).states == {SleepState.S1, S3}
        assert power_state.program(["-r", str(root), "set", state]) == 0
        assert (root / "sys/power/state").read_text() == word
    assert (root / "sys/power/mem_sleep").read_text() == "[s2idle]\n", "is the administrator's"


@pytest.mark.parametrize(("state", "word"), [("S1", "standby"), ("RAM", "mem"), ("DISK", "disk")])
def test_the_kernel_is_told_by_its_words(root: Path, state: str, word: str) -> None:
    put(root, "/sys/power/state", "freeze standby mem disk\n")
    assert power_state.program(["-r", str(root), "set", state]) == 0
    assert (root / "sys/power/state").read_text() == word


def test_a_hibernation_has_the_platform_cut_the_power(root: Path) -> None:
    put(root, "/sys/power/state", "mem disk\n")
    put(root, "/sys/power/disk", "platform [shutdown]\n")
    enter(Machine(root), S4)
    assert (root / "sys/power/disk").read_text() == "platform"


def test_it_returns_when_the_machine_is_awake_again(root: Path) -> None:
    """As the kernel does not answer a write before that, a pipe does not take it before somebody reads."""
    put(root, "/proc/acpi/sleep", "S0 S3 S4 S5\n")
    found = find(Machine(root))
    assert (found.method, found.states) == ("/proc", {S3, S4, S5})
    pipe = root / "proc/acpi/sleep"
    pipe.unlink()
    os.mkfifo(pipe)
    sleeping = threading.Thread(target=power_state.METHODS["/proc"].enter, args=(Machine(root), S3), daemon=True)
    sleeping.start()
    assert sleeping.is_alive()
    with open(pipe) as kernel:
        assert kernel.read() == "3"
    sleeping.join(30)
    assert not sleeping.is_alive()


def test_pm_utils_come_first_and_are_asked_what_they_can(root: Path) -> None:
    put(root, "/sys/power/state", "mem disk\n")
    a_program(root, "/usr/bin/pm-is-supported")
    a_program(root, "/usr/sbin/pm-suspend")
    assert find(Machine(root)).method == "pm-utils"
    enter(Machine(root), S3)
    asked = ["pm-is-supported --suspend", "pm-is-supported --hibernate"]
    assert called(root) == [*asked, *asked, "pm-suspend"]


def a_systemd(root: Path) -> None:
    put(root, "/sys/power/state", "freeze mem\n")
    (root / "run/systemd/system").mkdir(parents=True)


def test_systemd_comes_before_the_kernels_files_and_has_slept_when_the_clock_says_so(root: Path) -> None:
    a_systemd(root)
    a_program(root, "/usr/bin/systemctl")
    slept = iter([100.0, 100.0, 100.01, 160.0])
    machine = Machine(root, slept_s=lambda: next(slept))
    assert (find(machine).method, find(machine).states) == ("systemctl", {S3, S5})
    enter(machine, S3)
    assert called(root) == ["systemctl suspend"]
    assert list(slept) == [], "it has waited for the sleep"


def test_systemd_has_slept_when_the_kernel_says_so_although_the_clock_went_on(root: Path) -> None:
    a_systemd(root)
    count = put(root, "/sys/power/suspend_stats/success", "3\n")
    put(root, "/usr/bin/systemctl", f"#!/bin/sh\necho 4 > {count}\n").chmod(0o755)
    enter(Machine(root, slept_s=lambda: 5.0), S3)


def test_systemd_that_is_asked_and_does_nothing_is_a_failure(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_systemd(root)
    a_program(root, "/usr/bin/systemctl")
    monkeypatch.setattr(power_state, "FALLS_ASLEEP_S", 0.1)
    with pytest.raises(UserError, match="and the machine has not slept for 0"):
        enter(Machine(root, slept_s=lambda: 5.0), S3)


def test_to_switch_off_nothing_is_waited_for(root: Path) -> None:
    a_systemd(root)
    a_program(root, "/usr/bin/systemctl")
    enter(Machine(root), S5)
    assert called(root) == ["systemctl poweroff"]


def test_a_program_that_fails_is_quoted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_systemd(root)
    a_program(root, "/usr/bin/systemctl", status=3)
    assert power_state.program(["-r", str(root), "set", "S3"]) == 1
    assert "/usr/bin/systemctl suspend ended with status 3: no way" in capsys.readouterr().err


def test_a_method_can_be_chosen(root: Path) -> None:
    a_systemd(root)
    a_program(root, "/usr/bin/systemctl")
    put(root, "/proc/acpi/sleep", "S4\n")
    assert find(Machine(root), "/SYS").states == {SleepState.S1, S3}
    assert find(Machine(root), "/proc").states == {S4}
    assert find(Machine(root), "pm-utils").states == frozenset()
    with pytest.raises(UserError, match=r"apm is no method .* .expected pm-utils, systemctl, /sys, /proc"):
        find(Machine(root), "apm")


@pytest.mark.parametrize("words", [[], ["set"], ["set", "NONE"], ["ad", "more"], ["-x", "ad"], ["-m"]])
def test_a_command_line_that_says_nothing_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert power_state.program(words) == 1
    assert "expected" in capsys.readouterr().err


def test_the_clock_of_sleep_is_one_of_this_machine() -> None:
    assert power_state.slept_s() > -1
