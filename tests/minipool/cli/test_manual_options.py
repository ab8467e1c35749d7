"""Every option of HTCondor's manual pages is known: it is taken, or refused with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import minipool
from minipool.cli.entry.names import POOL_VERBS, TOOLS
from minipool.cli.entry.options import MissingValue, UsageError, parse
from minipool.cli.entry.tool import Tool
from minipool.cli.submit_tools.chirp import COMMANDS
from pool.submit.qsub import read_wishes
from tests.minipool.cli.fake_pool import CASES

LINES = [line.partition(": ") for line in (CASES / "manual.options").read_text().splitlines() if line[:1] != "#"]
OPTIONS = {name: options.split() for name, _, options in LINES}


def table(name: str) -> Tool:
    """The tool's own table."""
    module = import_module(f"minipool.cli.{TOOLS[name.removeprefix('condor_')][0]}")
    tools: tuple[Tool, ...] = getattr(module, "TOOLS", None) or (module.TOOL,)
    return next((tool for tool in tools if tool.name == name), tools[0])


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_a_manual_page_are_known(name: str) -> None:
    assert [option for option in OPTIONS[name] if not is_known(name, option)] == []


def is_known(name: str, option: str) -> bool:
    """Whether a tool takes an option, or refuses it with a reason."""
    if name == "condor_chirp":  # its commands have options of their own
        return any(f"[{option}" in command.usage for command in COMMANDS.values())
    if name == "condor_qsub":
        return bool(read_wishes([option, "value"]).options)
    tool = table(name)
    with_values = [option, "1", "1", "1"]
    try:
        parsed = parse(tool.options, with_values, unknown="unknown: {}", stop_at_word=tool.stop_at_word)
    except MissingValue as error:
        return " is not supported here: " in str(error)
    except UsageError:
        return False
    return bool(parsed.given)


ACCEPTED = {
    "condor_submit": "single-cluster",
    "condor_q": "verbose userprios nouserprios",
    "condor_history": "backwards stream-results diagnostic no-librarian",
    "condor_version": "syscall",
    "condor_watch_q": "interval",
    "pool watch": "interval",
    "condor_ssh_to_job": "keygen-options x",
    "condor_store_cred": "p u n i s a",
    "condor_userprio": "grouprollup",
    "condor_config_val": "expanded mixedcase",
    "condor_off": "force-graceful request-id",
    "condor_restart": "force-graceful request-id",
    "condor_who": "allpids",
    "condor_token_create": "key",
    "condor_advertise": "tcp udp",
    "condor_qsub": "cwd W",
}
"""Options that ask for what is done anyway, or for what has no meaning here; all others change what a tool does."""


def all_tools() -> Iterator[Tool]:
    for module in sorted({module for module, _ in (*TOOLS.values(), *POOL_VERBS.values())}):
        here = import_module(f"minipool.cli.{module}")
        yield from getattr(here, "TOOLS", None) or ([here.TOOL] if hasattr(here, "TOOL") else [])


def said_in_the_tools() -> set[str]:
    """Every string in the sources of the tools, but for the names in their tables of options."""
    found: set[str] = set()
    for path in Path(minipool.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {
            id(node.args[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Opt" and node.args
        }
        found |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in names
        }
    return found


def test_an_option_does_something_or_is_known_to_do_nothing() -> None:
    said = said_in_the_tools()
    idle = {
        (tool.name, row.key)
        for tool in all_tools()
        for row in tool.options
        if not row.refused and row.key not in ("help", "version", "debug") and row.key not in said
    }
    known = {(name, key) for name, keys in ACCEPTED.items() for key in keys.split()}
    assert sorted(idle - known) == []


def test_each_option_says_what_it_is_for() -> None:
    silent = [(tool.name, row.names) for tool in all_tools() for row in tool.options if not row.says]
    assert silent == []


def test_what_is_not_in_a_table_is_not_known() -> None:
    for name in OPTIONS.keys() - {"condor_chirp", "condor_qsub"}:
        with pytest.raises(UsageError, match="unknown: -no-such-option"):
            parse(table(name).options, ["-no-such-option"], unknown="unknown: {}")
