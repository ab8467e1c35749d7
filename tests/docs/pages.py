"""Pages whose examples are executed: the configuration, programs, submit files and commands that a page shows.

A block's first line says what it is: `config`; `sh NAME` for a program, `submit NAME` for a submit file, `dag NAME` for a graph,
`python NAME` for a program of the reader's; `console` for commands, each followed by what it prints: those of a user after `$ `, those of the machine's owner after `# `.

A page is followed in a pool that others use (`start_in_use`), so no command may count on the numbers of a new pool. What
a command prints has other numbers there than the page: those that the page shows, 501 to 509, stand for the reader's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.whole.real_pool import DEADLINE_S, NotInTime, RealPool, as_account

PAGES: Final = Path(__file__).parent.parent.parent / "docs"
HISTORY_JOBS: Final = 250
"""How many jobs each of two users has behind them when a page's reader comes."""

_BLOCK: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_KEPT: Final = re.compile(r"(\w+)=\$\(.*\)")
_NUMBER: Final = re.compile(r"\b50[1-9]\b")
ASKS: Final = ("cat ", "grep ", "condor_status ", "condor_q ", "condor_userprio ", "python3 ")
"""Commands that only look, unless they say what to change: they may be asked until they answer what the page shows."""
_CHANGES: Final = re.compile(r" (add|-(set|reset|delete|cancel)\w*) ")


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
        if block.kind in ("submit", "dag", "python") and block.name:
            (home / block.name).write_text(block.text)


def start_in_use(pool: RealPool) -> None:
    """Start a pool, and give it a past: a history, and jobs that wait or are held, of the reader and of somebody else."""
    pool.start()
    idle = r"printf 'executable = /bin/true\nrequirements = false\n%s\n' "
    for account in ("daemon", pool.user):
        past = run(f"{idle} 'queue {HISTORY_JOBS}' | condor_submit -terse", pool, account).partition(".")[0]
        run(f"condor_rm {past}", pool, account)
        pool.until(lambda past=past: len(pool.history(past)) == HISTORY_JOBS, "the history")
        run(f"{idle} 'queue 2' | condor_submit", pool, account)
        run(f"{idle} 'hold = true\nqueue' | condor_submit", pool, account)
    assert len(pool.jobs()) == 6


def perform(examples: list[Block], pool: RealPool) -> None:
    """Give the page's commands, in order; AssertionError when one does not print what the page shows."""
    reader = Reader(pool)
    for block in examples:
        if block.kind == "console":
            for prompt, command, expected in commands(block.text):
                reader.give(command, expected, pool.user if prompt == "$" else pool.owner)


@dataclass
class Reader:
    """Somebody who types what a page shows: the variables of the shell, and the numbers that jobs have here."""

    pool: RealPool
    variables: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)

    def give(self, command: str, expected: str, account: str | None) -> None:
        """Give a command: once, or until it prints what the page shows if it only looks."""
        if found := _KEPT.fullmatch(command):
            said = run(f'{command}; printf "%s" "${found[1]}" > kept', self.pool, account, self.variables)
            self.variables[found[1]] = (self.pool.directory / "home" / "kept").read_text()
            assert said == expected, _difference(command, said, expected)
        elif command.startswith(ASKS) and not _CHANGES.search(command):
            self._until_printed(command, expected, account)
        else:
            said = run(command, self.pool, account, self.variables)
            assert self.is_as_shown(said, expected), _difference(command, said, expected)

    def _until_printed(self, command: str, expected: str, account: str | None) -> None:
        said = ""

        def printed() -> bool:
            nonlocal said
            said = run(command, self.pool, account, self.variables)
            return self.is_as_shown(said, expected)

        try:
            self.pool.until(printed, command)
        except NotInTime as error:
            raise AssertionError(_difference(command, said, expected)) from error

    def is_as_shown(self, said: str, expected: str) -> bool:
        """Whether this is what the page shows; a number of the page stands for the same number here wherever it appears."""
        parts = _NUMBER.split(expected)
        found = re.fullmatch(r"(\d+)".join(map(re.escape, parts)), said)
        if found is None:
            return False
        numbers = dict(self.numbers)
        for shown, here in zip(_NUMBER.findall(expected), found.groups(), strict=True):
            if numbers.setdefault(shown, here) != here:
                return False
        if len(set(numbers.values())) != len(numbers):
            return False
        self.numbers = numbers
        return True


def _difference(command: str, said: str, expected: str) -> str:
    return f"{command}\n{said}\nwhere the page has\n{expected}"


def commands(text: str) -> list[tuple[str, str, str]]:
    """The commands of a block: the prompt, the command, and what it prints."""
    parts = re.split(r"^([$#]) ", text, flags=re.MULTILINE)[1:]
    return [(prompt, *_halves(rest)) for prompt, rest in zip(parts[::2], parts[1::2], strict=True)]


def _halves(text: str) -> tuple[str, str]:
    command, _, printed = text.partition("\n")
    return command, printed


def run(command: str, pool: RealPool, account: str | None, variables: Mapping[str, str] | None = None) -> str:
    """What a command prints, given as the page's reader."""
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=pool.directory / "home",
        env={
            **pool.env(),
            **(variables or {}),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "LOG": str(pool.directory / "log"),
            "LC_ALL": "C.UTF-8",  # `sort` sorts by it
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * DEADLINE_S,
        **as_account(account),
    )
    return done.stdout + done.stderr
