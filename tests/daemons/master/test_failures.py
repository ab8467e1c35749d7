"""What goes wrong inside a running master is logged, and ends neither it nor the host's daemons."""

from __future__ import annotations

import pytest

from protocol.messages.common import Ping, Reconfigure
from protocol.messages.master import GetDaemons, ListHosts
from protocol.rpc.blocking import connect
from protocol.rpc.remote import RemoteError
from protocol.security.credentials import Security
from protocol.wire.address import Address
from tests.whole.real_pool import RealPool, real_pool


def test_a_damaged_register_of_hosts_costs_who_asks_it_an_error_and_nobody_else_anything() -> None:
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR", may_fail=True) as pool:
        register = pool.directory / "keys" / "hosts.sqlite"
        sound = register.read_bytes()
        register.write_bytes(b"what a broken disk gives " * 200)
        with connect(Address.unix(str(pool.run_dir / "master.sock")), Security()) as master:
            collector = master.call(GetDaemons()).daemons[0].eval_int("Pid")
            master.call(Reconfigure())  # whoever waits for news of the register looks at it again
            pool.until(lambda: "keep_own_certificate has failed; it begins again" in log(pool), "the failure's line")
            last = "sqlite3.DatabaseError: file is not a database"
            pool.until(lambda: last in log(pool), "the last line of its traceback")
            with pytest.raises(RemoteError):
                master.call(ListHosts())
            assert master.call(Ping()).daemon == "master"
            register.write_bytes(sound)
            assert [host.name for host in master.call(ListHosts()).hosts] != []
            assert master.call(GetDaemons()).daemons[0].eval_int("Pid") == collector


def test_arguments_of_preen_that_cannot_be_read_are_named() -> None:
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR", PREEN="/bin/true", PREEN_INTERVAL=1, PREEN_ARGS="-m 'it") as pool:
        pool.until(
            lambda: "PREEN_ARGS = -m 'it cannot be read: No closing quotation" in log(pool), "the trouble's line"
        )
        with connect(Address.unix(str(pool.run_dir / "master.sock")), Security()) as master:
            assert master.call(Ping()).daemon == "master"


def log(pool: RealPool) -> str:
    return (pool.directory / "log" / "MasterLog").read_text()
