"""The master with real processes: start, restart, stop, refuse, tokens and joining hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.classad import ClassAd
from protocol.messages.collector import AdUpdate, UpdateAds
from protocol.messages.common import Ping, Reconfigure, SetLogLevel, StopHow
from protocol.messages.master import (
    CreateToken,
    DaemonsOff,
    DaemonsOn,
    DrainFirst,
    GetDaemons,
    JoinPool,
    RestartDaemons,
    SetShutdown,
)
from protocol.rpc.blocking import connect
from protocol.rpc.remote import RemoteError
from protocol.security import keys
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from tests.fakes.host_keys import make_host_key
from tests.whole.real_pool import DEADLINE_S, RealPool, real_pool

CENTRAL = "MASTER, COLLECTOR, NEGOTIATOR"


@pytest.fixture
def central() -> Iterator[RealPool]:
    with real_pool(DAEMON_LIST=CENTRAL) as pool:
        yield pool


def ask(pool: RealPool, request: Any, *, daemon: str = "master", security: Security | None = None) -> Any:
    with connect(Address.unix(str(pool.run_dir / f"{daemon}.sock")), security or Security()) as peer:
        return peer.call(request)


def states(pool: RealPool) -> dict[str, ClassAd]:
    return {ad.eval_str("Name", ""): ad for ad in ask(pool, GetDaemons()).daemons}


def until_state(pool: RealPool, daemon: str, state: str) -> None:
    pool.until(lambda: states(pool)[daemon]["State"] == state, f"{daemon} to be {state}")


def test_it_starts_the_daemons_of_the_list_and_leaves_nothing_behind(central: RealPool) -> None:
    assert {name: ad["State"] for name, ad in states(central).items()} == {
        "collector": "Running",
        "negotiator": "Running",
    }
    for daemon in ("master", "collector", "negotiator"):
        assert ask(central, Ping(), daemon=daemon).daemon == daemon
    assert (central.directory / "keys").stat().st_mode & 0o777 == 0o700
    central.stop()  # asserts that nothing is left


def test_p4_a_killed_daemon_is_started_again(central: RealPool) -> None:
    first = central.pid_of("collector")
    os.kill(first, signal.SIGKILL)
    central.until(lambda: central.pid_of("collector") not in (0, first), "another collector")
    assert states(central)["collector"]["LastExit"] == "died on signal 9"
    assert states(central)["collector"]["Restarts"] == 1


def test_off_stays_off_until_on(central: RealPool) -> None:
    ask(central, DaemonsOff(daemons=["negotiator"]))
    until_state(central, "negotiator", "Stopped")
    assert states(central)["collector"]["State"] == "Running"
    ask(central, DaemonsOn(daemons=["negotiator"]))
    until_state(central, "negotiator", "Running")


def test_restart_gives_another_process(central: RealPool) -> None:
    before = central.pid_of("negotiator")
    ask(central, RestartDaemons(daemons=["negotiator"], how=StopHow.FAST))
    central.until(lambda: central.pid_of("negotiator") not in (0, before), "another negotiator")
    with pytest.raises(RemoteError, match="this host has no shredder"):
        ask(central, RestartDaemons(daemons=["shredder"]))


def test_reconfigure_follows_the_daemon_list_and_a_wrong_file_changes_nothing() -> None:
    with real_pool(start=False) as pool:
        config = pool.directory / "config"
        config.write_text("DAEMON_LIST = MASTER, COLLECTOR\n")
        pool.start()
        assert set(states(pool)) == {"collector"}
        config.write_text("DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR\n")
        ask(pool, Reconfigure())
        pool.until(lambda: "negotiator" in states(pool), "a negotiator")
        until_state(pool, "negotiator", "Running")
        config.write_text("if true\nDAEMON_LIST = MASTER\n")
        with pytest.raises(RemoteError, match="config:"):
            ask(pool, Reconfigure())
        assert states(pool)["negotiator"]["State"] == "Running"


def test_reconfigure_does_not_start_what_was_ordered_off() -> None:
    with real_pool(start=False) as pool:
        config = pool.directory / "config"
        config.write_text("DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR\n")
        pool.start()
        ask(pool, DaemonsOff(daemons=["collector"]))
        until_state(pool, "collector", "Stopped")
        config.write_text("DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, DEFRAG\n")
        ask(pool, Reconfigure())
        pool.until(lambda: "defrag" in states(pool), "the daemon that comes last")
        assert states(pool)["collector"]["State"] == "Stopped"
        ask(pool, DaemonsOn())
        until_state(pool, "collector", "Running")
        ask(pool, DaemonsOff(daemons=["negotiator"]))
        until_state(pool, "negotiator", "Stopped")
        config.write_text("DAEMON_LIST = MASTER, COLLECTOR\n")
        ask(pool, Reconfigure())
        until_state(pool, "defrag", "Stopped")
        config.write_text("DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR\n")
        ask(pool, Reconfigure())  # it is new in the list
        until_state(pool, "negotiator", "Running")


def test_a_second_master_on_the_same_directory_is_refused(central: RealPool) -> None:
    second = RealPool(central.directory, central.settings)
    second.start(wait=False)
    assert second.master is not None
    assert second.master.wait(90) == 1
    assert central.master is not None
    said = (central.directory / "master.err").read_text()
    assert f"a master (pid {central.master.pid}) already runs in {central.directory}" in said


def test_a_taken_port_is_named(central: RealPool) -> None:
    taken = Address.parse((central.run_dir / "master.address").read_text().splitlines()[0]).port
    with real_pool(start=False, DAEMON_LIST="MASTER, COLLECTOR", SHARED_PORT_PORT=taken) as other:
        other.start(wait=False)
        assert other.master is not None
        assert other.master.wait(90) == 2
        assert f":{taken}: Address already in use" in (other.directory / "master.err").read_text()
        other.master = None


def test_killing_the_master_ends_its_daemons(central: RealPool) -> None:
    assert central.master is not None
    central.master.kill()
    central.master.wait()
    central.master = None
    central.until(lambda: not central.processes(), "the end of all daemons")


def test_p4_a_pool_starts_over_what_a_killed_one_left(central: RealPool) -> None:
    assert central.master is not None
    central.master.kill()
    central.master.wait()
    central.until(lambda: not central.processes(), "the end of all daemons")
    central.start()
    until_state(central, "negotiator", "Running")


def test_a_daemon_that_does_not_end_in_time_is_killed() -> None:
    with real_pool(DAEMON_LIST=CENTRAL, SHUTDOWN_FAST_TIMEOUT=1) as pool:
        os.kill(pool.pid_of("negotiator"), signal.SIGSTOP)
        ask(pool, DaemonsOff(daemons=["negotiator"], how=StopHow.FAST))
        until_state(pool, "negotiator", "Stopped")
        assert states(pool)["negotiator"]["LastExit"] == "died on signal 9"


@pytest.mark.parametrize("signum", [signal.SIGQUIT, signal.SIGINT], ids=["SIGQUIT", "SIGINT"])
def test_signals_stop_it(signum: int) -> None:
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR") as pool:
        pool.stop(signum)


def test_the_log_level_can_be_changed_while_it_runs(central: RealPool) -> None:
    def collector_hears_of(name: str) -> None:
        ad = ClassAd({"MyType": "Generic", "Name": name})
        ask(central, UpdateAds(updates=[AdUpdate(ad=ad)]), daemon="collector")

    for name, level in (("quiet", "D_ALWAYS"), ("told", "D_MATCH D_FULLDEBUG")):
        ask(central, SetLogLevel(level=level), daemon="collector")
        collector_hears_of(name)
    log = (central.directory / "log" / "CollectorLog").read_text()
    assert ("name=quiet" in log, "name=told" in log) == (False, True)


def test_the_shared_port_leads_to_each_daemon_over_tls(central: RealPool) -> None:
    ca = str(central.run_dir / "ca.pem")
    token = ask(central, CreateToken(identity="alice@pool.test", lifetime_s=600)).token
    directory = central.directory / "tokens.d"
    directory.mkdir()
    (directory / "alice").write_text(token)
    (directory / "alice").chmod(0o600)
    security = Security(SecuritySettings(ca_files=(ca,), token_directories=(str(directory),)))
    for daemon in ("master", "collector", "negotiator"):
        address = (central.run_dir / f"{daemon}.address").read_text().splitlines()[0]
        with connect(address, security) as peer:
            said = peer.call(Ping())
        assert (said.daemon, said.identity, said.method) == (daemon, "alice@pool.test", "TOKEN")


def test_p10_a_token_for_another_needs_an_administrator(central: RealPool) -> None:
    if os.geteuid() != 0:
        pytest.skip("takes two accounts")
    script = (
        "import sys; from protocol.rpc.blocking import connect; from protocol.security.credentials import Security; "
        "from protocol.wire.address import Address; from protocol.messages.master import CreateToken\n"
        f"peer = connect(Address.unix({str(central.run_dir / 'master.sock')!r}), Security()).__enter__()\n"
        "own = peer.call(CreateToken())\n"
        "for request in (CreateToken(identity='root'), CreateToken(duty='execute')):\n"
        "    try:\n        peer.call(request); sys.exit('granted')\n"
        "    except Exception as error:\n        assert 'ADMINISTRATOR' in str(error), error\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_a_host_joins_with_a_token_of_its_duty_and_keeps_its_name(central: RealPool, tmp_path: Path) -> None:
    ca = str(central.run_dir / "ca.pem")
    token = ask(central, CreateToken(identity="exec1", duty="execute")).token
    tokens = tmp_path / "tokens.d"
    tokens.mkdir()
    (tokens / "join").write_text(token)
    (tokens / "join").chmod(0o600)
    security = Security(SecuritySettings(ca_files=(ca,), token_directories=(str(tokens),)))
    address = (central.run_dir / "master.address").read_text().splitlines()[0]
    csr = make_host_key(tmp_path / "keys", "exec1.pool.test")
    with connect(address, security) as peer:
        joined = peer.call(JoinPool(host="exec1.pool.test", csr=csr))
        assert peer.call(JoinPool(host="exec1.pool.test", csr=csr)).collector_host == joined.collector_host
        other = make_host_key(tmp_path / "others", "exec1.pool.test")
        with pytest.raises(RemoteError, match="has been used"):
            peer.call(JoinPool(host="exec1.pool.test", csr=other))
        with pytest.raises(RemoteError, match="ADMINISTRATOR"):
            peer.call(DaemonsOff())
    keys.install_host_certificate(
        tmp_path / "keys", joined.certificate, joined.ca, key=keys.host_key(tmp_path / "keys")
    )
    assert "DAEMON_LIST = MASTER, STARTD\n" in joined.config
    member = Security(SecuritySettings(keys=str(tmp_path / "keys"), ca_files=(str(tmp_path / "keys" / "ca.pem"),)))
    with connect(address, member) as peer:
        said = peer.call(Ping())
    assert said.method == "SSL"
    assert "ADVERTISE_STARTD" in said.levels
    assert "ADVERTISE_SCHEDD" not in said.levels
    assert "ADMINISTRATOR" not in said.levels


def test_a_drained_host_stops_and_the_master_becomes_the_program_that_was_chosen(tmp_path: Path) -> None:
    program = tmp_path / "next"
    program.write_text(f"#!/bin/sh\necho here > {tmp_path}/said.part && mv {tmp_path}/said.part {tmp_path}/said\n")
    program.chmod(0o755)
    tmp_path.chmod(0o755)
    with real_pool(DAEMON_LIST="MASTER, COLLECTOR, STARTD", MASTER_SHUTDOWN_NEXT=str(program)) as pool:
        with pytest.raises(RemoteError, match="MASTER_SHUTDOWN_OTHER is not set"):
            ask(pool, SetShutdown(name="other"))
        with pytest.raises(RemoteError, match="does not pass the check"):
            ask(pool, DrainFirst(check="false"))
        with pytest.raises(RemoteError, match="nothing to do after a drain"):
            ask(pool, DrainFirst(then="dance"))
        ask(pool, DrainFirst(then="off"))
        until_state(pool, "collector", "Stopped")
        assert states(pool)["startd"]["State"] == "Stopped"
        ask(pool, DaemonsOn())
        until_state(pool, "startd", "Running")
        ask(pool, SetShutdown(name="next"))
        ask(pool, DrainFirst(then="exit"))
        pool.until((tmp_path / "said").exists, "the program in the master's place")
        assert pool.master is not None
        assert pool.master.wait(DEADLINE_S) == 0  # the program may not have ended yet, and takes no signal
