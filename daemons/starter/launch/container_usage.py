"""What a container uses, read off the kernel: its first process leads to its control group, processes and network.

The engine is not asked: its own figures take it seconds, and cost more than most jobs.
"""

from __future__ import annotations

from pathlib import Path

from daemons.base.linux import descendants
from daemons.host import tree
from daemons.host.cgroup import ControlGroup
from daemons.host.mounts import mount_lines
from pool.classad import ClassAd
from pool.execute.cgroup import Trees, find_trees
from pool.execute.usage import UsageSample

_MB = 1_000_000


class ContainerMeter:
    """Reads a running container."""

    def __init__(self, pid: int, identity: str) -> None:
        self._pid = pid
        self._group = _group_of(pid, identity)
        # On the machine's own network (`--network=host`) the counters are everybody's.
        self._own_network = _namespace(pid) not in ("", _namespace("self"))
        self._network: tuple[int, int] | None = None

    def sample(self) -> UsageSample:
        """What it uses now."""
        self._look_at_network()
        seen = tree.sample({self._pid} | descendants(self._pid))
        grouped = self._group.sample() if self._group is not None else None
        if grouped is None:
            return seen
        return UsageSample(
            seen.image,
            max(seen.resident, grouped.resident),
            max(seen.user_s, grouped.user_s),
            max(seen.system_s, grouped.system_s),
            seen.processes,
            seen.traffic.or_more(grouped.traffic),
        )

    def network(self) -> ClassAd:
        """Megabytes received and sent by a container that has a network of its own."""
        if self._network is None:
            return ClassAd()
        received, sent = self._network
        return ClassAd({"NetworkInputMb": received / _MB, "NetworkOutputMb": sent / _MB})

    def _look_at_network(self) -> None:
        if not self._own_network:
            return
        try:
            lines = Path(f"/proc/{self._pid}/net/dev").read_text().splitlines()[2:]
        except OSError:
            return
        counts = [line.partition(":")[2].split() for line in lines if line.partition(":")[0].strip() != "lo"]
        self._network = (sum(int(words[0]) for words in counts), sum(int(words[8]) for words in counts))


def _group_of(pid: int, identity: str) -> ControlGroup | None:
    """The container's control group; None where it has none of its own that this process can see."""
    try:
        membership = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        trees = find_trees(mount_lines())
    except OSError:
        return None
    paths = {path for _, _, path in (line.split(":", 2) for line in membership) if identity and identity in path}
    if len(paths) != 1 or not trees.version:
        return None
    (path,) = paths
    there = tuple((name, mount) for name, mount in trees.mounts if Path(mount + path).is_dir())
    return ControlGroup(Trees(trees.version, there), path.strip("/")) if there else None


def _namespace(pid: int | str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""
