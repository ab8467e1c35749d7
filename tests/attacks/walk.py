"""What another account can do with everything under a pool's LOCAL_DIR: a walk, and a table of what it may.

Root lists all there is, so that also what can be reached only by its name is tried. The attacker then opens each file,
lists and writes into each directory, connects to each socket, and looks for secrets in whatever it could read, in the
command lines and the environments of the pool's processes too. What it managed and no row of MAY allows is returned.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys
from pathlib import Path
from typing import Final

from tests.attacks.actors import ATTACKER, run_as
from tests.whole.real_pool import RealPool

MAY: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (".", frozenset({"list"})),
    ("config", frozenset({"read"})),
    ("master.err", frozenset({"read"})),  # of the tests, not of the pool
    ("log", frozenset({"list"})),
    ("log/*Log*", frozenset({"read"})),
    ("execute", frozenset({"list"})),
    ("run", frozenset({"list"})),
    ("run/ca.pem", frozenset({"read"})),
    ("run/ready", frozenset({"read"})),
    ("run/up.config", frozenset({"read"})),
    ("run/*.address", frozenset({"read"})),
    ("run/*.sock", frozenset({"connect"})),
)
"""By patterns of paths (`*` stops at a slash); what is in no row may not be touched at all."""

SECRETS: Final = {
    "a claim id": r"<[^<>\s]+>#\d+#\d+#[0-9A-Za-z]{8,}",
    "a ticket": r"(?<![0-9a-f])[0-9a-f]{48}(?![0-9a-f])",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a token": r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}",
    "a chirp cookie": r"chirp.*cookie\W+\w{16,}",
}

_ATTACKER: Final = r"""
import json, os, re, socket, stat, sys

top, paths, pids, secrets = json.load(sys.stdin)
managed = []

def secret_in(data, where):
    text = data.decode("utf-8", "replace")
    managed.extend([where, f"holds {name}"] for name, pattern in secrets.items() if re.search(pattern, text))

def connects(path):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as sock:
            try:
                sock.connect(path)
                return True
            except OSError:
                continue
    return False

for inside in paths:
    path = os.path.join(top, inside)
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        continue
    if stat.S_ISDIR(mode):
        try:
            os.listdir(path)
            managed.append([inside, "list"])
        except OSError:
            pass
        if os.access(path, os.W_OK):
            managed.append([inside, "write"])
    elif stat.S_ISSOCK(mode):
        if connects(path):
            managed.append([inside, "connect"])
    elif stat.S_ISREG(mode):
        if os.access(path, os.W_OK):
            managed.append([inside, "write"])
        try:
            with open(path, "rb") as file:
                managed.append([inside, "read"])
                secret_in(file.read(), inside)
        except OSError:
            pass

for pid in pids:
    for name in ("cmdline", "environ"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                secret_in(file.read().replace(b"\0", b" "), f"/proc/{pid}/{name}")
                if name == "environ":
                    managed.append([f"/proc/{pid}/{name}", "read"])
        except OSError:
            pass
json.dump(managed, sys.stdout)
"""


def everything(directory: Path) -> list[str]:
    """All that is below a directory, itself included, relative to it; jobs run on meanwhile, and what they remove is passed over."""
    found = (os.path.join(top, name) for top, inner, files in os.walk(directory) for name in (*inner, *files))
    return [".", *sorted(os.path.relpath(path, directory) for path in found)]


def too_much(pool: RealPool, account: str = ATTACKER) -> set[tuple[str, str]]:
    """What the account managed and should not have: path and deed."""
    known = [str(pool.directory), everything(pool.directory), pool.processes(), SECRETS]
    done = run_as(account, sys.executable, "-I", "-c", _ATTACKER, text=json.dumps(known))
    assert done.returncode == 0, done.stderr
    return {(path, deed) for path, deed in json.loads(done.stdout) if deed not in _allowed(path)}


def _allowed(path: str) -> frozenset[str]:
    return next((deeds for pattern, deeds in MAY if re.fullmatch(_regex(pattern), path)), frozenset())


def _regex(pattern: str) -> str:
    return fnmatch.translate(pattern).replace(".*", "[^/]*")
