"""Write the pages that are made from the tables that the code uses: `python -m docs.generate`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from minipool.cli.names import POOL_VERBS, TOOLS
from minipool.cli.tool import usage
from pool.config import knobs, templates
from pool.config.without_effect import WITHOUT_EFFECT
from pool.submit import commands
from pool.submit.without_effect import WITHOUT_EFFECT as WITHOUT_COMMANDS
from protocol import needs
from protocol.auth import x509
from protocol.authorize import implied
from protocol.identity import Who

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
        "`$CONDOR_CONFIG` names a file, `$POOL_DIR` a directory with a file named `config`: what is named is read, and "
        "refused when it is not there or describes the pool of another directory. Where neither is set, the first of "
        "these that is found is read: `~/.minipool/config` (but for root), `/etc/minipool/config`, "
        "`/var/lib/minipool/config`. Then come LOCAL_CONFIG_FILE and the files of "
        "LOCAL_CONFIG_DIR, then environment variables `_CONDOR_NAME`. No file is needed.",
        "",
        "A name with `<N>` or `<NAME>` in it stands for as many knobs as there are numbers or names. **R** marks what "
        "takes effect only when the daemon is started again. **-** marks knobs of HTCondor's that are known, so that "
        "its configurations load, and that nothing here reads; `pool up` and the master's log warn of those that are "
        "set. A central manager refuses group quotas and concurrency limits, a master daemons that do not exist.",
    ]
    for section, rows in knobs.sections():
        lines += ["", f"## {section}", "", "| knob | type | default | range | |", "|---|---|---|---|---|"]
        for knob in rows:
            default = f"`{_cell(knob.default)}`" if knob.default else ""
            allowed = knob.range_text() if knob.range else ""
            mark = " **-**" if knob.name in WITHOUT_EFFECT else " **R**" if knob.restart else ""
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
        "expressions; *file* and *log*, paths that start from `initialdir`; *special*, see the sentence. **-** marks "
        "commands that are kept in the job's ad and do nothing, with the reason; condor_submit warns of them.",
    ]
    for section, rows in commands.ROWS:
        lines += ["", f"## {section}", "", "| command | attribute | value | |", "|---|---|---|---|"]
        for name, attribute, kind, sentence in rows:
            shown = f"`{_cell(attribute)}`" if attribute else ""
            idle = WITHOUT_COMMANDS.get(name)
            mark = f" **-** ({idle.why})" if idle is not None else ""
            lines.append(f"| `{_cell(name)}` | {shown} | {kind.removeprefix('alias ')} | {sentence}{mark} |")
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


def tools() -> str:
    """docs/tools.md: every command-line tool with its options."""
    lines = [
        "# Tools",
        "",
        "Made from the option tables that the tools use; do not edit.",
        "",
        "Each `condor_NAME` is also `pool NAME`. Options may be shortened (`-const` for `-constraint`) and may be "
        "written with two dashes; `[:...]` marks those that take a qualifier after a colon. Every tool has `-help`.",
        "",
        "With `-json`, tools that show any number of things print a list of objects, `[` and `]` when there are none: "
        "jobs, slots, users, findings, what became of each job. Tools that say one thing print one object. Names "
        "are those of attributes, times are seconds since 1970, and the exit status is that of the same command "
        "without `-json`; what went wrong is on standard error, as always.",
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
        "Made from the tables that the code uses (`protocol/needs.py`); do not edit.",
        "",
        "For each process, and for each connection that is not its port: the messages that it answers, what the sender "
        "needs, and whether a host of the pool has it by its certificate alone. So the columns *execute* and *submit* "
        "are what somebody reaches who has broken into such a host. A level comes from a duty or from an `ALLOW_*` "
        "list, a duty from nothing but a certificate; root and the account that runs the pool have all of them on "
        "their host, and others who were given `ADVERTISE_STARTD`, `ADVERTISE_SCHEDD` or `NEGOTIATOR` have the duty "
        "that goes with it. *TICKET* is a secret made for one claim or one transfer, *PAIR* the socket pair that a "
        "process shares with its parent.",
        "",
        "Beyond the table:",
        "",
        "- An ad from another host than the central manager names, in Machine and behind the last `@` of its name, the "
        "host of the sender's certificate, and its addresses lead there; only such ads can be taken back.",
        "- A claim id works for the schedd that used it first, known by its host. A schedd announces work and claims "
        "slots under a name of its own host.",
        "- A startd is heard about the claims that its schedd holds there, and no others. A starter's ticket "
        "works on the host of its claim's startd alone.",
        "- Jobs are changed by their owner, by who is named in `QUEUE_SUPER_USERS` and came with an account of the "
        "host or a token, and with the level `ADMINISTRATOR`. A host owns no jobs.",
    ]
    for side, rows in needs.SIDES.items():
        lines += ["", f"## {side[0].upper()}{side[1:]}", ""]
        own = {tag: need for tag, need in rows.items() if tag not in needs.EVERY_DAEMON}
        lines += _reach("message", own)
        if own != dict(rows):
            lines += ["", "And what [every daemon](#every-daemon) answers."]
    lines += ["", "## Every daemon", "", *_reach("message", needs.EVERY_DAEMON)]
    lines += ["", "## Ads", "", "To publish an ad, or to take it back, by its type:", ""]
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


def _a_host(duty: str) -> Who:
    levels = implied(x509.granted(frozenset({duty})))
    return Who(identity="", method="SSL", levels=levels, duties=frozenset({duty}))


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "security-duties.md": security_duties,
    "submit-commands.md": submit_commands,
    "tools.md": tools,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
