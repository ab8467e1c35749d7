"""Every option of HTCondor's manual pages is known: it is taken, or refused with a reason."""

from __future__ import annotations

from importlib import import_module

import pytest

from minipool.cli.chirp import COMMANDS
from minipool.cli.names import TOOLS
from minipool.cli.options import MissingValue, UsageError, parse
from minipool.cli.tool import Tool
from pool.submit.qsub import read_wishes
from tests.minipool.cli.fake_pool import CASES

LINES = [line.partition(": ") for line in (CASES / "manual.options").read_text().splitlines() if line[:1] != "#"]
OPTIONS = [(name, option) for name, _, options in LINES for option in options.split()]


def table(name: str) -> Tool:
    """The tool's own table."""
    module = import_module(f"minipool.cli.{TOOLS[name.removeprefix('condor_')][0]}")
    tools: tuple[Tool, ...] = getattr(module, "TOOLS", None) or (module.TOOL,)
    return next((tool for tool in tools if tool.name == name), tools[0])


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_option_of_the_manual_is_known(name: str, option: str) -> None:
    if name == "condor_chirp":  # its commands have options of their own
        assert any(f"[{option}" in command.usage for command in COMMANDS.values())
        return
    if name == "condor_qsub":
        assert read_wishes([option, "value"]).options
        return
    tool = table(name)
    with_values = [option, "1", "1", "1"]
    try:
        parsed = parse(tool.options, with_values, unknown="unknown: {}", stop_at_word=tool.stop_at_word)
    except MissingValue as error:
        assert " is not supported here: " in str(error)  # noqa: PT017 (not every option is refused)
    else:
        assert parsed.given


def test_what_is_not_in_a_table_is_not_known() -> None:
    for name in {name for name, _ in OPTIONS} - {"condor_chirp", "condor_qsub"}:
        with pytest.raises(UsageError, match="unknown: -no-such-option"):
            parse(table(name).options, ["-no-such-option"], unknown="unknown: {}")
