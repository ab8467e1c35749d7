"""How long CRIU takes to write a program of 100 MB down and to make it again, as a job's account (want_checkpoint).

The files come out of the page cache and go into it: what the disk and the network to the access point add is that of a
file transfer of the same size (`make bench ARGS=transfer`). Beside it a copy of the checkpoint's files by `cat`,
which no checkpoint could be much faster than. `CHECKPOINT_MB` scales it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from benchmarks.measure import Figure
from daemons.host.account import fallback_account
from daemons.startd.machine.criu_trial import FIRST, find_criu
from pool.config import load_config
from pool.execute import criu

MB: Final = int(os.environ.get("CHECKPOINT_MB", "100"))
ROUNDS: Final = 3
SIZED: Final = f"import os, time; kept = os.urandom({MB} << 20); open('ready', 'w'); time.sleep(600)"
PATIENCE_S: Final = 300


def figures() -> Iterator[Figure]:
    """The best of the rounds."""
    found = find_criu(load_config([], environ={}, overrides={"EXECUTE": tempfile.gettempdir()}))
    if not found.program:
        print(f"checkpoint: CRIU does not work here: {found.problem or 'there is none'}", file=sys.stderr)
        return
    rounds = [_round(found.program) for _ in range(ROUNDS)]
    how = f"{MB} MB of a Python program's memory, best of {ROUNDS}"
    down, copied, again = (min(times) for times in zip(*rounds, strict=True))
    yield Figure("a program is written down", down, "ms", how)
    yield Figure("and made again", again, "ms", how)
    yield Figure("the first, by a copy of the files", down / copied, "times", how)
    yield Figure("the second, by a copy of the files", again / copied, "times", how)


def _round(program: str) -> tuple[float, float, float]:
    """Milliseconds: to write down, to copy what that has made, to make again."""
    account = fallback_account("nobody")
    own = account.uid, account.gid, account.groups
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, account.uid, account.gid)
        begin = criu.without_rights(["setsid", "/usr/bin/python3", "-c", SIZED], *own)
        script = f"""
            echo {criu.RESERVED_PIDS} > /proc/sys/kernel/ns_last_pid
            {shlex.join(begin)} </dev/null >/dev/null 2>&1 &
            until [ -e ready ]; do kill -0 {FIRST} || exit 4; sleep 0.05; done
            date +%s%N
            {shlex.join(criu.dumping(program, FIRST, directory, *own))} || exit 5
            date +%s%N
            cat *.img > copied
            date +%s%N
            rm copied
            kill -9 {FIRST}; wait
            date +%s%N
            {shlex.join(criu.restoring(program, directory, *own))} || exit 6
            date +%s%N
        """
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", script]
        done = subprocess.run(words, cwd=directory, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S)
        first, second, third, fourth, fifth = (int(word) / 1e6 for word in done.stdout.split())
        return second - first, third - second, fifth - fourth
