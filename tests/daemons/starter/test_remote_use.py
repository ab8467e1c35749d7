"""What programs do with files beyond reading and writing, where the files are at home: it works, or fails as the manual says."""

from __future__ import annotations

import os
import shutil

import pytest

from daemons.host.namespaces import can_isolate

from .bench import bench
from .test_remote_io import code, ended, program, put

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not can_isolate() or not os.path.exists("/dev/fuse"), reason="file systems take root's rights and /dev/fuse"
    ),
]

CALLS = r"""
import ctypes, errno, fcntl, mmap, os, shutil, signal, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)

def made(name, data=b""):
    with open(name, "wb") as file:
        file.write(data)
    return name

def read(name):
    with open(name, "rb") as file:
        return file.read()

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result

def shared_mapping():
    with open("mapped", "w+b") as file:
        file.truncate(10_000)
        with mmap.mmap(file.fileno(), 10_000) as mapping:
            mapping[9_000:9_003] = b"end"
            os.pwrite(file.fileno(), b"both", 10)
            seen = bytes(mapping[10:14])
    return seen, read("mapped")[9_000:9_003]

def renamed_over_an_open_file():
    with open(made("one", b"old")) as file:
        os.rename(made("other", b"new"), "one")
        return file.read(), read("one")

def rename_with(flags):
    return checked(libc.renameat2(-100, made("from").encode(), -100, made("to").encode(), flags))

def appended_by_two():
    first, second = (os.open("appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(2))
    for _ in range(3):
        os.write(first, b"a")
        os.write(second, b"b")
    return read("appended")

def truncated_while_open():
    with open(made("cut", b"0123456789"), "r+b") as file:
        file.truncate(4)
        file.truncate(8)
        return file.read(), os.stat("cut").st_size

def locked(lock):
    with open(made("locked"), "r+b") as file:
        lock(file, fcntl.LOCK_EX)
        if (pid := os.fork()) == 0:
            with open("locked", "r+b") as again:
                try:
                    lock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    os._exit(error.errno)
                os._exit(0)
        return errno.errorcode[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]

def hard_link():
    os.link(made("linked", b"1"), "second")
    with open("second", "ab") as file:
        file.write(b"2")
    return os.stat("linked").st_nlink, os.path.samefile("linked", "second"), read("linked")

def sparse():
    with open("holes", "w+b") as file:
        file.seek(10_000_000)
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())
        status = os.fstat(file.fileno())
    return status.st_size, status.st_blocks < 1000

def allocated():
    fd = os.open("allocated", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 100_000)
    return os.stat("allocated").st_size

def hole_punched():
    return checked(libc.fallocate(os.open("holes", os.O_RDWR), 3, ctypes.c_long(0), ctypes.c_long(4096)))

def modes():
    before = os.umask(0o027)
    os.close(os.open("new", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir("group")
    os.umask(before)
    os.chmod("group", 0o2755)
    os.mkdir("group/below")
    return [oct(os.stat(name).st_mode) for name in ("new", "group", "group/below")]

def times():
    os.utime(made("timed"), ns=(1_000_000_001, -2_000_000_003))
    status = os.stat("timed")
    return status.st_atime_ns, status.st_mtime_ns

def written_by_threads():
    fd = os.open("threads", os.O_RDWR | os.O_CREAT)

    def write(number):
        for at in range(number, 400, 8):
            os.pwrite(fd, bytes([number]) * 1000, at * 1000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return read("threads") == b"".join(bytes([at % 8]) * 1000 for at in range(400))

def removed_while_listed():
    os.mkdir("many")
    for number in range(300):
        made(f"many/{number}")
    with os.scandir("many") as entries:
        for entry in entries:
            os.unlink(entry)
    os.rmdir("many")

def listed_when_gone():
    os.mkdir("gone")
    directory = os.open("gone", os.O_RDONLY)
    os.rmdir("gone")
    return os.listdir(directory)

def read_only_directory():
    os.mkdir("closed")
    made("closed/inner")
    os.chmod("closed", 0o555)
    os.unlink("closed/inner")

def counted_by_processes():
    made("counter", b"0")
    children = []
    for _ in range(4):
        children.append(os.fork())
        if not children[-1]:
            for _ in range(10):
                with open("counter", "r+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    count = int(file.read())
                    file.seek(0)
                    file.write(str(count + 1))
            os._exit(0)
    return [os.waitpid(child, 0)[1] for child in children], read("counter")

def waits_for_lock(lock):
    with open(made("waited"), "r+b") as file:
        lock(file, fcntl.LOCK_EX)
        told, tells = os.pipe()
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
            with open("waited", "r+b") as again:
                os.write(tells, b"!")
                lock(again, fcntl.LOCK_EX)
                os._exit(0)
        os.read(told, 1)
        while open(f"/proc/{pid}/stat").read().split()[2] != "S":
            pass
        os.kill(pid, signal.SIGUSR1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def deeper_than_a_path():
    top = os.getcwd()
    for _ in range(50):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)
    made("file", b"deep")
    found = read("file"), len(os.getcwd()) - len(top)
    os.chdir(top)
    subprocess.run(["rm", "-r", "d" * 100], check=True)
    return found

def names():
    odd = [b"a b", b"\xff\xfe", b"new\nline", b"-rf", b"*", b"...", b"n" * 255]
    os.mkdir("odd")
    for name in odd:
        made(b"odd/" + name, name)
    return sorted(os.listdir(b"odd")) == sorted(odd), all(read(b"odd/" + name) == name for name in odd)

def symbolic_links():
    os.symlink("second link", "first link")
    os.symlink("first link", "second link")
    os.symlink("../linked", "group/up")
    os.symlink("x" * 4095, "long")
    return os.path.exists("first link"), read("group/up"), len(os.readlink("long"))

def holes_looked_for():
    fd = os.open("holes", os.O_RDONLY)
    return os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE)

def removed_while_open():
    with open(made("removed", b"kept"), "r+b") as file:
        os.unlink("removed")
        hidden = [name for name in os.listdir(".") if name.startswith(".remote_io")]
        found = file.read(), os.path.exists("removed"), len(hidden)
    return found

def executed():
    shutil.copy("/bin/sleep", "sleep")
    with subprocess.Popen(["./sleep", "60"]) as process:
        try:
            os.open("sleep", os.O_WRONLY)
        except OSError as error:
            return errno.errorcode[error.errno]
        finally:
            process.kill()

def watched():
    watch = checked(libc.inotify_init())
    checked(libc.inotify_add_watch(watch, b".", 0x100))
    made("seen")
    return len(os.read(watch, 1000)) > 0

def of_others():
    found = []
    for act in (
        lambda: read("theirs/secret"), lambda: read("theirs/public"), lambda: made("theirs/public"),
        lambda: made("theirs/new"), lambda: os.unlink("theirs/public"), lambda: os.chmod("theirs/public", 0o666),
        lambda: os.utime("theirs/public"), lambda: os.utime("theirs/public", (1, 1)),
        lambda: os.truncate("theirs/public", 0), lambda: os.listdir("theirs/closed"),
        lambda: os.stat("theirs/closed/file"), lambda: os.stat("theirs/secret").st_uid,
        lambda: os.access("theirs/public", os.W_OK),
    ):
        try:
            found.append(act())
        except OSError as error:
            found.append(errno.errorcode[error.errno])
    return found

for name, act in {
    "shared mapping": shared_mapping,
    "renamed over an open file": renamed_over_an_open_file,
    "RENAME_NOREPLACE": lambda: rename_with(1),
    "RENAME_EXCHANGE": lambda: rename_with(2),
    "appended by two": appended_by_two,
    "truncated while open": truncated_while_open,
    "flock": lambda: locked(fcntl.flock),
    "fcntl": lambda: locked(fcntl.lockf),
    "hard link": hard_link,
    "sparse": sparse,
    "posix_fallocate": allocated,
    "hole punched": hole_punched,
    "modes": modes,
    "times": times,
    "threads": written_by_threads,
    "removed while listed": removed_while_listed,
    "listed when gone": listed_when_gone,
    "read-only directory": read_only_directory,
    "setxattr": lambda: os.setxattr(made("file"), "user.a", b"1"),
    "listxattr": lambda: os.listxattr(made("file")),
    "fifo": lambda: os.mkfifo("fifo"),
    "socket": lambda: socket.socket(socket.AF_UNIX).bind("socket"),
    "O_TMPFILE": lambda: os.open(".", os.O_TMPFILE | os.O_RDWR),
    "directory into itself": lambda: os.rename("group", "group/below/again"),
    "name too long": lambda: made("n" * 256),
    "free space": lambda: os.statvfs(".").f_bavail > 0,
    "counted by processes": counted_by_processes,
    "a wait for flock is interrupted": lambda: waits_for_lock(fcntl.flock),
    "a wait for fcntl is interrupted": lambda: waits_for_lock(fcntl.lockf),
    "deeper than a path": deeper_than_a_path,
    "names": names,
    "symbolic links": symbolic_links,
    "loop": lambda: read("first link"),
    "link too long": lambda: os.symlink("x" * 4096, "longer"),
    "holes looked for": holes_looked_for,
    "removed while open": removed_while_open,
    "written while it is executed": executed,
    "inotify": watched,
    "of others": of_others,
}.items():
    try:
        print(f"{name}: {act()}")
    except OSError as error:
        print(f"{name}: {errno.errorcode[error.errno]}")
"""
TOLD = """
shared mapping: (b'both', b'end')
renamed over an open file: ('old', b'new')
RENAME_NOREPLACE: EEXIST
RENAME_EXCHANGE: EINVAL
appended by two: b'ababab'
truncated while open: (b'0123\\x00\\x00\\x00\\x00', 8)
flock: EAGAIN
fcntl: EAGAIN
hard link: (2, True, b'12')
sparse: (10000001, True)
posix_fallocate: 100000
hole punched: ENOTSUP
modes: ['0o100640', '0o42755', '0o42755']
times: (1000000001, -2000000003)
threads: True
removed while listed: None
listed when gone: ESTALE
read-only directory: EACCES
setxattr: ENOTSUP
listxattr: ENOTSUP
fifo: EPERM
socket: EPERM
O_TMPFILE: ENOTSUP
directory into itself: EINVAL
name too long: ENAMETOOLONG
free space: True
counted by processes: ([0, 0, 0, 0], b'40')
a wait for flock is interrupted: 7
a wait for fcntl is interrupted: 7
deeper than a path: (b'deep', 5050)
names: (True, True)
symbolic links: (False, b'12', 4095)
loop: ELOOP
link too long: ENAMETOOLONG
holes looked for: (0, 10000001)
removed while open: (b'kept', False, 1)
written while it is executed: ETXTBSY
inotify: True
of others: ['EACCES', b'p', 'EACCES', 'EACCES', 'EACCES', 'EPERM', 'EACCES', 'EPERM', 'EACCES', 'EACCES', 'EACCES', 0, False]
"""
TOOLS = """set -ex
export HOME=$PWD
git init -q repository; cd repository; git config user.email a@b; git config user.name a
echo text > file; git add file; git commit -q -m one; git gc -q; git fsck; git clone -q . ../clone; cd ..
test "$(cat clone/file)" = text
sqlite3 database "create table t(a); insert into t values (1), (2);"
test "$(sqlite3 database "pragma journal_mode = wal; insert into t values (5); select sum(a) from t;")" = "wal
8"
printf 'all: made\\nmade: first second\\n\\tcat first second > made\\nfirst second:\\n\\techo $@ > $@\\n' > Makefile
make -s -j 4; make -q
mkdir tree; echo 1 > tree/file; ln -s file tree/link; ln tree/file tree/second; chmod 711 tree/file
tar cf tree.tar tree; mkdir unpacked; tar xpf tree.tar -C unpacked; tar df tree.tar -C unpacked
test "$(stat -c %a%h unpacked/tree/second)" = 7112
cp -a tree copied; diff -r tree copied; sed -i s/1/2/ copied/file; test "$(cat copied/file)" = 2
flock lock true
rm -r repository clone unpacked copied
"""


async def test_calls_that_files_know_do_what_they_do_at_home() -> None:
    async with bench(agent=True) as made:
        for name, mode in (("secret", 0o600), ("public", 0o644), ("closed/file", 0o644)):
            path = made.iwd / "theirs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"p")
            path.chmod(mode)
        (made.iwd / "theirs" / "closed").chmod(0o700)
        assert (await program(made, CALLS)).splitlines() == TOLD.split("\n")[1:-1]


@pytest.mark.skipif(
    not all(map(shutil.which, ("git", "sqlite3", "make"))), reason="git, sqlite3 and make are the tools"
)
async def test_tools_that_know_nothing_of_it_work_there() -> None:
    async with bench(agent=True) as made:
        put(made.iwd / "tools.sh", TOOLS.encode())
        end = await ended(made, "sh tools.sh")
        assert code(end) == 0, (made.iwd / "err").read_text()
