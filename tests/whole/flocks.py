"""Pools of one host each on this machine that trust each other's CA, and flock as their configuration says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.whole.hosts import Host, new_host_of

ALL = "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD"


def domain_of(name: str) -> str:
    """The domain of a pool."""
    return f"{name}.test"


class FlockHost(Host):
    """The one host of a pool; its port is the same after a restart."""

    where_it_was = ""

    def set_up(self, pool: str, knobs: Mapping[str, str]) -> None:
        """Start it once, so that it has its keys and its port, and stop it."""
        common = {"DAEMON_LIST": ALL, "UID_DOMAIN": domain_of(pool), "NUM_CPUS": "2", "DOCKER": "", **knobs}
        self.be_central(common)
        self.where_it_was = self.where()
        self.stop()
        configure(self, {"SHARED_PORT_PORT": self.where_it_was.rpartition(":")[2]})
        self.user = "nobody"

    def env(self) -> dict[str, str]:
        """Its users have a home of their own here."""
        return {**super().env(), "HOME": str(self.directory / "home")}

    def befriend(self, other: FlockHost, domain: str) -> None:
        """Give this host's users the CA of another pool, and a token to be known by there."""
        token = other.as_administrator("condor_token_create", "-identity", f"nobody@{domain}")
        for name, text in (("pools.d", (other.directory / "keys" / "ca.pem").read_text()), ("tokens.d", token)):
            place = self.directory / "home" / ".condor" / name
            place.mkdir(parents=True)
            file = place / (f"{domain}.pem" if name == "pools.d" else domain)
            file.write_text(text)
            shutil.chown(file, "nobody")
            file.chmod(0o600)

    def as_administrator(self, *argv: str) -> str:
        """Run a tool as whoever runs the pool."""
        user, self.user = self.user, None
        try:
            return self.tool(*argv)
        finally:
            self.user = user


def configure(pool: Host, knobs: Mapping[str, str]) -> None:
    """Add to the configuration of a pool that does not run, or is to be reconfigured."""
    with open(pool.directory / "config", "a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in knobs.items())


def trust(pool: Host, other: Host, domain: str) -> None:
    """Let the pool know the CA of another."""
    place = pool.directory / "keys" / "pools.d"
    place.mkdir(exist_ok=True)
    shutil.copy(other.directory / "keys" / "ca.pem", place / f"{domain}.pem")


def link(pools: Mapping[str, FlockHost], flock_to: Mapping[str, list[str]]) -> None:
    """Let pools that do not run flock to others, which lend to them."""
    for name, targets in flock_to.items():
        configure(pools[name], {"FLOCK_TO": ", ".join(pools[target].where_it_was for target in targets)})
        for target in targets:
            trust(pools[name], pools[target], domain_of(target))
            trust(pools[target], pools[name], domain_of(name))
            lent = [one for one in flock_to if target in flock_to[one]]
            configure(pools[target], {"FLOCK_FROM": ", ".join(pools[one].name for one in lent)})


@contextmanager
def flocking_pools(
    flock_to: Mapping[str, list[str]], knobs: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[dict[str, FlockHost]]:
    """Pools by name, each flocking to those named for it in their order; `knobs` are of each alone."""
    with ExitStack() as stack:
        pools: dict[str, FlockHost] = {}
        for last, name in enumerate(flock_to, 11):
            made = stack.enter_context(new_host_of(FlockHost, f"host{name}", f"127.0.0.{last}"))
            made.set_up(name, (knobs or {}).get(name, {}))
            pools[name] = made
        link(pools, flock_to)
        for pool in pools.values():
            pool.start()
        for pool in pools.values():
            pool.until(lambda pool=pool: pool.slots(), "the slot of each pool")  # type: ignore[misc]
        yield pools
