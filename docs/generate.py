"""Write the pages that are made from the tables that the code uses: `python -m docs.generate`.

A page is a function from tables to text, without a look at the host or the clock: a test makes every page again and
compares it with what is checked in. Manual pages and shell completion are made by `manual`.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from importlib import import_module
from itertools import groupby
from pathlib import Path

from docs import manual
from minipool.cli.entry.names import POOL_VERBS, TOOLS
from minipool.cli.entry.tool import usage
from pool.config import knobs, templates
from pool.jobs.claims import diagram as claims
from pool.jobs.execution import diagram as executions
from pool.slots import diagram
from pool.submit import commands
from pool.submit.without_effect import WITHOUT_EFFECT as WITHOUT_COMMANDS
from protocol.security import needs, x509
from protocol.security.authorize import implied
from protocol.security.identity import Who
from tests import layers

HERE = Path(__file__).parent
SHARE = HERE / "share"


def configuration() -> str:
    """docs/configuration.md: every knob, and every template."""
    lines = [
        "# Configuration",
        "",
        "Generated from the table that the code uses; do not edit. `condor_config_val -verbose KNOB` prints a knob's "
        "value and where it was set.",
        "",
        "A configuration consists of lines `NAME = value`. `$(NAME)` stands for the value of another name, `$(NAME:x)` "
        "for that value or, if it is not set, for x, and `$ENV(NAME)` for an environment variable. "
        "`NAME = $(NAME) more` appends to an earlier value. `SCHEDD.NAME` applies to the schedd only. `if`, `elif`, "
        "`else` and `endif` select lines; `include : FILE` reads another file; `use ROLE : Submit` inserts a template. "
        "A backslash at the end of a line continues it, and `NAME @=end` begins a value of several lines that ends "
        "with `@end`.",
        "",
        "`$CONDOR_CONFIG` names a file, `$POOL_DIR` a directory with a file named `config`. It is an error if the file "
        "does not exist, or if it describes the pool of another directory. If neither variable is set, the first of "
        "these files that exists is read: `~/.minipool/config` (except for root), `/etc/minipool/config`, "
        "`/var/lib/minipool/config`. After that come LOCAL_CONFIG_FILE and the files of LOCAL_CONFIG_DIR, and then "
        "environment variables `_CONDOR_NAME`. No file is required.",
        "",
        "A name with `<N>` or `<NAME>` in it stands for one knob for each number or name. **R** marks knobs that take "
        "effect only when the daemon restarts. **-** marks knobs of HTCondor that are known, so that its "
        "configurations load, but have no effect here; `pool up` and the master's log warn of those that are set. A "
        "master refuses daemons that do not exist.",
    ]
    for section, rows in knobs.sections():
        lines += ["", f"## {section}", "", "| knob | type | default | range | |", "|---|---|---|---|---|"]
        for knob in rows:
            default = f"`{_cell(knob.default)}`" if knob.default else ""
            allowed = knob.range_text() if knob.range else ""
            mark = " **-**" if not knob.has_effect else " **R**" if knob.restart else ""
            lines.append(f"| `{_cell(knob.name)}` | {knob.kind} | {default} | {allowed} | {knob.sentence}{mark} |")
    lines += [
        "",
        "## Templates",
        "",
        "A line `use CATEGORY : NAME` inserts a template; some take arguments in parentheses.",
    ]
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
        "Generated from the table that the code uses; do not edit.",
        "",
        "A submit description consists of lines `command = value`, followed by a `queue` statement. `+Name = "
        "expression` sets a job attribute to that expression. The second column is the attribute that a command sets, "
        "the third how its value is read: *string*; *unquoted*, a string whose quotes are removed; *list*, names; "
        "*int*, *bool*, *expr*, *policy*, expressions; *file* and *log*, paths relative to `initialdir`; *special*, "
        "as described. **-** marks commands that are stored in the job's ad but have no effect, with the reason; "
        "`condor_submit` warns of them.",
    ]
    for section, rows in groupby(commands.COMMANDS, lambda command: command.section):
        lines += ["", f"## {section}", "", "| command | attribute | value | |", "|---|---|---|---|"]
        for one in rows:
            shown = f"`{_cell(one.attribute)}`" if one.attribute else ""
            idle = WITHOUT_COMMANDS.get(one.name)
            mark = f" **-** ({idle.why})" if idle is not None else ""
            kind = one.kind.removeprefix("alias ")
            lines.append(f"| `{_cell(one.name)}` | {shown} | {kind} | {one.sentence}{mark} |")
    lines += [
        "",
        "## Not supported",
        "",
        "These commands are refused:",
        "",
        *(f"- `{prefix}{'...' if prefix.endswith('_') else ''}`: {what}" for prefix, what in commands.REFUSED_PREFIXES),
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """`text` inside a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def tools() -> str:
    """docs/tools.md: every command-line tool with its options."""
    lines = [
        "# Tools",
        "",
        "Generated from the option tables that the tools use; do not edit.",
        "",
        "Each `condor_NAME` is also `pool NAME`. Options may be abbreviated (`-const` for `-constraint`) and may be "
        "written with two dashes; `[:...]` marks those that take a qualifier after a colon. Every tool has `-help`.",
        "",
        "With `-json`, tools that show jobs, slots, users or other things of which there can be any number print a "
        "list of objects (`[` and `]` when there are none); tools with a single answer print one object. Names are "
        "those of attributes, times are seconds since 1970, the exit status is the same as without `-json`, and "
        "errors are on standard error as always.",
    ]
    for name, (summary, text) in all_tools().items():
        lines += ["", f"## {name}", "", summary, "", "```", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def all_tools() -> dict[str, tuple[str, str]]:
    """Each tool's summary and usage text, by its name: those of `pool` first."""
    found: dict[str, tuple[str, str]] = {}
    for verb, (module, summary) in (*POOL_VERBS.items(), *TOOLS.items()):
        loaded = import_module(f"minipool.cli.{module}")
        if hasattr(loaded, "USAGE"):
            found[f"condor_{verb}" if verb in TOOLS else verb] = (summary[0].upper() + summary[1:] + ".", loaded.USAGE)
            continue
        for tool in getattr(loaded, "TOOLS", None) or (loaded.TOOL,):
            found[tool.name] = (tool.summary, usage(tool))
    return dict(sorted(found.items(), key=lambda pair: (not pair[0].startswith("pool "), pair[0])))


def security_duties() -> str:
    """docs/security-duties.md: what each message takes, and which broken host reaches what."""
    lines = [
        "# Who may send what",
        "",
        "Generated from the tables that the code uses (`protocol/security/needs.py`); do not edit.",
        "",
        "For each process, and for each further kind of connection, the tables list the messages that are answered, "
        "what the sender needs, and whether a host of the pool has that by its certificate alone. The columns "
        "*execute* and *submit* are therefore what somebody can reach who has broken into such a host. A level comes "
        "from a duty or from an `ALLOW_*` list, a duty only from a certificate. Root and the account that runs the "
        "pool have all of them on their own host, and whoever was given `ADVERTISE_STARTD`, `ADVERTISE_SCHEDD` or "
        "`NEGOTIATOR` has the duty that goes with it. *TICKET* is a secret made for one claim or one transfer, *PAIR* "
        "the socket pair that a process shares with its parent.",
        "",
        "These rules apply in addition to the tables:",
        "",
        "- In an ad from a host other than the central manager, Machine and the part of the name after the last `@` "
        "must be the host of the sender's certificate, and its addresses must lead there. A host can invalidate only "
        "such ads.",
        "- A claim id works only for the schedd that used it first, identified by its host. A schedd announces work "
        "and claims slots under a name of its own host.",
        "- A schedd listens to a startd only about the claims that it holds there. A starter's ticket works only on "
        "the host of its claim's startd.",
        "- Jobs can be changed by their owner, by users in `QUEUE_SUPER_USERS` who authenticated with an account of "
        "the host or a token, and with the level `ADMINISTRATOR`. A host owns no jobs.",
    ]
    for side, rows in needs.SIDES.items():
        lines += ["", f"## {side[0].upper()}{side[1:]}", ""]
        own = {tag: need for tag, need in rows.items() if tag not in needs.EVERY_DAEMON}
        lines += _reach("message", own)
        if own != dict(rows):
            lines += ["", "And the messages that [every daemon](#every-daemon) answers."]
    lines += ["", "## Every daemon", "", *_reach("message", needs.EVERY_DAEMON)]
    lines += ["", "## Ads", "", "What is needed to publish or invalidate an ad, by its type:", ""]
    return "\n".join([*lines, *_reach("type", {**needs.ADS, "all others": needs.OTHER_ADS})]) + "\n"


def _reach(what: str, rows: needs.Needs) -> list[str]:
    """A table of what is needed, and of the hosts that have it."""
    duties = (needs.EXECUTE, needs.SUBMIT)
    lines = [f"| {what} | level | duty | {' | '.join(duties)} |", "|---|---|---|---|---|"]
    for name, need in rows.items():
        marks = ("yes" if not need.objection(_a_host(duty)) else "" for duty in duties)
        asked = ", ".join([*sorted(need.duties), *([need.method] if need.method else [])])
        lines.append(f"| `{name}` | {need.level.value} | {asked} | {' | '.join(marks)} |")
    return lines


def packages() -> str:
    """docs/packages.md: every package, and what its own first line says of it."""
    lines = [
        "# Packages",
        "",
        "Generated from the first line of each package; do not edit. [architecture.md](architecture.md) shows how they "
        "work together. `python -m tests.layers` draws which imports which.",
    ]
    for top in layers.TOPS:
        lines += ["", f"## {top}", "", "| package | what is in it |", "|---|---|"]
        for name in sorted(one for one in layers.PACKAGES if one.partition(".")[0] == top):
            tree = ast.parse(layers.FILES[name].read_text(encoding="utf-8"))
            said = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
            lines.append(f"| `{name.replace('.', '/')}` | {_cell(said)} |")
    return "\n".join(lines) + "\n"


def _a_host(duty: str) -> Who:
    levels = implied(x509.granted(frozenset({duty})))
    return Who(identity="", method="SSL", levels=levels, duties=frozenset({duty}))


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "claims.md": claims.page,
    "executions.md": executions.page,
    "packages.md": packages,
    "security-duties.md": security_duties,
    "slot-states.md": diagram.page,
    "submit-commands.md": submit_commands,
    "tools.md": tools,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
    shutil.rmtree(SHARE, ignore_errors=True)  # a tool that is gone leaves no page
    for path, text in manual.files().items():
        (SHARE / path).parent.mkdir(parents=True, exist_ok=True)
        (SHARE / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
