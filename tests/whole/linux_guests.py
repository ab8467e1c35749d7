"""Linux in QEMU, made of what is here: a kernel of the distribution's, its busybox, and an initramfs that is all of the guest.

An initramfs is memory, so that a guest which sleeps has nothing but its memory and its cards to find again. What goes
into one: `with_python` has this interpreter, what this checkout needs to run a master, a startd and starters, and this
checkout, all in the places where they are here.

The kernel is the newest of linux-image-amd64 below / or below the directory that POOL_GUEST_KERNEL names, into which
`dpkg -x` has put the package.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
BUSYBOX: Final = Path("/bin/busybox")
OWN_PACKAGES: Final = ("daemons", "minipool", "pool", "protocol")
NOT_IN_GUESTS: Final = frozenset(
    {"numpy", "site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo"}
)
"""numpy is the negotiator's alone."""
QEMU: Final = "qemu-system-x86_64"
ACCOUNTS: Final = {
    "/etc/passwd": b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "/etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}


class Kernel(NamedTuple):
    """Its image, and the directory of its modules."""

    image: Path
    modules: Path

    def module(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The module after those that it needs."""
        (path,) = self.modules.rglob(f"{name}.ko*")
        content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        needs = re.search(rb"\bdepends=([^\0]*)\0", content)
        for needed in needs[1].decode().split(",") if needs and needs[1] else ():
            yield from self.module(needed)
        yield name, content


def kernel() -> Kernel | None:
    """The newest that is there."""
    below = Path(os.environ.get("POOL_GUEST_KERNEL", "/"))
    images = sorted((below / "boot").glob("vmlinuz-*-amd64"), key=lambda path: path.stat().st_mtime)
    found = (Kernel(image, below / "lib/modules" / image.name.removeprefix("vmlinuz-")) for image in reversed(images))
    return next((one for one in found if one.modules.is_dir() and "cloud" not in one.image.name), None)


def why_not() -> str:
    """Why no such guest runs here; empty where one does."""
    if shutil.which(QEMU) is None:
        return f"{QEMU} is not installed"
    if not BUSYBOX.exists():
        return "busybox (busybox-static) is not installed"
    if kernel() is None:
        return "there is no kernel of linux-image-amd64, below / or POOL_GUEST_KERNEL"
    return ""


class Initramfs:
    """Files of a guest by their names there, written as the kernel reads them: a cpio archive of the newc kind."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[bytes, tuple[int, ...]]] = {}

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """A file of root's."""
        self._add(name, stat.S_IFREG | mode, content)

    def link(self, name: str, to: str) -> None:
        """A symbolic link."""
        self._add(name, stat.S_IFLNK | 0o777, to.encode())

    def copy(self, path: Path) -> None:
        """A file, a link or a directory without its files, in the place where it is here."""
        there = path.lstat()
        if path.is_symlink():
            content = os.readlink(path).encode()
        else:
            content = path.read_bytes() if path.is_file() else b""
        self._add(str(path), there.st_mode, content, there)

    def copy_tree(self, top: Path) -> None:
        """A directory with all that is in it, but what no guest needs."""
        for at, directories, names in os.walk(top):
            directories[:] = [one for one in directories if one not in NOT_IN_GUESTS and not one.startswith("config-")]
            self.copy(Path(at))
            for name in names:
                self.copy(Path(at, name))

    def copy_libraries(self) -> None:
        """The shared objects that its programs and its own shared objects are linked with."""
        linked = [f"/{name}" for name, (content, _) in self._entries.items() if content.startswith(b"\x7fELF")]
        said = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=False).stdout
        for library in map(Path, sorted(set(re.findall(r"(/\S+) \(0x", said)))):
            self.write(str(library), library.read_bytes(), 0o755)

    def _add(self, name: str, mode: int, content: bytes, like: os.stat_result | None = None) -> None:
        name = name.lstrip("/")
        parent = os.path.dirname(name)
        if parent and parent not in self._entries:
            self._add(parent, stat.S_IFDIR | 0o755, b"")
        uid, gid, changed = (like.st_uid, like.st_gid, int(like.st_mtime)) if like else (0, 0, 0)
        self._entries[name] = content, (mode, uid, gid, 1, changed, len(content), 0, 0, 0, 0)

    def archive(self) -> bytes:
        """All of it; the kernel takes several archives, one after another."""
        entries = {**self._entries, "TRAILER!!!": (b"", (0,) * 10)}
        return b"".join(_entry(number, name, *of) for number, (name, of) in enumerate(entries.items(), 1))


def _entry(number: int, name: str, content: bytes, about: tuple[int, ...]) -> bytes:
    named = name.encode() + b"\0"
    numbers = (number, *about, len(named), 0)
    return _padded(b"070701" + b"".join(b"%08x" % one for one in numbers) + named) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)


def with_busybox() -> Initramfs:
    """A guest with busybox and the usual accounts; its /init is yet to be written."""
    guest = Initramfs()
    guest.copy(BUSYBOX)
    for name, content in ACCOUNTS.items():
        guest.write(name, content)
    return guest


@cache
def with_python() -> bytes:
    """A guest in which this checkout runs, but for its own /init."""
    guest = with_busybox()
    interpreter = Path(sys.executable)
    while interpreter.is_symlink():
        guest.copy(interpreter)
        interpreter = interpreter.parent / os.readlink(interpreter)
    guest.copy(interpreter)
    if (settings := Path(sys.prefix, "pyvenv.cfg")).exists():
        guest.copy(settings)
    guest.copy_tree(Path(sysconfig.get_path("stdlib")))
    for package in OWN_PACKAGES:
        guest.copy_tree(ROOT / package)
    for path in sorted(_installed("minipool", set())):
        guest.copy(path)
    guest.copy_libraries()
    return guest.archive()


def _installed(name: str, seen: set[str]) -> Iterator[Path]:
    """The files of a package and of all that it needs."""
    seen.add(name)
    found = distribution(name)
    yield from filter(Path.is_file, (Path(os.path.normpath(found.locate_file(file))) for file in found.files or ()))
    for needed in found.requires or ():
        other = re.match(r"[\w.-]+", needed)
        if other and "extra ==" not in needed and not seen & {other[0]} and other[0] not in NOT_IN_GUESTS:
            yield from _installed_if_there(other[0], seen)


def _installed_if_there(name: str, seen: set[str]) -> Iterator[Path]:
    try:
        yield from _installed(name, seen)
    except PackageNotFoundError:  # what another system or another Python needs
        return
