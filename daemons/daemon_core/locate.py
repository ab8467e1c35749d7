"""Where another daemon reaches the pool's daemons: this host's through their unix sockets, all others by TCP."""

from __future__ import annotations

from pathlib import Path

from pool.base.errors import ConfigError, UserError
from pool.config import Config
from protocol.wire.address import Address


def socket_of(config: Config, daemon: str) -> Path:
    """The unix socket of this host's daemon, whether or not it is there."""
    return Path(config.path("RUN")) / f"{daemon}.sock"


def sock_name(daemon: str, local_name: str) -> str:
    """What a daemon is called behind a shared port and in RUN; one of several by its local name, too."""
    return f"{daemon}-{local_name.lower()}" if local_name else daemon


def runs_here(config: Config, daemon: str) -> bool:
    """Whether this host's master keeps such a daemon."""
    return daemon.upper() in {name.upper() for name in config.list("DAEMON_LIST")}


def collector_addresses(config: Config) -> list[Address]:
    """All collectors of the pool, in the order of COLLECTOR_HOST; this host's own comes first where it has one."""
    hosts = config.list("COLLECTOR_HOST")
    if runs_here(config, "collector"):
        # A list of one is this one, however it is written: its port may be chosen by the kernel.
        others = [host for host in hosts if not is_this_host(config, host)] if len(hosts) > 1 else []
        return [Address.unix(str(socket_of(config, "collector"))), *(collector_at(config, one) for one in others)]
    if not hosts:
        raise ConfigError("COLLECTOR_HOST is empty: where is the pool's collector?")
    return [collector_at(config, host) for host in hosts]


def is_this_host(config: Config, host: str) -> bool:
    """Whether an entry of COLLECTOR_HOST or HAD_LIST names this host: by its name, or by the address that it has."""
    named = Address.parse(host)
    if named.is_unix:
        return named.path == str(socket_of(config, "collector"))
    own = {config.str("FULL_HOSTNAME"), config["NETWORK_INTERFACE"], "localhost"}
    try:
        own.add(Address.parse((Path(config.path("RUN")) / "master.address").read_text().splitlines()[0]).host)
    except (OSError, IndexError, UserError):
        pass  # it listens on no port, or not yet
    return not own.isdisjoint({named.host, named.alias} - {""})


def collector_at(config: Config, host: str) -> Address:
    """The collector of this host, whatever pool it is of."""
    return _at(config, host, "collector")


def negotiator_address(config: Config) -> Address:
    """The pool's negotiator: of this host, of NEGOTIATOR_HOST, or where the collector is."""
    if runs_here(config, "negotiator"):
        return Address.unix(str(socket_of(config, "negotiator")))
    if config.is_set("NEGOTIATOR_HOST"):
        return _at(config, config.str("NEGOTIATOR_HOST"), "negotiator")
    if runs_here(config, "collector"):
        raise ConfigError("NEGOTIATOR_HOST is not set, and no negotiator runs beside the collector")
    return _at(config, config.list("COLLECTOR_HOST")[0], "negotiator")


def negotiator_at(config: Config, host: str) -> Address:
    """The negotiator of this host, whatever pool it is of."""
    return _at(config, host, "negotiator")


def negotiator_addresses(config: Config) -> list[Address]:
    """All negotiators that may serve this host's schedd: one beside each collector, or the one that is named."""
    hosts = config.list("COLLECTOR_HOST")
    if len(hosts) < 2 or config.is_set("NEGOTIATOR_HOST"):
        return [negotiator_address(config)]
    here = runs_here(config, "negotiator")
    mine = [Address.unix(str(socket_of(config, "negotiator")))] if here else []
    return [*mine, *(_at(config, host, "negotiator") for host in hosts if not (here and is_this_host(config, host)))]


def candidates(config: Config, sock: str = "negotiator") -> list[Address | None]:
    """The negotiators of HAD_LIST, by rank, None for this host's; empty where there is no such list.

    Each stands for the host of COLLECTOR_HOST with the same name, and the daemon `sock` there: a port in HAD_LIST is
    HTCondor's condor_had's.
    """
    beside = {Address.parse(host).host: host for host in config.list("COLLECTOR_HOST")}
    found: list[Address | None] = []
    for entry in config.list("HAD_LIST"):
        name = Address.parse(entry).host
        if name not in beside:
            raise config.error("HAD_LIST", f"HAD_LIST names {name}, which COLLECTOR_HOST does not")
        found.append(None if is_this_host(config, beside[name]) else _at(config, beside[name], sock))
    if found and found.count(None) != 1:
        raise config.error("HAD_LIST", "HAD_LIST must name each central manager once, and this host among them")
    return found


def central_master(config: Config) -> Address:
    """The master beside the pool's first collector."""
    return _at(config, config.list("COLLECTOR_HOST")[0], "master")


def central_names(config: Config) -> set[str]:
    """What the configuration of a central manager calls it; no other host of its pool may be called so."""
    typed = [*config.list("CONDOR_HOST"), *config.list("COLLECTOR_HOST")]
    return {config.str("FULL_HOSTNAME"), *(Address.parse(text).host for text in typed)}


def nearest(config: Config, address: Address | str) -> Address:
    """The unix socket of a daemon that turns out to be this host's; any other address as it is."""
    where = Address.parse(address) if isinstance(address, str) else address
    if where.is_unix or not where.sock:
        return where
    try:
        # What the daemon has published itself: the configuration may have a port of 0, or an address that is forwarded.
        lines = (Path(config.path("RUN")) / f"{where.sock}.address").read_text().splitlines()
        mine = Address.parse(lines[0])
    except (OSError, IndexError, UserError):
        return where
    same = (mine.host, mine.port, mine.sock) == (where.host, where.port, where.sock)
    return Address.unix(str(socket_of(config, where.sock))) if same else where


def _at(config: Config, host: str, daemon: str) -> Address:
    """A daemon behind the shared port of a host, of which `host` may name any daemon."""
    there = Address.parse(host, default_port=config.int("COLLECTOR_PORT") or 9618)
    if there.is_unix:
        return Address.unix(str(Path(there.path).with_name(f"{daemon}.sock")))
    return Address.tcp(there.host, there.port, sock=daemon, alias=there.alias)
