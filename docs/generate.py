"""Write the pages that are made from the tables that the code uses: `python -m docs.generate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pool.config import knobs, templates
from pool.submit import commands

HERE = Path(__file__).parent


def configuration() -> str:
    """docs/configuration.md: every knob, and every template."""
    lines = [
        "# Configuration",
        "",
        "Made from the table that the code uses; do not edit. `condor_config_val -verbose KNOB` tells a knob's value "
        "and where it was set.",
        "",
        "A configuration is lines of `NAME = value`. `$(NAME)` stands for the value of another name, `$(NAME:x)` for x "
        "where that is not set, `$ENV(NAME)` for an environment variable. `NAME = $(NAME) more` adds to an earlier "
        "value. `SCHEDD.NAME` counts for the schedd alone. `if`, `elif`, `else`, `endif` choose lines; "
        "`include : FILE` reads another file; `use ROLE : Submit` puts a template in place. A backslash at the end of "
        "a line continues it, and `NAME @=end` begins a value of several lines that ends with `@end`.",
        "",
        "The first of these that is found is read: `$CONDOR_CONFIG`, `$POOL_DIR/config`, `~/.minipool/config`, "
        "`/etc/minipool/config`, `/var/lib/minipool/config`. Then come LOCAL_CONFIG_FILE and the files of "
        "LOCAL_CONFIG_DIR, then environment variables `_CONDOR_NAME`. No file is needed.",
        "",
        "A name with `<N>` or `<NAME>` in it stands for as many knobs as there are numbers or names. **R** marks what "
        "takes effect only when the daemon is started again.",
    ]
    for section, rows in knobs.sections():
        lines += ["", f"## {section}", "", "| knob | type | default | range | |", "|---|---|---|---|---|"]
        for knob in rows:
            default = f"`{_cell(knob.default)}`" if knob.default else ""
            allowed = knob.range_text() if knob.range else ""
            mark = " **R**" if knob.restart else ""
            lines.append(f"| `{_cell(knob.name)}` | {knob.kind} | {default} | {allowed} | {knob.sentence}{mark} |")
    lines += ["", "## Templates", "", "`use CATEGORY : NAME`, some with arguments in parentheses."]
    for category in templates.categories():
        lines += ["", f"### use {category}", ""]
        for name in templates.names(category):
            lines += [f"`{name}`", "", "```", templates.text(category, name) or "", "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def submit_commands() -> str:
    """docs/submit-commands.md: every submit command."""
    lines = [
        "# Submit commands",
        "",
        "Made from the table that the code uses; do not edit.",
        "",
        "A submit description is lines of `command = value` up to a `queue` statement. `+Name = expression` sets a job "
        "attribute as it stands. The second column is the attribute that a command sets, the third how its value is "
        "read: *string*; *unquoted*, a string without its quotes; *list*, names; *int*, *bool*, *expr*, *policy*, "
        "expressions; *file* and *log*, paths that start from `initialdir`; *special*, see the sentence.",
    ]
    for section, rows in commands.ROWS:
        lines += ["", f"## {section}", "", "| command | attribute | value | |", "|---|---|---|---|"]
        for name, attribute, kind, sentence in rows:
            shown = f"`{_cell(attribute)}`" if attribute else ""
            lines.append(f"| `{_cell(name)}` | {shown} | {kind.removeprefix('alias ')} | {sentence} |")
    lines += [
        "",
        "## Not supported",
        "",
        "These are refused by name:",
        "",
        *(f"- `{prefix}{'...' if prefix.endswith('_') else ''}`: {what}" for prefix, what in commands.REFUSED_PREFIXES),
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """`text` inside a table."""
    return text.replace("|", "\\|").replace("\n", " ")


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "submit-commands.md": submit_commands,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
