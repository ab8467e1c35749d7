"""`pool up`: start a pool, or a host's part of one, and say what can be done next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from minipool.client import host
from minipool.client.session import Session
from pool.base.errors import UserError
from pool.config.values import check_values
from pool.execute import enforcement

TOOL = Tool(
    "pool up",
    "Start a pool on this host.",
    "[--dir DIR] [--config FILE]... [-c KNOB=VALUE]... [--foreground]",
    (
        Opt("c", 1, 1, "KNOB=VALUE", "set a knob; may be repeated"),
        Opt("dir", 1, 1, "DIR", "where the pool lives: logs, queue, sandboxes, sockets, keys"),
        Opt("config", 2, 1, "FILE", "read this configuration file too; may be repeated"),
        Opt("foreground", 1, says="stay in the foreground; the interrupt key stops the pool"),
        HELP,
        VERSION_OPT,
    ),
    notes="Without --dir: LOCAL_DIR of the configuration, else /var/lib/minipool for root and ~/.minipool for others.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool up`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if parsed.words:
        raise UserError(f"pool up: {parsed.words[0]!r} is not an option (a pool's directory is given with --dir)")
    settings = dict(setting_of("pool up", text) for text in parsed.values("c"))
    directory, owned = _directory(parsed.value("dir"))
    files = [os.path.abspath(file) for file in parsed.values("config")]
    for file in files:
        if not os.access(file, os.R_OK):
            raise UserError(f"pool up: the configuration file {file} cannot be read")
    if not owned:
        session = Session.open(overrides=settings)
        _refuse_second(directory, session.run_dir)
        arguments = [part for file in files for part in ("--config", file)]
        arguments += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return _start(parsed, session, directory, arguments, dict(os.environ))
    _refuse_second(directory, os.path.join(directory, "run"))
    first = not host.has_started(directory)
    host.prepare(directory, files, settings)
    # A directory's own configuration is the pool's; CONDOR_CONFIG would lead daemons and tools to another.
    environ = {key: value for key, value in os.environ.items() if key != "CONDOR_CONFIG"}
    try:
        session = Session.open(directory=directory)
        return _start(parsed, session, directory, ["--dir", directory], {**environ, "POOL_DIR": directory})
    except BaseException:
        host.forget(directory, first=first)
        raise


def _refuse_second(directory: str, run_dir: str) -> None:
    pid = host.master_pid(run_dir)
    if pid is not None:
        raise UserError(f"A pool already runs in {directory} (master pid {pid}); stop it with: pool down")


def _start(parsed: Parsed, session: Session, directory: str, arguments: Sequence[str], environ: dict[str, str]) -> int:
    """Start the master with what the session's configuration says, when that can be used."""
    for warning in (*session.config.warnings, *session.config.without_effect):
        sys.stderr.write(f"{warning}\n")
    from pool.config.listed_daemons import listed_daemons  # with dataclasses, which take long to import

    daemons = listed_daemons(session.config)
    check_values(session.config)  # a wrong value is told here, with its file and line
    if not daemons:
        raise session.config.error("DAEMON_LIST", "DAEMON_LIST names no daemon that the master is to run")
    if parsed.has("foreground"):
        sys.stdout.flush()
        # In place of this process: who supervises it (systemd, a container) speaks to the master itself.
        os.execve(sys.executable, [sys.executable, "-m", "daemons", "master", *arguments], environ)
    return _started(session, directory, arguments, environ, explicit=parsed.has("dir"))


def _started(
    session: Session, directory: str, arguments: Sequence[str], environ: dict[str, str], explicit: bool
) -> int:
    pid = host.start(directory, arguments, environ=environ)
    daemons = {name.upper() for name in session.config.list("DAEMON_LIST", default=["STARTD"])}
    try:
        troubles = host.slot_troubles(session) if "STARTD" in daemons else []
        ads = host.wait_for_slots(session) if "STARTD" in daemons else []
    except BaseException:  # an interrupt among them
        host.stop(session, "fast")
        raise
    for trouble in troubles:
        sys.stderr.write(f"WARNING: {trouble}\n")
    slots = len(ads)
    execute = session.config.path("EXECUTE")
    # Only root's pool runs jobs as other accounts, which have to reach their sandboxes.
    if os.geteuid() == 0 and "STARTD" in daemons:
        for trouble in host.unreachable(host.job_paths(execute)):
            sys.stderr.write(f"WARNING: {trouble}\n")
    has = f", {slots} slot{'s' * (slots != 1)}" if "STARTD" in daemons else ""
    sys.stdout.write(f"The pool in {directory} is up (master pid {pid}{has}).\n")
    if "STARTD" in daemons and not slots:
        sys.stderr.write(f"WARNING: the collector has no slot of this host yet; see {directory}/log/StartLog\n")
    if ads and (weaker := enforcement.said({name: ads[0].eval_str(name) for name in enforcement.ATTRIBUTES})):
        sys.stdout.write(f"NOTE: {weaker}.\n")
    if explicit:
        sys.stdout.write(f"  export POOL_DIR={directory}    # so that the tools find it\n")
    sys.stdout.write(
        "  condor_status            # its machines\n"
        "  condor_submit FILE       # queue jobs\n"
        "  condor_q                 # see them (live: pool watch)\n"
        "  pool down                # stop it\n"
    )
    return 0


def setting_of(tool: str, text: str) -> tuple[str, str]:
    """What the argument of a tool's -c sets."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"{tool}: -c {text!r} is not a setting (expected KNOB=VALUE)")
    return key.strip(), value.strip()


def _directory(given: str | None) -> tuple[str, bool]:
    """Where the pool lives, and whether its configuration is the file in there."""
    if given is not None:
        return os.path.abspath(given), True
    config = Session.open().config
    directory = os.path.abspath(config.path("LOCAL_DIR"))
    own = os.path.join(directory, "config")
    # What `pool up` wrote itself is no configuration of the administrator's.
    read = [file for file in config.files if not file.endswith("/run/up.config")]
    return directory, "CONDOR_CONFIG" not in os.environ and (not read or read[0] == own)
