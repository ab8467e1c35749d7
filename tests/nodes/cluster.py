"""A pool of containers for a test: hosts on a network of their own, joined by tokens.

    with new_cluster() as cluster:
        cluster.start(execute=2)
        cluster.tool("submit", "condor_submit", "jobs.sub", user="alice", cwd="/home/alice")

All that is made carries a label, and is removed by it at the end; what a test run that was killed has left is removed
at the start of the next one. Jobs of all hosts share the directory EVIDENCE.
"""

from __future__ import annotations

import io
import shlex
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import docker
from docker.errors import APIError, NotFound

from pool.classad import ClassAd, parse_longs
from tests.nodes.image import BASE, image

T = TypeVar("T")

LABEL = "minipool.nodes"
OWNER = "minipool.nodes.owner"
EVIDENCE = "/evidence"
DEADLINE_S = 300.0
POLL_S = 0.5
_HOST = {
    # what a host with cgroups of its own needs, short of --privileged
    "cap_add": ["ALL"],
    "cap_drop": ["SYS_RESOURCE"],
    "security_opt": ["seccomp=unconfined"],
    "init": True,
}


class Cluster:
    """Containers `central`, `submit`, `execute1`, `execute2`, ...: each is a host of one pool."""

    def __init__(self, engine: Any, tag: str) -> None:
        self.engine, self.tag = engine, tag
        self.id = uuid.uuid4().hex[:10]
        self.labels = {LABEL: self.id, OWNER: _me()}
        self.hosts: dict[str, Any] = {}

    # ---- hosts

    def start(self, *, execute: int = 2, knobs: Mapping[str, str] | None = None) -> None:
        """Start all hosts; returns when the collector has the execute nodes' slots. `knobs` are for those."""
        self.network = self.engine.networks.create(f"minipool-{self.id}", driver="bridge", labels=self.labels)
        self.volume = self.engine.volumes.create(f"minipool-{self.id}", labels=self.labels)
        nodes = [f"execute{number + 1}" for number in range(execute)]
        self.run("central", "central")
        self.until(lambda: self.tool("central", "test", "-e", "/var/lib/minipool/run/ready"), "the central manager")
        self.tool("central", "chmod", "1777", EVIDENCE, check=True)
        self.run("submit", "submit")
        for node in nodes:
            self.run(node, "execute", *(part for item in (knobs or {}).items() for part in ("-c", "=".join(item))))
        for name in ("submit", *nodes):
            self.let_in(name)
        self.until(lambda: {ad["Machine"] for ad in self.ads("condor_status")} == set(nodes), "the slots of all nodes")
        self.until(lambda: self.tool("submit", "test", "-e", "/var/lib/minipool/run/ready"), "the access point")

    def run(self, name: str, *command: str) -> None:
        """Start a container that is a host of this name."""
        endpoint = self.engine.api.create_endpoint_config(aliases=[name])
        self.hosts[name] = self.engine.containers.run(
            self.tag,
            list(command),
            name=f"{name}-{self.id}",
            hostname=name,
            detach=True,
            labels=self.labels,
            environment={"CENTRAL": "central"},
            network=self.network.name,
            networking_config={self.network.name: endpoint},
            volumes={self.volume.name: {"bind": EVIDENCE, "mode": "rw"}},
            **_HOST,
        )

    def let_in(self, name: str) -> None:
        """Hand the host the word with which it joins."""
        word = self.tool("central", "pool", "token", "create", "--for", name.rstrip("0123456789"), check=True)
        self.put(name, "/run", {"join-token": word})

    def kill(self, name: str) -> None:
        """The host is gone, as if its plug were pulled."""
        self.hosts[name].kill("KILL")

    # ---- inside

    def tool(self, host: str, *argv: str, user: str = "root", cwd: str | None = None, check: bool = False) -> str:
        """Run a command there; what it prints, with "" for a failure, which with `check` is an error."""
        status, (out, err) = self.hosts[host].exec_run(list(argv), user=user, workdir=cwd, demux=True)
        if status == 0:
            return (out or b"").decode() or "\n"
        if check:
            said = ((out or b"") + (err or b"")).decode(errors="replace")
            raise AssertionError(f"{host}: {shlex.join(argv)}: status {status}\n{said}{self.logs()}")
        return ""

    def put(self, host: str, directory: str, files: Mapping[str, str], *, uid: int = 0, mode: int = 0o644) -> None:
        """Put files there; each appears whole."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.uid, entry.gid = len(text.encode()), mode, uid, uid
                archive.addfile(entry, io.BytesIO(text.encode()))
        assert self.hosts[host].put_archive(directory, packed.getvalue())

    def read(self, host: str, directory: str) -> dict[str, str]:
        """All plain files of a directory there, by name."""
        chunks, _ = self.hosts[host].get_archive(directory)
        found = {}
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isfile() else None
                if file is not None:
                    found[Path(entry.name).name] = file.read().decode()
        return found

    def ads(self, tool: str, *argv: str, host: str = "") -> list[ClassAd]:
        """What a tool says with -long."""
        where = host or ("central" if tool == "condor_status" else "submit")
        return list(parse_longs(self.tool(where, tool, "-long", *argv).splitlines()))

    # ---- waiting, and what to show when it was in vain

    def until(self, condition: Callable[[], T], what: str, *, deadline_s: float = DEADLINE_S) -> T:
        """Wait for a state; an error shows the logs."""
        deadline = time.monotonic() + deadline_s
        while not (found := condition()):
            for name, host in self.hosts.items():
                host.reload()
                if host.status == "exited" and host.attrs["State"]["ExitCode"] != 137:
                    raise AssertionError(f"{name} ended while waiting for {what}\n{self.logs()}")
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self.logs()}"
            time.sleep(POLL_S)
        return found

    def logs(self, lines: int = 40) -> str:
        """The end of each host's logs."""
        texts = []
        for name, host in self.hosts.items():
            texts.append(f"==== {name}\n{host.logs(tail=lines).decode(errors='replace')}")
            try:
                files: Sequence[tuple[str, str]] = sorted(self.read(name, "/var/lib/minipool/log").items())
            except APIError:
                files = []
            texts += [
                "\n".join([f"==> {name} {file}", *text.splitlines()[-lines:]]) for file, text in files if "Log" in file
            ]
        return "\n".join(texts)

    def remove(self) -> None:
        """Remove all that carries this cluster's label."""
        _remove(self.engine, f"{LABEL}={self.id}")


@contextmanager
def new_cluster(base: str = BASE) -> Iterator[Cluster]:
    """A cluster for the time of the block, of hosts with what that image has; nothing of it is left afterwards."""
    engine = docker.from_env(timeout=300)
    _remove_orphans(engine)
    cluster = Cluster(engine, image(engine, base))
    try:
        yield cluster
    finally:
        cluster.remove()
        engine.close()


def _remove(engine: Any, label: str) -> None:
    for container in engine.containers.list(all=True, filters={"label": label}):
        _try(container.remove, force=True, v=True)
    for network in engine.networks.list(filters={"label": label}):
        _try(network.remove)
    for volume in engine.volumes.list(filters={"label": label}):
        _try(volume.remove, force=True)


def _try(act: Callable[..., object], **options: object) -> None:
    """One more try for what was busy; what somebody else has removed is gone."""
    for _ in range(5):
        try:
            act(**options)
            return
        except NotFound:
            return
        except APIError as error:
            trouble = error
            time.sleep(1)
    raise trouble


def _remove_orphans(engine: Any) -> None:
    """Remove what test runs that are no more have left."""
    things = engine.containers.list(all=True, filters={"label": LABEL})
    labels = [thing.labels for thing in things]
    labels += [thing.attrs["Labels"] for thing in engine.networks.list(filters={"label": LABEL})]
    labels += [thing.attrs["Labels"] for thing in engine.volumes.list(filters={"label": LABEL})]
    for cluster in {found[LABEL] for found in labels if not _lives(found.get(OWNER, ""))}:
        _remove(engine, f"{LABEL}={cluster}")


def _me() -> str:
    return f"{Path('/proc/self').resolve().name}.{_started_at('self')}"


def _lives(owner: str) -> bool:
    pid, _, started = owner.partition(".")
    try:
        return pid.isdigit() and _started_at(pid) == started
    except OSError:
        return False


def _started_at(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
