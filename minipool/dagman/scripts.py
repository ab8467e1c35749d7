"""Running the scripts of nodes, as this account, in their nodes' directories."""

from __future__ import annotations

import os
import subprocess
import time

import trio

from pool.dag.model import Script

FAILED_TO_EXECUTE = 1
"""What stands for the exit code of a script that could not be started."""


async def run_script(script: Script, command: tuple[str, ...], directory: str, node: str) -> tuple[int, str]:
    """The script's exit code, or its signal as a negative number; and why it could not be started, if so.

    The program is looked for where the node's files are, and not on PATH. When this is cancelled it is killed.
    """
    # As HTCondor's does: a script is a file of the graph, and not what PATH happens to have.
    program = os.path.join(directory, command[0])
    wanted = script.debug_streams if script.debug_file else ""
    kept = {"STDOUT": ("STDOUT",), "STDERR": ("STDERR",), "ALL": ("STDOUT", "STDERR")}.get(wanted, ())
    try:
        done = await trio.run_process(
            [program, *command[1:]],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_stdout="STDOUT" in kept,
            capture_stderr="STDERR" in kept,
            check=False,
            deliver_cancel=_kill,
        )
    except OSError as error:
        return FAILED_TO_EXECUTE, f"{program}: {error.strerror}"
    if kept:
        said = b"".join(text for text in (done.stdout, done.stderr) if text)
        _keep_output(script, command, directory, node, done.returncode, said)
    return done.returncode, ""


async def _kill(process: trio.Process) -> None:
    process.kill()


def _keep_output(script: Script, command: tuple[str, ...], directory: str, node: str, code: int, said: bytes) -> None:
    how = f"ExitCode={code}" if code >= 0 else f"Signal={-code}"
    head = f"*** Node={node} Type={script.kind} {how} Completion={int(time.time())} Cmd='{' '.join(command)}'\n"
    with open(os.path.join(directory, script.debug_file), "ab") as file:
        file.write(head.encode(errors="surrogateescape") + said)
