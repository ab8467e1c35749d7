"""What administrators' tools and joining hosts ask of a master."""

from __future__ import annotations

from pool.classad import ClassAd
from protocol.messages.common import StopHow
from protocol.wire.message import Done, Record, Request, StreamRequest


class DaemonsOff(Request[Done], tag="master.off"):
    """Stop these daemons (empty: all but the master) and keep them stopped (`condor_off`)."""

    daemons: list[str] = []
    how: StopHow = StopHow.GRACEFUL


class DaemonsOn(Request[Done], tag="master.on"):
    """Start these daemons (empty: all of DAEMON_LIST) (`condor_on`)."""

    daemons: list[str] = []


class RestartDaemons(Request[Done], tag="master.restart"):
    """Stop and start these daemons (empty: all, with the configuration read anew) (`condor_restart`)."""

    daemons: list[str] = []
    how: StopHow = StopHow.GRACEFUL


class DrainFirst(Request[Done], tag="master.drain_first"):
    """Let the jobs of this host finish, then stop its daemons (`condor_off -drain`), or do what `then` says.

    `then`: off (all but the master), exit (the master, too), restart. Answered when the startd drains. `reason`,
    `check` and `start` are those of `startd.DrainMachine`.
    """

    then: str = "off"
    reason: str = ""
    check: str | None = None
    start: str | None = None


class SetShutdown(Request[Done], tag="master.set_shutdown"):
    """Execute MASTER_SHUTDOWN_<name> in the master's place when it ends (`condor_set_shutdown -exec`)."""

    name: str


class DaemonStates(Record):
    """One ad per daemon: Name, Pid, State (Running, Stopped, Backoff), StartTime, Restarts, LastExit."""

    daemons: list[ClassAd]


class GetDaemons(Request[DaemonStates], tag="master.daemons"):
    """The daemons of this host (`condor_who -daemons`)."""


class MadeToken(Record):
    """A signed token, and the pool's CA certificate (PEM) with which to check the server it is shown to."""

    token: str
    ca: str


class CreateToken(Request[MadeToken], tag="master.create_token"):
    """A token for `identity` (empty: the caller). Another's, or one with a duty, needs ADMINISTRATOR."""

    identity: str = ""
    lifetime_s: float | None = None
    scopes: list[str] = []
    duty: str = ""  # execute, submit, central: a token to join with
    host: str = ""  # the only host that may join with it; "" for any
    uses: int = 1  # how many hosts may


class Joined(Record):
    """What a host needs to be of the pool: certificates (PEM), the collector's address, lines of configuration."""

    certificate: str
    ca: str
    collector_host: str
    config: str = ""


class MemberNews(Record):
    """What a host of the pool must know: the revocation list when there is a newer one, and its own new certificate.

    Both are PEM, and "" when there is nothing new.
    """

    revoked: str = ""
    certificate: str = ""


class WatchMembership(StreamRequest[MemberNews], tag="master.watch_membership"):
    """Stay in touch with the central manager; a host's master asks it, and its certificate says for which host."""


class HostEntry(Record):
    """A certificate of the register; a host of an earlier version has a name alone. Times are of the epoch."""

    name: str
    serial: str = ""
    duties: str = ""
    made_at: float = 0.0
    ends_at: float = 0.0
    revoked_at: float | None = None


class HostList(Record):
    """Some of the register."""

    hosts: list[HostEntry]


class ListHosts(Request[HostList], tag="master.list_hosts"):
    """The newest certificate of each host of the pool, and all that were revoked (`pool hosts list`)."""


class RevokeHosts(Request[HostList], tag="master.revoke_hosts"):
    """Put out these hosts, by name or by serial number: all or none; what was revoked (`pool hosts revoke`)."""

    hosts: list[str]


class JoinPool(Request[Joined], tag="master.join"):
    """Sign this host's certificate request for the duty that the caller's token carries (`pool join`)."""

    host: str
    csr: str
