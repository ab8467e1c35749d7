"""What tools pay for at start-up."""

from __future__ import annotations

import subprocess
import sys

from protocol.security import signed_token

HEAVY = ("trio", "cryptography", "numpy", "rich", "psutil", "lark", "ssl", "asyncio", "json", "hashlib", "jwt")


def test_the_blocking_face_imports_nothing_heavy() -> None:
    code = (
        "import sys, protocol.rpc.blocking, protocol.security.credentials\n"
        "from protocol.wire.address import Address\n"
        "Address.parse('<127.0.0.1:9618?sock=schedd&alias=cm.pool.test>')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_who_holds_a_token_shows_it_without_the_library_that_makes_and_checks_tokens() -> None:
    token = signed_token.create_token(b"k" * 32, subject="alice@pool.test", issuer="pool.test", now=1.0, id="1")
    code = (
        "import sys\n"
        "from protocol.security.credentials import Security\n"
        "from protocol.security.identity import Greeting, Link\n"
        "from protocol.security.settings import SecuritySettings\n"
        f"held = SecuritySettings(trust_domain='pool.test', tokens=({token!r},), offer=('TOKEN',))\n"
        "side = Security(held).client(\n"
        "    Link(kind='tls', verified=True, binding=b'certificate', label='schedd')\n"
        ")\n"
        "method, proof = side.choose(['TOKEN'], Greeting(wanted='schedd', nonce=b'n' * 32))\n"
        "print(method, 'proof' in proof, [name for name in ('jwt', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("TOKEN True []", "")
