"""What administrators' tools and joining hosts ask of a master."""

from __future__ import annotations

from pool.classad import ClassAd
from protocol.message import Done, Record, Request
from protocol.messages.common import StopHow


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


class Token(Record):
    """A signed token, and the pool's CA certificate (PEM) with which to check the server it is shown to."""

    token: str
    ca: str


class CreateToken(Request[Token], tag="master.create_token"):
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


class JoinPool(Request[Joined], tag="master.join"):
    """Sign this host's certificate request for the duty that the caller's token carries (`pool join`)."""

    host: str
    csr: str
