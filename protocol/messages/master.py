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
