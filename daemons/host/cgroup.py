"""Control groups, done: make a claim's group, put jobs into it, read it, freeze it, empty it, remove it.

A group belongs to a claim and is used again by its next job: only the limits are written anew. Where groups can be made
is in `cgroup_trees`, which values go into which files in `pool.execute.cgroup`.

Source: HTCondor's manual, "Configuration for Execution Points": "Cgroup Based Process Tracking", "Limiting Resource
Usage Using Cgroups"; the kernel's documentation: "Control Group v2", "Control Groups version 1".
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable
from typing import Final

from daemons.host.kernel_files import read_file, read_open_file, write_file
from daemons.host.tree import send
from pool.base.ids import is_number
from pool.execute.cgroup import (
    CgroupLimits,
    Trees,
    Write,
    disk_traffic,
    field_of,
    oom_kills,
    writes_v1,
    writes_v2,
)
from pool.execute.usage import DiskTraffic, UsageSample

_TICKS: Final = os.sysconf("SC_CLK_TCK")
ENTRY_BYTES: Final = 16 << 20
"""How much of a limit on memory must be free for a child that still has the starter's to enter its job's group."""
REMOVE_TRIES_MAX: Final = 100
REMOVE_PAUSE_S: Final = 0.005


def processor_seconds(trees: Trees, name: str) -> float | None:
    """What a group's jobs have used of the processors so far; None where no such group counts it."""
    for controller, file in (("cpuacct", "cpuacct.usage"), ("", "cpu.stat")):
        if name and (mount := trees.mount(controller)) is not None:
            try:
                text = read_file(os.path.join(mount, name, file))
            except OSError:
                return None
            return int(text) / 1e9 if controller else field_of(text, "usage_usec") / 1e6
    return None


class ControlGroup:
    """One claim's group. Without any tree (`trees.version` 0) it does nothing, and knows nothing."""

    def __init__(self, trees: Trees, name: str, *, counts_cache: bool = False) -> None:
        self.trees = trees
        self._counts_cache = counts_cache
        self.name = name
        self._paths = {controller: os.path.join(mount, name) for controller, mount in trees.mounts if name}
        self._entrances: list[int] = []
        self._open: dict[tuple[str, str], int] = {}
        """Files that are used for each job, by controller and name."""
        self._frozen = False
        self._oom_before = 0
        self._cpu_before = (0.0, 0.0)
        self._traffic_before = DiskTraffic(0, 0, 0, 0)
        self._limits: CgroupLimits | None = None
        self._oom_fd = -1

    @property
    def works(self) -> bool:
        """Whether there is a group at all."""
        return bool(self._paths)

    @property
    def limits_memory(self) -> bool:
        """Whether memory limits hold."""
        return "memory" in self._paths or self._has_memory_v2()

    def _has_memory_v2(self) -> bool:
        return "" in self._paths and os.path.exists(os.path.join(self._paths[""], "memory.max"))

    def prepare(self, limits: CgroupLimits) -> list[str]:
        """Make the group, or the next job's limits in it; what could not be set, in words."""
        if self._paths and (self._limits is None or not os.path.isdir(self._paths[self._watchtower])):
            self._limits = None
            self._forget_oom()
            self._close_files()
            for path in self._paths.values():
                os.makedirs(path, exist_ok=True)
        # The limits are the next job's, the freezing was the last one's.
        if self._frozen:  # whoever entered would stand still
            self.freeze(False)
        failed: list[str] = []
        # Each write costs the kernel a lock; jobs of one claim mostly have the same limits.
        if limits != self._limits:
            failed = [said for write in self._writes(limits) if (said := self._set(write)) is not None]
            self._limits = limits
        self._reset_peak()
        self._arm_oom()
        self._oom_before = self._oom_count()
        self._cpu_before = self._cpu()
        self._traffic_before = self._traffic() or DiskTraffic(0, 0, 0, 0)
        return failed

    def before(self) -> list[int]:
        """What the group had counted when the present job began, for a process that takes the job over."""
        traffic = self._traffic_before
        ticks = [round(seconds * 1e6) for seconds in self._cpu_before]
        return [self._oom_before, *ticks, traffic.read, traffic.written, traffic.reads or 0, traffic.writes or 0]

    def take_over(self, before: list[int], limits: CgroupLimits) -> None:
        """The present job was begun by another process."""
        self._limits = limits
        self._oom_before = before[0]
        self._cpu_before = before[1] / 1e6, before[2] / 1e6
        self._traffic_before = DiskTraffic(*before[3:])
        self._arm_oom()

    def _writes(self, limits: CgroupLimits) -> list[Write]:
        return writes_v1(limits) if self.trees.version == 1 else writes_v2(limits)

    def _set(self, write: Write) -> str | None:
        path = self._paths.get(write.controller)
        if path is None:
            return None
        try:
            write_file(os.path.join(path, write.file), write.value)
        except OSError as error:
            return None if write.optional else f"{write.file} = {write.value}: {error.strerror}"
        return None

    def entrances(self) -> list[int]:
        """Descriptors to which a process writes `0` to enter; they stay open for the claim's next jobs."""
        if not self._entrances:
            # One thread of version 1 moves without stopping all forks of the machine, and who enters has only one.
            file = "tasks" if self.trees.version == 1 else "cgroup.procs"
            try:
                for path in self._paths.values():
                    self._entrances.append(os.open(os.path.join(path, file), os.O_WRONLY | os.O_CLOEXEC))
            except OSError:
                self._close_files()
                raise
        return self._entrances

    def _close_files(self) -> None:
        for fd in (*self._entrances, *self._open.values()):
            os.close(fd)
        self._entrances, self._open = [], {}

    def has_room(self) -> bool:
        """Whether a child that borrows this process's memory can enter, and be sure not to meet the limit there.

        The kernel ends whoever shares the memory of the one that it ends.
        """
        limit = self._limits.memory if self._limits is not None else 0
        if not limit:
            return True
        v1 = self.trees.version == 1
        # What the kernel sets up for the program counts before it has a memory of its own.
        used = self._file("memory" if v1 else "", "memory.usage_in_bytes" if v1 else "memory.current").strip()
        return not is_number(used) or int(used) + ENTRY_BYTES <= limit

    def take(self, pid: int) -> None:
        """A process enters that lives already, with all its threads; one that is gone need not."""
        for path in self._paths.values():
            try:
                write_file(os.path.join(path, "cgroup.procs"), str(pid))
            except ProcessLookupError:
                return

    @property
    def _watchtower(self) -> str:
        """The tree to look at when one will do: a job enters all of them, and cannot leave any."""
        return "freezer" if "freezer" in self._paths else next(iter(self._paths))

    def members(self) -> set[int]:
        """The processes in the group."""
        if not self._paths or self._file("pids" if self.trees.version == 1 else "", "pids.current") == "0\n":
            return set()
        try:
            # Opened anew: version 1 may show who was there when it was last read.
            text = read_file(os.path.join(self._paths[self._watchtower], "cgroup.procs"))
        except OSError:
            return set()
        return {int(pid) for pid in text.split()}

    # ---- what it uses

    def _reset_peak(self) -> None:
        if "memory" in self._paths:
            try:
                os.pwrite(self._opened("memory", "memory.max_usage_in_bytes", os.O_RDWR), b"0", 0)
            except OSError:
                pass

    def _file(self, controller: str, name: str) -> str:
        if controller not in self._paths:
            return ""
        try:
            return read_open_file(self._opened(controller, name, os.O_RDONLY))
        except OSError:
            return ""

    def _opened(self, controller: str, name: str, flags: int) -> int:
        fd = self._open.get((controller, name))
        if fd is None:
            fd = self._open[controller, name] = os.open(
                os.path.join(self._paths[controller], name), flags | os.O_CLOEXEC
            )
        return fd

    def _oom_count(self) -> int:
        if self.trees.version == 1:
            return oom_kills(self._file("memory", "memory.oom_control"))
        return oom_kills(self._file("", "memory.events"))

    def oom_killed(self) -> bool:
        """Whether the kernel has killed a process of the present job for want of memory."""
        # The kernel's counter never goes back: what it said before this job is subtracted.
        return self._oom_count() > self._oom_before

    def _cpu(self) -> tuple[float, float]:
        """User and system seconds of all jobs so far."""
        if self.trees.version == 1:
            text = self._file("cpuacct", "cpuacct.stat")
            return field_of(text, "user") / _TICKS, field_of(text, "system") / _TICKS
        text = self._file("", "cpu.stat")
        return field_of(text, "user_usec") / 1e6, field_of(text, "system_usec") / 1e6

    def sample(self) -> UsageSample | None:
        """What the present job uses; None where the group cannot tell."""
        if not self._paths:
            return None
        user, system = self._cpu()
        return UsageSample(
            resident=self._resident(),
            user_s=max(0.0, user - self._cpu_before[0]),
            system_s=max(0.0, system - self._cpu_before[1]),
            traffic=self._own_traffic(),
        )

    def _resident(self) -> int:
        """Its memory, without what is only there to spare the disk unless that is to be counted."""
        v1 = self.trees.version == 1
        text = self._file("memory" if v1 else "", "memory.stat")
        names = ("total_rss", "total_cache") if v1 else ("anon", "file")
        return sum(field_of(text, name) for name in (names if self._counts_cache else names[:1]))

    def _traffic(self) -> DiskTraffic | None:
        """What all jobs so far have had read and written; None where the group does not count it."""
        if "" not in self._paths:
            return None
        try:
            return disk_traffic(read_file(os.path.join(self._paths[""], "io.stat")))
        except OSError:
            return None

    def _own_traffic(self) -> DiskTraffic:
        """The present job's."""
        now, before = self._traffic(), self._traffic_before
        if now is None:
            return DiskTraffic()
        return DiskTraffic(
            max(0, now.read - before.read),
            max(0, now.written - before.written),
            max(0, (now.reads or 0) - (before.reads or 0)),
            max(0, (now.writes or 0) - (before.writes or 0)),
        )

    def peak(self) -> int:
        """The most memory, with caches, that the present job ever had; 0 where the kernel does not say."""
        name = "memory.max_usage_in_bytes" if self.trees.version == 1 else "memory.peak"
        text = self._file("memory" if self.trees.version == 1 else "", name).strip()
        return int(text) if is_number(text) else 0

    def oom_descriptor(self) -> int | None:
        """A descriptor that becomes readable when the present job has run out of memory.

        None where there is none (version 2, for one).
        """
        return self._oom_fd if self._oom_fd >= 0 else None

    def _arm_oom(self) -> None:
        """Have such a descriptor, for all jobs of the claim, with nothing of an earlier job in it."""
        path = self._paths.get("memory")
        if self.trees.version != 1 or path is None:
            return
        if self._oom_fd >= 0:
            try:
                os.eventfd_read(self._oom_fd)
            except BlockingIOError:
                pass
            return
        # Version 1 tells by eventfd, registered in one line: EVENTFD CONTROL_FD (memory.txt, "OOM notifications").
        eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            control = os.open(os.path.join(path, "memory.oom_control"), os.O_RDONLY | os.O_CLOEXEC)
            try:
                write_file(os.path.join(path, "cgroup.event_control"), f"{eventfd} {control}")
            finally:
                os.close(control)
        except OSError:
            os.close(eventfd)
        else:
            self._oom_fd = eventfd

    # ---- what is done to it

    @property
    def can_freeze(self) -> bool:
        """Whether the group can be frozen whole."""
        return "freezer" in self._paths or "" in self._paths

    @property
    def is_frozen(self) -> bool:
        """Whether its processes stand still."""
        return self._frozen

    def freeze(self, frozen: bool) -> None:
        """Freeze or thaw all its processes."""
        self._frozen = frozen
        try:
            if "freezer" in self._paths:
                write_file(os.path.join(self._paths["freezer"], "freezer.state"), "FROZEN" if frozen else "THAWED")
            elif "" in self._paths:
                write_file(os.path.join(self._paths[""], "cgroup.freeze"), "1" if frozen else "0")
        except FileNotFoundError:
            pass

    def kill(self) -> int:
        """Send SIGKILL to all; how many were there. Frozen processes are thawed, or the signal would wait."""
        members = self.members()
        if not members:
            return 0
        if "" in self._paths:
            try:
                # In one go, forks included; the file came with Linux 5.14.
                write_file(os.path.join(self._paths[""], "cgroup.kill"), "1")
            except OSError:
                send(members, signal.SIGKILL)
        else:
            self.freeze(True)  # nobody forks while the signals go round
            send(self.members(), signal.SIGKILL)
        self.freeze(False)
        return len(members)

    def close(self) -> None:
        """Leave the group as it is, and hold nothing of it open."""
        self._close_files()
        self._forget_oom()

    def remove(self) -> None:
        """Remove the group; it has to be empty, but the last process may not have been collected yet."""
        self._close_files()
        self._forget_oom()
        self._limits = None
        for path in self._paths.values():
            _remove_group(path)

    def _forget_oom(self) -> None:
        if self._oom_fd >= 0:
            os.close(self._oom_fd)
        self._oom_fd = -1


def _remove_group(path: str) -> None:
    """Remove a group and those that a job has made inside it."""
    for _ in range(REMOVE_TRIES_MAX):
        try:
            for inner in _groups_below(path):
                os.rmdir(inner)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            # EBUSY is a process that was killed and has not been collected yet.
            if error.errno != errno.EBUSY:
                return
            time.sleep(REMOVE_PAUSE_S)


def _groups_below(path: str) -> Iterable[str]:
    """The groups below a path and itself, innermost first."""
    for directory, _, _ in os.walk(path, topdown=False):
        yield directory
