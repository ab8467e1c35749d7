"""This side of a shell in a job: the user's terminal made raw, and the two ways that bytes go.

The shell's output comes as a stream on one connection; a thread sends what is typed on another, so that neither ever
waits for the other.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final

from pool.base.errors import PeerError
from protocol.messages.live import SHELL_CHUNK_BYTES, OpenShell, ResizeShell, ShellInput, ShellOutput
from protocol.rpc.blocking import BlockingPeer

SILENCE_S: Final = 3600.0 * 24 * 365
_STDIN: Final = 0


class Terminal:
    """Standard input and output; as a terminal, it passes every key on while a shell is there."""

    def __init__(self, *, wanted: bool) -> None:
        self.is_one = wanted and os.isatty(0) and os.isatty(1)
        self._before: list[Any] | None = None
        # A signal may come at any moment: its handler only writes a byte, and the thread that waits for keys reads it.
        self.resized, self._resize = os.pipe()

    def __enter__(self) -> Terminal:
        if self.is_one:
            signal.signal(signal.SIGWINCH, self._on_resize)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()
        if self.is_one:
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(self._resize, b"x")

    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        if not self.is_one:
            return 0, 0
        with suppress(OSError):
            size = os.get_terminal_size(1)
            return size.lines, size.columns
        return 24, 80

    def make_raw(self) -> None:
        """Every key goes to the shell."""
        if self.is_one:
            import tty

            self._before = termios.tcgetattr(_STDIN)
            tty.setraw(_STDIN, termios.TCSADRAIN)  # what was typed meanwhile counts

    def restore(self) -> None:
        """As it was."""
        if self._before is not None:
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._before)
            self._before = None


class ShellSession:
    """A shell, from its begin to its end."""

    def __init__(
        self, peer: BlockingPeer, connect: Callable[[], BlockingPeer], request: OpenShell, terminal: Terminal
    ) -> None:
        self._peer, self._connect, self._request, self._terminal = peer, connect, request, terminal
        self.begun = False

    def run(self) -> int:
        """Show what the shell prints; its exit status at its end."""
        # A shell may be silent for days; that its connection lives is known by pings.
        for item in self._peer.stream(self._request, silence=SILENCE_S):
            if not self.begun:
                self.begun = True
                self._begin(item)
            _write(1, item.data)
            _write(2, item.error)
            if item.status is not None:
                code = os.waitstatus_to_exitcode(item.status)
                # As a shell tells of a program that a signal ended.
                return code if code >= 0 else 128 - code
        return 255

    def _begin(self, first: ShellOutput) -> None:
        if not self._request.command:
            if first.slot:
                _write(1, f"Welcome to {first.slot}!\n".encode())
            if first.pids:
                _write(1, f"Your condor job is running with pid(s) {' '.join(map(str, first.pids))}.\n".encode())
        self._terminal.make_raw()
        threading.Thread(target=self._pass_on_what_is_typed, daemon=True).start()

    def _pass_on_what_is_typed(self) -> None:
        """The other thread: until nothing more is typed, or nobody listens."""
        request = self._request
        ids = {"job_id": request.job_id, "node": request.node, "shell": request.shell}
        resized = self._terminal.resized
        with suppress(PeerError, OSError), self._connect() as peer:
            while True:
                ready, _, _ = select.select([_STDIN, resized], [], [])
                if resized in ready:
                    os.read(resized, 64)
                    rows, columns = self._terminal.size()
                    peer.call(ResizeShell(**ids, rows=rows, columns=columns))  # type: ignore[arg-type]  # one dict
                if _STDIN in ready:
                    data = os.read(_STDIN, SHELL_CHUNK_BYTES)
                    peer.call(ShellInput(**ids, data=data, over=not data), timeout=None)  # type: ignore[arg-type]
                    if not data:
                        return


def _write(fd: int, data: bytes) -> None:
    if data:
        (sys.stdout if fd == 1 else sys.stderr).flush()
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
