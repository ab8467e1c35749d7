"""condor_ssh: run a command on another node of the parallel job in which it is called.

The launchers of MPI take it in the place of ssh (`plm_rsh_agent` of Open MPI, `-launcher-exec` of MPICH): a node's
name is its number. It asks the starter beside which it runs, as condor_chirp does, with the cookie of the sandbox; the
schedd passes the command on to the other node's starter. So no node needs an sshd or a key.

HTCondor has a program of this name for the same purpose, which runs ssh (src/condor_examples/mp1script).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from minipool.cli.submit_tools.chirp import Client, Refused
from pool.base.errors import UserError
from pool.base.ids import is_number
from pool.execute.chirp import COMMAND_BYTES_MAX, ChirpError, Printed

TOOL = Tool(
    "condor_ssh",
    "From a node of a parallel job: run a command on another one.",
    "[options] NODE COMMAND...",
    (
        HELP,
        VERSION_OPT,
        Opt("f", 1, says="do not wait for the command, which gets no input and prints nothing"),
        Opt("timeout", 1, 1, "SECONDS", "how long to wait for the other node to run (120)"),
    ),
    stop_at_word=True,
)

WAIT_S: Final = 120.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_ssh."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) < 2:
        raise UsageError("ERROR: You must specify a node and a command!\n")
    node, *words = parsed.words
    if not is_number(node):
        raise UserError(f"{node} is not the number of a node")
    wait = parsed.value("timeout")
    if wait is not None and not is_number(wait):
        raise UserError(f"-timeout {wait}: not a number of seconds")
    # As ssh does: the words are one text, which the other side's shell reads.
    command = " ".join(words)
    if parsed.has("f"):
        command = f"setsid sh -c {_quoted(command)} < /dev/null > /dev/null 2>&1 &"
    data = command.encode(errors="surrogateescape")
    if len(data) > COMMAND_BYTES_MAX:
        raise UserError(f"the command is longer than {COMMAND_BYTES_MAX} bytes")
    return _show(_begun(int(node), data, WAIT_S if wait is None else float(wait)))


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _begun(node: int, command: bytes, wait_s: float) -> Client:
    """The connection on which the command prints. All nodes begin together, but this one may be first to run."""
    pause, late = FIRST_PAUSE_S, time.monotonic() + wait_s
    while True:
        client = Client()
        try:
            client.call("run_on_node", node, len(command), data=command)
            return client
        except Refused as error:
            if error.number == ChirpError.DOES_NOT_EXIST:
                raise UserError(f"this job has no node {node}") from None
            if error.number != ChirpError.TRY_AGAIN or time.monotonic() > late:
                raise
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE_S)


def _show(client: Client) -> int:
    """Print what the command prints; its exit status is ours."""
    while True:
        kind, _, number = client.line().partition(" ")
        if not number:
            raise UserError("the connection to the other node was lost")
        if int(kind) == Printed.OVER:
            code = os.waitstatus_to_exitcode(int(number))
            return code if code >= 0 else 128 - code
        stream = sys.stdout.buffer if int(kind) == Printed.OUTPUT else sys.stderr.buffer
        stream.write(client.bytes(int(number)))
        stream.flush()
