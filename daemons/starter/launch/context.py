"""What the jobs of one starter share."""

from __future__ import annotations

from dataclasses import dataclass, field

from daemons.base.log import Log
from daemons.host.cgroup import ControlGroup
from daemons.host.child_settings import StarterSettings
from daemons.host.processes import Processes
from daemons.starter.chirp.server import ChirpServer
from daemons.starter.launch.spawn import JobSpawner
from daemons.starter.report.line import SharedConnection
from daemons.starter.rest.kept import Kept
from pool.classad.forms.kept_lines import KeptLines
from pool.files.plugins import BadPlugin, Plugin
from protocol.network.channel import Network
from protocol.rpc.endpoints import Peer
from protocol.security.credentials import Security


@dataclass
class Context:
    """One for the life of the starter."""

    settings: StarterSettings
    log: Log
    security: Security
    network: Network
    processes: Processes
    group: ControlGroup
    spawner: JobSpawner
    startd: Peer
    line: SharedConnection
    """To the schedd."""
    agent: SharedConnection
    """To the user's file agent."""
    plugins: dict[str, Plugin | BadPlugin] = field(default_factory=dict)
    """What the machine's file transfer plug-ins have said of themselves."""
    chirp: ChirpServer | None = None
    slot_lines: KeptLines = field(default_factory=KeptLines)
    """Of the slot's ad, for the next job."""
    kept: Kept | None = None
    """Who has the job while this starter rests; None where it never does."""
