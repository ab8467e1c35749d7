"""The container engine of `engine.py`: it keeps images and containers, and runs containers as plain processes.

Run as `python3 engine_server.py DIRECTORY`. A client sends its words, and its standard files as descriptors.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NEVER = "0001-01-01T00:00:00Z"
WITH_VALUE = frozenset(
    [
        "--name",
        "--label",
        "-e",
        "--env-file",
        "--volume",
        "--device",
        "--workdir",
        "--user",
        "--group-add",
        "--hostname",
        "-p",
        "--pull",
        "--shm-size",
        "--entrypoint",
        "--security-opt",
        "--log-driver",
        "--network",
        "--ulimit",
    ]
)


class Refused(Exception):
    """The engine says no."""


@dataclass
class Container:
    """What `create` made."""

    name: str
    words: list[str]
    options: dict[str, list[str]]
    id: str = field(default_factory=lambda: uuid.uuid4().hex + uuid.uuid4().hex)
    process: subprocess.Popen[bytes] | None = None
    status: int = 0
    began: bool = False
    error: str = ""
    paused: bool = False

    def state(self) -> dict[str, Any]:
        """As `inspect` shows it."""
        running = self.process is not None and self.process.returncode is None
        return {
            "Status": "running" if running else "exited" if self.began else "created",
            "Running": running,
            "Paused": self.paused,
            "Pid": self.process.pid if running and self.process is not None else 0,
            "ExitCode": self.status,
            "StartedAt": "2026-01-01T00:00:00Z" if self.began else NEVER,
            "OOMKilled": "SCRIPTED_OOM=1" in self.options.get("-e", []) and self.began and not running,
            "Error": self.error,
        }


class Engine:
    """Images by name, containers by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self.images: dict[str, str] = {}
        self.tagged: dict[str, float] = {}
        self.containers: dict[str, Container] = {}

    def serve(self) -> None:
        """Answer clients, each in a thread."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.directory / "sock"))
        os.chmod(self.directory / "sock", 0o666)
        listener.listen(64)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        """One client."""
        with connection:
            data, fds, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            words = json.loads(data)
            with self.lock, open(self.directory / "calls", "a") as calls:
                calls.write(json.dumps(words) + "\n")
            try:
                fault = self.directory / "faults" / words[0]
                if fault.exists():
                    self.misbehave(fault, fds)
                status = self.do(words, fds)
            except Refused as error:
                os.write(fds[2], f"Error response from daemon: {error}\n".encode())
                status = 1
            for fd in fds:
                os.close(fd)
            try:
                connection.send(json.dumps(status).encode())
            except OSError:
                pass

    def misbehave(self, fault: Path, fds: list[int]) -> None:
        """What the test has written down for this command."""
        text = fault.read_text()
        while fault.exists() and text == "hang":
            time.sleep(0.05)
        if text != "hang":
            raise Refused(text)

    def do(self, words: list[str], fds: list[int]) -> int:
        """Carry one command out; its exit status."""
        command, rest = words[0], words[1:]
        if command == "version":
            self.say(fds, "Server: scripted")
        elif command == "reset":
            for box in list(self.containers.values()):
                self.end(box)
            self.images, self.tagged, self.containers = {}, {}, {}
        elif command in ("import", "load"):
            if command == "import":
                while os.read(fds[0], 65536):
                    pass
            self.images[rest[-1]] = uuid.uuid4().hex
        elif command == "run":
            status = self.directory / "run-status"
            return int(status.read_text()) if status.exists() else 37
        elif command == "pull":
            self.pull(rest[-1])
        elif command == "tag":
            self.images[rest[1]] = self.image(rest[0])
            self.tagged[rest[1]] = time.time()
        elif command == "rmi":
            self.image(rest[0])
            del self.images[rest[0]]
        elif command == "images":
            self.say(fds, "\n".join(f"{name} {id[:12]} 10MB" for name, id in self.images.items()))
        elif command == "image":
            self.image(rest[-1])
            self.say(fds, (self.directory / "architecture").read_text() if "foreign" in rest[-1] else "amd64")
        elif command == "create":
            self.say(fds, self.create(rest, fds[0]).id)
        elif command == "start":
            return self.start(self.container(rest[-1]), fds, interactive="--interactive" in rest)
        elif command == "exec":
            return self.execute(rest, fds)
        elif command == "inspect":
            self.inspect(rest, fds)
        elif command == "ps":
            label = rest[-1].removeprefix("label=")
            found = [box.id for box in self.containers.values() if label in box.options.get("--label", [])]
            self.say(fds, "\n".join(found))
        else:
            self.act(command, rest, fds)
        return 0

    def act(self, command: str, rest: list[str], fds: list[int]) -> None:
        """kill, pause, unpause, rm."""
        for name in rest[-1:] if command != "rm" else [word for word in rest if not word.startswith("-")]:
            box = self.container(name)
            if command == "rm":
                self.end(box)
                with self.lock:
                    self.containers.pop(box.name, None)
            elif not box.state()["Running"]:
                raise Refused(f"Container {box.id} is not running")
            elif command == "kill":
                number = int(rest[1]) if rest[1].isdigit() else int(getattr(signal, f"SIG{rest[1]}"))
                self.signal(box, number)
                self.signal(box, signal.SIGCONT)
            else:
                box.paused = command == "pause"
                self.signal(box, signal.SIGSTOP if box.paused else signal.SIGCONT)
            self.say(fds, name)

    def say(self, fds: list[int], text: str) -> None:
        """Print."""
        os.write(fds[1], f"{text}\n".encode() if text else b"")

    def image(self, name: str) -> str:
        """Its id."""
        if name not in self.images:
            raise Refused(f"No such image: {name}")
        return self.images[name]

    def container(self, name: str) -> Container:
        """By name or id."""
        with self.lock:
            for box in self.containers.values():
                if name in (box.name, box.id):
                    return box
        raise Refused(f"No such container: {name}")

    def pull(self, name: str) -> None:
        """From the registry, which is a file."""
        registry = self.directory / "registry"
        if name not in (registry.read_text().split() if registry.exists() else []):
            raise Refused(f"pull access denied for {name}, repository does not exist or may require 'docker login'")
        self.images.setdefault(name, uuid.uuid4().hex)

    def create(self, words: list[str], stdin: int) -> Container:
        """Read the options as docker does: what follows the image is its command."""
        options: dict[str, list[str]] = {}
        at = 0
        while words[at].startswith("-"):
            name, equals, value = words[at].partition("=")
            if not equals and name in WITH_VALUE:
                at += 1
                value = words[at]
            options.setdefault(name, []).append(value)
            if name == "--env-file":
                path = f"/proc/self/fd/{stdin}" if value == "/dev/stdin" else value
                options.setdefault("-e", []).extend(Path(path).read_text().splitlines())
            at += 1
        if words[at] not in self.images:
            self.pull(words[at])
        command = [*options.get("--entrypoint", []), *words[at + 1 :]]
        box = Container(options["--name"][0], command or ["/bin/echo", "the image's own program"], options)
        with self.lock:
            if box.name in self.containers:
                raise Refused(f"The container name {box.name} is already in use")
            self.containers[box.name] = box
        return box

    def start(self, box: Container, fds: list[int], *, interactive: bool) -> int:
        """Run it, attached; its exit status."""
        uid, gid = map(int, box.options["--user"][0].split(":"))
        identity: dict[str, Any] = {}
        if os.getuid() == 0:
            identity = {"user": uid, "group": gid, "extra_groups": list(map(int, box.options.get("--group-add", [])))}
        try:
            box.process = subprocess.Popen(
                box.words,
                cwd=self.on_host(box, box.options["--workdir"][0]),
                env={"PATH": "/usr/bin:/bin", **dict(e.split("=", 1) for e in box.options.get("-e", []))},
                stdin=fds[0] if interactive else subprocess.DEVNULL,
                stdout=fds[1],
                stderr=fds[2],
                start_new_session=True,
                **identity,
            )
        except OSError as error:
            said = f'exec: "{box.words[0]}": {os.strerror(error.errno or 0)}'
            box.status, box.error = 127, "" if (self.directory / "taciturn").exists() else said
            raise Refused(said) from None
        box.began = True
        (self.directory / "pids" / str(box.process.pid)).touch()
        code = box.process.wait()
        box.status = 128 - code if code < 0 else code
        return box.status

    def execute(self, words: list[str], fds: list[int]) -> int:
        """One more program in a running container."""
        name = next(at for at, word in enumerate(words) if word.startswith("HTCJob"))
        box = self.container(words[name])
        assert box.process is not None
        given = [words[at + 1] for at in range(name) if words[at] == "-e"]
        done = subprocess.run(
            words[name + 1 :],
            cwd=self.on_host(box, box.options["--workdir"][0]),
            env={"PATH": "/usr/bin:/bin", **dict(e.split("=", 1) for e in box.options.get("-e", []) + given)},
            stdin=fds[0],
            stdout=fds[1],
            stderr=fds[2],
            check=False,
        )
        return done.returncode

    def on_host(self, box: Container, path: str) -> str:
        """Where a directory of the container is."""
        for mount in box.options.get("--volume", []):
            host, inside = mount.split(":")[:2]
            if path == inside or path.startswith(inside + "/"):
                return host + path[len(inside) :]
        return path

    def inspect(self, rest: list[str], fds: list[int]) -> None:
        """By the format that is asked for."""
        wanted, names = rest[1], rest[2:]
        if "LastTagTime" in wanted:
            for id in names:
                times = [when for name, when in self.tagged.items() if self.images.get(name, "").startswith(id)]
                self.say(fds, f"sha256:{id} {max(times, default=0.0):020.6f}")
            return
        box = self.container(names[0])
        if "State" in wanted:
            self.say(fds, json.dumps(box.state()))
        elif "Ports" in wanted:
            ports = {f"{port}/tcp": [{"HostPort": str(40000 + int(port))}] for port in box.options.get("-p", [])}
            self.say(fds, json.dumps(ports))
        elif "Labels" in wanted:
            label = wanted.split('"')[1]
            found = [said.partition("=")[2] for said in box.options["--label"] if said.startswith(f"{label}=")]
            self.say(fds, found[0] if found else "<no value>")
        else:
            self.say(fds, box.id)

    def signal(self, box: Container, number: int) -> None:
        """To all processes of its session."""
        assert box.process is not None
        try:
            os.killpg(box.process.pid, number)
        except ProcessLookupError:
            pass

    def end(self, box: Container) -> None:
        """Kill it, and wait for that."""
        if box.process is not None and box.process.returncode is None:
            self.signal(box, signal.SIGKILL)
            self.signal(box, signal.SIGCONT)
            box.process.wait()


if __name__ == "__main__":
    Engine(Path(sys.argv[1])).serve()
