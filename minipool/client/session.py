"""Finding a pool and its daemons: what the command-line tools and both faces of the Python API share.

The configuration says where the pool lives (LOCAL_DIR). A daemon of this host is reached through its unix socket
RUN/<daemon>.sock; any other through the address in its ad, which the collector of COLLECTOR_HOST knows.

The order is that of HTCondor's tools ("-pool", "-name" and "-addr" in its manual pages): what is named is used, else
this host's daemon, else the one that the collector knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pool.base.errors import PeerError, UserError
from pool.config import Config, load_config

if TYPE_CHECKING:
    from pool.classad import ClassAd
    from protocol.rpc.blocking import BlockingPeer
    from protocol.security.credentials import Security
    from protocol.wire.ad_table import AdTable
    from protocol.wire.address import Address

AD_TYPES: dict[str, str] = {
    "schedd": "Scheduler",
    "startd": "StartD",
    "master": "DaemonMaster",
    "collector": "Collector",
    "negotiator": "Negotiator",
    "defrag": "Defrag",
    "rooster": "Rooster",
}
"""The MyType of each kind of daemon's own ad."""


ANSWERS_S = 5.0
"""How long a collector that is not the last of the list may take to answer."""
TOKEN_S = 600.0
"""How long a token is good that a tool is given for its own use."""


ANY_POOL = "*"
"""The pool that -pool names may have another CA, if that is known (`protocol.security.other_pools`)."""


class NotFound(PeerError):
    """No daemon of that name is known, or none runs here."""


class Session:
    """One pool as a client sees it: its configuration, its addresses, and connections that are made when needed."""

    def __init__(self, config: Config, *, pool: str | None = None) -> None:
        self.config = config
        self.pool = pool
        self._security: Security | None = None
        self._proven: Security | None = None
        self._of = ""  # the other pool that its collector has turned out to be of

    @classmethod
    def open(
        cls,
        *,
        directory: str | None = None,
        pool: str | None = None,
        config: Sequence[str] | None = None,
        overrides: Mapping[str, str] | None = None,
        may_be_new: bool = False,
    ) -> Session:
        """The pool of this directory, of these configuration files, at this collector, or the one that is found.

        `may_be_new`: the directory is to become a pool's, and has no configuration until then.
        """
        environ = dict(os.environ)
        if pool == "":
            raise UserError("the name of the pool is empty")
        if directory == "":
            raise UserError("the name of the pool's directory is empty")
        if directory is not None:
            environ["POOL_DIR"] = os.path.abspath(directory)
            # A directory that was named wins over a variable that was not: two pools cannot both be meant.
            environ.pop("CONDOR_CONFIG", None)
            if may_be_new and not os.path.lexists(os.path.join(directory, "config")):
                config = ()
        return cls(load_config(config, environ=environ, overrides=overrides, subsystem="TOOL"), pool=pool)

    @property
    def security(self) -> Security:
        """What this client presents and trusts."""
        if self._security is None:
            from protocol.security.credentials import Security

            self._security = Security.from_config(self.config, "TOOL")
        return self._security

    @property
    def run_dir(self) -> str:
        """Where the sockets of this host's daemons are."""
        return self.config.path("RUN")

    @property
    def uid_domain(self) -> str:
        """What follows the @ in the names of this pool's users."""
        return self.config.str("UID_DOMAIN")

    def user(self) -> str:
        """The account that this process runs as."""
        import pwd

        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            # An account without an entry, as in many containers, is called by its number.
            return str(os.geteuid())

    def me(self) -> str:
        """`user@UID_DOMAIN`, as jobs' User attribute has it."""
        return f"{self.user()}@{self.uid_domain}"

    # addresses

    def local_socket(self, daemon: str) -> str | None:
        """The socket of this host's daemon, when there is one."""
        path = os.path.join(self.run_dir, f"{daemon}.sock")
        return path if os.path.exists(path) else None

    def address(self, daemon: str, *, name: str | None = None, addr: str | None = None) -> Address:
        """Where the daemon is: by its address, by its name, or the one of this host or pool."""
        from protocol.wire.address import Address

        if addr:
            return Address.parse(addr)
        # HTCondor's order ("-pool" and "-name" in condor_q(1)): who names a pool means that pool, even where this host
        # has one.
        if name is None and self.pool is None:
            path = self.local_socket(daemon)
            if path is not None:
                return Address.unix(path)
        if daemon == "collector":
            return self.collector_address()
        if name is None and daemon == "schedd" and self.pool is not None:
            return self._schedd_of_named_pool(self.pool)
        ad = self.daemon_ad(daemon, name)
        return self.address_in(ad, daemon)

    def negotiators(self) -> list[tuple[str, Address]]:
        """Those of this host, or else all that the collector knows: local or full names, and where they are."""
        from protocol.wire.address import Address

        path = self.local_socket("negotiator") if self.pool is None else None
        if path is None:
            ads = self.query(AD_TYPES["negotiator"])
            known = [(ad.eval_str("Name", ""), self.address_in(ad, "negotiator")) for ad in ads]
            return known or [("", self.address("negotiator"))]
        found = [("", Address.unix(path))]
        for file in sorted(os.listdir(self.run_dir)):
            name, suffix = os.path.splitext(file)
            if suffix == ".sock" and name.startswith("negotiator-"):
                found.append((name.partition("-")[2], Address.unix(os.path.join(self.run_dir, file))))
        return found

    def _schedd_of_named_pool(self, pool: str) -> Address:
        """This host's schedd when that pool has it, else the pool's only one."""
        from protocol.wire.address import Address

        ads = {ad.eval_str("Name") or "": ad for ad in self.query(AD_TYPES["schedd"])}
        # To submit into another pool from an access point that serves it too should go through this host's socket.
        path = self.local_socket("schedd")
        for ad in ads.values():
            here = ad.eval_str("Machine") == self.config["FULL_HOSTNAME"]  # loopback addresses are alike on all hosts
            if path and here and self._is_this_hosts(self.address_in(ad, "schedd"), "schedd"):
                return Address.unix(path)
        if not ads:
            raise NotFound(f"the pool at {pool} has no access point")
        if len(ads) > 1:
            raise NotFound(f"the pool at {pool} has several access points; name one of: {', '.join(sorted(ads))}")
        return self.address_in(next(iter(ads.values())), "schedd")

    def address_in(self, ad: ClassAd, daemon: str) -> Address:
        """Where the daemon of this ad is."""
        text = ad.eval_str("MyAddress")
        if not text:
            raise NotFound(f"the ad of {daemon} {ad.eval_str('Name')} has no address")
        return self._nearer(self.beside_its_collector(text), daemon)

    def beside_its_collector(self, text: str) -> Address:
        """An address that a daemon of the pool has given; where the pool has another CA, it is one of that pool."""
        from protocol.wire.address import Address, of_pool

        return Address.parse(of_pool(text, self._of))

    def _nearer(self, address: Address, daemon: str) -> Address:
        """This host's daemon through its unix socket, which proves who is calling without a token."""
        from protocol.wire.address import Address

        own = address.sock if address.sock.startswith(f"{daemon}-") else daemon  # one of several, by its local name
        path = self.local_socket(own)
        return Address.unix(path) if path and self.pool is None and self._is_this_hosts(address, own) else address

    def _is_this_hosts(self, address: Address, daemon: str) -> bool:
        """Whether this host's daemon says that it is there."""
        from protocol.wire.address import Address

        try:
            mine = Address.parse(self.sinful(daemon))
        except UserError:
            return False
        return (mine.host, mine.port, mine.sock) == (address.host, address.port, address.sock)

    def collector_address(self) -> Address:
        """The pool's first collector: of -pool, of this host, or of COLLECTOR_HOST."""
        return self.collector_addresses()[0]

    def collector_addresses(self) -> list[Address]:
        """The pool's collectors: of -pool, or of this host and then of COLLECTOR_HOST, in its order."""
        from protocol.wire.address import Address

        hosts = self.config.list("COLLECTOR_HOST")
        path = self.local_socket("collector") if self.pool is None else None
        found = [] if path is None else [Address.unix(path)]
        if self.pool:
            hosts = self.pool.replace(",", " ").split()
        elif path is not None and len(hosts) < 2:
            hosts = []
        if not (found or hosts):
            raise NotFound("no pool runs here, and COLLECTOR_HOST does not say where one does (start one: pool up)")
        for host in hosts:
            there = Address.parse(host)
            sock, of = there.sock or "collector", there.pool or (ANY_POOL if self.pool else "")
            found.append(Address.tcp(there.host, there.port, sock=sock, alias=there.alias, pool=of))
        return found

    def collector(self, *, timeout: float | None = None) -> BlockingPeer:
        """A connection to the first of the pool's collectors that answers, to be used in a `with`."""
        *first, last = self.collector_addresses()
        for address in first:
            try:
                return self._at(address, ANSWERS_S if timeout is None else min(timeout, ANSWERS_S))
            except PeerError:
                pass  # the next one may know as much; what is wrong with the last is said
        return self._at(last, timeout)

    def _at(self, collector: Address, timeout: float | None) -> BlockingPeer:
        peer = self.connect(collector, timeout=timeout)
        self._of = peer.pool
        return peer

    def daemon_ad(self, daemon: str, name: str | None) -> ClassAd:
        """The ad of the daemon, asked of the collector."""
        from pool.classad import quote

        constraint = None
        if name is not None:
            names = [name] if "@" in name else [name, self.qualified(name)]
            constraint = " || ".join(f"Name == {quote(one)}" for one in dict.fromkeys(names))
            if daemon == "negotiator" and "@" not in name:  # one of several has a local name, before its host's
                constraint += f" || substr(Name, 0, {len(name) + 1}) == {quote(f'{name}@')}"
        for ad in self.query(AD_TYPES[daemon], constraint=constraint):
            return ad
        what = f"{daemon} {name}" if name else f"a {daemon}"
        raise NotFound(f"the collector knows no {what}" if name else f"the collector does not know {what}")

    def qualified(self, name: str) -> str:
        """A host's name with the pool's domain, as daemons are named."""
        domain = self.config["DEFAULT_DOMAIN_NAME"] or self.uid_domain.partition(".")[2]
        host, at, rest = name.partition("@")
        # As HTCondor's get_daemon_name(): what has a domain, or is a name of its own before an @, is whole.
        if at or "." in host or not domain:
            return name
        return f"{name}.{domain}{at}{rest}"

    # connections

    def connect(
        self, address: Address, *, timeout: float | None = None, meanwhile: Callable[[], object] | None = None
    ) -> BlockingPeer:
        """A connection to an address, to be used in a `with`; `meanwhile` is called while the other side greets."""
        from protocol.rpc.blocking import connect

        security = self.security_for(address)
        return connect(address, security, timeout=timeout if timeout is not None else 20.0, meanwhile=meanwhile)

    def security_for(self, address: Address) -> Security:
        """What this client presents there."""
        return self.security if address.is_unix else self._with_proof()

    def _with_proof(self) -> Security:
        """For another host: who holds neither a token nor a certificate is given a token by this host's master."""
        if self._proven is None:
            security = self.security
            # Asked for once per session, and good for minutes: it never touches a disk.
            if not security.has_host_certificate and not security.token_for(security.trust_domain):
                security = self._with_token_of_master(security)
            self._proven = security
        return self._proven

    def _with_token_of_master(self, security: Security) -> Security:
        from protocol.messages.master import CreateToken
        from protocol.rpc.blocking import connect
        from protocol.wire.address import Address

        path = self.local_socket("master")
        if path is None:
            return security
        try:
            with connect(Address.unix(path), security, timeout=20.0) as master:
                return security.with_token(master.call(CreateToken(lifetime_s=TOKEN_S)).token)
        except PeerError:
            return security  # then the other host says what it misses

    def daemon(self, daemon: str, *, name: str | None = None, addr: str | None = None) -> BlockingPeer:
        """A connection to a daemon, to be used in a `with`."""
        if daemon == "collector" and name is None and addr is None:
            return self.collector()
        return self.connect(self.address(daemon, name=name, addr=addr))

    def query(
        self,
        ad_type: str,
        *,
        constraint: str | None = None,
        projection: Sequence[str] = (),
        limit: int | None = None,
        address: Address | None = None,
        snapshot: bool = False,
    ) -> list[ClassAd]:
        """Ads of the collector (or of the daemon at `address`)."""
        from protocol.messages.collector import QueryAds

        request = QueryAds(
            ad_type=ad_type, constraint=constraint, projection=list(projection), limit=limit, snapshot=snapshot
        )
        with self.connect(address) if address else self.collector() as peer:
            return [ad for batch in peer.stream(request) for ad in batch.ads]

    def query_batches(
        self, ad_type: str, *, constraint: str | None, projection: Sequence[str], limit: int | None
    ) -> Iterator[AdTable | list[ClassAd]]:
        """The same of the collector, as columns of the attributes that are named, some ads at a time; a list of ads
        where they have no common columns.
        """
        from protocol.messages.collector import QueryAds
        from protocol.wire.ad_table import unpack_table

        request = QueryAds(
            ad_type=ad_type, constraint=constraint, projection=list(projection), limit=limit, tables=True
        )
        with self.collector() as peer:
            for batch in peer.stream(request):
                yield unpack_table(batch.table) if batch.table else batch.ads

    def sinful(self, daemon: str) -> str:
        """The daemon's address as it prints: what its address file says, or its socket's path."""
        try:
            with open(os.path.join(self.run_dir, f"{daemon}.address")) as file:
                return file.readline().strip()
        except OSError:
            return self.local_socket(daemon) or ""
