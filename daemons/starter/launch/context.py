"""What the jobs of one starter share."""

from __future__ import annotations

from dataclasses import dataclass, field

from daemons.log import Log
from daemons.starter.cgroup import Group
from daemons.starter.chirp import ChirpServer
from daemons.starter.line import Line
from daemons.starter.processes import Processes
from daemons.starter.settings import StarterSettings
from daemons.starter.spawn import Spawner
from pool.execute.plugins import BadPlugin, Plugin
from protocol.net import Network
from protocol.rpc import Peer
from protocol.security import Security


@dataclass
class Context:
    """One for the life of the starter."""

    settings: StarterSettings
    log: Log
    security: Security
    network: Network
    processes: Processes
    group: Group
    spawner: Spawner
    startd: Peer
    line: Line
    """To the schedd."""
    agent: Line
    """To the user's file agent."""
    plugins: dict[str, Plugin | BadPlugin] = field(default_factory=dict)
    """What the machine's file transfer plug-ins have said of themselves."""
    chirp: ChirpServer | None = None
