"""A container engine for tests: a program that takes docker's words, and a server that keeps what it was told.

Containers are plain processes of the machine, below the server and not below who asked for them; they outlive both, as
those of a real engine do. What was asked is written down; what goes wrong is decided by the test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = "Docker version 99.1.2, build scripted"
DEADLINE_S = 60.0
_CLIENT = """#!/usr/bin/python3 -IS
import json, socket, sys
words = sys.argv[1:]
if words == ["-v"]:
    print({version!r})
    sys.exit()
link = socket.socket(socket.AF_UNIX)
try:
    link.connect({address!r})
except OSError:
    sys.exit("Cannot connect to the Docker daemon at unix://{address}. Is the docker daemon running?")
socket.send_fds(link, [json.dumps(words).encode()], [0, 1, 2])
said = link.recv(100)
sys.exit(json.loads(said) if said else "error during connect: EOF")
"""


class ScriptedEngine:
    """One engine, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "docker"
        self.server: subprocess.Popen[bytes] | None = None
        for name in ("faults", "pids"):
            (directory / name).mkdir()
        self.program.write_text(_CLIENT.format(version=VERSION, address=str(directory / "sock")))
        self.program.chmod(0o755)

    def start(self) -> None:
        """The engine is there."""
        (self.directory / "sock").unlink(missing_ok=True)
        script = Path(__file__).with_name("engine_server.py")
        self.server = subprocess.Popen(
            [sys.executable, "-I", str(script), str(self.directory)], stdin=subprocess.DEVNULL, cwd="/"
        )
        deadline = time.monotonic() + DEADLINE_S
        while self.ask("version").returncode:
            assert time.monotonic() < deadline, "the scripted engine does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """The engine is gone; its containers run on."""
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Use the program."""
        return subprocess.run([str(self.program), *words], capture_output=True, text=True, check=False, input="")

    def calls(self, command: str = "") -> list[list[str]]:
        """What it was asked to do."""
        file = self.directory / "calls"
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [words for words in found if not command or words[0] == command]

    def reset(self, *images: str) -> None:
        """As it was at the start, with these images in its registry."""
        if self.server is None:
            self.start()
        for file in (*(self.directory / "faults").iterdir(), self.directory / "taciturn"):
            file.unlink(missing_ok=True)
        self.ask("reset")
        (self.directory / "calls").unlink()
        self.registry(*images)

    def registry(self, *images: str) -> None:
        """What can be pulled."""
        (self.directory / "registry").write_text("\n".join(images))

    def fails(self, command: str, said: str) -> None:
        """From now on that command is refused in these words, or answers never (`hang`)."""
        (self.directory / "faults" / command).write_text(said)

    def works(self, command: str) -> None:
        """It does what it should again."""
        (self.directory / "faults" / command).unlink()

    def containers(self) -> list[str]:
        """Those that there are, by their ids."""
        return self.ask("ps", "-a", "-q", "--filter", "label=org.htcondorproject=True").stdout.split()

    def processes(self) -> list[int]:
        """The containers' first processes that still run."""
        found = []
        for file in (self.directory / "pids").iterdir():
            try:
                if Path(f"/proc/{file.name}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(int(file.name))
            except OSError:
                continue
        return found


@contextmanager
def scripted_engine(*images: str) -> Iterator[ScriptedEngine]:
    """An engine with a registry that has these images; nothing of it is left afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="minipool-engine-"))
    directory.chmod(0o755)
    engine = ScriptedEngine(directory)
    engine.registry(*images)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        for pid in engine.processes():
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(directory, ignore_errors=True)
