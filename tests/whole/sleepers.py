"""An execute host that is a virtual machine on a network of namespaces: it sleeps in earnest, and a packet wakes it.

No card of QEMU's wakes a machine. In place of its wake line there is a thread that listens on the guest's cable: it
hears what the card would hear, and where that has the card's magic packet, it has QEMU wake the machine.

In a suspend to idle (S1) QEMU's machine runs on with processors that stand still, which only its kernel can tell, and its
power button wakes it.

A test may be the one who sits before the machine: `order` runs a command in it, `lid_is_closed` has it sleep whatever its
startd does, and `clock_goes_on` moves the clock that goes on while it sleeps.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.whole.hosts import Host
from tests.whole.linux_guests import QEMU, Initramfs, Kernel, with_python
from tests.whole.networks import Network

HARDWARE: Final = "52:54:00:00:00:07"
MAGIC: Final = b"\xff" * 6 + bytes.fromhex(HARDWARE.replace(":", "")) * 16
_ALL_PROTOCOLS: Final = 3
FRAME_BYTES_MAX: Final = 65536
TAP: Final = "tap0"
HOUR, DAY = 4, 7
"""Registers of the clock on a PC's board."""
CARD, DRIVER = "i82558b", "e100"
"""The one of QEMU's cards of which Linux says that a packet would wake the machine."""
BUTTON: Final = "button"
FROZEN: Final = "Freezing remaining freezable tasks completed"
"""The last that the kernel says before it is idle."""
WAKE_ON_LAN: Final = """\
import fcntl, socket, struct, array
request = array.array("B", struct.pack("III6x", 6, 0, 0x20))  # ETHTOOL_SWOL, WAKE_MAGIC
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP", b"eth0", request.buffer_info()[0]))
"""
"""What `ethtool -s eth0 wol g` does."""
INIT: Final = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /sbin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /run
chmod 1777 /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for module in {modules}; do insmod /modules/$module.ko; done
hostname {name}; ip link set lo up; ip address add {address}/24 dev eth0; ip link set eth0 up
{python} /wake_on_lan
(while read -r order; do eval "$order"; done < /dev/ttyS1) &
cd /; POOL_DIR={directory} {python} -m daemons master --dir {directory} &
wait $!; echo the master has ended with status $?; while true; do sleep 3600; done
"""


class Control:
    """QEMU's control socket (QMP)."""

    def __init__(self, mine: socket.socket) -> None:
        self._socket, self._lines, self._lock = mine, mine.makefile("r"), threading.Lock()
        self._lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: Any) -> Any:
        """What QEMU answers."""
        with self._lock:
            self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
            while line := self._lines.readline():
                answer = json.loads(line)
                if "event" not in answer:
                    return answer["return"]
        raise AssertionError("QEMU has ended")

    def close(self) -> None:
        """Let go of it."""
        self._lines.close()


class Guest:
    """The running machine. `woken_by` has the packets that have woken it."""

    def __init__(self, control: Control, cable: socket.socket, orders: socket.socket, console: Path) -> None:
        self._control, self._cable, self._orders, self._console = control, cable, orders, console
        self.woken_by: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def sleeps(self) -> bool:
        """Whether QEMU or its kernel says so: its processor stands still until something wakes it."""
        return self._is_suspended() or self._is_idle()

    def _is_suspended(self) -> bool:
        return bool(self._control.ask("query-status")["status"] == "suspended")

    def _is_idle(self) -> bool:
        said = self._console.read_text(errors="replace").rpartition("PM: suspend entry (s2idle)")
        return bool(said[1]) and FROZEN in said[2] and "PM: suspend exit" not in said[2]

    def order(self, command: str) -> None:
        """Have its shell run this, as root."""
        self._orders.sendall(f"{command}\n".encode())

    def lid_is_closed(self) -> None:
        """It sleeps, whether its startd wants to or not."""
        self.order("echo mem > /sys/power/state")

    def wake(self) -> None:
        """Somebody opens the lid, or presses the power button."""
        self._control.ask("system_wakeup" if self._is_suspended() else "system_powerdown")

    def clock_goes_on(self, hours: int) -> None:
        """While it sleeps: the clock of its board is later then, without anybody having to wait."""
        day, hour = self._cmos(DAY), self._cmos(HOUR)
        later = hour + hours
        self._set_cmos(HOUR, later % 24)
        self._set_cmos(DAY, day + later // 24)

    def _cmos(self, register: int) -> int:
        self._board(f"o /b 0x70 {register:#x}")
        said = self._board("i /b 0x71").rpartition("=")[2]
        return int(f"{int(said, 16):x}")  # two decimal digits, of four bits each

    def _set_cmos(self, register: int, value: int) -> None:
        self._board(f"o /b 0x70 {register:#x}")
        self._board(f"o /b 0x71 {int(str(value), 16):#x}")

    def _board(self, line: str) -> str:
        return str(self._control.ask("human-monitor-command", **{"command-line": line}))

    def _listen(self) -> None:
        """Be the wake line of its card, until the cable is taken away."""
        with suppress(OSError):
            while frame := self._cable.recv(FRAME_BYTES_MAX):
                if MAGIC in frame and self.sleeps():
                    self.woken_by.append(frame)
                    self.wake()


def _init(kernel: Kernel, host: Host) -> bytes:
    """What the guest has more than any other: its card, its name and the host's directory."""
    guest = Initramfs()
    modules = dict(kernel.module(DRIVER)) | dict(kernel.module(BUTTON))
    for name, content in modules.items():
        guest.write(f"/modules/{name}.ko", content)
    guest.write("/wake_on_lan", WAKE_ON_LAN.encode())
    words = {"name": host.name, "address": host.address, "directory": host.directory, "python": sys.executable}
    guest.write("/init", INIT.format(modules=" ".join(modules), **words).encode(), 0o755)
    guest.copy_tree(host.directory)
    return guest.archive()


@contextmanager
def asleep_when_idle(net: Network, kernel: Kernel, host: Host) -> Iterator[Guest]:
    """The host, which has joined its pool, as a guest on the network, for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="guest-") as directory, _cable(net) as cable:
        initramfs, console = Path(directory, "initramfs"), Path(directory, "console")
        initramfs.write_bytes(with_python() + _init(kernel, host))
        (ours, its), (orders, its_orders) = socket.socketpair(), socket.socketpair()
        fds = its.fileno(), its_orders.fileno()
        command = _command(kernel, initramfs, console, fds)
        with (
            ours,
            its,
            orders,
            its_orders,
            subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=fds) as process,
        ):
            its.close()
            its_orders.close()
            try:
                with closing(Control(ours)) as control:
                    yield Guest(control, cable, orders, console)
            finally:
                process.kill()
                print(console.read_text(errors="replace"))  # shown where the test fails


@contextmanager
def _cable(net: Network) -> Iterator[socket.socket]:
    """A port of the network for QEMU, and what hears all that goes to it."""
    with net.plugged(TAP), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as cable:
        cable.bind((TAP, 0))
        yield cable


def _command(kernel: Kernel, initramfs: Path, console: Path, fds: tuple[int, int]) -> list[str]:
    control, orders = fds
    words = f"""
    {QEMU} -accel tcg -machine pc -m 1024 -nodefaults -display none -no-reboot
    -kernel {kernel.image} -initrd {initramfs}
    -netdev tap,id=net,ifname={TAP},script=no,downscript=no -device {CARD},netdev=net,mac={HARDWARE},romfile=
    -chardev file,id=console,path={console} -serial chardev:console
    -chardev socket,id=orders,fd={orders} -serial chardev:orders
    -chardev socket,id=control,fd={control} -mon chardev=control,mode=control
    """
    said = "console=ttyS0 loglevel=7 panic=-1 no_timer_check mem_sleep_default=deep no_console_suspend"
    return [*words.split(), "-append", said]
