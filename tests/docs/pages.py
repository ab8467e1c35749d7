"""Pages whose examples are executed: the configuration, programs, submit files and commands that a page shows.

A block's first line says what it is: `config`; `sh NAME` for a program, `submit NAME` for a submit file; `console` for
commands, each followed by what it prints: those of a user after `$ `, those of the machine's owner after `# `.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.whole.real_pool import DEADLINE_S, NotInTime, RealPool, as_account

PAGES: Final = Path(__file__).parent.parent.parent / "docs"
_BLOCK: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASKS: Final = ("cat ", "grep ", "condor_status ", "condor_q ", "python3 ")
"""Commands that only look: they may be asked until they answer what the page shows."""


@dataclass(frozen=True)
class Block:
    """One example."""

    kind: str
    name: str
    text: str


def blocks(page: str, places: Mapping[str, str]) -> list[Block]:
    """The examples of a page, with its places replaced by the test's."""
    text = (PAGES / page).read_text()
    for place, other in places.items():
        text = text.replace(place, other)
    return [Block(*found) for found in _BLOCK.findall(text)]


def install(examples: list[Block], pool: RealPool, programs: Path) -> None:
    """Put the page's configuration and programs where the pool finds them; before the pool starts."""
    programs.mkdir(parents=True)
    for block in examples:
        if block.kind == "sh":
            (programs / block.name).write_text(block.text)
            (programs / block.name).chmod(0o755)
    config = "".join(block.text for block in examples if block.kind == "config")
    (pool.directory / "config").write_text(config)
    home = pool.directory / "home"
    home.mkdir()
    home.chmod(0o777)
    for block in examples:
        if block.kind == "submit":
            (home / block.name).write_text(block.text)


def perform(examples: list[Block], pool: RealPool) -> None:
    """Give the page's commands, in order; AssertionError when one does not print what the page shows."""
    for block in examples:
        if block.kind != "console":
            continue
        for prompt, command, expected in commands(block.text):
            account = pool.user if prompt == "$" else pool.owner
            if command.startswith(ASKS) and " add " not in command:
                _until_printed(command, expected, pool, account)
                continue
            said = run(command, pool, account)
            assert said == expected, f"{command}\n{said}\nwhere the page has\n{expected}"


def _until_printed(command: str, expected: str, pool: RealPool, account: str | None) -> None:
    said = ""

    def printed() -> bool:
        nonlocal said
        said = run(command, pool, account)
        return said == expected

    try:
        pool.until(printed, command)
    except NotInTime as error:
        raise AssertionError(f"{command}\n{said}\nwhere the page has\n{expected}") from error


def commands(text: str) -> list[tuple[str, str, str]]:
    """The commands of a block: the prompt, the command, and what it prints."""
    parts = re.split(r"^([$#]) ", text, flags=re.MULTILINE)[1:]
    return [(prompt, *_halves(rest)) for prompt, rest in zip(parts[::2], parts[1::2], strict=True)]


def _halves(text: str) -> tuple[str, str]:
    command, _, printed = text.partition("\n")
    return command, printed


def run(command: str, pool: RealPool, account: str | None) -> str:
    """What a command prints, given as the page's reader."""
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=pool.directory / "home",
        env={**pool.env(), "PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(pool.directory / "log")},
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * DEADLINE_S,
        **as_account(account),
    )
    return done.stdout + done.stderr
