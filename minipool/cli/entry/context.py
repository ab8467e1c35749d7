"""What most tools begin with: the pool that the options point to, and the schedd whose jobs they are about."""

from __future__ import annotations

import sys
import time

from minipool.cli.entry.options import Parsed
from minipool.client.session import Session
from pool.base.errors import ConfigError
from pool.config import Config

_LANGUAGE = (
    "CLASSAD_ENABLE_USER_HOME",
    "CLASSAD_USER_LIBS",
    "CLASSAD_USER_MAP_NAMES",
    "CLASSAD_USER_PYTHON_MODULES",
    "STRICT_CLASSAD_EVALUATION",
    "TOOL_CLASSAD_USER_MAP_NAMES",
)
"""Knobs that say something of the language of expressions in a tool."""


def open_session(parsed: Parsed, *, pool: str = "pool", more: str | None = None) -> Session:
    """The pool of -pool (or what the tool calls that option), or the one that the configuration names.

    `more` is a configuration file that is read behind the others.
    """
    session = Session.open(pool=parsed.value(pool))
    if more is not None:
        session = Session.open(pool=parsed.value(pool), config=[*session.config.files, more])
    install_language(session.config)
    if parsed.has("debug"):
        sys.stderr.write("".join(f"{warning}\n" for warning in session.config.warnings))
    return session


def short_address(address: str) -> str:
    """A sinful string without what nobody reads: `<127.0.0.1:9618?...`."""
    before, mark, _ = address.partition("?")
    return f"{before}?..." if mark else address


def stamp(when: float | None = None) -> str:
    """The date in a table's banner: `11/20/26 23:35:32`."""
    return time.strftime("%m/%d/%y %H:%M:%S", time.localtime(when))


def install_language(config: Config) -> None:
    """What the configuration adds to expressions; a tool goes on without what it cannot have, and says so."""
    # To import the language's installers takes longer than many a tool runs.
    if not any(config.is_set(name) for name in _LANGUAGE):
        return  # as in most pools; many tools evaluate nothing, and need not learn to
    from pool.config import language

    language.set_mode(config)
    for said in language.install(config, "TOOL", _home):
        sys.stderr.write(f"WARNING: ignoring {said}\n")
    try:
        language.load(config)
    except ConfigError as error:
        sys.stderr.write(f"WARNING: {error}\n")


def _home(name: str) -> str | None:
    """The home of an account."""
    import pwd

    try:
        return pwd.getpwnam(name).pw_dir or None
    except (KeyError, ValueError):
        return None
