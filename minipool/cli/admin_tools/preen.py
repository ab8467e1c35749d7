"""condor_preen: what does not belong into this host's LOG, SPOOL and EXECUTE is shown, or removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.config import Config

MAIL_FAILED: Final = 2
MOUNTS: Final = "/proc/self/mounts"
TOOL = Tool(
    "condor_preen",
    "Find what does not belong into LOG, SPOOL and EXECUTE, and remove it.",
    "[-mail] [-remove] [-verbose] [-debug] [-log FILE]",
    (
        HELP,
        VERSION_OPT,
        Opt("mail", 1, says="tell PREEN_ADMIN by mail instead of writing it here"),
        Opt("remove", 1, says="remove what is found"),
        Opt("verbose", 1, says="show also what is in its place"),
        Opt("debug", 1, says="say on standard error what is looked at"),
        Opt("log", 1, 1, "FILE", "say it in this file"),
    ),
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_preen."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if parsed.words:
        raise UsageError(f"unexpected word: {parsed.words[0]}")
    config = open_session(parsed).config
    lines: list[str] = []
    wrong = failed = 0
    notes: list[str] = []
    for path, belongs in _entries(config):
        notes.append(f"{path}: {'in its place' if belongs else 'does not belong here'}\n")
        if belongs:
            if parsed.has("verbose"):
                lines.append(f"{path} - OK")
            continue
        wrong += 1
        trouble = _remove(path) if parsed.has("remove") else "Not removed"
        failed += parsed.has("remove") and bool(trouble)
        lines.append(f"{path} - {trouble or 'Removed'}")
    if parsed.has("debug"):
        sys.stderr.writelines(notes)
    if log := parsed.value("log"):
        with open(log, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(notes)
    if parsed.has("mail"):
        return (_send(config, lines) if wrong else 0) or int(failed > 0)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(failed > 0)


def _entries(config: Config) -> Iterator[tuple[str, bool]]:
    """Everything in the three directories, and whether it belongs there."""
    from pool.hosts import preen

    rules = preen.rules(config)
    mounts = _mounted()
    for knob in ("LOG", "SPOOL", "EXECUTE"):
        directory = config.path(knob)
        try:
            names = sorted(os.listdir(directory))
        except OSError as error:
            sys.stderr.write(f"{directory}: {error.strerror}\n")
            continue
        if knob == "EXECUTE":
            busy = {name for name in names if any(f"{mount}/".startswith(f"{directory}/{name}/") for mount in mounts)}
            # A sandbox is named after its starter's process; one that is still mounted somewhere is in use whoever made
            # it.
            bad = preen.in_execute(names, lambda pid: os.path.exists(f"/proc/{pid}"), busy)
        else:
            bad = rules.in_log(names) if knob == "LOG" else rules.in_spool(names)
        for name in names:
            yield os.path.join(directory, name), name not in bad


def _mounted() -> list[str]:
    """Where file systems are mounted."""
    from pool.hosts.mounts import as_path

    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            # Blanks alone part the fields: other white space in a path is written as it is.
            return [as_path(line.split(" ")[1]) for line in file]
    except OSError:
        return []


def _remove(path: str) -> str:
    """Remove a file or a whole directory; why it could not be removed, or nothing."""
    from shutil import rmtree

    try:
        # A link is removed, never what it leads to.
        if os.path.isdir(path) and not os.path.islink(path):
            rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        return ""  # somebody else has removed it
    except OSError as error:
        return f"Can't Remove ({error.strerror})"
    return ""


def _send(config: Config, lines: list[str]) -> int:
    from pool.hosts.sendmail import send

    host = config.str("FULL_HOSTNAME")
    to = config.list("PREEN_ADMIN")
    body = "\n".join([f"condor_preen has found this on {host}, which did not belong there:", "", *lines, ""])
    if not to:
        sys.stderr.write("PREEN_ADMIN names nobody to send mail to\n")
        return MAIL_FAILED
    sender = config.str("MAIL_FROM", default="")
    subject = f"[Condor] condor_preen results {host}"
    if trouble := send(config.str("SENDMAIL"), config.str("MAIL", default=""), to, subject, body, sender):
        sys.stderr.write(f"The mail was not sent: {trouble}\n")
        return MAIL_FAILED
    return 0
