"""What tools pay for at start-up."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("trio", "cryptography", "numpy", "rich", "psutil", "lark", "ssl", "asyncio", "json", "hashlib")


def test_the_blocking_face_imports_nothing_heavy() -> None:
    code = (
        "import sys, protocol.blocking, protocol.security\n"
        "from protocol.address import Address\n"
        "Address.parse('<127.0.0.1:9618?sock=schedd&alias=cm.pool.test>')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
