"""When a server loads what checks tokens, and where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.protocol.echo import a_security

SERVER = """
import sys, threading
import trio
from protocol.rpc.endpoints import connected
from protocol.wire.address import Address
from tests.fakes.network import FakeNetwork
from tests.protocol.echo import Echo, EchoService, a_security, a_tool, serving

loaded = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("jwt", "cryptography"):
            loaded.append((name, threading.current_thread() is threading.main_thread()))
sys.meta_path.insert(0, Finder())

async def main():
    network = FakeNetwork()
    host = network.host("cm", duties={"central"})
    inside, outside = Address.unix("/run/echo.sock"), Address.tcp("cm", 9618, sock="echo")
    listeners = [await host.listen(inside), await host.listen(outside)]
    async with serving(EchoService(), listeners, a_security()):
        async with connected(inside, security=a_security(), network=host.as_user(65534)) as peer:
            print(peer.me, loaded)
        tool = a_tool(sys.argv[1], sys.argv[2])
        async with connected(outside, security=tool, network=network.host("laptop")) as peer:
            print(peer.me, dict(loaded))

trio.run(main)
"""


def test_what_checks_tokens_is_loaded_in_a_thread_when_somebody_may_show_one(tmp_path: Path) -> None:
    token = a_security().create_token("alice")
    argv = [sys.executable, "-c", SERVER, str(tmp_path), token]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.stderr == ""
    by_account, by_token = done.stdout.splitlines()
    assert by_account.endswith("[]")
    assert by_token == "alice@pool.test {'cryptography': False, 'jwt': False}"
