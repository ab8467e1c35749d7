"""Floods: what one account can open and send, from a process of its own, while others want to work.

    with flood("silent", pool.run_dir / "schedd.sock", count=600):
        ...                      # the connections are open, and opened again when they are closed

Each kind is a function of this module, which runs in the process of the flood.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from protocol.network.shared_port import preface
from protocol.wire.address import Address
from tests.whole.real_pool import DEADLINE_S, as_account

LIFE_S: Final = 60.0
READY: Final = "ready"


@contextmanager
def flood(kind: str, where: object, *, count: int, account: str | None, nice: int = 0) -> Iterator[None]:
    """That flood, by a process of `account`, for the time of the block."""
    command = ["nice", "-n", str(nice), sys.executable, "-m", "tests.attacks.flood", kind, str(where), str(count)]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **as_account(account),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY, f"the flood of {kind} could not begin"
        yield
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def _hold(open_one: Callable[[], socket.socket], count: int) -> None:
    """Keep `count` connections open, each opened again once it is closed; says when all are there."""
    held: list[socket.socket] = []
    said, end = False, time.monotonic() + LIFE_S
    while time.monotonic() < end:
        while len(held) < count:
            with suppress(OSError):
                held.append(open_one())
                continue
            break  # refused: what is open has to do
        if not said:
            said = True
            print(READY, flush=True)
        held = [sock for sock in held if _is_open(sock)]
        time.sleep(0.01)


def _is_open(sock: socket.socket) -> bool:
    try:
        while sock.recv(4096, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    sock.close()
    return False


def silent(where: str, count: int) -> None:
    """Connections to a unix socket on which nothing is said."""

    def open_one() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(0.5)
        sock.connect(where)
        return sock

    _hold(open_one, count)


def mute_port(where: str, count: int) -> None:
    """TCP connections on which nothing is said."""
    address = Address.parse(where)
    _hold(lambda: socket.create_connection((address.host, address.port), timeout=0.5), count)


def prefaced(where: str, count: int) -> None:
    """TCP connections that name a daemon, and then say nothing."""
    address = Address.parse(where)

    def open_one() -> socket.socket:
        sock = socket.create_connection((address.host, address.port), timeout=0.5)
        sock.sendall(preface(address.sock))
        return sock

    _hold(open_one, count)


def idle(where: str, count: int) -> None:
    """Authenticated connections to a unix socket on which nothing more is said."""
    from protocol.rpc.blocking import BlockingPeer, connect
    from protocol.security.credentials import Security

    kept: list[BlockingPeer] = []

    def open_one() -> socket.socket:
        kept.append(connect(where, Security(), timeout=DEADLINE_S))
        return socket.socket(fileno=kept[-1]._socket.detach())

    def tolerant() -> socket.socket:
        try:
            return open_one()
        except Exception as error:
            raise OSError(str(error)) from None

    _hold(tolerant, count)


def handshakes(where: str, count: int) -> None:
    """Whole TLS handshakes with the schedd, one after another on `count` threads."""
    import ssl

    address = Address.parse(where)

    def one() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection((address.host, address.port), timeout=DEADLINE_S) as sock:
            sock.sendall(preface(address.sock))
            with context.wrap_socket(sock):
                pass

    _again_and_again(one, count)


def visits(where: str, count: int) -> None:
    """Connections that authenticate and leave."""
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security

    def one() -> None:
        with connect(where, Security(), timeout=DEADLINE_S):
            pass

    _again_and_again(one, count)


def frames(where: str, count: int) -> None:
    """Messages of 1 MB that mean nothing, on `count` connections."""
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security

    body = b"\x94\x05\x01\xabcommon.ping" + b"\xc6" + (1_000_000).to_bytes(4, "big") + b"\x90" * 1_000_000

    def one() -> None:
        with connect(where, Security(), timeout=DEADLINE_S) as peer:
            peer._socket.settimeout(DEADLINE_S)
            peer._socket.sendall(len(body).to_bytes(4, "big") + body)
            peer._socket.recv(1000)

    _again_and_again(one, count)


def queries(where: str, count: int) -> None:
    """The whole queue, asked for on `count` connections at a time."""
    from protocol.messages.schedd import QueryJobs, Selection
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security

    def one() -> None:
        with connect(where, Security(), timeout=DEADLINE_S) as peer:
            for _ in peer.stream(QueryJobs(select=Selection(all=True))):
                pass

    _again_and_again(one, count)


def bombs(where: str, count: int) -> None:
    """The queue asked for with a constraint that takes for ever, on `count` connections at a time."""
    from protocol.messages.schedd import QueryJobs, Selection
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security

    constraint = 'regexp("(a*)*b", "' + "a" * 40 + '")'

    def one() -> None:
        with connect(where, Security(), timeout=DEADLINE_S) as peer, suppress(Exception):
            for _ in peer.stream(QueryJobs(select=Selection(constraint=constraint))):
                pass

    _again_and_again(one, count)


def calls(where: str, count: int) -> None:
    """Small requests, on `count` connections, many under way on each."""
    from protocol.messages.common import Ping
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security
    from protocol.wire.kinds import encode

    def one() -> None:
        with connect(where, Security(), timeout=DEADLINE_S) as peer:
            for _ in range(200):
                for _ in range(50):
                    peer._connection.call(Ping.tag, encode(Ping()))
                peer._flush()
                peer.call(Ping())
                peer._answers.clear()

    _again_and_again(one, count)


def submits(where: str, count: int) -> None:
    """Clusters of 500 jobs that wait on hold, on `count` connections, each removed again."""
    from pool.classad import ClassAd
    from protocol.messages.schedd import Action, ActOnJobs, Selection
    from protocol.messages.submit import SubmitJobs
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security
    from protocol.wire.codec import pack_ads

    ad = ClassAd({"Cmd": "/bin/true", "JobUniverse": 5, "Iwd": "/tmp", "JobStatus": 5, "HoldReasonCode": 1})
    procs = [pack_ads([ClassAd({"Args": str(number)}) for number in range(500)])]

    def one() -> None:
        with connect(where, Security(), timeout=DEADLINE_S) as peer:
            done = peer.call(SubmitJobs(cluster_ad=ad, procs=procs), timeout=60.0)
            peer.call(ActOnJobs(action=Action.REMOVE, select=Selection(ids=[str(done.cluster)])), timeout=60.0)

    _again_and_again(one, count)


def busy(where: str, count: int) -> None:
    """A program that needs a processor and nothing of the pool."""
    print(READY, flush=True)
    end = time.monotonic() + LIFE_S
    while time.monotonic() < end:
        pass


def _again_and_again(one: Callable[[], None], count: int) -> None:
    """Do this over and over on `count` threads; says so when it has succeeded once."""
    from threading import Thread

    end = time.monotonic() + LIFE_S
    one()

    def run() -> None:
        while time.monotonic() < end:
            with suppress(Exception):
                one()

    threads = [Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    print(READY, flush=True)
    for thread in threads:
        thread.join()


KINDS: Final = {
    kind.__name__: kind
    for kind in (silent, mute_port, prefaced, idle, handshakes, visits, frames, queries, bombs, calls, submits, busy)
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
