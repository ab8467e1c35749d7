"""Manual pages (man 1) and the completions of bash, from the option tables of the tools.

`make docs` writes them to docs/share, from where they come into the wheel, under share/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from minipool.cli.entry import completion
from minipool.cli.entry.main import help_text
from minipool.cli.entry.names import POOL_VERBS, TOOLS
from minipool.cli.entry.options import Opt
from minipool.cli.entry.tool import Tool, shown_option

MAN: Final = "man/man1"
COMPLETIONS: Final = "bash-completion/completions"
_STUB: Final = '# Made by `make docs`; do not edit.\n. "${BASH_SOURCE[0]%/*}/pool"\n'


def files() -> dict[str, str]:
    """The text of each file, by its path below share/."""
    found = {f"{MAN}/pool.1": _page("pool", "a batch pool for the machines you have", [*_plain(help_text())])}
    for verb, (module, summary) in (*POOL_VERBS.items(), *TOOLS.items()):
        program = f"condor_{verb}" if verb in TOOLS else f"pool {verb}"
        tool = _tool(module, program)
        body = _plain(import_module(f"minipool.cli.{module}").USAGE) if tool is None else _sections(tool, program)
        found[f"{MAN}/{program.replace(' ', '-')}.1"] = _page(program, summary, body)
    found[f"{COMPLETIONS}/pool"] = completion.bash(completion.options())
    found |= {f"{COMPLETIONS}/condor_{verb}": _STUB for verb in TOOLS}
    return found


def _tool(module: str, program: str) -> Tool | None:
    """The table of the program; None where the module has a usage text alone."""
    loaded = import_module(f"minipool.cli.{module}")
    tools: tuple[Tool, ...] = getattr(loaded, "TOOLS", None) or tuple(filter(None, [getattr(loaded, "TOOL", None)]))
    return next((tool for tool in tools if tool.name == program), tools[0] if tools else None)


def _page(program: str, summary: str, body: list[str]) -> str:
    name = program.replace(" ", "-")
    lines = [
        '.\\" Made by `make docs` from the option tables; do not edit.',
        f'.TH {name.upper()} 1 "" minipool "minipool"',
        ".SH NAME",
        _text(f"{name} - {summary}"),
        *body,
        ".SH SEE ALSO",
        ".BR pool (1)",
    ]
    return "\n".join(lines) + "\n"


def _sections(tool: Tool, program: str) -> list[str]:
    lines = [
        ".SH SYNOPSIS",
        f".B {_text(program)}",
        _text(tool.usage),
        ".SH DESCRIPTION",
        _text(tool.summary),
        ".SH OPTIONS",
    ]
    lines += [line for row in tool.options if not row.refused for line in _option(row)]
    refused = [row for row in tool.options if row.refused]
    if refused:
        lines += [".SH NOT SUPPORTED", "These options of HTCondor are refused:"]
        lines += [line for row in refused for line in (".TP", f".B {_text(shown_option(row))}", _text(row.refused))]
    return [*lines, *([".SH NOTES", *map(_text, tool.notes.splitlines())] if tool.notes else [])]


def _option(row: Opt) -> list[str]:
    return [".TP", f".B {_text(shown_option(row))}", _text(row.says)]


def _plain(text: str) -> list[str]:
    """A usage text as it is, where the program has no table."""
    return [".SH SYNOPSIS", ".nf", *map(_text, text.rstrip("\n").split("\n")), ".fi"]


def _text(text: str) -> str:
    """`text` as one line of roff that means itself."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
