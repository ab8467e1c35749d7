"""Namespaces of jobs: the one module that unshares and mounts. All of it is root's.

The starter itself steps into new namespaces for the moment in which it makes the job's first process, and back. What it
mounts there ends with the job's last process, and nobody else ever sees it. A directory that a job's account names is
opened with that account's rights, and mounted by its descriptor: nothing is reached that the account does not reach.

Source: HTCondor's manual, "Configuration for Execution Points": "Per Job PID Namespaces"; the knobs
MOUNT_UNDER_SCRATCH, USE_PID_NAMESPACES and NO_JOB_NETWORKING; namespaces(7), mount_namespaces(7),
network_namespaces(7).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Final

from daemons.base.linux import children_of, status_fields
from daemons.host.account import Account, acting_as
from daemons.host.first_process import PATH, FirstProcess, start_first_process
from daemons.host.mounts import mounted_below, mounts
from pool.base.errors import PoolError, UserError
from pool.base.paths import is_below
from pool.execute.isolation import HomeMount, Isolation
from pool.execute.remote_io import objection

_CLONE_FS: Final = 0x00000200
_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWPID: Final = 0x20000000
_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
_MNT_DETACH: Final = 2
_SYS_MOVE_MOUNT, _SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT = 429, 430, 431, 432
"""The calls of the kernel that make and attach mounts by descriptor; their numbers are those of every machine."""
_SYS_OPEN_TREE, _OPEN_TREE_CLONE, _AT_RECURSIVE = 428, 1, 0x8000
_SYS_PIVOT_ROOT: Final = {"x86_64": 155}.get(os.uname().machine, 41)
READ_AHEAD_KB: Final = 1024
"""How much of a file at home the kernel asks for ahead of who reads it."""
_COVERED_MAX: Final = 4096
_CLOEXEC, _SET_FD, _CREATE, _NOSUID_NODEV_NOEXEC, _AT_FDCWD, _EMPTY_PATH = 1, 5, 6, 2 | 4 | 8, -100, 4
_NS_GET_USERNS: Final = 0xB701
"""Asks for the user namespace in which somebody had the right to make a namespace."""
_CAP_SYS_ADMIN: Final = 21
_KINDS: Final = ("user", "mnt", "ipc", "uts", "net", "pid")
_LOST: Final = 72
"""The exit status of a starter that cannot leave its job's namespaces."""
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class IsolationError(PoolError):
    """The job cannot be kept apart as it has to be."""


@cache
def can_isolate() -> bool:
    """Whether this process may make namespaces and mounts."""
    if os.geteuid() != 0:
        return False
    effective = status_fields(os.getpid()).get("CapEff", ["0"])
    return bool(int(effective[0], 16) >> _CAP_SYS_ADMIN & 1)


@contextmanager
def inside(isolation: Isolation, account: Account, entrances: Sequence[int] = ()) -> Iterator[FirstProcess | None]:
    """Be in the job's namespaces inside the `with`, in which nothing may be awaited.

    Gives the first process of the job's pid namespace, if it has one; whoever makes a child inside the `with` ends that
    afterwards. It enters the control group by `entrances`, if it is not born in it. IsolationError says what could not
    be made.
    """
    if not isolation.wanted:
        yield None
        return
    kinds = _kinds(isolation)
    with ExitStack() as opened:
        here = _opened(opened, ".", os.O_PATH | os.O_CLOEXEC)
        own = [(_opened(opened, f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds]
        _call("unshare", _libc.unshare(sum(kind for _, kind in kinds)))
        first: FirstProcess | None = None
        try:
            if isolation.offline:
                _raise_loopback()
            if isolation.processes:
                os.chdir("/")
                first = start_first_process(isolation.sandbox)
                for entrance in entrances:
                    os.write(entrance, b"%d" % first.pid)
            _furnish(isolation, account)
            if first is not None:
                _show_processes(first)
                first.begun()
            yield first
        except BaseException:
            if first is not None:
                first.end()
            raise
        finally:
            try:
                for fd, kind in own:
                    _call("setns", _libc.setns(fd, kind))
                os.fchdir(here)
            except (PoolError, OSError):
                os._exit(_LOST)  # neither here nor there: the startd sweeps


def _kinds(isolation: Isolation) -> list[tuple[str, int]]:
    """The kinds of namespaces that the job has of its own, as /proc calls them and as the kernel's calls do."""
    wanted = [
        ("mnt", _CLONE_NEWNS, True),
        ("pid", _CLONE_NEWPID, isolation.processes),
        ("net", _CLONE_NEWNET, isolation.offline),
    ]
    return [(name, kind) for name, kind, is_wanted in wanted if is_wanted]


def _raise_loopback() -> None:
    """Let processes of a new network namespace talk to each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(PermissionError):
        # struct ifreq: the name in 16 bytes, the flags. Root without CAP_NET_ADMIN leaves it down, as it began.
        fcntl.ioctl(asking, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def image_process(pid: int) -> int | None:
    """The first process in the image that a process of an account's was put into; None while there is none.

    Apptainer without rights of root's makes a user namespace, and below it a child whose mounts and root are the
    image's. What is root's, by set-user-id, is none.
    """
    found, own = None, _namespace(os.getpid(), "user")
    while children := children_of(pid):
        parent, pid = pid, min(children)
        user = _namespace(pid, "user")
        if user not in (None, own) and user == _namespace(parent, "user") and _has_other_root(pid, parent):
            found = pid
    return found


def _has_other_root(pid: int, parent: int) -> bool:
    with suppress(OSError):
        roots = (os.stat(f"/proc/{one}/root/.") for one in (pid, parent))
        return _namespace(pid, "mnt") != _namespace(parent, "mnt") and not os.path.samestat(*roots)
    return False


def account_namespaces(pid: int) -> list[str]:
    """The kinds of namespaces, as /proc calls them, that a process's account may enter and this process is not in."""
    other = [kind for kind in _KINDS if _namespace(pid, kind) not in (None, _namespace(os.getpid(), kind))]
    return [kind for kind in other if kind == "user" or not _is_roots_of(pid, kind)]


def _is_roots_of(pid: int, kind: str) -> bool:
    with ExitStack() as opened:
        return _is_roots(_opened(opened, f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC))


def _namespace(pid: int, kind: str) -> str | None:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    return None


@contextmanager
def joined(pid: int, isolation: Isolation, *, image: bool = False) -> Iterator[None]:
    """Be in the namespaces of a job's process inside the `with`, in which nothing may be awaited.

    Of one in an `image`, in those that are root's: into the others its account goes by itself.

    They must be those that `inside` made: UserError where the process has made others for itself. In a user namespace
    everybody may make them and mount there what he likes, also in place of what root opens, or of what a program with
    root's rights by its mode loads.
    """
    if not isolation.wanted:
        yield
        return
    kinds = _kinds(isolation)
    with ExitStack() as opened:
        here = _opened(opened, ".", os.O_PATH | os.O_CLOEXEC)
        flags = os.O_RDONLY | os.O_CLOEXEC
        if image:
            kinds = [(name, kind) for name, kind in kinds if name != "mnt" and _is_roots_of(pid, name)]
        theirs = [(_opened(opened, f"/proc/{pid}/ns/{name}", flags), kind) for name, kind in kinds]
        if not all(_is_roots(fd) for fd, _ in theirs):
            raise UserError(
                "The job's program is in namespaces that it has made for itself: no shell can be opened there."
            )
        own = [(_opened(opened, f"/proc/self/ns/{name}", flags), kind) for name, kind in kinds]
        try:
            for fd, kind in theirs:
                _call("setns", _libc.setns(fd, kind))
            yield
        finally:
            try:
                for fd, kind in own:
                    _call("setns", _libc.setns(fd, kind))
                os.fchdir(here)
            except (PoolError, OSError):
                os._exit(_LOST)  # neither here nor there: the startd sweeps


def _is_roots(namespace: int) -> bool:
    """Whether only somebody with rights in this process's own user namespace could make that namespace."""
    try:
        # ioctl_ns(2): the owner decides who had the right to mount there.
        owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    except PermissionError:  # of a user namespace that is not below this one
        return False
    try:
        return os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user"))
    finally:
        os.close(owner)


def _opened(stack: ExitStack, path: str, flags: int) -> int:
    fd = os.open(path, flags)
    stack.callback(os.close, fd)
    return fd


def _furnish(isolation: Isolation, account: Account) -> None:
    """Mount what the job is to see."""
    mount("none", "/", flags=_MS_REC | _MS_SLAVE)
    with ExitStack() as opened:
        places = [
            (directory, _behind(opened, isolation.behind(directory), account))
            for directory in isolation.private
            if os.path.isdir(directory)
        ]
        # The private directories were opened before: behind the new tmpfs they could not be found by name.
        own = _opened(opened, isolation.sandbox, _DIRECTORY) if isolation.execute or isolation.place else -1
        if isolation.execute:
            _hide_others(isolation, own)
        for directory, source in places:
            mount(f"/proc/self/fd/{source}", directory, flags=_MS_BIND, named=isolation.behind(directory))
        if isolation.place:
            # Never a path that somebody names: whoever does could cover what programs with rights of their own read.
            os.makedirs(isolation.place, 0o755, exist_ok=True)
            mount(f"/proc/self/fd/{own}", isolation.place, flags=_MS_BIND, named=isolation.sandbox)
    for path in isolation.hidden:
        if os.path.exists(path):
            mount("/dev/null", path, flags=_MS_BIND)
    if isolation.shared_memory and os.path.isdir("/dev/shm"):
        mount("tmpfs", "/dev/shm", kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=1777")
    for home in isolation.homes:
        _make_place(home.path, isolation, account)
        _mount_home(home, home.path)


def _mount_home(home: HomeMount, place: str) -> None:
    # Only the job's account gets in, root does not: no daemon can come to wait for a home that is out of reach.
    options = f"fd={home.device},rootmode=40000,user_id={home.uid},group_id={home.gid}"
    mount("home", place, kind="fuse", flags=_MS_NOSUID | _MS_NODEV, options=options)
    # 128 KiB at a time, which is usual, are many journeys; where /sys cannot be written it stays at that.
    device = next((one.device for one in reversed(mounts()) if (one.kind, one.source) == ("fuse", "home")), "")
    with suppress(OSError), open(f"/sys/class/bdi/{device}/read_ahead_kb", "w") as file:
        file.write(str(READ_AHEAD_KB))


def _make_place(path: str, isolation: Isolation, account: Account) -> None:
    """Have a directory there to mount on, in this namespace alone."""
    # A link of this machine may lead elsewhere than the name says.
    if reason := objection(os.path.realpath(path), os.path.dirname(isolation.sandbox)):
        raise IsolationError(f"cannot show {path} to the job: {reason}")
    there = path
    while not os.path.isdir(there):
        if os.path.lexists(there):
            raise IsolationError(f"cannot show {path} to the job: {there} is no directory on this machine")
        there = os.path.dirname(there)
    if there == path:
        return
    if any(is_below(there, directory) for directory in isolation.private):
        with acting_as(account):
            os.makedirs(path)
        return
    _cover(there, isolation.sandbox)
    os.makedirs(path)


def _cover(directory: str, staging: str) -> None:
    """Put a directory in its place that has the same in it, and takes more."""
    names = os.listdir(directory)
    if len(names) > _COVERED_MAX:
        raise IsolationError(f"{directory} has too many entries for a place to be made among them")
    target = directory if directory != "/" else staging
    with ExitStack() as opened:
        # Cloned before anything lies over them; what was removed since it was listed is not there.
        found, clones, links = list[tuple[str, os.stat_result]](), dict[str, int](), dict[str, str]()
        for name in names:
            path = os.path.join(directory, name)
            with suppress(FileNotFoundError):
                status = os.lstat(path)
                if stat.S_ISLNK(status.st_mode):
                    links[name] = os.readlink(path)
                else:
                    clones[name] = _clone(opened, path)
                found.append((name, status))
        mode = stat.S_IMODE(os.stat(directory).st_mode)
        mount("tmpfs", target, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options=f"mode={mode:o},size=1m")
        for name, status in found:
            place = os.path.join(target, name)
            if name in links:
                os.symlink(links[name], place)
                continue
            if stat.S_ISDIR(status.st_mode):
                os.mkdir(place)
            else:
                os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
            moved = _libc.syscall(_SYS_MOVE_MOUNT, clones[name], b"", _AT_FDCWD, os.fsencode(place), _EMPTY_PATH)
            _call(f"showing {place} again", moved)
        if directory == "/":
            here = os.fsencode(target)
            _call("changing the root", _libc.syscall(_SYS_PIVOT_ROOT, here, here))
            os.chdir("/")
            _call("leaving the former root", _libc.umount2(b".", _MNT_DETACH))


def _clone(stack: ExitStack, path: str) -> int:
    """What is there, with all that is mounted below it, by a descriptor."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    fd = int(_libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags))
    if fd < 0:
        if (number := ctypes.get_errno()) == errno.ENOENT:
            raise FileNotFoundError(number, os.strerror(number), path)
        raise IsolationError(f"taking up {path}: {os.strerror(number)}")
    stack.callback(os.close, fd)
    return fd


def _behind(stack: ExitStack, path: str, account: Account) -> int:
    """The directory in the sandbox that the job finds in place of the machine's."""
    with acting_as(account):
        try:
            os.makedirs(path, exist_ok=True)
            fd = _opened(stack, path, _DIRECTORY)
            os.chmod(path, 0o1777)
        except OSError as error:
            raise IsolationError(f"cannot make the private directory {path}: {error.strerror}") from None
    return fd


def _hide_others(isolation: Isolation, sandbox: int) -> None:
    """Of all sandboxes leave the job's own to be seen."""
    _let_go_of_others(isolation.execute, isolation.sandbox)
    mount("tmpfs", isolation.execute, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=0755,size=64k")
    os.makedirs(isolation.sandbox, 0o755)
    mount(f"/proc/self/fd/{sandbox}", isolation.sandbox, flags=_MS_BIND, named=isolation.sandbox)


def _let_go_of_others(execute: str, own: str = "") -> None:
    """File systems of other jobs do not stay for as long as this namespace's copy of their mounts does."""
    for path in mounted_below(execute):
        if path != execute and not (own and is_below(path, own)):
            unmount(path)


def _show_processes(first: FirstProcess) -> None:
    """Have /proc show the processes of that process's namespace, and no others."""
    if not mount_proc_for(first.pid):
        mount_proc_by_child()


def mount_proc_for(pid: int) -> bool:
    """Mount /proc as that process is to see it; whether this kernel (6.17 and later) lets anybody else do that."""
    with ExitStack() as opened:
        namespace = _opened(opened, f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        context = _libc.syscall(_SYS_FSOPEN, b"proc", _CLOEXEC)
        if context < 0:
            return False
        opened.callback(os.close, context)
        if _libc.syscall(_SYS_FSCONFIG, context, _SET_FD, b"pidns", None, namespace) != 0:
            return False
        if _libc.syscall(_SYS_FSCONFIG, context, _CREATE, None, None, 0) != 0:
            return False
        made = _libc.syscall(_SYS_FSMOUNT, context, _CLOEXEC, _NOSUID_NODEV_NOEXEC)
        if made < 0:
            return False
        opened.callback(os.close, made)
        return bool(_libc.syscall(_SYS_MOVE_MOUNT, made, b"", _AT_FDCWD, b"/proc", _EMPTY_PATH) == 0)


def mount_proc_by_child() -> None:
    """The same where only a process of the namespace can do it: a child that is born in it."""
    told, tell = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            try:
                mount("proc", "/proc", kind="proc", flags=_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
                os.write(tell, b"+")
            except PoolError as error:
                os.write(tell, str(error).encode())
            finally:
                os._exit(0)
    finally:
        os.close(tell)
    try:
        answer = os.read(told, 4096).decode(errors="replace")
    finally:
        os.close(told)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:  # somebody else has collected it
            pass
    if answer != "+":
        raise IsolationError(answer or "a process of the namespace died")


def begin_pids_after(number: int) -> None:
    """The next processes of the namespace in which this one makes its children have larger numbers than that."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"echo {number} > /proc/sys/kernel/ns_last_pid"], {"PATH": PATH})
    if os.waitpid(pid, 0)[1] != 0:
        raise IsolationError("the numbers of the job's processes cannot be chosen (/proc/sys/kernel/ns_last_pid)")


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "", named: str = "") -> None:
    """mount(2), whose failure is told in words."""
    told = f"mounting {named or source} on {target}"
    arguments = (os.fsencode(text) if text else None for text in (source, target, kind))
    source_, target_, kind_ = arguments
    _call(told, _libc.mount(source_, target_, kind_, ctypes.c_ulong(flags), os.fsencode(options) if options else None))


def unmount(target: str) -> None:
    """umount2(MNT_DETACH), whose failure is told in words; what is not mounted is no failure."""
    # Several may lie on one another at the same place.
    while _libc.umount2(os.fsencode(target), _MNT_DETACH) == 0:
        pass
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOENT):
        raise IsolationError(f"unmounting {target}: {os.strerror(number)}")


def try_mounts(directory: str) -> None:
    """Unshare and mount as for a job, in a thread that nobody needs afterwards; IsolationError says what is refused."""
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    mount("none", "/", flags=_MS_REC | _MS_SLAVE)
    mount(directory, directory, flags=_MS_BIND)
    mount("tmpfs", directory, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=0755,size=64k")


def try_homes(directory: str, device: int) -> None:
    """Mount a file system that is served by a process, as for a job whose files stay where they are."""
    _call("unshare", _libc.unshare(_CLONE_NEWNS))
    mount("none", "/", flags=_MS_REC | _MS_SLAVE)
    _mount_home(HomeMount(directory, device, 0, 0), directory)


def try_pids() -> None:
    """Make a first process that mounts its /proc, in a thread that nobody needs afterwards."""
    _call("unshare", _libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID))
    mount("none", "/", flags=_MS_REC | _MS_SLAVE)
    mount_proc_by_child()


def try_network() -> None:
    """Leave the machine's network, in a thread that nobody needs afterwards."""
    _call("unshare", _libc.unshare(_CLONE_NEWNET))


class OwnMounts:
    """A namespace in which this process, and what it starts from now on, can mount what nobody else sees.

    `leave` takes it back to where it was, and what was mounted goes when its last process does, however that ends.
    """

    def __init__(self, execute: str) -> None:
        self._outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _call("unshare", _libc.unshare(_CLONE_NEWNS))
            mount("none", "/", flags=_MS_REC | _MS_SLAVE)
            _let_go_of_others(execute)
        except PoolError:
            self.leave()
            raise

    def leave(self) -> None:
        """Be outside again."""
        if self._outside < 0:
            return
        try:
            with ExitStack() as opened:
                here = _opened(opened, ".", os.O_PATH | os.O_CLOEXEC)
                _call("unshare", _libc.unshare(_CLONE_FS))  # a thread that shares it would not let this one go
                _call("setns", _libc.setns(self._outside, _CLONE_NEWNS))
                os.fchdir(here)
        finally:
            os.close(self._outside)
            self._outside = -1


def _call(what: str, result: int) -> None:
    if result != 0:
        raise IsolationError(f"{what}: {os.strerror(ctypes.get_errno())}")
