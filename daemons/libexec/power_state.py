"""`condor_power_state`: which power states this Linux machine has, and into one of them with it.

    condor_power_state [-d] [-m METHOD] [-r DIRECTORY] ad            its states, as lines of an ad
    condor_power_state [-d] [-m METHOD] [-r DIRECTORY] set STATE     ends when the machine is awake again

The methods are tried in the order of METHODS, and the first one counts that is there: programs that let other software
know (pm-utils, or systemd, which has taken their place) before the kernel's own files. `-r` takes all files and
programs from below another directory than /.

It ends with status 0 where the machine has slept, or goes down (S5), and with 1 and a line that says why where not.

Source: HTCondor's manual, "Startd Daemon Configuration Options" (HIBERNATION_PLUGIN, LINUX_HIBERNATION_METHOD) and
"Linux Platform Details"; the kernel's Documentation/admin-guide/pm/sleep-states.rst.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.power.states import SleepState, state_of

OWN_PROGRAM: Final = "condor_power_state"
FALLS_ASLEEP_S: Final = 60.0
"""How long a machine may take to sleep after systemd was told to see to it."""
ASKED_S: Final = 20.0
"""How long a program may take to say what is possible."""
_LOOK_S: Final = 0.05
_S1, _S3, _S4, _S5 = SleepState.S1, SleepState.S3, SleepState.S4, SleepState.S5


def slept_s() -> float:
    """How long this machine has been asleep since it was booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class Machine:
    """Where the machine's files are, and the clock that tells whether it has slept."""

    root: Path = Path("/")
    slept_s: Callable[[], float] = slept_s

    def file(self, path: str) -> Path:
        """A file or a program of the machine."""
        return self.root / path.lstrip("/")

    def words(self, path: str) -> set[str]:
        """What is listed in one of the kernel's files, the choice that is in force too; nothing where there is none."""
        try:
            return set(self.file(path).read_text().replace("[", " ").replace("]", " ").split())
        except OSError:
            return set()

    def sleeps_counted(self) -> set[str]:
        """The kernel's number of sleeps, of which a hibernation is none; nothing where it does not count."""
        return self.words(_SLEEPS)

    def write(self, path: str, word: str) -> None:
        """Tell the kernel; it answers when the machine is awake again. UserError where it refuses."""
        try:
            self.file(path).write_text(word)
        except OSError as error:
            raise UserError(f'the kernel does not take "{word}" in {path}: {error.strerror}') from None

    def can(self, program: str, *words: str) -> bool:
        """Whether a program is there and says yes."""
        try:
            asked = [str(self.file(program)), *words]
            return subprocess.run(asked, capture_output=True, timeout=ASKED_S, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def run(self, program: str, *words: str) -> None:
        """Have a program do it; UserError where it fails."""
        try:
            done = subprocess.run([self.file(program), *words], capture_output=True, text=True, check=False)
        except OSError as error:
            raise UserError(f"{program} cannot be started: {error.strerror}") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip() or "it says nothing"
            raise UserError(f"{' '.join((program, *words))} ended with status {done.returncode}: {said}")


# ---- the kernel's files

_STATE: Final = "/sys/power/state"
_SLEEPS: Final = "/sys/power/suspend_stats/success"
_DISK: Final = "/sys/power/disk"
_ACPI: Final = "/proc/acpi/sleep"
_POWER_OFF: Final = "/sbin/poweroff"


_STANDBY: Final = ("standby", "freeze")
"""What S1 is, the first that there is. `freeze`, suspend to idle, is no state of ACPI's: all processors stand still."""


def _kernels(machine: Machine) -> frozenset[SleepState]:
    """What /sys/power says. `mem` is S3, whatever the administrator has it be (/sys/power/mem_sleep)."""
    there = machine.words(_STATE)
    named = {state_of(word) for word in there} | ({_S1} if there & {*_STANDBY} else set())
    disk = machine.words(_DISK)
    named |= {_S4} if "platform" in disk else set()
    named |= {_S5} if "shutdown" in disk else set()
    return frozenset(named) - {SleepState.NONE}


def _enter_by_sys(machine: Machine, state: SleepState) -> None:
    if state is _S5:
        machine.run(_POWER_OFF)
    elif state is _S4:
        if "platform" in machine.words(_DISK):
            machine.write(_DISK, "platform")
        machine.write(_STATE, "disk")
    elif state is _S1:
        there = machine.words(_STATE)
        machine.write(_STATE, next(word for word in _STANDBY if word in there))
    else:
        machine.write(_STATE, "mem")


def _acpis(machine: Machine) -> frozenset[SleepState]:
    return frozenset(map(state_of, machine.words(_ACPI))) - {SleepState.NONE}


def _enter_by_acpi(machine: Machine, state: SleepState) -> None:
    machine.write(_ACPI, str(state.value))


# ---- programs

_SUPPORTED: Final = "/usr/bin/pm-is-supported"
_PM: Final = {_S3: "/usr/sbin/pm-suspend", _S4: "/usr/sbin/pm-hibernate"}
_SYSTEMCTL: Final = "/usr/bin/systemctl"
_SYSTEMD: Final = {_S3: "suspend", _S4: "hibernate", _S5: "poweroff"}


def _pm_utils(machine: Machine) -> frozenset[SleepState]:
    asked = {_S3: "--suspend", _S4: "--hibernate"}
    can = {state for state, option in asked.items() if machine.can(_SUPPORTED, option)}
    return frozenset(can | ({_S5} if can and machine.file(_POWER_OFF).exists() else set()))


def _enter_by_pm_utils(machine: Machine, state: SleepState) -> None:
    machine.run(_PM.get(state, _POWER_OFF))


def _systemd(machine: Machine) -> frozenset[SleepState]:
    """What systemd would have the kernel do, on a machine that it has booted."""
    booted = machine.file("/run/systemd/system").is_dir() and machine.file(_SYSTEMCTL).exists()
    return (_kernels(machine) | {_S5}) & _SYSTEMD.keys() if booted else frozenset()


def _enter_by_systemd(machine: Machine, state: SleepState) -> None:
    """systemctl answers before the machine sleeps, so the clock of sleep is looked at, and the number of sleeps.

    The clock alone does not do: it goes on in a suspend to idle where no driver of the processor's knows of that.
    """
    before, counted = machine.slept_s(), machine.sleeps_counted()
    machine.run(_SYSTEMCTL, _SYSTEMD[state])
    if state is _S5:
        return
    over_at = time.monotonic() + FALLS_ASLEEP_S
    while machine.slept_s() - before < _LOOK_S and machine.sleeps_counted() == counted:
        if time.monotonic() > over_at:
            raise UserError(
                f"systemctl {_SYSTEMD[state]} was taken, and the machine has not slept for {FALLS_ASLEEP_S:g} s"
            )
        time.sleep(_LOOK_S)


# ---- the choice


@dataclass(frozen=True)
class Method:
    """What it finds on a machine, and how it gets that into a state; blocks until it is awake again."""

    finds: Callable[[Machine], frozenset[SleepState]]
    enter: Callable[[Machine, SleepState], None]


METHODS: Final[Mapping[str, Method]] = {
    "pm-utils": Method(_pm_utils, _enter_by_pm_utils),
    "systemctl": Method(_systemd, _enter_by_systemd),
    "/sys": Method(_kernels, _enter_by_sys),
    "/proc": Method(_acpis, _enter_by_acpi),
}


@dataclass(frozen=True)
class Found:
    """The method that works here, and the states that it has; no method: this machine does not sleep."""

    method: str = "NONE"
    states: frozenset[SleepState] = frozenset()

    def ad(self) -> ClassAd:
        """What the startd is told; the mask has a bit for each state."""
        listed = ",".join(state.name for state in sorted(self.states))
        mask = sum(1 << (state.value - 1) for state in self.states)
        return ClassAd(
            {"HibernationMethod": self.method, "HibernationSupportedStates": listed, "HibernationRawMask": mask}
        )


def find(machine: Machine, wanted: str = "") -> Found:
    """The method of this name, or the first that works; UserError where there is none of this name."""
    if wanted and wanted.lower() not in METHODS:
        raise UserError(f"{wanted} is no method of putting a machine to sleep", expected=", ".join(METHODS))
    for name in (wanted.lower(),) if wanted else METHODS:
        if states := METHODS[name].finds(machine):
            return Found(name, states)
    return Found()


def enter(machine: Machine, state: SleepState, wanted: str = "") -> None:
    """Return when the machine has been in this state, or goes down; UserError where it has not."""
    found = find(machine, wanted)
    if state not in found.states:
        names = ", ".join(one.name for one in sorted(found.states)) or "none"
        raise UserError(f"this machine has no {state.name}", expected=f"one of {names} (by {found.method})")
    METHODS[found.method].enter(machine, state)


# ---- the program


@dataclass
class _Asked:
    machine: Machine = Machine()
    method: str = ""
    says: bool = False
    words: tuple[str, ...] = ()


def asked(argv: Sequence[str]) -> _Asked:
    """What the command line says; UserError where it says nothing that can be done."""
    found, words = _Asked(), list(argv)
    while words and words[0].startswith("-"):
        option = words.pop(0).lstrip("-")
        if option in ("d", "debug"):
            found.says = True
        elif option in ("m", "method") and words:
            found.method = words.pop(0)
        elif option in ("r", "root") and words:
            found.machine = Machine(Path(words.pop(0)))
        else:
            raise UserError(f"-{option} is no option", expected="-d, -m METHOD, -r DIRECTORY")
    if not (words == ["ad"] or (len(words) == 2 and words[0] == "set" and state_of(words[1]))):
        raise UserError(f"{' '.join(words) or 'no command'} is given", expected="ad, or set and a state")
    found.words = tuple(words)
    return found


def program(argv: Sequence[str] | None = None) -> int:
    """Run condor_power_state."""
    try:
        order = asked(sys.argv[1:] if argv is None else argv)
        if order.says:
            sys.stderr.write(f"The methods are {', '.join(METHODS)}; by {find(order.machine, order.method).method}.\n")
        if order.words == ("ad",):
            sys.stdout.write(find(order.machine, order.method).ad().long())
        else:
            enter(order.machine, state_of(order.words[1]), order.method)
    except UserError as error:
        sys.stderr.write(f"{OWN_PROGRAM}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(program())
